//! What do queue semantics cost? Mixed work against appending as many bytes, with as many writes, to a log that is
//! nothing else: checksummed records.
//!
//! The raw log comes in two kinds. One grows its file, as a log does to which records are just appended. The other writes
//! over the same few files again and again, as the engine does: their pages stay in the cache, and a write is a copy.

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
    let raw = dir.path().join("raw");
    std::fs::create_dir(&raw)?;
    let mut again = RawLog::again(&raw, plan.segment, shape)?;
    let mut rivals = vec![
        Rival::new("growing", Kind::Growing, shape),
        Rival::new("used again", Kind::Again, shape),
    ];
    if shape.sync && shape.writes != shape.ideal().writes {
        rivals.push(Rival::new("used again", Kind::Again, shape.ideal()));
    }
    let mut ours = Side::new("auxo embedded");
    for round in 0..plan.rounds {
        for turn in 0..=rivals.len() {
            host::settle(dir.path())?;
            match (turn + round) % (rivals.len() + 1) {
                0 => ours.samples.push(work(plan.span)?),
                side => {
                    let rival = &mut rivals[side - 1];
                    let sample = match rival.kind {
                        Kind::Again => again.run(plan.span, rival.shape)?,
                        Kind::Growing => {
                            RawLog::growing(&raw, rival.shape)?.run(plan.span, rival.shape)?
                        }
                    };
                    rival.side.samples.push(sample);
                }
            }
        }
    }
    heading(title);
    print_columns();
    print_side(&ours);
    rivals.iter().for_each(|rival| print_side(&rival.side));
    for rival in &rivals {
        let what = format!("ratio to {}", rival.side.name);
        verdict(&what, ours.ratio(&rival.side), "", Aim::AtLeast(aim));
    }
    Ok(())
}

/// A kind of raw log.
#[derive(Clone, Copy)]
enum Kind {
    Growing,
    Again,
}

/// A raw log to be measured against.
struct Rival {
    kind: Kind,
    shape: Shape,
    side: Side,
}

impl Rival {
    fn new(name: &str, kind: Kind, shape: Shape) -> Rival {
        let side = Side::new(format!("raw log, {name}, {} groups", shape.writes));
        Rival { kind, shape, side }
    }
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

    /// The fewest groups of 128 jobs there can be: all pushes in one, all acks in another.
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
    /// One that writes over the same files.
    fn again(dir: &Path, size: u64, shape: Shape) -> Result<RawLog> {
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
        Ok(RawLog::on(files, size, shape))
    }

    /// One that grows a file, which is gone when the log is.
    fn growing(dir: &Path, shape: Shape) -> Result<RawLog> {
        Ok(RawLog::on(
            vec![tempfile::tempfile_in(dir)?],
            u64::MAX,
            shape,
        ))
    }

    fn on(files: Vec<File>, size: u64, shape: Shape) -> RawLog {
        RawLog {
            files,
            size,
            file: 0,
            offset: 0,
            payload: vec![b'x'; shape.record].into(),
            buffer: Vec::with_capacity(shape.record * BATCH),
            io: Io::default(),
        }
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
