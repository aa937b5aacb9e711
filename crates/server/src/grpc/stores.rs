//! The store as a whole.

use auxo_core::{Error, QueueName};
use auxo_proto::v1::stores_server::Stores;
use auxo_proto::{adoption, result, v1};
use tonic::Request;

use super::{Api, Reply, refused, whole};

#[tonic::async_trait]
impl Stores for Api {
    async fn audit(&self, _: Request<v1::AuditRequest>) -> Reply<v1::AuditResponse> {
        let audit = self.app.service.audit().await.map_err(refused)?;
        self.bounded((&audit).into())
    }

    async fn passages(&self, request: Request<v1::PassagesRequest>) -> Reply<v1::PassagesResponse> {
        let departure = request.into_inner().try_into().map_err(refused)?;
        let passages = self.app.service.passages(departure).await;
        self.bounded((&passages.map_err(refused)?).into())
    }

    async fn depart(&self, request: Request<v1::DepartRequest>) -> Reply<v1::DepartResponse> {
        let asked = request.into_inner();
        let wrong = |error: Error| Error::bad_request(format!("queue: {}", error.message()));
        let queue = QueueName::new(&asked.queue)
            .map_err(wrong)
            .map_err(refused)?;
        let jobs = asked.jobs.into_iter().map(Into::into).collect();
        let departed = self.app.service.depart(queue, jobs).await;
        whole(v1::DepartResponse {
            results: result(&departed.map_err(refused)?),
        })
    }

    async fn adopt(&self, request: Request<v1::AdoptRequest>) -> Reply<v1::AdoptResponse> {
        let adoption = adoption(request.into_inner()).map_err(refused)?;
        let adopted = self.app.service.adopt(adoption).await.map_err(refused)?;
        whole((&adopted).into())
    }
}
