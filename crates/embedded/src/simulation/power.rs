//! The power goes before every single disk operation of a trace.

use std::io;
use std::sync::{Arc, Mutex};

use auxo_core::time::Now;

use super::load::Load;
use super::oracle::Oracle;
use super::store::Store;
use crate::disk::sim::Rng;
use crate::disk::{Disk, DiskFile, SimDisk};
use crate::options::Sync;
use crate::record::Position;

const SEGMENT: u64 = 32 << 10;
const REQUESTS: u64 = 500;
/// Power cuts per operation in which the dice decide, besides the two in which all or nothing survives.
const TORN: u64 = 2;

/// A disk that lets somebody look before anything changes.
#[derive(Clone)]
struct Tapped {
    disk: SimDisk,
    images: Arc<Mutex<Vec<SimDisk>>>,
}

impl Tapped {
    fn look(&self) {
        let image = self.disk.kill();
        self.images.lock().expect("images").push(image);
    }

    fn tap(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        let tap = self.clone();
        Arc::new(TappedFile { tap, file })
    }
}

impl Disk for Tapped {
    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.look();
        Ok(self.tap(self.disk.create(name)?))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.tap(self.disk.open(name)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.look();
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.look();
        self.disk.remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.look();
        self.disk.sync_dir()
    }
}

struct TappedFile {
    tap: Tapped,
    file: Arc<dyn DiskFile>,
}

impl DiskFile for TappedFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.tap.look();
        self.file.write_at(offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.tap.look();
        self.file.sync()
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.tap.look();
        self.file.allocate(len)
    }
}

#[derive(Debug, Default)]
struct Counts {
    requests: u64,
    operations: u64,
    power_cuts: u64,
    jobs: u64,
    segments: u32,
}

/// Opens the store after every kind of power cut that the images allow, and compares each with what was promised.
fn cut(tap: &Tapped, oracle: &Oracle, promised: Position, rng: &mut Rng, counts: &mut Counts) {
    for image in tap.images.lock().expect("images").drain(..) {
        counts.operations += 1;
        let mut ends = vec![image.crash_losing_all(), image.kill()];
        ends.extend((0..TORN).map(|_| image.crash(rng.bits())));
        for end in ends {
            counts.power_cuts += 1;
            let mut store = Store::open(end, SEGMENT, Sync::Always, 1)
                .unwrap_or_else(|error| panic!("the store does not open: {error}"));
            oracle.recognise(&mut store, promised);
        }
    }
}

#[test]
fn the_power_may_go_before_any_disk_operation() {
    let now = Now::at(1_700_000_000_000);
    let mut load = Load {
        rng: Rng::new(7),
        now,
        schedules: true,
        fair: true,
        large: 2 * SEGMENT,
    };
    let mut oracle = Oracle::new(now);
    let mut counts = Counts::default();
    let mut rng = Rng::new(8);
    let disk = SimDisk::new();
    let tap = Tapped {
        disk: disk.clone(),
        images: Arc::default(),
    };
    let face = Arc::new(tap.clone());
    let mut store = Store::open_behind(disk, face, SEGMENT, Sync::Always, 1).unwrap();
    cut(&tap, &oracle, Position::default(), &mut rng, &mut counts);
    while counts.requests < REQUESTS {
        load.pass();
        let requests = match store.machine.stalled() {
            true => Vec::new(),
            false => load.requests(&oracle),
        };
        let before = store.synced;
        counts.requests += requests.len() as u64;
        assert!(oracle.round(&mut store, load.now, requests));
        cut(&tap, &oracle, before, &mut rng, &mut counts);
        for _ in 0..load.below(4) {
            let before = store.synced;
            if load.one_in(2) {
                store.maintain();
            } else {
                store.sync().unwrap();
            }
            cut(&tap, &oracle, before, &mut rng, &mut counts);
        }
        oracle.settle(store.synced);
    }
    counts.jobs = oracle.known.len() as u64;
    counts.segments = store.written.segment;
    println!("{counts:?}, lost 0, resurrected 0");
    assert!(counts.operations > 800 && counts.segments > 5);
}
