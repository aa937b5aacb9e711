use std::sync::Arc;
use std::time::Duration;

use auxo_core::clock::{Clock, ManualClock};
use auxo_core::engine::{Ask, Outcome, Pick, Settle};
use auxo_core::time::Now;
use auxo_core::{Code, JobSpec, NewJob};

use super::super::{Op, Settings};
use super::*;
use crate::dice::Dice;
use crate::disk::SimDisk;

fn job() -> NewJob {
    NewJob {
        queue: QueueName::new("q").expect("a good name"),
        spec: JobSpec::default(),
    }
}

fn store() -> (Machine, Now) {
    let settings = Settings {
        segment_size: 1 << 20,
        node: Arc::from(""),
        max_queues: 10,
        pave: false,
    };
    let disk = Arc::new(SimDisk::new());
    let machine = Machine::open(disk, settings, Dice::seeded(1)).expect("a new store");
    (machine, ManualClock::at(1_700_000_000_000).now())
}

/// What the audit finds in a store with three jobs after something was done to it.
fn problems_after(harm: impl FnOnce(&mut Machine)) -> Vec<String> {
    let (mut machine, now) = store();
    machine.apply(1, Op::Push(vec![job(); 3]), now);
    harm(&mut machine);
    let audit = machine.audit(AUDIT).expect("an audit");
    audit.expect("three jobs are one piece").problems
}

#[test]
fn a_sound_store_has_no_problems() {
    assert_eq!(problems_after(|_| {}), Vec::<String>::new());
}

#[test]
fn a_wrong_number_of_current_records_is_named_and_the_audit_goes_on() {
    let problems = problems_after(|machine| {
        let active = machine.log.active;
        machine.log.segment_mut(active).live_count += 1;
    });
    assert_eq!(problems.len(), 1, "{problems:?}");
    let said = "4 records are current, but the index leads to 3";
    assert!(problems[0].contains(said), "{problems:?}");
}

#[test]
fn a_wrong_count_is_named_though_the_lines_are_right() {
    let problems = problems_after(|machine| machine.queues[0].lined[0].ready += 1);
    assert_eq!(problems.len(), 1, "{problems:?}");
    let said = "ready and scheduled should be 3 by the stored jobs, the books say 4";
    assert!(problems[0].contains(said), "{problems:?}");
}

#[test]
fn a_line_that_leads_nowhere_is_named_though_the_counts_are_right() {
    let problems = problems_after(|machine| machine.queues[0].lanes.clear());
    assert_eq!(problems.len(), 1, "{problems:?}");
    let said = "3 jobs wait, but its lines lead to 0";
    assert!(problems[0].contains(said), "{problems:?}");
}

/// A store with more jobs than one piece, and the ticket of an audit of it that is under way.
fn under_way(harm: impl FnOnce(&mut Machine)) -> (Machine, Now) {
    let (mut machine, now) = store();
    for _ in 0..JOBS / 100 {
        machine.apply(1, Op::Push(vec![job(); 100]), now);
        machine.finish(now);
    }
    harm(&mut machine);
    machine.out.answers.clear();
    machine.apply(AUDIT, Op::Audit, now);
    assert!(machine.out.answers.is_empty() && machine.auditing());
    (machine, now)
}

const JOBS: u64 = 20_000;
const AUDIT: Ticket = 9;

/// Lets the audit come to its end, doing something else between the pieces; answers how many there were, and its result.
fn finish(
    machine: &mut Machine,
    now: Now,
    mut meanwhile: impl FnMut(&mut Machine),
) -> (u32, Vec<(Ticket, Audit)>) {
    let mut pieces = 1;
    let mut audits = Vec::new();
    while machine.auditing() {
        assert_eq!(machine.next_wake(now), Some(Duration::ZERO));
        meanwhile(machine);
        machine.advance(now);
        machine.finish(now);
        pieces += 1;
        for answer in machine.out.answers.drain(..) {
            if let Ok(Reply::Audit(audit)) = answer.reply {
                audits.push((answer.ticket, audit));
            }
        }
    }
    (pieces, audits)
}

