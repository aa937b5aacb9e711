//! What happens around every request, in whichever protocol: a name, a span, a count, an end, and no panic that reaches
//! anybody else.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Instant;

use auxo_core::{Code, Error, text};
use axum::http::header::{ALLOW, HOST, ORIGIN, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{BoxError, Router};
use bytes::Bytes;
use futures_util::FutureExt;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use tracing::Instrument;

use crate::app::App;
use crate::auth::{Turned, Via, Visitor};
use crate::clock::{Late, within};
use crate::grpc;
use crate::hosts;
use crate::large::bounded;
use crate::problem::Problem;
use crate::routes::Known;

/// Names a request in logs and answers.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// How a caller is spoken to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Voice {
    /// With a status and a problem.
    Http,
    /// With the status of a call.
    Grpc {
        /// Whether the call only looks.
        looks: bool,
    },
}

impl Voice {
    /// Says what went wrong.
    fn refuse(self, error: Error) -> Response {
        match self {
            Voice::Http => Problem::from(error).into_response(),
            Voice::Grpc { .. } => grpc::refusal(&error),
        }
    }

    /// Says that a request is not for this server.
    fn misdirect(self, error: Error) -> Response {
        match self {
            Voice::Http => {
                Problem::with_status(error, StatusCode::MISDIRECTED_REQUEST).into_response()
            }
            Voice::Grpc { .. } => grpc::refusal(&error),
        }
    }

    /// What is spoken.
    fn via(self) -> Via {
        match self {
            Voice::Http => Via::Http,
            Voice::Grpc { .. } => Via::Grpc,
        }
    }

    /// Whether nothing can have been changed.
    fn looks(self, method: &str) -> bool {
        match self {
            Voice::Http => method == "GET",
            Voice::Grpc { looks } => looks,
        }
    }

    /// The status that an answer is counted with.
    fn status(self, response: &Response) -> StatusCode {
        match self {
            Voice::Http => response.status(),
            Voice::Grpc { .. } => grpc::counted(response),
        }
    }
}

/// Sees a request through.
pub async fn observe<B, F>(
    app: &App,
    route: &Known,
    voice: Voice,
    visitor: &Visitor,
    request: Request<B>,
    serve: impl FnOnce(Request<B>) -> F,
) -> Response
where
    F: Future<Output = Result<Response, Late>>,
{
    let began = Instant::now();
    let id = request_id(app, request.headers());
    let method = method(request.method());
    let about = About {
        id: id.to_str().unwrap_or_default(),
        method,
        // Only the pattern: keys and names in a path may be secrets, and there is no end of them.
        route: &route.pattern,
    };
    // A span costs much more than an answer that nobody logs; what is logged otherwise names the request itself.
    let span = tracing::debug_span!(
        "request",
        id = about.id,
        method = about.method,
        route = about.route
    );
    let mut request = request;
    let answered = async {
        if let Err(error) = hosts::check(app, &request) {
            return voice.misdirect(error);
        }
        match admit(app, route, voice, visitor, &mut request).await {
            Ok(()) => answer(app, &about, voice, request, serve).await,
            Err(error) => voice.refuse(error),
        }
    };
    let mut response = answered.instrument(span.clone()).await;
    if response.status() == StatusCode::METHOD_NOT_ALLOWED {
        // The router's own answer has no body.
        let allowed = response.headers().get(ALLOW).cloned();
        response = Problem::method(allowed).into_response();
    }
    let (status, took) = (voice.status(&response).as_u16(), began.elapsed());
    app.metrics.answered(method, route, status, took);
    span.in_scope(|| tracing::debug!(status, ms = took.as_secs_f64() * 1e3, "answered"));
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, id);
    // A browser must not take a payload for a page.
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Lets a request in with who makes it, or says why not.
async fn admit<B>(
    app: &App,
    route: &Known,
    voice: Voice,
    visitor: &Visitor,
    request: &mut Request<B>,
) -> Result<(), Error> {
    check_origin(request)?;
    let need = route.need(request.method());
    match app
        .auth
        .admit(need, request.headers(), visitor, voice.via())
    {
        Ok(None) => Ok(()),
        Ok(Some(caller)) => {
            request.extensions_mut().insert(caller);
            Ok(())
        }
        Err(Turned::Denied(denied)) => {
            app.metrics.denied(denied.as_str());
            tracing::debug!(from = %visitor.from, reason = denied.as_str(), "turned away");
            app.auth.hold_back(denied).await;
            Err(denied.into())
        }
        Err(Turned::Forbidden(error)) => {
            app.metrics.denied("forbidden");
            Err(error)
        }
    }
}

/// The answer of the router.
pub async fn routed<B>(
    app: &App,
    router: &TowerToHyperService<Router>,
    route: &Known,
    request: Request<B>,
) -> Result<Response, Late>
where
    B: hyper::body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    let looks = *request.method() == Method::GET;
    let answer = router.call(request);
    let answer = match route.long {
        true => answer.await,
        false => {
            // The time for the body is in it: the calls that take long bodies are the hot ones.
            within(app.settings.answer_time, None, answer).await?
        }
    };
    let answer = answer.unwrap_or_else(|never| match never {});
    Ok(match looks {
        true => bounded(app, answer).await,
        false => answer,
    })
}

