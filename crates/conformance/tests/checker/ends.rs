//! The rules about where jobs come from and where they end up.

use auxo_conformance::checker::{Kind, Outcome, Rules, check};
use auxo_conformance::history::{Op, Phase};
use auxo_core::State;
use auxo_core::engine::Accepted;
use auxo_core::queue::Books;

use crate::story::*;

// H1

#[test]
fn an_accepted_job_that_is_nowhere_is_lost() {
    let mut s = Story::default();
    s.pushed(1).pushed(2);
    let verdict = s.check(&[found(2, State::Ready, 0)]);
    s.expect(&verdict, Kind::Lost, 1);
    assert_eq!(verdict.counts.lost, 1);
}

#[test]
fn a_job_that_failed_and_is_nowhere_is_lost() {
    let mut s = Story::default();
    s.pushed(1).leased(1, 1, 1, 10).retried(1, 1, 50);
    s.expect(&s.check(&[]), Kind::Lost, 1);
}

#[test]
fn a_job_that_is_done_though_nobody_acked_it_is_lost() {
    let mut s = Story::default();
    s.pushed(1).leased(1, 1, 1, 10);
    s.expect(&s.check(&[found(1, State::Done, 1)]), Kind::Lost, 1);
}

#[test]
fn two_pushes_that_made_one_job_lost_the_other() {
    let mut s = Story::default();
    s.pushed(1).pushed(1);
    s.expect(&s.check(&[found(1, State::Ready, 0)]), Kind::Lost, 1);
}

#[test]
fn a_job_that_a_push_was_answered_with_may_not_be_lost_either() {
    let mut s = Story::default();
    s.keyed(1, "k", Phase::Unknown)
        .keyed_as(2, 1, "k", Accepted::Existing);
    s.expect(&s.check(&[]), Kind::Lost, 1);
}

// H2

#[test]
fn a_job_from_nowhere_is_unexpected() {
    let mut s = Story::default();
    s.leased(1, 1, 1, 10).settled(Op::Ack, 1, 1);
    let verdict = s.check(&[]);
    s.expect(&verdict, Kind::Unexpected, 1);
    assert_eq!(verdict.counts.unexpected, 1);
}

#[test]
fn a_job_of_a_refused_push_is_unexpected() {
    let mut s = Story::default();
    s.push(1, Phase::Fail);
    s.expect(&s.check(&[found(1, State::Ready, 0)]), Kind::Unexpected, 1);
}

#[test]
fn a_wrong_payload_is_unexpected() {
    let mut s = Story::default();
    s.pushed(1);
    let mut wrong = found(1, State::Ready, 0);
    wrong.hash += 1;
    s.expect(&s.check(&[wrong]), Kind::Unexpected, 1);
}

#[test]
fn a_second_job_of_one_unanswered_push_is_unexpected() {
    let mut s = Story::default();
    s.push(1, Phase::Unknown);
    let mut second = found(2, State::Ready, 0);
    second.hash = 1;
    s.expect(
        &s.check(&[found(1, State::Ready, 0), second]),
        Kind::Unexpected,
        2,
    );
}

#[test]
fn a_settle_with_a_token_that_nobody_got_is_unexpected() {
    let mut s = Story::default();
    s.pushed(1).settled(Op::Release, 1, 7);
    s.expect(&s.check(&[found(1, State::Ready, 0)]), Kind::Unexpected, 1);
}

// H8

#[test]
fn a_job_that_died_without_a_reason_is_caught() {
    let mut s = Story::default();
    s.pushed(1).leased(1, 1, 1, 10).settled(Op::Release, 1, 1);
    s.expect(&s.check(&[found(1, State::Dead, 1)]), Kind::DeadLetter, 1);
}

#[test]
fn a_dead_job_without_its_error_is_caught() {
    let mut s = Story::default();
    s.pushed(1).leased(1, 1, 1, 10).failed_for_good(1, 1);
    let mut dead = found(1, State::Dead, 1);
    s.expect_none(&s.check(std::slice::from_ref(&dead)));
    dead.error = false;
    s.expect(&s.check(&[dead]), Kind::DeadLetter, 1);
}

#[test]
fn a_buried_job_that_is_waiting_at_the_end_is_caught() {
    let mut s = Story::default();
    s.pushed(1).leased(1, 1, 1, 10).settled(Op::Bury, 1, 1);
    s.expect(&s.check(&[found(1, State::Ready, 1)]), Kind::DeadLetter, 1);
}

