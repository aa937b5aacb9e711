//! Jobs that move from one store to another. Most cases take jobs out of the engine and put them back: what comes through that as
//! it was comes through a move between two engines.

use auxo_core::engine::{Action, Change, Extend, Outcome};
use auxo_core::job::{Job, OnDuplicate, Ttl};
use auxo_core::passage::{Adopted, Adoption, Departure, Leaving, Passage, Passages, Step};
use auxo_core::queue::{Books, QueueConfig};
use auxo_core::schedule::{Missed, Rhythm, Schedule};
use auxo_core::time::{Base, Due, When};
use auxo_core::{Code, JobId, JobSpec, QueueName, Result, State};

use crate::bench::*;

const SOURCE: &str = "elsewhere";

pub(super) async fn page(
    t: &Bench,
    queue: &QueueName,
    from: Option<&Passages>,
    limit: u32,
) -> Passages {
    let departure = Departure {
        queue: queue.clone(),
        cursor: from.and_then(|page| page.next.clone()),
        limit,
    };
    t.engine.passages(departure).await.expect("a page")
}

/// Everything that can be moved out of a queue.
async fn passages(t: &Bench, queue: &QueueName) -> Vec<Passage> {
    let mut last = page(t, queue, None, 100).await;
    let mut jobs = std::mem::take(&mut last.jobs);
    while last.next.is_some() {
        last = page(t, queue, Some(&last), 100).await;
        jobs.append(&mut last.jobs);
    }
    jobs
}

async fn depart(t: &Bench, queue: &QueueName, jobs: &[Passage]) -> Vec<Result<()>> {
    let jobs = jobs.iter().map(Passage::leaving).collect();
    t.engine.depart(queue.clone(), jobs).await.expect("answers")
}

/// Takes everything out that can move.
pub(super) async fn take_out(t: &Bench) -> Vec<Passage> {
    let jobs = passages(t, &queue()).await;
    for departed in depart(t, &queue(), &jobs).await {
        departed.expect("it departs");
    }
    assert_eq!(passages(t, &queue()).await, vec![]);
    jobs
}

pub(super) async fn adopt(t: &Bench, queue: &QueueName, run: u64, step: Step) -> Result<Adopted> {
    let adoption = Adoption {
        queue: queue.clone(),
        store: SOURCE.to_owned(),
        run,
        step,
    };
    t.engine.adopt(adoption).await
}

/// Puts jobs into a queue, in a move of its own.
async fn put_in(t: &Bench, queue: &QueueName, jobs: Vec<Passage>) -> Vec<Result<JobId>> {
    adopt(t, queue, 1, Step::Begin).await.expect("it begins");
    let adopted = adopt(t, queue, 1, Step::Jobs(jobs)).await.expect("a batch");
    adopt(t, queue, 1, Step::End).await.expect("it ends");
    adopted.results
}

async fn put_back(t: &Bench, jobs: Vec<Passage>) {
    let ids: Vec<JobId> = jobs.iter().map(|passage| passage.job.id).collect();
    let results = put_in(t, &queue(), jobs).await;
    let given: Vec<JobId> = results.into_iter().map(|r| r.expect("a job")).collect();
    assert_eq!(given, ids);
}

async fn shown(t: &Bench, ids: &[JobId]) -> Vec<Job> {
    let mut jobs = Vec::new();
    for id in ids {
        jobs.push(t.job(*id).await);
    }
    jobs
}

