//! Wrong usage is exit code 2 and says what would be right; nothing is stored.

use std::io::{Read, Write};

use crate::shell::{Shell, bare};

#[test]
fn a_limit_on_the_size_of_files_is_told_as_an_error() {
    let shell = Shell::new();
    let mut command = std::process::Command::new("sh");
    command
        .args(["-c", "ulimit -f 64; exec \"$0\" push mail hello"])
        .arg(env!("CARGO_BIN_EXE_auxo"));
    let mut command = auxo_harness::command::plain(command);
    command.env("AUXO_DATA", shell.data());
    let ran = auxo_harness::command::finish(command, b"");
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("File too large"), "{}", ran.err);
}

#[test]
fn wrong_usage_ends_with_code_2_and_names_what_is_wrong() {
    let shell = Shell::new();
    let table: &[(&[&str], &str)] = &[
        (&[], "Usage"),
        (&["pusch", "mail"], "push"),
        (&["push"], "QUEUE"),
        (&["push", "two words"], "outside A-Z"),
        (&["push", "-mail"], "-m"),
        (&["push", "mail", "--delay", "soon"], "duration \"soon\""),
        (&["push", "mail", "--delay=-1s"], "duration \"-1s\""),
        (&["push", "mail", "--delay", "-5s"], "duration \"-5s\""),
        (&["push", "mail", "--ttr", "-1s"], "duration \"-1s\""),
        (
            &["push", "mail", "--priority", "-1"],
            "'-1' for '--priority",
        ),
        (&["lease", "mail", "--max", "-1"], "'-1' for '--max"),
        (&["bench", "--payload", "-1B"], "size \"-1B\""),
        (
            &["queues", "set", "mail", "--max-jobs", "-1"],
            "write a whole number",
        ),
        (
            &["queues", "set", "mail", "--shards", "0"],
            "--shards takes a number from 1 to 65535, or none",
        ),
        (&["config", "check", "--store", ""], "is empty"),
        (
            &["push", "mail", "--delay", "1s", "--run-at", "0"],
            "cannot be used with",
        ),
        (
            &["push", "mail", "--run-at", "tomorrow"],
            "time \"tomorrow\"",
        ),
        (&["push", "mail", "--priority", "4294967296"], "--priority"),
        (&["push", "mail", "--backoff", "{"], "not JSON"),
        (
            &["push", "mail", "--backoff", "{\"kind\":\"square\"}"],
            "backoff.kind",
        ),
        (&["push", "mail", "--on-duplicate", "return"], "--key"),
        (
            &["push", "mail", "--key", "k", "--on-duplicate", "explode"],
            "reject, return, replace",
        ),
        (
            &["push", "mail", "--header", "no-equals-sign"],
            "name=value",
        ),
        (&["push", "mail", "x", "--file", "y"], "cannot be used with"),
        (&["lease"], "QUEUE"),
        (&["lease", "mail", "--max", "0"], "--max"),
        (&["ack"], "TOKEN"),
        (&["ack", "not-a-token"], "not one that a lease gave out"),
        (&["fail", "1-1-0000000000000001"], "--error"),
        (&["job"], "ID"),
        (&["job", "7", "--key", "k"], "cannot be used with"),
        (&["job", "--key", "k"], "--queue"),
        (&["job", "seven"], "decimal number"),
        (&["jobs", "--state", "asleep"], "asleep"),
        (&["jobs", "--all", "--limit", "5"], "cannot be used with"),
        (&["kick"], "filter"),
        (&["kick", "7", "--queue", "mail"], "not both"),
        (&["reschedule", "7"], "--delay"),
        (&["pause", "mail", "--in", "--out"], "cannot be used with"),
        (&["queues", "set", "mail", "--rate", "fast"], "100/1s"),
        (
            &["queues", "set", "mail", "--max-leased", "4294967296"],
            "--max-leased takes a number from 1 to 4294967295, or none",
        ),
        (
            &["topics", "subscribe", "t", "s", "q", "--pattern", "a*"],
            "whole words",
        ),
        (&["schedules", "set", "s", "q"], "--cron EXPR or --every"),
        (&["jobs", "--limit", "-1"], "a whole number from 1"),
        (
            &[
                "schedules",
                "set",
                "s",
                "q",
                "--every",
                "1s",
                "--zone",
                "UTC",
            ],
            "cannot be used with",
        ),
    ];
    for (args, says) in table {
        let ran = shell.run(args);
        assert_eq!(ran.code, 2, "{args:?}: {ran:?}");
        assert!(
            ran.err.contains(says),
            "{args:?} should say {says:?}: {}",
            ran.err
        );
        assert_eq!(ran.out, "", "{args:?}");
    }
    let left = std::fs::read_dir(shell.data()).unwrap().count();
    assert_eq!(left, 0, "wrong usage wrote something");
}

