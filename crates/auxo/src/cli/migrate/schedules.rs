//! What is set up for a queue besides its settings: subscriptions and schedules.

use auxo::core::engine::{Catalog, Change};
use auxo::core::schedule::Schedule;
use auxo::core::service::Service;
use auxo::core::time::Due;
use auxo::{Code, QueueName, Result};

/// How often a schedule may tick while it is taken away. One that ticks every few milliseconds would stay for ever.
const TRIES: u32 = 20;

/// The target's topics lead to the queue as the source's do. The source keeps its subscriptions: a message that is published there
/// is refused while the queue is paused, and would be lost without a word if nobody subscribed.
pub async fn subscribe(from: &Service, to: &Service, queue: &QueueName) -> Result<()> {
    for subscription in from.catalog().await?.subscriptions {
        if subscription.queue == *queue {
            to.change(Change::Subscribe(subscription)).await?;
        }
    }
    Ok(())
}

/// Moves the schedules of a queue; names those that stay, because the target has another one by the name.
///
/// A tick is not to be made twice, nor is the schedule to be lost: it is put at the target without a next tick, then removed at the
/// source, then given its next tick. A run that was killed in between left one without a next tick behind. The source removes it only
/// if it has made no job that the target does not know of; only of one that ticks faster than the stores can be asked, some ticks
/// may be made by both.
pub async fn carry(
    from: &Service,
    to: &Service,
    queue: &QueueName,
    fresh: bool,
) -> Result<Vec<String>> {
    let of = |catalog: Catalog| {
        let all = catalog.schedules.into_iter();
        all.filter(|schedule| schedule.queue == *queue)
            .collect::<Vec<_>>()
    };
    let here = of(from.catalog().await?);
    let all_there = to.catalog().await?.schedules;
    let mut stay = Vec::new();
    for schedule in &here {
        let taken = all_there.iter().any(|there| {
            let parked = !fresh && there.queue == *queue && there.next.is_none();
            there.name == schedule.name && !parked
        });
        if taken {
            stay.push(schedule.name.clone());
            continue;
        }
        let mut armed = schedule.clone();
        for attempt in 1.. {
            to.change(Change::Arm(without_next(&armed))).await?;
            let name = armed.name.clone();
            let remove = match attempt < TRIES {
                true => Change::Disarm(name, armed.last),
                false => Change::Unschedule(name),
            };
            match from.change(remove).await {
                // It ticked meanwhile.
                Err(error) if error.code() == Code::Conflict => {}
                Err(error) if error.code() != Code::NotFound => return Err(error),
                _ => break,
            }
            let now = of(from.catalog().await?);
            match now.into_iter().find(|now| now.name == armed.name) {
                Some(now) => armed = now,
                None => break,
            }
        }
        to.change(Change::Arm(armed)).await?;
    }
    if fresh {
        return Ok(stay);
    }
    let parked = all_there.into_iter().filter(|there| {
        let still_here = here.iter().any(|schedule| schedule.name == there.name);
        there.queue == *queue && there.next.is_none() && !still_here
    });
    for schedule in parked {
        to.change(go_on(schedule)).await?;
    }
    Ok(stay)
}

fn without_next(schedule: &Schedule) -> Schedule {
    Schedule {
        next: None,
        ..schedule.clone()
    }
}

/// The tick after the last one, though it may be past; one that never ticked begins now.
fn go_on(schedule: Schedule) -> Change {
    let base = schedule.rhythm.base();
    let next = schedule.last.and_then(|at| schedule.rhythm.next_after(at));
    match next {
        None => Change::Schedule(schedule),
        Some(at) => Change::Arm(Schedule {
            next: Some(Due { at, base }),
            ..schedule
        }),
    }
}
