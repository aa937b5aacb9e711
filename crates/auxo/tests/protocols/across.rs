//! One queue behind all protocols: what one of them puts, any other takes, a third one ends, and whoever watches is told.
//!
//! `push`, `lease`, `settle`, `look`, `steer` and `pause` each have the ways to do one thing; the tests take every combination
//! of them.

mod lease;
mod look;
mod pause;
mod push;
mod settle;
pub mod speaker;
mod steer;
pub mod watch;

use lease::{LEASES, Lease, Leased};
use look::{View, all_see};
use pause::{CLOSES, HOLDS, RESUMES};
use push::{Draft, PLAIN, PUSHES, Push};
use settle::{End, Settle, settles};
use speaker::Speaker;
use steer::{KICKS, REMOVALS};
use watch::Watcher;

use crate::servers::Auxo;
use auxo_harness::redis::Server as Redis;

macro_rules! on_both_engines {
    ($($name:ident),+ $(,)?) => {
        mod on_a_directory {
            $(#[test]
            fn $name() {
                super::$name(&super::Auxo::on_a_directory());
            })+
        }

        mod on_redis {
            $(#[test]
            fn $name() {
                let redis = super::Redis::start(&["--appendonly", "yes"]);
                super::$name(&super::Auxo::on_redis(&redis.url("")));
            })+
        }
    };
}

on_both_engines!(
    what_one_protocol_puts_another_takes_and_a_third_ends_byte_for_byte,
    priority_delay_and_time_to_run_mean_the_same_everywhere,
    a_job_that_is_buried_anywhere_is_dead_everywhere_and_kicked_from_anywhere,
    a_failure_or_a_release_over_one_protocol_counts_for_all,
    a_queue_that_is_paused_over_one_protocol_is_paused_for_all,
);

/// Bytes that somebody on the way could take for something: ends of lines and of texts, requests and replies, JSON, which is
/// kept as it was written, what other queues were made to run, and as much as there may be.
fn payloads() -> Vec<Vec<u8>> {
    let nested = [b"[".repeat(100_000), b"]".repeat(100_000)].concat();
    let fixed: [&[u8]; 11] = [
        b"",
        b"hello",
        b"\0\r\n\0\xff\xfe\xc3(\r\n.\r\n",
        b"\r\nINSERTED 1\r\n*1\r\n$4\r\nQUIT\r\n",
        b" {\"a\": 1.0, \"a\":\t1e999}\r\n",
        b"\"\\ud800\"",
        b"\x80\x04\x95\x1d\0\0\0\0\0\0\0\x8c\x05posix\x94\x8c\x06system\x94\x93\x94\x8c\x02id\x94\x85\x94R\x94.",
        b"\xac\xed\0\x05sr\0\x11java.util.HashMap\x05\x07\xda\xc1\xc3\x16`\xd1\x03\0\x02",
        b"<!DOCTYPE x [<!ENTITY a \"&b;&b;\"><!ENTITY b \"&c;&c;\">]><x>&a;</x>",
        b"\x1f\x8b\x08\0\0\0\0\0\0\xff",
        b"{\"$ref\": \"#\", \"@type\": \"java.lang.Runtime\"}",
    ];
    let mut payloads: Vec<Vec<u8>> = fixed.iter().map(|bytes| bytes.to_vec()).collect();
    payloads.push((0..=255).collect());
    payloads.push(nested);
    payloads.push((0..1 << 20).map(|i: u32| (i % 251) as u8).collect());
    payloads
}

fn what_one_protocol_puts_another_takes_and_a_third_ends_byte_for_byte(server: &Auxo) {
    let mut speaker = Speaker::new(server);
    let mut watcher = Watcher::new(server);
    let payloads = payloads();
    let mut combinations = 0;
    for (p, (pushed_by, push)) in PUSHES.into_iter().enumerate() {
        for (l, (leased_by, lease)) in LEASES.into_iter().enumerate() {
            let queue = format!("q-{p}-{l}");
            let mut ids = Vec::new();
            for payload in &payloads {
                let id = push(&mut speaker, &Draft::new(&queue, payload)).unwrap();
                watcher.tells("push", &queue, id);
                ids.push(id);
            }
            for (turn, (id, payload)) in ids.iter().zip(&payloads).enumerate() {
                let leased = lease(&mut speaker, &queue).unwrap();
                let here = format!("{pushed_by}, then {leased_by}, payload {turn}");
                assert_eq!(leased.id, *id, "{here}");
                assert!(leased.payload == *payload, "{here}: other bytes");
                watcher.tells("lease", &queue, *id);
                // There are more payloads than ways to end a lease.
                let settles = settles(&leased.right);
                assert!(settles.len() <= payloads.len());
                let (settled_by, settle) = settles[turn % settles.len()];
                println!("{here}, then {settled_by}");
                settle(&mut speaker, &leased, End::Ack);
                watcher.tells("ack", &queue, *id);
                combinations += 1;
            }
        }
    }
    assert_eq!(combinations, PUSHES.len() * LEASES.len() * payloads.len());
    // Nothing happened that nobody was told of.
    let last = push::http(&mut speaker, &Draft::new("last", b"")).unwrap();
    watcher.tells("push", "last", last);
    server.assert_well();
}

