//! What is to be set up, and messages for topics.

use serde::Serialize;
use serde_json::{Value, json};

use super::super::show::SpecOut;
use super::spec_out;
use crate::engine::Message;
use crate::queue::{QueueConfig, Rate};
use crate::schedule::{Rhythm, Schedule};
use crate::text;
use crate::time::When;
use crate::topic::Subscription;

/// All settings of a queue. What is not limited is `null`, so that nothing stays as it was.
pub fn queue_config(config: &QueueConfig) -> Value {
    let rate = |rate: Rate| json!({ "count": rate.count, "per": text::duration(rate.per), "burst": rate.burst });
    json!({
        "paused_in": config.paused_in,
        "paused_out": config.paused_out,
        "paused_until": config.resumes_at().map(|until| until.to_string()),
        "paused_for": match config.paused_until {
            Some(When::After(span)) => Some(text::duration(span)),
            _ => None,
        },
        "max_jobs": config.max_jobs,
        "max_bytes": config.max_bytes,
        "max_leased": config.max_leased,
        "rate": config.rate.map(rate),
        "fair": config.fair,
        "shards": config.shards,
    })
}

/// The body of a subscription.
pub fn subscription(subscription: &Subscription) -> Value {
    let pattern = subscription.pattern.as_ref().map(|p| p.as_str());
    json!({ "queue": subscription.queue.as_str(), "pattern": pattern })
}

#[derive(Serialize)]
struct ScheduleOut<'a> {
    queue: &'a str,
    cron: Option<&'a str>,
    zone: Option<&'a str>,
    every: Option<String>,
    missed: &'static str,
    job: SpecOut<'a>,
}

/// The body of a schedule.
pub fn schedule(schedule: &Schedule) -> impl Serialize {
    let (cron, zone, every) = match &schedule.rhythm {
        Rhythm::Cron { expression, zone } => (Some(expression.as_str()), Some(zone.as_str()), None),
        Rhythm::Every(period) => (None, None, Some(text::duration(*period))),
    };
    ScheduleOut {
        queue: schedule.queue.as_str(),
        cron,
        zone,
        every,
        missed: schedule.missed.as_str(),
        job: spec_out(&schedule.spec),
    }
}

/// The body of a schedule that goes on with its ticks.
pub fn armed(armed: &Schedule) -> impl Serialize {
    #[derive(Serialize)]
    struct Out<S> {
        #[serde(flatten)]
        schedule: S,
        armed: Value,
    }
    let next = armed.next.map(|due| due.at.to_string());
    let last = armed.last.map(|at| at.to_string());
    Out {
        schedule: schedule(armed),
        armed: json!({ "next": next, "last": last }),
    }
}

/// The body of a message.
pub fn message(message: &Message) -> impl Serialize {
    #[derive(Serialize)]
    struct Out<'a> {
        routing_key: Option<&'a str>,
        #[serde(flatten)]
        spec: SpecOut<'a>,
    }
    Out {
        routing_key: message.routing_key.as_deref(),
        spec: spec_out(&message.spec),
    }
}
