//! The handle over the model engine, whose clock the tests turn by hand.

use std::sync::Arc;
use std::time::Duration;

use auxo_client::{Auxo, Lease};
use auxo_conformance::ModelEngine;
use auxo_core::engine::Outcome;
use auxo_core::explain::Reason;
use auxo_core::job::{DEFAULT_TTR, OnDuplicate};
use auxo_core::schedule::Missed;
use auxo_core::{Code, Job, JobId, ManualClock, State, Timestamp, When};
use serde::{Deserialize, Serialize};

const START: u64 = 1_700_000_000_000;

fn open() -> (Auxo, Arc<ManualClock>) {
    let clock = ManualClock::at(START);
    let engine = ModelEngine::new(clock.clone());
    (Auxo::with_engine(Arc::new(engine)), clock)
}

async fn push(auxo: &Auxo) -> JobId {
    auxo.queue("q").unwrap().push("x").await.unwrap().id
}

async fn lease(auxo: &Auxo) -> Option<Lease> {
    auxo.lease(["q"]).one().await.unwrap()
}

async fn job(auxo: &Auxo, id: JobId) -> Job {
    auxo.job(id).await.unwrap().expect("the job")
}

#[tokio::test]
async fn a_typed_payload_arrives_as_it_was_pushed() {
    #[derive(Serialize, Deserialize, PartialEq, Debug)]
    struct Email {
        to: String,
        copies: Vec<u32>,
    }
    let (auxo, _) = open();
    let email = Email {
        to: "ada".into(),
        copies: vec![1, 2],
    };
    auxo.queue("q").unwrap().push(&email).await.unwrap();
    let lease = lease(&auxo).await.unwrap();
    assert_eq!(lease.payload::<Email>().unwrap(), email);
    let wrong = lease.payload::<u32>().unwrap_err();
    assert_eq!(wrong.code(), Code::BadRequest);
    assert_eq!(wrong.job(), Some(lease.id()));
}

#[tokio::test]
async fn a_draft_says_everything_about_a_job() {
    let (auxo, _) = open();
    let q = auxo.queue("q").unwrap();
    let minute = Duration::from_secs(60);
    let draft = q.raw(&b"\xff\x00"[..]).kind("k").header("a", "b");
    let draft = draft
        .priority(7)
        .delay(minute)
        .ttr(2 * minute)
        .ttl(3 * minute);
    let draft = draft.max_attempts(4).group("g").retention(5 * minute);
    let draft = draft.key_window(6 * minute).key("the-key");
    let pushed = draft.push().await.unwrap();
    assert_eq!(pushed.state, State::Scheduled);
    assert_eq!(pushed.run_at, Timestamp(START).plus(minute));
    let job = job(&auxo, pushed.id).await;
    assert_eq!(&job.payload[..], b"\xff\x00");
    assert_eq!((&*job.kind, job.priority, job.max_attempts), ("k", 7, 4));
    assert_eq!(job.headers["a"], "b");
    assert_eq!((job.ttr, job.retention), (2 * minute, 5 * minute));
    assert_eq!(job.expires_at, Some(Timestamp(START).plus(3 * minute)));
    assert_eq!(job.key.as_deref(), Some("the-key"));
    assert_eq!(job.key_window, 6 * minute);
    assert_eq!(job.group.as_deref(), Some("g"));
}

#[tokio::test]
async fn a_key_that_is_taken_is_answered_by_its_policy() {
    let (auxo, _) = open();
    let q = auxo.queue("q").unwrap();
    let first = q.job("a").unwrap().key("k").push().await.unwrap();
    let again = q.job("b").unwrap().key("k");
    let refused = again.clone().push().await.unwrap_err();
    assert_eq!(
        (refused.code(), refused.job()),
        (Code::DuplicateKey, Some(first.id))
    );
    let same = again.clone().on_duplicate(OnDuplicate::Return).push().await;
    assert_eq!(same.unwrap().id, first.id);
    again
        .on_duplicate(OnDuplicate::Replace)
        .push()
        .await
        .unwrap();
    assert_eq!(&q.find("k").await.unwrap().unwrap().payload[..], b"\"b\"");
    let keyless = q.job("c").unwrap().on_duplicate(OnDuplicate::Return);
    assert_eq!(keyless.push().await.unwrap_err().code(), Code::BadRequest);
}