#[test]
fn a_job_leased_after_its_last_try_is_caught() {
    let mut s = Story::default();
    s.pushed(1).leased(1, 1, 1, 10).leased(1, 2, 2, 110);
    s.retried(1, 2, 120).leased(1, 3, 3, 120);
    s.expect_none(&s.check(&[found(1, State::Leased, 3)]));
    s.leased(1, 4, 4, 220).settled(Op::Ack, 1, 4);
    s.expect(&s.check(&[]), Kind::DeadLetter, 1);
}

#[test]
fn books_that_disagree_with_the_history_are_caught() {
    let mut s = Story::default();
    s.pushed(1).leased(1, 1, 1, 10).settled(Op::Ack, 1, 1);
    let mut end = end(&[]);
    let rules = Rules {
        min_accepted: 0,
        ..Rules::default()
    };
    let books = |accepted, done, live| {
        Some(Books {
            accepted,
            done,
            live,
            ..Books::default()
        })
    };
    end.books = books(1, 1, 0);
    assert_eq!(check(&s.history, &end, &rules).outcome, Outcome::Pass);
    for wrong in [books(2, 2, 0), books(1, 0, 1), books(1, 1, 1)] {
        end.books = wrong;
        assert!(
            check(&s.history, &end, &rules).has(Kind::Books),
            "{wrong:?}"
        );
    }
}

// H11

#[test]
fn one_key_that_made_two_jobs_is_caught() {
    let mut s = Story::default();
    s.keyed(1, "k", Phase::Ok).keyed(2, "k", Phase::Ok);
    let end = [found(1, State::Ready, 0), found(2, State::Ready, 0)];
    s.expect(&s.check(&end), Kind::KeyTwice, 2);
}

#[test]
fn a_push_tried_again_after_a_lost_reply_makes_one_job() {
    let mut s = Story::default();
    s.keyed(1, "k", Phase::Unknown)
        .keyed_as(2, 1, "k", Accepted::Existing);
    s.expect_none(&s.check(&[found(1, State::Ready, 0)]));
    let mut s = Story::default();
    s.keyed(1, "k", Phase::Unknown).keyed(2, "k", Phase::Ok);
    let end = [found(1, State::Ready, 0), found(2, State::Ready, 0)];
    s.expect(&s.check(&end), Kind::KeyTwice, 2);
}

#[test]
fn a_key_whose_job_was_cancelled_is_free_again() {
    let mut s = Story::default();
    s.keyed(1, "k", Phase::Ok)
        .cancelled(1)
        .keyed(2, "k", Phase::Ok);
    s.expect_none(&s.check(&[found(2, State::Ready, 0)]));
}

#[test]
fn a_key_stays_taken_after_the_ack_for_its_window() {
    let mut s = Story::default();
    s.keyed(1, "k", Phase::Ok)
        .leased(1, 1, 1, 10)
        .settled(Op::Ack, 1, 1);
    let mut late = s.clone();
    s.keyed(2, "k", Phase::Ok);
    s.expect(&s.check(&[found(2, State::Ready, 0)]), Kind::KeyTwice, 2);
    late.pass(WINDOW * 1000).keyed(2, "k", Phase::Ok);
    late.expect_none(&late.check(&[found(2, State::Ready, 0)]));
}

#[test]
fn a_push_answered_with_a_job_of_another_key_is_unexpected() {
    let mut s = Story::default();
    s.keyed(1, "a", Phase::Ok)
        .keyed_as(2, 1, "b", Accepted::Existing);
    s.expect(&s.check(&[found(1, State::Ready, 0)]), Kind::Unexpected, 1);
}

#[test]
fn a_replaced_job_may_have_the_new_payload() {
    let mut s = Story::default();
    s.keyed(1, "k", Phase::Ok)
        .keyed_as(2, 1, "k", Accepted::Replaced);
    let mut replaced = found(1, State::Ready, 0);
    replaced.hash = 2;
    s.expect_none(&s.check(&[replaced]));
}

#[test]
fn a_job_of_an_unanswered_push_may_have_been_replaced_since() {
    let mut s = Story::default();
    s.keyed(1, "k", Phase::Unknown)
        .keyed_as(2, 1, "k", Accepted::Replaced);
    let mut replaced = found(1, State::Ready, 0);
    replaced.hash = 2;
    s.expect_none(&s.check(&[replaced]));
}
