//! The calls that have one answer, from the outside: what a client of another language sees.

use auxo_proto::v1;
use auxo_proto::v1::queues_client::QueuesClient;
use auxo_proto::v1::schedules_client::SchedulesClient;
use auxo_proto::v1::stores_client::StoresClient;
use auxo_proto::v1::topics_client::TopicsClient;

use super::bench::{Bench, ack, id, job, within};

fn by_id(id: u64) -> Option<v1::Which> {
    let which = Some(v1::which::Which::Id(id));
    Some(v1::Which { which })
}

#[tokio::test]
async fn a_job_goes_in_out_and_is_done() {
    let bench = Bench::start().await;
    let (mut jobs, mut workers) = (bench.jobs(), bench.workers());
    let mut new = job("mail", "{\"to\":\"ada\"}");
    let spec = new.spec.as_mut().unwrap();
    spec.headers.insert("traceparent".into(), "00-1".into());
    spec.priority = Some(3);
    spec.key = Some("hello".into());
    spec.retention_ms = 60_000;
    let request = v1::PushRequest {
        jobs: vec![new.clone(), new],
    };
    let results = within(jobs.push(request))
        .await
        .unwrap()
        .into_inner()
        .results;
    let first = id(results[0].clone());
    let Some(v1::push_result::Result::Error(error)) = &results[1].result else {
        panic!("{results:?}");
    };
    assert_eq!((&*error.code, error.job), ("duplicate_key", Some(first)));
    let ask = v1::LeaseRequest {
        queues: vec!["none".into(), "mail".into()],
        worker: "ada".into(),
        ..v1::LeaseRequest::default()
    };
    let leased = within(workers.lease(ask)).await.unwrap().into_inner().jobs;
    let shown = leased[0].job.clone().unwrap();
    assert_eq!((shown.id, shown.priority, shown.attempt), (first, 3, 1));
    assert_eq!(shown.headers["traceparent"], "00-1");
    assert_eq!(shown.state(), v1::State::Leased);
    let items = vec![ack(&leased[0]), ack(&leased[0])];
    let settled = within(workers.settle(v1::SettleRequest { items }))
        .await
        .unwrap();
    let results = settled.into_inner().results;
    assert!(matches!(
        results[0].result,
        Some(v1::settle_result::Result::Ok(_))
    ));
    let Some(v1::settle_result::Result::Error(error)) = &results[1].result else {
        panic!("{results:?}");
    };
    assert_eq!(error.code, "lease_lost");
    let which = by_id(first);
    let found = within(jobs.get(v1::GetJobRequest {
        which: which.clone(),
    }))
    .await
    .unwrap()
    .into_inner();
    assert_eq!(found.state(), v1::State::Done);
    assert_eq!(found.timeline.len(), 3);
    let explained = within(jobs.explain(v1::ExplainRequest { which }))
        .await
        .unwrap();
    assert_eq!(explained.into_inner().reason, "done");
}

#[tokio::test]
async fn jobs_are_listed_page_by_page_and_steered() {
    let bench = Bench::start().await;
    let ids = bench.push("mail", 5).await;
    let mut jobs = bench.jobs();
    let (mut seen, mut cursor) = (Vec::new(), None);
    loop {
        let request = v1::ListJobsRequest {
            filter: None,
            cursor,
            limit: Some(2),
        };
        let page = within(jobs.list(request)).await.unwrap().into_inner();
        seen.extend(page.jobs.iter().map(|job| job.id));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen, ids);
    use v1::steer_request::{Action, Cancel, Ids, Target};
    let request = v1::SteerRequest {
        target: Some(Target::Ids(Ids {
            ids: vec![ids[0], 7],
        })),
        action: Some(Action::Cancel(Cancel {})),
        dry_run: false,
    };
    let steered = within(jobs.steer(request)).await.unwrap().into_inner();
    assert_eq!(steered.moved, 1);
    let Some(v1::steer_result::Result::Error(error)) = &steered.results[1].result else {
        panic!("{steered:?}");
    };
    assert_eq!((&*error.code, error.job), ("not_found", Some(7)));
    let gone = v1::GetJobRequest {
        which: by_id(ids[0]),
    };
    let status = within(jobs.get(gone)).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::NotFound);
    assert_eq!(status.metadata().get("auxo-code").unwrap(), "not_found");
}

