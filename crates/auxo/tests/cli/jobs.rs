//! Pushing with every flag, and looking at what is there.

use crate::shell::{Shell, text};

both! {
    every_flag_of_push_reaches_the_job,
    a_payload_comes_back_byte_for_byte,
    a_key_makes_a_push_idempotent,
    jobs_are_filtered_and_listed_page_by_page,
    a_table_names_each_job_and_cannot_drive_the_terminal,
    explain_says_why_a_job_is_not_running,
    a_job_that_is_not_there_is_not_found,
    a_list_of_many_pages_is_one_table,
}

fn every_flag_of_push_reaches_the_job(shell: &Shell) {
    let pushed = shell.feed(
        &[
            "push",
            "mail",
            "--file",
            "-",
            "--kind",
            "k",
            "--priority",
            "7",
            "--delay",
            "1h",
            "--ttr",
            "90s",
            "--ttl",
            "2d",
            "--max-attempts",
            "3",
            "--backoff",
            "{\"kind\":\"list\",\"delays\":[\"5s\"]}",
            "--key",
            "the-key",
            "--key-window",
            "1m",
            "--group",
            "g",
            "--retention",
            "5m",
            "--header",
            "a=b",
            "--header",
            "c=d=e",
        ],
        b"[1,2]",
    );
    assert_eq!(pushed.code, 0, "{pushed:?}");
    let job = shell.job(pushed.out.trim());
    assert_eq!(job["payload"], serde_json::json!([1, 2]));
    for (name, value) in [
        ("kind", "k"),
        ("state", "scheduled"),
        ("ttr", "1m30s"),
        ("key", "the-key"),
        ("group", "g"),
        ("retention", "5m"),
    ] {
        assert_eq!(job[name], value, "{name} of {job}");
    }
    assert_eq!(job["priority"], 7);
    assert_eq!(job["max_attempts"], 3);
    assert_eq!(job["headers"], serde_json::json!({"a": "b", "c": "d=e"}));
    assert_eq!(
        job["backoff"],
        serde_json::json!({"kind": "list", "delays": ["5s"]})
    );
    assert!(job["expires_at"].is_string(), "{job}");
}

fn a_payload_comes_back_byte_for_byte(shell: &Shell) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("letter");
    std::fs::write(&file, "not { json\n\t").unwrap();
    let id = shell.push(&["mail", "--file", file.to_str().unwrap()]);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(shell.ok(&["job", &id, "--payload"]), "not { json\n\t");

    let ran = shell.run(&["push", "mail", "--file", file.to_str().unwrap()]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.err.contains("letter"),
        "the error names the file: {}",
        ran.err
    );
}

fn a_key_makes_a_push_idempotent(shell: &Shell) {
    let id = shell.push(&["mail", "x", "--key", "k"]);
    let refused = shell.run(&["push", "mail", "x", "--key", "k"]);
    assert_eq!(refused.code, 1);
    assert!(
        refused.err.contains("code: duplicate_key"),
        "{}",
        refused.err
    );
    assert!(refused.err.contains(&id), "{}", refused.err);
    assert_eq!(
        shell.push(&["mail", "x", "--key", "k", "--on-duplicate", "return"]),
        id
    );
    let replaced = shell.json(&[
        "push",
        "mail",
        "y",
        "--key",
        "k",
        "--on-duplicate",
        "replace",
    ]);
    assert_eq!(replaced[0]["how"], "replaced");
    assert_eq!(
        shell.ok(&["job", "--queue", "mail", "--key", "k", "--payload"]),
        "y"
    );
}

