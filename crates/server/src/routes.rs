//! Every route, one file per family. A route and its entry in the document are one registration: `routes!` takes both from
//! the handler.

mod audit;
mod bulk;
mod docs;
mod events;
mod health;
mod hot;
mod jobs;
mod lease;
mod nodes;
mod passage;
mod push;
mod queues;
mod schedules;
mod settle;
mod table;
mod topics;

use std::sync::Arc;

use auxo_core::{Code, Error};
use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::IntoResponse;
use serde::Serialize;
use serde_json::Value;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub use self::hot::Hot;
pub use self::table::{Known, Table};
use crate::app::App;
use crate::problem::{Answer, Problem};

/// All routes and what the document says of them.
pub fn api() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(push::push))
        .routes(routes!(lease::lease))
        .routes(routes!(settle::settle))
        .routes(routes!(settle::extend))
        .routes(routes!(jobs::list))
        .routes(routes!(jobs::show, jobs::delete))
        .routes(routes!(jobs::explain))
        .routes(routes!(jobs::show_key))
        .routes(routes!(jobs::explain_key))
        .routes(routes!(jobs::kick))
        .routes(routes!(jobs::cancel))
        .routes(routes!(jobs::reschedule))
        .routes(routes!(bulk::bulk))
        .routes(routes!(queues::list))
        .routes(routes!(queues::show, queues::set))
        .routes(routes!(queues::pause))
        .routes(routes!(queues::resume))
        .routes(routes!(queues::purge))
        .routes(routes!(passage::passages))
        .routes(routes!(passage::depart))
        .routes(routes!(passage::adopt))
        .routes(routes!(topics::list))
        .routes(routes!(topics::subscribe, topics::unsubscribe))
        .routes(routes!(topics::publish))
        .routes(routes!(schedules::list))
        .routes(routes!(schedules::show, schedules::set, schedules::delete))
        .routes(routes!(audit::audit))
        .routes(routes!(events::events))
        .routes(routes!(nodes::nodes))
        .routes(routes!(health::metrics))
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
        .routes(routes!(docs::openapi))
        .routes(routes!(docs::docs))
}

/// The routes, ready to be called.
pub fn router(app: Arc<App>) -> Router {
    let (router, _) = api().split_for_parts();
    router.fallback(unknown).with_state(app)
}

async fn unknown(method: Method) -> Problem {
    let message = format!(
        "there is nothing here for {}; /docs shows what there is",
        if method.as_str().len() > 10 {
            "that"
        } else {
            method.as_str()
        }
    );
    Error::new(Code::NotFound, message).into()
}

/// An answer in JSON.
fn json(status: StatusCode, body: &impl Serialize) -> Answer {
    let bytes = serde_json::to_vec(body).map_err(unwritable)?;
    let mut response = (status, bytes).into_response();
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    Ok(response)
}

/// A good answer in JSON.
fn ok(body: &impl Serialize) -> Answer {
    json(StatusCode::OK, body)
}

/// A good answer with a list of everything, written piece by piece: as a tree of values it would take twenty times its size.
fn listed(name: &str, items: impl Iterator<Item = impl Serialize>) -> Answer {
    listed_with(name, items, &[])
}

/// The same with more fields behind the list.
fn listed_with(
    name: &str,
    items: impl Iterator<Item = impl Serialize>,
    more: &[(&str, Value)],
) -> Answer {
    let mut text = format!("{{\"{name}\":[").into_bytes();
    for (i, item) in items.enumerate() {
        if i > 0 {
            text.push(b',');
        }
        serde_json::to_writer(&mut text, &item).map_err(unwritable)?;
    }
    text.push(b']');
    for (name, value) in more {
        text.extend(format!(",\"{name}\":{value}").into_bytes());
    }
    text.push(b'}');
    let kind = HeaderValue::from_static("application/json");
    Ok(([(CONTENT_TYPE, kind)], text).into_response())
}

fn unwritable(error: serde_json::Error) -> Error {
    let message = format!("the answer cannot be written: {error}");
    Error::new(Code::Internal, message)
}

/// The only answer to a call about one thing.
fn single<T>(mut answers: Vec<auxo_core::Result<T>>) -> auxo_core::Result<T> {
    match (answers.pop(), answers.is_empty()) {
        (Some(answer), true) => answer,
        _ => Err(Error::new(
            Code::Internal,
            "the engine did not give one answer to one item",
        )),
    }
}
