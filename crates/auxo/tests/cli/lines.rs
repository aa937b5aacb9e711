//! `auxo push --lines` and `--objects`: a job for each line.

use std::io::Write;

use serde_json::Value;

use crate::shell::{Shell, text};
use auxo_harness::command::auxo;
use auxo_harness::started::Started;

fn payloads(shell: &Shell) -> Vec<Value> {
    let jobs = shell.json(&["jobs", "--queue", "q", "--all"]);
    jobs.into_iter().map(|job| job["payload"].clone()).collect()
}

both! {
    each_line_of_stdin_is_a_job_in_the_order_of_the_lines,
}

fn each_line_of_stdin_is_a_job_in_the_order_of_the_lines(shell: &Shell) {
    let numbers: Vec<String> = (1..=5000).map(|n| n.to_string()).collect();
    let args = ["push", "q", "--lines", "--kind", "count", "--priority", "7"];
    let ran = shell.feed(&args, numbers.join("\n").as_bytes());
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.starts_with("5000 pushed, "), "{}", ran.out);
    assert!(ran.out.contains("/s in "), "{}", ran.out);
    let expected: Vec<Value> = (1..=5000).map(Value::from).collect();
    assert!(payloads(shell) == expected, "jobs are out of order");
    let job = &shell.json(&["jobs", "--limit", "1"])[0];
    assert_eq!(job["kind"], "count");
    assert_eq!(job["priority"], 7);
}

#[test]
fn lines_are_also_taken_from_a_file() {
    let shell = Shell::new();
    let elsewhere = Shell::new();
    let file = elsewhere.data().join("lines");
    std::fs::write(&file, "1\n2\n").unwrap();
    let out = shell.ok(&[
        "push",
        "q",
        "--lines",
        file.to_str().unwrap(),
        "--delay",
        "1h",
    ]);
    assert!(out.starts_with("2 pushed, "), "{out}");
    let jobs = shell.json(&["jobs"]);
    assert!(jobs.iter().all(|job| job["state"] == "scheduled"));

    let ran = shell.run(&["push", "q", "--lines", "absent"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("absent: No such file"), "{}", ran.err);
}

#[test]
fn a_line_that_is_too_long_is_refused_by_its_number_and_the_others_go_on() {
    let shell = Shell::new();
    let long = "x".repeat((1 << 20) + 1);
    let input = format!("1\n{long}\n3\n");
    let ran = shell.feed(&["push", "q", "--lines"], input.as_bytes());
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("line 2: too_large: "), "{}", ran.err);
    assert!(ran.out.starts_with("2 pushed, 1 refused, "), "{}", ran.out);
    assert_eq!(payloads(&shell), [1, 3]);
}

#[test]
fn of_many_refused_lines_the_first_are_shown() {
    let shell = Shell::new();
    shell.ok(&["queues", "set", "q", "--max-jobs", "2", "--create"]);
    let lines = "x\n".repeat(10);
    let ran = shell.feed(&["push", "q", "--lines", "--json"], lines.as_bytes());
    assert_eq!(ran.code, 1, "{ran:?}");
    let summary: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(summary["pushed"], 2);
    assert_eq!(summary["refused"], 8);
    let errors = summary["errors"].as_array().unwrap();
    let lines: Vec<&Value> = errors.iter().map(|error| &error["line"]).collect();
    assert_eq!(lines, [3, 4, 5, 6, 7]);
    assert_eq!(text(&errors[0]["code"]), "queue_full");
    assert!(ran.err.contains("and 3 more refused"), "{}", ran.err);
}

#[test]
fn with_keys_the_same_input_again_makes_no_job_twice() {
    let shell = Shell::new();
    let args = ["push", "q", "--lines", "--keys", "import"];
    let ran = shell.feed(&args, b"1\n2\n");
    assert!(ran.out.starts_with("2 pushed, "), "{ran:?}");
    let ran = shell.feed(&args, b"1\n2\n3\n");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(
        ran.out.starts_with("1 pushed, 2 there already, "),
        "{}",
        ran.out
    );
    assert_eq!(payloads(&shell), [1, 2, 3]);
    let job = shell.json(&["job", "--queue", "q", "--key", "import:2"]);
    assert_eq!(job[0]["payload"], 2);
}

