//! The rule about who is first. H9

use auxo_conformance::checker::{Kind, Rules, check};
use auxo_conformance::history::Op;
use auxo_core::State;

use crate::story::*;

#[test]
fn a_job_that_is_lent_while_a_more_urgent_one_waits_is_out_of_order() {
    let mut s = Story::default();
    s.pushed_to("q", 9, 1).pushed_to("q", 3, 2);
    s.leased(1, 1, 1, 10).settled(Op::Ack, 1, 1);
    s.leased(2, 2, 1, 10).settled(Op::Ack, 2, 2);
    s.expect(&s.check(&[]), Kind::Order, 1);
}

#[test]
fn a_job_that_is_lent_while_an_earlier_one_waits_is_out_of_order() {
    let mut s = Story::default();
    s.pushed_to("q", 3, 1).pushed_to("q", 3, 2);
    s.leased(2, 1, 1, 10).settled(Op::Ack, 2, 1);
    s.leased(1, 2, 1, 10).settled(Op::Ack, 1, 2);
    s.expect(&s.check(&[]), Kind::Order, 2);
}

#[test]
fn who_was_first_and_is_still_there_was_passed_over_too() {
    let mut s = Story::default();
    s.pushed_to("q", 3, 1).pushed_to("q", 3, 2);
    s.leased(2, 1, 1, 10).settled(Op::Ack, 2, 1);
    s.expect(&s.check(&[found(1, State::Ready, 0)]), Kind::Order, 2);
}

#[test]
fn as_many_jobs_may_seem_to_wait_as_leases_were_dropped() {
    let mut s = Story::default();
    s.pushed_to("q", 3, 1).pushed_to("q", 3, 2);
    s.pushed_to("q", 3, 3).pushed_to("q", 3, 4);
    for (job, lease) in [(3, 1), (4, 2), (1, 3), (2, 4)] {
        s.leased(job, lease, 1, 10).settled(Op::Ack, job, lease);
    }
    let is_out_of_order = |dropped| {
        let rules = Rules {
            dropped,
            min_accepted: 0,
            ..Rules::default()
        };
        check(&s.history, &end(&[]), &rules).has(Kind::Order)
    };
    assert!(is_out_of_order(0));
    assert!(is_out_of_order(1));
    assert!(!is_out_of_order(2));
}

#[test]
fn a_retry_may_come_before_its_equals_and_not_before_the_more_urgent() {
    let mut s = Story::default();
    s.pushed_to("q", 3, 1).leased(1, 1, 1, 10);
    s.settled(Op::Release, 1, 1).pushed_to("q", 3, 2);
    s.leased(1, 2, 2, 11).settled(Op::Release, 1, 2);
    s.leased(2, 3, 1, 12).settled(Op::Ack, 2, 3);
    let mut worse = s.clone();
    s.leased(1, 4, 3, 13).settled(Op::Ack, 1, 4);
    s.expect_none(&s.check(&[]));
    worse.pushed_to("q", 2, 4).leased(1, 4, 3, 13);
    worse.settled(Op::Ack, 1, 4);
    worse.leased(4, 5, 1, 14).settled(Op::Ack, 4, 5);
    worse.expect(&worse.check(&[]), Kind::Order, 1);
}

#[test]
fn what_is_not_sure_is_in_order() {
    // In other queues, or later, or by calls that ran at the same time.
    let mut s = Story::default();
    s.pushed_to("q", 3, 1).pushed_to("r", 2, 2);
    s.leased(1, 1, 1, 10).settled(Op::Ack, 1, 1);
    s.leased(2, 2, 1, 10).settled(Op::Ack, 2, 2);
    s.pushed_to("q", 3, 3);
    s.meanwhile(|s| s.leased(3, 3, 1, 10), |s| s.pushed_to("q", 2, 4));
    s.settled(Op::Ack, 3, 3);
    s.pushed_to("q", 3, 5);
    s.meanwhile(|s| s.leased(4, 4, 1, 10), |s| s.leased(5, 5, 1, 10));
    s.settled(Op::Ack, 4, 4).settled(Op::Ack, 5, 5);
    // Whoever was delayed, kicked, cancelled or has a key stands where nobody can tell.
    s.pushed_to("q", 1, 6).cancelled(6);
    s.pushed_to("q", 3, 7).leased(7, 6, 1, 10);
    s.settled(Op::Ack, 7, 6);
    s.expect_none(&s.check(&[]));
}
