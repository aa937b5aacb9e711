//! The same queue over gRPC, at the address of HTTP: what has the content type of gRPC comes here, one file per service of
//! `auxo.v1`, and so do health and reflection as gRPC has them.
//!
//! Nothing of what surrounds a request differs. Calls are seen through by [`observe`], so that each is counted, has an end and
//! keeps its panic for itself; messages take their room from the same 256 MiB as bodies, large answers from the other 256.
//! Errors of whole calls become a status in one function, [`auxo_proto::status_of`]; those of items stay in the messages.

mod cancels;
mod events;
mod health;
mod jobs;
mod lent;
mod metered;
mod outlet;
mod push;
mod queues;
mod schedules;
mod stores;
mod topics;
mod work;
mod workers;

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use auxo_core::{Code, Error};
use auxo_proto::v1::events_server::EventsServer;
use auxo_proto::v1::jobs_server::JobsServer;
use auxo_proto::v1::queues_server::QueuesServer;
use auxo_proto::v1::schedules_server::SchedulesServer;
use auxo_proto::v1::stores_server::StoresServer;
use auxo_proto::v1::topics_server::TopicsServer;
use auxo_proto::v1::workers_server::WorkersServer;
use auxo_proto::{DESCRIPTOR, status_of};
use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, Request, StatusCode};
use axum::response::Response;
use hyper::body::Incoming;
use prost::Message;
use prost_types::{FileDescriptorSet, MethodDescriptorProto};
use tokio::sync::OwnedSemaphorePermit;
use tonic::Status;
use tonic_health::pb::health_server::HealthServer;
use tower_service::Service;

use self::cancels::Cancels;
use self::lent::{Lent, Sent};
use self::metered::Metered;
use crate::app::{App, ROOM_UNIT};
use crate::auth::{Caller, Denied, Need, Right, Visitor};
use crate::clock::{Clock, within};
use crate::observe::{Voice, observe};
use crate::routes::Known;

/// Calls that only look, so that one without an answer has changed nothing.
const LOOKS: [&str; 13] = [
    "/auxo.v1.Events/Watch",
    "/auxo.v1.Jobs/Explain",
    "/auxo.v1.Jobs/Get",
    "/auxo.v1.Jobs/List",
    "/auxo.v1.Queues/Get",
    "/auxo.v1.Queues/List",
    "/auxo.v1.Schedules/Get",
    "/auxo.v1.Schedules/List",
    "/auxo.v1.Stores/Audit",
    "/auxo.v1.Stores/Passages",
    "/auxo.v1.Topics/List",
    "/grpc.health.v1.Health/Check",
    "/grpc.health.v1.Health/Watch",
];
/// Calls that wait because the caller asked for it, or that go through everything there is. Streams are, too.
const LONG: [&str; 3] = [
    "/auxo.v1.Workers/Lease",
    "/auxo.v1.Stores/Audit",
    "/auxo.v1.Queues/Purge",
];
/// From how many bytes on an answer is a large one: 16 KiB.
const LARGE: usize = 16 << 10;

/// What streams share.
#[derive(Default)]
pub struct Shared {
    /// Who waits to hear that a job is to be cancelled.
    cancels: Arc<Cancels>,
}

/// The memory of an answer that is being sent.
#[derive(Clone)]
pub struct Room {
    _permit: Option<Arc<OwnedSemaphorePermit>>,
}

/// Whether a request speaks gRPC. A browser cannot be made to say so by a page of another site without asking first.
pub fn speaks(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(|kind| kind.as_bytes());
    let rest = kind.and_then(|kind| kind.strip_prefix(b"application/grpc"));
    // What goes on with `-web` is another protocol.
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';' | b' ')))
}

/// An error in place of an answer.
pub fn refusal(error: &Error) -> Response {
    status_of(error).into_http()
}

/// The status of HTTP that says what an answer says. One that has begun well is counted as good: how it ends is told at its
/// end.
pub fn counted(response: &Response) -> StatusCode {
    use tonic::Code as Grpc;
    let status = Status::from_header_map(response.headers());
    match status.map_or(Grpc::Ok, |status| status.code()) {
        Grpc::Ok => StatusCode::OK,
        Grpc::InvalidArgument => StatusCode::BAD_REQUEST,
        Grpc::Unauthenticated => StatusCode::UNAUTHORIZED,
        Grpc::PermissionDenied => StatusCode::FORBIDDEN,
        Grpc::NotFound => StatusCode::NOT_FOUND,
        Grpc::AlreadyExists | Grpc::FailedPrecondition | Grpc::Aborted => StatusCode::CONFLICT,
        Grpc::OutOfRange => StatusCode::PAYLOAD_TOO_LARGE,
        Grpc::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Grpc::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Grpc::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Grpc::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        Grpc::Cancelled | Grpc::Unknown | Grpc::Internal | Grpc::DataLoss => {
            StatusCode::INTERNAL_SERVER_ERROR
        }
    }
}

/// What the handlers work with.
#[derive(Clone)]
struct Api {
    app: Arc<App>,
}

