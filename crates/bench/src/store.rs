//! How does the engine compare with a general store? redb doing the same mixed work without waiting for the disk.
//!
//! redb gets the design that suits it best: one record per job under its queue and number, leases in memory only, a cursor
//! in memory so that the head is found at once, one transaction per push and per ack, no threads in between. Its commits
//! do not wait for the disk and, unlike ours, do not survive a killed process; one per second does, as in a program
//! that syncs each second.

use std::path::Path;
use std::time::{Duration, Instant};

use auxo_embedded::Sync;
use redb::{Database, Durability, ReadableDatabase, TableDefinition};

use crate::counted::Io;
use crate::drive::{PAYLOAD, Subject, mixed, queue, worker};
use crate::table::{Aim, Sample, Side, Watch, heading, print_columns, print_side, verdict};
use crate::{Plan, Result, host};

const BATCH: usize = 16;
const JOBS: TableDefinition<(u32, u64), &[u8]> = TableDefinition::new("jobs");

/// Prints the comparison.
pub fn run(plan: &Plan) -> Result<()> {
    let dir = tempfile::tempdir_in(&plan.dir)?;
    let tasks = plan.in_flight * 2;
    let subject = Subject::open(plan, &dir.path().join("engine"), Sync::Os)?;
    let mut store = Store::open(&dir.path().join("redb"))?;
    let (name, worker) = (queue("bench"), worker());
    let mut ours = Side::new("auxo embedded, sync = os");
    let mut theirs = Side::new("redb, Durability::None, one commit/s durable");
    for round in 0..=plan.rounds {
        for side in 0..2 {
            host::settle(dir.path())?;
            if (side + round) % 2 == 0 {
                let (name, worker) = (name.clone(), worker.clone());
                ours.samples
                    .push(subject.run(plan.span, tasks, move |engine| {
                        let (name, worker) = (name.clone(), worker.clone());
                        async move { mixed(&engine, &name, BATCH, &worker).await }
                    })?);
            } else {
                theirs.samples.push(store.run(plan.span)?);
            }
        }
    }
    // The first round warms up.
    ours.samples.remove(0);
    theirs.samples.remove(0);
    heading(&format!(
        "b. mixed push + lease + ack, batches of {BATCH}, no wait for the disk; {tasks} batches in flight here, direct calls \
         there"
    ));
    print_columns();
    print_side(&ours);
    print_side(&theirs);
    println!("  (what redb writes is not counted)");
    verdict("ratio", ours.ratio(&theirs), "", Aim::AtLeast(3.0));
    Ok(())
}

struct Store {
    database: Database,
    next: u64,
    /// Everything before this was leased.
    cursor: u64,
    durable: Instant,
}

impl Store {
    fn open(path: &Path) -> Result<Store> {
        let database = redb::Builder::new()
            .set_cache_size(128 << 20)
            .create(path)?;
        let setup = database.begin_write()?;
        setup.open_table(JOBS)?;
        setup.commit()?;
        Ok(Store {
            database,
            next: 0,
            cursor: 0,
            durable: Instant::now(),
        })
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
            for _ in 0..BATCH {
                let payload = vec![b'x'; PAYLOAD];
                table.insert((0, store.next), payload.as_slice())?;
                store.next += 1;
            }
            Ok(())
        })
    }

    fn lease(&mut self) -> Result<Vec<(u64, Vec<u8>)>> {
        let read = self.database.begin_read()?;
        let table = read.open_table(JOBS)?;
        let mut leased = Vec::with_capacity(BATCH);
        for entry in table.range((0, self.cursor)..)?.take(BATCH) {
            let (key, value) = entry?;
            leased.push((key.value().1, value.value().to_vec()));
        }
        if let Some((last, _)) = leased.last() {
            self.cursor = last + 1;
        }
        Ok(leased)
    }

    fn ack(&mut self, leased: &[(u64, Vec<u8>)]) -> Result<()> {
        self.write(|table, _| {
            for (number, _) in leased {
                table.remove((0, *number))?;
            }
            Ok(())
        })
    }

    fn write(
        &mut self,
        change: impl FnOnce(&mut redb::Table<(u32, u64), &[u8]>, &mut Store) -> Result<()>,
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
