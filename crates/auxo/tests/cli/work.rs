//! `auxo work --exec`: each job is a command, and how it ends decides.

use serde_json::Value;
use tempfile::TempDir;

use crate::shell::{Shell, text};
use auxo_harness::command::{Ran, finish};
use auxo_harness::started::Fifo;

both! {
    a_command_gets_the_payload_and_the_fields_and_its_output_is_the_result,
    a_json_result_stands_as_json_and_a_long_one_is_cut,
    a_payload_that_the_command_does_not_read_is_no_failure,
    a_failing_command_is_tried_again_by_the_policy_until_the_job_is_dead,
    of_a_long_complaint_the_end_is_kept,
    exit_code_75_means_again_later_and_counts_no_failure,
    the_signal_that_killed_a_command_is_named,
    a_job_is_held_for_longer_than_its_lease_was_given_for,
    at_its_timeout_a_whole_tree_that_ignores_sigterm_is_killed,
    a_command_that_heeds_sigterm_has_time_to_clean_up_behind_itself,
    what_a_command_leaves_running_does_not_outlive_its_job,
    as_many_jobs_run_at_once_as_were_allowed,
    sigterm_lets_the_running_job_finish_and_takes_no_other,
    after_the_grace_a_running_job_is_ended_and_given_back,
    a_second_signal_ends_everything_at_once,
    a_worker_that_is_killed_leaves_no_command_running,
    a_command_gets_the_environment_without_the_token_of_the_worker,
    a_worker_with_nothing_to_do_ends_at_the_first_signal,
    once_takes_one_job_and_drain_takes_all_that_are_due,
    queues_are_worked_on_in_the_order_given,
    a_job_that_is_delivered_at_most_once_runs_and_is_gone,
    wrong_usage_of_work_is_refused_before_anything_runs,
}

/// Works off a queue and answers with the reports.
fn drain(shell: &Shell, args: &[&str]) -> (Vec<Value>, Ran) {
    let ran = shell.run(&[&["work", "q", "--drain", "--json"], args].concat());
    assert_eq!(ran.code, 0, "{ran:?}");
    let lines = ran.out.lines();
    let reports = lines.map(|line| serde_json::from_str(line).unwrap());
    (reports.collect(), ran)
}

/// Works off a queue that has one job.
fn only(shell: &Shell, args: &[&str]) -> Value {
    let (mut reports, ran) = drain(shell, args);
    assert_eq!(reports.len(), 1, "{ran:?}");
    reports.remove(0)
}

fn a_command_gets_the_payload_and_the_fields_and_its_output_is_the_result(shell: &Shell) {
    let id = shell.push(&[
        "q",
        "hello",
        "--kind",
        "greet",
        "--key",
        "k1",
        "--header",
        "x-lang=de",
        "--retention",
        "1h",
    ]);
    let print = r#"cat; echo " $AUXO_JOB_ID $AUXO_QUEUE $AUXO_KIND $AUXO_ATTEMPT $AUXO_KEY $AUXO_HEADER_X_LANG" | tr -d '\n'; echo; echo "not kept" >&2"#;
    let report = only(shell, &["--exec", print]);
    assert_eq!(report["outcome"], "done");
    assert_eq!(report["id"], *id);
    let job = shell.job(&id);
    assert_eq!(job["state"], "done");
    // Text that is no JSON is shown in base64, so it is compared through the plain output.
    let shown = shell.ok(&["job", &id]);
    let result = format!("hello {id} q greet 1 k1 de\n");
    assert!(shown.contains(&result), "{shown}");
}