/// What a handler answers.
type Reply<T> = Result<tonic::Response<T>, Status>;

/// An answer that can be sent at once: from now on only the client is waited for.
fn whole<T>(message: T) -> Reply<T> {
    let mut response = tonic::Response::new(message);
    response.extensions_mut().insert(Room { _permit: None });
    Ok(response)
}

/// The end of a call as a status.
fn refused(error: Error) -> Status {
    status_of(&error)
}

/// Who makes a call.
fn caller<T>(request: &tonic::Request<T>) -> Result<Caller, Status> {
    let caller = request.extensions().get::<Caller>().cloned();
    // Whatever let it through without one, it goes no further.
    caller.ok_or_else(|| {
        let message = "the server does not know who is asking";
        refused(Error::new(Code::Internal, message))
    })
}

/// How a stream ends whose token is no longer right.
fn revoked() -> Status {
    refused(Denied::Wrong.into())
}

impl Api {
    /// An answer that may be large, if there is room for it until the client has taken it. Only for calls that change
    /// nothing: any other answer would be lost by being held back.
    fn bounded<T: Message>(&self, message: T) -> Reply<T> {
        let size = message.encoded_len();
        let mut response = whole(message)?;
        if size >= LARGE {
            let permit = self.room(size).map_err(refused)?;
            let _permit = Some(Arc::new(permit));
            response.extensions_mut().insert(Room { _permit });
        }
        Ok(response)
    }

    fn room(&self, size: usize) -> Result<OwnedSemaphorePermit, Error> {
        let app = &self.app;
        let units = u32::try_from(size / ROOM_UNIT).unwrap_or(u32::MAX);
        app.answers
            .clone()
            .try_acquire_many_owned(units)
            .map_err(|_| match size > app.settings.answers {
                true => Error::new(
                    Code::TooLarge,
                    "the answer is larger than the server's room for answers",
                ),
                false => Error::new(
                    Code::Unavailable,
                    "too many large answers at once; try again",
                ),
            })
    }
}

/// A method as it is counted, and what is known of it before it is called.
struct Method {
    known: Known,
    looks: bool,
    is_stream: bool,
}

impl Method {
    fn new(service: &str, method: &MethodDescriptorProto) -> (String, Method) {
        let path = format!("/{service}/{}", method.name());
        let is_stream = method.client_streaming() || method.server_streaming();
        let long = is_stream || LONG.contains(&path.as_str());
        let known = Known::call(&path, long, need(service, method.name()));
        let looks = LOOKS.contains(&path.as_str());
        let method = Method {
            known,
            looks,
            is_stream,
        };
        (path, method)
    }
}

/// What a call needs, as its route of HTTP does. Whatever names queues, jobs, leases or a schedule finds in [`calls`](crate::calls)
/// whether they are the caller's.
fn need(service: &str, method: &str) -> Need {
    use Need::{Everywhere, Somewhere};
    match (service, method) {
        ("grpc.health.v1.Health", _) => Need::Nothing,
        (reflection, _) if reflection.starts_with("grpc.reflection.") => Need::Token,
        ("auxo.v1.Jobs", "Push" | "PushStream") => Somewhere(Right::Push),
        ("auxo.v1.Jobs", "Get" | "Explain" | "List") => Somewhere(Right::Read),
        ("auxo.v1.Jobs", "Steer") => Somewhere(Right::Operate),
        ("auxo.v1.Workers", _) => Somewhere(Right::Lease),
        ("auxo.v1.Queues", "List" | "Get") => Somewhere(Right::Read),
        ("auxo.v1.Queues", _) => Somewhere(Right::Operate),
        ("auxo.v1.Topics", "List") => Everywhere(Right::Read),
        ("auxo.v1.Topics", "Publish") => Everywhere(Right::Push),
        ("auxo.v1.Topics", _) => Everywhere(Right::Operate),
        ("auxo.v1.Schedules", "List") => Everywhere(Right::Read),
        ("auxo.v1.Schedules", "Get") => Somewhere(Right::Read),
        ("auxo.v1.Schedules", _) => Somewhere(Right::Operate),
        ("auxo.v1.Events", _) => Somewhere(Right::Read),
        ("auxo.v1.Stores", "Passages" | "Depart" | "Adopt") => Somewhere(Right::Admin),
        _ => Everywhere(Right::Admin),
    }
}

type Called = Pin<Box<dyn Future<Output = Response<tonic::body::Body>> + Send>>;
type Call = Box<dyn Fn(Request<Metered>) -> Called + Send + Sync>;

/// Everything that can be called.
pub struct Services {
    methods: HashMap<String, Method>,
    calls: HashMap<String, Call>,
    none: Method,
}

