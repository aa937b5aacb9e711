//! Do many queues, or many groups of a fair queue, slow the engine down?

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use auxo_core::engine::Change;
use auxo_core::queue::QueueConfig;
use auxo_core::{Engine, JobSpec, NewJob};
use auxo_embedded::{Embedded, Sync};

use crate::drive::{Subject, block_on, jobs, lease_ack, mixed, push, queue, spec, worker};
use crate::table::{Aim, Side, heading, print_columns, print_side, verdict};
use crate::{Plan, Result, host};

const BATCH: usize = 128;
const QUEUES: u64 = 1000;
const GROUPS: u64 = 100_000;

/// Prints the comparison.
pub fn run(plan: &Plan) -> Result<()> {
    heading(&format!(
        "e. mixed push + lease + ack, batches of {BATCH}, {} in flight, sync = os",
        plan.in_flight
    ));
    let dir = tempfile::tempdir_in(&plan.dir)?;
    let open = |name: &str| Subject::open(plan, &dir.path().join(name), Sync::Os);
    let (one, queues, groups) = (open("one")?, open("queues")?, open("groups")?);
    block_on(async {
        let fair = QueueConfig {
            fair: true,
            ..QueueConfig::default()
        };
        groups
            .engine
            .change(Change::Queue(queue("q"), fair))
            .await?;
        // Every group has a job waiting, so that all of them are there.
        for first in (0..GROUPS).step_by(1000) {
            push(&groups.engine, (first..first + 1000).map(grouped).collect()).await?;
        }
        for number in 0..QUEUES {
            push(&queues.engine, jobs(&nth_queue(number), 1)).await?;
        }
        Ok(())
    })?;
    let mut sides = [
        "one queue",
        "1,000 queues, a batch each in turn",
        "100,000 groups of one fair queue",
    ]
    .map(Side::new);
    for _ in 0..plan.rounds {
        host::settle(&plan.dir)?;
        sides[0]
            .samples
            .push(one.run(plan.span, plan.in_flight, |engine| async move {
                mixed(&engine, &queue("q"), BATCH, &worker()).await
            })?);
        let next = Rc::new(Cell::new(0));
        sides[1]
            .samples
            .push(queues.run(plan.span, plan.in_flight, move |engine| {
                in_turn(engine, next.clone())
            })?);
        let next = Rc::new(Cell::new(0));
        sides[2]
            .samples
            .push(groups.run(plan.span, plan.in_flight, move |engine| {
                in_groups(engine, next.clone())
            })?);
    }
    print_columns();
    sides.iter().for_each(print_side);
    verdict(
        "1,000 queues",
        sides[1].ratio(&sides[0]),
        " of one",
        Aim::AtLeast(0.5),
    );
    verdict(
        "100,000 groups",
        sides[2].ratio(&sides[0]),
        " of one queue",
        Aim::AtLeast(0.5),
    );
    Ok(())
}

fn nth_queue(number: u64) -> auxo_core::QueueName {
    queue(&format!("q{}", number % QUEUES))
}

fn grouped(number: u64) -> NewJob {
    let group = Some(format!("tenant-{}", number % GROUPS));
    NewJob {
        queue: queue("q"),
        spec: JobSpec { group, ..spec() },
    }
}

async fn in_turn(engine: Arc<Embedded>, next: Rc<Cell<u64>>) -> Result<u64> {
    let number = next.replace(next.get() + 1);
    mixed(&engine, &nth_queue(number), BATCH, &worker()).await
}

async fn in_groups(engine: Arc<Embedded>, next: Rc<Cell<u64>>) -> Result<u64> {
    let first = next.replace(next.get() + BATCH as u64);
    push(
        &engine,
        (first..first + BATCH as u64).map(grouped).collect(),
    )
    .await?;
    lease_ack(&engine, &queue("q"), BATCH, &worker()).await
}