fn priority_delay_and_time_to_run_mean_the_same_everywhere(server: &Auxo) {
    let mut speaker = Speaker::new(server);
    for (place, (name, push)) in PUSHES.into_iter().enumerate() {
        let queue = format!("later-{place}");
        let draft = Draft {
            priority: 7,
            delay: 3600,
            ttr: 90,
            ..Draft::new(&queue, b"x")
        };
        let id = push(&mut speaker, &draft).unwrap();
        let expected = View {
            queue: queue.clone(),
            state: Some("scheduled".to_owned()),
            priority: Some(if name == "ADDJOB" { PLAIN } else { 7 }),
            delay: 3600,
            ttr: 90,
            failures: Some(0),
        };
        all_see(&mut speaker, id, Some(&expected), name);
        for (other, lease) in LEASES.into_iter().filter(|(name, _)| *name != "Work") {
            let early = lease(&mut speaker, &queue);
            assert!(early.is_none(), "{name}, then {other}: {early:?}");
        }
    }
    for (place, (name, lease)) in LEASES.into_iter().enumerate() {
        let queue = format!("order-{place}");
        // From the least urgent on. Disque's is the plain priority, which is less urgent than all of these.
        let mut ids: Vec<u64> = Vec::new();
        for (priority, (_, push)) in (1..100).rev().step_by(10).zip(in_order()) {
            let draft = Draft {
                priority,
                ttr: 90,
                ..Draft::new(&queue, b"x")
            };
            ids.push(push(&mut speaker, &draft).unwrap());
        }
        ids.reverse();
        for id in ids {
            let leased = lease(&mut speaker, &queue).unwrap();
            assert_eq!(leased.id, id, "{name}");
            let shown = speaker.http.get(&format!("/v1/jobs/{id}")).json();
            let lent = shown["timeline"].as_array().unwrap().last().unwrap();
            assert_eq!(lent["event"], "lease", "{shown}");
            let time = |at: &serde_json::Value| {
                let at = at.as_str().unwrap().parse::<auxo::core::Timestamp>();
                at.unwrap()
            };
            let held = time(&shown["lease"]["deadline"]).since(time(&lent["at"]));
            // The clock of deadlines is another than that of timelines, which has milliseconds only.
            assert!(held.as_millis().abs_diff(90_000) < 1000, "{name}: {shown}");
            let (_, settle) = settles(&leased.right)[0];
            settle(&mut speaker, &leased, End::Ack);
        }
    }
    server.assert_well();
}

/// All ways to push, with Disque's in front.
fn in_order() -> Vec<(&'static str, Push)> {
    let (mut first, rest): (Vec<_>, Vec<_>) =
        PUSHES.into_iter().partition(|(name, _)| *name == "ADDJOB");
    first.extend(rest);
    first
}