#[test]
fn a_verb_that_is_only_local_says_how_to_name_a_data_directory() {
    let server = "http://127.0.0.1:1";
    for args in [&["salvage", "new"][..], &["bench"]] {
        let ran = bare(args);
        assert_eq!(ran.code, 2, "{ran:?}");
        let says = |word: &str| assert!(ran.err.contains(word), "{word}: {}", ran.err);
        says("data directory only");
        says("--data DIR or AUXO_DATA");
        let ran = bare(&[args, &["--server", server]].concat());
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.err.contains("not on a server"), "{}", ran.err);
    }
}

#[test]
fn two_places_are_one_too_many() {
    let ran = bare(&["queues", "--data", "x", "--server", "http://127.0.0.1:1"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.contains("--data and --server"), "{}", ran.err);
}

#[test]
fn a_server_that_cannot_be_named_like_this_is_wrong_usage() {
    for (url, says) in [
        ("localhost", "http://"),
        ("https://ada:secret@x", "a token is shown in another way"),
    ] {
        let ran = bare(&["queues", "--server", url]);
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.err.contains(says), "{}", ran.err);
    }
}

#[test]
fn a_server_that_is_away_is_named_with_what_to_do() {
    // The port is free again when the listener is gone.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let verbs = [
        &["queues"][..],
        &["push", "mail", "x"],
        &["audit"],
        &["events"],
    ];
    for args in verbs {
        let ran = bare(&[args, &["--server", &url, "--json"]].concat());
        assert_eq!(ran.code, 1, "{ran:?}");
        let start = format!("error: cannot reach Auxo at {url}: ");
        assert!(ran.err.starts_with(&start), "{}", ran.err);
        for word in ["`auxo serve`", "code: unavailable", "--data DIR"] {
            assert!(ran.err.contains(word), "{word}: {}", ran.err);
        }
        assert!(ran.out.contains("\"unavailable\""), "{}", ran.out);
    }
}

#[test]
fn a_server_of_another_kind_is_found_out() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    // It answers whoever comes, until the test is over.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let _ = stream.write_all(
                b"HTTP/1.1 404 Not Found\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello",
            );
        }
    });
    let verbs = [
        &["queues"][..],
        &["push", "mail", "x"],
        &["lease", "mail"],
        &["events"],
    ];
    for args in verbs {
        let ran = bare(&[args, &["--server", &url]].concat());
        assert_eq!(ran.code, 1, "{ran:?}");
        let start = format!("error: {url} did not answer like an Auxo server");
        assert!(ran.err.starts_with(&start), "{args:?}: {}", ran.err);
        assert!(
            ran.err.contains("hint: --server URL"),
            "{args:?}: {}",
            ran.err
        );
    }
}

#[test]
fn help_goes_to_stdout_with_examples_and_code_0() {
    for verb in ["push", "lease", "jobs", "purge", "queues", "schedules"] {
        let ran = bare(&[verb, "--help"]);
        assert_eq!(ran.code, 0);
        assert!(ran.out.contains("Examples:"), "{}", ran.out);
        assert!(!ran.out.contains('\x1b'), "no colour outside a terminal");
    }
}

