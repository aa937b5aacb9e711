//! Processes whose clocks differ by an hour are as one: only Redis' clock counts.

use auxo_conformance::bench::ms;

use crate::child::{self, Process, push, take, wall};
use crate::load::open;
use auxo_harness::redis::Server;

const HOUR: u64 = 3_600_000;
/// How far the clocks of two processes that should agree may be apart, and how late something may be.
const CLOSE: u64 = 30_000;
const LATE: u64 = 3_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_whose_clock_is_an_hour_off_is_as_good_as_any() {
    if child::is_one().await {
        return;
    }
    let server = Server::start(&[]);
    let url = server.url("?durability=none");
    let test = "clocks::a_process_whose_clock_is_an_hour_off_is_as_good_as_any";
    for (by, hours) in [("+1h", HOUR as i64), ("-1h", -(HOUR as i64))] {
        let mut other = tokio::task::block_in_place(|| Process::start_at(by, test, &url));
        let mut ask = |order: &str| tokio::task::block_in_place(|| other.ask(order));
        let engine = open(&url).await;

        let off = ask("clock")[0] as i64 - wall() as i64;
        assert!(off.abs_diff(hours) < CLOSE, "its clock is off by {off} ms");

        // What it pushes for later is due by our clock, and we get it then.
        let due = ask("push ours 300")[0];
        assert!(due.abs_diff(wall()) < CLOSE, "due {due}, now {}", wall());
        in_time(&take(&engine, "ours", ms(20_000), true).await, due, 1);

        // What we push for later it gets when that is due, though it waits by its own clock.
        let due = push(&engine, "theirs", ms(500)).await;
        in_time(&ask("take theirs 20000"), due, 1);

        // It holds the job for as long as it said, and not an hour more or less.
        let again = take(&engine, "theirs", ms(20_000), false).await;
        let held = again[0] - due;
        assert!(
            (1000..1000 + 2 * LATE).contains(&held),
            "held for {held} ms"
        );
        assert_eq!(again[2], 2);

        // And the same the other way.
        let last = ask("work theirs 20000");
        let held = last[0] - again[0];
        assert!((1000..1000 + LATE).contains(&held), "held for {held} ms");
        assert_eq!(last[2], 3);

        // Waiting for nothing takes as long as it was to.
        let began = std::time::Instant::now();
        assert_eq!(ask("take theirs 500"), Vec::<u64>::new());
        let took = began.elapsed();
        assert!(took >= ms(500) && took < ms(500 + LATE), "{took:?}");
        println!("clock off by {off} ms: nobody noticed");
    }
}

/// Not early, and not late.
fn in_time(taken: &[u64], due: u64, attempt: u64) {
    let [granted, run_at, attempts] = *taken else {
        panic!("no job: {taken:?}");
    };
    assert_eq!((run_at, attempts), (due, attempt));
    let late = granted.checked_sub(due).expect("not early");
    assert!(late < LATE, "{late} ms late");
}
