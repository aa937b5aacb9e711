//! The rules about leases: payloads, times, overlaps, tokens, attempts, and reasons.

use auxo_conformance::checker::{Fault, Kind, Outcome, Restart, Rules, check};
use auxo_conformance::history::Op;
use auxo_core::State;

use crate::story::*;

// H3

#[test]
fn a_lease_before_the_due_time_is_early() {
    let mut s = Story::default();
    s.pushed_due(1, 100)
        .leased(1, 1, 1, 50)
        .settled(Op::Ack, 1, 1);
    s.expect(&s.check(&[]), Kind::Early, 1);
}

#[test]
fn a_lease_within_the_rounding_of_the_clocks_is_not_early() {
    let mut s = Story::default();
    s.pushed_due(1, 100)
        .leased(1, 1, 1, 98)
        .settled(Op::Ack, 1, 1);
    s.expect_none(&s.check(&[]));
}

#[test]
fn a_retry_before_its_wait_is_over_is_early() {
    let mut s = Story::default();
    s.pushed(1).leased(1, 1, 1, 10).retried(1, 1, 50);
    s.leased(1, 2, 2, 40).settled(Op::Ack, 1, 2);
    s.expect(&s.check(&[]), Kind::Early, 1);
}

#[test]
fn a_kicked_job_may_be_leased_before_its_due_time() {
    let mut s = Story::default();
    s.pushed_due(1, 100).kicked(1);
    s.leased(1, 1, 1, 50).settled(Op::Ack, 1, 1);
    s.expect_none(&s.check(&[]));
}

// H4

#[test]
fn a_second_lease_while_the_first_is_held_overlaps() {
    let mut s = Story::default();
    s.pushed(1).leased(1, 1, 1, 10).leased(1, 2, 2, 50);
    s.expect(&s.check(&[found(1, State::Leased, 2)]), Kind::Overlap, 1);
}

#[test]
fn a_lease_is_held_for_as_long_as_it_was_extended() {
    let mut s = Story::default();
    s.pushed(1).leased(1, 1, 1, 10).extended(1, 1, 300);
    s.leased(1, 2, 2, 150);
    s.expect(&s.check(&[found(1, State::Leased, 2)]), Kind::Overlap, 1);
}

#[test]
fn one_token_handed_out_twice_overlaps() {
    let mut s = Story::default();
    s.pushed(1).leased(1, 1, 1, 10).leased(1, 1, 1, 10);
    s.settled(Op::Ack, 1, 1);
    let verdict = s.check(&[]);
    assert!(verdict.has(Kind::Overlap), "{verdict}");
}

#[test]
fn a_kill_does_not_end_a_lease() {
    let mut s = Story::default();
    s.pushed(1).leased(1, 1, 1, 10).mark(Op::Killed);
    s.leased(1, 2, 2, 50);
    s.expect(&s.check(&[found(1, State::Leased, 2)]), Kind::Overlap, 1);
}

#[test]
fn a_power_cut_may_end_a_lease() {
    let mut s = Story::default();
    s.pushed(1).leased(1, 1, 1, 10).mark(Op::PowerCut);
    s.leased(1, 2, 1, 50);
    s.expect_none(&s.check(&[found(1, State::Leased, 1)]));
}

#[test]
fn a_power_cut_may_be_told_beside_the_history() {
    let mut s = Story::default();
    s.pushed(1).leased(1, 1, 1, 10);
    let at = s.now();
    s.leased(1, 2, 1, 50);
    let mut rules = Rules {
        min_accepted: 0,
        ..Rules::default()
    };
    let end = end(&[found(1, State::Leased, 1)]);
    assert!(check(&s.history, &end, &rules).has(Kind::Overlap));
    rules.restarts = vec![Restart {
        at,
        fault: Fault::PowerCut,
    }];
    assert_eq!(check(&s.history, &end, &rules).outcome, Outcome::Pass);
}

// H5

#[test]
fn a_settle_with_an_old_token_is_stale() {
    let mut s = Story::default();
    s.pushed(1).leased(1, 1, 1, 10).leased(1, 2, 2, 110);
    s.settled(Op::Ack, 1, 1);
    s.expect(&s.check(&[]), Kind::Stale, 1);
}

#[test]
fn an_extend_with_an_old_token_is_stale() {
    let mut s = Story::default();
    s.pushed(1).leased(1, 1, 1, 10).leased(1, 2, 2, 110);
    s.extended(1, 1, 300).settled(Op::Ack, 1, 2);
    s.expect(&s.check(&[]), Kind::Stale, 1);
}

#[test]
fn an_extend_after_the_settle_is_stale() {
    let mut s = Story::default();
    s.pushed(1).leased(1, 1, 1, 10).settled(Op::Ack, 1, 1);
    s.extended(1, 1, 300);
    s.expect(&s.check(&[]), Kind::Stale, 1);
}

#[test]
fn tokens_that_fall_are_caught() {
    let mut s = Story::default();
    s.pushed(1).leased(1, 2, 1, 10).settled(Op::Release, 1, 2);
    s.leased(1, 1, 2, 11);
    let verdict = s.check(&[found(1, State::Leased, 2)]);
    assert!(verdict.has(Kind::Tokens), "{verdict}");
}

