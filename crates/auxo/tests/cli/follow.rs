//! `auxo events` and `auxo jobs --follow`: streams that end well. A data directory has room for one process, so what happens
//! in them is what happens by itself: a schedule ticks, a lease runs out.

use serde_json::Value;

use crate::shell::{Shell, text};

/// A directory in which a job is pushed every few milliseconds while it is open.
fn ticking() -> Shell {
    let shell = Shell::new();
    shell.ok(&["schedules", "set", "tick", "q", "--every", "20ms", "7"]);
    shell
}

fn object(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{line:?}: {error}"))
}

#[test]
fn events_are_shown_as_they_happen_until_a_signal() {
    for signal in ["INT", "TERM"] {
        let shell = ticking();
        let mut events = shell.start(&["events", "--json"]);
        let first = object(&events.line());
        let second = object(&events.line());
        assert_eq!(first["event"], "push");
        assert_eq!(first["queue"], "q");
        assert!(first["sequence"].as_u64() < second["sequence"].as_u64());
        events.signal(signal);
        let ran = events.finish();
        assert_eq!(ran.code, 0, "{ran:?}");
        assert_eq!(shell.job(&text(&first["id"]))["payload"], 7);
    }
}

#[test]
fn only_the_events_that_were_asked_for_are_shown() {
    let shell = ticking();
    shell.ok(&["schedules", "set", "noise", "other", "--every", "5ms"]);
    let mut events = shell.start(&["events", "--queue", "q", "--event", "push,ack"]);
    for _ in 0..5 {
        let line = events.line();
        assert!(line.contains("  push  ") && line.contains("  q"), "{line}");
    }
    events.signal("INT");
    let ran = events.finish();
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(!ran.out.contains("other"), "{}", ran.out);

    let ran = shell.run(&["events", "--event", "sneeze"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.contains("write one of push, due, lease"),
        "{}",
        ran.err
    );
}

#[test]
fn a_reader_who_has_seen_enough_is_a_good_end() {
    let shell = ticking();
    for args in [&["events"] as &[&str], &["jobs", "--follow"]] {
        let mut stream = shell.start(args);
        assert_ne!(stream.line(), "", "{args:?}");
        let ran = stream.close_out().finish();
        assert_eq!(ran.code, 0, "{args:?}: {ran:?}");
        assert!(!ran.err.contains("error"), "{args:?}: {}", ran.err);
    }
}

#[test]
fn a_reader_who_left_is_noticed_even_if_nothing_happens() {
    let shell = Shell::new();
    shell.push(&["q", "--delay", "1h"]);
    for args in [&["events"] as &[&str], &["jobs", "--follow"]] {
        let mut stream = shell.start(args);
        stream.says("following");
        let ran = stream.close_out().finish();
        assert_eq!(ran.code, 0, "{args:?}: {ran:?}");
    }
}

#[test]
fn a_followed_list_shows_what_is_there_and_then_what_changes() {
    let shell = Shell::new();
    let id = shell.push(&["mail", "\"a\"", "--ttr", "200ms", "--max-attempts", "1"]);
    shell.push(&["other", "--ttr", "200ms"]);
    shell.lease("mail");
    shell.lease("other");
    let mut jobs = shell.start(&["jobs", "--follow", "--queue", "mail", "--json"]);
    let listed = object(&jobs.line());
    assert_eq!(listed["id"], *id);
    // A slow start may list it after its lease has ended; then there is nothing left to follow.
    if listed["state"] == "leased" {
        let changed = object(&jobs.line());
        assert_eq!(changed["id"], *id);
        assert_eq!(changed["state"], "dead");
    } else {
        assert_eq!(listed["state"], "dead");
    }
    jobs.signal("INT");
    let ran = jobs.finish();
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(!ran.out.contains("other"), "{}", ran.out);
}

#[test]
fn a_followed_list_for_people_is_a_table_that_grows() {
    let shell = ticking();
    let mut jobs = shell.start(&["jobs", "--follow", "--kind", ""]);
    assert!(jobs.line().starts_with("ID "));
    for _ in 0..2 {
        let line = jobs.line();
        assert!(line.contains("ready") && line.contains(" q "), "{line}");
    }
    jobs.signal("TERM");
    assert_eq!(jobs.finish().code, 0);
}

#[test]
fn the_rows_of_a_followed_list_stand_below_each_other() {
    let shell = Shell::on_server();
    let mut jobs = shell.start(&["jobs", "--follow"]);
    jobs.says("following");
    shell.push(&["q"]);
    let (header, ready) = (jobs.line(), jobs.line());
    shell.push(&["q", "--delay", "1h", "payload"]);
    let scheduled = jobs.line();
    assert!(scheduled.contains("scheduled"), "{scheduled}");
    assert_eq!(header.find("QUEUE"), ready.find('q'), "{header}{ready}");
    assert_eq!(
        header.find("QUEUE"),
        scheduled.find('q'),
        "{header}{scheduled}"
    );
    assert_eq!(header.find("TRIES"), ready.find("0/10"), "{header}{ready}");
    assert_eq!(
        header.find("TRIES"),
        scheduled.find("0/10"),
        "{header}{scheduled}"
    );
    assert_eq!(
        header.find("ABOUT"),
        scheduled.find("payload"),
        "{header}{scheduled}"
    );
    jobs.signal("INT");
    assert_eq!(jobs.finish().code, 0);
}
