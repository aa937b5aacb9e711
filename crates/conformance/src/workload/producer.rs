//! Pushes jobs of every sort, and now and then kicks or cancels one.

use std::sync::atomic::Ordering;
use std::time::Duration;

use auxo_core::engine::Accepted;
use auxo_core::job::{Backoff, DEFAULT_PRIORITY, Key, OnDuplicate};
use auxo_core::time::When;
use auxo_core::{JobSpec, NewJob, State};
use bytes::Bytes;

use super::{Member, recall, remember};

pub(super) async fn run(mut member: Member<'_>) {
    while !member.floor.stopped() {
        if member.dice.percent(2) {
            kick(&member).await;
        } else if member.dice.percent(2) {
            cancel(&member).await;
        } else if member.floor.open.load(Ordering::Relaxed) < member.floor.load.backlog {
            push(&mut member).await;
        } else {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

async fn push(member: &mut Member<'_>) {
    let size = match member.dice.percent(10) {
        true => 2 + member.dice.below(4),
        false => 1,
    };
    let mut jobs = Vec::new();
    for _ in 0..size {
        let number = member.floor.pushes.fetch_add(1, Ordering::Relaxed);
        if number >= member.floor.load.pushes {
            member.floor.end();
            break;
        }
        jobs.push(job(member, number));
    }
    if jobs.is_empty() {
        return;
    }
    match member.witness.push(jobs).await {
        Err(error) => member.heed(&error),
        Ok(answers) => {
            for pushed in answers.into_iter().flatten() {
                if pushed.how == Accepted::New {
                    member.floor.opened();
                }
                remember(&member.floor.pushed, pushed.id);
            }
        }
    }
}

fn job(member: &mut Member<'_>, number: u64) -> NewJob {
    let load = member.floor.load;
    let dice = &mut member.dice;
    let queue = dice.one_of(&load.queues);
    let when = match dice.percent(30) {
        true => When::After(dice.millis_below(200)),
        false => When::Now,
    };
    let ttr = match dice.percent(20) {
        true => load.ttr / 4,
        false => load.ttr,
    };
    // No two payloads of a history are alike, so that a payload tells which push it came from.
    let name = format!("{}/{}/{number}/", member.floor.run, member.process);
    let filler = dice.below(400) as usize;
    let spec = JobSpec {
        payload: Bytes::from(name + &"x".repeat(filler)),
        priority: dice.one_of(&[0, DEFAULT_PRIORITY, 5000]),
        when,
        ttr,
        max_attempts: 3 + dice.below(4) as u32,
        backoff: Backoff::Fixed {
            delay: dice.millis_below(50),
        },
        ..JobSpec::default()
    };
    let key = member.dice.percent(5).then(|| key(member));
    NewJob {
        queue,
        spec: JobSpec { key, ..spec },
    }
}

/// A key that may have been used before, in this run or in an earlier one.
fn key(member: &mut Member<'_>) -> Key {
    let used = member.floor.keys.fetch_add(1, Ordering::Relaxed);
    let policies = [
        OnDuplicate::Reject,
        OnDuplicate::Return,
        OnDuplicate::Replace,
    ];
    Key {
        name: format!("key-{}", member.dice.below(used + 5)),
        on_duplicate: member.dice.one_of(&policies),
        window: member.floor.load.key_window,
    }
}

async fn kick(member: &Member<'_>) {
    let Some(id) = recall(&member.floor.dead) else {
        return;
    };
    match member.witness.kick(id).await {
        Ok(_) => member.floor.opened(),
        Err(error) => member.heed(&error),
    }
}

async fn cancel(member: &Member<'_>) {
    let Some(id) = recall(&member.floor.pushed) else {
        return;
    };
    match member.witness.cancel(id).await {
        Ok(State::Cancelled) => member.floor.closed(),
        Ok(_) => {}
        Err(error) => member.heed(&error),
    }
}