fn a_json_result_stands_as_json_and_a_long_one_is_cut(shell: &Shell) {
    let id = shell.push(&["q", "--retention", "1h"]);
    only(shell, &["--exec", r#"echo '{"sum": 3}'"#]);
    assert_eq!(shell.job(&id)["result"]["sum"], 3);

    let id = shell.push(&["q", "--retention", "1h"]);
    only(
        shell,
        &[
            "--exec",
            "yes 1 | tr -d '\\n' | head -c 100000",
            "--max-output",
            "9B",
        ],
    );
    assert_eq!(shell.job(&id)["result"], 111_111_111);
}

fn a_payload_that_the_command_does_not_read_is_no_failure(shell: &Shell) {
    let payload = "x".repeat(500_000);
    let ran = shell.feed(&["push", "q", "--file", "-"], payload.as_bytes());
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(only(shell, &["--exec", "exit 0"])["outcome"], "done");
}

fn a_failing_command_is_tried_again_by_the_policy_until_the_job_is_dead(shell: &Shell) {
    let policy = r#"{"kind":"fixed","delay":"0s"}"#;
    let id = shell.push(&["q", "--max-attempts", "3", "--backoff", policy]);
    let (reports, ran) = drain(shell, &["--exec", "echo no luck >&2; exit 3", "--verbose"]);
    let states: Vec<_> = reports
        .iter()
        .map(|report| text(&report["state"]))
        .collect();
    assert_eq!(states.len(), 3, "{ran:?}");
    assert_eq!(states[2], "dead");
    assert_eq!(reports[2]["error"], "exit code 3: no luck");
    assert_eq!(reports[2]["attempt"], 3);
    let job = shell.job(&id);
    assert_eq!(job["failures"], 3);
    assert_eq!(job["last_error"], "exit code 3: no luck");
    let line = format!("{id} q failed in ");
    assert_eq!(ran.err.matches(&line).count(), 3, "{}", ran.err);
    assert!(ran.err.contains("0 done, 3 failed in "), "{}", ran.err);
}

fn of_a_long_complaint_the_end_is_kept(shell: &Shell) {
    let id = shell.push(&["q", "--max-attempts", "1"]);
    only(
        shell,
        &[
            "--exec",
            "yes grumble | head -c 100000 >&2; echo the reason >&2; exit 1",
        ],
    );
    let error = text(&shell.job(&id)["last_error"]);
    assert!(error.starts_with("exit code 1: …"), "{error}");
    assert!(error.ends_with("the reason"), "{error}");
    assert!(error.len() < 5000, "{}", error.len());
}

fn exit_code_75_means_again_later_and_counts_no_failure(shell: &Shell) {
    let id = shell.push(&["q", "--max-attempts", "1"]);
    let report = only(
        shell,
        &["--exec", "echo busy >&2; exit 75", "--retry-delay", "1h"],
    );
    assert_eq!(report["outcome"], "retried");
    assert_eq!(report["error"], "exit code 75: busy");
    let job = shell.job(&id);
    assert_eq!(job["state"], "scheduled");
    assert!(job.get("failures").is_none(), "{job}");
}

fn the_signal_that_killed_a_command_is_named(shell: &Shell) {
    let id = shell.push(&["q", "--max-attempts", "1"]);
    only(shell, &["--exec", "kill -SEGV $$"]);
    assert_eq!(shell.job(&id)["last_error"], "killed by SIGSEGV");
}

fn a_job_is_held_for_longer_than_its_lease_was_given_for(shell: &Shell) {
    let id = shell.push(&["q", "--ttr", "1s", "--retention", "1h"]);
    let report = only(shell, &["--exec", "sleep 2"]);
    assert_eq!(report["outcome"], "done", "{report}");
    let job = shell.job(&id);
    assert_eq!(job["attempt"], 1);
    assert!(job.get("vanished").is_none(), "{job}");
}

fn at_its_timeout_a_whole_tree_that_ignores_sigterm_is_killed(shell: &Shell) {
    let dir = TempDir::new().unwrap();
    let alive = Fifo::new(dir.path(), "alive");
    let id = shell.push(&["q", "--max-attempts", "1"]);
    // All three processes hold the pipe open for as long as they live.
    let command = format!(
        "trap '' TERM; exec 3>{}; (sh -c 'echo inner >&3; sleep 1000' & wait) & echo stuck >&2; wait",
        alive.path()
    );
    let args = [
        "work",
        "q",
        "--drain",
        "--timeout",
        "300ms",
        "--kill-after",
        "100ms",
    ];
    let worker = shell.start(&[&args, &["--exec", &command] as &[&str]].concat());
    assert_eq!(
        alive.read(),
        "inner\n",
        "read up to the end of the last one"
    );
    assert_eq!(worker.finish().code, 0);
    let job = shell.job(&id);
    assert_eq!(job["state"], "dead");
    assert_eq!(job["last_error"], "timed out after 300ms: stuck");
}

fn a_command_that_heeds_sigterm_has_time_to_clean_up_behind_itself(shell: &Shell) {
    let id = shell.push(&["q", "--max-attempts", "1"]);
    // The outer shell ends at once; the inner one is the one that cleans up.
    let command = "sh -c 'trap \"sleep 0.2; echo clean >&2; exit 1\" TERM; while :; do sleep 0.01; done'; true";
    only(
        shell,
        &[
            "--timeout",
            "300ms",
            "--kill-after",
            "1m",
            "--exec",
            command,
        ],
    );
    let error = text(&shell.job(&id)["last_error"]);
    assert!(error.starts_with("timed out after 300ms: "), "{error}");
    assert!(error.ends_with("clean"), "{error}");
}

fn what_a_command_leaves_running_does_not_outlive_its_job(shell: &Shell) {
    let dir = TempDir::new().unwrap();
    let alive = Fifo::new(dir.path(), "alive");
    shell.push(&["q"]);
    let command = format!("exec 3>{}; sleep 1000 & echo left >&3", alive.path());
    let worker = shell.start(&["work", "q", "--once", "--exec", &command]);
    assert_eq!(alive.read(), "left\n", "read up to the end of the last one");
    let ran = worker.finish();
    assert!(ran.err.contains("1 done in "), "{ran:?}");
}

fn as_many_jobs_run_at_once_as_were_allowed(shell: &Shell) {
    let dir = TempDir::new().unwrap();
    let gates: Vec<Fifo> = (1..=3)
        .map(|n| Fifo::new(dir.path(), &format!("gate{n}")))
        .collect();
    for n in ["1", "2", "3"] {
        shell.push(&["q", n, "--max-attempts", "1"]);
    }
    // Each says which one it is and waits to be released: only if all three run can they be released last to first.
    let command = format!("read n; : < {}/gate$n", dir.path().display());
    let worker = shell.start(&[
        "work",
        "q",
        "--drain",
        "--concurrency",
        "3",
        "--exec",
        &command,
    ]);
    for gate in gates.iter().rev() {
        gate.release();
    }
    let ran = worker.finish();
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("3 done in "), "{}", ran.err);
}

fn sigterm_lets_the_running_job_finish_and_takes_no_other(shell: &Shell) {
    let dir = TempDir::new().unwrap();
    let (begun, gate) = (
        Fifo::new(dir.path(), "begun"),
        Fifo::new(dir.path(), "gate"),
    );
    let first = shell.push(&["q", "--retention", "1h"]);
    let second = shell.push(&["q"]);
    let command = format!("echo $AUXO_JOB_ID > {}; : < {}", begun.path(), gate.path());
    let mut worker = shell.start(&["work", "q", "--exec", &command]);
    assert_eq!(begun.read_line().trim(), first);
    worker.signal("TERM");
    worker.says("finishing 1 running");
    gate.release();
    let ran = worker.finish();
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("1 done in "), "{}", ran.err);
    assert_eq!(shell.job(&first)["state"], "done");
    assert_eq!(shell.job(&second)["state"], "ready");
}

