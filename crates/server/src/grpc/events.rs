//! What happens, as it happens.

use std::sync::Arc;
use std::time::Duration;

use auxo_core::{Error, QueueName};
use auxo_proto::v1;
use auxo_proto::v1::events_server::Events;
use auxo_proto::v1::watch_response::Gap;
use futures_util::{FutureExt, stream};
use tokio::time::timeout;
use tonic::{Request, Status};

use super::outlet::{Streamed, isolated};
use super::{Api, Reply, caller, refused, revoked};
use crate::app::App;
use crate::auth::Identity;
use crate::events::{Start, Told, Watcher};

/// How often a quiet stream shows that it lives.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// How many notices go in one message.
const MOST: usize = 256;

#[tonic::async_trait]
impl Events for Api {
    type WatchStream = Streamed<v1::WatchResponse>;

    async fn watch(&self, request: Request<v1::WatchRequest>) -> Reply<Self::WatchStream> {
        let caller = caller(&request)?;
        let asked = request.into_inner();
        let wrong = |error: Error| Error::bad_request(format!("queue: {}", error.message()));
        let queue = asked.queue.as_deref().map(QueueName::new).transpose();
        let queue = queue.map_err(wrong).map_err(refused)?;
        caller.check_filter(queue.as_ref()).map_err(refused)?;
        let start = match asked.run.as_str() {
            "" => Start::Now,
            run => self.app.hub.start(queue.as_ref(), run, asked.after),
        };
        let telling = Telling {
            to: caller.identity().clone(),
            watcher: self.app.hub.watch(queue, start),
            app: self.app.clone(),
            begun: false,
            held: None,
            until: asked.after,
        };
        let told = stream::try_unfold(telling, |mut telling| async move {
            let message = telling.next().await?;
            Ok::<_, Status>(message.map(|message| (message, telling)))
        });
        Ok(tonic::Response::new(isolated(told)))
    }
}

struct Telling {
    app: Arc<App>,
    /// Who is told.
    to: Arc<Identity>,
    watcher: Watcher,
    begun: bool,
    /// What did not go into the message before.
    held: Option<Told>,
    until: u64,
}

impl Telling {
    /// The next message, or the end when the server stops or the token of who is told is no longer right.
    async fn next(&mut self) -> Result<Option<v1::WatchResponse>, Status> {
        let mut message = v1::WatchResponse {
            run: self.watcher.run(),
            until: self.until,
            ..v1::WatchResponse::default()
        };
        // The first one says that the stream is open.
        if !std::mem::replace(&mut self.begun, true) {
            return Ok(Some(message));
        }
        let mut told = self.held.take();
        if told.is_none() {
            let next = tokio::select! {
                next = timeout(HEARTBEAT, self.watcher.next()) => next,
                () = self.app.stopped() => return Ok(None),
                () = self.app.auth.revoked(&self.to) => return Err(revoked()),
            };
            told = next.ok();
        }
        while let Some(one) = told.take() {
            // A gap stands before the notices of its message.
            if matches!(one, Told::Missed { .. }) && !message.notices.is_empty() {
                self.held = Some(one);
                break;
            }
            self.tell(&mut message, one);
            if message.notices.len() < MOST {
                told = self.watcher.next().now_or_never();
            }
        }
        self.until = message.until;
        Ok(Some(message))
    }

    fn tell(&self, message: &mut v1::WatchResponse, told: Told) {
        match told {
            Told::Notice(notice) => {
                message.until = notice.sequence;
                message.notices.push((&notice).into());
            }
            Told::Missed {
                count,
                until,
                restarted,
            } => {
                message.until = until;
                let gap = message.gap.get_or_insert_default();
                *gap = Gap {
                    missed: gap.missed + count,
                    restarted: gap.restarted || restarted,
                };
            }
        }
    }
}
