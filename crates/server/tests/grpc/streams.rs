//! Pushes without waiting for each, events as they happen, and leases that somebody gives up.

use auxo_proto::v1;
use auxo_proto::v1::events_client::EventsClient;
use futures_util::stream;
use tokio::sync::mpsc;

use super::bench::{Bench, id, job, within};

#[tokio::test]
async fn a_stream_of_pushes_is_answered_in_order() {
    let bench = Bench::start().await;
    let message = |n: u64| v1::PushRequest {
        jobs: (0..n % 3)
            .map(|m| job("mail", format!("{n}.{m}")))
            .collect(),
    };
    let total: u64 = (0..200).map(|n| n % 3).sum();
    let messages = stream::iter((0..200).map(message));
    let answers = within(bench.jobs().push_stream(messages)).await;
    let mut answers = answers.unwrap().into_inner();
    let mut ids = Vec::new();
    while let Some(answer) = within(answers.message()).await.unwrap() {
        ids.extend(answer.results.into_iter().map(id));
    }
    assert_eq!(ids.len() as u64, total);
    assert!(ids.is_sorted());
    assert_eq!(bench.counts("mail").await.ready, total);
}

#[tokio::test]
async fn a_push_that_is_answered_in_a_stream_is_kept_before_the_next_is_sent() {
    let bench = Bench::start().await;
    let (say, mut said) = mpsc::channel(1);
    let messages = stream::poll_fn(move |cx| said.poll_recv(cx));
    let answers = within(bench.jobs().push_stream(messages)).await;
    let mut answers = answers.unwrap().into_inner();
    for n in 1..=3 {
        let mut wrong = job("mail", "x");
        wrong.queue = "two words".to_owned();
        let jobs = vec![job("mail", "x"), wrong];
        within(say.send(v1::PushRequest { jobs })).await.unwrap();
        let results = within(answers.message()).await.unwrap().unwrap().results;
        let Some(v1::push_result::Result::Error(error)) = &results[1].result else {
            panic!("{results:?}");
        };
        assert!(error.message.starts_with("queue: "), "{}", error.message);
        id(results[0].clone());
        assert_eq!(bench.counts("mail").await.ready, n);
    }
}

#[tokio::test]
async fn events_are_told_and_a_stream_goes_on_where_it_was() {
    let bench = Bench::start().await;
    let mut client = EventsClient::new(bench.channel());
    let request = v1::WatchRequest {
        queue: Some("mail".to_owned()),
        ..v1::WatchRequest::default()
    };
    let mut events = within(client.watch(request)).await.unwrap().into_inner();
    // The first message says that the stream is open.
    let first = within(events.message()).await.unwrap().unwrap();
    assert_eq!((first.notices.len(), first.run.is_empty()), (0, false));
    let ids = bench.push("mail", 1).await;
    bench.push("other", 1).await;
    let more = bench.push("mail", 1).await;
    let mut seen = Vec::new();
    while seen.len() < 2 {
        let message = within(events.message()).await.unwrap().unwrap();
        assert_eq!(message.gap, None);
        seen.extend(message.notices);
    }
    let jobs: Vec<u64> = seen.iter().map(|notice| notice.job).collect();
    assert_eq!(jobs, [ids[0], more[0]]);
    assert!(
        seen.iter()
            .all(|notice| notice.event == "push" && notice.queue == "mail")
    );
    drop(events);
    // One that comes back hears the second again, since it says that it saw only the first.
    let request = v1::WatchRequest {
        queue: Some("mail".to_owned()),
        run: first.run.clone(),
        after: seen[0].sequence,
    };
    let mut events = within(client.watch(request)).await.unwrap().into_inner();
    let mut again = Vec::new();
    while again.is_empty() {
        again.extend(within(events.message()).await.unwrap().unwrap().notices);
    }
    // What happened in the other queue is not counted.
    assert_eq!((again[0].job, again[0].sequence), (more[0], 2));
    // One that was here before a restart is told that it missed something.
    let request = v1::WatchRequest {
        run: "another".to_owned(),
        ..v1::WatchRequest::default()
    };
    let mut events = within(client.watch(request)).await.unwrap().into_inner();
    let gap = loop {
        if let Some(gap) = within(events.message()).await.unwrap().unwrap().gap {
            break gap;
        }
    };
    assert!(gap.restarted);
}

#[tokio::test]
async fn a_lease_that_is_given_up_is_answered_and_leaves_no_job_behind() {
    let bench = Bench::start().await;
    bench.make("mail").await;
    let ask = v1::LeaseRequest {
        queues: vec!["mail".to_owned()],
        wait_ms: 60_000,
        ..v1::LeaseRequest::default()
    };
    let (say, mut said) = mpsc::channel(1);
    say.send(ask.clone()).await.unwrap();
    let messages = stream::poll_fn(move |cx| said.poll_recv(cx));
    let mut workers = bench.workers();
    let taking = tokio::spawn(async move { workers.take(messages).await });
    bench.until_asked("mail").await;
    drop(say);
    let answer = within(taking).await.unwrap().unwrap().into_inner();
    assert_eq!(answer.jobs, []);
    bench.push("mail", 1).await;
    assert_eq!(bench.counts("mail").await.ready, 1);
    // With a job there it is answered at once.
    let (say, mut said) = mpsc::channel(1);
    say.send(ask).await.unwrap();
    let messages = stream::poll_fn(move |cx| said.poll_recv(cx));
    let answer = within(bench.workers().take(messages)).await.unwrap();
    assert_eq!(answer.into_inner().jobs.len(), 1);
}
