//! How a server with streams stops.

use auxo_proto::v1;

use super::bench::{Bench, Worker, ack, within};

#[tokio::test]
async fn a_server_that_stops_says_so_and_lets_its_workers_finish() {
    let mut bench = Bench::start().await;
    bench.push("mail", 1).await;
    let mut worker = Worker::start(&bench, "mail", 5).await;
    let jobs = worker.jobs(1).await;
    bench.tell_to_stop();
    let message = worker.next().await.unwrap().unwrap();
    assert!(message.stopping);
    worker
        .say(v1::WorkRequest {
            settle: jobs.iter().map(ack).collect(),
            ..v1::WorkRequest::default()
        })
        .await;
    assert_eq!(worker.next().await.unwrap().unwrap().settled.len(), 1);
    // Nothing is held any more, so there is nothing to wait for.
    assert_eq!(worker.next().await.unwrap(), None);
    let service = bench.service.clone();
    bench.stopped().await;
    let queues = service.queues(None).await.unwrap();
    assert_eq!((queues[0].counts.leased, queues[0].books.done), (0, 1));
}

#[tokio::test]
async fn what_a_worker_does_not_settle_while_the_server_stops_is_given_back() {
    let mut bench = Bench::with(|settings| {
        settings.grace = std::time::Duration::from_millis(300);
    })
    .await;
    bench.push("mail", 2).await;
    let mut worker = Worker::start(&bench, "mail", 1).await;
    worker.jobs(1).await;
    bench.tell_to_stop();
    assert!(worker.next().await.unwrap().unwrap().stopping);
    assert_eq!(worker.next().await.unwrap(), None);
    let counts = bench.counts("mail").await;
    assert_eq!((counts.ready, counts.leased), (2, 0));
    bench.stopped().await;
}

#[tokio::test]
async fn waiting_calls_and_other_streams_end_when_the_server_stops() {
    let mut bench = Bench::start().await;
    bench.make("mail").await;
    let mut workers = bench.workers();
    let ask = v1::LeaseRequest {
        queues: vec!["mail".to_owned()],
        wait_ms: 60_000,
        ..v1::LeaseRequest::default()
    };
    let waiting = tokio::spawn(async move { workers.lease(ask).await });
    let mut events = v1::events_client::EventsClient::new(bench.channel());
    let events = within(events.watch(v1::WatchRequest::default())).await;
    let mut events = events.unwrap().into_inner();
    assert!(within(events.message()).await.unwrap().is_some());
    bench.until_asked("mail").await;
    bench.tell_to_stop();
    let jobs = within(waiting).await.unwrap().unwrap().into_inner().jobs;
    assert_eq!(jobs, []);
    while within(events.message()).await.unwrap().is_some() {}
    bench.stopped().await;
}
