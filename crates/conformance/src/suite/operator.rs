//! An operator's moves: kick, cancel, reschedule, delete.

use auxo_core::engine::{Action, Filter, Mode, Order, Outcome, Query, Steered, Target};
use auxo_core::job::{DeadReason, Ttl};
use auxo_core::life::{self, Event, State};
use auxo_core::time::When;
use auxo_core::{Code, JobId, JobSpec};

use crate::bench::*;

const ACTIONS: [(Action, Event); 4] = [
    (Action::Kick, Event::Kick),
    (Action::Cancel, Event::Cancel),
    (
        Action::Reschedule(When::After(secs(500))),
        Event::Reschedule,
    ),
    (Action::Delete, Event::Delete),
];

/// Each move over each state does what the arrows of a job's life say, and is a conflict where there is none.
pub async fn every_move_follows_the_arrows(t: &Bench) {
    use State::*;
    for (action, event) in ACTIONS {
        for state in [Scheduled, Ready, Leased, Done, Dead] {
            let id = job_in(t, state).await;
            let answer = t.steer(id, action.clone()).await;
            let after = t.state(id).await;
            match life::next(Some(state), event) {
                // Its worker is asked to stop; until then it is leased.
                Some(_) if state == Leased => {
                    assert_eq!((answer, after), (Ok(Leased), Some(Leased)));
                }
                Some(Cancelled) => assert_eq!((answer, after), (Ok(Cancelled), None)),
                Some(to) => assert_eq!((answer, after), (Ok(to), Some(to)), "{state} {event}"),
                None => {
                    let error = answer.expect_err("no arrow");
                    assert_eq!((error.code(), error.job()), (Code::Conflict, Some(id)));
                    assert_eq!(after, Some(state), "{state} {event}");
                }
            }
            t.check_books().await;
            t.pass(secs(3600));
            t.purge(&queue()).await;
        }
    }
}

/// A dry run says what a move would do, and does not do it.
pub async fn a_dry_run_moves_nothing(t: &Bench) {
    use State::*;
    for (action, event) in ACTIONS {
        for state in [Scheduled, Ready, Leased, Done, Dead] {
            let id = job_in(t, state).await;
            let before = (t.job(id).await, t.info().await);
            let steered = order(t, vec![id], action.clone(), Mode::DryRun).await;
            let legal = life::next(Some(state), event).is_some();
            assert_eq!(steered.moved, u64::from(legal), "{state} {event}");
            assert_eq!(steered.results[0].is_ok(), legal, "{state} {event}");
            assert_eq!((t.job(id).await, t.info().await), before);
            t.pass(secs(3600));
            t.purge(&queue()).await;
        }
    }
}

/// A move on a job that is not there is answered so.
pub async fn a_move_on_an_unknown_job_finds_nothing(t: &Bench) {
    let gone = t.push(plain()).await;
    t.work(ack()).await;
    for (action, _) in ACTIONS {
        for id in [gone, JobId(1), JobId(u64::MAX)] {
            let refused = t.steer(id, action.clone()).await;
            assert_eq!(code(refused), Code::NotFound);
        }
    }
}

/// Named jobs are answered one by one, in the order named.
pub async fn named_jobs_are_answered_in_order(t: &Bench) {
    let ids = t.push_many(2, later(secs(60))).await;
    t.push(plain()).await;
    let leased = t.one().await.job.id;
    let named = vec![ids[1], JobId(1), leased, ids[0], ids[1]];
    let steered = order(t, named, Action::Kick, Mode::Act).await;
    let results: Vec<_> = steered
        .results
        .into_iter()
        .map(|result| result.map_err(|error| error.code()))
        .collect();
    let expected = [
        Ok(State::Ready),
        Err(Code::NotFound),
        Err(Code::Conflict),
        Ok(State::Ready),
        // Ready by now.
        Err(Code::Conflict),
    ];
    assert_eq!((results, steered.moved), (expected.to_vec(), 2));
    assert_eq!(steered.next, None);
}

