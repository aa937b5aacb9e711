//! Every method is asked for something wrong, and says which field it is.

use std::collections::BTreeSet;

use auxo_proto::v1;
use auxo_proto::v1::events_client::EventsClient;
use auxo_proto::v1::queues_client::QueuesClient;
use auxo_proto::v1::schedules_client::SchedulesClient;
use auxo_proto::v1::stores_client::StoresClient;
use auxo_proto::v1::topics_client::TopicsClient;
use futures_util::stream;
use prost::Message;
use tonic::Status;

use super::bench::{Bench, Worker, job, start, within};

/// What a call was refused with.
async fn refused<T>(call: impl Future<Output = Result<T, Status>>) -> (tonic::Code, String) {
    match within(call).await {
        Ok(_) => panic!("it was accepted"),
        Err(status) => {
            assert!(status.metadata().contains_key("auxo-code"), "{status}");
            (status.code(), status.message().to_owned())
        }
    }
}

/// The only item of a batch was refused.
fn item(error: Option<v1::Error>) -> (tonic::Code, String) {
    let error = error.expect("an error");
    assert_eq!(error.code, "bad_request");
    (tonic::Code::InvalidArgument, error.message)
}

fn pushed(answer: v1::PushResponse) -> Option<v1::Error> {
    match answer.results.into_iter().next()?.result? {
        v1::push_result::Result::Error(error) => Some(error),
        v1::push_result::Result::Ok(_) => None,
    }
}

