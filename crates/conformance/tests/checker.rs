//! The checker itself is tested first: hand-made histories, good ones and one for each way to be bad.

mod story;

use auxo_conformance::checker::{Fault, Kind, Outcome, Restart, Rules, check};
use auxo_conformance::history::{Op, Phase};
use auxo_core::State;
use auxo_core::engine::Accepted;
use auxo_core::queue::Books;
use story::*;

#[test]
fn a_good_history_passes() {
    let mut s = Story::default();
    // Acked at once.
    s.pushed(1).leased(1, 1, 1, 10).settled(Op::Ack, 1, 1);
    // Failed, waited, acked.
    s.pushed(2).leased(2, 2, 1, 10).retried(2, 2, 50);
    s.leased(2, 3, 2, 50).settled(Op::Ack, 2, 3);
    // Vanished, came back at the deadline; the old worker is refused.
    s.pushed(3).leased(3, 4, 1, 10).leased(3, 5, 2, 110);
    s.refused(Op::Ack, 3, 4).settled(Op::Ack, 3, 5);
    // Given back, buried, kicked, acked.
    s.pushed(4).leased(4, 6, 1, 10).settled(Op::Release, 4, 6);
    s.leased(4, 7, 2, 11).settled(Op::Bury, 4, 7).kicked(4);
    s.leased(4, 8, 3, 12).settled(Op::Ack, 4, 8);
    // An ack that was never answered may or may not have happened.
    s.pushed(5).leased(5, 9, 1, 10).unanswered(Op::Ack, 5, 9);
    s.leased(5, 10, 2, 110).settled(Op::Ack, 5, 10);
    s.pushed(6).leased(6, 11, 1, 10).unanswered(Op::Ack, 6, 11);
    // A push that was never answered made a job, another did not.
    s.push(7, Phase::Unknown).leased(7, 12, 1, 10);
    s.settled(Op::Ack, 7, 12).push(8, Phase::Unknown);
    // Cancelled, dead, and still there.
    s.pushed(9).cancelled(9).pushed(10).leased(10, 13, 1, 10);
    s.settled(Op::Bury, 10, 13).pushed(11).pushed(12);
    // Extended beyond the first deadline.
    s.pushed(13)
        .leased(13, 14, 1, 10)
        .extended(13, 14, 200)
        .leased(13, 15, 2, 200);
    s.settled(Op::Ack, 13, 15);
    let end = [
        found(10, State::Dead, 1),
        found(11, State::Ready, 0),
        found(12, State::Scheduled, 0),
    ];
    let verdict = s.check(&end);
    assert_eq!(verdict.outcome, Outcome::Pass, "{verdict}");
    assert_eq!(verdict.counts.attempted, 13);
    assert_eq!(verdict.counts.acked, 11);
    assert_eq!(verdict.counts.recovered, 1);
    assert_eq!(verdict.counts.ok, 11);
    assert_eq!(verdict.counts.delivered, 15);
    assert_eq!(verdict.counts.duplicated, 6);
}

#[test]
fn too_few_accepted_pushes_prove_nothing() {
    let mut s = Story::default();
    s.pushed(1).leased(1, 1, 1, 10).settled(Op::Ack, 1, 1);
    let verdict = check(&s.history, &end(&[]), &Rules::default());
    assert!(matches!(verdict.outcome, Outcome::Inconclusive(_)));
}

#[test]
fn too_few_restarts_prove_nothing() {
    let mut s = Story::default();
    s.pushed(1).mark(Op::Killed);
    let rules = |min_restarts| Rules {
        min_restarts,
        min_accepted: 1,
        ..Rules::default()
    };
    let end = end(&[found(1, State::Ready, 0)]);
    assert_eq!(check(&s.history, &end, &rules(1)).outcome, Outcome::Pass);
    let verdict = check(&s.history, &end, &rules(2));
    assert!(matches!(verdict.outcome, Outcome::Inconclusive(_)));
}

#[test]
fn a_violation_counts_however_short_the_run() {
    let mut s = Story::default();
    s.pushed(1);
    let verdict = check(&s.history, &end(&[]), &Rules::default());
    assert_eq!(verdict.outcome, Outcome::Violated);
}

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

// The report

#[test]
fn the_first_ten_bad_jobs_are_shown_with_what_happened_to_them() {
    let mut s = Story::default();
    for id in 1..=12 {
        s.pushed(id)
            .leased(id, id, 1, 10)
            .settled(Op::Release, id, id);
    }
    let verdict = s.check(&[]);
    assert_eq!(verdict.tally()[&Kind::Lost], 12);
    assert_eq!(verdict.timelines.len(), 10);
    let lines: Vec<&str> = verdict.timelines[0].lines().collect();
    assert!(lines[0].starts_with("job 1 lost"), "{lines:#?}");
    let words = [
        "push invoke",
        "push ok",
        "lease ok",
        "release ok",
        "not there",
    ];
    for word in words {
        assert!(lines.iter().any(|line| line.contains(word)), "{lines:#?}");
    }
    assert!(verdict.to_string().starts_with("VIOLATED"));
}