#[test]
fn looking_at_a_mistyped_path_makes_nothing_there() {
    let shell = Shell::new();
    let path = shell.data().join("mistyped");
    let ran = bare(&["queues", "--data", path.to_str().unwrap()]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.err.starts_with("error: there is no data directory"),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("code: not_found"), "{}", ran.err);
    assert!(!path.exists());
}

#[test]
fn with_json_an_error_is_also_an_object_on_stdout() {
    let shell = Shell::new();
    let id = shell.push(&["mail", "x", "--key", "k"]);
    let ran = shell.run(&["push", "mail", "x", "--key", "k", "--json"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let line: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(line["error"]["code"], "duplicate_key");
    assert_eq!(line["error"]["id"], *id);
    assert!(ran.err.starts_with("error: "), "{}", ran.err);
    let ran = shell.run(&["push", "mail", "x", "--key", "k"]);
    assert_eq!(ran.out, "", "without --json stdout is for results");
}

#[test]
fn a_directory_that_is_no_store_stays_as_it_is() {
    let shell = Shell::new();
    let names = || {
        let entries = std::fs::read_dir(shell.data()).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let refused = |args: &[&str]| {
        let ran = shell.run(args);
        assert_eq!(ran.code, 1, "{args:?}: {ran:?}");
        assert!(
            ran.err.contains("is not a data directory of auxo"),
            "{args:?}: {}",
            ran.err
        );
    };
    refused(&["queues"]);
    refused(&["audit"]);
    assert_eq!(names().len(), 0, "looking made something");
    std::fs::write(shell.data().join("letter.txt"), "dear ada").unwrap();
    refused(&["jobs"]);
    refused(&["push", "mail", "x"]);
    refused(&["queues", "set", "mail", "--max-jobs", "1"]);
    assert_eq!(names(), ["letter.txt"]);
}

#[test]
fn a_directory_that_is_in_use_is_refused_with_a_hint() {
    let shell = Shell::new();
    shell.push(&["q", "--delay", "1h"]);
    // Held by a process of its own: what this one forks for other tests would inherit the lock for a moment.
    let mut holder = shell.start(&["work", "q", "--exec", "true"]);
    holder.says("working on q");
    let ran = shell.run(&["queues"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.starts_with("error: "), "{}", ran.err);
    assert!(
        ran.err.contains("code: ") && ran.err.contains("hint: "),
        "{}",
        ran.err
    );
    holder.signal("TERM");
    assert_eq!(holder.finish().code, 0);
    let ran = shell.run(&["queues"]);
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn an_error_names_what_it_is_about_and_what_to_do_next() {
    let shell = Shell::new();
    shell.push(&["mail", "x"]);
    let same = shell.data().to_str().unwrap().to_owned();
    let other = Shell::new();
    std::fs::write(other.data().join("notes"), "").unwrap();
    let taken = other.data().to_str().unwrap().to_owned();
    let table: [(&[&str], &[&str]); 6] = [
        (&["job", "7"], &["no job 7", "auxo jobs"]),
        (
            &["job", "--queue", "mail", "--key", "k"],
            &["no job with the key \"k\" in queue mail", "auxo jobs"],
        ),
        (&["lease", "mial"], &["did you mean mail?"]),
        (
            &["push", "mail", "--file", "absent"],
            &["--file absent: No such file", "code: bad_request"],
        ),
        (&["salvage", &taken], &["not empty", "choose another place"]),
        (&["salvage", &same], &["to itself"]),
    ];
    for (args, words) in table {
        let ran = shell.run(args);
        assert_eq!(ran.code, 1, "{args:?}: {ran:?}");
        for word in words {
            assert!(ran.err.contains(word), "{args:?}, {word}: {}", ran.err);
        }
    }
    let unread = shell.run(&["push", "mail", "--file", "absent", "--json"]);
    assert!(unread.out.contains("\"error\""), "{unread:?}");
}
