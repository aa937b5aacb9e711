//! The command line over gRPC, with TLS and tokens.

use serde_json::Value;

use crate::server::{Server, Site};
use auxo_harness::command::{Ran, auxo, finish};

/// A server with TLS, over gRPC.
fn serve(site: &Site, more: &[&str]) -> Server {
    let tls = site.tls();
    let mut flags = vec![
        "--http",
        "127.0.0.1:0",
        "--beanstalk",
        "off",
        "--log",
        "trace",
    ];
    flags.extend(tls.iter().map(String::as_str));
    flags.extend(more);
    let mut server = site.serve(&flags);
    server.url = server.url.replace("http", "grpc");
    assert!(
        server.url.starts_with("grpcs://127.0.0.1:"),
        "{}",
        server.url
    );
    server
}

#[test]
fn every_verb_works_over_grpcs_as_far_as_its_token_goes() {
    let site = Site::new();
    let narrow = site.token(&["push:mail.*", "lease:mail.*", "read:mail.*"]);
    let admin = site.token(&["admin:*"]);
    let server = serve(&site, &[]);
    let ca = site.path("ca.pem");
    let run = |args: &[&str], token: Option<&str>| server.run(args, token, Some(&ca));
    let fine = |args: &[&str], token: &str| {
        let ran = run(args, Some(token));
        assert_eq!(ran.code, 0, "{args:?}: {ran:?}");
        ran.out
    };
    let lease = |token: &str| {
        fine(&["push", "mail.in", "dear ada"], token);
        let leased = fine(&["lease", "mail.in", "--json"], token);
        let leased: Value = serde_json::from_str(&leased).unwrap();
        let text = |name: &str| leased[name].as_str().unwrap().to_owned();
        (text("id"), text("token"))
    };

    let (id, held) = lease(&narrow);
    fine(&["extend", &held], &narrow);
    fine(&["job", &id], &narrow);
    fine(&["explain", &id], &narrow);
    fine(&["jobs", "--queue", "mail.in"], &narrow);
    fine(&["ack", &held], &narrow);
    for (verb, more) in [
        ("fail", &["--error", "no"][..]),
        ("release", &[]),
        ("bury", &[]),
        ("snooze", &["--delay", "1h"]),
    ] {
        let (_, held) = lease(&narrow);
        fine(&[&[verb, &*held][..], more].concat(), &narrow);
        // What waits elsewhere is in the way of the next one.
        fine(&["purge", "mail.in", "--yes"], &admin);
    }
    for (args, token, code) in [
        (&["push", "bills", "x"][..], Some(&*narrow), "forbidden"),
        (&["lease", "bills"], Some(&narrow), "forbidden"),
        (&["queues"], Some(&narrow), "forbidden"),
        (&["pause", "mail.in"], Some(&narrow), "forbidden"),
        (&["queues"], Some("auxo_aaaaaaaa_wrong"), "unauthorized"),
        (&["queues"], None, "unauthorized"),
    ] {
        let ran = run(args, token);
        assert_eq!(ran.code, 1, "{args:?}: {ran:?}");
        let code = format!("code: {code}");
        assert!(ran.err.contains(&code), "{args:?}: {ran:?}");
    }
    let pushed = fine(&["push", "mail.in", "x", "--delay", "1h", "--json"], &admin);
    let pushed: Value = serde_json::from_str(&pushed).unwrap();
    let id = pushed["id"].as_str().unwrap();
    for args in [
        &["queues"][..],
        &["pause", "mail.in"],
        &["resume", "mail.in"],
        &["kick", id],
        &["reschedule", id, "--delay", "1h"],
        &["cancel", id],
        &["topics", "list"],
        &["schedules", "list"],
        &["audit"],
    ] {
        fine(args, &admin);
    }
    // From files that are named, and nothing in the environment.
    std::fs::write(site.path("token"), format!("{admin}\n")).unwrap();
    let (file, ca_text) = (site.text("token"), site.text("ca.pem"));
    let named = ["queues", "--token-file", &file, "--ca", &ca_text];
    let ran = server.run(&named, None, None);
    assert_eq!(ran.code, 0, "{ran:?}");

    let log = server.stop();
    let audit = std::fs::read_to_string(site.path("data/audit.jsonl")).unwrap();
    assert!(audit.contains("\"via\":\"grpc\""), "{audit}");
    for token in [&narrow, &admin] {
        let secret = token.rsplit('_').next().unwrap();
        assert!(!log.contains(secret), "a token is in the log");
        assert!(!audit.contains(secret), "a token is in the audit log");
    }
}

#[test]
fn who_cannot_be_trusted_is_not_spoken_to_and_the_way_out_is_told() {
    let site = Site::new();
    let admin = site.token(&["admin:*"]);
    let mut server = serve(&site, &[]);
    let ca = site.path("ca.pem");
    let told = |ran: Ran, words: &[&str]| {
        assert_eq!(ran.code, 1, "{ran:?}");
        for word in words {
            assert!(ran.err.contains(word), "{word}: {ran:?}");
        }
        assert!(!ran.err.contains("auxo serve"), "it is running: {ran:?}");
    };
    // An authority that did not sign it.
    let other = site.path("client.pem");
    let queues = &["queues"][..];
    told(
        server.run(queues, Some(&admin), Some(&other)),
        &["--ca FILE"],
    );
    let url = server.url.clone();
    server.url = url.replace("grpcs", "https");
    told(
        server.run(queues, Some(&admin), Some(&other)),
        &["--ca FILE"],
    );
    drop(server);

    // A name that the certificate is not for: this one is for ada.
    let (cert, key) = (site.text("client.pem"), site.text("client.key"));
    let flags = ["--http", "127.0.0.1:0", "--beanstalk", "off"];
    let named = ["--tls-cert", &cert, "--tls-key", &key];
    let mut server = site.serve(&[&flags[..], &named].concat());
    server.url = server.url.replace("http", "grpc");
    let ran = server.run(queues, Some(&admin), Some(&ca));
    told(
        ran,
        &["call the server by a name that its certificate is for"],
    );
    drop(server);

    // Certificates of clients.
    let client_ca = site.text("ca.pem");
    let server = serve(&site, &["--tls-client-ca", &client_ca]);
    told(
        server.run(queues, Some(&admin), Some(&ca)),
        &["--client-cert", "--client-key"],
    );
    let mut command = auxo();
    command
        .args(["queues", "--client-cert", &site.text("client.pem")])
        .args(["--client-key", &site.text("client.key")])
        .env("AUXO_SERVER", &server.url)
        .env("AUXO_TOKEN", &admin)
        .env("AUXO_CA", &ca);
    let ran = finish(command, b"");
    assert_eq!(ran.code, 0, "{ran:?}");
    drop(server);

    // No TLS there at all.
    let mut server = site.serve(&flags);
    server.url = server.url.replace("http", "grpcs");
    let ran = server.run(queues, Some(&admin), Some(&ca));
    told(ran, &["does the server speak TLS there?", "grpc://"]);
    server.url = server.url.replace("grpcs", "grpc");
    let ran = server.run(queues, Some(&admin), None);
    assert_eq!(ran.code, 0, "{ran:?}");
}
