//! Jobs in, and a look at those that are there.

use auxo_proto::v1::jobs_server::Jobs;
use auxo_proto::{pushes, query, result, v1, which};
use tonic::{Request, Streaming};

use super::outlet::Streamed;
use super::{Api, Reply, caller, push, refused, whole};
use crate::calls;

#[tonic::async_trait]
impl Jobs for Api {
    async fn push(&self, request: Request<v1::PushRequest>) -> Reply<v1::PushResponse> {
        let caller = caller(&request)?;
        let jobs = pushes(request.into_inner().jobs);
        let answers = calls::jobs::push(&self.app, &caller, jobs).await;
        let answers = answers.map_err(refused)?;
        whole(v1::PushResponse {
            results: result(&answers),
        })
    }

    type PushStreamStream = Streamed<v1::PushResponse>;

    async fn push_stream(
        &self,
        request: Request<Streaming<v1::PushRequest>>,
    ) -> Reply<Self::PushStreamStream> {
        let caller = caller(&request)?;
        let stream = push::stream(self.app.clone(), caller, request.into_inner());
        Ok(tonic::Response::new(stream))
    }

    async fn get(&self, request: Request<v1::GetJobRequest>) -> Reply<v1::Job> {
        let caller = caller(&request)?;
        let which = which(request.into_inner().which).map_err(refused)?;
        let job = calls::jobs::find(&self.app, &caller, which).await;
        self.bounded((&job.map_err(refused)?).into())
    }

    async fn explain(&self, request: Request<v1::ExplainRequest>) -> Reply<v1::Explanation> {
        let caller = caller(&request)?;
        let which = which(request.into_inner().which).map_err(refused)?;
        let explanation = calls::jobs::explain(&self.app, &caller, which).await;
        self.bounded((&explanation.map_err(refused)?).into())
    }

    async fn list(&self, request: Request<v1::ListJobsRequest>) -> Reply<v1::ListJobsResponse> {
        let caller = caller(&request)?;
        let asked = request.into_inner();
        let query = query(asked.filter, asked.cursor, asked.limit).map_err(refused)?;
        let page = calls::jobs::list(&self.app, &caller, query).await;
        self.bounded((&page.map_err(refused)?).into())
    }

    async fn steer(&self, request: Request<v1::SteerRequest>) -> Reply<v1::SteerResponse> {
        let caller = caller(&request)?;
        let order = request.into_inner().try_into().map_err(refused)?;
        let steered = calls::jobs::steer(&self.app, &caller, order).await;
        whole((&steered.map_err(refused)?).into())
    }
}
