use super::*;
use crate::job::{Backoff, Headers, Holder};
use crate::queue::{Books, Counts, QueueConfig, Rate};

const NOW: Timestamp = Timestamp(1_700_000_000_000);
const MINUTE: Duration = Duration::from_secs(60);

fn job(state: State) -> Job {
    Job {
        id: JobId(7),
        queue: QueueName::new("mail").unwrap(),
        kind: "".into(),
        payload: Default::default(),
        headers: Headers::new(),
        priority: 0,
        state,
        run_at: NOW,
        created_at: NOW,
        ttr: MINUTE,
        expires_at: None,
        max_attempts: 10,
        backoff: Backoff::default(),
        key: Some("k".into()),
        key_window: Duration::from_secs(24 * 3600),
        group: None,
        retention: Duration::ZERO,
        attempt: 2,
        failures: 0,
        vanished: 0,
        last_error: None,
        dead: None,
        ended_at: None,
        progress: None,
        result: None,
        holder: None,
        timeline: Vec::new(),
    }
}

fn queue() -> QueueInfo {
    QueueInfo {
        name: QueueName::new("mail").unwrap(),
        config: QueueConfig::default(),
        counts: Counts {
            ready: 3,
            ..Counts::default()
        },
        bytes: 0,
        books: Books::default(),
        waiting: 0,
        last_asked: Some(NOW),
        next_due: None,
        rate_wait: None,
    }
}

fn changed<T>(mut value: T, change: impl FnOnce(&mut T)) -> T {
    change(&mut value);
    value
}

/// The store was opened so many minutes ago.
fn watch(minutes: u32) -> Watch {
    Watch {
        since: Some(NOW.minus(minutes * MINUTE)),
        now: NOW,
    }
}

/// Nobody knows who asks.
fn unwatched() -> Watch {
    Watch {
        since: None,
        now: NOW,
    }
}

fn ready_in(change: impl FnOnce(&mut QueueInfo)) -> Explanation {
    explain(
        Some(&job(State::Ready)),
        Some(&changed(queue(), change)),
        watch(10),
    )
}

fn alone(state: State, change: impl FnOnce(&mut Job)) -> Explanation {
    explain(
        Some(&changed(job(state), change)),
        Some(&queue()),
        watch(10),
    )
}

