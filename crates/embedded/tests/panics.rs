//! A thread of the engine panics: whoever waits is told, nobody hangs, and nothing promised is lost.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use auxo_conformance::bench::run;
use auxo_core::job::JobSpec;
use auxo_core::{Engine, NewJob, QueueName, Result};
use auxo_embedded::disk::{Disk, DiskFile, SimDisk};
use auxo_embedded::{Embedded, Options};

const NEVER: u8 = 0;
const WRITE: u8 = 1;
const SYNC: u8 = 2;
const CREATE: u8 = 3;

/// A disk that panics when it is told to.
#[derive(Clone)]
struct Trap {
    disk: SimDisk,
    armed: Arc<AtomicU8>,
}

impl Trap {
    fn spring(&self, operation: u8) {
        assert_ne!(
            self.armed.load(Ordering::Relaxed),
            operation,
            "the trap is sprung"
        );
    }

    fn file(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(TrapFile {
            file,
            trap: self.clone(),
        })
    }
}

struct TrapFile {
    file: Arc<dyn DiskFile>,
    trap: Trap,
}

impl Disk for Trap {
    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.spring(CREATE);
        self.disk.create(name).map(|file| self.file(file))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.open(name).map(|file| self.file(file))
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

impl DiskFile for TrapFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.trap.spring(WRITE);
        self.file.write_at(offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.trap.spring(SYNC);
        self.file.sync()
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.file.allocate(len)
    }
}

const SMALL: usize = 500;
/// So much that the core thread writes it and not the caller.
const LARGE: usize = 2 << 20;

async fn push(engine: &Embedded, size: usize) -> Result<()> {
    let queue = QueueName::new("q").expect("a good name");
    let spec = JobSpec {
        payload: vec![b'x'; size].into(),
        ..JobSpec::default()
    };
    engine
        .push(vec![NewJob { queue, spec }])
        .await?
        .remove(0)
        .map(drop)
}

/// Pushes until the trap is sprung; answers how many pushes were promised.
fn promised_before(operation: u8, size: usize) -> u64 {
    let trap = Trap {
        disk: SimDisk::new(),
        armed: Arc::new(AtomicU8::new(NEVER)),
    };
    let options = || Options {
        segment_size: 64 << 10,
        ..Options::default()
    };
    let promised = run(async {
        let engine = Embedded::on(Arc::new(trap.clone()), options()).expect("a new store");
        let mut promised = 0;
        for _ in 0..10 {
            push(&engine, SMALL).await.expect("a push");
            promised += 1;
        }
        trap.armed.store(operation, Ordering::Relaxed);
        let told = tokio::time::timeout(Duration::from_secs(30), async {
            while push(&engine, size).await.is_ok() {
                promised += 1;
            }
            // Callers are let go while the thread unwinds; that it is over shows right after.
            while engine.health().is_ok() {
                tokio::task::yield_now().await;
            }
        });
        told.await.expect("whoever waits is told");
        push(&engine, SMALL).await.expect_err("a stopped store");
        let closed = tokio::time::timeout(Duration::from_secs(30), engine.close()).await;
        assert!(closed.expect("closing does not hang").is_err());
        promised
    });
    trap.armed.store(NEVER, Ordering::Relaxed);
    let engine =
        Embedded::on(Arc::new(trap.disk.kill()), options()).expect("the store opens again");
    let books = run(engine.queues(None)).expect("queues")[0].books;
    assert!(books.accepted >= promised, "{promised} promised, {books:?}");
    promised
}

#[test]
fn a_panic_in_a_caller_is_told_to_everybody() {
    assert_eq!(promised_before(WRITE, SMALL), 10);
}

#[test]
fn a_panic_of_the_core_thread_is_told_to_everybody() {
    assert_eq!(promised_before(WRITE, LARGE), 10);
}

#[test]
fn a_panic_of_the_sync_thread_is_told_to_everybody() {
    assert_eq!(promised_before(SYNC, SMALL), 10);
}

#[test]
fn a_panic_of_the_maintenance_thread_is_told_to_everybody() {
    assert!(promised_before(CREATE, SMALL) >= 10);
}
