//! How does the engine compare with a general store? redb doing the same mixed work without waiting for the disk.
//!
//! redb gets the design that suits it best: one record per job under queue, priority and number, leases in memory only, a
//! cursor in memory for each queue and priority so that the head is found at once, one transaction per push and per ack,
//! no threads in between. Its commits do not wait for the disk and, unlike ours, do not survive a killed process; one per
//! second does, as in a program that syncs each second.
//!
//! Both sides have 4 queues with 3 priorities and a standing stock. A batch is pushed over all of them and leased from one
//! queue, in turn.

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use auxo_core::{JobSpec, NewJob, QueueName};
use auxo_embedded::Sync;
use redb::{Database, Durability, ReadableDatabase, TableDefinition};

use crate::counted::Io;
use crate::drive::{PAYLOAD, Subject, block_on, lease_ack, push, queue, spec, worker};
use crate::table::{Aim, Sample, Side, Watch, heading, print_columns, print_side, verdict};
use crate::{Plan, Result, host};

const BATCH: usize = 16;
const QUEUES: usize = 4;
const PRIORITIES: usize = 3;
/// How many jobs wait in all queues together.
const STOCK: usize = 48_000;
const JOBS: TableDefinition<(u32, u32, u64), &[u8]> = TableDefinition::new("jobs");

/// The queue and the priority of the job with this number.
fn place(number: u64) -> (usize, usize) {
    let number = number as usize;
    (number % QUEUES, number / QUEUES % PRIORITIES)
}

/// Prints the comparison.
pub fn run(plan: &Plan) -> Result<()> {
    let dir = tempfile::tempdir_in(&plan.dir)?;
    let tasks = plan.in_flight * 2;
    let ours_mix = Mix::new(Subject::open(plan, &dir.path().join("engine"), Sync::Os)?)?;
    let mut store = Store::open(&dir.path().join("redb"))?;
    let mut ours = Side::new("auxo embedded, sync = os");
    let mut theirs = Side::new("redb, Durability::None, one commit/s durable");
    for round in 0..=plan.rounds {
        for side in 0..2 {
            host::settle(dir.path())?;
            if (side + round) % 2 == 0 {
                ours.samples.push(ours_mix.run(plan.span, tasks)?);
            } else {
                theirs.samples.push(store.run(plan.span)?);
            }
        }
    }
    // The first round warms up.
    ours.samples.remove(0);
    theirs.samples.remove(0);
    heading(&format!(
        "b. mixed push + lease + ack, batches of {BATCH}, {QUEUES} queues x {PRIORITIES} priorities, {STOCK} jobs waiting, \
         no wait for the disk; {tasks} batches in flight here, direct calls there"
    ));
    print_columns();
    print_side(&ours);
    print_side(&theirs);
    println!("  (what redb writes is not counted)");
    verdict("ratio", ours.ratio(&theirs), "", Aim::AtLeast(3.0));
    Ok(())
}

/// The engine's side.
struct Mix {
    subject: Subject,
    queues: Rc<[QueueName]>,
    pushed: Rc<Cell<u64>>,
    turn: Rc<Cell<usize>>,
}

impl Mix {
    fn new(subject: Subject) -> Result<Mix> {
        let mix = Mix {
            subject,
            queues: (0..QUEUES)
                .map(|number| queue(&format!("bench-{number}")))
                .collect(),
            pushed: Rc::default(),
            turn: Rc::default(),
        };
        block_on(async {
            for _ in 0..STOCK / BATCH {
                push(&mix.subject.engine, batch(&mix.queues, &mix.pushed)).await?;
            }
            Ok(())
        })?;
        Ok(mix)
    }

