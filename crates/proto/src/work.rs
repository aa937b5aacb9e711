//! Leases: asked for, given, settled, extended; and what is told of them.

use auxo_core::engine::{
    Ask, Extend, Extended, Holds, NamedJob, Outcome, Pick, Retry, Settle, Settled,
};
use auxo_core::event::Notice;
use auxo_core::job::Leased;
use auxo_core::life::Event;
use auxo_core::{Error, JobId, Result, Timestamp, Token};

use crate::jobs::{state, state_number};
use crate::v1;
use crate::value::{at, choice, ms, need, queue, span, within, word};

impl From<&Ask> for v1::LeaseRequest {
    fn from(ask: &Ask) -> v1::LeaseRequest {
        v1::LeaseRequest {
            queues: ask.queues.iter().map(ToString::to_string).collect(),
            max: Some(ask.max),
            wait_ms: ms(ask.wait),
            ttr_ms: ask.ttr.map(ms),
            worker: ask.worker.to_string(),
            job: ask.job.map(|job| job.id.0),
            pick: pick_number(ask.pick),
        }
    }
}

fn pick_number(pick: Pick) -> i32 {
    let pick = match pick {
        Pick::First => v1::Pick::Unspecified,
        Pick::MostUrgent => v1::Pick::MostUrgent,
    };
    pick.into()
}

fn pick(number: i32) -> Result<Pick> {
    Ok(match choice("pick", number)? {
        v1::Pick::Unspecified | v1::Pick::First => Pick::First,
        v1::Pick::MostUrgent => Pick::MostUrgent,
    })
}

impl TryFrom<v1::LeaseRequest> for Ask {
    type Error = Error;

    fn try_from(ask: v1::LeaseRequest) -> Result<Ask> {
        let queues = ask.queues.iter().map(|name| queue("queues", name));
        Ok(Ask {
            queues: queues.collect::<Result<_>>()?,
            job: ask.job.map(|id| NamedJob {
                id: JobId(id),
                holds: Holds::Respect,
            }),
            pick: pick(ask.pick)?,
            max: ask.max.unwrap_or(1),
            wait: span(ask.wait_ms),
            ttr: ask.ttr_ms.map(span),
            worker: ask.worker.into(),
        })
    }
}

impl From<&Leased> for v1::Leased {
    fn from(leased: &Leased) -> v1::Leased {
        v1::Leased {
            job: Some((&leased.job).into()),
            token: leased.token.to_string(),
            deadline_at_ms: leased.deadline.0,
        }
    }
}

/// A lease as a Work stream tells it: without the job's timeline, which no worker needs and which may be most of it.
pub fn leased_for_work(mut leased: Leased) -> v1::Leased {
    leased.job.timeline = Vec::new();
    (&leased).into()
}

impl TryFrom<v1::Leased> for Leased {
    type Error = Error;

    fn try_from(leased: v1::Leased) -> Result<Leased> {
        Ok(Leased {
            job: need("job", leased.job)?.try_into()?,
            token: token(&leased.token)?,
            deadline: Timestamp(leased.deadline_at_ms),
        })
    }
}

fn token(text: &str) -> Result<Token> {
    within("token", text.parse())
}

impl From<&Settle> for v1::Settle {
    fn from(settle: &Settle) -> v1::Settle {
        use v1::settle as to;
        let outcome = match &settle.outcome {
            Outcome::Ack { result } => to::Outcome::Ack(to::Ack {
                result: result.clone(),
            }),
            Outcome::Fail {
                error,
                delay,
                retry,
            } => to::Outcome::Fail(to::Fail {
                error: error.clone(),
                delay_ms: delay.map(ms),
                no_retry: *retry == Retry::Never,
            }),
            Outcome::Release { priority, delay } => to::Outcome::Release(to::Release {
                priority: *priority,
                delay_ms: delay.map(ms),
            }),
            Outcome::Bury { error, priority } => to::Outcome::Bury(to::Bury {
                error: error.clone(),
                priority: *priority,
            }),
            Outcome::Snooze { delay } => to::Outcome::Snooze(to::Snooze {
                delay_ms: ms(*delay),
            }),
        };
        v1::Settle {
            token: settle.token.to_string(),
            outcome: Some(outcome),
        }
    }
}