fn after_the_grace_a_running_job_is_ended_and_given_back(shell: &Shell) {
    let dir = TempDir::new().unwrap();
    let begun = Fifo::new(dir.path(), "begun");
    let id = shell.push(&["q"]);
    let command = format!("exec 3>{}; echo here >&3; sleep 1000", begun.path());
    let worker = shell.start(&["work", "q", "--grace", "0s", "--exec", &command]);
    assert_eq!(begun.read_line(), "here\n");
    worker.signal("INT");
    let ran = worker.finish();
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("1 released in "), "{}", ran.err);
    let job = shell.job(&id);
    assert_eq!(job["state"], "ready");
    assert!(job.get("failures").is_none(), "{job}");
    assert!(job.get("vanished").is_none(), "{job}");
}

fn a_second_signal_ends_everything_at_once(shell: &Shell) {
    let dir = TempDir::new().unwrap();
    let alive = Fifo::new(dir.path(), "alive");
    shell.push(&["q"]);
    let command = format!(
        "trap '' TERM; exec 3>{}; echo here >&3; sleep 1000",
        alive.path()
    );
    let mut worker = shell.start(&["work", "q", "--exec", &command]);
    let mut reader = std::io::BufReader::new(std::fs::File::open(alive.path()).unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut reader, &mut line).unwrap();
    worker.signal("TERM");
    worker.says("a second signal ends at once");
    worker.signal("TERM");
    assert_eq!(worker.finish().code, 1);
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut reader, &mut rest).unwrap();
    assert_eq!(rest, "", "the command is gone too");
}

fn a_worker_that_is_killed_leaves_no_command_running(shell: &Shell) {
    let dir = TempDir::new().unwrap();
    let alive = Fifo::new(dir.path(), "alive");
    shell.push(&["q"]);
    // Both processes hold the pipe open, and heed nothing.
    let command = format!(
        "trap '' TERM HUP; exec 3>{}; sleep 1000 & echo here >&3; wait",
        alive.path()
    );
    let worker = shell.start(&["work", "q", "--exec", &command]);
    let mut reader = std::io::BufReader::new(std::fs::File::open(alive.path()).unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut reader, &mut line).unwrap();
    assert_eq!(line, "here\n");
    worker.signal("KILL");
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut reader, &mut rest).unwrap();
    assert_eq!(rest, "", "read up to the end of the last one");
}

