//! Fan-out.

use auxo_core::Error;
use auxo_proto::v1::topics_server::Topics;
use auxo_proto::{result, v1};
use tonic::Request;

use super::{Api, Reply, caller, refused, whole};
use crate::calls;

#[tonic::async_trait]
impl Topics for Api {
    async fn list(
        &self,
        request: Request<v1::ListSubscriptionsRequest>,
    ) -> Reply<v1::ListSubscriptionsResponse> {
        let caller = caller(&request)?;
        let subscriptions = calls::topics::list(&self.app, &caller).await;
        self.bounded(v1::ListSubscriptionsResponse {
            subscriptions: result(&subscriptions.map_err(refused)?),
        })
    }

    async fn subscribe(
        &self,
        request: Request<v1::SubscribeRequest>,
    ) -> Reply<v1::SubscribeResponse> {
        let caller = caller(&request)?;
        let missing = || Error::bad_request("subscription: is missing");
        let subscription = request.into_inner().subscription.ok_or_else(missing);
        let subscription = subscription.and_then(TryInto::try_into).map_err(refused)?;
        let subscribed = calls::topics::subscribe(&self.app, &caller, subscription).await;
        subscribed.map_err(refused)?;
        whole(v1::SubscribeResponse {})
    }

    async fn unsubscribe(
        &self,
        request: Request<v1::UnsubscribeRequest>,
    ) -> Reply<v1::UnsubscribeResponse> {
        let caller = caller(&request)?;
        let v1::UnsubscribeRequest { topic, name } = request.into_inner();
        let removed = calls::topics::unsubscribe(&self.app, &caller, topic, name).await;
        removed.map_err(refused)?;
        whole(v1::UnsubscribeResponse {})
    }

    async fn publish(&self, request: Request<v1::PublishRequest>) -> Reply<v1::PublishResponse> {
        let caller = caller(&request)?;
        let message = request.into_inner().try_into().map_err(refused)?;
        let pushed = calls::topics::publish(&self.app, &caller, message).await;
        whole(v1::PublishResponse {
            jobs: result(&pushed.map_err(refused)?),
        })
    }
}
