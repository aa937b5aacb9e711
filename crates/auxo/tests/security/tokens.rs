//! Tokens from the command that makes them to the server that wants them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;

use auxo_proto::v1;
use serde_json::Value;
use tonic::Code;

use crate::server::Site;

/// Looks like nothing else that is written anywhere.
const CANARY: &str = "kanarienvogel";

#[test]
fn a_token_is_shown_once_kept_as_a_hash_and_listed_by_its_id() {
    let site = Site::new();
    let ran = site.local(&[
        "token",
        "new",
        "--name",
        "mailer",
        "--allow",
        "push:mail.*",
        "--expires",
        "30d",
    ]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let token = ran.out.trim();
    let parts: Vec<&str> = token.split('_').collect();
    let [prefix, id, secret] = parts[..] else {
        panic!("{token}");
    };
    assert_eq!(prefix, "auxo");
    assert!(ran.err.contains(id) && !ran.err.contains(secret), "{ran:?}");
    for (name, mode) in [
        ("data", 0o700),
        ("data/tokens.toml", 0o600),
        ("data/audit.jsonl", 0o600),
    ] {
        let is = site.path(name).metadata().unwrap().permissions().mode();
        assert_eq!(is & 0o777, mode, "{name}");
        if mode == 0o600 {
            let text = std::fs::read_to_string(site.path(name)).unwrap();
            assert!(
                text.contains(id) && !text.contains(secret),
                "{name}: {text}"
            );
        }
    }
    let list = site.local(&["token", "list"]);
    for word in [id, "mailer", "push:mail.*", "in 29d23h"] {
        assert!(list.out.contains(word), "{word}: {list:?}");
    }
    let json: Value = serde_json::from_str(&site.local(&["token", "list", "--json"]).out).unwrap();
    assert_eq!(
        (&json["id"], &json["allow"][0]),
        (&id.into(), &"push:mail.*".into())
    );
    assert!(!format!("{list:?}{json}").contains(secret));
    // By the whole of it, which may be all that one has at hand.
    let ran = site.local(&["token", "revoke", token, "--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("\"revoked\":true"), "{ran:?}");
    let again = site.local(&["token", "revoke", id]);
    assert_eq!(again.code, 1, "{again:?}");
    assert!(again.err.contains("code: not_found"), "{again:?}");
    let audit = std::fs::read_to_string(site.path("data/audit.jsonl")).unwrap();
    let lines: Vec<Value> = audit
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let what: Vec<&str> = lines
        .iter()
        .filter_map(|line| line["what"].as_str())
        .collect();
    assert_eq!(what, ["new_token", "revoke_token", "revoke_token"]);
    assert_eq!(
        (&lines[0]["who"], &lines[0]["via"]),
        (&"local".into(), &"command line".into())
    );
    assert_eq!(lines[5]["code"], "not_found");
}

#[test]
fn wrong_usage_is_told() {
    let site = Site::new();
    for (args, says) in [
        (&["token", "new"][..], "--allow"),
        (&["token", "new", "--allow", "pull:x"], "unknown verb"),
        (&["token", "new", "--allow", "push:a b"], "push:mail.*"),
        (
            &["token", "new", "--allow", "read:*", "--expires", "soon"],
            "--expires",
        ),
    ] {
        let ran = site.local(args);
        assert_eq!(ran.code, 2, "{args:?}: {ran:?}");
        assert!(ran.err.contains(says), "{args:?}: {ran:?}");
    }
    assert!(!site.path("data").exists());
    let mut nowhere = auxo_harness::command::auxo();
    nowhere.args(["token", "list"]);
    let ran = auxo_harness::command::finish(nowhere, b"");
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(
        ran.err.contains("--data DIR") && ran.err.contains("--tokens FILE"),
        "{ran:?}"
    );
}

#[test]
fn a_token_in_a_file_of_its_own_is_written_down_all_the_same() {
    let site = Site::new();
    let other = site.text("other.toml");
    let new = ["token", "new", "--allow", "read:*", "--tokens", &other];
    let ran = site.local(&new);
    assert_eq!(ran.code, 0, "{ran:?}");
    let audit = std::fs::read_to_string(site.path("data/audit.jsonl")).unwrap();
    assert!(audit.contains("new_token"), "{audit}");
    assert!(!ran.err.contains("written down"), "{ran:?}");
    // Without a directory there is no place for it, which is told; who said so knows.
    for (args, is_told) in [(&[][..], true), (&["--audit", "off"], false)] {
        let mut command = auxo_harness::command::auxo();
        command.args(new).args(args);
        let ran = auxo_harness::command::finish(command, b"");
        assert_eq!(ran.code, 0, "{ran:?}");
        assert_eq!(ran.err.contains("written down"), is_told, "{ran:?}");
    }
}

#[test]
fn commands_work_on_a_server_with_tls_and_tokens_as_far_as_their_token_goes() {
    let site = Site::new();
    let narrow = site.token(&["push:mail.*", "lease:mail.*", "read:mail.*"]);
    let admin = site.token(&["admin:*"]);
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
    let server = site.serve(&flags);
    let ca = site.path("ca.pem");
    let run = |args: &[&str], token: Option<&str>| server.run(args, token, Some(&ca));

    let pushed = run(&["push", "mail.in", CANARY], Some(&narrow));
    assert_eq!(pushed.code, 0, "{pushed:?}");
    let leased = run(&["lease", "mail.in", "--json"], Some(&narrow));
    let leased: Value = serde_json::from_str(&leased.out).unwrap();
    let acked = run(&["ack", leased["token"].as_str().unwrap()], Some(&narrow));
    assert_eq!(acked.code, 0, "{acked:?}");
    for (args, token, code) in [
        (&["push", "bills", "x"][..], Some(&*narrow), "forbidden"),
        (&["queues"], Some(&narrow), "forbidden"),
        (&["pause", "mail.in"], Some(&narrow), "forbidden"),
        (&["queues"], Some("auxo_aaaaaaaa_wrong"), "unauthorized"),
        (&["queues"], None, "unauthorized"),
    ] {
        let ran = run(args, token);
        assert_eq!(ran.code, 1, "{args:?}: {ran:?}");
        assert!(
            ran.err.contains(&format!("code: {code}")),
            "{args:?}: {ran:?}"
        );
    }
    assert_eq!(run(&["queues"], Some(&admin)).code, 0);
    assert_eq!(run(&["purge", "mail.in", "--yes"], Some(&admin)).code, 0);
    // From a file, and with an authority that did not sign it.
    std::fs::write(site.path("token"), format!("{admin}\n")).unwrap();
    let (file, ca_text) = (site.text("token"), site.text("ca.pem"));
    let ran = server.run(
        &["queues", "--token-file", &file, "--ca", &ca_text],
        None,
        None,
    );
    assert_eq!(ran.code, 0, "{ran:?}");
    let client = site.path("client.pem");
    let ran = server.run(&["queues"], Some(&admin), Some(&client));
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("certificate"), "{ran:?}");

    // Revoked, and refused at once, once the server has followed.
    let id = narrow.split('_').nth(1).unwrap();
    assert_eq!(site.local(&["token", "revoke", id]).code, 0);
    server.says("read the tokens anew");
    let ran = run(&["push", "mail.in", "x"], Some(&narrow));
    assert!(ran.err.contains("code: unauthorized"), "{ran:?}");

    let metrics = run(&["queues", "--json"], Some(&admin));
    let log = server.stop();
    assert!(log.contains("answered"), "{log}");
    let audit = std::fs::read_to_string(site.path("data/audit.jsonl")).unwrap();
    assert!(audit.contains("\"delete\""), "{audit}");
    for token in [&narrow, &admin] {
        let secret = token.rsplit('_').next().unwrap();
        for (what, text) in [("log", &log), ("audit", &audit), ("queues", &metrics.out)] {
            assert!(!text.contains(secret), "a token is in the {what}");
            assert!(!text.contains(CANARY), "a payload is in the {what}");
        }
    }
}

