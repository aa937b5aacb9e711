//! Queues: how they stand, and how they are set.

use std::time::Duration;

use auxo_core::engine::Change;
use auxo_core::queue::{QueueConfig, QueueInfo};
use auxo_core::{Code, Error, QueueName, Result};
use auxo_proto::v1::queues_server::Queues;
use auxo_proto::{change_queue, result, side, v1};
use tonic::Request;

use super::{Api, Reply, refused, whole};

#[tonic::async_trait]
impl Queues for Api {
    async fn list(&self, request: Request<v1::ListQueuesRequest>) -> Reply<v1::ListQueuesResponse> {
        let names = request.into_inner().names;
        let names = match names.is_empty() {
            true => None,
            false => Some(named(&names).map_err(refused)?),
        };
        let _turn = match names {
            None => Some(self.app.listing.lock().await),
            Some(_) => None,
        };
        let queues = self.app.service.queues(names).await.map_err(refused)?;
        self.bounded(v1::ListQueuesResponse {
            queues: result(&queues),
        })
    }

    async fn get(&self, request: Request<v1::GetQueueRequest>) -> Reply<v1::Queue> {
        let queue = name(&request.into_inner().queue).map_err(refused)?;
        let info = self.existing(queue).await.map_err(refused)?;
        whole((&info).into())
    }

    async fn configure(&self, request: Request<v1::ConfigureQueueRequest>) -> Reply<v1::Queue> {
        let info = self.set(request.into_inner()).await.map_err(refused)?;
        whole((&info).into())
    }

    async fn pause(&self, request: Request<v1::PauseQueueRequest>) -> Reply<v1::Queue> {
        let asked = request.into_inner();
        let side = side(asked.side).map_err(refused)?;
        let pause = |config: &mut QueueConfig| match asked.for_ms {
            Some(span) => config.pause_for(side, Duration::from_millis(span)),
            None => {
                config.set_paused(side.unwrap_or_default(), true);
                Ok(())
            }
        };
        let info = self.change_part(&asked.queue, pause).await;
        whole((&info.map_err(refused)?).into())
    }

    async fn resume(&self, request: Request<v1::ResumeQueueRequest>) -> Reply<v1::Queue> {
        let asked = request.into_inner();
        let side = side(asked.side).map_err(refused)?.unwrap_or_default();
        let resume = |config: &mut QueueConfig| {
            config.set_paused(side, false);
            Ok(())
        };
        let info = self.change_part(&asked.queue, resume).await;
        whole((&info.map_err(refused)?).into())
    }

    async fn purge(
        &self,
        request: Request<v1::PurgeQueueRequest>,
    ) -> Reply<v1::PurgeQueueResponse> {
        let asked = request.into_inner();
        let queue = name(&asked.queue).map_err(refused)?;
        let states = asked.chosen().map_err(refused)?;
        let purged = self.app.service.purge(queue, states, |_| ()).await;
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

impl Api {
    async fn look(&self, queue: QueueName) -> Result<Option<QueueInfo>> {
        let found = self.app.service.queues(Some(vec![queue])).await?;
        Ok(found.into_iter().next())
    }

    async fn existing(&self, queue: QueueName) -> Result<QueueInfo> {
        let missing = format!("there is no queue {queue}");
        let found = self.look(queue).await?;
        found.ok_or_else(|| Error::new(Code::NotFound, missing))
    }

    async fn change(&self, queue: QueueName, config: QueueConfig) -> Result<QueueInfo> {
        let change = Change::Queue(queue.clone(), config);
        self.app.service.change(change).await?;
        self.existing(queue).await
    }

    async fn set(&self, asked: v1::ConfigureQueueRequest) -> Result<QueueInfo> {
        let queue = name(&asked.queue)?;
        let missing = || Error::bad_request("config: is missing");
        let new = asked.config.ok_or_else(missing)?.try_into()?;
        let _alone = self.app.changing.lock().await;
        let base = self.look(queue.clone()).await?;
        let base = base.map(|info| info.config).unwrap_or_default();
        let config = change_queue(base, new, &asked.only)?;
        self.change(queue, config).await
    }

    async fn change_part(
        &self,
        queue: &str,
        change: impl FnOnce(&mut QueueConfig) -> Result<()>,
    ) -> Result<QueueInfo> {
        let queue = name(queue)?;
        let _alone = self.app.changing.lock().await;
        let mut config = self.existing(queue.clone()).await?.config;
        change(&mut config)?;
        self.change(queue, config).await
    }
}