fn lease_and_ack(machine: &mut Machine, now: Now) {
    let ask = Ask {
        queues: vec![job().queue],
        job: None,
        pick: Pick::First,
        max: 50,
        wait: Duration::ZERO,
        ttr: None,
        worker: Arc::from("w"),
    };
    machine.apply(2, Op::Lease(ask), now);
    let Some(Ok(Reply::Lease(leased))) = machine.out.answers.pop().map(|answer| answer.reply)
    else {
        panic!("a lease is not answered during an audit");
    };
    assert_eq!(leased.len(), 50);
    let acks = leased[..30].iter().map(|leased| Settle {
        token: leased.token,
        outcome: Outcome::Ack { result: None },
    });
    machine.apply(3, Op::Settle(acks.collect()), now);
    machine.apply(4, Op::Push(vec![job(); 7]), now);
    assert_eq!(machine.out.answers.len(), 2, "the others are answered");
    machine.out.answers.clear();
}

#[test]
fn others_are_served_between_the_pieces_of_an_audit_and_it_is_about_its_beginning() {
    let (mut machine, now) = under_way(|_| {});
    let (pieces, mut audits) = finish(&mut machine, now, |machine| lease_and_ack(machine, now));
    assert!(pieces >= 4, "{pieces}");
    let (ticket, audit) = audits.pop().expect("a result");
    assert_eq!(ticket, AUDIT);
    assert_eq!(audit.problems, Vec::<String>::new());
    assert_eq!((audit.jobs, audit.queues[0].1.live), (JOBS, JOBS));
}

#[test]
fn a_wrong_count_is_named_though_jobs_come_and_go_during_the_audit() {
    type Harm = fn(&mut Machine);
    let harms: [(Harm, &str); 4] = [
        (|machine| machine.queues[0].books.live += 1, "live should"),
        (|machine| machine.queues[0].bytes += 1, "payload bytes"),
        (|machine| machine.queues[0].leased += 1, "leased should"),
        (|machine| machine.queues[0].books.accepted += 1, "accepted"),
    ];
    for (harm, said) in harms {
        let (mut machine, now) = under_way(harm);
        let (_, audits) = finish(&mut machine, now, |machine| lease_and_ack(machine, now));
        let problems = &audits[0].1.problems;
        assert!(
            problems.iter().any(|one| one.contains(said)),
            "{problems:?}"
        );
    }
}

#[test]
fn whoever_asks_during_an_audit_is_told_of_a_moment_after_asking() {
    let (mut machine, now) = under_way(|_| {});
    machine.apply(1, Op::Push(vec![job()]), now);
    machine.apply(10, Op::Audit, now);
    machine.apply(11, Op::Audit, now);
    machine.abandon(11);
    let (_, audits) = finish(&mut machine, now, |_| {});
    let told: Vec<_> = audits.iter().map(|(to, audit)| (*to, audit.jobs)).collect();
    assert_eq!(told, [(AUDIT, JOBS), (10, JOBS + 1)]);
}

#[test]
fn an_audit_that_nobody_waits_for_ends() {
    let (mut machine, now) = under_way(|_| {});
    machine.apply(10, Op::Audit, now);
    machine.abandon(AUDIT);
    let (_, audits) = finish(&mut machine, now, |_| {});
    assert_eq!(audits.iter().map(|(to, _)| *to).collect::<Vec<_>>(), [10]);
    let (mut machine, _) = under_way(|_| {});
    machine.abandon(AUDIT);
    assert!(!machine.auditing());
}

#[test]
fn a_store_that_stops_answers_the_audit_too() {
    let (mut machine, now) = under_way(|_| {});
    machine.apply(10, Op::Audit, now);
    machine.stop(Error::new(Code::Unavailable, "closed"));
    let told: Vec<_> = machine.out.answers.iter().map(|one| one.ticket).collect();
    assert_eq!(told, [AUDIT, 10]);
    assert!(machine.out.answers.iter().all(|one| one.reply.is_err()));
}