#[test]
fn a_signal_has_files_read_again_and_the_audit_log_opened_anew() {
    let site = Site::new();
    let admin = site.token(&["admin:*"]);
    let server = site.serve(&["--http", "127.0.0.1:0", "--beanstalk", "off"]);
    let pause = |queue: &str| {
        let ran = server.run(&["pause", queue, "--create"], Some(&admin), None);
        assert_eq!(ran.code, 0, "{ran:?}");
    };
    pause("a");
    std::fs::rename(site.path("data/audit.jsonl"), site.path("old")).unwrap();
    pause("b");
    assert!(!site.path("data/audit.jsonl").exists());
    server.signal("HUP");
    // Whether it has been heard shows in the file alone.
    while !site.path("data/audit.jsonl").exists() {
        std::thread::yield_now();
    }
    pause("c");
    let (old, new) = (
        std::fs::read_to_string(site.path("old")).unwrap(),
        std::fs::read_to_string(site.path("data/audit.jsonl")).unwrap(),
    );
    assert!(
        old.contains("\"a\"") && old.contains("\"b\"") && !old.contains("\"c\""),
        "{old}"
    );
    assert!(new.contains("\"c\""), "{new}");
    // A file that is wrong changes nothing, and is said aloud.
    std::fs::write(site.path("data/tokens.toml"), "nonsense").unwrap();
    server.says("the tokens stay as they were");
    pause("d");
}

