//! Push, lease and every way a lease can end, each step in a process of its own.

use crate::shell::{Shell, text};

both! {
    a_job_goes_from_push_through_lease_to_done,
    a_lease_prints_the_token_for_people_too,
    a_lease_that_finds_nothing_ends_with_code_1_and_prints_no_data,
    the_most_urgent_of_several_queues_is_leased_if_asked_for,
    an_unknown_or_used_token_is_answered_lease_lost,
    one_lost_token_does_not_keep_the_others_from_being_settled,
    a_failure_is_tried_again_until_the_tries_are_used_up,
    every_other_end_of_a_lease_does_what_it_says,
    extending_notes_progress_and_reports_a_wish_to_cancel,
}

fn a_job_goes_from_push_through_lease_to_done(shell: &Shell) {
    let id = shell.push(&[
        "mail",
        "{\"to\":\"ada\"}",
        "--kind",
        "welcome",
        "--retention",
        "1h",
    ]);
    let leased = shell.json(&["lease", "mail", "--worker", "w1"]).remove(0);
    assert_eq!(text(&leased["id"]), id);
    assert_eq!(leased["payload"]["to"], "ada");
    assert_eq!(leased["kind"], "welcome");
    assert_eq!(leased["attempt"], 1);
    assert_eq!(shell.job(&id)["state"], "leased");

    let token = text(&leased["token"]);
    assert_eq!(
        shell.ok(&["ack", &token, "--result", "{\"sent\":true}"]),
        format!("{id} done\n")
    );
    let done = shell.job(&id);
    assert_eq!(done["state"], "done");
    assert_eq!(done["result"]["sent"], true);
}

fn a_lease_prints_the_token_for_people_too(shell: &Shell) {
    let id = shell.push(&["mail", "hello"]);
    let out = shell.ok(&["lease", "mail"]);
    let token = out
        .lines()
        .find_map(|line| line.strip_prefix("token "))
        .unwrap()
        .trim();
    assert!(token.starts_with(&id));
    assert!(out.contains("hello"));
    shell.ok(&["ack", token]);
}

fn a_lease_that_finds_nothing_ends_with_code_1_and_prints_no_data(shell: &Shell) {
    shell.push(&["mail", "later", "--delay", "1h"]);
    for args in [&["lease", "mail"][..], &["lease", "other", "--json"]] {
        let ran = shell.run(args);
        assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{ran:?}");
        assert!(ran.err.contains("no job is due"));
    }
}

fn the_most_urgent_of_several_queues_is_leased_if_asked_for(shell: &Shell) {
    let low = shell.push(&["mail", "x", "--priority", "2"]);
    let high = shell.push(&["images", "x", "--priority", "1"]);
    for id in [high, low] {
        let leased = shell.json(&["lease", "mail", "images", "--most-urgent"]);
        assert_eq!(text(&leased[0]["id"]), id);
    }
}

fn an_unknown_or_used_token_is_answered_lease_lost(shell: &Shell) {
    shell.push(&["mail", "x"]);
    let token = shell.lease("mail");
    shell.ok(&["ack", &token]);
    for token in [token.as_str(), "7-9-0000000000000abc"] {
        for args in [
            &["ack", token][..],
            &["fail", token, "--error", "e"],
            &["release", token],
            &["bury", token],
            &["snooze", token, "--delay", "1s"],
            &["extend", token],
        ] {
            let ran = shell.run(args);
            assert_eq!(ran.code, 1, "{args:?}: {ran:?}");
            assert!(
                ran.err.contains("code: lease_lost"),
                "{args:?}: {}",
                ran.err
            );
            assert!(ran.err.contains("hint: "), "{args:?}: {}", ran.err);
        }
    }
}

fn one_lost_token_does_not_keep_the_others_from_being_settled(shell: &Shell) {
    let id = shell.push(&["mail", "x"]);
    let token = shell.lease("mail");
    let ran = shell.run(&["ack", "7-9-0000000000000abc", &token, "--json"]);
    assert_eq!(ran.code, 1);
    let lines: Vec<serde_json::Value> = ran
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[0]["error"]["code"], "lease_lost");
    assert_eq!(text(&lines[1]["ok"]["id"]), id);
    assert_eq!(lines[1]["ok"]["state"], "done");
}

fn a_failure_is_tried_again_until_the_tries_are_used_up(shell: &Shell) {
    let backoff = "{\"kind\":\"fixed\",\"delay\":\"0s\"}";
    let id = shell.push(&["mail", "x", "--max-attempts", "2", "--backoff", backoff]);
    for state in ["ready", "dead"] {
        let token = shell.lease("mail");
        shell.ok(&["fail", &token, "--error", "refused"]);
        assert_eq!(shell.job(&id)["state"], state);
    }
    let dead = shell.job(&id);
    assert_eq!(dead["last_error"], "refused");
    assert_eq!(dead["failures"], 2);
}

fn every_other_end_of_a_lease_does_what_it_says(shell: &Shell) {
    let id = shell.push(&["mail", "x"]);
    shell.ok(&["release", &shell.lease("mail")]);
    assert_eq!(shell.job(&id)["state"], "ready");
    shell.ok(&["snooze", &shell.lease("mail"), "--delay", "1h"]);
    assert_eq!(shell.job(&id)["state"], "scheduled");
    shell.ok(&["kick", &id]);
    shell.ok(&[
        "fail",
        &shell.lease("mail"),
        "--error",
        "e",
        "--delay",
        "1h",
    ]);
    assert_eq!(shell.job(&id)["state"], "scheduled");
    shell.ok(&["kick", &id]);
    shell.ok(&["fail", &shell.lease("mail"), "--error", "e", "--no-retry"]);
    assert_eq!(shell.job(&id)["state"], "dead");
    shell.ok(&["kick", &id]);
    let out = shell.ok(&["bury", &shell.lease("mail"), "--error", "hopeless"]);
    assert_eq!(out, format!("{id} dead\n"));
    assert_eq!(shell.job(&id)["last_error"], "hopeless");
}

fn extending_notes_progress_and_reports_a_wish_to_cancel(shell: &Shell) {
    let id = shell.push(&["mail", "x"]);
    let token = shell.lease("mail");
    let extended = shell.json(&[
        "extend",
        &token,
        "--ttr",
        "10m",
        "--progress",
        "{\"page\":7}",
    ]);
    assert_eq!(extended[0]["ok"]["cancel"], false);
    assert_eq!(shell.job(&id)["progress"]["page"], 7);
    shell.ok(&["cancel", &id]);
    assert!(shell.ok(&["extend", &token]).contains("cancel asked"));
    assert_eq!(shell.ok(&["release", &token]), format!("{id} cancelled\n"));
}
