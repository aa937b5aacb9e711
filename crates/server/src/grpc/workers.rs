//! Jobs out, and back.

use std::collections::HashSet;

use auxo_core::Error;
use auxo_core::engine::Ask;
use auxo_core::job::Leased;
use auxo_proto::v1::workers_server::Workers;
use auxo_proto::{result, settles, v1};
use tonic::{Request, Streaming};

use super::lent::{Lent, before_deadline};
use super::outlet::{Streamed, first};
use super::{Api, Reply, caller, refused, whole, work};
use crate::calls::leases;

impl Api {
    /// An answer with leases, which go back if it is never sent.
    fn lent(&self, jobs: &[Leased]) -> Reply<v1::LeaseResponse> {
        let mut response = whole(v1::LeaseResponse { jobs: result(jobs) })?;
        let lent = Lent::new(&self.app, jobs);
        response.extensions_mut().insert(lent);
        Ok(response)
    }
}

#[tonic::async_trait]
impl Workers for Api {
    async fn lease(&self, request: Request<v1::LeaseRequest>) -> Reply<v1::LeaseResponse> {
        let caller = caller(&request)?;
        let (metadata, _, request) = request.into_parts();
        let ask = request.try_into().map_err(refused)?;
        let jobs = leases::lease(&self.app, &caller, ask);
        let jobs = before_deadline(&metadata, jobs).await.map_err(refused)?;
        self.lent(&jobs)
    }

    async fn take(
        &self,
        request: Request<Streaming<v1::LeaseRequest>>,
    ) -> Reply<v1::LeaseResponse> {
        let caller = caller(&request)?;
        let (metadata, _, mut inbound) = request.into_parts();
        let missing =
            || Error::bad_request("queues: the stream ended before it asked for anything");
        let first = first(&self.app, &mut inbound).await?.ok_or_else(missing);
        let ask = first.and_then(Ask::try_from).map_err(refused)?;
        let jobs = tokio::select! {
            biased;
            jobs = before_deadline(&metadata, leases::lease(&self.app, &caller, ask)) => jobs.map_err(refused)?,
            // Dropping the call gives back what it was about to return, so nothing is lent that is not told.
            more = inbound.message() => match more {
                Ok(Some(_)) => {
                    let error = Error::bad_request("queues: one request is taken, not two");
                    return Err(refused(error));
                }
                Ok(None) | Err(_) => Vec::new(),
            },
        };
        self.lent(&jobs)
    }

    async fn settle(&self, request: Request<v1::SettleRequest>) -> Reply<v1::SettleResponse> {
        let caller = caller(&request)?;
        let items = settles(request.into_inner().items);
        let answers = leases::settle(&self.app, &caller, items, &HashSet::new()).await;
        whole(v1::SettleResponse {
            results: result(&answers.map_err(refused)?),
        })
    }

    async fn extend(&self, request: Request<v1::ExtendRequest>) -> Reply<v1::ExtendResponse> {
        let caller = caller(&request)?;
        let items = settles(request.into_inner().items);
        let answers = leases::extend(&self.app, &caller, items, &HashSet::new()).await;
        whole(v1::ExtendResponse {
            results: result(&answers.map_err(refused)?),
        })
    }

    type WorkStream = Streamed<v1::WorkResponse>;

    async fn work(&self, request: Request<Streaming<v1::WorkRequest>>) -> Reply<Self::WorkStream> {
        let caller = caller(&request)?;
        let stream = work::begin(self.app.clone(), caller, request.into_inner());
        Ok(tonic::Response::new(stream))
    }
}
