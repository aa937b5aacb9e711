//! The suite, tested against the model: a case that the contract itself does not pass is wrong.

use auxo_conformance::suite::run_case;
use auxo_conformance::{Bench, ModelEngine, queue_limit};
use auxo_core::clock::ManualClock;

async fn make() -> Bench {
    ModelEngine::new(ManualClock::at(1_800_000_000_000)).on_bench()
}

auxo_conformance::suite!(make, restarts, steady, together, direct);

#[test]
fn at_the_limit_the_longest_unused_queue_makes_room() {
    let clock = ManualClock::at(1_700_000_000_000);
    let make = async || ModelEngine::with_queues(clock.clone(), 8).on_bench();
    let case =
        async |t: &Bench| queue_limit::at_the_limit_the_longest_unused_queue_makes_room(t, 8).await;
    run_case(make, case);
}

/// The list of the macro is written by hand; this is why no case can be forgotten in it.
#[test]
fn every_case_is_in_the_list() {
    let list = include_str!("../src/suite.rs");
    let themes = [
        ("books", include_str!("../src/suite/books.rs")),
        ("clock", include_str!("../src/suite/clock.rs")),
        ("fairness", include_str!("../src/suite/fairness.rs")),
        ("holds", include_str!("../src/suite/holds.rs")),
        ("keys", include_str!("../src/suite/keys.rs")),
        ("lease", include_str!("../src/suite/lease.rs")),
        ("limits", include_str!("../src/suite/limits.rs")),
        ("list", include_str!("../src/suite/list.rs")),
        ("moving", include_str!("../src/suite/moving.rs")),
        ("names", include_str!("../src/suite/names.rs")),
        ("operator", include_str!("../src/suite/operator.rs")),
        ("order", include_str!("../src/suite/order.rs")),
        ("push", include_str!("../src/suite/push.rs")),
        ("restart", include_str!("../src/suite/restart.rs")),
        ("schedules", include_str!("../src/suite/schedules.rs")),
        ("settle", include_str!("../src/suite/settle.rs")),
        ("steady", include_str!("../src/suite/steady.rs")),
        ("topics", include_str!("../src/suite/topics.rs")),
        ("unseen", include_str!("../src/suite/unseen.rs")),
        ("urgent", include_str!("../src/suite/urgent.rs")),
        ("waiting", include_str!("../src/suite/waiting.rs")),
    ];
    for (theme, source) in themes {
        let listed = list.split(&format!(" {theme} {{")).nth(1);
        let listed = listed.and_then(|rest| rest.split('}').next());
        let listed: Vec<&str> = listed.expect(theme).split_whitespace().collect();
        let cases = source.split("\npub async fn ").skip(1);
        let cases: Vec<&str> = cases.filter_map(|case| case.split('(').next()).collect();
        assert_eq!(listed, cases, "{theme}");
    }
    let modules = list
        .lines()
        .filter(|line| line.starts_with("pub mod ") && line.ends_with(';'));
    assert_eq!(modules.count(), themes.len());
}