/// For each method a wrong request, what it was answered, and the field that the answer must name.
async fn answers(bench: &Bench) -> Vec<(&'static str, (tonic::Code, String), &'static str)> {
    let channel = bench.channel();
    let (mut jobs, mut workers) = (bench.jobs(), bench.workers());
    let mut queues = QueuesClient::new(channel.clone());
    let mut topics = TopicsClient::new(channel.clone());
    let mut schedules = SchedulesClient::new(channel.clone());
    let mut stores = StoresClient::new(channel.clone());
    let mut events = EventsClient::new(channel);
    let bad = || "two words".to_owned();
    let mut wrong = job("mail", "x");
    wrong.spec.as_mut().unwrap().on_duplicate = 77;
    let push = v1::PushRequest { jobs: vec![wrong] };
    let first = within(jobs.push(push.clone())).await.unwrap().into_inner();
    let streamed = within(jobs.push_stream(stream::iter([push]))).await;
    let streamed = within(streamed.unwrap().into_inner().message()).await;
    let settle = v1::Settle {
        token: "1-1-0000000000000001".into(),
        outcome: None,
    };
    let items = vec![settle];
    let settled = within(workers.settle(v1::SettleRequest { items })).await;
    let settled = match settled.unwrap().into_inner().results.remove(0).result {
        Some(v1::settle_result::Result::Error(error)) => Some(error),
        _ => None,
    };
    let items = vec![v1::Extend::default()];
    let extended = within(workers.extend(v1::ExtendRequest { items })).await;
    let extended = match extended.unwrap().into_inner().results.remove(0).result {
        Some(v1::extend_result::Result::Error(error)) => Some(error),
        _ => None,
    };
    let ask = v1::LeaseRequest {
        queues: vec!["mail".into()],
        max: Some(0),
        ..v1::LeaseRequest::default()
    };
    let matching = v1::steer_request::Matching::default();
    let steer = v1::SteerRequest {
        target: Some(v1::steer_request::Target::Matching(matching)),
        action: Some(v1::steer_request::Action::Kick(Default::default())),
        dry_run: true,
    };
    let schedule = v1::Schedule {
        name: "news".into(),
        queue: "mail".into(),
        ..v1::Schedule::default()
    };
    let subscription = v1::Subscription {
        topic: "t".into(),
        name: "n".into(),
        queue: "q".into(),
        pattern: Some("a*".into()),
    };
    let adopt = v1::AdoptRequest {
        queue: "mail".into(),
        ..v1::AdoptRequest::default()
    };
    let mut worker = Worker::with(bench, start("two words", 1)).await;
    vec![
        ("Jobs/Push", item(pushed(first)), "on_duplicate: "),
        (
            "Jobs/PushStream",
            item(pushed(streamed.unwrap().unwrap())),
            "on_duplicate: ",
        ),
        (
            "Jobs/Get",
            refused(jobs.get(v1::GetJobRequest::default())).await,
            "which: ",
        ),
        (
            "Jobs/Explain",
            refused(jobs.explain(v1::ExplainRequest::default())).await,
            "which: ",
        ),
        (
            "Jobs/List",
            refused(jobs.list(v1::ListJobsRequest {
                limit: Some(0),
                ..Default::default()
            }))
            .await,
            "limit: ",
        ),
        (
            "Jobs/Steer",
            refused(jobs.steer(steer)).await,
            "matching.filter: ",
        ),
        (
            "Workers/Lease",
            refused(workers.lease(ask.clone())).await,
            "max: ",
        ),
        (
            "Workers/Take",
            refused(workers.take(stream::iter([ask]))).await,
            "max: ",
        ),
        ("Workers/Settle", item(settled), "outcome: "),
        ("Workers/Extend", item(extended), "token: "),
        (
            "Workers/Work",
            refused(async { worker.next().await }).await,
            "queues: ",
        ),
        (
            "Queues/List",
            refused(queues.list(v1::ListQueuesRequest { names: vec![bad()] })).await,
            "queue: ",
        ),
        (
            "Queues/Get",
            refused(queues.get(v1::GetQueueRequest { queue: bad() })).await,
            "queue: ",
        ),
        (
            "Queues/Configure",
            refused(queues.configure(v1::ConfigureQueueRequest {
                queue: "mail".into(),
                config: Some(v1::QueueConfig {
                    max_jobs: Some(0),
                    ..Default::default()
                }),
                only: Vec::new(),
            }))
            .await,
            "max_jobs: ",
        ),
        (
            "Queues/Pause",
            refused(queues.pause(v1::PauseQueueRequest {
                queue: "mail".into(),
                side: 9,
                for_ms: None,
            }))
            .await,
            "side: ",
        ),
        (
            "Queues/Resume",
            refused(queues.resume(v1::ResumeQueueRequest {
                queue: bad(),
                side: 0,
            }))
            .await,
            "queue: ",
        ),
        (
            "Queues/Purge",
            refused(queues.purge(v1::PurgeQueueRequest {
                queue: "mail".into(),
                states: vec![v1::State::Leased.into()],
            }))
            .await,
            "states: ",
        ),
        (
            "Topics/Subscribe",
            refused(topics.subscribe(v1::SubscribeRequest {
                subscription: Some(subscription),
            }))
            .await,
            "pattern: ",
        ),
        (
            "Topics/Unsubscribe",
            refused(topics.unsubscribe(v1::UnsubscribeRequest::default())).await,
            "topic: ",
        ),
        (
            "Topics/Publish",
            refused(topics.publish(v1::PublishRequest::default())).await,
            "topic: ",
        ),
        (
            "Schedules/Get",
            refused(schedules.get(v1::GetScheduleRequest::default())).await,
            "name: ",
        ),
        (
            "Schedules/Put",
            refused(schedules.put(v1::PutScheduleRequest {
                schedule: Some(schedule),
                armed: false,
            }))
            .await,
            "rhythm: ",
        ),
        (
            "Schedules/Delete",
            refused(schedules.delete(v1::DeleteScheduleRequest::default())).await,
            "schedule: ",
        ),
        (
            "Events/Watch",
            refused(events.watch(v1::WatchRequest {
                queue: Some(bad()),
                ..Default::default()
            }))
            .await,
            "queue: ",
        ),
        (
            "Stores/Passages",
            refused(stores.passages(v1::PassagesRequest {
                queue: bad(),
                ..Default::default()
            }))
            .await,
            "queue: ",
        ),
        (
            "Stores/Depart",
            refused(stores.depart(v1::DepartRequest {
                queue: bad(),
                jobs: vec![],
            }))
            .await,
            "queue: ",
        ),
        ("Stores/Adopt", refused(stores.adopt(adopt)).await, "step: "),
    ]
}

/// These have nothing that could be wrong.
const NOTHING_TO_SAY: [&str; 3] = ["Schedules/List", "Stores/Audit", "Topics/List"];

#[tokio::test]
async fn every_method_refuses_what_is_wrong_and_names_the_field() {
    let bench = Bench::start().await;
    let mut seen: BTreeSet<String> = NOTHING_TO_SAY.map(str::to_owned).into();
    for (method, (code, message), field) in answers(&bench).await {
        assert_eq!(code, tonic::Code::InvalidArgument, "{method}: {message}");
        assert!(message.starts_with(field), "{method}: {message}");
        seen.insert(method.to_owned());
    }
    let set = prost_types::FileDescriptorSet::decode(auxo_proto::DESCRIPTOR).unwrap();
    let mut all = BTreeSet::new();
    for service in set.file.iter().flat_map(|file| &file.service) {
        let methods = service.method.iter();
        all.extend(methods.map(|method| format!("{}/{}", service.name(), method.name())));
    }
    assert_eq!(seen, all);
}
