//! Jobs out, and back.

use auxo_core::engine::{Ask, Extend, Settle};
use auxo_core::job::Leased;
use auxo_core::{Code, Error, Result};
use auxo_proto::v1::workers_server::Workers;
use auxo_proto::{result, settles, v1};
use tonic::{Request, Streaming};

use super::outlet::{Streamed, first};
use super::{Api, Reply, refused, whole, work};
use crate::app::App;

#[tonic::async_trait]
impl Workers for Api {
    async fn lease(&self, request: Request<v1::LeaseRequest>) -> Reply<v1::LeaseResponse> {
        let ask = request.into_inner().try_into().map_err(refused)?;
        let jobs = lease(&self.app, ask).await.map_err(refused)?;
        whole(v1::LeaseResponse {
            jobs: result(&jobs),
        })
    }

    async fn take(
        &self,
        request: Request<Streaming<v1::LeaseRequest>>,
    ) -> Reply<v1::LeaseResponse> {
        let mut inbound = request.into_inner();
        let missing =
            || Error::bad_request("queues: the stream ended before it asked for anything");
        let first = first(&self.app, &mut inbound).await?.ok_or_else(missing);
        let ask = first.and_then(Ask::try_from).map_err(refused)?;
        let jobs = tokio::select! {
            biased;
            jobs = lease(&self.app, ask) => jobs.map_err(refused)?,
            // Dropping the call gives back what it was about to return, so nothing is lent that is not told.
            more = inbound.message() => match more {
                Ok(Some(_)) => {
                    let error = Error::bad_request("queues: one request is taken, not two");
                    return Err(refused(error));
                }
                Ok(None) | Err(_) => Vec::new(),
            },
        };
        whole(v1::LeaseResponse {
            jobs: result(&jobs),
        })
    }

    async fn settle(&self, request: Request<v1::SettleRequest>) -> Reply<v1::SettleResponse> {
        let items: Vec<Result<Settle>> = settles(request.into_inner().items);
        let answers = self.app.service.settle_each(items).await.map_err(refused)?;
        whole(v1::SettleResponse {
            results: result(&answers),
        })
    }

    async fn extend(&self, request: Request<v1::ExtendRequest>) -> Reply<v1::ExtendResponse> {
        let items: Vec<Result<Extend>> = settles(request.into_inner().items);
        let answers = self.app.service.extend_each(items).await.map_err(refused)?;
        whole(v1::ExtendResponse {
            results: result(&answers),
        })
    }

    type WorkStream = Streamed<v1::WorkResponse>;

    async fn work(&self, request: Request<Streaming<v1::WorkRequest>>) -> Reply<Self::WorkStream> {
        let stream = work::begin(self.app.clone(), request.into_inner());
        Ok(tonic::Response::new(stream))
    }
}

/// Lends jobs, or waits for some until the server stops.
async fn lease(app: &App, ask: Ask) -> Result<Vec<Leased>> {
    let _room = room_for_names(app, ask.queues.len())?;
    tokio::select! {
        biased;
        jobs = app.service.lease(ask) => jobs,
        () = app.stopped() => Ok(Vec::new()),
    }
}

/// Room for the names of a call that may wait.
pub(super) fn room_for_names(app: &App, names: usize) -> Result<tokio::sync::OwnedSemaphorePermit> {
    let names = u32::try_from(names).unwrap_or(u32::MAX);
    let room = app.names.clone().try_acquire_many_owned(names);
    room.map_err(|_| {
        let message = "too many calls wait in too many queues; name fewer, or try again";
        Error::new(Code::Unavailable, message)
    })
}
