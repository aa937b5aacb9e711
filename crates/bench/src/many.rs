//! Do many queues, or many groups of a fair queue, slow the engine down? Mixed work against one plain queue that holds as
//! many jobs.

use std::cell::Cell;
use std::rc::Rc;

use auxo_core::engine::Change;
use auxo_core::queue::QueueConfig;
use auxo_core::{Engine, JobSpec, NewJob, QueueName};
use auxo_embedded::Sync;

use crate::drive::{Subject, block_on, lease_ack, push, queue, spec, worker};
use crate::table::{Aim, Sample, Side, heading, print_columns, print_side, verdict};
use crate::{Plan, Result, host};

const BATCH: usize = 128;
const QUEUES: usize = 1_000;
/// How many jobs wait in each of the many queues.
const DEPTH: usize = 256;
const GROUPS: usize = 100_000;

/// Prints both comparisons.
pub fn run(plan: &Plan) -> Result<()> {
    let flight = plan.in_flight;
    case(
        plan,
        &format!(
            "e1. {QUEUES} queues with {DEPTH} jobs each; each batch of {BATCH} is pushed over {BATCH} queues and leased from \
             one, {flight} in flight, sync = os"
        ),
        (
            "1,000 queues",
            Shape {
                queues: QUEUES,
                groups: 0,
            },
        ),
        QUEUES * DEPTH,
    )?;
    case(
        plan,
        &format!(
            "e2. one fair queue with {GROUPS} groups of one job each, batches of {BATCH}, {flight} in flight, sync = os"
        ),
        (
            "100,000 groups",
            Shape {
                queues: 1,
                groups: GROUPS,
            },
        ),
        GROUPS,
    )
}

/// How the jobs of one side are spread.
#[derive(Clone, Copy)]
struct Shape {
    queues: usize,
    /// Zero for a queue that is not fair.
    groups: usize,
}

fn case(plan: &Plan, title: &str, (name, shape): (&str, Shape), waiting: usize) -> Result<()> {
    let dir = tempfile::tempdir_in(&plan.dir)?;
    let plain = Shape {
        queues: 1,
        groups: 0,
    };
    let one = Mix::new(plan, &dir.path().join("one"), plain, waiting)?;
    let many = Mix::new(plan, &dir.path().join("many"), shape, waiting)?;
    let mut sides = [Side::new("one queue"), Side::new(name)];
    for round in 0..=plan.rounds {
        for turn in 0..2 {
            let which = (turn + round) % 2;
            host::settle(dir.path())?;
            sides[which].samples.push([&one, &many][which].run(plan)?);
        }
    }
    heading(title);
    print_columns();
    for side in &mut sides {
        // The first round warms up.
        side.samples.remove(0);
        print_side(side);
    }
    verdict("ratio", sides[1].ratio(&sides[0]), "", Aim::AtLeast(0.5));
    Ok(())
}

/// An engine, and where the next jobs go and come from.
#[derive(Clone)]
struct Mix {
    subject: Subject,
    queues: Rc<[QueueName]>,
    groups: usize,
    pushed: Rc<Cell<usize>>,
    leased: Rc<Cell<usize>>,
}

impl Mix {
    fn new(plan: &Plan, dir: &std::path::Path, shape: Shape, waiting: usize) -> Result<Mix> {
        let mix = Mix {
            subject: Subject::open(plan, dir, Sync::Os)?,
            queues: (0..shape.queues)
                .map(|number| queue(&format!("bench-{number}")))
                .collect(),
            groups: shape.groups,
            pushed: Rc::default(),
            leased: Rc::default(),
        };
        block_on(async {
            if shape.groups > 0 {
                let fair = QueueConfig {
                    fair: true,
                    ..QueueConfig::default()
                };
                let change = Change::Queue(mix.queues[0].clone(), fair);
                mix.subject.engine.change(change).await?;
            }
            for _ in 0..waiting.div_ceil(BATCH) {
                push(&mix.subject.engine, mix.batch()).await?;
            }
            Ok(())
        })?;
        Ok(mix)
    }

    /// The next jobs, spread evenly over queues and groups.
    fn batch(&self) -> Vec<NewJob> {
        let first = self.pushed.get();
        self.pushed.set(first + BATCH);
        (first..first + BATCH)
            .map(|number| NewJob {
                queue: self.queues[number % self.queues.len()].clone(),
                spec: JobSpec {
                    group: (self.groups > 0).then(|| format!("group-{}", number % self.groups)),
                    ..spec()
                },
            })
            .collect()
    }

    fn run(&self, plan: &Plan) -> Result<Sample> {
        let (mix, worker) = (self.clone(), worker());
        self.subject.run(plan.span, plan.in_flight, move |engine| {
            let jobs = mix.batch();
            let turn = mix.leased.get();
            mix.leased.set(turn + 1);
            let queue = mix.queues[turn % mix.queues.len()].clone();
            let worker = worker.clone();
            async move {
                push(&engine, jobs).await?;
                lease_ack(&engine, &queue, BATCH, &worker).await
            }
        })
    }
}
