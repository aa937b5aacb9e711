//! What is set up: queues, topics and schedules.

use auxo_core::engine::{Change, Message, Outage};
use auxo_core::queue::{Books, Counts, QueueConfig, QueueInfo, Rate, Side};
use auxo_core::schedule::{Missed, Rhythm, Schedule};
use auxo_core::time::Due;
use auxo_core::topic::{Pattern, Subscription};
use auxo_core::{Error, Result, Timestamp, When};

use crate::v1;
use crate::value::{at, choice, instant_if, ms, need, queue, span, within, wrong};

impl From<&QueueConfig> for v1::QueueConfig {
    fn from(config: &QueueConfig) -> v1::QueueConfig {
        v1::QueueConfig {
            paused_in: config.paused_in,
            paused_out: config.paused_out,
            max_jobs: config.max_jobs,
            max_bytes: config.max_bytes,
            max_leased: config.max_leased,
            rate: config.rate.map(|rate| v1::Rate {
                count: rate.count,
                per_ms: Some(ms(rate.per)),
                burst: Some(rate.burst),
            }),
            fair: config.fair,
            shards: config.shards.map(u32::from),
            paused_until_ms: at(config.resumes_at()),
            paused_for_ms: match config.paused_until {
                Some(When::After(span)) => Some(ms(span)),
                _ => None,
            },
        }
    }
}

impl TryFrom<v1::QueueConfig> for QueueConfig {
    type Error = Error;

    fn try_from(config: v1::QueueConfig) -> Result<QueueConfig> {
        let shards = config.shards.map(u16::try_from).transpose();
        let until = instant_if("config.paused_until_ms", config.paused_until_ms)?;
        let paused_until = match (until, config.paused_for_ms.map(span)) {
            (Some(_), Some(_)) => {
                let problem = "stands beside paused_until_ms";
                return Err(wrong("config.paused_for_ms", problem));
            }
            (until, span) => until.map(When::At).or(span.map(When::After)),
        };
        Ok(QueueConfig {
            paused_in: config.paused_in,
            paused_out: config.paused_out,
            paused_until,
            max_jobs: config.max_jobs,
            max_bytes: config.max_bytes,
            max_leased: config.max_leased,
            rate: config.rate.map(|rate| Rate {
                count: rate.count,
                per: span(rate.per_ms.unwrap_or(1000)),
                burst: rate.burst.unwrap_or(rate.count),
            }),
            fair: config.fair,
            shards: shards.map_err(|_| wrong("config.shards", "is over 65535"))?,
        })
    }
}

/// The settings `base` with those of `new` that `only` names, or with all of them.
pub fn change_queue(base: QueueConfig, new: QueueConfig, only: &[String]) -> Result<QueueConfig> {
    if only.is_empty() {
        return Ok(new);
    }
    let mut config = base;
    for name in only {
        match name.as_str() {
            "paused_in" => config.paused_in = new.paused_in,
            "paused_out" => config.paused_out = new.paused_out,
            "paused_until_ms" | "paused_for_ms" => config.paused_until = new.paused_until,
            "max_jobs" => config.max_jobs = new.max_jobs,
            "max_bytes" => config.max_bytes = new.max_bytes,
            "max_leased" => config.max_leased = new.max_leased,
            "rate" => config.rate = new.rate,
            "fair" => config.fair = new.fair,
            "shards" => config.shards = new.shards,
            _ => {
                return Err(wrong(
                    "only",
                    "names a field that config does not have; it has paused_in, paused_out, max_jobs, max_bytes, max_leased, \
                     rate, fair and shards",
                ));
            }
        }
    }
    Ok(config)
}

/// Which way is meant; nothing was said of it if `None`.
pub fn side(number: i32) -> Result<Option<Side>> {
    Ok(match choice("side", number)? {
        v1::Side::Unspecified => None,
        v1::Side::In => Some(Side::In),
        v1::Side::Out => Some(Side::Out),
    })
}

impl From<&Books> for v1::Books {
    fn from(books: &Books) -> v1::Books {
        v1::Books {
            accepted: books.accepted,
            live: books.live,
            done: books.done,
            dead: books.dead,
            expired: books.expired,
            cancelled: books.cancelled,
            deleted: books.deleted,
        }
    }
}

impl From<v1::Books> for Books {
    fn from(books: v1::Books) -> Books {
        Books {
            accepted: books.accepted,
            live: books.live,
            done: books.done,
            dead: books.dead,
            expired: books.expired,
            cancelled: books.cancelled,
            deleted: books.deleted,
        }
    }
}

impl From<&Outage> for v1::Outage {
    fn from(outage: &Outage) -> v1::Outage {
        v1::Outage {
            part: outage.part.clone(),
            why: outage.why.clone(),
        }
    }
}

impl From<&v1::Outage> for Outage {
    fn from(outage: &v1::Outage) -> Outage {
        Outage {
            part: outage.part.clone(),
            why: outage.why.clone(),
        }
    }
}

impl From<&QueueInfo> for v1::Queue {
    fn from(info: &QueueInfo) -> v1::Queue {
        let counts = &info.counts;
        v1::Queue {
            name: info.name.to_string(),
            config: Some((&info.config).into()),
            counts: Some(v1::Counts {
                scheduled: counts.scheduled,
                ready: counts.ready,
                leased: counts.leased,
                dead: counts.dead,
                done: counts.done,
            }),
            bytes: info.bytes,
            books: Some((&info.books).into()),
            waiting: info.waiting,
            last_asked_at_ms: at(info.last_asked),
            next_due_at_ms: at(info.next_due),
            rate_wait_until_ms: at(info.rate_wait),
        }
    }
}

