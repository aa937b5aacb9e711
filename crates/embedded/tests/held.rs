//! A disk whose syncs are held until the test lets them go: what happens meanwhile, and afterwards.

use std::future::Future;
use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use auxo_conformance::bench::run;
use auxo_core::clock::ManualClock;
use auxo_core::engine::{Ask, Outcome, Pick, Settle};
use auxo_core::job::JobSpec;
use auxo_core::{Engine, NewJob, QueueName};
use auxo_embedded::disk::{Disk, DiskFile, SimDisk};
use auxo_embedded::{Embedded, Options, Sync};

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Gate {
    #[default]
    Open,
    /// The next sync of a segment waits here.
    Shut,
    /// A sync waits.
    Reached,
    /// It and all later ones fail.
    Broken,
    /// Writes fail.
    Refused,
}

/// A disk with a gate before the syncs of segments.
#[derive(Clone, Default)]
struct Held {
    disk: SimDisk,
    gate: Arc<(Mutex<Gate>, Condvar)>,
}

impl Held {
    fn set(&self, gate: Gate) {
        *self.gate.0.lock().unwrap() = gate;
        self.gate.1.notify_all();
    }

    fn until(&self, wanted: Gate) {
        let gate = self.gate.0.lock().unwrap();
        drop(
            self.gate
                .1
                .wait_while(gate, |gate| *gate != wanted)
                .unwrap(),
        );
    }

    fn pass(&self) -> io::Result<()> {
        let mut gate = self.gate.0.lock().unwrap();
        if *gate == Gate::Shut {
            *gate = Gate::Reached;
            self.gate.1.notify_all();
        }
        let waits = |gate: &mut Gate| *gate == Gate::Reached;
        match *self.gate.1.wait_while(gate, waits).unwrap() {
            Gate::Broken => Err(io::Error::other("broken")),
            _ => Ok(()),
        }
    }

    fn file(&self, name: &str, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        let segment = name.ends_with(".log");
        let held = self.clone();
        Arc::new(HeldFile {
            file,
            segment,
            held,
        })
    }
}

struct HeldFile {
    file: Arc<dyn DiskFile>,
    segment: bool,
    held: Held,
}

impl Disk for Held {
    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.create(name).map(|file| self.file(name, file))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.open(name).map(|file| self.file(name, file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.disk.sync_dir()
    }
}

impl DiskFile for HeldFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if self.segment && *self.held.gate.0.lock().unwrap() == Gate::Refused {
            return Err(io::Error::other("refused"));
        }
        self.file.write_at(offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        if self.segment {
            self.held.pass()?;
        }
        self.file.sync()
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.file.allocate(len)
    }
}

fn job() -> NewJob {
    NewJob {
        queue: QueueName::new("q").unwrap(),
        spec: JobSpec::default(),
    }
}

fn one() -> Ask {
    Ask {
        queues: vec![QueueName::new("q").unwrap()],
        job: None,
        pick: Pick::First,
        max: 1,
        wait: Duration::ZERO,
        ttr: None,
        worker: "w".into(),
    }
}

fn open(held: &Held, sync: Sync, clock: Option<Arc<ManualClock>>) -> Arc<Embedded> {
    let options = Options {
        sync,
        clock: clock.map(|clock| clock as _),
        ..Options::default()
    };
    Arc::new(Embedded::on(Arc::new(held.clone()), options).expect("a new store"))
}

#[test]
fn a_second_close_is_answered_when_the_first_one_is_over() {
    let held = Held::default();
    let engine = open(&held, Sync::Os, None);
    run(engine.push(vec![job()])).expect("a push");
    held.set(Gate::Shut);
    let other = engine.clone();
    let first = std::thread::spawn(move || run(other.close()));
    held.until(Gate::Reached);
    let mut second = std::pin::pin!(engine.close());
    let asked = second
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()));
    assert!(
        asked == Poll::Pending,
        "the last sync is under way: {asked:?}"
    );
    held.set(Gate::Broken);
    first.join().unwrap().expect_err("the last sync failed");
    run(second).expect_err("the last sync failed");
    run(engine.close()).expect_err("the last sync failed");
}

#[test]
fn an_ack_in_time_counts_though_the_disk_takes_an_hour() {
    let held = Held::default();
    let clock = ManualClock::at(1_700_000_000_000);
    let engine = open(&held, Sync::Always, Some(clock.clone()));
    run(engine.push(vec![job()])).expect("a push");
    let token = run(engine.lease(one())).expect("a lease").remove(0).token;
    held.set(Gate::Shut);
    let other = engine.clone();
    let ack = Settle {
        token,
        outcome: Outcome::Ack { result: None },
    };
    let acked = std::thread::spawn(move || run(other.settle(vec![ack])));
    held.until(Gate::Reached);
    clock.advance(Duration::from_secs(3600));
    assert_eq!(run(engine.lease(one())).expect("a lease"), []);
    held.set(Gate::Open);
    let settled = acked.join().unwrap().expect("an answer");
    assert!(settled[0].is_ok(), "{settled:?}");
}

/// The processor time that the sync threads of this process have used, in ticks.
#[cfg(target_os = "linux")]
fn ticks(thread: &str) -> u64 {
    let mut ticks = 0;
    for task in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        let Ok(stat) = std::fs::read_to_string(task.path().join("stat")) else {
            continue;
        };
        let (name, rest) = stat.rsplit_once(')').unwrap();
        if name.ends_with(thread) {
            let fields: Vec<&str> = rest.split_whitespace().collect();
            ticks += fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        }
    }
    ticks
}

#[cfg(target_os = "linux")]
#[test]
fn the_sync_thread_of_a_stopped_store_sleeps() {
    let held = Held::default();
    let engine = open(&held, Sync::Interval(Duration::from_millis(1)), None);
    held.set(Gate::Shut);
    run(engine.push(vec![job()])).expect("a push");
    held.until(Gate::Reached);
    // A write while the sync is under way leaves something to sync; then the disk fails.
    run(engine.push(vec![job()])).expect("a push");
    held.set(Gate::Refused);
    run(engine.push(vec![job()])).expect_err("a refused write");
    let (mut worked, before) = (0_u64, ticks("auxo-sync"));
    let began = ticks("");
    // As long as this thread works for half a second, the other would as well.
    while ticks("") - began < 50 {
        worked = std::hint::black_box(worked.wrapping_mul(31).wrapping_add(1));
    }
    let used = ticks("auxo-sync") - before;
    assert!(used < 10, "it used {used} ticks of 50");
}