/// A kicked dead job is due now, and may fail as often as a new one.
pub async fn a_kicked_job_starts_again(t: &Bench) {
    let max_attempts = 2;
    let spec = JobSpec {
        max_attempts,
        ..plain()
    };
    let id = t.push(spec).await;
    t.one().await;
    t.pass(secs(60));
    t.work(fail("no")).await;
    assert_eq!(t.state(id).await, Some(State::Dead));
    t.pass(secs(60));
    let other = t.push(plain()).await;
    t.pass(secs(1));
    assert_eq!(t.steer(id, Action::Kick).await, Ok(State::Ready));
    let job = t.job(id).await;
    assert_eq!((job.failures, job.vanished, job.attempt), (0, 0, 2));
    assert_eq!((job.dead, job.ended_at), (None, None));
    assert_eq!(job.run_at, t.wall());
    assert_eq!(t.order(1).await, [other]);
    assert_eq!(t.work(fail("no")).await.state, State::Scheduled);
    t.pass(secs(1));
    assert_eq!(t.work(fail("no")).await.state, State::Dead);
}

/// A kicked scheduled job is due now.
pub async fn a_kicked_scheduled_job_is_due_now(t: &Bench) {
    let id = t.push(later(secs(3600))).await;
    assert_eq!(t.steer(id, Action::Kick).await, Ok(State::Ready));
    assert_eq!(t.job(id).await.run_at, t.wall());
    assert_eq!(t.order(1).await, [id]);
}

/// A kicked expired job does not expire again.
pub async fn a_kicked_expired_job_lives_without_an_end(t: &Bench) {
    let ttl = Ttl::After(secs(1));
    let id = t.push(JobSpec { ttl, ..plain() }).await;
    t.pass(secs(1));
    assert_eq!(t.job(id).await.dead, Some(DeadReason::Expired));
    t.steer(id, Action::Kick).await.unwrap();
    t.pass(secs(3600));
    let job = t.job(id).await;
    assert_eq!((job.state, job.expires_at), (State::Ready, None));
    let books = t.info().await.books;
    assert_eq!((books.expired, books.live), (0, 1));
}

/// A job whose life ran out while it lay dead for another reason can be kicked to life as well.
pub async fn a_kicked_job_whose_life_ended_meanwhile_can_run(t: &Bench) {
    let ttl = Ttl::After(secs(10));
    let id = t.push(JobSpec { ttl, ..plain() }).await;
    t.work(bury("no")).await;
    t.pass(secs(60));
    assert_eq!(t.steer(id, Action::Kick).await, Ok(State::Ready));
    assert_eq!(t.order(1).await, [id]);
}

/// A waiting job can be given an earlier or a later due time.
pub async fn a_waiting_job_can_be_rescheduled(t: &Bench) {
    let id = t.push(plain()).await;
    for (when, state, due) in [
        (When::After(secs(60)), State::Scheduled, 60),
        (When::At(t.wall().plus(secs(30))), State::Scheduled, 30),
        (When::Now, State::Ready, 0),
    ] {
        let moved = t.steer(id, Action::Reschedule(when)).await;
        assert_eq!(moved, Ok(state));
        let job = t.job(id).await;
        assert_eq!(job.run_at, t.wall().plus(secs(due)));
        assert_eq!(job.state, state);
    }
    let when = When::After(secs(60));
    t.steer(id, Action::Reschedule(when)).await.unwrap();
    t.pass(ms(59_999));
    assert!(t.idle().await);
    t.pass(ms(1));
    assert_eq!(t.order(1).await, [id]);
}

/// A dead job that is rescheduled waits, and starts again.
pub async fn a_dead_job_can_be_rescheduled(t: &Bench) {
    let max_attempts = 1;
    let id = t
        .push(JobSpec {
            max_attempts,
            ..plain()
        })
        .await;
    t.work(fail("no")).await;
    let when = When::After(secs(60));
    let moved = t.steer(id, Action::Reschedule(when)).await;
    assert_eq!(moved, Ok(State::Scheduled));
    let job = t.job(id).await;
    assert_eq!((job.failures, job.dead, job.ended_at), (0, None, None));
    t.pass(secs(60));
    assert_eq!(t.order(1).await, [id]);
}