/// A job of every state, and each with as much to it as it can have.
async fn populate(t: &Bench) -> Vec<JobId> {
    let full = |name: &str| JobSpec {
        kind: "k".into(),
        payload: text(" {\"n\": 1}\n"),
        headers: [("h".to_owned(), "v".to_owned())].into(),
        priority: 7,
        ttr: secs(5),
        ttl: Ttl::At(t.wall().plus(secs(5000))),
        max_attempts: 3,
        group: Some("g".into()),
        retention: secs(600),
        ..keyed(name, OnDuplicate::Reject)
    };
    let mut ids = Vec::new();
    // Done, with a result.
    ids.push(t.push(full("done")).await);
    let leased = t.one().await;
    let result = Some(text("{\"r\":1}"));
    t.settle(leased.token, Outcome::Ack { result }).await;
    // Dead in four ways.
    ids.push(t.push(full("buried")).await);
    t.work(bury("no use")).await;
    let single = JobSpec {
        max_attempts: 1,
        ..full("failed")
    };
    ids.push(t.push(single).await);
    t.work(fail("it failed")).await;
    let single = JobSpec {
        max_attempts: 1,
        ..full("vanished")
    };
    ids.push(t.push(single).await);
    t.one().await;
    t.pass(secs(5));
    let mortal = JobSpec {
        ttl: Ttl::After(secs(1)),
        ..later(secs(100))
    };
    ids.push(t.push(mortal).await);
    t.pass(secs(1));
    // Failed once, with progress, and waits for its next try.
    ids.push(t.push(full("retried")).await);
    let leased = t.one().await;
    let extend = Extend {
        token: leased.token,
        ttr: None,
        progress: Some(text("{\"p\":50}")),
    };
    t.engine
        .extend(vec![extend])
        .await
        .unwrap()
        .remove(0)
        .unwrap();
    t.settle(leased.token, fail("once")).await;
    // Its worker vanished, and it stands at the front.
    ids.push(t.push(full("front")).await);
    t.one().await;
    t.pass(secs(5));
    // Never touched: scheduled by either clock, and ready.
    ids.push(t.push(full("ready")).await);
    ids.push(t.push(later(secs(1000))).await);
    let when = When::At(t.wall().plus(secs(2000)));
    ids.push(t.push(JobSpec { when, ..full("at") }).await);
    ids.push(t.push(plain()).await);
    ids
}

/// A job in every state comes back with every field as it was.
pub async fn a_job_in_every_state_comes_through_a_move_as_it_was(t: &Bench) {
    let ids = populate(t).await;
    let before = shown(t, &ids).await;
    let states = |state| before.iter().filter(|job| job.state == state).count();
    let by_state = [State::Done, State::Dead, State::Scheduled, State::Ready].map(states);
    assert_eq!(by_state, [1, 4, 2, 4]);
    let jobs = take_out(t).await;
    for id in &ids {
        assert_eq!(t.find(*id).await, None);
    }
    put_back(t, jobs).await;
    assert_eq!(shown(t, &ids).await, before);
    t.check_books().await;
}

/// What the counts, the books and the bytes said goes with the jobs, and comes with them.
pub async fn counts_and_books_go_along(t: &Bench) {
    populate(t).await;
    let before = t.info().await;
    let jobs = take_out(t).await;
    let empty = t.info().await;
    assert_eq!((empty.books, empty.bytes), (Books::default(), 0));
    assert_eq!(empty.counts, Default::default());
    t.check_books().await;
    put_back(t, jobs).await;
    let after = t.info().await;
    assert_eq!((after.books, after.bytes), (before.books, before.bytes));
    assert_eq!(after.counts, before.counts);
    assert_eq!(after.next_due, before.next_due);
}

/// However small the pages, each job is on one of them, also when what was shown departs before the next.
pub async fn pages_of_a_move_show_every_job_once(t: &Bench) {
    let mut ids = Vec::new();
    for i in 0..30 {
        ids.push(t.push(urgency(i % 3)).await);
    }
    for _ in 0..10 {
        t.work(bury("no")).await;
    }
    for i in 0..10 {
        ids.push(
            t.push(keyed(&format!("held {i}"), OnDuplicate::Reject))
                .await,
        );
    }
    for _ in 0..30 {
        t.work(ack()).await;
    }
    // Of the plain ones that are done nothing is left.
    let mut seen = Vec::new();
    let mut last: Option<Passages> = None;
    loop {
        let this = page(t, &queue(), last.as_ref(), 4).await;
        depart(t, &queue(), &this.jobs).await;
        seen.extend(this.jobs.iter().map(|passage| passage.job.id));
        if this.next.is_none() {
            break;
        }
        last = Some(this);
    }
    seen.sort();
    let unique = seen.len();
    seen.dedup();
    assert_eq!((seen.len(), unique), (20, 20));
    assert!(seen.iter().all(|id| ids.contains(id)));
    assert_eq!(t.info().await.books.done, 20);
}

/// A cursor leads nowhere but on: who may move the jobs of one queue does not read those of another with it.
pub async fn a_cursor_of_another_queue_moves_nothing_of_it(t: &Bench) {
    for name in ["a", "b"] {
        for _ in 0..3 {
            t.push_to(&named(name), plain()).await;
        }
    }
    for (own, other) in [("a", "b"), ("b", "a")] {
        let departure = |queue, cursor| Departure {
            queue: named(queue),
            cursor,
            limit: 1,
        };
        let first = t.engine.passages(departure(other, None)).await;
        let of_other = first.expect("a page").next;
        assert!(of_other.is_some());
        if let Ok(page) = t.engine.passages(departure(own, of_other)).await {
            let mut jobs = page.jobs.iter().map(|passage| &passage.job);
            assert!(jobs.all(|job| job.queue == named(own)));
        }
    }
}

