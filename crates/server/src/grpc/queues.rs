//! Queues: how they stand, and how they are set.

use std::time::Duration;

use auxo_core::queue::QueueConfig;
use auxo_core::{Error, QueueName, Result};
use auxo_proto::v1::queues_server::Queues;
use auxo_proto::{change_queue, forgotten, result, side, v1};
use tonic::Request;

use super::{Api, Reply, caller, refused, whole};
use crate::calls;

#[tonic::async_trait]
impl Queues for Api {
    async fn list(&self, request: Request<v1::ListQueuesRequest>) -> Reply<v1::ListQueuesResponse> {
        let caller = caller(&request)?;
        let names = request.into_inner().names;
        let names = match names.is_empty() {
            true => None,
            false => Some(named(&names).map_err(refused)?),
        };
        let listed = calls::queues::list(&self.app, &caller, names).await;
        let (list, books) = listed.map_err(refused)?;
        self.bounded(v1::ListQueuesResponse {
            queues: result(&list.queues),
            unavailable: result(&list.unavailable),
            forgotten: forgotten(&books),
        })
    }

    async fn get(&self, request: Request<v1::GetQueueRequest>) -> Reply<v1::Queue> {
        let caller = caller(&request)?;
        let queue = name(&request.into_inner().queue).map_err(refused)?;
        let info = calls::queues::show(&self.app, &caller, queue).await;
        whole((&info.map_err(refused)?).into())
    }

    async fn configure(&self, request: Request<v1::ConfigureQueueRequest>) -> Reply<v1::Queue> {
        let caller = caller(&request)?;
        let asked = request.into_inner();
        let queue = name(&asked.queue).map_err(refused)?;
        let change = |base| {
            let missing = || Error::bad_request("config: is missing");
            let new = asked.config.ok_or_else(missing)?.try_into()?;
            change_queue(base, new, &asked.only)
        };
        let info = calls::queues::set(&self.app, &caller, queue, change).await;
        whole((&info.map_err(refused)?).into())
    }

    async fn pause(&self, request: Request<v1::PauseQueueRequest>) -> Reply<v1::Queue> {
        let caller = caller(&request)?;
        let asked = request.into_inner();
        let queue = name(&asked.queue).map_err(refused)?;
        let side = side(asked.side).map_err(refused)?;
        let pause = |config: &mut QueueConfig| match asked.for_ms {
            Some(span) => config.pause_for(side, Duration::from_millis(span)),
            None => {
                config.set_paused(side.unwrap_or_default(), true);
                Ok(())
            }
        };
        let info = calls::queues::change(&self.app, &caller, "pause", queue, pause).await;
        whole((&info.map_err(refused)?).into())
    }

    async fn resume(&self, request: Request<v1::ResumeQueueRequest>) -> Reply<v1::Queue> {
        let caller = caller(&request)?;
        let asked = request.into_inner();
        let queue = name(&asked.queue).map_err(refused)?;
        let side = side(asked.side).map_err(refused)?.unwrap_or_default();
        let resume = |config: &mut QueueConfig| {
            config.set_paused(side, false);
            Ok(())
        };
        let info = calls::queues::change(&self.app, &caller, "resume", queue, resume).await;
        whole((&info.map_err(refused)?).into())
    }

    async fn purge(
        &self,
        request: Request<v1::PurgeQueueRequest>,
    ) -> Reply<v1::PurgeQueueResponse> {
        let caller = caller(&request)?;
        let asked = request.into_inner();
        let queue = name(&asked.queue).map_err(refused)?;
        let states = asked.chosen().map_err(refused)?;
        let purged = calls::queues::purge(&self.app, &caller, queue, states).await;
        whole(v1::PurgeQueueResponse {
            purged: purged.map_err(refused)?,
        })
    }
}

fn name(text: &str) -> Result<QueueName> {
    QueueName::new(text).map_err(|error| Error::bad_request(format!("queue: {}", error.message())))
}

fn named(names: &[String]) -> Result<Vec<QueueName>> {
    names.iter().map(|text| name(text)).collect()
}
