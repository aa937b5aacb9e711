//! How the settings of queues, subscriptions and schedules lie in bytes.

use auxo_core::queue::{QueueConfig, Rate};
use auxo_core::schedule::{Missed, Rhythm, Schedule};
use auxo_core::topic::{Pattern, Subscription};
use auxo_core::{QueueName, When, job};

use super::job::{decode_backoff, encode_backoff};
use crate::codec::{Reader, Writer};

pub fn encode_config(config: &QueueConfig, w: &mut Writer) {
    w.u8(u8::from(config.paused_in)
        | u8::from(config.paused_out) << 1
        | u8::from(config.fair) << 2
        | u8::from(config.resumes_at().is_some()) << 3);
    w.option(&config.max_jobs, |w, n| w.u64(*n));
    w.option(&config.max_bytes, |w, n| w.u64(*n));
    w.option(&config.max_leased, |w, n| w.u32(*n));
    w.option(&config.rate, |w, rate| {
        w.u32(rate.count);
        w.span(rate.per);
        w.u32(rate.burst);
    });
    // Behind all others, and only if its flag says so: older files have neither.
    if let Some(until) = config.resumes_at() {
        w.u64(until.0);
    }
}

pub fn decode_config(r: &mut Reader) -> Option<QueueConfig> {
    let flags = r.u8()?;
    let mut config = QueueConfig {
        paused_in: flags & 1 != 0,
        paused_out: flags & 2 != 0,
        fair: flags & 4 != 0,
        // All are in one.
        shards: None,
        max_jobs: r.option(Reader::u64)?,
        max_bytes: r.option(Reader::u64)?,
        max_leased: r.option(Reader::u32)?,
        rate: r.option(|r| {
            Some(Rate {
                count: r.u32()?,
                per: r.span()?,
                burst: r.u32()?,
            })
        })?,
        paused_until: None,
    };
    if flags & 8 != 0 {
        config.paused_until = Some(When::At(r.time()?));
    }
    Some(config)
}

pub fn encode_subscription(subscription: &Subscription, w: &mut Writer) {
    w.text(&subscription.topic);
    w.text(&subscription.name);
    w.text(subscription.queue.as_str());
    w.option(&subscription.pattern, |w, pattern| w.text(pattern.as_str()));
}

pub fn decode_subscription(r: &mut Reader) -> Option<Subscription> {
    Some(Subscription {
        topic: r.text()?.into(),
        name: r.text()?.into(),
        queue: QueueName::new(r.text()?).ok()?,
        pattern: r.option(|r| Pattern::new(r.text()?).ok())?,
    })
}

pub fn encode_schedule(schedule: &Schedule, w: &mut Writer) {
    w.text(&schedule.name);
    w.text(schedule.queue.as_str());
    match &schedule.rhythm {
        Rhythm::Cron { expression, zone } => {
            w.u8(0);
            w.text(expression);
            w.text(zone);
        }
        Rhythm::Every(period) => {
            w.u8(1);
            w.span(*period);
        }
    }
    w.u8(match schedule.missed {
        Missed::Skip => 0,
        Missed::Once => 1,
        Missed::All => 2,
    });
    w.option(&schedule.next, |w, due| w.due(*due));
    w.option(&schedule.last, |w, at| w.u64(at.0));
    encode_spec(&schedule.spec, w);
}

pub fn decode_schedule(r: &mut Reader) -> Option<Schedule> {
    Some(Schedule {
        name: r.text()?.into(),
        queue: QueueName::new(r.text()?).ok()?,
        rhythm: match r.u8()? {
            0 => Rhythm::Cron {
                expression: r.text()?.into(),
                zone: r.text()?.into(),
            },
            1 => Rhythm::Every(r.span()?),
            _ => return None,
        },
        missed: *[Missed::Skip, Missed::Once, Missed::All].get(usize::from(r.u8()?))?,
        next: r.option(Reader::due)?,
        last: r.option(Reader::time)?,
        spec: decode_spec(r)?,
    })
}

/// A schedule's job is stored as what a client may say about a job; `when` plays no part in it.
fn encode_spec(spec: &job::JobSpec, w: &mut Writer) {
    w.text(&spec.kind);
    w.blob(&spec.payload);
    w.u32(spec.headers.len() as u32);
    for (name, value) in &spec.headers {
        w.text(name);
        w.text(value);
    }
    w.u32(spec.priority);
    w.span(spec.ttr);
    match spec.ttl {
        job::Ttl::None => w.u8(0),
        job::Ttl::After(span) => {
            w.u8(1);
            w.span(span);
        }
        job::Ttl::At(at) => {
            w.u8(2);
            w.u64(at.0);
        }
    }
    w.u32(spec.max_attempts);
    encode_backoff(&spec.backoff, w);
    w.option(&spec.key, |w, key| {
        w.text(&key.name);
        w.u8(key.on_duplicate as u8);
        w.span(key.window);
    });
    w.option(&spec.group, |w, group| w.text(group));
    w.span(spec.retention);
}

fn decode_spec(r: &mut Reader) -> Option<job::JobSpec> {
    use job::OnDuplicate::{Reject, Replace, Return};
    Some(job::JobSpec {
        kind: r.text()?.into(),
        payload: r.blob()?,
        headers: r
            .list(|r| Some((r.text()?.to_owned(), r.text()?.to_owned())))?
            .into_iter()
            .collect(),
        priority: r.u32()?,
        when: auxo_core::When::Now,
        ttr: r.span()?,
        ttl: match r.u8()? {
            0 => job::Ttl::None,
            1 => job::Ttl::After(r.span()?),
            2 => job::Ttl::At(r.time()?),
            _ => return None,
        },
        max_attempts: r.u32()?,
        backoff: decode_backoff(r)?,
        key: r.option(|r| {
            Some(job::Key {
                name: r.text()?.into(),
                on_duplicate: *[Reject, Return, Replace].get(usize::from(r.u8()?))?,
                window: r.span()?,
            })
        })?,
        group: r.option(|r| r.text().map(String::from))?,
        retention: r.span()?,
    })
}