/// A job that a worker has is not for a move.
pub async fn leased_jobs_are_left_out_of_a_move(t: &Bench) {
    t.push_many(2, plain()).await;
    let leased = t.one().await;
    let jobs = take_out(t).await;
    assert_eq!(jobs.len(), 1);
    t.settle(leased.token, release()).await;
    let jobs = take_out(t).await;
    assert_eq!(jobs[0].job.id, leased.job.id);
}

/// What somebody did to a job meanwhile would be lost with it.
pub async fn a_job_that_changed_since_it_was_read_stays(t: &Bench) {
    let replaced = t.push(keyed("k", OnDuplicate::Reject)).await;
    let moved = t.push(later(secs(50))).await;
    let worked = t.push(urgency(0)).await;
    let untouched = t.push(plain()).await;
    let jobs = passages(t, &queue()).await;
    let spec = JobSpec {
        payload: text("new"),
        ..keyed("k", OnDuplicate::Replace)
    };
    assert_eq!(t.push(spec).await, replaced);
    t.steer(moved, Action::Reschedule(When::After(secs(9))))
        .await
        .unwrap();
    let leased = t.one().await;
    assert_eq!(leased.job.id, worked);
    t.settle(leased.token, release()).await;
    let results = depart(t, &queue(), &jobs).await;
    for (passage, result) in jobs.iter().zip(results) {
        match passage.job.id == untouched {
            true => result.expect("it departs"),
            false => assert_eq!(code(result), Code::Conflict),
        }
    }
    for id in [replaced, moved, worked] {
        assert!(t.find(id).await.is_some());
    }
    assert_eq!(take_out(t).await.len(), 3);
}

/// Only a job that is here, in this queue and with no worker, can leave.
pub async fn a_leased_or_unknown_job_does_not_depart(t: &Bench) {
    let id = t.push(plain()).await;
    let other = t.push_to(&named("other"), plain()).await;
    let any = |id| Leaving { id, version: None };
    let jobs = vec![any(other), any(JobId(77))];
    let results = t.engine.depart(queue(), jobs).await.unwrap();
    for result in results {
        assert_eq!(code(result), Code::NotFound);
    }
    t.one().await;
    let results = t.engine.depart(queue(), vec![any(id)]).await.unwrap();
    assert_eq!(
        results.into_iter().map(code).collect::<Vec<_>>(),
        [Code::Conflict]
    );
    assert!(t.find(other).await.is_some());
    let results = t.engine.depart(named("other"), vec![any(other)]).await;
    results.unwrap().remove(0).expect("in any version");
    assert_eq!(t.find(other).await, None);
}

/// Whoever goes on with a move learns which jobs came last, though they are done by then.
pub async fn a_move_that_is_broken_off_knows_what_came_last(t: &Bench) {
    t.push_many(3, plain()).await;
    let jobs = take_out(t).await;
    let look = adopt(t, &queue(), 5, Step::Look).await.unwrap();
    assert_eq!(look.last, None);
    let begun = adopt(t, &queue(), 5, Step::Begin).await.unwrap();
    assert_eq!(begun.last, Some(vec![]));
    let (first, second) = jobs.split_at(2);
    for batch in [first, second] {
        let leaving: Vec<Leaving> = batch.iter().map(Passage::leaving).collect();
        let adopted = adopt(t, &queue(), 5, Step::Jobs(batch.to_vec()))
            .await
            .unwrap();
        assert_eq!(adopted.last.as_ref(), Some(&leaving));
        while !t.idle().await {
            // Handed out is as good as gone.
        }
        let look = adopt(t, &queue(), 9, Step::Look).await.unwrap();
        assert_eq!(look.last, Some(leaving));
    }
    let begun = adopt(t, &queue(), 6, Step::Begin).await.unwrap();
    assert_eq!(begun.last, Some(vec![second[0].leaving()]));
}

