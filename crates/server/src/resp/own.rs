//! Our own commands: the answers of the calls over HTTP, as RESP has them. Payloads, results and progress are bytes here, and never
//! base64.

use auxo_core::engine::{Action, Mode, Order, Target, Which};
use auxo_core::json::show;
use auxo_core::{Error, Job, JobId, QueueName, Result, refusal};
use auxo_wire::resp::Reply;
use bytes::Bytes;

use super::gather::shown;
use super::session::Session;

impl Session {
    /// Shows a job with its timeline.
    pub(super) async fn job(&self, which: Which) -> Result<Reply> {
        Ok(match self.app.service.find(which.clone()).await {
            Ok(Some(job)) => raw(shown(Ok(show::job(&job))), &job),
            Ok(None) => Reply::from(&missing(&which)),
            Err(error) => Reply::from(&error),
        })
    }

    /// Says why a job is not running.
    pub(super) async fn explain(&self, which: Which) -> Result<Reply> {
        let explanation = self.app.service.explain(which).await;
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
    pub(super) async fn kick(&self, id: JobId) -> Result<Reply> {
        Ok(self.move_one(id, Action::Kick).await)
    }

    /// Calls a job off.
    pub(super) async fn cancel(&self, id: JobId) -> Result<Reply> {
        Ok(self.move_one(id, Action::Cancel).await)
    }

    /// Makes an operator's move, and answers the state that the job is then in.
    async fn move_one(&self, id: JobId, action: Action) -> Reply {
        let order = Order {
            target: Target::Jobs(vec![id]),
            action,
            mode: Mode::Act,
        };
        let moved = match self.app.service.steer(order).await {
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

fn missing(which: &Which) -> Error {
    match which {
        Which::Id(id) => refusal::no_job(*id),
        Which::Key(queue, _) => {
            let text = format!("no job in queue {queue} has this key");
            Error::new(auxo_core::Code::NotFound, text)
        }
    }
}

/// A job as it is shown in JSON, with its bytes as they are.
pub(super) fn raw(reply: Reply, job: &Job) -> Reply {
    let Reply::Map(fields) = reply else {
        return reply;
    };
    let bytes = [
        ("payload", Some(&job.payload)),
        ("result", job.result.as_ref()),
        ("progress", job.progress.as_ref()),
    ];
    let is_bytes = |(name, _): &(Reply, Reply)| {
        let is_name = |text: &Bytes| {
            let name = text.strip_suffix(b"_base64").unwrap_or(text);
            let name = name.strip_suffix(b"_space").unwrap_or(name);
            bytes.iter().any(|(known, _)| known.as_bytes() == name)
        };
        matches!(name, Reply::Bulk(text) if is_name(text))
    };
    let others = fields.into_iter().filter(|field| !is_bytes(field));
    let there = bytes
        .into_iter()
        .filter_map(|(name, bytes)| Some((Reply::text(name), Reply::Bulk(bytes?.clone()))));
    Reply::Map(others.chain(there).collect())
}