#[test]
fn objects_keep_their_own_keys_and_the_others_get_one() {
    let shell = Shell::new();
    let args = ["push", "q", "--objects", "--keys", "import"];
    let ran = shell.feed(&args, b"{\"key\":\"mine\"}\n{}\n");
    assert_eq!(ran.code, 0, "{ran:?}");
    let jobs = shell.json(&["jobs"]);
    assert_eq!(jobs[0]["key"], "mine");
    assert_eq!(jobs[1]["key"], "import:2");
}

#[test]
fn in_a_directory_no_job_gets_a_key_that_nobody_asked_for() {
    let shell = Shell::new();
    shell.fill("q", 1);
    assert_eq!(shell.json(&["jobs"])[0]["key"], Value::Null);
}

#[test]
fn each_object_is_a_job_with_its_own_fields() {
    let shell = Shell::new();
    let input = r#"{"payload": {"to": "ada"}, "kind": "welcome", "priority": 1}

{"payload": 2, "colour": "red"}
not json
{"payload": 3, "delay": "1h"}
"#;
    let ran = shell.feed(&["push", "q", "--objects"], input.as_bytes());
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.out.starts_with("2 pushed, 2 refused, "), "{}", ran.out);
    assert!(ran.err.contains("line 3: bad_request: "), "{}", ran.err);
    assert!(ran.err.contains("line 4: bad_request: "), "{}", ran.err);
    let jobs = shell.json(&["jobs"]);
    assert_eq!(jobs[0]["kind"], "welcome");
    assert_eq!(jobs[0]["payload"]["to"], "ada");
    assert_eq!(jobs[1]["state"], "scheduled");
}

#[test]
fn no_line_is_no_job() {
    let shell = Shell::new();
    let ran = shell.feed(&["push", "q", "--lines"], b"");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.starts_with("0 pushed, "), "{}", ran.out);
}

#[test]
fn flags_that_contradict_lines_are_refused() {
    let shell = Shell::new();
    let table: &[&[&str]] = &[
        &["push", "q", "--lines", "-", "payload"],
        &["push", "q", "--lines", "--file", "x"],
        &["push", "q", "--lines", "--key", "k"],
        &["push", "q", "--objects", "--lines"],
        &["push", "q", "--objects", "--delay", "1s"],
        &["push", "q", "--objects", "--kind", "k"],
    ];
    for args in table {
        let ran = shell.run(args);
        assert_eq!(ran.code, 2, "{args:?}: {ran:?}");
        assert!(ran.err.contains("cannot be used with"), "{}", ran.err);
    }
    for flag in [["--keys", "p"], ["--parallel", "2"]] {
        let ran = shell.run(&[&["push", "q"], &flag[..]].concat());
        assert_eq!(ran.code, 2);
        assert!(ran.err.contains("--lines"), "{}", ran.err);
    }
    for many in ["0", "17"] {
        let ran = shell.run(&["push", "q", "--lines", "--parallel", many]);
        assert_eq!(ran.code, 2);
        assert!(ran.err.contains("1..=16"), "{}", ran.err);
    }
}

#[test]
fn many_batches_at_once_push_each_line_once() {
    let shell = Shell::on_server();
    let numbers: Vec<String> = (1..=5000).map(|n| n.to_string()).collect();
    let args = ["push", "q", "--lines", "--parallel", "16"];
    let ran = shell.feed(&args, numbers.join("\n").as_bytes());
    assert_eq!(ran.code, 0, "{ran:?}");
    let mut all: Vec<u64> = payloads(&shell).iter().flat_map(Value::as_u64).collect();
    all.sort_unstable();
    assert!(all == (1..=5000).collect::<Vec<_>>(), "lost or doubled");
}

#[test]
fn lines_into_a_directory_that_are_interrupted_say_after_which_to_go_on() {
    let shell = Shell::new();
    let (output, mut input) = std::io::pipe().unwrap();
    let mut command = auxo();
    command.args(["push", "q", "--lines"]).stdin(output);
    command.env("AUXO_DATA", shell.data());
    let started = Started::new(command);
    // Much more than a pipe, the reader and the batches on their way hold, so that some are jobs by now.
    let line = format!("{}\n", "x".repeat(1023));
    input.write_all(line.repeat(8 << 10).as_bytes()).unwrap();
    started.signal("INT");
    let ran = started.finish();
    assert_eq!(ran.code, 1, "{ran:?}");
    let pushed: usize = ran.out.split(' ').next().unwrap().parse().unwrap();
    assert!(pushed > 0, "{ran:?}");
    let hint = format!("push the lines after line {pushed}\n");
    assert!(ran.err.contains(&hint), "{ran:?}");
    assert_eq!(payloads(&shell).len(), pushed);
}