/// What an earlier run sent, and what arrives late, is not taken in.
pub async fn an_earlier_run_is_refused(t: &Bench) {
    t.push_many(2, plain()).await;
    let jobs = take_out(t).await;
    let refused = adopt(t, &queue(), 5, Step::Jobs(jobs.clone())).await;
    assert_eq!(code(refused), Code::Conflict);
    adopt(t, &queue(), 5, Step::Begin).await.unwrap();
    adopt(t, &queue(), 6, Step::Begin).await.unwrap();
    for late in [jobs.clone(), vec![]] {
        let refused = adopt(t, &queue(), 5, Step::Jobs(late)).await;
        assert_eq!(code(refused), Code::Conflict);
    }
    assert_eq!(code(adopt(t, &queue(), 5, Step::End).await), Code::Conflict);
    assert_eq!(t.info().await.books, Books::default());
    let adopted = adopt(t, &queue(), 6, Step::Jobs(jobs)).await.unwrap();
    assert_eq!(t.info().await.books.live, 2);
    // Whoever only asks whether it may go on leaves the note as it is.
    let asked = adopt(t, &queue(), 6, Step::Jobs(vec![])).await.unwrap();
    assert_eq!((asked.last, asked.results), (adopted.last, vec![]));
}

/// The end of a move forgets it, and says nothing the second time.
pub async fn a_move_that_is_over_is_forgotten(t: &Bench) {
    t.push(plain()).await;
    let jobs = take_out(t).await;
    put_back(t, jobs).await;
    let look = adopt(t, &queue(), 2, Step::Look).await.unwrap();
    assert_eq!(look.last, None);
    adopt(t, &queue(), 1, Step::End).await.expect("again");
    let refused = adopt(t, &queue(), 1, Step::Jobs(vec![])).await;
    assert_eq!(code(refused), Code::Conflict);
}

/// Two stores can be moved into one queue, each with a note of its own.
pub async fn moves_from_two_stores_do_not_mix(t: &Bench) {
    let of = |source: &str, run, step| {
        let adoption = Adoption {
            queue: queue(),
            store: source.to_owned(),
            run,
            step,
        };
        t.engine.adopt(adoption)
    };
    t.push_many(2, plain()).await;
    let jobs = take_out(t).await;
    of("a", 1, Step::Begin).await.unwrap();
    of("b", 2, Step::Begin).await.unwrap();
    of("a", 1, Step::Jobs(jobs[..1].to_vec())).await.unwrap();
    of("b", 2, Step::Jobs(jobs[1..].to_vec())).await.unwrap();
    for (source, job) in [("a", &jobs[0]), ("b", &jobs[1])] {
        let look = of(source, 0, Step::Look).await.unwrap();
        assert_eq!(look.last, Some(vec![job.leaving()]));
    }
    of("a", 1, Step::End).await.unwrap();
    assert_eq!(of("a", 0, Step::Look).await.unwrap().last, None);
    assert!(of("b", 0, Step::Look).await.unwrap().last.is_some());
}

/// Whoever finds a move out of the queue unfinished finishes it, before jobs go elsewhere or come in.
pub async fn a_queue_on_its_way_goes_nowhere_else_and_takes_nothing_in(t: &Bench) {
    let with = |store: &str, step| {
        let adoption = Adoption {
            queue: queue(),
            store: store.to_owned(),
            run: 7,
            step,
        };
        t.engine.adopt(adoption)
    };
    let goes_to = async || with("any", Step::Look).await.unwrap().leaving;
    t.push(plain()).await;
    let jobs = take_out(t).await;
    with("a", Step::Begin).await.unwrap();
    assert_eq!(goes_to().await, None);
    let leaving = with("b", Step::Leave).await.unwrap();
    assert_eq!(leaving.leaving.as_deref(), Some("b"));
    assert_eq!(goes_to().await.as_deref(), Some("b"));
    with("b", Step::Leave).await.expect("again");
    for (store, step) in [
        ("c", Step::Leave),
        ("a", Step::Begin),
        ("b", Step::Begin),
        ("a", Step::Jobs(jobs.clone())),
    ] {
        let refused = with(store, step).await.unwrap_err();
        assert_eq!(refused.code(), Code::Conflict);
        let text = refused.message();
        assert!(text.contains("store known as b"), "{text}");
    }
    // Whoever has another way in mind cannot end this one.
    let stays = with("c", Step::Stay).await.unwrap();
    assert_eq!(stays.leaving.as_deref(), Some("b"));
    let stays = with("b", Step::Stay).await.unwrap();
    assert_eq!(stays.leaving, None);
    with("b", Step::Stay).await.expect("again");
    assert_eq!(goes_to().await, None);
    with("a", Step::Jobs(jobs)).await.unwrap();
    with("c", Step::Leave).await.unwrap();
    with("c", Step::Stay).await.unwrap();
    with("a", Step::End).await.unwrap();
    assert_eq!(t.info().await.books.live, 1);
}

