//! Which call a message is for.

use auxo_proto::v1;
use prost::Message;

/// A request with one answer.
pub(super) trait Method: Message + Default + Clone + 'static {
    type Answer: Message + Default + 'static;
    const PATH: &'static str;
}

macro_rules! methods {
    ($($request:ident => $answer:ident, $path:literal;)*) => {
        $(impl Method for v1::$request {
            type Answer = v1::$answer;
            const PATH: &'static str = $path;
        })*

        #[cfg(test)]
        const PATHS: &[&str] = &[$($path),*];
    };
}

methods! {
    PushRequest => PushResponse, "/auxo.v1.Jobs/Push";
    GetJobRequest => Job, "/auxo.v1.Jobs/Get";
    ExplainRequest => Explanation, "/auxo.v1.Jobs/Explain";
    ListJobsRequest => ListJobsResponse, "/auxo.v1.Jobs/List";
    SteerRequest => SteerResponse, "/auxo.v1.Jobs/Steer";
    LeaseRequest => LeaseResponse, "/auxo.v1.Workers/Take";
    SettleRequest => SettleResponse, "/auxo.v1.Workers/Settle";
    ExtendRequest => ExtendResponse, "/auxo.v1.Workers/Extend";
    ListQueuesRequest => ListQueuesResponse, "/auxo.v1.Queues/List";
    ConfigureQueueRequest => Queue, "/auxo.v1.Queues/Configure";
    ListSubscriptionsRequest => ListSubscriptionsResponse, "/auxo.v1.Topics/List";
    SubscribeRequest => SubscribeResponse, "/auxo.v1.Topics/Subscribe";
    UnsubscribeRequest => UnsubscribeResponse, "/auxo.v1.Topics/Unsubscribe";
    PublishRequest => PublishResponse, "/auxo.v1.Topics/Publish";
    ListSchedulesRequest => ListSchedulesResponse, "/auxo.v1.Schedules/List";
    PutScheduleRequest => Schedule, "/auxo.v1.Schedules/Put";
    DeleteScheduleRequest => DeleteScheduleResponse, "/auxo.v1.Schedules/Delete";
    AuditRequest => AuditResponse, "/auxo.v1.Stores/Audit";
    PassagesRequest => PassagesResponse, "/auxo.v1.Stores/Passages";
    DepartRequest => DepartResponse, "/auxo.v1.Stores/Depart";
    AdoptRequest => AdoptResponse, "/auxo.v1.Stores/Adopt";
}

#[cfg(test)]
mod tests {
    use super::PATHS;

    #[test]
    fn every_path_names_its_service_and_method() {
        for path in PATHS {
            let mut parts = path.rsplit('/');
            let (method, service) = (parts.next().unwrap(), parts.next().unwrap());
            let named = |text: &str| {
                auxo_proto::DESCRIPTOR
                    .windows(text.len())
                    .any(|bytes| bytes == text.as_bytes())
            };
            assert!(named(method), "{path}");
            assert!(named(service.rsplit('.').next().unwrap()), "{path}");
        }
    }
}
