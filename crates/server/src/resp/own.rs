//! Our own commands: the answers of the calls over HTTP, as RESP has them. Payloads, results and progress are bytes here, and never
//! base64.

use auxo_core::engine::{Action, Mode, Order, Target, Which};
use auxo_core::json::show;
use auxo_core::{Job, JobId, QueueName, Result, refusal};
use auxo_wire::resp::Reply;
use bytes::Bytes;

use super::gather::shown;
use super::session::Session;
use crate::auth::Caller;
use crate::calls;

impl Session {
    /// Shows a job with its timeline.
    pub(super) async fn job(&self, which: Which, by: &Caller) -> Result<Reply> {
        Ok(match calls::jobs::find(&self.app, by, which).await {
            Ok(mut job) => {
                let contents = Contents::take(&mut job);
                contents.put(shown(Ok(show::job(&job))))
            }
            Err(error) => Reply::from(&error),
        })
    }

    /// Says why a job is not running.
    pub(super) async fn explain(&self, which: Which, by: &Caller) -> Result<Reply> {
        let explanation = calls::jobs::explain(&self.app, by, which).await;
        Ok(shown(explanation.map(|text| show::explanation(&text))))
    }

    /// Shows queues.
    pub(super) async fn queues(&self, names: Vec<QueueName>) -> Result<Reply> {
        let names = Some(names).filter(|names| !names.is_empty());
        let _alone = self.app.listing.lock().await;
        let queues = self.app.service.queues(names).await;
        Ok(shown(queues.map(|queues| {
            queues.iter().map(show::queue).collect::<Vec<_>>()
        })))
    }

    /// Makes a job ready.
    pub(super) async fn kick(&self, id: JobId, by: &Caller) -> Result<Reply> {
        Ok(self.move_one(id, Action::Kick, by).await)
    }

    /// Calls a job off.
    pub(super) async fn cancel(&self, id: JobId, by: &Caller) -> Result<Reply> {
        Ok(self.move_one(id, Action::Cancel, by).await)
    }

    /// Makes an operator's move, and answers the state that the job is then in.
    async fn move_one(&self, id: JobId, action: Action, by: &Caller) -> Reply {
        let order = Order {
            target: Target::Jobs(vec![id]),
            action,
            mode: Mode::Act,
        };
        let moved = match calls::jobs::steer(&self.app, by, order).await {
            Ok(mut steered) => steered
                .results
                .pop()
                .unwrap_or_else(|| Err(refusal::no_job(id))),
            Err(error) => Err(error),
        };
        match moved {
            Ok(state) => Reply::Status(state.as_str()),
            Err(error) => Reply::from(&error),
        }
    }
}

/// The bytes of a job, which are not shown as JSON here.
pub(super) struct Contents {
    payload: Bytes,
    result: Option<Bytes>,
    progress: Option<Bytes>,
}

impl Contents {
    /// Takes them out of a job.
    pub fn take(job: &mut Job) -> Contents {
        Contents {
            payload: std::mem::take(&mut job.payload),
            result: job.result.take(),
            progress: job.progress.take(),
        }
    }

    /// Puts them behind what is shown of the rest.
    pub fn put(self, shown: Reply) -> Reply {
        let Reply::Map(mut fields) = shown else {
            return shown;
        };
        let contents = [
            ("payload", Some(self.payload)),
            ("result", self.result),
            ("progress", self.progress),
        ];
        for (name, bytes) in contents {
            fields.extend(bytes.map(|bytes| (Reply::text(name), Reply::Bulk(bytes))));
        }
        Reply::Map(fields)
    }
}