impl TryFrom<v1::Settle> for Settle {
    type Error = Error;

    fn try_from(settle: v1::Settle) -> Result<Settle> {
        use v1::settle::Outcome as To;
        Ok(Settle {
            token: token(&settle.token)?,
            outcome: match need("outcome", settle.outcome)? {
                To::Ack(ack) => Outcome::Ack { result: ack.result },
                To::Fail(fail) => Outcome::Fail {
                    error: fail.error,
                    delay: fail.delay_ms.map(span),
                    retry: match fail.no_retry {
                        true => Retry::Never,
                        false => Retry::Policy,
                    },
                },
                To::Release(release) => Outcome::Release {
                    priority: release.priority,
                    delay: release.delay_ms.map(span),
                },
                To::Bury(bury) => Outcome::Bury {
                    error: bury.error,
                    priority: bury.priority,
                },
                To::Snooze(snooze) => Outcome::Snooze {
                    delay: span(snooze.delay_ms),
                },
            },
        })
    }
}

/// The items of a batch, each read or an error.
pub fn settles<T, U: TryFrom<T, Error = Error>>(items: Vec<T>) -> Vec<Result<U>> {
    items.into_iter().map(U::try_from).collect()
}

impl From<&Settled> for v1::Settled {
    fn from(settled: &Settled) -> v1::Settled {
        v1::Settled {
            id: settled.id.0,
            state: state_number(settled.state),
            run_at_ms: at(settled.run_at),
        }
    }
}

impl TryFrom<v1::Settled> for Settled {
    type Error = Error;

    fn try_from(settled: v1::Settled) -> Result<Settled> {
        Ok(Settled {
            id: JobId(settled.id),
            state: state("state", settled.state)?,
            run_at: settled.run_at_ms.map(Timestamp),
        })
    }
}

impl From<&Extend> for v1::Extend {
    fn from(extend: &Extend) -> v1::Extend {
        v1::Extend {
            token: extend.token.to_string(),
            ttr_ms: extend.ttr.map(ms),
            progress: extend.progress.clone(),
        }
    }
}

impl TryFrom<v1::Extend> for Extend {
    type Error = Error;

    fn try_from(extend: v1::Extend) -> Result<Extend> {
        Ok(Extend {
            token: token(&extend.token)?,
            ttr: extend.ttr_ms.map(span),
            progress: extend.progress,
        })
    }
}

impl From<&Extended> for v1::Extended {
    fn from(extended: &Extended) -> v1::Extended {
        v1::Extended {
            id: extended.id.0,
            deadline_at_ms: extended.deadline.0,
            cancel: extended.cancel,
        }
    }
}

impl TryFrom<v1::Extended> for Extended {
    type Error = Error;

    fn try_from(extended: v1::Extended) -> Result<Extended> {
        Ok(Extended {
            id: JobId(extended.id),
            deadline: Timestamp(extended.deadline_at_ms),
            cancel: extended.cancel,
        })
    }
}

impl From<&Notice> for v1::Notice {
    fn from(notice: &Notice) -> v1::Notice {
        v1::Notice {
            sequence: notice.sequence,
            at_ms: notice.at.0,
            queue: notice.queue.to_string(),
            job: notice.job.0,
            event: notice.event.as_str().to_owned(),
            by: notice.by.to_string(),
            note: notice.note.to_string(),
        }
    }
}

impl TryFrom<v1::Notice> for Notice {
    type Error = Error;

    fn try_from(notice: v1::Notice) -> Result<Notice> {
        Ok(Notice {
            sequence: notice.sequence,
            at: Timestamp(notice.at_ms),
            queue: queue("queue", &notice.queue)?,
            job: JobId(notice.job),
            event: word("event", &notice.event, &Event::ALL, Event::as_str)?,
            by: notice.by.into(),
            note: notice.note.into(),
        })
    }
}