#[tokio::test]
async fn a_queue_is_set_in_part_paused_and_purged() {
    let bench = Bench::start().await;
    bench.push("mail", 2).await;
    let mut queues = QueuesClient::new(bench.channel());
    let set = |config, only: &[&str]| v1::ConfigureQueueRequest {
        queue: "mail".into(),
        config: Some(config),
        only: only.iter().map(|name| (*name).to_owned()).collect(),
    };
    let config = v1::QueueConfig {
        max_jobs: Some(10),
        max_leased: Some(3),
        ..v1::QueueConfig::default()
    };
    within(queues.configure(set(config, &[]))).await.unwrap();
    // What is named is set, also to nothing; the rest stays.
    let config = v1::QueueConfig {
        fair: true,
        ..v1::QueueConfig::default()
    };
    let changed = within(queues.configure(set(config, &["fair", "max_jobs"]))).await;
    let config = changed.unwrap().into_inner().config.unwrap();
    assert_eq!(
        (config.fair, config.max_jobs, config.max_leased),
        (true, None, Some(3))
    );
    let pause = v1::PauseQueueRequest {
        queue: "mail".into(),
        side: v1::Side::Out.into(),
        for_ms: None,
    };
    let config = within(queues.pause(pause))
        .await
        .unwrap()
        .into_inner()
        .config
        .unwrap();
    assert_eq!((config.paused_in, config.paused_out), (false, true));
    let resume = v1::ResumeQueueRequest {
        queue: "mail".into(),
        side: 0,
    };
    let config = within(queues.resume(resume))
        .await
        .unwrap()
        .into_inner()
        .config
        .unwrap();
    assert_eq!((config.paused_in, config.paused_out), (false, false));
    let purge = v1::PurgeQueueRequest {
        queue: "mail".into(),
        states: Vec::new(),
    };
    assert_eq!(
        within(queues.purge(purge))
            .await
            .unwrap()
            .into_inner()
            .purged,
        2
    );
    let all = within(queues.list(v1::ListQueuesRequest::default()))
        .await
        .unwrap();
    let books = all.into_inner().queues[0].books.unwrap();
    assert_eq!((books.accepted, books.deleted), (2, 2));
}

#[tokio::test]
async fn topics_schedules_and_the_audit_answer() {
    let bench = Bench::start().await;
    let mut topics = TopicsClient::new(bench.channel());
    let subscription = v1::Subscription {
        topic: "orders".into(),
        name: "bill".into(),
        queue: "bills".into(),
        pattern: Some("order.*".into()),
    };
    let request = v1::SubscribeRequest {
        subscription: Some(subscription.clone()),
    };
    within(topics.subscribe(request)).await.unwrap();
    let all = within(topics.list(v1::ListSubscriptionsRequest {}))
        .await
        .unwrap();
    assert_eq!(all.into_inner().subscriptions, [subscription]);
    let message = |key: &str| v1::PublishRequest {
        topic: "orders".into(),
        routing_key: Some(key.into()),
        spec: None,
    };
    let jobs = within(topics.publish(message("order.7")))
        .await
        .unwrap()
        .into_inner()
        .jobs;
    assert_eq!(jobs.len(), 1);
    let jobs = within(topics.publish(message("refund.7")))
        .await
        .unwrap()
        .into_inner()
        .jobs;
    assert_eq!(jobs, []);
    let gone = v1::UnsubscribeRequest {
        topic: "orders".into(),
        name: "bill".into(),
    };
    within(topics.unsubscribe(gone)).await.unwrap();

    let mut schedules = SchedulesClient::new(bench.channel());
    let put = v1::PutScheduleRequest {
        schedule: Some(v1::Schedule {
            name: "news".into(),
            queue: "mail".into(),
            rhythm: Some(v1::schedule::Rhythm::EveryMs(60_000)),
            ..v1::Schedule::default()
        }),
        armed: false,
    };
    let made = within(schedules.put(put)).await.unwrap().into_inner();
    assert_eq!(made.next_at_ms, Some(1_700_000_060_000));
    let name = "news".to_owned();
    let shown = within(schedules.get(v1::GetScheduleRequest { name: name.clone() })).await;
    assert_eq!(shown.unwrap().into_inner(), made);
    let all = within(schedules.list(v1::ListSchedulesRequest {}))
        .await
        .unwrap();
    assert_eq!(all.into_inner().schedules.len(), 1);
    let delete = v1::DeleteScheduleRequest {
        name,
        only_if: Some(v1::delete_schedule_request::LastTick { at_ms: Some(7) }),
    };
    let status = within(schedules.delete(delete.clone())).await.unwrap_err();
    assert_eq!(status.metadata().get("auxo-code").unwrap(), "conflict");
    let delete = v1::DeleteScheduleRequest {
        only_if: None,
        ..delete
    };
    within(schedules.delete(delete)).await.unwrap();

    let mut stores = StoresClient::new(bench.channel());
    let audit = within(stores.audit(v1::AuditRequest {}))
        .await
        .unwrap()
        .into_inner();
    assert_eq!((audit.jobs, audit.problems), (1, Vec::<String>::new()));
    let request = v1::PassagesRequest {
        queue: "bills".into(),
        ..v1::PassagesRequest::default()
    };
    let passages = within(stores.passages(request)).await.unwrap().into_inner();
    assert_eq!((passages.jobs.len(), passages.store.is_empty()), (1, false));
}

#[tokio::test]
async fn a_lease_answers_before_the_deadline_of_its_call_and_is_lent_nothing_after_that() {
    let bench = Bench::start().await;
    bench.make("mail").await;
    let mut request = tonic::Request::new(v1::LeaseRequest {
        queues: vec!["mail".into()],
        wait_ms: 60_000,
        ..v1::LeaseRequest::default()
    });
    request.set_timeout(std::time::Duration::from_secs(1));
    // The client would end the call by itself at its deadline, and what is lent in that moment would reach nobody.
    let answer = within(bench.workers().lease(request)).await;
    assert_eq!(answer.unwrap().into_inner().jobs, []);
    bench.push("mail", 1).await;
    let counts = bench.counts("mail").await;
    assert_eq!((counts.ready, counts.leased), (1, 0));
}
