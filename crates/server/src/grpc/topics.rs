//! Fan-out.

use auxo_core::Error;
use auxo_core::engine::Change;
use auxo_proto::v1::topics_server::Topics;
use auxo_proto::{result, v1};
use tonic::Request;

use super::{Api, Reply, refused, whole};

#[tonic::async_trait]
impl Topics for Api {
    async fn list(
        &self,
        _: Request<v1::ListSubscriptionsRequest>,
    ) -> Reply<v1::ListSubscriptionsResponse> {
        let _turn = self.app.listing.lock().await;
        let catalog = self.app.service.catalog().await.map_err(refused)?;
        self.bounded(v1::ListSubscriptionsResponse {
            subscriptions: result(&catalog.subscriptions),
        })
    }

    async fn subscribe(
        &self,
        request: Request<v1::SubscribeRequest>,
    ) -> Reply<v1::SubscribeResponse> {
        let missing = || Error::bad_request("subscription: is missing");
        let subscription = request.into_inner().subscription.ok_or_else(missing);
        let subscription = subscription.and_then(TryInto::try_into).map_err(refused)?;
        let change = Change::Subscribe(subscription);
        self.app.service.change(change).await.map_err(refused)?;
        whole(v1::SubscribeResponse {})
    }

    async fn unsubscribe(
        &self,
        request: Request<v1::UnsubscribeRequest>,
    ) -> Reply<v1::UnsubscribeResponse> {
        let asked = request.into_inner();
        let change = Change::Unsubscribe(asked.topic, asked.name);
        self.app.service.change(change).await.map_err(refused)?;
        whole(v1::UnsubscribeResponse {})
    }

    async fn publish(&self, request: Request<v1::PublishRequest>) -> Reply<v1::PublishResponse> {
        let message = request.into_inner().try_into().map_err(refused)?;
        let pushed = self.app.service.publish(message).await.map_err(refused)?;
        whole(v1::PublishResponse {
            jobs: result(&pushed),
        })
    }
}