/// A cancelled job is gone, and counted.
pub async fn a_cancelled_job_is_gone(t: &Bench) {
    let id = t.push(plain()).await;
    assert_eq!(t.steer(id, Action::Cancel).await, Ok(State::Cancelled));
    assert_eq!(t.find(id).await, None);
    assert!(t.idle().await);
    let info = t.info().await;
    assert_eq!((info.books.cancelled, info.books.live), (1, 0));
}

/// The worker of a job that is called off learns it from its next extend.
pub async fn a_worker_learns_that_its_job_is_called_off(t: &Bench) {
    let id = t.push(plain()).await;
    let leased = t.one().await;
    assert!(!t.extend(leased.token, None).await.unwrap().cancel);
    for _ in 0..2 {
        assert_eq!(t.steer(id, Action::Cancel).await, Ok(State::Leased));
        assert!(t.extend(leased.token, None).await.unwrap().cancel);
    }
    let job = t.job(id).await;
    assert!(job.holder.unwrap().cancel);
    assert_eq!(t.info().await.books.cancelled, 0);
}

/// A job that is called off may still be finished.
pub async fn a_job_that_is_called_off_may_be_acked(t: &Bench) {
    let id = t.push(plain()).await;
    let leased = t.one().await;
    t.steer(id, Action::Cancel).await.unwrap();
    assert_eq!(t.settle(leased.token, ack()).await.state, State::Done);
    let books = t.info().await.books;
    assert_eq!((books.done, books.cancelled), (1, 0));
}

/// Any other end of the lease cancels it, also one that nobody made.
pub async fn any_other_end_of_a_job_that_is_called_off_cancels_it(t: &Bench) {
    let last = Outcome::Fail {
        error: "no".into(),
        delay: None,
        retry: auxo_core::engine::Retry::Never,
    };
    let ends = [fail("no"), last, release(), bury("no"), snooze(secs(1))];
    let count = ends.len() as u64;
    for outcome in ends {
        let id = t.push(plain()).await;
        let leased = t.one().await;
        t.steer(id, Action::Cancel).await.unwrap();
        let settled = t.settle(leased.token, outcome).await;
        assert_eq!((settled.id, settled.state), (id, State::Cancelled));
        assert_eq!(settled.run_at, None);
        assert_eq!(t.find(id).await, None);
    }
    let id = t.push(plain()).await;
    t.one().await;
    t.steer(id, Action::Cancel).await.unwrap();
    t.pass(secs(60));
    assert_eq!(t.find(id).await, None);
    assert_eq!(t.info().await.books.cancelled, count + 1);
}

/// Deleting is counted as such, unless the job was done and counted before.
pub async fn a_deleted_job_is_gone_and_counted_once(t: &Bench) {
    for state in [State::Scheduled, State::Ready, State::Dead, State::Done] {
        let id = job_in(t, state).await;
        let moved = t.steer(id, Action::Delete).await;
        assert_eq!(moved, Ok(State::Cancelled), "{state}");
        assert_eq!(t.find(id).await, None);
    }
    let info = t.info().await;
    assert_eq!((info.books.deleted, info.books.done), (3, 1));
    assert_eq!((info.books.dead, info.books.live), (0, 0));
    assert_eq!((info.bytes, info.counts.done), (0, 0));
}

/// A move by filter touches those that match and may make it, and no others.
pub async fn a_move_by_filter_touches_what_matches(t: &Bench) {
    let kind = |kind: &str| JobSpec {
        kind: kind.into(),
        ..later(secs(60))
    };
    let mails = t.push_many(3, kind("mail")).await;
    let other = t.push(kind("index")).await;
    let moved = bulk(t, kind_filter("mail"), Action::Kick, Mode::Act, 10).await;
    assert_eq!(moved, 3);
    assert_eq!(t.state(other).await, Some(State::Scheduled));
    // The ready ones cannot be kicked again: matching, but not moved.
    let moved = bulk(t, kind_filter("mail"), Action::Kick, Mode::Act, 10).await;
    assert_eq!(moved, 0);
    assert_eq!(t.order(10).await, mails);
}