/// What a log says of a request.
struct About<'a> {
    id: &'a str,
    method: &'static str,
    route: &'a str,
}

async fn answer<B, F>(
    app: &App,
    about: &About<'_>,
    voice: Voice,
    request: Request<B>,
    serve: impl FnOnce(Request<B>) -> F,
) -> Response
where
    F: Future<Output = Result<Response, Late>>,
{
    let About { id, method, route } = about;
    let error = match AssertUnwindSafe(serve(request)).catch_unwind().await {
        Ok(Ok(response)) => return response,
        Ok(Err(Late)) => {
            tracing::warn!(id, method, route, "no answer from the store");
            let time = text::duration(app.settings.answer_time);
            match voice.looks(method) {
                true => Error::new(
                    Code::Unavailable,
                    format!("no answer from the store within {time}; try again"),
                ),
                false => Error::new(
                    Code::UnknownOutcome,
                    format!(
                        "no answer from the store within {time}: the step may or may not have happened"
                    ),
                ),
            }
        }
        Err(_) => {
            // The panic has printed itself; what it said may hold payloads and is not for the caller.
            tracing::error!(id, method, route, "a handler panicked");
            Error::new(
                Code::Internal,
                "the server failed to answer; its log says more",
            )
        }
    };
    voice.refuse(error)
}

/// The caller's own name for the request, if it fits into a line of a log.
fn request_id(app: &App, headers: &HeaderMap) -> HeaderValue {
    let fits = |value: &&HeaderValue| {
        (1..=128).contains(&value.len()) && value.as_bytes().iter().all(u8::is_ascii_graphic)
    };
    match headers.get(REQUEST_ID).filter(fits) {
        Some(id) => id.clone(),
        None => HeaderValue::try_from(app.request_id()).unwrap_or(HeaderValue::from_static("?")),
    }
}

fn method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        _ => "other",
    }
}

/// Refuses to change anything for a page of another site: a browser lets it send simple requests to any address that its
/// user can reach, a server on the same machine among them.
fn check_origin<B>(request: &Request<B>) -> Result<(), Error> {
    let Some(origin) = request.headers().get(ORIGIN) else {
        return Ok(());
    };
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        return Ok(());
    }
    let host = match request.headers().get(HOST) {
        Some(host) => host.to_str().ok(),
        None => request.uri().authority().map(|host| host.as_str()),
    };
    let origin = origin.to_str().unwrap_or_default();
    match origin.split_once("://") {
        Some((_, site)) if Some(site) == host => Ok(()),
        _ => Err(Error::new(
            Code::Forbidden,
            "a page of another site may not change anything here",
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use auxo_core::{Limits, Service};
    use auxo_embedded::{Embedded, Options};
    use axum::body::Body;
    use axum::routing::{any, get};
    use http_body_util::BodyExt;

    use super::*;
    use crate::auth::Stranger;
    use crate::settings::Settings;

    /// The answer to one request, from a server whose handlers misbehave.
    async fn answer(method: &str, path: &str) -> (u16, serde_json::Value) {
        let dir = tempfile::tempdir().unwrap();
        let engine = Embedded::open(dir.path(), Options::default()).unwrap();
        let service = Arc::new(Service::new(Arc::new(engine), Limits::default()));
        let settings = Settings {
            body_time: Duration::ZERO,
            answer_time: Duration::from_millis(1),
            ..Settings::default()
        };
        let app = App::new(service, settings).unwrap();
        let router: Router = Router::new()
            .route("/panics", get(|| async { panic!("secret") as () }))
            .route("/hangs", any(std::future::pending::<()>));
        let request = Request::builder()
            .method(method)
            .uri(path)
            .body(Body::empty())
            .unwrap();
        let router = TowerToHyperService::new(router);
        let route = app.routes.none();
        let visitor = Visitor {
            from: std::net::Ipv4Addr::LOCALHOST.into(),
            stranger: Arc::new(Stranger::known()),
        };
        let response = observe(&app, route, Voice::Http, &visitor, request, |request| {
            routed(&app, &router, route, request)
        })
        .await;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap())
    }

    #[tokio::test]
    async fn a_handler_that_panics_is_answered_as_a_failure_without_its_words() {
        let (status, body) = answer("GET", "/panics").await;
        assert_eq!((status, &body["code"]), (500, &"internal".into()));
        assert!(!body.to_string().contains("secret"), "{body}");
    }

    #[tokio::test]
    async fn a_store_that_does_not_answer_is_an_unknown_outcome() {
        let (status, body) = answer("POST", "/hangs").await;
        assert_eq!((status, &body["code"]), (504, &"unknown_outcome".into()));
        // Where nothing was to be done there is no doubt about it.
        let (status, body) = answer("GET", "/hangs").await;
        assert_eq!((status, &body["code"]), (503, &"unavailable".into()));
    }
}
