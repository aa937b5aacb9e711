//! What callers are held to, and what they cost.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use auxo_proto::v1;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::transport::Channel;

use super::bench::{Bench, Worker, job, within};
use super::brittle::misbehaving;

#[tokio::test]
async fn a_message_over_the_limit_is_refused_and_nothing_is_kept() {
    let bench = Bench::with(|settings| settings.body = 1000).await;
    let jobs = vec![job("mail", vec![7; 2000])];
    let status = within(bench.jobs().push(v1::PushRequest { jobs })).await;
    assert_eq!(status.unwrap_err().code(), tonic::Code::OutOfRange);
    assert_eq!(bench.counts("mail").await.ready, 0);
}

#[tokio::test]
async fn a_payload_over_the_limit_is_refused_alone() {
    let bench = Bench::start().await;
    let jobs = vec![job("mail", vec![7; (1 << 20) + 1]), job("mail", "x")];
    let answer = within(bench.jobs().push(v1::PushRequest { jobs })).await;
    let results = answer.unwrap().into_inner().results;
    let Some(v1::push_result::Result::Error(error)) = &results[0].result else {
        panic!("{results:?}");
    };
    assert_eq!(error.code, "too_large");
    assert_eq!(bench.counts("mail").await.ready, 1);
}

#[tokio::test]
async fn messages_find_no_room_when_there_is_none_and_give_back_what_they_took() {
    let bench = Bench::with(|settings| settings.bodies = 64 << 10).await;
    let large = || v1::PushRequest {
        jobs: vec![job("mail", vec![7; 100 << 10])],
    };
    let status = within(bench.jobs().push(large())).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::Unavailable);
    assert_eq!(status.metadata().get("auxo-code").unwrap(), "unavailable");
    // A stream of any length needs room for one message at a time.
    let message = |_| v1::PushRequest {
        jobs: vec![job("mail", vec![7; 10 << 10])],
    };
    let messages = futures_util::stream::iter((0..50).map(message));
    let answers = within(bench.jobs().push_stream(messages)).await;
    let mut answers = answers.unwrap().into_inner();
    let mut kept = 0;
    while let Some(answer) = within(answers.message()).await.unwrap() {
        kept += answer.results.len();
    }
    assert_eq!(kept, 50);
}

#[tokio::test]
async fn an_answer_that_is_too_large_for_the_room_is_refused() {
    let bench = Bench::with(|settings| settings.answers = 64 << 10).await;
    let jobs = vec![job("mail", vec![7; 100 << 10])];
    within(bench.jobs().push(v1::PushRequest { jobs }))
        .await
        .unwrap();
    let request = v1::ListJobsRequest::default();
    let status = within(bench.jobs().list(request)).await.unwrap_err();
    assert_eq!(status.metadata().get("auxo-code").unwrap(), "too_large");
}

#[tokio::test]
async fn a_worker_that_does_not_read_gets_no_more_than_its_credit() {
    let bench = Bench::start().await;
    let jobs = (0..50).map(|_| job("mail", vec![7; 1 << 20])).collect();
    within(bench.jobs().push(v1::PushRequest { jobs }))
        .await
        .unwrap();
    let worker = Worker::start(&bench, "mail", 3).await;
    within(async {
        while bench.counts("mail").await.leased < 3 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    // It says a lot and reads nothing; others go on.
    for _ in 0..16 {
        let settle = v1::Settle {
            token: "1-1-0000000000000001".into(),
            outcome: Some(v1::settle::Outcome::Ack(Default::default())),
        };
        let _ = worker.say.try_send(v1::WorkRequest {
            settle: vec![settle; 500],
            ..v1::WorkRequest::default()
        });
    }
    bench.push("other", 1).await;
    let counts = bench.counts("mail").await;
    assert_eq!((counts.leased, counts.ready), (3, 47));
}

#[tokio::test]
async fn an_unknown_method_and_an_unknown_service_are_told_apart_from_failures() {
    let bench = Bench::start().await;
    for path in ["/auxo.v1.Jobs/Fly", "/auxo.v2.Jobs/Push", "/v1/queues"] {
        let mut client = tonic::client::Grpc::new(bench.channel());
        client.ready().await.unwrap();
        let codec = tonic_prost::ProstCodec::<v1::PushRequest, v1::PushResponse>::default();
        let request = tonic::Request::new(v1::PushRequest::default());
        let call = client.unary(request, path.parse().unwrap(), codec);
        let status = within(call).await.unwrap_err();
        assert_eq!(status.code(), tonic::Code::Unimplemented, "{path}");
    }
}

#[tokio::test]
async fn without_its_content_type_a_path_of_grpc_is_nothing_that_http_has() {
    let bench = Bench::start().await;
    let mut stream = TcpStream::connect(bench.address).await.unwrap();
    let head = "POST /auxo.v1.Jobs/Push HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    within(stream.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
}

#[tokio::test]
async fn calls_are_counted_with_their_outcome() {
    let bench = Bench::start().await;
    bench.push("mail", 1).await;
    let request = v1::GetJobRequest::default();
    within(bench.jobs().get(request)).await.unwrap_err();
    let mut stream = TcpStream::connect(bench.address).await.unwrap();
    let head = "GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut text = String::new();
    within(stream.read_to_string(&mut text)).await.unwrap();
    for line in [
        "auxo_http_requests_total{method=\"POST\",route=\"/auxo.v1.Jobs/Push\",status=\"200\"} 1",
        "auxo_http_requests_total{method=\"POST\",route=\"/auxo.v1.Jobs/Get\",status=\"400\"} 1",
    ] {
        assert!(text.contains(line), "{line} is not in {text}");
    }
}

#[tokio::test]
async fn a_store_that_does_not_answer_is_an_unknown_outcome() {
    let (bench, manners) = misbehaving(|settings| {
        settings.answer_time = Duration::from_millis(10);
    })
    .await;
    manners.hangs.store(true, SeqCst);
    let mut jobs = bench.jobs();
    let request = v1::PushRequest {
        jobs: vec![job("mail", "x")],
    };
    let status = within(jobs.push(request.clone())).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::DeadlineExceeded);
    assert_eq!(
        status.metadata().get("auxo-code").unwrap(),
        "unknown_outcome"
    );
    let streamed = jobs.push_stream(futures_util::stream::iter([request]));
    let mut streamed = within(streamed).await.unwrap().into_inner();
    let status = within(streamed.message()).await.unwrap_err();
    assert_eq!(
        status.metadata().get("auxo-code").unwrap(),
        "unknown_outcome"
    );
    // Where nothing was to be done there is no doubt about it.
    let request = v1::ListJobsRequest::default();
    let status = within(jobs.list(request)).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::Unavailable);
}

