//! Leases jobs and does with them whatever workers do: finish, fail, give back, bury, hang, vanish, come too late.

use std::time::{Duration, Instant};

use auxo_core::engine::{Ask, Extend, Outcome, Pick, Retry, Settle};
use auxo_core::job::Leased;
use auxo_core::{State, Token};

use super::{Dice, Member, remember};

/// How long a lease call waits: short, so that a stop is soon heard.
const WAIT: Duration = Duration::from_millis(20);

pub(super) async fn run(mut member: Member<'_>) {
    let mut held: Vec<Held> = Vec::new();
    while !member.floor.stopped() {
        let ask = Ask {
            queues: order(&mut member),
            job: None,
            pick: Pick::First,
            max: 1 + member.dice.below(4) as u32,
            wait: WAIT,
            ttr: None,
            worker: format!("worker-{}", member.process).into(),
        };
        match member.witness.lease(ask).await {
            Err(error) => member.heed(&error),
            Ok(leased) => {
                if leased.is_empty() {
                    member.floor.idle();
                }
                for one in leased {
                    held.extend(work(&mut member, one).await);
                }
            }
        }
        let now = Instant::now();
        for held in held.extract_if(.., |held| held.until <= now) {
            settle(&member, held.token, held.outcome).await;
        }
    }
}

/// The queues, beginning with any of them, so that none starves.
fn order(member: &mut Member<'_>) -> Vec<auxo_core::QueueName> {
    let mut queues = member.floor.load.queues.clone();
    let first = member.dice.below(queues.len() as u64) as usize;
    queues.rotate_left(first);
    queues
}

/// A job that is worked on for a while.
struct Held {
    until: Instant,
    token: Token,
    outcome: Outcome,
}

async fn work(member: &mut Member<'_>, leased: Leased) -> Option<Held> {
    let (token, ttr) = (leased.token, leased.job.ttr);
    // What came back is often held, so that those who had it before come while somebody has it.
    let hold = if leased.job.attempt > 1 { 40 } else { 5 };
    let outcome = outcome(&mut member.dice);
    let part = |dice: &mut Dice| ttr.mul_f64(dice.below(100) as f64 / 100.0);
    match member.dice.below(100) {
        0..3 => return None, // Vanishes.
        3..7 => {
            // Comes too late.
            let until = Instant::now() + ttr + part(&mut member.dice);
            return Some(Held {
                until,
                token,
                outcome,
            });
        }
        7..12 => extend(member, token).await,
        // The second one must be refused.
        12..13 => settle(member, token, done()).await,
        _ if member.dice.percent(hold) => {
            let until = Instant::now() + part(&mut member.dice);
            return Some(Held {
                until,
                token,
                outcome,
            });
        }
        _ => {}
    }
    settle(member, token, outcome).await;
    None
}

fn done() -> Outcome {
    Outcome::Ack { result: None }
}

fn outcome(dice: &mut Dice) -> Outcome {
    match dice.below(100) {
        0..10 => Outcome::Fail {
            error: "no luck".to_owned(),
            delay: None,
            retry: match dice.percent(5) {
                true => Retry::Never,
                false => Retry::Policy,
            },
        },
        10..13 => Outcome::Release {
            priority: None,
            delay: dice.percent(50).then(|| dice.millis_below(100)),
        },
        13..16 => Outcome::Snooze {
            delay: dice.millis_below(100),
        },
        16..18 => Outcome::Bury {
            error: Some("hopeless".to_owned()),
            priority: None,
        },
        _ => done(),
    }
}

async fn extend(member: &Member<'_>, token: Token) {
    let extend = Extend {
        token,
        ttr: None,
        progress: None,
    };
    if let Err(error) = member.witness.extend(extend).await {
        member.heed(&error);
    }
}

async fn settle(member: &Member<'_>, token: Token, outcome: Outcome) {
    match member.witness.settle(Settle { token, outcome }).await {
        Err(error) => member.heed(&error),
        Ok(settled) => match settled.state {
            State::Done | State::Cancelled => member.floor.closed(),
            State::Dead => {
                member.floor.closed();
                remember(&member.floor.dead, settled.id);
            }
            _ => {}
        },
    }
}