/// A way to lease with a way to end that lease.
type Worker = (&'static str, Lease, Settle);

const BURIES: [Worker; 6] = [
    ("bury", lease::reserve, settle::beanstalk),
    ("GETJOB", lease::get, settle::own),
    ("AUXO.LEASE", lease::own, settle::own),
    ("Lease", lease::grpc, settle::grpc),
    ("Work", lease::work, settle::work),
    ("POST", lease::http, settle::http),
];

fn a_job_that_is_buried_anywhere_is_dead_everywhere_and_kicked_from_anywhere(server: &Auxo) {
    let mut speaker = Speaker::new(server);
    let mut watcher = Watcher::new(server);
    for (b, (buried_by, lease, bury)) in BURIES.into_iter().enumerate() {
        for (k, (kicked_by, kick)) in KICKS.into_iter().enumerate() {
            let queue = format!("q-{b}-{k}");
            let (pushed_by, push) = PUSHES[(b + k) % PUSHES.len()];
            let (removed_by, remove, removal) = REMOVALS[(b + k) % REMOVALS.len()];
            let here = format!("{pushed_by}, {buried_by}, {kicked_by}, {removed_by}");
            let id = push(&mut speaker, &Draft::new(&queue, b"x")).unwrap();
            let leased = lease(&mut speaker, &queue).unwrap();
            let mut view = View {
                queue: queue.clone(),
                state: Some("leased".to_owned()),
                priority: Some(PLAIN),
                delay: 0,
                ttr: 60,
                failures: Some(0),
            };
            all_see(&mut speaker, id, Some(&view), &here);
            bury(&mut speaker, &leased, End::Bury);
            view.state = Some("dead".to_owned());
            all_see(&mut speaker, id, Some(&view), &here);
            assert!(lease::http(&mut speaker, &queue).is_none(), "{here}");
            kick(&mut speaker, &queue, id);
            view.state = Some("ready".to_owned());
            all_see(&mut speaker, id, Some(&view), &here);
            remove(&mut speaker, &queue, id);
            all_see(&mut speaker, id, None, &here);
            for event in ["push", "lease", "bury", "kick", removal] {
                watcher.tells(event, &queue, id);
            }
        }
    }
    server.assert_well();
}

fn a_failure_or_a_release_over_one_protocol_counts_for_all(server: &Auxo) {
    let mut speaker = Speaker::new(server);
    let fails: [Worker; 6] = [
        ("NACK", lease::get, settle::disque),
        ("GETJOB", lease::get, settle::own),
        ("AUXO.LEASE", lease::own, settle::own),
        ("Lease", lease::grpc, settle::grpc),
        ("Work", lease::work, settle::work),
        ("POST", lease::http, settle::http),
    ];
    let failures = |speaker: &mut Speaker, id: u64| {
        let seen = look::LOOKS.map(|(_, look)| look(speaker, id).unwrap().failures);
        seen.into_iter().flatten().collect::<Vec<u64>>()
    };
    for (place, (name, lease, settle)) in fails.into_iter().enumerate() {
        let queue = format!("fails-{place}");
        let id = push::put(&mut speaker, &Draft::new(&queue, b"x")).unwrap();
        let leased = lease(&mut speaker, &queue).unwrap();
        settle(&mut speaker, &leased, End::Fail);
        assert_eq!(failures(&mut speaker, id), [1; 4], "{name}");
    }
    for (place, (name, lease, settle)) in BURIES.into_iter().enumerate() {
        let queue = format!("releases-{place}");
        let id = push::http(&mut speaker, &Draft::new(&queue, b"x")).unwrap();
        let leased = lease(&mut speaker, &queue).unwrap();
        settle(&mut speaker, &leased, End::Release);
        assert_eq!(failures(&mut speaker, id), [0; 4], "{name}");
        // It is back for everybody.
        let (next, lease) = LEASES[(place + 1) % LEASES.len()];
        let again: Leased = lease(&mut speaker, &queue).unwrap();
        assert_eq!(again.id, id, "{name}, then {next}");
    }
    server.assert_well();
}

fn a_queue_that_is_paused_over_one_protocol_is_paused_for_all(server: &Auxo) {
    let mut speaker = Speaker::new(server);
    // A tube is one while it holds a job.
    let begin = |speaker: &mut Speaker, queue: &str| {
        push::http(speaker, &Draft::new(queue, b"x")).unwrap();
    };
    for (c, (closed_by, close)) in CLOSES.into_iter().enumerate() {
        for (r, (resumed_by, resume)) in RESUMES.into_iter().enumerate() {
            let queue = format!("in-{c}-{r}");
            begin(&mut speaker, &queue);
            close(&mut speaker, &queue);
            for (name, push) in PUSHES {
                let refused = push(&mut speaker, &Draft::new(&queue, b"x"));
                let word = match name {
                    "put" => "DRAINING",
                    "ADDJOB" => "PAUSED",
                    "AUXO.PUSH" => "QUEUE_PAUSED",
                    _ => "queue_paused",
                };
                let refused = refused.expect_err(closed_by);
                assert_eq!(refused, word, "{closed_by}, {name}");
            }
            resume(&mut speaker, &queue);
            for (name, push) in PUSHES {
                let pushed = push(&mut speaker, &Draft::new(&queue, b"x"));
                assert!(pushed.is_ok(), "{resumed_by}, {name}: {pushed:?}");
            }
        }
    }
    for (h, (held_by, hold)) in HOLDS.into_iter().enumerate() {
        for (r, (resumed_by, resume)) in RESUMES.into_iter().enumerate() {
            let queue = format!("out-{h}-{r}");
            begin(&mut speaker, &queue);
            hold(&mut speaker, &queue);
            for (name, lease) in LEASES.into_iter().filter(|(name, _)| *name != "Work") {
                let leased = lease(&mut speaker, &queue);
                assert!(leased.is_none(), "{held_by}, {name}: {leased:?}");
            }
            let words: [&[u8]; 3] = [b"PAUSE", queue.as_bytes(), b"state"];
            let state: String = speaker.resp(&words).unwrap();
            assert_eq!(state, "out", "{held_by}");
            resume(&mut speaker, &queue);
            let (name, lease) = LEASES[(h + r) % LEASES.len()];
            let leased = lease(&mut speaker, &queue);
            assert!(leased.is_some(), "{held_by}, {resumed_by}, {name}");
        }
    }
    server.assert_well();
}
