//! Recurring jobs.

use auxo_core::engine::Change;
use auxo_core::schedule::Schedule;
use auxo_core::{Code, Error, Result};
use auxo_proto::v1::schedules_server::Schedules;
use auxo_proto::{result, schedule_change, v1};
use tonic::Request;

use super::{Api, Reply, refused, whole};

#[tonic::async_trait]
impl Schedules for Api {
    async fn list(&self, _: Request<v1::ListSchedulesRequest>) -> Reply<v1::ListSchedulesResponse> {
        let _turn = self.app.listing.lock().await;
        let catalog = self.app.service.catalog().await.map_err(refused)?;
        self.bounded(v1::ListSchedulesResponse {
            schedules: result(&catalog.schedules),
        })
    }

    async fn get(&self, request: Request<v1::GetScheduleRequest>) -> Reply<v1::Schedule> {
        let name = request.into_inner().name;
        let schedule = self.schedule(&name).await.map_err(refused)?;
        self.bounded((&schedule).into())
    }

    async fn put(&self, request: Request<v1::PutScheduleRequest>) -> Reply<v1::Schedule> {
        let change = schedule_change(request.into_inner()).map_err(refused)?;
        let name = match &change {
            Change::Schedule(schedule) | Change::Arm(schedule) => schedule.name.clone(),
            _ => String::new(),
        };
        self.app.service.change(change).await.map_err(refused)?;
        let schedule = self.schedule(&name).await.map_err(refused)?;
        whole((&schedule).into())
    }

    async fn delete(
        &self,
        request: Request<v1::DeleteScheduleRequest>,
    ) -> Reply<v1::DeleteScheduleResponse> {
        let change = request.into_inner().try_into().map_err(refused)?;
        self.app.service.change(change).await.map_err(refused)?;
        whole(v1::DeleteScheduleResponse {})
    }
}

impl Api {
    async fn schedule(&self, name: &str) -> Result<Schedule> {
        self.app.service.limits().check_name("name", name)?;
        let _turn = self.app.listing.lock().await;
        let catalog = self.app.service.catalog().await?;
        let found = catalog.schedules.into_iter().find(|one| one.name == name);
        found.ok_or_else(|| {
            let message = format!("there is no schedule {name:?}");
            Error::new(Code::NotFound, message)
        })
    }
}