#[test]
fn an_ack_accepted_twice_is_a_double_ack() {
    let mut s = Story::default();
    s.pushed(1).leased(1, 1, 1, 10);
    s.settled(Op::Ack, 1, 1).settled(Op::Ack, 1, 1);
    s.expect(&s.check(&[]), Kind::DoubleAck, 1);
}

#[test]
fn acks_of_two_leases_are_a_double_ack() {
    let mut s = Story::default();
    s.pushed(1).leased(1, 1, 1, 10).leased(1, 2, 2, 110);
    s.settled(Op::Ack, 1, 2).settled(Op::Ack, 1, 1);
    let verdict = s.check(&[]);
    assert!(verdict.has(Kind::DoubleAck), "{verdict}");
}

// H6

#[test]
fn a_job_leased_after_its_ack_is_resurrected() {
    let mut s = Story::default();
    s.pushed(1).leased(1, 1, 1, 10).settled(Op::Ack, 1, 1);
    s.mark(Op::PowerCut).leased(1, 2, 2, 200);
    s.unanswered(Op::Ack, 1, 2);
    s.expect(&s.check(&[]), Kind::Resurrected, 1);
}

#[test]
fn a_job_that_is_still_there_after_its_ack_is_resurrected() {
    let mut s = Story::default();
    s.pushed(1).leased(1, 1, 1, 10).settled(Op::Ack, 1, 1);
    s.expect(&s.check(&[found(1, State::Ready, 1)]), Kind::Resurrected, 1);
}

#[test]
fn a_job_leased_after_it_was_cancelled_is_resurrected() {
    let mut s = Story::default();
    s.pushed(1)
        .cancelled(1)
        .leased(1, 1, 1, 10)
        .settled(Op::Ack, 1, 1);
    s.expect(&s.check(&[]), Kind::Resurrected, 1);
}

#[test]
fn a_cancelled_job_that_is_still_there_is_resurrected() {
    let mut s = Story::default();
    s.pushed(1).cancelled(1);
    s.expect(&s.check(&[found(1, State::Ready, 0)]), Kind::Resurrected, 1);
}

// H7

#[test]
fn a_gap_in_the_attempts_is_caught() {
    let mut s = Story::default();
    s.pushed(1).leased(1, 1, 1, 10).settled(Op::Release, 1, 1);
    s.leased(1, 2, 3, 11).settled(Op::Ack, 1, 2);
    let verdict = s.check(&[]);
    assert!(verdict.has(Kind::Attempts), "{verdict}");
}

#[test]
fn a_lease_call_without_an_answer_explains_a_gap_for_one_job() {
    let mut s = Story::default();
    s.pushed(1).pushed(2).lease_unanswered();
    s.leased(1, 2, 2, 110).settled(Op::Ack, 1, 2);
    s.expect_none(&s.check(&[found(2, State::Ready, 0)]));
    s.leased(2, 3, 2, 110).settled(Op::Ack, 2, 3);
    let verdict = s.check(&[]);
    assert!(verdict.has(Kind::Attempts), "{verdict}");
}

#[test]
fn a_lease_answer_that_was_cut_short_explains_a_gap() {
    let mut s = Story::default();
    s.pushed(1).pushed(2).leased_of(2, 1, 1);
    s.settled(Op::Ack, 1, 1);
    s.leased(2, 3, 2, 110).settled(Op::Ack, 2, 3);
    s.expect_none(&s.check(&[]));
}

#[test]
fn a_repeated_attempt_is_caught_even_after_a_kill() {
    let mut s = Story::default();
    s.pushed(1).leased(1, 1, 1, 10).mark(Op::Killed);
    s.leased(1, 2, 1, 110).settled(Op::Ack, 1, 2);
    s.expect(&s.check(&[]), Kind::Attempts, 1);
}

#[test]
fn a_power_cut_may_not_undo_the_attempt_of_a_failure() {
    let mut s = Story::default();
    s.pushed(1).leased(1, 1, 1, 10).retried(1, 1, 50);
    s.mark(Op::PowerCut).leased(1, 2, 1, 110);
    s.settled(Op::Ack, 1, 2);
    s.expect(&s.check(&[]), Kind::Attempts, 1);
}

#[test]
fn an_attempt_forgotten_at_the_end_is_caught() {
    let mut s = Story::default();
    s.pushed(1).leased(1, 1, 1, 10).settled(Op::Release, 1, 1);
    s.expect(&s.check(&[found(1, State::Ready, 0)]), Kind::Attempts, 1);
}

// H10

#[test]
fn a_job_that_comes_back_after_a_refused_settle_is_unexplained() {
    let mut s = Story::default();
    s.pushed(1).leased(1, 1, 1, 10).refused(Op::Ack, 1, 1);
    s.leased(1, 2, 2, 50).settled(Op::Ack, 1, 2);
    s.expect(&s.check(&[]), Kind::Unexplained, 1);
}

#[test]
fn a_dead_job_that_comes_back_without_a_kick_is_unexplained() {
    let mut s = Story::default();
    s.pushed(1).leased(1, 1, 1, 10).settled(Op::Bury, 1, 1);
    s.leased(1, 2, 2, 50).settled(Op::Ack, 1, 2);
    s.expect(&s.check(&[]), Kind::Unexplained, 1);
}
