//! The wall clock is set while the store is closed. What was promised in elapsed time is counted by the machine's uptime, as
//! long as the machine was not started anew.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use auxo_conformance::bench::{asking, keyed, later, plain, queue, run, secs};
use auxo_core::engine::{Engine, Pushed};
use auxo_core::job::{Leased, OnDuplicate};
use auxo_core::{JobSpec, NewJob};
use auxo_embedded::disk::SimDisk;
use auxo_embedded::{Embedded, Options, TimeSource, salvage_disks};

const HOUR: Duration = secs(3600);

/// The time of a machine that a test can set, and start anew.
#[derive(Clone)]
struct Machine(Arc<Mutex<Time>>);

struct Time {
    wall: Duration,
    uptime: Duration,
    boot: Option<u32>,
}

impl Machine {
    fn new(boot: Option<u32>) -> Machine {
        Machine(Arc::new(Mutex::new(Time {
            wall: Duration::from_millis(1_700_000_000_000),
            uptime: secs(500),
            boot,
        })))
    }

    fn set(&self, change: impl FnOnce(&mut Time)) {
        change(&mut self.0.lock().expect("the time"));
    }

    fn pass(&self, by: Duration) {
        self.set(|time| {
            time.wall += by;
            time.uptime += by;
        });
    }

    /// Turns it off for a while.
    fn reboot(&self, off: Duration) {
        self.set(|time| {
            time.wall += off;
            time.uptime = secs(10);
            time.boot = time.boot.map(|boot| boot + 1);
        });
    }
}

impl TimeSource for Machine {
    fn wall(&self) -> Duration {
        self.0.lock().expect("the time").wall
    }

    fn uptime(&self) -> Duration {
        self.0.lock().expect("the time").uptime
    }

    fn boot(&self) -> Option<String> {
        let boot = self.0.lock().expect("the time").boot;
        boot.map(|boot| format!("boot {boot}"))
    }
}

struct Store {
    disk: SimDisk,
    machine: Machine,
    engine: Embedded,
}

impl Store {
    fn new(boot: Option<u32>) -> Store {
        Store::open(SimDisk::new(), Machine::new(boot))
    }

    fn open(disk: SimDisk, machine: Machine) -> Store {
        let options = Options {
            segment_size: 64 << 10,
            time_source: Some(Arc::new(machine.clone())),
            ..Options::default()
        };
        let engine = Embedded::on(Arc::new(disk.clone()), options).expect("the store opens");
        Store {
            disk,
            machine,
            engine,
        }
    }

    /// Closes the store, lets something happen, and opens it again.
    async fn closed(self, meanwhile: impl FnOnce(&Machine)) -> Store {
        self.engine.close().await.expect("the store closes");
        meanwhile(&self.machine);
        Store::open(self.disk, self.machine)
    }

    /// The same, but the process is killed.
    async fn killed(self, meanwhile: impl FnOnce(&Machine)) -> Store {
        let image = self.disk.kill();
        self.engine.close().await.expect("the store closes");
        meanwhile(&self.machine);
        Store::open(image, self.machine)
    }

    /// The same, and what is opened again is a copy that a salvage made.
    async fn salvaged(self, meanwhile: impl FnOnce(&Machine)) -> Store {
        self.engine.close().await.expect("the store closes");
        meanwhile(&self.machine);
        let copy = SimDisk::new();
        let report = salvage_disks(&self.disk, Arc::new(copy.clone()), 64 << 10);
        assert_eq!(report.expect("a salvage").lost, [""; 0]);
        Store::open(copy, self.machine)
    }

    async fn push(&self, spec: JobSpec) -> Pushed {
        let job = NewJob {
            queue: queue(),
            spec,
        };
        let mut pushed = self.engine.push(vec![job]).await.expect("a push");
        pushed.remove(0).expect("a push")
    }

    async fn lease(&self) -> Vec<Leased> {
        let ask = asking(&[queue()], 1, Duration::ZERO);
        self.engine.lease(ask).await.expect("a lease")
    }

    /// Nothing is lent for this time, and then a job is. What lasts a given time is counted from the end of a millisecond.
    async fn lends_after(&self, wait: Duration) {
        self.machine.pass(wait);
        assert_eq!(self.lease().await, [], "early");
        self.machine.pass(Duration::from_millis(1));
        assert_eq!(self.lease().await.len(), 1, "late");
    }
}