#[tokio::test]
async fn a_batch_keeps_its_order() {
    let (auxo, _) = open();
    let q = auxo.queue("q").unwrap();
    let pushed = q.push_many(&[1, 2, 3]).await.unwrap();
    let ids: Vec<JobId> = pushed
        .into_iter()
        .map(|pushed| pushed.unwrap().id)
        .collect();
    let leases = auxo.lease(["q"]).max(10).many().await.unwrap();
    assert_eq!(leases.iter().map(Lease::id).collect::<Vec<_>>(), ids);
    let values: Vec<u32> = leases
        .iter()
        .map(|lease| lease.payload().unwrap())
        .collect();
    assert_eq!(values, [1, 2, 3]);
}

#[tokio::test]
async fn the_first_queue_that_has_work_is_served() {
    let (auxo, _) = open();
    push(&auxo).await;
    auxo.queue("urgent").unwrap().push("y").await.unwrap();
    let ask = || auxo.lease(["urgent", "q"]).worker("w").one();
    assert_eq!(ask().await.unwrap().unwrap().job().queue.as_str(), "urgent");
    assert_eq!(ask().await.unwrap().unwrap().job().queue.as_str(), "q");
    assert!(ask().await.unwrap().is_none());
}

#[tokio::test]
async fn the_queue_with_the_most_urgent_job_is_served_if_asked_for() {
    let (auxo, _) = open();
    push(&auxo).await;
    let urgent = auxo.queue("urgent").unwrap();
    for priority in [1, 2000] {
        urgent
            .job("y")
            .unwrap()
            .priority(priority)
            .push()
            .await
            .unwrap();
    }
    let ask = || auxo.lease(["q", "urgent"]).most_urgent().max(10).many();
    for (queue, priority) in [("urgent", 1), ("q", 1024), ("urgent", 2000)] {
        let leases = ask().await.unwrap();
        assert_eq!(leases.len(), 1);
        let job = leases[0].job();
        assert_eq!((job.queue.as_str(), job.priority), (queue, priority));
    }
}

#[tokio::test]
async fn each_end_of_a_lease_does_what_it_says() {
    let (auxo, clock) = open();
    let id = push(&auxo).await;
    let hour = Duration::from_secs(3600);

    lease(&auxo).await.unwrap().release().await.unwrap();
    let settled = lease(&auxo).await.unwrap().snooze(hour).await.unwrap();
    assert_eq!(settled.state, State::Scheduled);
    assert!(lease(&auxo).await.is_none());
    clock.advance(hour);

    lease(&auxo).await.unwrap().fail("first").await.unwrap();
    assert_eq!(job(&auxo, id).await.failures, 1);
    clock.advance(hour);
    lease(&auxo).await.unwrap().bury("hopeless").await.unwrap();
    let dead = job(&auxo, id).await;
    assert_eq!((dead.state, dead.attempt), (State::Dead, 4));
    assert_eq!(dead.last_error.as_deref(), Some("hopeless"));
}

#[tokio::test]
async fn a_result_is_kept_for_the_retention() {
    let (auxo, _) = open();
    let q = auxo.queue("q").unwrap();
    let kept = q.job("x").unwrap().retention(Duration::from_secs(60));
    let id = kept.push().await.unwrap().id;
    lease(&auxo).await.unwrap().ack_with(&[1, 2]).await.unwrap();
    let done = job(&auxo, id).await;
    assert_eq!(done.state, State::Done);
    assert_eq!(done.result.as_deref(), Some(&b"[1,2]"[..]));
}

#[tokio::test]
async fn a_dropped_lease_comes_back_at_its_deadline_and_not_before() {
    let (auxo, clock) = open();
    let id = push(&auxo).await;
    let held = lease(&auxo).await.unwrap();
    assert_eq!(held.deadline(), Timestamp(START).plus(DEFAULT_TTR));
    drop(held);
    clock.advance(DEFAULT_TTR - Duration::from_millis(1));
    assert!(lease(&auxo).await.is_none());
    clock.advance(Duration::from_millis(1));
    let again = lease(&auxo).await.unwrap();
    assert_eq!((again.id(), again.job().vanished), (id, 1));
}

