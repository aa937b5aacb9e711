//! What do queue semantics cost? Mixed work against appending as many bytes, with as many writes, to a log that is
//! nothing else: checksummed records in files that were allocated in advance and are used again and again.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use auxo_embedded::Sync;

use crate::counted::Io;
use crate::drive::{Subject, mixed, queue, worker};
use crate::table::{Aim, Sample, Side, Watch, heading, print_columns, print_side, verdict};
use crate::{Plan, Result, host};

/// How many jobs a batch has, or how many callers with one job each there are.
const BATCH: usize = 128;
/// How many files the raw log goes through.
const FILES: usize = 3;

/// Prints the comparison without waiting for the disk.
pub fn run(plan: &Plan) -> Result<()> {
    let flight = plan.in_flight;
    case(
        plan,
        &format!("a1. mixed push + lease + ack, batches of {BATCH}, {flight} in flight, sync = os"),
        Sync::Os,
        (flight, BATCH),
        0.5,
    )
}

/// Prints the comparison with an answer only after the disk has it.
pub fn run_synced(plan: &Plan) -> Result<()> {
    case(
        plan,
        &format!("a2. mixed push + lease + ack, one batch of {BATCH} in flight, sync = always"),
        Sync::Always,
        (1, BATCH),
        0.8,
    )
}

/// Prints the same for many callers with one job each.
pub fn run_callers(plan: &Plan) -> Result<()> {
    case(
        plan,
        &format!("a3. mixed push + lease + ack, {BATCH} callers with one job each, sync = always"),
        Sync::Always,
        (BATCH, 1),
        0.8,
    )
}

fn case(
    plan: &Plan,
    title: &str,
    sync: Sync,
    (tasks, batch): (usize, usize),
    aim: f64,
) -> Result<()> {
    let dir = tempfile::tempdir_in(&plan.dir)?;
    let subject = Subject::open(plan, &dir.path().join("engine"), sync)?;
    let (name, worker) = (queue("bench"), worker());
    let work = |span: Duration| {
        let (name, worker) = (name.clone(), worker.clone());
        subject.run(span, tasks, move |engine| {
            let (name, worker) = (name.clone(), worker.clone());
            async move { mixed(&engine, &name, batch, &worker).await }
        })
    };
    // Until segments are used again, and to learn how much it writes.
    let warm = work(plan.span)?;
    let shape = Shape::of(&warm, sync);
    let mut log = RawLog::new(&dir.path().join("raw"), plan.segment, shape)?;
    let mut sides = vec![
        Side::new("auxo embedded"),
        Side::new(format!("raw log, {} groups per {BATCH} jobs", shape.writes)),
    ];
    if shape.sync {
        sides.push(Side::new(format!("raw log, 2 groups per {BATCH} jobs")));
    }
    for round in 0..plan.rounds {
        for turn in 0..sides.len() {
            let side = (turn + round) % sides.len();
            host::settle(dir.path())?;
            let sample = match side {
                0 => work(plan.span)?,
                1 => log.run(plan.span, shape)?,
                _ => log.run(plan.span, shape.ideal())?,
            };
            sides[side].samples.push(sample);
        }
    }
    heading(title);
    print_columns();
    sides.iter().for_each(print_side);
    let (ours, raw) = (&sides[0], &sides[1]);
    verdict("ratio", ours.ratio(raw), "", Aim::AtLeast(aim));
    if let Some(ideal) = sides.get(2) {
        println!(
            "  ratio to the fewest groups there can be: {:.3}",
            ours.ratio(ideal)
        );
    }
    Ok(())
}

/// What the raw log does for each batch.
#[derive(Clone, Copy)]
struct Shape {
    /// Bytes of one record, which stands for one job.
    record: usize,
    /// Writes per 128 jobs.
    writes: usize,
    /// Whether each write is synced.
    sync: bool,
}

impl Shape {
    /// As many bytes per job as the engine writes. Without syncs as many writes; with syncs as many groups, each written
    /// and synced.
    fn of(sample: &Sample, sync: Sync) -> Shape {
        let batches = (sample.jobs as f64 / BATCH as f64).max(1.0);
        let always = sync == Sync::Always;
        let writes = if always {
            sample.io.syncs
        } else {
            sample.io.writes
        };
        Shape {
            record: (sample.io.bytes as f64 / sample.jobs.max(1) as f64).round() as usize,
            writes: ((writes as f64 / batches).round() as usize).clamp(1, BATCH),
            sync: always,
        }
    }

    /// The fewest groups there can be: all pushes of a batch in one, all acks in another.
    fn ideal(self) -> Shape {
        Shape { writes: 2, ..self }
    }
}

struct RawLog {
    files: Vec<File>,
    size: u64,
    file: usize,
    offset: u64,
    payload: Arc<[u8]>,
    buffer: Vec<u8>,
    io: Io,
}

impl RawLog {
    fn new(dir: &Path, size: u64, shape: Shape) -> Result<RawLog> {
        std::fs::create_dir(dir)?;
        let mut files = Vec::new();
        let zeros = vec![0; 1 << 20];
        for number in 0..FILES {
            let file = File::options()
                .read(true)
                .write(true)
                .create_new(true)
                .open(dir.join(number.to_string()))?;
            // Written once, because the engine's files are used again as well.
            for at in (0..size).step_by(zeros.len()) {
                file.write_all_at(&zeros, at)?;
            }
            file.sync_all()?;
            files.push(file);
        }
        Ok(RawLog {
            files,
            size,
            file: 0,
            offset: 0,
            payload: vec![b'x'; shape.record].into(),
            buffer: Vec::with_capacity(shape.record * BATCH),
            io: Io::default(),
        })
    }

    fn run(&mut self, span: Duration, shape: Shape) -> Result<Sample> {
        let watch = Watch::start(self.io);
        let end = Instant::now() + span;
        let mut jobs = 0;
        while Instant::now() < end {
            let mut left = BATCH;
            for write in 0..shape.writes {
                let records = left / (shape.writes - write);
                left -= records;
                self.append(records, shape)?;
            }
            jobs += BATCH as u64;
        }
        Ok(watch.stop(jobs, self.io))
    }

    fn append(&mut self, records: usize, shape: Shape) -> Result<()> {
        const HEAD: usize = 8;
        self.buffer.clear();
        let body = &self.payload[HEAD..];
        for _ in 0..records {
            let start = self.buffer.len();
            self.buffer
                .extend_from_slice(&(body.len() as u32).to_le_bytes());
            self.buffer.extend_from_slice(&[0; 4]);
            self.buffer.extend_from_slice(body);
            let crc = crc32c::crc32c(&self.buffer[start + HEAD..]);
            self.buffer[start + 4..start + HEAD].copy_from_slice(&crc.to_le_bytes());
        }
        if self.offset + self.buffer.len() as u64 > self.size {
            self.file = (self.file + 1) % self.files.len();
            self.offset = 0;
        }
        let file = &self.files[self.file];
        file.write_all_at(&self.buffer, self.offset)?;
        self.io.bytes += self.buffer.len() as u64;
        self.io.writes += 1;
        if shape.sync {
            file.sync_data()?;
            self.io.syncs += 1;
        }
        self.offset += self.buffer.len() as u64;
        Ok(())
    }
}
