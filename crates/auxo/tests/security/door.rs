//! What it takes to listen where others can come from.

use crate::server::Site;

#[test]
fn others_are_let_in_only_with_tls_and_a_token_or_if_it_is_meant() {
    let site = Site::new();
    let tls = site.tls();
    let tls: Vec<&str> = tls.iter().map(String::as_str).collect();
    let open = ["--http", "0.0.0.0:0", "--beanstalk", "off"];
    let ran = site.refused(&open);
    for word in ["--tls-cert", "auxo token new", "--insecure", "127.0.0.1"] {
        assert!(ran.err.contains(word), "{word}: {ran:?}");
    }
    let ran = site.refused(&[&open[..], &tls].concat());
    assert!(
        ran.err.contains("auxo token new") && !ran.err.contains("--tls-cert"),
        "{ran:?}"
    );
    assert!(!site.path("data").exists(), "a store was made");
    site.token(&["admin:*"]);
    let ran = site.refused(&open);
    assert!(
        ran.err.contains("--tls-cert") && !ran.err.contains("token new"),
        "{ran:?}"
    );

    let server = site.serve(&[&open[..], &tls].concat());
    assert!(server.url.starts_with("https://0.0.0.0:"), "{}", server.url);
    assert!(!server.stop().contains("insecure"));
    let server = site.serve(&[&open[..], &["--insecure"]].concat());
    let log = server.stop();
    assert!(log.contains("insecure: whoever is between"), "{log}");
}

#[test]
fn settings_that_contradict_each_other_or_name_bad_files_are_refused() {
    let site = Site::new();
    let (cert, key) = (site.text("server.pem"), site.text("server.key"));
    let absent = site.text("absent");
    let local = ["--http", "127.0.0.1:0", "--beanstalk", "off"];
    for (flags, says) in [
        (vec!["--tls-cert", &cert], "tls_key"),
        (vec!["--tls-client-ca", &cert], "tls_cert"),
        (vec!["--tls-cert", &cert, "--tls-key", &absent], "absent"),
        (vec!["--tls-cert", &key, "--tls-key", &key], "server.key"),
        (vec!["--tokens", &cert], "tokens"),
        (vec!["--audit", ""], "--audit"),
    ] {
        let ran = site.refused(&[&local[..], &flags].concat());
        assert!(ran.err.contains(says), "{flags:?}: {ran:?}");
    }
    assert!(!site.path("data").exists());
}

#[test]
fn a_file_with_tokens_that_was_named_must_be_there() {
    let site = Site::new();
    let local = [
        "--http",
        "127.0.0.1:0",
        "--beanstalk",
        "off",
        "--resp",
        "off",
    ];
    std::fs::write(site.path("file"), "").unwrap();
    for name in ["absent.toml", "absent/tokens.toml", "file/tokens.toml"] {
        let named = site.text(name);
        let ran = site.refused(&[&local[..], &["--tokens", &named]].concat());
        let makes = format!("auxo token new --tokens {named}");
        assert!(ran.err.contains(&makes), "{ran:?}");
        let ran = site.local(&["config", "check", "--tokens", &named]);
        assert_eq!(ran.code, 2, "{ran:?}");
    }
    let absent = site.text("absent.toml");
    std::fs::write(
        site.path("auxo.toml"),
        format!("data = {:?}\ntokens = {absent:?}\n", site.data()),
    )
    .unwrap();
    let config = site.text("auxo.toml");
    let mut check = auxo_harness::command::auxo();
    check.args(["config", "check", "--config", &config]);
    let ran = auxo_harness::command::finish(check, b"");
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("auxo token new --tokens"), "{ran:?}");
    assert!(!site.path("data").exists());
    // The usual place may be empty, and a file without tokens is one that lets nobody in.
    assert_eq!(site.local(&["config", "check"]).code, 0);
    std::fs::write(&absent, "").unwrap();
    assert_eq!(
        site.local(&["config", "check", "--tokens", &absent]).code,
        0
    );
}

const LOCAL: [&str; 6] = [
    "--http",
    "127.0.0.1:0",
    "--beanstalk",
    "off",
    "--resp",
    "off",
];

#[test]
fn a_server_whose_tokens_are_gone_does_not_let_everybody_in() {
    let site = Site::new();
    site.token(&["admin:*"]);
    site.serve(&LOCAL).stop();
    let file = site.path("data").join("tokens.toml");
    std::fs::rename(&file, site.path("kept")).unwrap();
    let ran = site.refused(&LOCAL);
    for word in ["tokens.toml", "auxo token new", "tokens.toml.used"] {
        assert!(ran.err.contains(word), "{word}: {ran:?}");
    }
    // Each way out that it names is one.
    site.token(&["admin:*"]);
    site.serve(&LOCAL).stop();
    std::fs::rename(site.path("kept"), &file).unwrap();
    site.serve(&LOCAL).stop();
    std::fs::remove_file(&file).unwrap();
    std::fs::remove_file(site.path("data").join("tokens.toml.used")).unwrap();
    let log = site.serve(&LOCAL).stop();
    assert!(log.contains("whoever can connect"), "{log}");
    // A file that somebody has put there counts as well.
    std::fs::write(&file, "").unwrap();
    site.serve(&LOCAL).stop();
    std::fs::remove_file(&file).unwrap();
    site.refused(&LOCAL);
}

#[test]
fn a_certificate_that_has_expired_and_a_key_that_all_may_read_are_warned_of() {
    use std::os::unix::fs::PermissionsExt;

    let site = Site::new();
    let tls = site.tls();
    let flags: Vec<&str> = LOCAL
        .into_iter()
        .chain(tls.iter().map(String::as_str))
        .collect();
    let mode = |mode| {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(site.path("server.key"), mode).unwrap();
    };
    mode(0o600);
    let log = site.serve(&flags).stop();
    assert!(!log.contains("WARN"), "{log}");
    mode(0o644);
    let log = site.serve(&flags).stop();
    assert!(log.contains("WARN") && log.contains("chmod 600"), "{log}");
    mode(0o600);
    site.expire_certificate();
    let server = site.serve(&flags);
    let log = server.says("has expired");
    assert!(log.contains("server.pem"), "{log}");
}
