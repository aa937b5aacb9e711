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
/// `{"missed": N}`; `"restarted": true` beside it means that events before a restart of the server, or while nobody watched, are not
/// counted. With `queue` the sequence and N count the events of that queue alone, and an id is good for this queue only.
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
    let start = start(&app, queue.as_ref(), &headers)?;
    let watcher = app.hub.watch(queue, start);
    let stream = told(app, caller.identity().clone(), watcher);
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

fn start(app: &App, queue: Option<&QueueName>, headers: &HeaderMap) -> Result<Start, Error> {
    let Some(id) = headers.get("last-event-id") else {
        return Ok(Start::Now);
    };
    let place = id.to_str().ok().and_then(|id| {
        let (run, sequence) = id.rsplit_once('-')?;
        Some((run, sequence.parse().ok()?))
    });
    match place {
        Some((run, sequence)) => Ok(app.hub.start(queue, run, sequence)),
        None => Err(Error::bad_request(
            "Last-Event-ID: is not the id of an event",
        )),
    }
}

struct Telling {
    app: Arc<App>,
    /// Who is told.
    to: Arc<Identity>,
    watcher: Watcher,
}

/// The events, until the server stops or the token of who is told is no longer right.
fn told(
    app: Arc<App>,
    to: Arc<Identity>,
    watcher: Watcher,
) -> impl Stream<Item = Result<Event, Infallible>> {
    let telling = Telling { app, to, watcher };
    stream::unfold(telling, |mut telling| async move {
        let told = tokio::select! {
            told = telling.watcher.next() => told,
            () = telling.app.stopped() => return None,
            () = telling.app.auth.revoked(&telling.to) => return None,
        };
        Some((Ok(event(&telling.watcher, &told)), telling))
    })
}

fn event(watcher: &Watcher, told: &Told) -> Event {
    let id = |sequence| format!("{}-{sequence}", watcher.run());
    match told {
        Told::Notice(notice) => Event::default()
            .id(id(notice.sequence))
            .event(notice.event.as_str())
            .data(show::notice(notice).to_string()),
        Told::Missed {
            count,
            until,
            restarted,
        } => {
            let mut data = json!({ "missed": count });
            if *restarted {
                data["restarted"] = true.into();
            }
            let event = Event::default().id(id(*until)).event("missed");
            event.data(data.to_string())
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
