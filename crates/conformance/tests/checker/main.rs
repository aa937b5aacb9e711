//! The checker itself is tested first: hand-made histories, good ones and one for each way to be bad.

mod ends;
mod leases;
mod order;
mod story;

use auxo_conformance::checker::{Kind, Outcome, Rules, check};
use auxo_conformance::history::{Op, Phase};
use auxo_core::State;
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
