//! An operator's moves: steering jobs, pausing, limiting and purging queues, and the audit.

use std::sync::Arc;

use auxo::{Auxo, Options};
use auxo_embedded::Embedded;

use crate::shell::Shell;

both! {
    a_filter_with_dry_run_counts_and_moves_nothing,
    an_empty_filter_value_is_refused_and_a_filter_over_all_queues_must_be_confirmed,
    named_jobs_are_moved_each_with_its_own_answer,
    a_move_that_the_state_does_not_allow_is_a_conflict,
    a_paused_queue_refuses_on_the_side_that_was_named,
    a_lease_that_gets_nothing_says_what_holds_the_queue_back,
    settings_change_only_what_is_named,
    purge_asks_first_and_spares_what_is_leased,
    the_audit_accounts_for_every_job,
    a_queue_that_does_not_exist_is_not_made_by_a_slip_of_the_finger,
    a_dry_run_never_reads_like_the_move,
    a_deleted_job_is_called_deleted,
}

fn a_filter_with_dry_run_counts_and_moves_nothing(shell: &Shell) {
    for _ in 0..3 {
        shell.push(&["mail", "x", "--delay", "1h"]);
    }
    shell.push(&["other", "x", "--delay", "1h"]);
    let filter = ["--queue", "mail", "--state", "scheduled"];
    let counted = shell.ok(&[&["kick", "--dry-run"], &filter[..]].concat());
    assert_eq!(counted, "3 jobs would be kicked\n");
    assert_eq!(shell.json(&["jobs", "--state", "scheduled"]).len(), 4);
    let moved = shell.json(&[&["kick"], &filter[..]].concat());
    assert_eq!(moved[0]["moved"], 3);
    assert_eq!(shell.json(&["jobs", "--state", "ready"]).len(), 3);
}

fn an_empty_filter_value_is_refused_and_a_filter_over_all_queues_must_be_confirmed(shell: &Shell) {
    shell.push(&["mail", "x", "--delay", "1h"]);
    let id = shell.push(&["other", "x", "--delay", "1h"]);
    for flag in ["--error", "--search", "--key", "--group"] {
        let ran = shell.run(&["delete", flag, "", "--yes"]);
        assert_eq!(ran.code, 1, "{flag}: {ran:?}");
        assert!(ran.err.contains("is empty"), "{flag}: {}", ran.err);
    }
    let verbs: [&[&str]; 4] = [
        &["delete"],
        &["cancel"],
        &["kick"],
        &["reschedule", "--delay", "2h"],
    ];
    for verb in verbs {
        let unsure = shell.run(&[verb, &["--state", "scheduled"]].concat());
        assert_eq!(unsure.code, 1, "{verb:?}: {unsure:?}");
        assert!(unsure.err.contains("2 jobs of all queues"), "{unsure:?}");
        assert!(unsure.err.contains("--yes"), "{unsure:?}");
    }
    assert_eq!(shell.json(&["jobs", "--state", "scheduled"]).len(), 2);
    shell.ok(&["cancel", &id]);
    let sure = shell.ok(&["delete", "--state", "scheduled", "--yes"]);
    assert_eq!(sure, "1 job deleted\n");
    assert_eq!(shell.json(&["jobs", "--all"]).len(), 0);
}

fn named_jobs_are_moved_each_with_its_own_answer(shell: &Shell) {
    let id = shell.push(&["mail", "x", "--delay", "1h"]);
    let ran = shell.run(&["reschedule", "7", &id, "--delay", "0s"]);
    assert_eq!(ran.code, 1);
    assert_eq!(ran.out, format!("{id} ready\n"));
    assert!(ran.err.contains("not_found"), "{}", ran.err);
    shell.ok(&["cancel", &id]);
    assert_eq!(shell.run(&["job", &id]).code, 1, "a cancelled job is gone");
}

fn a_move_that_the_state_does_not_allow_is_a_conflict(shell: &Shell) {
    let id = shell.push(&["mail", "x"]);
    shell.lease("mail");
    let ran = shell.run(&["delete", &id]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("code: conflict"), "{}", ran.err);
    assert_eq!(shell.job(&id)["state"], "leased");
}

