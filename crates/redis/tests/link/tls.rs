//! TLS, with an authority of our own.

use super::servers::Single;
use super::servers::tls::Certificates;
use super::*;

/// A server with a second port for TLS. Its clients need a certificate, or not.
fn server(certificates: &Certificates, clients: &str) -> (Single, u16) {
    let file = |name| certificates.file(name).to_str().unwrap().to_owned();
    let port = servers::free_port();
    let server = Single::start(&[
        "--tls-port",
        &port.to_string(),
        "--tls-cert-file",
        &file("server.pem"),
        "--tls-key-file",
        &file("server.key"),
        "--tls-ca-cert-file",
        &file("ca.pem"),
        "--tls-auth-clients",
        clients,
    ]);
    (server, port)
}

#[tokio::test]
async fn a_server_is_trusted_when_our_authority_signed_for_its_name() {
    let certificates = Certificates::make();
    let (server, port) = server(&certificates, "no");
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
    let url = format!("rediss://{}?ca={ca}&timeout=5s", server.address());
    assert_eq!(refused(&url).await.code(), Code::Unavailable);
}

#[tokio::test]
async fn a_server_that_wants_our_certificate_gets_it() {
    let certificates = Certificates::make();
    let (_server, port) = server(&certificates, "yes");
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