#[test]
fn a_token_that_is_shown_over_resp_or_grpc_is_in_no_log() {
    let site = Site::new();
    let admin = site.token(&["admin:*"]);
    let server = site.serve(&[
        "--http",
        "127.0.0.1:0",
        "--beanstalk",
        "off",
        "--resp",
        "127.0.0.1:0",
        "--log",
        "trace",
    ]);
    let log = server.says("resp ");
    let (_, address) = log.split_once("resp ").unwrap();
    let address = address.lines().next().unwrap().trim();
    let wrong = "auxo_aaaaaaaa_kanarienvogelkanarienvogelkanarienvogel";
    for (token, answer) in [(wrong, "-WRONGPASS "), (&*admin, "+OK\r\n")] {
        for command in [format!("AUTH {token}"), format!("AUTH default {token}")] {
            let mut stream = TcpStream::connect(address).unwrap();
            let session = format!("{command}\r\nADDJOB q {CANARY} 0\r\nQUIT\r\n");
            stream.write_all(session.as_bytes()).unwrap();
            let mut said = String::new();
            stream.read_to_string(&mut said).unwrap();
            assert!(said.starts_with(answer), "{said}");
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        let channel = tonic::transport::Channel::from_shared(server.url.clone()).unwrap();
        let channel = channel.connect().await.unwrap();
        let mut queues = v1::queues_client::QueuesClient::new(channel);
        for (token, code) in [(wrong, Code::Unauthenticated), (&*admin, Code::Ok)] {
            let mut request = tonic::Request::new(v1::ListQueuesRequest::default());
            let shown = format!("Bearer {token}").parse().unwrap();
            request.metadata_mut().insert("authorization", shown);
            let answer = queues.list(request).await;
            let is = answer.map_or_else(|status| status.code(), |_| Code::Ok);
            assert_eq!(is, code);
        }
    });
    let log = server.stop();
    assert!(log.contains("answered"), "{log}");
    let secret = admin.rsplit('_').next().unwrap();
    for canary in [secret, CANARY] {
        let lines: Vec<&str> = log.lines().filter(|line| line.contains(canary)).collect();
        assert!(lines.is_empty(), "{lines:#?}");
    }
}