/// A job whose key another one has is refused by name; the rest of its batch comes in.
pub async fn a_taken_key_keeps_its_job_out_and_no_other(t: &Bench) {
    t.push(keyed("a", OnDuplicate::Reject)).await;
    t.push(keyed("b", OnDuplicate::Reject)).await;
    let jobs = take_out(t).await;
    let holder = t.push(keyed("a", OnDuplicate::Reject)).await;
    let results = put_in(t, &queue(), jobs.clone()).await;
    for (passage, result) in jobs.iter().zip(results) {
        if passage.job.key.as_deref() == Some("a") {
            let error = result.unwrap_err();
            assert_eq!(
                (error.code(), error.job()),
                (Code::DuplicateKey, Some(holder))
            );
        } else {
            assert_eq!(result, Ok(passage.job.id));
        }
    }
    assert_eq!(t.info().await.books.live, 2);
    assert_eq!(t.holder("a").await.map(|job| job.id), Some(holder));
}

/// The key of a done job is held at the new place for as long as it would have been.
pub async fn a_key_that_is_only_held_moves_too(t: &Bench) {
    let id = t.push(keyed("k", OnDuplicate::Reject)).await;
    t.work(ack()).await;
    t.pass(secs(60 * 60));
    let jobs = take_out(t).await;
    assert_eq!(jobs.len(), 1);
    t.push(keyed("k", OnDuplicate::Reject)).await;
    take_out(t).await;
    put_back(t, jobs).await;
    let refused = t.try_push(&queue(), keyed("k", OnDuplicate::Reject)).await;
    assert_eq!(refused.unwrap_err().job(), Some(id));
    t.pass(secs(23 * 60 * 60));
    t.push(keyed("k", OnDuplicate::Reject)).await;
    let books = t.info().await.books;
    assert_eq!((books.accepted, books.done, books.live), (2, 1, 1));
}

/// If the key is taken anyway, nothing is lost with the one who only held it.
pub async fn a_key_that_is_held_on_both_sides_needs_no_second_holder(t: &Bench) {
    t.push(keyed("k", OnDuplicate::Reject)).await;
    t.work(ack()).await;
    let jobs = take_out(t).await;
    let holder = t.push(keyed("k", OnDuplicate::Reject)).await;
    for result in put_in(t, &queue(), jobs).await {
        result.expect("it counts as moved");
    }
    assert_eq!(t.holder("k").await.map(|job| job.id), Some(holder));
    let books = t.info().await.books;
    assert_eq!((books.accepted, books.done, books.live), (2, 1, 1));
}

/// An id that another job has is not given twice, and what comes later has a higher one than all.
pub async fn a_taken_id_is_replaced_and_new_ones_lie_behind(t: &Bench) {
    let id = t.push(plain()).await;
    let mut jobs = passages(t, &queue()).await;
    // A minute ahead: the other store's clock was a little fast. The difference is a multiple of any number of shards that
    // the suite runs on, so the id stays where it is.
    let mut ahead = jobs[0].clone();
    ahead.job.id = JobId(id.0 + (60_480 << 12));
    jobs.push(ahead.clone());
    let results = put_in(t, &queue(), jobs).await;
    let ids: Vec<JobId> = results.into_iter().map(|r| r.expect("a job")).collect();
    assert_eq!(ids[1], ahead.job.id);
    assert!(ids[0] != id && ids[0] != ids[1]);
    assert!(ids[0] > id);
    let next = t.push(plain()).await;
    assert!(ids.iter().all(|id| next > *id), "{next} is behind {ids:?}");
    assert_eq!(t.info().await.books.live, 4);
}

/// An id from a clock that is years ahead would drag all ids with it, and one of 2^53 or above is none that JavaScript can hold.
pub async fn an_id_far_ahead_or_too_large_is_not_kept(t: &Bench) {
    let year = 365 * 24 * 60 * 60;
    let ahead = JobId::first_at(t.wall().plus(secs(year)));
    for id in [ahead.0, 1 << 53, 7_130_316_800_000_000_000, u64::MAX] {
        t.push(plain()).await;
        let mut jobs = take_out(t).await;
        jobs[0].job.id = JobId(id);
        let given = put_in(t, &queue(), jobs).await.remove(0).unwrap();
        assert!(given.at() <= t.wall().plus(secs(60)), "{id} became {given}");
        assert!(t.find(given).await.is_some());
        assert_eq!(take_out(t).await.len(), 1);
    }
}