#[test]
fn a_wall_clock_set_while_the_store_is_closed_shortens_no_delay_and_ends_no_lease() {
    run(async {
        for ahead in [true, false] {
            for killed in [true, false] {
                let set = |machine: &Machine| {
                    machine.pass(secs(1));
                    machine.set(|time| match ahead {
                        true => time.wall += HOUR,
                        false => time.wall -= HOUR,
                    });
                };
                // A delay of a minute.
                let store = Store::new(Some(1));
                store.push(later(secs(60))).await;
                let store = match killed {
                    true => store.killed(set).await,
                    false => store.closed(set).await,
                };
                store.lends_after(secs(59)).await;
                // A lease of a minute, and no second worker before that. By then a checkpoint has what is known of the clock.
                for _ in 0..100 {
                    let payload = vec![b'x'; 1_000].into();
                    let spec = JobSpec { payload, ..plain() };
                    store
                        .push(JobSpec {
                            priority: 2_000,
                            ..spec
                        })
                        .await;
                }
                let store = store.closed(set).await.closed(|_| {}).await;
                let others = asking(&[queue()], 1_000, Duration::ZERO);
                let others = store.engine.lease(others).await.expect("a lease");
                assert_eq!(others.len(), 100);
                store.lends_after(secs(59)).await;
            }
        }
    });
}

/// The log says it, or a checkpoint does when the part of the log that did is gone.
#[test]
fn a_wall_clock_set_before_a_salvage_shortens_no_delay() {
    run(async {
        for ahead in [true, false] {
            for checkpointed in [true, false] {
                let mut store = Store::new(Some(1));
                let work = async |store: &Store| {
                    for _ in 0..200 {
                        let payload = vec![b'x'; 1_000].into();
                        store.push(JobSpec { payload, ..plain() }).await;
                        let token = store.lease().await[0].token;
                        let outcome = auxo_conformance::bench::ack();
                        let settle = auxo_core::engine::Settle { token, outcome };
                        store.engine.settle(vec![settle]).await.expect("an ack");
                    }
                };
                if checkpointed {
                    work(&store).await;
                    store = store.closed(|_| {}).await;
                    let names = auxo_embedded::disk::Disk::list(&store.disk).expect("a list");
                    assert!(names.contains(&"checkpoint".to_owned()), "{names:?}");
                    assert!(!names.contains(&"0000000001.log".to_owned()), "{names:?}");
                }
                // The copy has a steady clock of its own only if it takes that of the store over.
                store.machine.set(|time| match ahead {
                    true => time.wall += HOUR,
                    false => time.wall -= HOUR,
                });
                store.push(later(secs(60))).await;
                let store = store.salvaged(|machine| machine.pass(secs(1))).await;
                store.lends_after(secs(59)).await;
            }
        }
    });
}

#[test]
fn a_wall_clock_set_while_the_store_is_closed_ends_no_key_window() {
    run(async {
        let store = Store::new(Some(1));
        let spec = JobSpec {
            ttr: Duration::ZERO,
            ..keyed("k", OnDuplicate::Return)
        };
        let first = store.push(spec.clone()).await;
        store.lease().await;
        let store = store
            .closed(|machine| machine.set(|time| time.wall += 48 * HOUR))
            .await;
        assert_eq!(store.push(spec.clone()).await.id, first.id);
        store.machine.pass(24 * HOUR);
        assert_ne!(store.push(spec).await.id, first.id);
    });
}

#[test]
fn in_another_boot_the_wall_clock_says_how_long_the_machine_was_off() {
    run(async {
        let store = Store::new(Some(1));
        store.push(later(secs(60))).await;
        let store = store.closed(|machine| machine.reboot(secs(20))).await;
        store.lends_after(secs(40)).await;
        // Behind where the steady clock stood: it stood still while the machine was off.
        store.push(later(secs(60))).await;
        let off = |machine: &Machine| {
            machine.reboot(secs(20));
            machine.set(|time| time.wall -= HOUR);
        };
        let store = store.closed(off).await;
        store.lends_after(secs(60)).await;
    });
}

#[test]
fn a_machine_that_does_not_name_its_boots_goes_by_the_wall_clock() {
    run(async {
        let store = Store::new(None);
        store.push(later(secs(60))).await;
        let store = store.closed(|machine| machine.pass(secs(20))).await;
        store.lends_after(secs(40)).await;
    });
}
