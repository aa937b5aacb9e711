//! A queue's rate under load: many clients lease as fast as they can, and the store's own lease times are held against the
//! rate, in every window.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use auxo_core::engine::{Change, Engine, Filter, Query, Settle};
use auxo_core::life::Event;
use auxo_core::queue::{QueueConfig, Rate};
use auxo_core::time::{Timestamp, millis};
use auxo_core::{JobSpec, NewJob};

use crate::bench::{ack, asking, queue};
use crate::rounds;

/// How many clients lease at once.
pub const CLIENTS: usize = 32;
/// What may be leased at once after a quiet time.
const BURST: u32 = 10;
/// How many milliseconds each round of a part lasts.
const ROUND_MS: u64 = 150;
/// How many jobs a client asks for.
const JOBS_PER_CALL: u32 = 3;
/// How often a client may be refused while a store is being started again.
const FAILURES: usize = 10_000;

/// The rates of a proof: from slow to faster than a call a millisecond.
pub fn rates() -> impl Iterator<Item = Rate> {
    [10, 100, 1_000, 5_000].into_iter().map(|count| Rate {
        count,
        per: Duration::from_secs(1),
        burst: BURST,
    })
}

/// How many leases a part of a proof makes.
pub fn part(rate: Rate) -> usize {
    let ms = ROUND_MS * rounds::or(1);
    let leases = u64::from(rate.count) * ms / millis(rate.per);
    usize::try_from(leases).expect("a small number").max(2)
}

/// Sets the rate of the usual queue, and pushes jobs for so many parts.
pub async fn prepare(engine: &dyn Engine, rate: Rate, parts: usize) {
    let config = QueueConfig {
        rate: Some(rate),
        ..QueueConfig::default()
    };
    let change = Change::Queue(queue(), config);
    engine.change(change).await.expect("a rate");
    // Each client may take some more than were asked for together, and a burst.
    let more = CLIENTS * JOBS_PER_CALL as usize + rate.burst as usize;
    let mut jobs = parts * (part(rate) + more);
    while jobs > 0 {
        let batch = jobs.min(1_000);
        let job = NewJob {
            queue: queue(),
            spec: JobSpec {
                ttr: Duration::from_secs(600),
                // Their timelines are what is counted in the end.
                retention: Duration::from_secs(3600),
                ..JobSpec::default()
            },
        };
        engine.push(vec![job; batch]).await.expect("a push");
        jobs -= batch;
    }
}

/// Lets the clients lease and ack, spread over these engines, until they have made so many leases together.
pub async fn lease(engines: &[Arc<dyn Engine>], leases: usize) {
    let made = Arc::new(AtomicUsize::new(0));
    let clients = (0..CLIENTS).map(|client| {
        let engine = engines[client % engines.len()].clone();
        tokio::spawn(lease_until(engine, client, made.clone(), leases))
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.expect("a client that does not panic");
    }
}

async fn lease_until(
    engine: Arc<dyn Engine>,
    client: usize,
    made: Arc<AtomicUsize>,
    leases: usize,
) {
    let mut failures = 0;
    let mut calls = 0;
    while made.load(Ordering::Relaxed) < leases {
        // Some wait for a token to come, others try in between.
        let wait = match (client + calls) % 4 {
            0 => Duration::ZERO,
            _ => Duration::from_millis(100),
        };
        calls += 1;
        let leased = match engine.lease(asking(&[queue()], JOBS_PER_CALL, wait)).await {
            Ok(leased) => leased,
            Err(error) => {
                failures += 1;
                assert!(failures < FAILURES, "{error}");
                continue;
            }
        };
        made.fetch_add(leased.len(), Ordering::Relaxed);
        let items: Vec<Settle> = leased
            .iter()
            .map(|leased| Settle {
                token: leased.token,
                outcome: ack(),
            })
            .collect();
        if !items.is_empty() {
            // A store that went away has the lease all the same, and that is what counts.
            let _ = engine.settle(items).await;
        }
    }
}

/// Reads every lease that the store knows of, and fails if there were more in any window than the rate allows. Answers how
/// many there were.
pub async fn check(engine: &dyn Engine, rate: Rate) -> usize {
    let mut times = Vec::new();
    let mut query = Query {
        filter: Filter {
            queue: Some(queue()),
            ..Filter::default()
        },
        limit: 1_000,
        cursor: None,
    };
    loop {
        let page = engine.list(query.clone()).await.expect("a page");
        for job in page.jobs {
            let leases = job.timeline.iter().filter(|one| one.event == Event::Lease);
            times.extend(leases.map(|one| one.at));
        }
        query.cursor = page.next;
        if query.cursor.is_none() {
            break;
        }
    }
    times.sort_unstable();
    if let Some(over) = first_window_over(&times, rate) {
        panic!("{rate:?}: {over}");
    }
    times.len()
}

/// The first window with more leases than the rate allows, in words. The times are sorted.
fn first_window_over(times: &[Timestamp], rate: Rate) -> Option<String> {
    // From lease i to lease j there are j - i + 1, at most burst + rate * (t_j - t_i): so what counts for each j is the i
    // for which i - rate * t_i is least. A lease is worth `per` units, and a millisecond brings `count` of them.
    let per = i128::from(millis(rate.per));
    let units = |leases: usize, at: Timestamp| {
        leases as i128 * per - i128::from(at.0) * i128::from(rate.count)
    };
    let mut first: Option<(i128, usize)> = None;
    for (j, at) in times.iter().enumerate() {
        let here = units(j, *at);
        if first.is_none_or(|(least, _)| here < least) {
            first = Some((here, j));
        }
        let (least, i) = first?;
        let over = units(j + 1, *at) - least - i128::from(rate.burst) * per;
        if over > 0 {
            let (leases, ms) = (j - i + 1, at.0 - times[i].0);
            return Some(format!("{leases} leases in {ms} ms from {}", times[i]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_with_one_lease_too_many_is_found() {
        let rate = Rate {
            count: 100,
            per: Duration::from_secs(1),
            burst: 3,
        };
        let times = |ms: &[u64]| {
            ms.iter()
                .map(|at| Timestamp(1_000 + at))
                .collect::<Vec<_>>()
        };
        let good = times(&[0, 0, 0, 10, 20, 30, 500, 500, 500, 510]);
        assert_eq!(first_window_over(&good, rate), None);
        for bad in [
            &[0, 0, 0, 9][..],
            &[0, 0, 0, 10, 20, 20],
            &[0, 500, 500, 500, 509],
        ] {
            assert!(first_window_over(&times(bad), rate).is_some(), "{bad:?}");
        }
        assert_eq!(first_window_over(&[], rate), None);
    }
}