impl Services {
    /// The services of a server.
    pub fn new(app: &Arc<App>) -> Services {
        let most = app.settings.body;
        let api = Api { app: app.clone() };
        let mut services = Services {
            methods: HashMap::new(),
            calls: HashMap::new(),
            none: Method {
                known: Known::call("none", false, Need::Token),
                looks: true,
                is_stream: false,
            },
        };
        services.add(JobsServer::new(api.clone()).max_decoding_message_size(most));
        services.add(WorkersServer::new(api.clone()).max_decoding_message_size(most));
        services.add(QueuesServer::new(api.clone()).max_decoding_message_size(most));
        services.add(TopicsServer::new(api.clone()).max_decoding_message_size(most));
        services.add(SchedulesServer::new(api.clone()).max_decoding_message_size(most));
        services.add(EventsServer::new(api.clone()).max_decoding_message_size(most));
        services.add(StoresServer::new(api.clone()).max_decoding_message_size(most));
        services.add(HealthServer::new(api));
        services.describe(DESCRIPTOR);
        services.describe(tonic_health::pb::FILE_DESCRIPTOR_SET);
        services.reflect();
        services
    }

    fn add<S>(&mut self, service: S)
    where
        S: Service<Request<Metered>, Response = Response<tonic::body::Body>>,
        S: tonic::server::NamedService + Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
        S::Error: Into<std::convert::Infallible>,
    {
        let call = move |request| -> Called {
            // Made to be cloned for each call, and always ready.
            let answer = service.clone().call(request);
            Box::pin(async move { answer.await.unwrap_or_else(|never| match never.into() {}) })
        };
        self.calls.insert(S::NAME.to_owned(), Box::new(call));
    }

    /// Notes the methods of a compiled file.
    fn describe(&mut self, descriptor: &[u8]) {
        // Ours and those of the two services are checked by tests; a method that is not known is refused.
        let set = FileDescriptorSet::decode(descriptor).unwrap_or_default();
        for file in set.file {
            for service in &file.service {
                let name = format!("{}.{}", file.package(), service.name());
                let methods = service.method.iter();
                self.methods
                    .extend(methods.map(|method| Method::new(&name, method)));
            }
        }
    }

    /// Lets clients ask what there is, in the two versions of asking that are in use.
    fn reflect(&mut self) {
        let about = || {
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(DESCRIPTOR)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        };
        match (about().build_v1(), about().build_v1alpha()) {
            (Ok(v1), Ok(v1alpha)) => {
                self.add(v1);
                self.add(v1alpha);
                self.describe(tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET);
                self.describe(tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET);
            }
            (Err(error), _) | (_, Err(error)) => {
                tracing::error!(%error, "gRPC reflection cannot be offered");
            }
        }
    }

    /// Sees a call through.
    pub async fn answer(
        &self,
        app: &Arc<App>,
        clock: &mut Option<Clock>,
        visitor: &Visitor,
        request: Request<Incoming>,
    ) -> Response {
        let path = request.uri().path();
        let method = self.methods.get(path).unwrap_or(&self.none);
        let service = path.split('/').nth(1).and_then(|name| self.calls.get(name));
        let voice = Voice::Grpc {
            looks: method.looks,
        };
        observe(
            app,
            &method.known,
            voice,
            visitor,
            request,
            async |request| {
                let Some(call) = service else {
                    let message = "there is no such service here; reflection shows what there is";
                    return Ok(Status::unimplemented(message).into_http());
                };
                // A single message is held until its call is answered, those of a stream until the next ones are read.
                let (metered, _held) = Metered::meter(app.clone(), method.is_stream);
                let answer = call(request.map(|body| metered.over(body)));
                let answer = match method.known.long {
                    true => answer.await,
                    false => within(app.settings.answer_time, clock, answer).await?,
                };
                let (mut parts, body) = answer.into_parts();
                let body = match parts.extensions.remove::<Lent>() {
                    Some(lent) => Body::new(Sent::new(body, lent)),
                    None => Body::new(body),
                };
                Ok(Response::from_parts(parts, body))
            },
        )
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a test may look at without a server.
    fn described() -> Services {
        let mut services = Services {
            methods: HashMap::new(),
            calls: HashMap::new(),
            none: Method {
                known: Known::call("none", false, Need::Token),
                looks: true,
                is_stream: false,
            },
        };
        services.describe(DESCRIPTOR);
        services.describe(tonic_health::pb::FILE_DESCRIPTOR_SET);
        services.reflect();
        services
    }

    #[test]
    fn what_is_said_of_methods_is_said_of_those_there_are() {
        let services = described();
        for path in LOOKS.iter().chain(&LONG) {
            assert!(services.methods.contains_key(*path), "{path}");
        }
        assert!(services.methods["/auxo.v1.Workers/Work"].known.long);
        assert!(!services.methods["/auxo.v1.Jobs/Push"].known.long);
        assert!(
            services
                .calls
                .contains_key("grpc.reflection.v1.ServerReflection")
        );
        assert!(
            services
                .calls
                .contains_key("grpc.reflection.v1alpha.ServerReflection")
        );
    }

    #[test]
    fn grpc_is_known_by_its_content_type() {
        let of = |kind: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, kind.parse().unwrap());
            speaks(&headers)
        };
        assert!(of("application/grpc"));
        assert!(of("application/grpc+proto"));
        assert!(!of("application/grpc-web+proto"));
        assert!(!of("application/json"));
        assert!(!speaks(&HeaderMap::new()));
    }
}
