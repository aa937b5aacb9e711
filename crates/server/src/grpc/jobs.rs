//! Jobs in, and a look at those that are there.

use auxo_core::{Code, Error};
use auxo_proto::v1::jobs_server::Jobs;
use auxo_proto::{pushes, query, result, v1, which};
use tonic::{Request, Streaming};

use super::outlet::Streamed;
use super::{Api, Reply, push, refused, whole};

#[tonic::async_trait]
impl Jobs for Api {
    async fn push(&self, request: Request<v1::PushRequest>) -> Reply<v1::PushResponse> {
        let jobs = pushes(request.into_inner().jobs);
        let answers = self.app.service.push_each(jobs).await.map_err(refused)?;
        whole(v1::PushResponse {
            results: result(&answers),
        })
    }

    type PushStreamStream = Streamed<v1::PushResponse>;

    async fn push_stream(
        &self,
        request: Request<Streaming<v1::PushRequest>>,
    ) -> Reply<Self::PushStreamStream> {
        let stream = push::stream(self.app.clone(), request.into_inner());
        Ok(tonic::Response::new(stream))
    }

    async fn get(&self, request: Request<v1::GetJobRequest>) -> Reply<v1::Job> {
        let which = which(request.into_inner().which).map_err(refused)?;
        let found = self.app.service.find(which).await.map_err(refused)?;
        let missing = || Error::new(Code::NotFound, "there is no such job");
        let job = found.ok_or_else(missing).map_err(refused)?;
        self.bounded((&job).into())
    }

    async fn explain(&self, request: Request<v1::ExplainRequest>) -> Reply<v1::Explanation> {
        let which = which(request.into_inner().which).map_err(refused)?;
        let explanation = self.app.service.explain(which).await.map_err(refused)?;
        self.bounded((&explanation).into())
    }

    async fn list(&self, request: Request<v1::ListJobsRequest>) -> Reply<v1::ListJobsResponse> {
        let asked = request.into_inner();
        let query = query(asked.filter, asked.cursor, asked.limit).map_err(refused)?;
        let page = self.app.service.list(query).await.map_err(refused)?;
        self.bounded((&page).into())
    }

    async fn steer(&self, request: Request<v1::SteerRequest>) -> Reply<v1::SteerResponse> {
        let order = request.into_inner().try_into().map_err(refused)?;
        let steered = self.app.service.steer(order).await.map_err(refused)?;
        whole((&steered).into())
    }
}
