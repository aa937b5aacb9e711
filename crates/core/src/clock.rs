//! Where engines get the time from. Production reads the machine's clocks; tests turn a [`ManualClock`] by hand.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::time::{Now, Timestamp, millis};

/// A source of time that an engine can also sleep by.
pub trait Clock: Send + Sync + 'static {
    /// Reads both clocks.
    fn now(&self) -> Now;

    /// How long a thread may really sleep when nothing happens for `wait` on the steady clock. `None` means until woken:
    /// the time only moves by hand.
    fn real_wait(&self, wait: Duration) -> Option<Duration>;

    /// Calls `wake` whenever the time was moved by hand. A clock that runs by itself never calls it.
    fn on_move(&self, wake: Arc<dyn Fn() + Send + Sync>);
}

/// The machine's own clocks.
#[derive(Debug)]
pub struct SystemClock {
    opened: Instant,
    anchor: Timestamp,
}

impl SystemClock {
    /// Anchors the steady clock to the wall clock as it is now, or to `not_before` if the wall clock is behind it: what
    /// was written before a restart must not lie in the future afterwards.
    pub fn new(not_before: Timestamp) -> SystemClock {
        SystemClock {
            opened: Instant::now(),
            anchor: wall().max(not_before),
        }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Now {
        let elapsed = self.opened.elapsed();
        let steady = self.anchor.plus(elapsed);
        Now {
            steady,
            wall: wall(),
            ceiling: Timestamp(steady.0.saturating_add(1)),
        }
    }

    fn real_wait(&self, wait: Duration) -> Option<Duration> {
        // The wait was reckoned in whole milliseconds, and a part of this one is over.
        let part =
            Duration::from_nanos(u64::from(self.opened.elapsed().subsec_nanos() % 1_000_000));
        Some(wait.saturating_sub(part).max(Duration::from_nanos(1)))
    }

    fn on_move(&self, _wake: Arc<dyn Fn() + Send + Sync>) {}
}

fn wall() -> Timestamp {
    Timestamp(
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map(millis)
            .unwrap_or(0),
    )
}

/// A clock for tests: it stands still until it is moved, and then tells whoever sleeps by it.
#[derive(Default)]
pub struct ManualClock {
    now: Mutex<Now>,
    wakes: Mutex<Vec<Arc<dyn Fn() + Send + Sync>>>,
}

impl ManualClock {
    /// A clock that shows `ms` on both faces.
    pub fn at(ms: u64) -> Arc<ManualClock> {
        Arc::new(ManualClock {
            now: Mutex::new(Now::at(ms)),
            wakes: Mutex::default(),
        })
    }

    /// Lets time pass.
    pub fn advance(&self, by: Duration) {
        self.set(|now| Now {
            steady: now.steady.plus(by),
            ceiling: now.ceiling.plus(by),
            wall: now.wall.plus(by),
        });
    }

    /// Steps the wall clock forward without time passing.
    pub fn step_wall_forward(&self, by: Duration) {
        self.set(|now| Now {
            wall: now.wall.plus(by),
            ..now
        });
    }

    /// Steps the wall clock back without time passing.
    pub fn step_wall_back(&self, by: Duration) {
        self.set(|now| Now {
            wall: now.wall.minus(by),
            ..now
        });
    }

    fn set(&self, change: impl FnOnce(Now) -> Now) {
        let mut now = self.now.lock().expect("clock");
        *now = change(*now);
        drop(now);
        let wakes = self.wakes.lock().expect("clock").clone();
        wakes.iter().for_each(|wake| wake());
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Now {
        *self.now.lock().expect("clock")
    }

    fn real_wait(&self, _wait: Duration) -> Option<Duration> {
        None
    }

    fn on_move(&self, wake: Arc<dyn Fn() + Send + Sync>) {
        self.wakes.lock().expect("clock").push(wake);
    }
}
