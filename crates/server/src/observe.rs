//! What happens around every request: a name, a span, a count, an end, and no panic that reaches anybody else.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use auxo_core::{Code, Error, text};
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use tracing::Instrument;

use crate::app::App;
use crate::large::bounded;
use crate::problem::Problem;

/// Names a request in logs and answers.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Routes that wait because the caller asked for it, or that go through everything there is.
const LONG: [&str; 4] = [
    "/v1/lease",
    "/v1/events",
    "/v1/audit",
    "/v1/queues/{queue}/purge",
];

/// Sees a request through.
pub async fn observe(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let id = request_id(&app, request.headers());
    let method = method(request.method());
    // Only the pattern: keys and names in a path may be secrets, and there is no end of them.
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let route = matched.as_ref().map_or("none", MatchedPath::as_str);
    let span = tracing::info_span!(
        "request",
        id = id.to_str().unwrap_or_default(),
        method,
        route
    );
    let mut response = answer(&app, route, request, next)
        .instrument(span.clone())
        .await;
    if method == "GET" {
        response = bounded(&app, response).await;
    }
    response.headers_mut().insert(REQUEST_ID, id);
    let (status, took) = (response.status().as_u16(), began.elapsed());
    app.metrics.answered(method, route, status, took);
    span.in_scope(|| tracing::debug!(status, ms = took.as_secs_f64() * 1e3, "answered"));
    response
}

async fn answer(app: &App, route: &str, request: Request, next: Next) -> Response {
    if let Err(error) = check_origin(&request) {
        return Problem::from(error).into_response();
    }
    let answer = AssertUnwindSafe(next.run(request)).catch_unwind();
    let answered = if LONG.contains(&route) {
        answer.await
    } else {
        let time = app.settings.body_time + app.settings.answer_time;
        match tokio::time::timeout(time, answer).await {
            Ok(answered) => answered,
            Err(_) => {
                tracing::warn!("no answer from the store");
                let message = format!(
                    "no answer from the store within {}: the step may or may not have happened",
                    text::duration(time)
                );
                return Problem::from(Error::new(Code::UnknownOutcome, message)).into_response();
            }
        }
    };
    answered.unwrap_or_else(|_| {
        // The panic has printed itself; what it said may hold payloads and is not for the caller.
        tracing::error!("a handler panicked");
        let error = Error::new(
            Code::Internal,
            "the server failed to answer; its log says more",
        );
        Problem::from(error).into_response()
    })
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
fn check_origin(request: &Request) -> Result<(), Error> {
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
    use std::time::Duration;

    use auxo_core::{Limits, Service};
    use auxo_embedded::{Embedded, Options};
    use axum::Router;
    use axum::body::Body;
    use axum::middleware::from_fn_with_state;
    use axum::routing::get;
    use http_body_util::BodyExt;
    use hyper::service::Service as _;
    use hyper_util::service::TowerToHyperService;

    use super::*;
    use crate::settings::Settings;

    /// The answer to one request, from a server whose handlers misbehave.
    async fn answer(path: &str) -> (u16, serde_json::Value) {
        let dir = tempfile::tempdir().unwrap();
        let engine = Embedded::open(dir.path(), Options::default()).unwrap();
        let service = Arc::new(Service::new(Arc::new(engine), Limits::default()));
        let settings = Settings {
            body_time: Duration::ZERO,
            answer_time: Duration::from_millis(1),
            ..Settings::default()
        };
        let app = Arc::new(App::new(service, settings).unwrap());
        let router: Router = Router::new()
            .route("/panics", get(|| async { panic!("secret") as () }))
            .route("/hangs", get(std::future::pending::<()>))
            .layer(from_fn_with_state(app, observe));
        let request = Request::builder().uri(path).body(Body::empty()).unwrap();
        let response = TowerToHyperService::new(router)
            .call(request)
            .await
            .unwrap();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap())
    }

    #[tokio::test]
    async fn a_handler_that_panics_is_answered_as_a_failure_without_its_words() {
        let (status, body) = answer("/panics").await;
        assert_eq!((status, &body["code"]), (500, &"internal".into()));
        assert!(!body.to_string().contains("secret"), "{body}");
    }

    #[tokio::test]
    async fn a_store_that_does_not_answer_is_an_unknown_outcome() {
        let (status, body) = answer("/hangs").await;
        assert_eq!((status, &body["code"]), (504, &"unknown_outcome".into()));
    }
}
