//! How the server is, as gRPC asks for it: `SERVING` while `/readyz` is good.

use std::time::Duration;

use auxo_core::{Code, Error};
use futures_util::stream;
use tokio::time::sleep;
use tonic::Request;
use tonic_health::pb;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::Health;

use super::outlet::{Streamed, isolated};
use super::{Api, Reply, refused, whole};

/// The services that can be asked for by their name; without a name the server as a whole is meant.
const NAMES: [&str; 8] = [
    "",
    "auxo.v1.Events",
    "auxo.v1.Jobs",
    "auxo.v1.Queues",
    "auxo.v1.Schedules",
    "auxo.v1.Stores",
    "auxo.v1.Topics",
    "auxo.v1.Workers",
];
/// How often somebody who watches is told of a change: nobody else tells when an engine fails.
const LOOK: Duration = Duration::from_secs(1);

#[tonic::async_trait]
impl Health for Api {
    async fn check(
        &self,
        request: Request<pb::HealthCheckRequest>,
    ) -> Reply<pb::HealthCheckResponse> {
        let name = request.into_inner().service;
        if !NAMES.contains(&name.as_str()) {
            let message = "service: there is no such service here";
            return Err(refused(Error::new(Code::NotFound, message)));
        }
        whole(self.state())
    }

    type WatchStream = Streamed<pb::HealthCheckResponse>;

    async fn watch(&self, request: Request<pb::HealthCheckRequest>) -> Reply<Self::WatchStream> {
        let is_known = NAMES.contains(&request.into_inner().service.as_str());
        let watching = (self.clone(), None);
        let told = stream::unfold(watching, move |(api, last)| async move {
            loop {
                let state = match is_known {
                    true => api.state(),
                    false => of(ServingStatus::ServiceUnknown),
                };
                if last.as_ref() != Some(&state) {
                    return Some((Ok(state), (api, Some(state))));
                }
                // Who was told that the server stops has heard everything.
                if api.app.is_stopping() {
                    return None;
                }
                tokio::select! {
                    () = sleep(LOOK) => {}
                    () = api.app.stopped() => {}
                }
            }
        });
        Ok(tonic::Response::new(isolated(told)))
    }
}

impl Api {
    fn state(&self) -> pb::HealthCheckResponse {
        let well = self.app.service.health().is_ok() && !self.app.is_stopping();
        of(match well {
            true => ServingStatus::Serving,
            false => ServingStatus::NotServing,
        })
    }
}

fn of(status: ServingStatus) -> pb::HealthCheckResponse {
    pb::HealthCheckResponse {
        status: status.into(),
    }
}