/// The queue's limits and pauses are for those who push.
pub async fn limits_and_pauses_do_not_keep_moved_jobs_out(t: &Bench) {
    let spec = JobSpec {
        payload: text("0123456789"),
        ..plain()
    };
    t.push_many(3, spec).await;
    let jobs = take_out(t).await;
    t.configure(QueueConfig {
        max_jobs: Some(1),
        max_bytes: Some(5),
        paused_in: true,
        paused_out: true,
        ..QueueConfig::default()
    })
    .await;
    put_back(t, jobs).await;
    assert_eq!(t.info().await.books.live, 3);
    assert!(t.idle().await);
}

/// Delays, lives, retention and held keys end when they would have ended.
pub async fn times_go_on_after_a_move(t: &Bench) {
    let kept = JobSpec {
        retention: secs(60),
        ..plain()
    };
    let done = t.push(kept).await;
    t.work(ack()).await;
    let mortal = JobSpec {
        ttl: Ttl::After(secs(60)),
        ..later(secs(600))
    };
    let mortal = t.push(mortal).await;
    let delayed = t.push(later(secs(60))).await;
    t.pass(secs(30));
    let jobs = take_out(t).await;
    t.pass(secs(10));
    put_back(t, jobs).await;
    t.pass(ms(19_999));
    assert_eq!(t.state(done).await, Some(State::Done));
    assert_eq!(t.state(mortal).await, Some(State::Scheduled));
    assert_eq!(t.state(delayed).await, Some(State::Scheduled));
    assert!(t.idle().await);
    t.pass(ms(1));
    assert_eq!(t.state(done).await, None);
    assert_eq!(t.state(mortal).await, Some(State::Dead));
    assert_eq!(t.order(1).await, [delayed]);
}

/// Jobs are handed out in the order in which they would have been, groups and the front included.
pub async fn places_in_line_survive_a_move(t: &Bench) {
    let fair = QueueConfig {
        fair: true,
        ..QueueConfig::default()
    };
    t.configure(fair).await;
    let of = |group: &str| JobSpec {
        group: Some(group.into()),
        ..plain()
    };
    let front = t.push(of("a")).await;
    t.one().await;
    t.pass(secs(60));
    let urgent = t.push(urgency(1)).await;
    let rest = [
        t.push(of("a")).await,
        t.push(of("a")).await,
        t.push(of("b")).await,
    ];
    let jobs = take_out(t).await;
    put_back(t, jobs).await;
    let order = t.order(5).await;
    assert_eq!(order[0], urgent);
    let after = |id: JobId| order.iter().position(|other| *other == id).unwrap();
    assert!(after(front) < after(rest[0]) && after(rest[0]) < after(rest[1]));
    assert!(
        after(rest[2]) < after(rest[0]),
        "groups take turns: {order:?}"
    );
}

/// A worker that waits gets a job that moves in.
pub async fn a_moved_job_wakes_who_waits(t: &Bench) {
    let id = t.push(plain()).await;
    let jobs = take_out(t).await;
    let waiter = t.wait_on(&[queue()], 1).await;
    put_back(t, jobs).await;
    let leased = t.answer(waiter).await;
    assert_eq!(leased[0].job.id, id);
}

/// A schedule of another store ticks when it would have ticked there; one without a next tick does not.
pub async fn an_armed_schedule_goes_on_as_it_was(t: &Bench) {
    let last = t.wall();
    t.pass(secs(4));
    let schedule = |next| Schedule {
        name: "s".into(),
        queue: queue(),
        rhythm: Rhythm::Every(secs(10)),
        missed: Missed::Once,
        spec: plain(),
        next,
        last: Some(last),
    };
    t.change(Change::Arm(schedule(None))).await;
    t.pass(secs(3));
    let shown = t.engine.catalog().await.unwrap().schedules;
    assert_eq!(shown, [schedule(None)]);
    let next = Some(Due {
        at: last.plus(secs(10)),
        base: Base::Steady,
    });
    t.change(Change::Arm(schedule(next))).await;
    assert_eq!(
        t.engine.catalog().await.unwrap().schedules,
        [schedule(next)]
    );
    t.pass(ms(2_999));
    assert!(t.idle().await);
    t.pass(ms(1));
    assert_eq!(t.take(2).await.len(), 1);
    t.pass(secs(10));
    assert_eq!(t.take(2).await.len(), 1);
}