#[tokio::test]
async fn a_lease_that_is_extended_goes_on_and_a_lost_one_says_so() {
    let (auxo, clock) = open();
    let id = push(&auxo).await;
    let mut held = lease(&auxo).await.unwrap();
    clock.advance(DEFAULT_TTR / 2);
    held.progress(&50).await.unwrap();
    assert_eq!(held.deadline(), Timestamp(START).plus(DEFAULT_TTR * 3 / 2));
    assert_eq!(job(&auxo, id).await.progress.as_deref(), Some(&b"50"[..]));
    held.extend_to(2 * DEFAULT_TTR).await.unwrap();
    clock.advance(DEFAULT_TTR * 3 / 2);
    assert!(!held.extend().await.unwrap().cancel);

    clock.advance(2 * DEFAULT_TTR);
    assert_eq!(held.extend().await.unwrap_err().code(), Code::LeaseLost);
    let late = held.settle(Outcome::Ack { result: None }).await;
    assert_eq!(late.unwrap_err().code(), Code::LeaseLost);
}

#[tokio::test]
async fn a_waiting_request_gets_the_job_that_arrives() {
    let (auxo, _) = open();
    let waiter = auxo.lease(["q"]).wait(Duration::from_secs(30));
    let (got, id) = tokio::join!(waiter.one(), push(&auxo));
    assert_eq!(got.unwrap().unwrap().id(), id);
}

#[tokio::test]
async fn schedules_tick_and_stop_when_they_are_removed() {
    let (auxo, clock) = open();
    let q = auxo.queue("q").unwrap();
    let every = q.every("pulse", Duration::from_secs(10), "tick").unwrap();
    every
        .missed(Missed::Skip)
        .kind("pulse")
        .set()
        .await
        .unwrap();
    clock.advance(Duration::from_secs(10));
    let tick = lease(&auxo).await.unwrap();
    assert_eq!(
        (&*tick.job().kind, tick.payload::<String>().unwrap()),
        ("pulse", "tick".into())
    );
    auxo.unschedule("pulse").await.unwrap();
    clock.advance(Duration::from_secs(10));
    assert!(lease(&auxo).await.is_none());

    let zoned = q
        .every("zoned", Duration::from_secs(1), "x")
        .unwrap()
        .zone("UTC");
    assert_eq!(zoned.set().await.unwrap_err().code(), Code::BadRequest);
    let nowhere = q
        .cron("nowhere", "@daily", "x")
        .unwrap()
        .zone("Mars/Olympus");
    assert_eq!(nowhere.set().await.unwrap_err().code(), Code::BadRequest);
}

#[tokio::test]
async fn wrong_names_are_refused_before_anything_happens() {
    let (auxo, _) = open();
    assert_eq!(
        auxo.queue("two words").err().unwrap().code(),
        Code::BadRequest
    );
    let refused = auxo.lease(["q", ""]).one().await.unwrap_err();
    assert_eq!(refused.code(), Code::BadRequest);
    assert!(auxo.queue("q").unwrap().info().await.unwrap().is_none());
}

#[tokio::test]
async fn after_close_every_call_is_unavailable() {
    let (auxo, _) = open();
    push(&auxo).await;
    auxo.clone().close().await.unwrap();
    let refused = auxo.queue("q").unwrap().push("y").await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
}

#[tokio::test]
async fn one_job_is_explained_and_steered_by_its_id() {
    let (auxo, _) = open();
    let id = push(&auxo).await;
    let later = When::After(Duration::from_secs(60));
    assert_eq!(auxo.reschedule(id, later).await, Ok(State::Scheduled));
    assert_eq!(auxo.explain(id).await.unwrap().reason, Reason::NotDue);
    assert_eq!(auxo.queues().await.unwrap()[0].counts.scheduled, 1);
    assert_eq!(auxo.kick(id).await, Ok(State::Ready));
    assert_eq!(auxo.cancel(id).await, Ok(State::Cancelled));
    assert_eq!(auxo.kick(id).await.unwrap_err().code(), Code::NotFound);
}
