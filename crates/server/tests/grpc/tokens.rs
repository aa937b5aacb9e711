//! Who may call what.

use std::sync::Arc;

use auxo_core::{SystemClock, Timestamp};
use auxo_proto::v1;
use auxo_proto::v1::jobs_client::JobsClient;
use auxo_proto::v1::queues_client::QueuesClient;
use auxo_server::{Auth, Patience, Token, TokenFile};
use tempfile::TempDir;
use tonic::{Code, Request};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use super::bench::{Bench, within};

/// A server that wants tokens, and a token for each list of grants.
async fn guarded(grants: &[&[&str]]) -> (Bench, Vec<String>, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let file = TokenFile::new(dir.path().join("tokens.toml"));
    let mut secrets = Vec::new();
    for allow in grants {
        let allow = allow.iter().map(|grant| grant.parse().unwrap()).collect();
        let (token, secret) = Token::new("t", allow, Timestamp(0), None).unwrap();
        file.change(|tokens| Ok((tokens.with(token), ()))).unwrap();
        secrets.push(format!("Bearer {}", secret.reveal()));
    }
    let clock = Arc::new(SystemClock::new(Timestamp(0)));
    let auth = Auth::open(file, clock, Patience::default()).unwrap();
    let bench = Bench::with(|settings| settings.auth = auth).await;
    (bench, secrets, dir)
}

fn with<T>(token: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    if !token.is_empty() {
        let token = token.parse().unwrap();
        request.metadata_mut().insert("authorization", token);
    }
    request
}

#[tokio::test]
async fn a_call_needs_a_token_with_its_right_and_health_needs_none() {
    let grants: [&[&str]; 3] = [&["push:*"], &["push:mail"], &["admin:*"]];
    let (bench, secrets, _dir) = guarded(&grants).await;
    let mut jobs = JobsClient::new(bench.channel());
    let mut queues = QueuesClient::new(bench.channel());
    let mut push = async |token: &str| {
        let pushed = within(jobs.push(with(token, v1::PushRequest::default()))).await;
        pushed.map_or_else(|status| status.code(), |_| Code::Ok)
    };
    assert_eq!(push("").await, Code::Unauthenticated);
    let wrong = "Bearer auxo_aaaaaaaa_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    assert_eq!(push(wrong).await, Code::Unauthenticated);
    assert_eq!(push(&secrets[0]).await, Code::Ok);
    assert_eq!(push(&secrets[1]).await, Code::PermissionDenied);
    assert_eq!(push(&secrets[2]).await, Code::Ok);
    let mut list = async |token: &str| {
        let listed = within(queues.list(with(token, v1::ListQueuesRequest::default()))).await;
        listed.map_or_else(|status| status.code(), |_| Code::Ok)
    };
    assert_eq!(list(&secrets[0]).await, Code::PermissionDenied);
    assert_eq!(list(&secrets[2]).await, Code::Ok);
    let mut health = HealthClient::new(bench.channel());
    let question = HealthCheckRequest::default();
    assert!(within(health.check(question)).await.is_ok());
}

#[tokio::test]
async fn no_method_answers_who_shows_no_token() {
    let (bench, _, _dir) = guarded(&[&["admin:*"]]).await;
    let set = <prost_types::FileDescriptorSet as prost::Message>::decode(auxo_proto::DESCRIPTOR);
    let mut called = 0;
    for file in set.unwrap().file {
        for service in &file.service {
            for method in &service.method {
                let path = format!("/{}.{}/{}", file.package(), service.name(), method.name());
                let mut client = tonic::client::Grpc::new(bench.channel());
                client.ready().await.unwrap();
                let codec = tonic_prost::ProstCodec::<(), ()>::default();
                let path = path.parse().unwrap();
                let answer = within(client.unary(Request::new(()), path, codec)).await;
                let code = answer.map_or_else(|status| status.code(), |_| Code::Ok);
                assert_eq!(code, Code::Unauthenticated, "{}", method.name());
                called += 1;
            }
        }
    }
    assert!(called > 20);
}
