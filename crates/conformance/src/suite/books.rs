//! Where every job went: counts, books, the audit, and what watchers are told.

use auxo_core::engine::Action;
use auxo_core::job::Ttl;
use auxo_core::life::Event;
use auxo_core::queue::{Books, Counts};
use auxo_core::time::When;
use auxo_core::{Code, JobSpec};
use tokio::sync::broadcast::error::TryRecvError;

use crate::bench::*;

/// Each way through life is booked in its own column, and the columns add up at every step.
pub async fn the_books_say_where_every_job_went(t: &Bench) {
    let retention = secs(3600);
    let retained = JobSpec {
        retention,
        ..plain()
    };
    let ttl = Ttl::After(secs(1));
    let mortal = JobSpec {
        ttl,
        ..later(secs(60))
    };
    t.push_many(2, retained).await;
    t.work(ack()).await;
    t.work(ack()).await;
    t.push(plain()).await;
    t.work(bury("no")).await;
    t.push(mortal).await;
    t.pass(secs(1));
    let cancelled = t.push(plain()).await;
    t.steer(cancelled, Action::Cancel).await.unwrap();
    let deleted = t.push(plain()).await;
    t.steer(deleted, Action::Delete).await.unwrap();
    t.push_many(2, plain()).await;
    t.one().await;
    t.push(later(secs(60))).await;
    let info = t.info().await;
    let books = Books {
        accepted: 9,
        live: 3,
        done: 2,
        dead: 1,
        expired: 1,
        cancelled: 1,
        deleted: 1,
    };
    assert_eq!(info.books, books);
    assert!(info.books.balanced());
    let counts = Counts {
        scheduled: 1,
        ready: 1,
        leased: 1,
        dead: 2,
        done: 2,
    };
    assert_eq!(info.counts, counts);
}

/// What is scheduled or ready is counted by the clock, without anybody moving it.
pub async fn counts_follow_the_clock(t: &Bench) {
    for seconds in [10, 20, 30] {
        t.push(later(secs(seconds))).await;
    }
    for (ready, scheduled) in [(0, 3), (1, 2), (2, 1), (3, 0)] {
        let counts = t.info().await.counts;
        assert_eq!((counts.ready, counts.scheduled), (ready, scheduled));
        t.pass(secs(10));
    }
}

/// The queue shows when its next scheduled job falls due, not one that is due already.
pub async fn a_queue_shows_its_next_due_time(t: &Bench) {
    t.push(plain()).await;
    assert_eq!(t.info().await.next_due, None);
    let begin = t.wall();
    t.push(later(secs(20))).await;
    let when = When::At(begin.plus(secs(10)));
    let urgent = JobSpec { when, ..urgency(0) };
    let first = t.push(urgent).await;
    assert_eq!(t.info().await.next_due, Some(begin.plus(secs(10))));
    t.pass(secs(10));
    assert_eq!(t.info().await.next_due, Some(begin.plus(secs(20))));
    t.pass(secs(10));
    assert_eq!(t.info().await.next_due, None);
    let when = When::After(secs(5));
    t.steer(first, Action::Reschedule(when)).await.unwrap();
    assert_eq!(t.info().await.next_due, Some(begin.plus(secs(25))));
}

/// Payload bytes of everything that is not done are counted.
pub async fn payload_bytes_are_counted_until_a_job_is_done(t: &Bench) {
    let spec = |retention| JobSpec {
        payload: text("12345"),
        retention,
        ..plain()
    };
    t.push(spec(ms(0))).await;
    t.push(spec(secs(60))).await;
    t.push(spec(ms(0))).await;
    assert_eq!(t.info().await.bytes, 15);
    t.work(ack()).await;
    assert_eq!(t.info().await.bytes, 10);
    t.work(ack()).await;
    assert_eq!(t.info().await.bytes, 5);
    t.work(bury("no")).await;
    assert_eq!(t.info().await.bytes, 5);
    t.purge(&queue()).await;
    assert_eq!(t.info().await.bytes, 0);
}

/// The audit finds what the queues show, for each of them.
pub async fn the_audit_agrees_with_the_queues(t: &Bench) {
    for name in ["a", "b"] {
        let queue = named(name);
        for _ in 0..5 {
            t.push_to(&queue, plain()).await;
        }
        let leased = t.take_from(&[queue], 3).await;
        t.settle(leased[0].token, ack()).await;
        t.settle(leased[1].token, bury("no")).await;
    }
    let audit = t.engine.audit().await.unwrap();
    assert_eq!(audit.problems, Vec::<String>::new());
    let infos = t.engine.queues(None).await.unwrap();
    let books: Vec<_> = infos
        .into_iter()
        .map(|info| (info.name, info.books))
        .collect();
    let mut audited = audit.queues;
    audited.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(audited, books);
    assert!(audit.jobs >= 8);
}

/// Whoever watches is told of every transition, in order and without a gap.
pub async fn watchers_are_told_of_every_transition(t: &Bench) {
    t.push(plain()).await;
    t.purge(&queue()).await;
    let mut watch = t.engine.watch();
    let id = t.push(plain()).await;
    t.work(fail("oops")).await;
    t.pass(secs(1));
    t.one().await;
    t.pass(secs(60));
    t.work(bury("no")).await;
    t.steer(id, Action::Kick).await.unwrap();
    t.work(ack()).await;
    use Event::*;
    let expected = [
        Push, Lease, Retry, Lease, Vanish, Lease, Bury, Kick, Lease, Ack,
    ];
    let mut last = None;
    for event in expected {
        let notice = t.answer(tokio::spawn(async move {
            let notice = watch.recv().await.expect("a notice");
            (notice, watch)
        }));
        let (notice, back) = notice.await;
        watch = back;
        assert_eq!((notice.job, notice.event), (id, event));
        assert_eq!(notice.queue, queue());
        assert!(last.is_none_or(|last| notice.sequence == last + 1));
        last = Some(notice.sequence);
        if event == Retry {
            assert_eq!((&*notice.by, &*notice.note), ("worker-1", "oops"));
        }
    }
    assert_eq!(watch.try_recv(), Err(TryRecvError::Empty));
}

/// After it was closed an engine answers `unavailable`, and says so when asked for its health.
pub async fn a_closed_engine_is_unavailable(t: &Bench) {
    t.push(plain()).await;
    assert_eq!(t.engine.health(), Ok(()));
    assert_eq!(t.engine.outages(), []);
    t.engine.close().await.unwrap();
    assert_eq!(code(t.engine.health()), Code::Unavailable);
    assert_eq!(
        t.engine.outages(),
        [],
        "where nothing works, nothing else is missing"
    );
    assert_eq!(code(t.try_push(&queue(), plain()).await), Code::Unavailable);
    let ask = asking(&[queue()], 1, secs(60));
    assert_eq!(code(t.engine.lease(ask).await), Code::Unavailable);
    assert_eq!(code(t.engine.queues(None).await), Code::Unavailable);
    assert_eq!(code(t.engine.reachable_queues().await), Code::Unavailable);
}

/// A job that is given back again and again leaves books that balance.
pub async fn a_job_that_goes_round_is_booked_once(t: &Bench) {
    t.push(plain()).await;
    for _ in 0..100 {
        t.work(release()).await;
        t.work(snooze(secs(1))).await;
        t.pass(secs(1));
    }
    let books = t.info().await.books;
    assert_eq!((books.accepted, books.live, books.done), (1, 1, 0));
}
