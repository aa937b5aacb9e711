//! TLS, with an authority of our own.

use std::io::{Read, Write};
use std::net::TcpListener;

use super::*;
use auxo_harness::redis::tls::Certificates;

#[tokio::test]
async fn a_server_is_trusted_when_our_authority_signed_for_its_name() {
    let certificates = Certificates::make();
    let (server, port) = certificates.serve("no");
    let ca = certificates.file("ca.pem");
    let ca = ca.to_str().unwrap();
    let link = open(&format!("rediss://127.0.0.1:{port}?ca={ca}")).await;
    assert_eq!(bump(&link, KEY).await.unwrap(), 1);
    let mut messages = link.subscribe("auxo{0}:events").await.unwrap();
    server.ask(&["PUBLISH", "auxo{0}:events", "hello"]);
    assert_eq!(heard(&mut messages).await.unwrap(), "hello");

    let other = Certificates::make();
    let other = other.file("ca.pem");
    let url = format!("rediss://127.0.0.1:{port}?ca={}", other.to_str().unwrap());
    is(
        &refused(&url).await,
        Code::Unavailable,
        "invalid peer certificate",
    );
    let url = format!("rediss://127.0.0.2:{port}?ca={ca}");
    let error = refused(&url).await;
    assert_eq!(error.code(), Code::Unavailable, "{error}");
}

#[tokio::test]
async fn a_port_that_speaks_with_tls_or_without_says_which_url_to_use() {
    let certificates = Certificates::make();
    let (server, port) = certificates.serve("no");
    let ca = certificates.file("ca.pem");
    let ca = ca.to_str().unwrap();
    for kind in ["rediss", "rediss+cluster"] {
        let url = format!("{kind}://{}?ca={ca}", server.address());
        let error = refused(&url).await;
        is(
            &error,
            Code::Unavailable,
            "must begin with redis, not rediss",
        );
    }
    for kind in ["redis", "redis+cluster"] {
        let error = refused(&format!("{kind}://127.0.0.1:{port}")).await;
        is(&error, Code::Unavailable, "must begin with rediss");
    }
    // What answers at once need not be waited for.
    let error = answers("-ERR unknown command\r\n").await;
    is(
        &error,
        Code::Unavailable,
        "must begin with redis, not rediss",
    );
}

/// How a link with TLS fails at somebody who says this to everything.
async fn answers(words: &'static str) -> Error {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("rediss://{}?timeout=60s", listener.local_addr().unwrap());
    let answering = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        socket.write_all(words.as_bytes()).unwrap();
        // Until the other side has gone, so that it is not that which it sees.
        let _ = socket.read_to_end(&mut Vec::new());
    });
    let error = refused(&url).await;
    answering.join().unwrap();
    error
}

#[tokio::test]
async fn a_server_that_wants_our_certificate_gets_it() {
    let certificates = Certificates::make();
    let (_server, port) = certificates.serve("yes");
    let file = |name| certificates.file(name).to_str().unwrap().to_owned();
    let trusting = format!("rediss://localhost:{port}?ca={}", file("ca.pem"));
    assert_eq!(refused(&trusting).await.code(), Code::Unavailable);
    let identity = format!(
        "{trusting}&cert={}&key={}",
        file("client.pem"),
        file("client.key")
    );
    let link = open(&identity).await;
    assert_eq!(bump(&link, KEY).await.unwrap(), 1);
}

#[tokio::test]
async fn a_file_that_is_not_what_it_should_be_is_named() {
    let certificates = Certificates::make();
    let key = certificates.file("ca.key");
    let url = format!("rediss://127.0.0.1:1?ca={}", key.to_str().unwrap());
    is(
        &refused(&url).await,
        Code::BadRequest,
        "ca.key: there is no certificate in it",
    );
    let url = "rediss://127.0.0.1:1?ca=/no/such/file";
    is(&refused(url).await, Code::BadRequest, "/no/such/file");
}
