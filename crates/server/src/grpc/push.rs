//! Jobs in, one after the other: what has arrived together is kept in one step.

use std::sync::Arc;

use auxo_core::{Code, Error, Result, text};
use auxo_proto::{pushes, result, status_of, v1};
use futures_util::FutureExt;
use futures_util::stream::{self, StreamExt};
use tokio::time::timeout;
use tonic::{Status, Streaming};

use super::outlet::{Streamed, isolated};
use super::revoked;
use crate::app::App;
use crate::auth::Caller;
use crate::calls;

/// Bytes of payloads that are gathered into one step, unless a single message has more: 4 MiB.
const MOST_BYTES: usize = 4 << 20;

struct Pushing {
    app: Arc<App>,
    caller: Caller,
    inbound: Streaming<v1::PushRequest>,
    /// What was read and did not fit, or was no message.
    next: Option<Result<v1::PushRequest, Status>>,
}

/// Answers a stream of pushes.
pub fn stream(
    app: Arc<App>,
    caller: Caller,
    inbound: Streaming<v1::PushRequest>,
) -> Streamed<v1::PushResponse> {
    let pushing = Pushing {
        app,
        caller,
        inbound,
        next: None,
    };
    isolated(stream::try_unfold(pushing, |mut pushing| async move {
        let Some(jobs) = pushing.gather().await? else {
            return Ok(None);
        };
        let answer = pushing.push(jobs).await.map_err(|e| status_of(&e))?;
        Ok::<_, Status>(Some((answer, pushing)))
    }))
}

impl Pushing {
    /// The next message and all that have arrived with it, as far as they fit into one step. `None` at the end. It is one, too, when
    /// the server stops or the caller's token is no longer right: what was answered is kept, and the rest was not begun.
    async fn gather(&mut self) -> Result<Option<Vec<v1::NewJob>>, Status> {
        // A stream that is never quiet hears of it here.
        if !self.app.auth.is_current(self.caller.identity()) {
            return Err(revoked());
        }
        let first = match self.next.take() {
            Some(message) => Some(message?),
            None => tokio::select! {
                biased;
                message = self.inbound.message() => message?,
                () = self.app.stopped() => {
                    let message = "the server is stopping; what was answered is kept, nothing else";
                    return Err(status_of(&Error::new(Code::Unavailable, message)));
                }
                () = self.app.auth.revoked(self.caller.identity()) => return Err(revoked()),
            },
        };
        let Some(mut jobs) = first.map(|message| message.jobs) else {
            return Ok(None);
        };
        let most = self.app.service.limits().batch;
        let mut bytes = weight(&jobs);
        while jobs.len() < most && bytes < MOST_BYTES {
            let message = match self.inbound.next().now_or_never() {
                Some(Some(Ok(message))) => message,
                Some(Some(Err(status))) => {
                    self.next = Some(Err(status));
                    break;
                }
                // The end is found again by the next round.
                Some(None) | None => break,
            };
            let more = weight(&message.jobs);
            if jobs.len() + message.jobs.len() > most || bytes + more > MOST_BYTES {
                self.next = Some(Ok(message));
                break;
            }
            bytes += more;
            jobs.extend(message.jobs);
        }
        Ok(Some(jobs))
    }

    async fn push(&self, jobs: Vec<v1::NewJob>) -> Result<v1::PushResponse> {
        let time = self.app.settings.answer_time;
        let pushed = calls::jobs::push(&self.app, &self.caller, pushes(jobs));
        let answers = timeout(time, pushed).await.unwrap_or_else(|_| {
            let time = text::duration(time);
            let message =
                format!("no answer from the store within {time}: the jobs may or may not be kept");
            Err(Error::new(Code::UnknownOutcome, message))
        })?;
        Ok(v1::PushResponse {
            results: result(&answers),
        })
    }
}

fn weight(jobs: &[v1::NewJob]) -> usize {
    let payload = |job: &v1::NewJob| job.spec.as_ref().map_or(0, |spec| spec.payload.len());
    jobs.iter().map(payload).sum()
}
