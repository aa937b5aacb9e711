//! The store as a whole.

use auxo_core::{Error, QueueName};
use auxo_proto::v1::stores_server::Stores;
use auxo_proto::{adoption, result, v1};
use tonic::Request;

use super::{Api, Reply, caller, refused, whole};
use crate::calls;

#[tonic::async_trait]
impl Stores for Api {
    async fn audit(&self, request: Request<v1::AuditRequest>) -> Reply<v1::AuditResponse> {
        let caller = caller(&request)?;
        let audit = calls::stores::audit(&self.app, &caller).await;
        let audit = audit.map_err(refused)?;
        self.bounded((&audit).into())
    }

    async fn passages(&self, request: Request<v1::PassagesRequest>) -> Reply<v1::PassagesResponse> {
        let caller = caller(&request)?;
        let departure = request.into_inner().try_into().map_err(refused)?;
        let passages = calls::stores::passages(&self.app, &caller, departure).await;
        self.bounded((&passages.map_err(refused)?).into())
    }

    async fn depart(&self, request: Request<v1::DepartRequest>) -> Reply<v1::DepartResponse> {
        let caller = caller(&request)?;
        let asked = request.into_inner();
        let wrong = |error: Error| Error::bad_request(format!("queue: {}", error.message()));
        let queue = QueueName::new(&asked.queue)
            .map_err(wrong)
            .map_err(refused)?;
        let jobs = asked.jobs.into_iter().map(Into::into).collect();
        let departed = calls::stores::depart(&self.app, &caller, queue, jobs).await;
        whole(v1::DepartResponse {
            results: result(&departed.map_err(refused)?),
        })
    }

    async fn adopt(&self, request: Request<v1::AdoptRequest>) -> Reply<v1::AdoptResponse> {
        let caller = caller(&request)?;
        let adoption = adoption(request.into_inner()).map_err(refused)?;
        let adopted = calls::stores::adopt(&self.app, &caller, adoption).await;
        whole((&adopted.map_err(refused)?).into())
    }
}