fn jobs_are_filtered_and_listed_page_by_page(shell: &Shell) {
    for number in 0..7 {
        shell.push(&["mail", &number.to_string(), "--kind", "letter"]);
    }
    shell.push(&["mail", "later", "--delay", "1h"]);
    shell.push(&["other", "elsewhere"]);
    assert_eq!(shell.json(&["jobs", "--all"]).len(), 9);
    assert_eq!(
        shell
            .json(&["jobs", "--queue", "mail", "--state", "scheduled"])
            .len(),
        1
    );
    assert_eq!(shell.json(&["jobs", "--kind", "letter"]).len(), 7);
    assert_eq!(shell.json(&["jobs", "--search", "elsewhere"]).len(), 1);

    let mut seen = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let mut args = vec!["jobs", "--queue", "mail", "--limit", "3", "--json"];
        args.extend(cursor.iter().flat_map(|cursor| ["--cursor", cursor]));
        let ran = shell.run(&args);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(ran.out.lines().count() <= 3);
        seen.extend(ran.out.lines().map(|line| {
            let job: serde_json::Value = serde_json::from_str(line).unwrap();
            text(&job["id"])
        }));
        match ran.err.split_once("--cursor ") {
            Some((_, next)) => cursor = Some(next.trim().to_owned()),
            None => break,
        }
    }
    let count = seen.len();
    seen.sort();
    seen.dedup();
    assert_eq!((count, seen.len()), (8, 8), "each job once");
}

fn a_table_names_each_job_and_cannot_drive_the_terminal(shell: &Shell) {
    let id = shell.push(&["mail", "red \x1b[31m alert", "--kind", "letter"]);
    for args in [&["jobs"][..], &["job", &id]] {
        let out = shell.ok(args);
        assert!(out.contains(&id) && out.contains("letter"), "{out}");
        assert!(!out.contains('\x1b'), "{out}");
    }
}

fn explain_says_why_a_job_is_not_running(shell: &Shell) {
    let id = shell.push(&["mail", "x", "--delay", "1h", "--key", "k"]);
    assert!(!shell.ok(&["explain", &id]).trim().is_empty());
    let by_key = shell.json(&["explain", "--queue", "mail", "--key", "k"]);
    assert!(by_key[0]["reason"].is_string(), "{by_key:?}");
    assert!(by_key[0]["text"].is_string(), "{by_key:?}");
    let unknown = shell.run(&["explain", "7"]);
    assert_eq!(unknown.code, 1);
    assert!(unknown.out.contains("no such job"), "{unknown:?}");
}

#[test]
fn only_who_has_watched_says_that_no_worker_asks() {
    let why = |shell: &Shell| {
        let id = shell.push(&["mail", "x"]);
        let why = shell.json(&["explain", &id]).remove(0);
        (text(&why["reason"]), text(&why["text"]))
    };
    // A process that opens a directory has seen nobody ask, because it has just begun: that is no news.
    let (reason, words) = why(&Shell::new());
    assert_eq!(reason, "waiting");
    assert!(!words.contains("no worker"), "{words}");
    let (reason, words) = why(&Shell::on_server());
    assert_eq!(reason, "no_consumer");
    assert!(words.contains("no worker has asked"), "{words}");
}

fn a_job_that_is_not_there_is_not_found(shell: &Shell) {
    shell.push(&["mail", "x"]);
    for args in [
        &["job", "7"][..],
        &["kick", "7"],
        &["delete", "7"],
        &["job", "--queue", "mail", "--key", "nobody"],
    ] {
        let ran = shell.run(args);
        assert_eq!(ran.code, 1, "{args:?}: {ran:?}");
        assert!(ran.err.contains("code: not_found"), "{args:?}: {}", ran.err);
    }
}

fn a_list_of_many_pages_is_one_table(shell: &Shell) {
    shell.fill("mail", 1001);
    shell.push(&["a-queue-with-a-longer-name", "x"]);
    let shown = shell.ok(&["jobs", "--all"]);
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines.len(), 1 + 1002);
    let heads = lines.iter().filter(|line| line.starts_with("ID ")).count();
    assert_eq!(heads, 1);
    assert!(shell.ok(&["jobs", "--queue", "nobody"]).is_empty());
}
