//! gRPC: messages, and the values that they stand for.

use std::fmt::Debug;

use auxo_core::engine::{
    Ask, Audit, Extend, Extended, Filter, Message as Published, Order, Page, Pushed, Settle,
    Settled, Steered,
};
use auxo_core::event::Notice;
use auxo_core::explain::Explanation;
use auxo_core::job::{Backoff, Leased};
use auxo_core::json::read;
use auxo_core::passage::{Adopted, Departure, Passage, Passages};
use auxo_core::queue::{QueueConfig, QueueInfo};
use auxo_core::schedule::Schedule;
use auxo_core::topic::Subscription;
use auxo_core::{Error, Job, JobSpec, NewJob, Result};
use auxo_proto::v1;
use prost::Message;

use crate::{refusal, room};

/// Takes bytes for one of the messages.
pub fn check(which: u8, bytes: &[u8]) {
    let all = [
        values::<v1::JobSpec, JobSpec>,
        values::<v1::Backoff, Backoff>,
        values::<v1::LeaseRequest, Ask>,
        values::<v1::Leased, Leased>,
        values::<v1::Settle, Settle>,
        values::<v1::Settled, Settled>,
        values::<v1::SettleResult, Result<Settled>>,
        values::<v1::Extend, Extend>,
        values::<v1::Extended, Extended>,
        values::<v1::ExtendResult, Result<Extended>>,
        values::<v1::Pushed, Pushed>,
        values::<v1::PushResult, Result<Pushed>>,
        values::<v1::Job, Job>,
        values::<v1::Notice, Notice>,
        values::<v1::Explanation, Explanation>,
        values::<v1::Filter, Filter>,
        values::<v1::ListJobsResponse, Page>,
        values::<v1::SteerRequest, Order>,
        values::<v1::SteerResponse, Steered>,
        values::<v1::QueueConfig, QueueConfig>,
        values::<v1::Queue, QueueInfo>,
        values::<v1::Subscription, Subscription>,
        values::<v1::PublishRequest, Published>,
        values::<v1::Schedule, Schedule>,
        values::<v1::Passage, Passage>,
        values::<v1::PassagesRequest, Departure>,
        values::<v1::PassagesResponse, Passages>,
        values::<v1::AuditResponse, Audit>,
        values::<v1::AdoptResponse, Adopted>,
        requests,
    ];
    all[usize::from(which) % all.len()](bytes);
}

/// A message as it arrives, in no more room than it may take.
fn decode<M: Message + Default>(bytes: &[u8]) -> Option<M> {
    room::within(600 * bytes.len() + (64 << 10), || M::decode(bytes).ok())
}

/// A message that stands for a value stands for the same one when it is written again; any other is refused.
fn values<M, T>(bytes: &[u8])
where
    M: Message + Default + for<'a> From<&'a T>,
    T: TryFrom<M, Error = Error> + Debug,
{
    let Some(message) = decode::<M>(bytes) else {
        return;
    };
    match T::try_from(message) {
        Ok(value) => again::<M, T>(&value),
        Err(error) => refusal::check(&error),
    }
}

fn again<M, T>(value: &T)
where
    M: Message + Default + for<'a> From<&'a T>,
    T: TryFrom<M, Error = Error> + Debug,
{
    let written = M::from(value).encode_to_vec();
    let message = M::decode(&written[..]).expect("what was encoded");
    let twice = T::try_from(message).expect("what was written");
    assert_eq!(format!("{value:?}"), format!("{twice:?}"));
}

/// Those that no value stands for by itself.
fn requests(bytes: &[u8]) {
    let refused = |error: Option<Error>| {
        if let Some(error) = error {
            refusal::check(&error);
        }
    };
    if let Some(message) = decode::<v1::PushRequest>(bytes) {
        for job in auxo_proto::pushes(message.jobs) {
            match job {
                Ok(NewJob { spec, .. }) => again::<v1::JobSpec, JobSpec>(&spec),
                Err(error) => refusal::check(&error),
            }
        }
    }
    if let Some(message) = decode::<v1::ListJobsRequest>(bytes) {
        refused(auxo_proto::query(message.filter, message.cursor, message.limit).err());
    }
    if let Some(message) = decode::<v1::GetJobRequest>(bytes) {
        refused(auxo_proto::which(message.which).err());
    }
    if let Some(message) = decode::<v1::PutScheduleRequest>(bytes) {
        refused(auxo_proto::schedule_change(message).err());
    }
    if let Some(message) = decode::<v1::AdoptRequest>(bytes) {
        refused(auxo_proto::adoption(message).err());
    }
    if let Some(message) = decode::<v1::PurgeQueueRequest>(bytes) {
        refused(message.chosen().err());
    }
    let _ = (
        decode::<v1::WorkRequest>(bytes),
        decode::<v1::WorkResponse>(bytes),
        decode::<v1::WatchResponse>(bytes),
    );
}

/// What JSON can say gRPC can say as well.
pub fn same_as_json(body: &[u8]) {
    if let Ok(spec) = read::push(body) {
        again::<v1::JobSpec, JobSpec>(&spec);
    }
    if let Ok(ask) = read::ask(body) {
        again::<v1::LeaseRequest, Ask>(&ask);
    }
    if let Ok(order) = read::order(body) {
        again::<v1::SteerRequest, Order>(&order);
    }
    if let Ok(config) = read::queue_config(body, QueueConfig::default()) {
        again::<v1::QueueConfig, QueueConfig>(&config);
    }
    if let Ok(schedule) = read::schedule("s", body) {
        again::<v1::Schedule, Schedule>(&schedule);
    }
    if let Ok(job) = auxo_core::json::parse::job(body) {
        // gRPC refuses what no calendar has; JSON passes it on as it was shown.
        let message = v1::Job::from(&job);
        if Job::try_from(message).is_ok() {
            again::<v1::Job, Job>(&job);
        }
    }
}