#[test]
fn every_case_has_its_reason_and_its_words() {
    let ago = NOW.minus(10 * MINUTE);
    let soon = NOW.plus(MINUTE);
    let holder = Holder {
        worker: "w1".into(),
        deadline: soon,
        cancel: true,
    };
    let rate = Some(Rate {
        count: 5,
        per: MINUTE,
        burst: 5,
    });
    let error = || Some("smtp 451".to_owned());
    let unasked = || changed(queue(), |queue| queue.last_asked = None);
    let table = [
        (
            explain(None, None, watch(10)),
            Reason::UnknownJob,
            "no such job is stored",
        ),
        (
            alone(State::Scheduled, |job| job.run_at = soon),
            Reason::NotDue,
            "not due until 2023-11-14T22:14:20.000Z, in 1m",
        ),
        (
            alone(State::Scheduled, |job| {
                (job.failures, job.last_error) = (2, error())
            }),
            Reason::NotDue,
            "try 2 of 10 failed or vanished, last error: smtp 451",
        ),
        (
            explain(
                Some(&job(State::Scheduled)),
                Some(&changed(queue(), |q| q.config.paused_out = true)),
                watch(10),
            ),
            Reason::NotDue,
            "its queue is paused, too",
        ),
        (
            ready_in(|queue| queue.config.paused_out = true),
            Reason::QueuePaused,
            "queue mail is paused",
        ),
        (
            ready_in(|queue| (queue.config.max_leased, queue.counts.leased) = (Some(2), 2)),
            Reason::LeaseLimit,
            "queue mail has 2 jobs leased and its limit is 2",
        ),
        (
            ready_in(|queue| (queue.config.rate, queue.rate_wait) = (rate, Some(soon))),
            Reason::RateLimit,
            "its rate of 5 per 1m; it may go on at 2023-11-14T22:14:20.000Z",
        ),
        (
            ready_in(|queue| queue.last_asked = None),
            Reason::NoConsumer,
            "no worker has asked for queue mail since the store was opened 10m ago, at 2023-11-14T22:03:20.000Z",
        ),
        (
            explain(Some(&job(State::Ready)), Some(&unasked()), unwatched()),
            Reason::Waiting,
            "waiting for a worker to ask for queue mail",
        ),
        (
            ready_in(|queue| queue.last_asked = Some(ago)),
            Reason::NoConsumer,
            "no worker has asked for queue mail for 10m, since 2023-11-14T22:03:20.000Z",
        ),
        (
            ready_in(|queue| (queue.last_asked, queue.counts.leased) = (Some(ago), 1)),
            Reason::Waiting,
            "3 jobs ready, 1 leased",
        ),
        (
            ready_in(|queue| (queue.last_asked, queue.counts.leased) = (None, 1)),
            Reason::Waiting,
            "3 jobs ready, 1 leased",
        ),
        (
            ready_in(|queue| (queue.last_asked, queue.waiting) = (Some(ago), 4)),
            Reason::Waiting,
            "4 lease calls wait",
        ),
        (ready_in(|_| ()), Reason::Waiting, "behind other work"),
        (
            explain(Some(&job(State::Ready)), None, watch(10)),
            Reason::Waiting,
            "waiting for a worker",
        ),
        (
            alone(State::Leased, |job| job.holder = Some(holder)),
            Reason::Leased,
            "leased by worker w1, try 2, until 2023-11-14T22:14:20.000Z (in 1m) unless it extends; it was asked to stop",
        ),
        (
            alone(State::Dead, |job| {
                (job.dead, job.failures) = (Some(DeadReason::Failed), 10);
                (job.last_error, job.ended_at) = (error(), Some(NOW));
            }),
            Reason::Dead,
            "dead since 2023-11-14T22:13:20.000Z: it failed 10 times, with 10 tries allowed, last error: smtp 451",
        ),
        (
            alone(State::Dead, |job| {
                (job.dead, job.vanished) = (Some(DeadReason::Vanished), 10)
            }),
            Reason::Dead,
            "its workers vanished 10 times",
        ),
        (
            alone(State::Dead, |job| job.dead = Some(DeadReason::Buried)),
            Reason::Dead,
            "a worker buried it",
        ),
        (
            alone(State::Dead, |job| {
                (job.dead, job.expires_at) = (Some(DeadReason::Expired), Some(ago))
            }),
            Reason::Dead,
            "its time to live ended at 2023-11-14T22:03:20.000Z",
        ),
        (
            alone(State::Done, |job| job.ended_at = Some(NOW)),
            Reason::Done,
            "done at 2023-11-14T22:13:20.000Z, with try 2",
        ),
        (
            alone(State::Cancelled, |_| ()),
            Reason::Cancelled,
            "cancelled",
        ),
        (
            explain_key("k", Some(&job(State::Ready)), Some(&queue()), watch(10)),
            Reason::KeyHeld,
            "the key \"k\" is held by job 7 until 1d after it is done; that job is ready: ready, waiting",
        ),
        (
            explain_key(
                "k",
                Some(&changed(job(State::Done), |job| job.ended_at = Some(NOW))),
                None,
                watch(10),
            ),
            Reason::KeyHeld,
            "held by job 7 until 2023-11-15T22:13:20.000Z; that job is done",
        ),
        (
            explain_key("k", None, Some(&queue()), watch(10)),
            Reason::KeyFree,
            "no job holds the key \"k\"",
        ),
    ];
    for (explanation, reason, part) in &table {
        assert_eq!(explanation.reason, *reason, "{}", explanation.text);
        assert!(
            explanation.text.contains(part),
            "{}\nshould say {part}",
            explanation.text
        );
    }
    for reason in Reason::ALL {
        assert!(
            table.iter().any(|(_, tested, _)| *tested == reason),
            "{reason:?} is not in the table"
        );
    }
}

#[test]
fn the_facts_stand_beside_the_sentence() {
    let soon = NOW.plus(MINUTE);
    let leased = alone(State::Leased, |job| {
        job.holder = Some(Holder {
            worker: "w1".into(),
            deadline: soon,
            cancel: false,
        });
        job.last_error = Some("e".into());
    });
    assert_eq!(leased.job, Some(JobId(7)));
    assert_eq!(leased.state, Some(State::Leased));
    assert_eq!(leased.queue.unwrap().as_str(), "mail");
    assert_eq!(leased.until, Some(soon));
    assert_eq!(leased.worker.as_deref(), Some("w1"));
    assert_eq!(leased.error.as_deref(), Some("e"));

    let retained = alone(State::Done, |job| {
        (job.ended_at, job.retention) = (Some(NOW), MINUTE);
    });
    assert_eq!((retained.since, retained.until), (Some(NOW), Some(soon)));
}

#[test]
fn reasons_have_different_names() {
    let mut names = Reason::ALL.map(Reason::as_str).to_vec();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), Reason::ALL.len());
}
