//! What happens, as it happens.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use auxo_core::json::show;
use auxo_core::{Error, QueueName};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::CACHE_CONTROL;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream};
use serde_json::json;

use crate::app::App;
use crate::auth::{Caller, Identity};
use crate::events::{Start, Told, Watcher};
use crate::extract::Pairs;
use crate::problem::Answer;
use crate::schema;

/// How often a quiet stream shows that it lives.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Watch what happens to jobs, as server-sent events
///
/// Each event is named after what happened and carries `{sequence, at, queue, id, event, by?, note?}`. A client that comes
/// back with `Last-Event-ID` goes on from there. What it missed, or was too slow for, is told by an event `missed` with
/// `{"missed": N}`; N counts all queues, and `"restarted": true` beside it means that events before a restart of the server
/// are not counted.
#[utoipa::path(
    get, path = "/v1/events", tag = "observe",
    security((), ("token" = ["read:{?queue}"])),
    params(
        ("queue" = Option<String>, Query, description = "only of this queue"),
        ("Last-Event-ID" = Option<String>, Header, description = "the id of the last event that was seen"),
    ),
    responses((status = 200, description = "the events", body = schema::Told, content_type = "text/event-stream"))
)]
pub async fn events(
    State(app): State<Arc<App>>,
    caller: Caller,
    headers: HeaderMap,
    Pairs(pairs): Pairs,
) -> Answer<Response> {
    let queue = wanted(&pairs)?;
    caller.check_filter(queue.as_ref())?;
    let watcher = app.hub.watch(start(&app, &headers)?);
    let stream = told(app, caller.identity().clone(), watcher, queue);
    let sse = Sse::new(stream).keep_alive(KeepAlive::new().interval(HEARTBEAT));
    Ok(([(CACHE_CONTROL, "no-store")], sse).into_response())
}

fn wanted(pairs: &[(String, String)]) -> Result<Option<QueueName>, Error> {
    let mut queue = None;
    for (name, value) in pairs {
        match name.as_str() {
            "queue" if queue.is_some() => return Err(Error::bad_request("queue: is there twice")),
            // Without a value it counts as left out, as in a list of jobs.
            "queue" if value.is_empty() => {}
            "queue" => queue = Some(QueueName::new(value)?),
            _ => return Err(Error::bad_request("unknown parameter; known is queue")),
        }
    }
    Ok(queue)
}

fn start(app: &App, headers: &HeaderMap) -> Result<Start, Error> {
    let Some(id) = headers.get("last-event-id") else {
        return Ok(Start::Now);
    };
    let start = id.to_str().ok().and_then(|id| app.hub.start(id));
    start.ok_or_else(|| Error::bad_request("Last-Event-ID: is not the id of an event"))
}

struct Telling {
    app: Arc<App>,
    /// Who is told.
    to: Arc<Identity>,
    watcher: Watcher,
    queue: Option<QueueName>,
}

/// The events, until the server stops or the token of who is told is no longer right.
fn told(
    app: Arc<App>,
    to: Arc<Identity>,
    watcher: Watcher,
    queue: Option<QueueName>,
) -> impl Stream<Item = Result<Event, Infallible>> {
    let telling = Telling {
        app,
        to,
        watcher,
        queue,
    };
    stream::unfold(telling, |mut telling| async move {
        loop {
            let told = tokio::select! {
                told = telling.watcher.next() => told,
                () = telling.app.stopped() => return None,
                () = telling.app.auth.revoked(&telling.to) => return None,
            };
            if let Some(event) = event(&telling, &told) {
                return Some((Ok(event), telling));
            }
        }
    })
}

fn event(telling: &Telling, told: &Told) -> Option<Event> {
    let hub = &telling.app.hub;
    match told {
        Told::Notice(notice) => {
            let wanted = telling.queue.as_ref().is_none_or(|q| *q == notice.queue);
            wanted.then(|| {
                Event::default()
                    .id(hub.id(notice.sequence))
                    .event(notice.event.as_str())
                    .data(show::notice(notice).to_string())
            })
        }
        Told::Missed {
            count,
            until,
            restarted,
        } => {
            let mut data = json!({ "missed": count });
            if *restarted {
                data["restarted"] = true.into();
            }
            let event = Event::default().id(hub.id(*until)).event("missed");
            Some(event.data(data.to_string()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(query: &[(&str, &str)]) -> Result<Option<QueueName>, Error> {
        let pairs = query
            .iter()
            .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()));
        wanted(&pairs.collect::<Vec<_>>())
    }

    #[test]
    fn a_queue_without_a_name_means_every_queue() {
        assert_eq!(asked(&[]).unwrap(), None);
        assert_eq!(asked(&[("queue", "")]).unwrap(), None);
        let named = asked(&[("queue", "mail")]).unwrap();
        assert_eq!(named, Some(QueueName::new("mail").unwrap()));
        assert!(asked(&[("queue", "two words")]).is_err());
        assert!(asked(&[("queu", "")]).is_err());
    }
}
