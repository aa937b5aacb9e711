//! What a server says about itself: health, and what it offers.

use futures_util::stream;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::bench::{Bench, within};

fn of(service: &str) -> HealthCheckRequest {
    HealthCheckRequest {
        service: service.to_owned(),
    }
}

#[tokio::test]
async fn health_follows_the_server() {
    let mut bench = Bench::start().await;
    let mut client = HealthClient::new(bench.channel());
    for service in ["", "auxo.v1.Jobs", "auxo.v1.Workers"] {
        let state = within(client.check(of(service))).await.unwrap();
        assert_eq!(state.into_inner().status(), ServingStatus::Serving);
    }
    let unknown = within(client.check(of("mail"))).await.unwrap_err();
    assert_eq!(unknown.code(), tonic::Code::NotFound);
    let mut watch = within(client.watch(of(""))).await.unwrap().into_inner();
    let first = within(watch.message()).await.unwrap().unwrap();
    assert_eq!(first.status(), ServingStatus::Serving);
    bench.tell_to_stop();
    let last = within(watch.message()).await.unwrap().unwrap();
    assert_eq!(last.status(), ServingStatus::NotServing);
    assert_eq!(within(watch.message()).await.unwrap(), None);
    bench.stopped().await;
}

#[tokio::test]
async fn an_engine_that_has_stopped_is_not_serving() {
    let bench = Bench::start().await;
    let mut client = HealthClient::new(bench.channel());
    bench.service.close().await.unwrap();
    let state = within(client.check(of(""))).await.unwrap();
    assert_eq!(state.into_inner().status(), ServingStatus::NotServing);
}

const OURS: [&str; 7] = [
    "auxo.v1.Events",
    "auxo.v1.Jobs",
    "auxo.v1.Queues",
    "auxo.v1.Schedules",
    "auxo.v1.Stores",
    "auxo.v1.Topics",
    "auxo.v1.Workers",
];

#[tokio::test]
async fn reflection_lists_the_services() {
    use tonic_reflection::pb::v1::ServerReflectionRequest;
    use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
    use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
    use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

    let bench = Bench::start().await;
    let ask = |message| ServerReflectionRequest {
        host: String::new(),
        message_request: Some(message),
    };
    let asked = [
        ask(MessageRequest::ListServices(String::new())),
        ask(MessageRequest::FileContainingSymbol(
            "auxo.v1.WorkRequest".to_owned(),
        )),
    ];
    let mut client = ServerReflectionClient::new(bench.channel());
    let told = within(client.server_reflection_info(stream::iter(asked))).await;
    let mut told = told.unwrap().into_inner();
    let first = within(told.message()).await.unwrap().unwrap();
    let Some(MessageResponse::ListServicesResponse(list)) = first.message_response else {
        panic!("{first:?}");
    };
    let names: Vec<&str> = list.service.iter().map(|service| &*service.name).collect();
    for name in OURS.iter().chain(&["grpc.health.v1.Health"]) {
        assert!(names.contains(name), "{name} is not in {names:?}");
    }
    let second = within(told.message()).await.unwrap().unwrap();
    let Some(MessageResponse::FileDescriptorResponse(files)) = second.message_response else {
        panic!("{second:?}");
    };
    assert_eq!(files.file_descriptor_proto.len(), 1);
}

#[tokio::test]
async fn reflection_answers_those_who_ask_in_the_old_way() {
    use tonic_reflection::pb::v1alpha::ServerReflectionRequest;
    use tonic_reflection::pb::v1alpha::server_reflection_client::ServerReflectionClient;
    use tonic_reflection::pb::v1alpha::server_reflection_request::MessageRequest;
    use tonic_reflection::pb::v1alpha::server_reflection_response::MessageResponse;

    let bench = Bench::start().await;
    let asked = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut client = ServerReflectionClient::new(bench.channel());
    let told = within(client.server_reflection_info(stream::iter([asked]))).await;
    let first = within(told.unwrap().into_inner().message()).await.unwrap();
    let Some(MessageResponse::ListServicesResponse(list)) = first.unwrap().message_response else {
        panic!("no list");
    };
    assert!(
        list.service
            .iter()
            .any(|service| service.name == "auxo.v1.Jobs")
    );
}

const GUIDE: &str = include_str!("../../../../docs/GRPC.md");

#[tokio::test]
async fn what_the_guide_does_with_grpcurl_can_be_done_as_it_is_written() {
    use tonic_reflection::pb::v1::ServerReflectionRequest;
    use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
    use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
    use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

    let session = GUIDE.split("```console\n").nth(1).unwrap();
    let session = session.split("```").next().unwrap();
    let bench = Bench::start().await;
    let mut done = 0;
    for step in session.split("$ grpcurl -plaintext ").skip(1) {
        let (line, expected) = step.split_once('\n').unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        let ask = match words[..] {
            [_, "list"] => MessageRequest::ListServices(String::new()),
            [_, "describe", symbol] => MessageRequest::FileContainingSymbol(symbol.to_owned()),
            ["-d", message, _, "auxo.v1.Jobs/Push"] => {
                let message = message.trim_matches('\'');
                let expected = r#"{"jobs":[{"queue":"mail","spec":{"payload":"aGVsbG8="}}]}"#;
                assert_eq!(message, expected, "what is pushed below is another job");
                let jobs = vec![super::bench::job("mail", "hello")];
                let mut client = bench.jobs();
                let pushed = client.push(auxo_proto::v1::PushRequest { jobs });
                let results = within(pushed).await.unwrap().into_inner().results;
                assert_eq!(results.len(), 1);
                done += 1;
                continue;
            }
            _ => panic!("{line}: who knows what that does"),
        };
        let asked = ServerReflectionRequest {
            host: String::new(),
            message_request: Some(ask),
        };
        let mut client = ServerReflectionClient::new(bench.channel());
        let told = within(client.server_reflection_info(stream::iter([asked]))).await;
        let told = within(told.unwrap().into_inner().message()).await.unwrap();
        match told.unwrap().message_response.unwrap() {
            MessageResponse::ListServicesResponse(list) => {
                let mut names: Vec<&str> = list.service.iter().map(|s| &*s.name).collect();
                names.sort_unstable();
                // Only the beginning of the list is written down.
                let written: Vec<&str> = expected.lines().take_while(|l| *l != "…").collect();
                assert_eq!(names[..written.len()], written[..]);
            }
            MessageResponse::FileDescriptorResponse(files) => {
                assert_eq!(files.file_descriptor_proto.len(), 1);
            }
            other => panic!("{line}: {other:?}"),
        }
        done += 1;
    }
    assert_eq!(done, 3);
}

#[test]
fn the_guide_has_every_service_with_every_call() {
    let set = <prost_types::FileDescriptorSet as prost::Message>::decode(auxo_proto::DESCRIPTOR);
    for service in set.unwrap().file.iter().flat_map(|file| &file.service) {
        let row = format!("| `{}` | ", service.name());
        let row = GUIDE.lines().find_map(|line| line.strip_prefix(&row));
        let row = row.unwrap_or_else(|| panic!("{} is not in the guide", service.name()));
        for method in &service.method {
            let call = format!("`{}`", method.name());
            assert!(row.contains(&call), "{}: {call}", service.name());
        }
        assert_eq!(row.matches('`').count(), 2 * service.method.len(), "{row}");
    }
}