impl TryFrom<v1::Queue> for QueueInfo {
    type Error = Error;

    fn try_from(info: v1::Queue) -> Result<QueueInfo> {
        let counts = info.counts.unwrap_or_default();
        Ok(QueueInfo {
            name: queue("name", &info.name)?,
            config: info.config.unwrap_or_default().try_into()?,
            counts: Counts {
                scheduled: counts.scheduled,
                ready: counts.ready,
                leased: counts.leased,
                dead: counts.dead,
                done: counts.done,
            },
            bytes: info.bytes,
            books: info.books.unwrap_or_default().into(),
            waiting: info.waiting,
            last_asked: info.last_asked_at_ms.map(Timestamp),
            next_due: info.next_due_at_ms.map(Timestamp),
            rate_wait: info.rate_wait_until_ms.map(Timestamp),
        })
    }
}

impl From<&Subscription> for v1::Subscription {
    fn from(subscription: &Subscription) -> v1::Subscription {
        let pattern = subscription.pattern.as_ref();
        v1::Subscription {
            topic: subscription.topic.clone(),
            name: subscription.name.clone(),
            queue: subscription.queue.to_string(),
            pattern: pattern.map(|pattern| pattern.as_str().to_owned()),
        }
    }
}

impl TryFrom<v1::Subscription> for Subscription {
    type Error = Error;

    fn try_from(subscription: v1::Subscription) -> Result<Subscription> {
        let pattern = subscription.pattern.map(|text| Pattern::new(&text));
        Ok(Subscription {
            topic: subscription.topic,
            name: subscription.name,
            queue: queue("queue", &subscription.queue)?,
            pattern: within("pattern", pattern.transpose())?,
        })
    }
}

impl From<&Message> for v1::PublishRequest {
    fn from(message: &Message) -> v1::PublishRequest {
        v1::PublishRequest {
            topic: message.topic.clone(),
            routing_key: message.routing_key.clone(),
            spec: Some((&message.spec).into()),
        }
    }
}

impl TryFrom<v1::PublishRequest> for Message {
    type Error = Error;

    fn try_from(message: v1::PublishRequest) -> Result<Message> {
        Ok(Message {
            topic: message.topic,
            routing_key: message.routing_key,
            spec: message.spec.unwrap_or_default().try_into()?,
        })
    }
}

impl From<&Schedule> for v1::Schedule {
    fn from(schedule: &Schedule) -> v1::Schedule {
        use v1::schedule::{Cron, Rhythm as To};
        let missed = match schedule.missed {
            Missed::Skip => v1::Missed::Skip,
            Missed::Once => v1::Missed::Once,
            Missed::All => v1::Missed::All,
        };
        v1::Schedule {
            name: schedule.name.clone(),
            queue: schedule.queue.to_string(),
            rhythm: Some(match &schedule.rhythm {
                Rhythm::Cron { expression, zone } => To::Cron(Cron {
                    expression: expression.clone(),
                    zone: zone.clone(),
                }),
                Rhythm::Every(period) => To::EveryMs(ms(*period)),
            }),
            missed: missed.into(),
            job: Some((&schedule.spec).into()),
            next_at_ms: schedule.next.map(|due| due.at.0),
            last_at_ms: at(schedule.last),
        }
    }
}

impl TryFrom<v1::Schedule> for Schedule {
    type Error = Error;

    /// With the ticks that it names. The rhythm says which clock the next one follows.
    fn try_from(schedule: v1::Schedule) -> Result<Schedule> {
        use v1::schedule::Rhythm as From;
        let rhythm = match need("rhythm", schedule.rhythm)? {
            From::EveryMs(period) => Rhythm::Every(span(period)),
            From::Cron(cron) => Rhythm::Cron {
                expression: cron.expression,
                zone: match cron.zone.is_empty() {
                    true => "UTC".to_owned(),
                    false => cron.zone,
                },
            },
        };
        let spec = within("job", schedule.job.unwrap_or_default().try_into())?;
        let next = instant_if("next_at_ms", schedule.next_at_ms)?;
        let base = rhythm.base();
        Ok(Schedule {
            name: schedule.name,
            queue: queue("queue", &schedule.queue)?,
            rhythm,
            missed: match choice("missed", schedule.missed)? {
                v1::Missed::Unspecified | v1::Missed::Once => Missed::Once,
                v1::Missed::Skip => Missed::Skip,
                v1::Missed::All => Missed::All,
            },
            spec,
            next: next.map(|at| Due { at, base }),
            last: instant_if("last_at_ms", schedule.last_at_ms)?,
        })
    }
}

/// A schedule to add or replace.
pub fn schedule_change(put: v1::PutScheduleRequest) -> Result<Change> {
    let schedule: Schedule = need("schedule", put.schedule)?.try_into()?;
    if schedule.spec.when != When::Now {
        let problem = "delay_ms and run_at_ms are not for a schedule: it says when";
        return Err(wrong("job", problem));
    }
    Ok(match put.armed {
        true => Change::Arm(schedule),
        false => Change::Schedule(Schedule {
            next: None,
            last: None,
            ..schedule
        }),
    })
}

impl TryFrom<v1::DeleteScheduleRequest> for Change {
    type Error = Error;

    fn try_from(delete: v1::DeleteScheduleRequest) -> Result<Change> {
        Ok(match delete.only_if {
            None => Change::Unschedule(delete.name),
            Some(last) => Change::Disarm(delete.name, instant_if("only_if.at_ms", last.at_ms)?),
        })
    }
}