/// A dry run by filter counts, and moves nothing.
pub async fn a_dry_run_by_filter_only_counts(t: &Bench) {
    t.push_many(7, plain()).await;
    let before = t.info().await;
    let moved = bulk(t, Filter::default(), Action::Delete, Mode::DryRun, 3).await;
    assert_eq!(moved, 7);
    assert_eq!(t.info().await, before);
}

/// Deleting page by page leaves nothing out, though every page changes what the next one sees.
pub async fn deleting_page_by_page_deletes_all(t: &Bench) {
    t.push_many(20, plain()).await;
    t.push_many(10, later(secs(60))).await;
    for leased in t.take(5).await {
        t.settle(leased.token, bury("no")).await;
    }
    let moved = bulk(t, Filter::default(), Action::Delete, Mode::Act, 4).await;
    assert_eq!(moved, 30);
    assert_eq!(t.all(Filter::default(), 10).await, []);
}

/// Kicking the dead page by page ends, though they change their place in the listing.
pub async fn kicking_the_dead_page_by_page_kicks_all(t: &Bench) {
    t.push_many(20, plain()).await;
    for leased in t.take(20).await {
        t.settle(leased.token, bury("no")).await;
    }
    let filter = Filter {
        states: vec![State::Dead],
        ..Filter::default()
    };
    assert_eq!(bulk(t, filter, Action::Kick, Mode::Act, 3).await, 20);
    assert_eq!(t.info().await.counts.ready, 20);
}

/// Moving waiting jobs to a later time ends, though each lands ahead of where the walk is.
pub async fn rescheduling_page_by_page_ends(t: &Bench) {
    t.push_many(20, plain()).await;
    let at = t.wall().plus(secs(3600));
    let action = Action::Reschedule(When::At(at));
    let moved = bulk(t, Filter::default(), action, Mode::Act, 3).await;
    assert!(moved >= 20);
    assert_eq!(t.info().await.counts.scheduled, 20);
    for job in t.all(Filter::default(), 100).await {
        assert_eq!(job.run_at, at);
    }
}

/// A job in this state; retained if it is done.
async fn job_in(t: &Bench, state: State) -> JobId {
    let spec = JobSpec {
        retention: secs(60),
        payload: text("p"),
        ..plain()
    };
    match state {
        State::Scheduled => {
            let when = When::After(secs(60));
            t.push(JobSpec { when, ..spec }).await
        }
        State::Ready => t.push(spec).await,
        State::Leased => {
            t.push(spec).await;
            t.one().await.job.id
        }
        State::Done => {
            t.push(spec).await;
            t.work(ack()).await.id
        }
        State::Dead => {
            t.push(spec).await;
            t.work(bury("no")).await.id
        }
        State::Cancelled => unreachable!("a cancelled job is not stored"),
    }
}

async fn order(t: &Bench, ids: Vec<JobId>, action: Action, mode: Mode) -> Steered {
    let order = Order {
        target: Target::Jobs(ids),
        action,
        mode,
    };
    t.engine.steer(order).await.expect("an answer")
}

fn kind_filter(kind: &str) -> Filter {
    Filter {
        kind: Some(kind.into()),
        ..Filter::default()
    }
}

/// Makes a move page by page; answers how many it was made for.
async fn bulk(t: &Bench, filter: Filter, action: Action, mode: Mode, page: u32) -> u64 {
    let (mut moved, mut cursor) = (0, None);
    for _ in 0..1000 {
        let query = Query {
            filter: filter.clone(),
            cursor,
            limit: page,
        };
        let order = Order {
            target: Target::Matching(query),
            action: action.clone(),
            mode,
        };
        let steered = t.engine.steer(order).await.expect("an answer");
        assert!(steered.results.is_empty());
        assert!(steered.moved <= u64::from(page));
        moved += steered.moved;
        cursor = steered.next;
        if cursor.is_none() {
            return moved;
        }
    }
    panic!("a walk without an end");
}
