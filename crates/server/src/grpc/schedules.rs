//! Recurring jobs.

use auxo_proto::v1::schedules_server::Schedules;
use auxo_proto::{result, schedule_change, v1};
use tonic::Request;

use super::{Api, Reply, caller, refused, whole};
use crate::calls;

#[tonic::async_trait]
impl Schedules for Api {
    async fn list(
        &self,
        request: Request<v1::ListSchedulesRequest>,
    ) -> Reply<v1::ListSchedulesResponse> {
        let caller = caller(&request)?;
        let schedules = calls::schedules::list(&self.app, &caller).await;
        self.bounded(v1::ListSchedulesResponse {
            schedules: result(&schedules.map_err(refused)?),
        })
    }

    async fn get(&self, request: Request<v1::GetScheduleRequest>) -> Reply<v1::Schedule> {
        let caller = caller(&request)?;
        let name = request.into_inner().name;
        let limits = self.app.service.limits();
        limits.check_name("name", &name).map_err(refused)?;
        let schedule = calls::schedules::find(&self.app, &caller, &name).await;
        self.bounded((&schedule.map_err(refused)?).into())
    }

    async fn put(&self, request: Request<v1::PutScheduleRequest>) -> Reply<v1::Schedule> {
        let caller = caller(&request)?;
        let change = schedule_change(request.into_inner()).map_err(refused)?;
        let schedule = calls::schedules::put(&self.app, &caller, change).await;
        whole((&schedule.map_err(refused)?).into())
    }

    async fn delete(
        &self,
        request: Request<v1::DeleteScheduleRequest>,
    ) -> Reply<v1::DeleteScheduleResponse> {
        let caller = caller(&request)?;
        let asked = request.into_inner();
        let name = asked.name.clone();
        let change = asked.try_into().map_err(refused)?;
        let deleted = calls::schedules::delete(&self.app, &caller, &name, change).await;
        deleted.map_err(refused)?;
        whole(v1::DeleteScheduleResponse {})
    }
}