#[tokio::test]
async fn a_stream_that_does_not_begin_is_ended() {
    let bench = Bench::with(|settings| settings.body_time = Duration::from_millis(10)).await;
    let silent = futures_util::stream::pending::<v1::WorkRequest>();
    let stream = within(bench.workers().work(silent)).await.unwrap();
    let status = within(stream.into_inner().message()).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::InvalidArgument);
    let silent = futures_util::stream::pending::<v1::LeaseRequest>();
    let status = within(bench.workers().take(silent)).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::InvalidArgument);
}

#[tokio::test]
async fn a_page_of_another_site_may_not_change_anything() {
    let bench = Bench::start().await;
    let mut request = tonic::Request::new(v1::PushRequest {
        jobs: vec![job("mail", "x")],
    });
    let origin = "http://elsewhere.example".parse().unwrap();
    request.metadata_mut().insert("origin", origin);
    let status = within(bench.jobs().push(request)).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::PermissionDenied);
    assert_eq!(bench.counts("mail").await.ready, 0);
}

#[tokio::test]
async fn a_name_that_may_be_anothers_is_not_answered() {
    let bench = Bench::start().await;
    for (name, code) in [
        ("evil.example", tonic::Code::PermissionDenied),
        ("auxo.localhost:8000", tonic::Code::Ok),
    ] {
        let endpoint = Channel::from_shared(format!("http://{}", bench.address)).unwrap();
        let named = format!("http://{name}").parse().unwrap();
        let channel = endpoint.origin(named).connect_lazy();
        let mut queues = v1::queues_client::QueuesClient::new(channel);
        let answer = within(queues.list(v1::ListQueuesRequest::default())).await;
        let is = answer.map_or_else(|status| status.code(), |_| tonic::Code::Ok);
        assert_eq!(is, code, "{name}");
    }
}

#[tokio::test]
async fn a_panic_costs_its_call_and_nothing_else() {
    let (bench, manners) = misbehaving(|_| ()).await;
    // All on one connection, so that one call could take the others with it.
    let channel = bench.channel();
    let mut jobs = v1::jobs_client::JobsClient::new(channel.clone());
    let mut worker = Worker::start(&bench, "mail", 1).await;
    manners.panics.store(true, SeqCst);
    let request = v1::PushRequest {
        jobs: vec![job("mail", "x")],
    };
    let status = within(jobs.push(request.clone())).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::Internal);
    assert_eq!(status.metadata().get("auxo-code").unwrap(), "internal");
    assert!(!status.message().contains("secret"), "{status}");
    let streamed = jobs.push_stream(futures_util::stream::iter([request.clone()]));
    let mut streamed = within(streamed).await.unwrap().into_inner();
    let status = within(streamed.message()).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::Internal);
    worker
        .say(v1::WorkRequest {
            settle: vec![v1::Settle {
                token: "1-1-0000000000000001".into(),
                outcome: Some(v1::settle::Outcome::Ack(Default::default())),
            }],
            ..v1::WorkRequest::default()
        })
        .await;
    let status = worker.next().await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::Internal);
    manners.panics.store(false, SeqCst);
    assert!(within(jobs.push(request)).await.is_ok());
}