fn a_paused_queue_refuses_on_the_side_that_was_named(shell: &Shell) {
    shell.push(&["mail", "x"]);
    shell.ok(&["pause", "mail", "--out"]);
    shell.push(&["mail", "y"]);
    assert_eq!(shell.run(&["lease", "mail"]).code, 1);
    shell.ok(&["pause", "mail"]);
    let refused = shell.run(&["push", "mail", "z"]);
    assert_eq!(refused.code, 1);
    assert!(
        refused.err.contains("code: queue_paused"),
        "{}",
        refused.err
    );
    assert!(refused.err.contains("auxo resume"), "{}", refused.err);
    assert!(shell.ok(&["queues"]).contains("paused"));
    shell.ok(&["resume", "mail"]);
    shell.push(&["mail", "z"]);
    shell.lease("mail");
}

fn a_lease_that_gets_nothing_says_what_holds_the_queue_back(shell: &Shell) {
    shell.push(&["paused", "x"]);
    shell.ok(&["pause", "paused", "--out"]);
    shell.push(&["busy", "x"]);
    shell.push(&["busy", "y"]);
    shell.ok(&["queues", "set", "busy", "--max-leased", "1"]);
    shell.lease("busy");
    let ran = shell.run(&["lease", "paused", "busy", "absent"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    for reason in [
        "queue paused is paused",
        "queue busy has 1 jobs leased and its limit is 1",
        "there is no queue absent",
    ] {
        assert!(ran.err.contains(reason), "{reason}: {}", ran.err);
    }
}

fn settings_change_only_what_is_named(shell: &Shell) {
    shell.ok(&[
        "queues",
        "set",
        "mail",
        "--max-jobs",
        "2",
        "--rate",
        "100/1s",
        "--create",
    ]);
    shell.ok(&[
        "queues",
        "set",
        "mail",
        "--fair",
        "true",
        "--max-bytes",
        "1MiB",
    ]);
    let config = &shell.json(&["queues", "mail"])[0]["config"];
    assert_eq!(config["max_jobs"], 2);
    assert_eq!(config["max_bytes"], 1 << 20);
    assert_eq!(config["rate"]["count"], 100);
    assert_eq!(config["fair"], true);

    shell.push(&["mail", "a"]);
    shell.push(&["mail", "b"]);
    let full = shell.run(&["push", "mail", "c"]);
    assert_eq!(full.code, 1);
    assert!(full.err.contains("code: queue_full"), "{}", full.err);
    shell.ok(&["queues", "set", "mail", "--max-jobs", "none"]);
    shell.push(&["mail", "c"]);
}

fn purge_asks_first_and_spares_what_is_leased(shell: &Shell) {
    for _ in 0..3 {
        shell.push(&["mail", "x"]);
    }
    shell.push(&["other", "x"]);
    let token = shell.lease("mail");
    assert_eq!(
        shell.ok(&["purge", "mail", "--dry-run"]),
        "2 jobs would be deleted\n"
    );
    let unsure = shell.run(&["purge", "mail"]);
    assert_eq!(unsure.code, 1);
    assert!(unsure.err.contains("--yes"), "{}", unsure.err);
    assert_eq!(shell.json(&["jobs", "--all"]).len(), 4);
    assert_eq!(
        shell.ok(&["purge", "mail", "--state", "dead", "--yes"]),
        "0 jobs deleted\n"
    );
    assert_eq!(shell.ok(&["purge", "mail", "--yes"]), "2 jobs deleted\n");
    shell.ok(&["ack", &token]);
    assert_eq!(shell.json(&["jobs", "--all"]).len(), 1);
}

fn the_audit_accounts_for_every_job(shell: &Shell) {
    for _ in 0..4 {
        shell.push(&["mail", "x"]);
    }
    shell.ok(&["ack", &shell.lease("mail")]);
    shell.ok(&["bury", &shell.lease("mail")]);
    let audit = shell.json(&["audit"]).remove(0);
    assert_eq!(audit["ok"], true);
    let books = &audit["queues"][0]["books"];
    let of = |name: &str| books[name].as_u64().unwrap();
    assert_eq!(["accepted", "live", "done", "dead"].map(of), [4, 2, 1, 1]);
    let ran = shell.run(&["audit"]);
    assert_eq!(ran.code, 0);
    assert!(
        ran.out.contains("mail") && ran.err.contains("0 problems"),
        "{ran:?}"
    );
}

#[test]
fn a_benchmark_measures_and_leaves_nothing_behind() {
    let shell = Shell::new();
    let small = ["bench", "--jobs", "25", "--clients", "3", "--sync", "os"];
    let phases = shell.json(&small);
    assert_eq!(phases.len(), 3);
    for phase in &phases {
        assert!(phase["jobs_per_second"].as_f64().unwrap() > 0.0, "{phase}");
        assert_eq!(phase["settings"]["sync"], "os");
    }
    assert_eq!(std::fs::read_dir(shell.data()).unwrap().count(), 0);
    assert!(shell.ok(&small).contains("JOBS/S"));
}

#[test]
fn a_benchmark_with_a_payload_over_the_limit_is_refused_before_it_is_made() {
    let shell = Shell::new();
    let ran = shell.run(&["bench", "--payload", "100GiB", "--jobs", "1"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("code: too_large"), "{}", ran.err);
    assert_eq!(std::fs::read_dir(shell.data()).unwrap().count(), 0);
}

#[test]
fn a_benchmark_does_not_touch_a_directory_with_jobs() {
    let shell = Shell::new();
    let id = shell.push(&["mail", "precious"]);
    let ran = shell.run(&["bench", "--jobs", "25"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("not an empty directory"), "{}", ran.err);
    assert_eq!(shell.ok(&["job", &id, "--payload"]), "precious");
}

fn a_queue_that_does_not_exist_is_not_made_by_a_slip_of_the_finger(shell: &Shell) {
    shell.push(&["mail", "x"]);
    for verb in [
        &["pause", "mial"][..],
        &["resume", "mial"],
        &["queues", "set", "mial", "--max-jobs", "5"],
        &["queues", "mial"],
        &["purge", "mial", "--yes"],
    ] {
        let ran = shell.run(verb);
        assert_eq!(ran.code, 1, "{verb:?}: {ran:?}");
        for word in ["there is no queue mial", "mail?", "code: not_found"] {
            assert!(ran.err.contains(word), "{verb:?}: {}", ran.err);
        }
    }
    assert_eq!(shell.json(&["queues"]).len(), 1);

    shell.ok(&["queues", "set", "ahead", "--max-jobs", "5", "--create"]);
    shell.ok(&["pause", "closed", "--create"]);
    assert_eq!(shell.json(&["queues"]).len(), 3);
}

fn a_dry_run_never_reads_like_the_move(shell: &Shell) {
    let id = shell.push(&["mail", "x", "--delay", "1h"]);
    for (verb, past) in [
        (&["kick"][..], "kicked"),
        (&["cancel"], "cancelled"),
        (&["delete"], "deleted"),
        (&["reschedule", "--delay", "2h"], "rescheduled"),
    ] {
        let named = shell.ok(&[verb, &[&id, "--dry-run"]].concat());
        assert_eq!(named, format!("{id} would be {past}\n"));
        let chosen = shell.ok(&[verb, &["--queue", "mail", "--dry-run"]].concat());
        assert_eq!(chosen, format!("1 job would be {past}\n"));
        let shown = shell.json(&[verb, &[&id, "--dry-run"]].concat());
        assert_eq!(shown[0]["ok"]["dry_run"], true);
    }
    assert_eq!(shell.job(&id)["state"], "scheduled");
}

fn a_deleted_job_is_called_deleted(shell: &Shell) {
    let id = shell.push(&["mail", "x"]);
    assert_eq!(shell.ok(&["delete", &id]), format!("{id} deleted\n"));
    let id = shell.push(&["mail", "x"]);
    assert_eq!(shell.ok(&["cancel", &id]), format!("{id} cancelled\n"));
}

#[test]
fn what_forgotten_queues_did_has_a_line_of_its_own() {
    let shell = Shell::new();
    // Only one queue has room: the second takes the place of the first, which has nothing left.
    let options = Options {
        max_queues: 1,
        ..Options::default()
    };
    let engine = Embedded::open(shell.data(), options).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(async {
        let auxo = Auxo::with_engine(Arc::new(engine));
        auxo.queue("old").unwrap().push(&1).await.unwrap();
        let lease = auxo.lease(["old"]).one().await.unwrap().unwrap();
        lease.ack().await.unwrap();
        auxo.queue("new").unwrap().push(&2).await.unwrap();
        auxo.close().await.unwrap();
    });
    let line = |verb: &str| {
        let table = shell.ok(&[verb]);
        let line = table.lines().find(|line| line.starts_with("(forgotten)"));
        let line = line.unwrap_or_else(|| panic!("{table}"));
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        words[1..].join(" ")
    };
    // Ready, scheduled, leased, dead, done.
    assert_eq!(line("queues"), "0 0 0 0 1");
    // Accepted, live, done, dead, expired, cancelled, deleted.
    assert_eq!(line("audit"), "1 0 1 0 0 0 0");
}