fn a_command_gets_the_environment_without_the_token_of_the_worker(shell: &Shell) {
    let id = shell.push(&["q", "--retention", "1h"]);
    let mut worker = shell.command(&[
        "work",
        "q",
        "--once",
        "--exec",
        "env | grep -e AUXO -e MINE",
    ]);
    worker.env("AUXO_TOKEN", "auxo_aaaaaaaa_secret");
    worker
        .env("AUXO_HEADER_OF_ANOTHER_JOB", "x")
        .env("MINE", "yes");
    let ran = finish(worker, b"");
    assert_eq!(ran.code, 0, "{ran:?}");
    let shown = shell.ok(&["job", &id]);
    assert!(shown.contains("MINE=yes"), "{shown}");
    assert!(shown.contains(&format!("AUXO_JOB_ID={id}")), "{shown}");
    for hidden in ["auxo_aaaaaaaa_secret", "AUXO_HEADER_OF_ANOTHER_JOB"] {
        assert!(!shown.contains(hidden), "{hidden}: {shown}");
    }
}

fn a_worker_with_nothing_to_do_ends_at_the_first_signal(shell: &Shell) {
    shell.push(&["q", "--delay", "1h"]);
    let mut worker = shell.start(&["work", "q", "--exec", "true"]);
    worker.says("working on q, 1 at a time");
    worker.signal("TERM");
    let ran = worker.finish();
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("0 done in "), "{}", ran.err);
}

fn once_takes_one_job_and_drain_takes_all_that_are_due(shell: &Shell) {
    for _ in 0..3 {
        shell.push(&["q"]);
    }
    shell.push(&["q", "--delay", "1h"]);
    let ran = shell.run(&["work", "q", "--once", "--exec", "true"]);
    assert!(ran.err.contains("1 done in "), "{ran:?}");
    let (reports, _) = drain(shell, &["--exec", "true"]);
    assert_eq!(reports.len(), 2);
    let ran = shell.run(&["work", "q", "--once", "--exec", "true"]);
    assert_eq!(ran.code, 0);
    assert!(ran.err.contains("0 done in "), "{ran:?}");
}

fn queues_are_worked_on_in_the_order_given(shell: &Shell) {
    shell.push(&["slow"]);
    shell.push(&["urgent"]);
    let args = [
        "work", "urgent", "slow", "--drain", "--json", "--exec", "true",
    ];
    let ran = shell.run(&args);
    let queues: Vec<String> = ran
        .out
        .lines()
        .map(|line| text(&serde_json::from_str::<Value>(line).unwrap()["queue"]))
        .collect();
    assert_eq!(queues, ["urgent", "slow"]);
}

fn a_job_that_is_delivered_at_most_once_runs_and_is_gone(shell: &Shell) {
    shell.push(&["q", "--ttr", "0s"]);
    let report = only(shell, &["--exec", "exit 1"]);
    assert_eq!(report["outcome"], "failed");
    assert_eq!(report["error"], "exit code 1");
    assert_eq!(drain(shell, &["--exec", "true"]).0.len(), 0);
}

fn wrong_usage_of_work_is_refused_before_anything_runs(shell: &Shell) {
    let table: &[(&[&str], &str)] = &[
        (&["work", "q"], "--exec"),
        (&["work", "--exec", "true"], "QUEUE"),
        (
            &["work", "q", "--exec", "true", "--post", "http://x"],
            "cannot be used with",
        ),
        (
            &["work", "q", "--post", "https://example.org"],
            "https is not supported yet",
        ),
        (&["work", "q", "--post", "localhost"], "http://"),
        (
            &["work", "q", "--exec", "true", "--concurrency", "0"],
            "--concurrency",
        ),
        (
            &["work", "q", "--exec", "true", "--once", "--drain"],
            "cannot be used with",
        ),
        (
            &["work", "q", "--exec", "true", "--timeout", "soon"],
            "duration \"soon\"",
        ),
    ];
    for (args, says) in table {
        let ran = shell.run(args);
        assert_eq!(ran.code, 2, "{args:?}: {ran:?}");
        assert!(ran.err.contains(says), "{args:?}: {}", ran.err);
    }
}