    fn run(&self, span: Duration, tasks: usize) -> Result<Sample> {
        let (queues, pushed, turn) = (self.queues.clone(), self.pushed.clone(), self.turn.clone());
        let worker = worker();
        self.subject.run(span, tasks, move |engine| {
            let jobs = batch(&queues, &pushed);
            turn.set(turn.get() + 1);
            let queue = queues[turn.get() % QUEUES].clone();
            let worker = worker.clone();
            async move {
                push(&engine, jobs).await?;
                lease_ack(&engine, &queue, BATCH, &worker).await
            }
        })
    }
}

fn batch(queues: &[QueueName], pushed: &Cell<u64>) -> Vec<NewJob> {
    let first = pushed.get();
    pushed.set(first + BATCH as u64);
    (first..pushed.get())
        .map(|number| {
            let (queue, priority) = place(number);
            NewJob {
                queue: queues[queue].clone(),
                spec: JobSpec {
                    priority: priority as u32,
                    ..spec()
                },
            }
        })
        .collect()
}

/// The other side.
struct Store {
    database: Database,
    next: u64,
    turn: usize,
    /// Everything before this was leased, for each queue and priority.
    cursors: [[u64; PRIORITIES]; QUEUES],
    durable: Instant,
}

type Leased = Vec<((u32, u32, u64), Vec<u8>)>;

impl Store {
    fn open(path: &Path) -> Result<Store> {
        let database = redb::Builder::new()
            .set_cache_size(128 << 20)
            .create(path)?;
        let setup = database.begin_write()?;
        setup.open_table(JOBS)?;
        setup.commit()?;
        let mut store = Store {
            database,
            next: 0,
            turn: 0,
            cursors: Default::default(),
            durable: Instant::now(),
        };
        for _ in 0..STOCK / BATCH {
            store.push()?;
        }
        Ok(store)
    }

    fn run(&mut self, span: Duration) -> Result<Sample> {
        let watch = Watch::start(Io::default());
        let end = Instant::now() + span;
        let mut jobs = 0;
        while Instant::now() < end {
            self.push()?;
            let leased = self.lease()?;
            jobs += leased.len() as u64;
            self.ack(&leased)?;
        }
        Ok(watch.stop(jobs, Io::default()))
    }

    fn push(&mut self) -> Result<()> {
        self.write(|table, store| {
            for number in store.next..store.next + BATCH as u64 {
                let (queue, priority) = place(number);
                let payload = vec![b'x'; PAYLOAD];
                table.insert((queue as u32, priority as u32, number), payload.as_slice())?;
            }
            store.next += BATCH as u64;
            Ok(())
        })
    }

    fn lease(&mut self) -> Result<Leased> {
        self.turn += 1;
        let queue = self.turn % QUEUES;
        let read = self.database.begin_read()?;
        let table = read.open_table(JOBS)?;
        let mut leased = Vec::with_capacity(BATCH);
        for (priority, cursor) in self.cursors[queue].iter_mut().enumerate() {
            let (queue, priority) = (queue as u32, priority as u32);
            let range = table.range((queue, priority, *cursor)..(queue, priority, u64::MAX))?;
            for entry in range.take(BATCH - leased.len()) {
                let (key, value) = entry?;
                *cursor = key.value().2 + 1;
                leased.push((key.value(), value.value().to_vec()));
            }
        }
        Ok(leased)
    }

    fn ack(&mut self, leased: &Leased) -> Result<()> {
        self.write(|table, _| {
            for (key, _) in leased {
                table.remove(key)?;
            }
            Ok(())
        })
    }

    fn write(
        &mut self,
        change: impl FnOnce(&mut redb::Table<(u32, u32, u64), &[u8]>, &mut Store) -> Result<()>,
    ) -> Result<()> {
        let mut transaction = self.database.begin_write()?;
        if self.durable.elapsed() >= Duration::from_secs(1) {
            self.durable = Instant::now();
        } else {
            transaction.set_durability(Durability::None)?;
        }
        {
            let mut table = transaction.open_table(JOBS)?;
            change(&mut table, self)?;
        }
        transaction.commit()?;
        Ok(())
    }
}
