//! A worker's stream.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use auxo_core::State;
use auxo_core::engine::{Action, Mode, Order, Target, Which};
use auxo_core::{JobId, job::Job};
use auxo_proto::v1;

use tokio::sync::Semaphore;

use super::bench::{Bench, Worker, ack, job, start, within};
use super::brittle::misbehaving;

async fn find(bench: &Bench, id: u64) -> Job {
    let found = bench.service.find(Which::Id(JobId(id))).await;
    found.unwrap().expect("the job is there")
}

/// Waits until a queue has so many ready jobs and none leased.
async fn until_back(bench: &Bench, queue: &str, ready: u64) {
    within(async {
        loop {
            let counts = bench.counts(queue).await;
            if (counts.ready, counts.leased) == (ready, 0) {
                return;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn jobs_come_as_far_as_there_is_credit_and_are_settled_in_the_stream() {
    let bench = Bench::start().await;
    let ids = bench.push("mail", 5).await;
    let mut worker = Worker::start(&bench, "mail", 2).await;
    let first = worker.jobs(2).await;
    let got: Vec<u64> = first.iter().map(|l| l.job.as_ref().unwrap().id).collect();
    assert_eq!(got, ids[..2]);
    assert_eq!(bench.counts("mail").await.leased, 2);
    // Settling alone brings no more: credit is said, not guessed.
    worker
        .say(v1::WorkRequest {
            settle: first.iter().map(ack).collect(),
            ping: Some(7),
            ..v1::WorkRequest::default()
        })
        .await;
    let mut settled = Vec::new();
    while settled.len() < 2 {
        let message = worker.next().await.unwrap().unwrap();
        assert_eq!(message.jobs, []);
        settled.extend(message.settled);
    }
    for (result, id) in settled.into_iter().zip(&ids) {
        let v1::settle_result::Result::Ok(settled) = result.result.unwrap() else {
            panic!("not settled");
        };
        assert_eq!((settled.id, settled.state()), (*id, v1::State::Done));
    }
    let counts = bench.counts("mail").await;
    assert_eq!((counts.ready, counts.leased), (3, 0));
    worker
        .say(v1::WorkRequest {
            credit: 3,
            ..v1::WorkRequest::default()
        })
        .await;
    assert_eq!(worker.jobs(3).await.len(), 3);
}

#[tokio::test]
async fn a_stream_may_want_the_most_urgent_of_its_queues() {
    let bench = Bench::start().await;
    let mut jobs = Vec::new();
    for (queue, priority) in [("mail", 5), ("images", 1), ("mail", 3), ("images", 4)] {
        let mut one = job(queue, priority.to_string());
        one.spec.as_mut().unwrap().priority = Some(priority);
        jobs.push(one);
    }
    let pushed = within(bench.jobs().push(v1::PushRequest { jobs })).await;
    pushed.unwrap();
    let mut first = start("mail", 4);
    let begun = first.start.as_mut().unwrap();
    begun.queues.push("images".to_owned());
    begun.pick = v1::Pick::MostUrgent.into();
    let mut worker = Worker::with(&bench, first).await;
    let got = worker.jobs(4).await;
    let got = got.into_iter().map(|leased| leased.job.unwrap().payload);
    assert_eq!(got.collect::<Vec<_>>(), ["1", "3", "4", "5"]);
    // What is no choice is refused by its name.
    let mut wrong = start("mail", 1);
    wrong.start.as_mut().unwrap().pick = 9;
    let mut refused = Worker::with(&bench, wrong).await;
    let status = refused.next().await.unwrap_err();
    assert!(status.message().starts_with("pick: "), "{status}");
}

#[tokio::test]
async fn a_job_that_comes_later_is_sent_at_once() {
    let bench = Bench::start().await;
    let mut worker = Worker::start(&bench, "mail", 10).await;
    for n in 0..3 {
        let ids = bench.push("mail", 1).await;
        let jobs = worker.jobs(1).await;
        let job = jobs[0].job.as_ref().unwrap();
        assert_eq!((job.id, job.attempt), (ids[0], 1), "job {n}");
        assert_eq!(job.holder.as_ref().unwrap().worker, "ada");
        assert_eq!(job.timeline, []);
    }
}

#[tokio::test]
async fn an_extension_is_answered_in_the_stream() {
    let bench = Bench::start().await;
    bench.push("mail", 1).await;
    let mut worker = Worker::start(&bench, "mail", 1).await;
    let leased = worker.jobs(1).await.remove(0);
    worker
        .say(v1::WorkRequest {
            extend: vec![
                v1::Extend {
                    token: leased.token.clone(),
                    ttr_ms: Some(120_000),
                    progress: Some("half".into()),
                },
                v1::Extend {
                    token: "nonsense".to_owned(),
                    ..v1::Extend::default()
                },
            ],
            ..v1::WorkRequest::default()
        })
        .await;
    let results = worker.next().await.unwrap().unwrap().extended;
    let [good, bad] = &results[..] else {
        panic!("{results:?}");
    };
    let Some(v1::extend_result::Result::Ok(extended)) = &good.result else {
        panic!("{good:?}");
    };
    assert_eq!(extended.deadline_at_ms, leased.deadline_at_ms + 60_000);
    assert!(!extended.cancel);
    let Some(v1::extend_result::Result::Error(error)) = &bad.result else {
        panic!("{bad:?}");
    };
    assert_eq!(error.code, "bad_request");
    assert!(error.message.starts_with("token: "), "{}", error.message);
    let job = find(&bench, leased.job.unwrap().id).await;
    assert_eq!(job.progress.as_deref(), Some(&b"half"[..]));
}

#[tokio::test]
async fn what_arrives_while_the_queue_is_busy_is_settled_in_one_step() {
    let (bench, manners) = misbehaving(|_| ()).await;
    let door = Arc::new(Semaphore::new(0));
    *manners.door.lock().unwrap() = Some(door.clone());
    bench.push("mail", 50).await;
    let mut worker = Worker::start(&bench, "mail", 50).await;
    for (n, leased) in worker.jobs(50).await.iter().enumerate() {
        worker
            .say(v1::WorkRequest {
                settle: vec![ack(leased)],
                ping: Some(n as u64),
                ..v1::WorkRequest::default()
            })
            .await;
    }
    // The first is at the door; the others have been read when the last ping is answered.
    while worker.next().await.unwrap().unwrap().pong != Some(49) {}
    assert_eq!(manners.settles.load(SeqCst), 1);
    door.close();
    let mut settled = 0;
    while settled < 50 {
        settled += worker.next().await.unwrap().unwrap().settled.len();
    }
    assert_eq!(bench.counts("mail").await.leased, 0);
    assert_eq!(manners.settles.load(SeqCst), 2);
}

#[tokio::test]
async fn a_wish_to_cancel_reaches_the_worker() {
    let bench = Bench::start().await;
    let ids = bench.push("mail", 2).await;
    let mut worker = Worker::start(&bench, "mail", 2).await;
    let jobs = worker.jobs(2).await;
    let cancel = Order {
        target: Target::Jobs(vec![JobId(ids[1])]),
        action: Action::Cancel,
        mode: Mode::Act,
    };
    // Before the stream looks whether anybody wants that; the other comes after.
    bench.service.steer(cancel).await.unwrap();
    let told = worker.next().await.unwrap().unwrap().cancelled;
    assert_eq!(told, [ids[1]]);
    let cancel = Order {
        target: Target::Jobs(vec![JobId(ids[0])]),
        action: Action::Cancel,
        mode: Mode::Act,
    };
    bench.service.steer(cancel).await.unwrap();
    let told = worker.next().await.unwrap().unwrap().cancelled;
    assert_eq!(told, [ids[0]]);
    // It may still be acked.
    worker
        .say(v1::WorkRequest {
            settle: vec![ack(&jobs[0])],
            ..v1::WorkRequest::default()
        })
        .await;
    assert_eq!(worker.next().await.unwrap().unwrap().settled.len(), 1);
}

#[tokio::test]
async fn a_stream_that_breaks_gives_its_jobs_back_at_once() {
    let bench = Bench::start().await;
    let ids = bench.push("mail", 3).await;
    let mut worker = Worker::start(&bench, "mail", 2).await;
    worker.jobs(2).await;
    // Both ends are gone without a word, as when the process is killed.
    drop(worker);
    until_back(&bench, "mail", 3).await;
    let job = find(&bench, ids[0]).await;
    assert_eq!((job.state, job.attempt), (State::Ready, 1));
    assert_eq!((job.failures, job.vanished), (0, 0));
}

#[tokio::test]
async fn a_worker_that_closes_its_side_gives_back_what_it_has_not_settled() {
    let bench = Bench::start().await;
    bench.push("mail", 2).await;
    let mut worker = Worker::start(&bench, "mail", 2).await;
    let jobs = worker.jobs(2).await;
    worker
        .say(v1::WorkRequest {
            settle: vec![ack(&jobs[0])],
            ..v1::WorkRequest::default()
        })
        .await;
    let Worker { say, mut hear } = worker;
    drop(say);
    // What was said before is done and answered, and who hears the end knows that the rest is back.
    let mut settled = 0;
    while let Some(message) = within(hear.message()).await.unwrap() {
        settled += message.settled.len();
    }
    assert_eq!(settled, 1);
    let counts = bench.counts("mail").await;
    assert_eq!((counts.ready, counts.leased), (1, 0));
}

#[tokio::test]
async fn large_jobs_come_in_messages_that_every_library_takes() {
    let bench = Bench::start().await;
    let jobs = (0..12).map(|_| job("mail", vec![7; 1 << 20])).collect();
    let pushed = within(bench.jobs().push(v1::PushRequest { jobs })).await;
    assert_eq!(pushed.unwrap().into_inner().results.len(), 12);
    let mut worker = Worker::start(&bench, "mail", 100).await;
    // The client's limit is the usual one of 4 MiB.
    assert_eq!(worker.jobs(12).await.len(), 12);
}

#[tokio::test]
async fn a_job_that_is_delivered_at_most_once_is_not_given_back() {
    let bench = Bench::start().await;
    let spec = v1::JobSpec {
        ttr_ms: Some(0),
        ..v1::JobSpec::default()
    };
    let once = v1::NewJob {
        queue: "mail".to_owned(),
        spec: Some(spec),
    };
    let jobs = vec![once, job("mail", "again")];
    within(bench.jobs().push(v1::PushRequest { jobs }))
        .await
        .unwrap();
    let mut worker = Worker::start(&bench, "mail", 2).await;
    worker.jobs(2).await;
    drop(worker);
    until_back(&bench, "mail", 1).await;
}

#[tokio::test]
async fn what_a_stream_says_wrongly_ends_it_and_names_the_field() {
    let bench = Bench::start().await;
    let mut twice = start("mail", 1);
    twice.credit = 10_000;
    let too_much = v1::WorkRequest {
        credit: 1,
        ..v1::WorkRequest::default()
    };
    for (first, second, field) in [
        (v1::WorkRequest::default(), None, "start: "),
        (start("two words", 1), None, "queues: "),
        (start("mail", 10_001), None, "credit: "),
        (twice, Some(too_much), "credit: "),
        (start("mail", 1), Some(start("mail", 1)), "start: "),
    ] {
        let mut worker = Worker::with(&bench, first).await;
        if let Some(second) = second {
            worker.say(second).await;
        }
        let status = worker.next().await.unwrap_err();
        assert_eq!(status.code(), tonic::Code::InvalidArgument, "{field}");
        assert!(status.message().starts_with(field), "{status}");
        assert_eq!(status.metadata().get("auxo-code").unwrap(), "bad_request");
    }
}
