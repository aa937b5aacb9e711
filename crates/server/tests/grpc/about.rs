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
