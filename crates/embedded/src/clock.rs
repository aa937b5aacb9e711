//! The clocks of a store on a machine's own time.
//!
//! The steady clock counts the time since the machine was started, sleep included, from a point that is kept in the store. So it
//! goes on over restarts: what is set with the wall clock while nobody has the store open ends no lease and shortens no delay. A
//! point is good for one boot of the machine. In the next one nothing but the wall clock tells how long the machine was off, and
//! the steady clock begins there, or where it stood if the wall clock is behind that.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use auxo_core::clock::Clock;
use auxo_core::time::{Now, Timestamp, millis};

/// What a machine knows of the time.
pub trait TimeSource: Send + Sync + 'static {
    /// The wall clock, since the Unix epoch.
    fn wall(&self) -> Duration;
    /// How long the machine has been running, its sleep included. Nobody can set it.
    fn uptime(&self) -> Duration;
    /// Names this boot of the machine; `None` where that is not known.
    fn boot(&self) -> Option<String>;
}

/// The time of the machine that this process runs on.
#[derive(Debug, Default)]
pub struct MachineTime;

impl TimeSource for MachineTime {
    fn wall(&self) -> Duration {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
    }

    fn uptime(&self) -> Duration {
        #[cfg(target_os = "linux")]
        let clock = rustix::time::ClockId::Boottime;
        #[cfg(not(target_os = "linux"))]
        let clock = rustix::time::ClockId::Monotonic;
        let time = rustix::time::clock_gettime(clock);
        let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
        Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
    }

    fn boot(&self) -> Option<String> {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let id = id.trim();
        (!id.is_empty() && id.len() <= 64).then(|| id.to_owned())
    }
}

/// Where the steady clock stands in one boot of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boot {
    /// Names the boot.
    pub id: String,
    /// What the steady clock showed when the machine was started.
    pub began: Duration,
}

/// The clocks of an open store.
pub struct StoreClock {
    source: Arc<dyn TimeSource>,
    began: Duration,
    /// By how many nanoseconds the wall clock is taken to be before the steady one: whole milliseconds.
    lead: AtomicI64,
}

const NANOS_PER_MS: i64 = 1_000_000;
/// Two clocks cannot be read at once. A difference that changed by fewer nanoseconds than this has not changed.
const NO_STEP: u64 = NANOS_PER_MS.unsigned_abs();
/// How often the clocks are read before a thread that is stopped again and again takes what it has read.
const READINGS: u32 = 10;

impl StoreClock {
    /// Goes on where the store says that the steady clock stands, if that was in this boot, and never before `not_before`:
    /// what was written before must not lie in the future. Also answers what the store is to say from now on.
    pub fn resume(
        source: Arc<dyn TimeSource>,
        last: Option<&Boot>,
        not_before: Timestamp,
    ) -> (StoreClock, Option<Boot>) {
        let (id, wall, uptime) = (source.boot(), source.wall(), source.uptime());
        let resumed = last.filter(|last| Some(&last.id) == id.as_ref());
        let began = match resumed {
            Some(last) => last.began,
            None => wall.saturating_sub(uptime),
        };
        let behind =
            Duration::from_millis(not_before.0).saturating_sub(began.saturating_add(uptime));
        let began = began.saturating_add(behind);
        let clock = StoreClock {
            source,
            began,
            lead: AtomicI64::new(0),
        };
        (clock, id.map(|id| Boot { id, began }))
    }

    fn steady(&self) -> Duration {
        self.began.saturating_add(self.source.uptime())
    }

    /// Both clocks at one instant. They are whole milliseconds apart, so that both begin a new one at once and times on one can
    /// be compared with times on the other.
    fn both(&self) -> (Duration, Duration) {
        let known = self.lead.load(Ordering::Relaxed);
        let mut tries = 0;
        loop {
            let steady = self.steady();
            let lead = nanos_between(self.source.wall(), steady);
            if lead.abs_diff(known) < NO_STEP {
                return (steady, shifted(steady, known));
            }
            // The wall clock was set, or this thread was stopped between the two readings.
            tries += 1;
            if nanos_between(self.steady(), steady).unsigned_abs() < NO_STEP || tries == READINGS {
                let lead = lead
                    .saturating_add(NANOS_PER_MS / 2)
                    .div_euclid(NANOS_PER_MS);
                let lead = lead.saturating_mul(NANOS_PER_MS);
                self.lead.store(lead, Ordering::Relaxed);
                return (steady, shifted(steady, lead));
            }
        }
    }
}

impl Clock for StoreClock {
    fn now(&self) -> Now {
        let (steady, wall) = self.both();
        let steady = Timestamp(millis(steady));
        Now {
            steady,
            wall: Timestamp(millis(wall)),
            ceiling: Timestamp(steady.0.saturating_add(1)),
        }
    }

    fn real_wait(&self, wait: Duration) -> Option<Duration> {
        // The wait was reckoned in whole milliseconds, and a part of this one is over.
        let part = Duration::from_nanos(u64::from(self.steady().subsec_nanos() % 1_000_000));
        Some(wait.saturating_sub(part).max(Duration::from_nanos(1)))
    }

    fn on_move(&self, _wake: Arc<dyn Fn() + Send + Sync>) {}
}

/// The time so many nanoseconds later, or earlier.
fn shifted(time: Duration, nanos: i64) -> Duration {
    let by = Duration::from_nanos(nanos.unsigned_abs());
    if nanos < 0 {
        time.saturating_sub(by)
    } else {
        time.saturating_add(by)
    }
}

/// How many nanoseconds `a` is before `b`, at most some centuries.
fn nanos_between(a: Duration, b: Duration) -> i64 {
    let nanos = |time: Duration| i128::try_from(time.as_nanos()).unwrap_or(i128::MAX);
    let between = nanos(a) - nanos(b);
    i64::try_from(between).unwrap_or(if between < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// A machine whose clocks move while they are read, as those of a busy one do.
    struct Busy {
        uptime: Mutex<Duration>,
        /// How much passes with each reading.
        step: Duration,
        ahead: Duration,
    }

    impl Busy {
        fn new(step: Duration, ahead: Duration) -> Arc<Busy> {
            Arc::new(Busy {
                uptime: Mutex::new(Duration::from_secs(7)),
                step,
                ahead,
            })
        }
    }

    impl TimeSource for Busy {
        fn wall(&self) -> Duration {
            self.uptime() + self.ahead
        }

        fn uptime(&self) -> Duration {
            let mut uptime = self.uptime.lock().expect("the time");
            *uptime += self.step;
            *uptime
        }

        fn boot(&self) -> Option<String> {
            Some("boot".into())
        }
    }

    fn resumed(step: Duration, ahead: Duration) -> StoreClock {
        let last = Boot {
            id: "boot".into(),
            began: Duration::from_millis(1_700_000_000_000),
        };
        let ahead = last.began + ahead;
        StoreClock::resume(Busy::new(step, ahead), Some(&last), Timestamp(0)).0
    }

    #[test]
    fn both_clocks_begin_a_millisecond_at_once_however_they_were_set() {
        for ahead in [0, 400, 999_999, 1_000_000, 3_600_000_123_456] {
            let clock = resumed(Duration::from_nanos(70_001), Duration::from_nanos(ahead));
            let first = clock.now();
            for _ in 0..1_000 {
                let now = clock.now();
                let (steady, wall) = (now.steady.0, now.wall.0);
                assert_eq!(wall - first.wall.0, steady - first.steady.0, "{ahead}");
            }
            assert!(first.wall.0.abs_diff(first.steady.0 + ahead / 1_000_000) <= 1);
        }
    }

    #[test]
    fn a_thread_that_is_stopped_between_two_readings_has_an_end() {
        let clock = resumed(Duration::from_millis(5), Duration::ZERO);
        let now = clock.now();
        assert!(now.wall.0.abs_diff(now.steady.0) <= 10, "{now:?}");
    }
}
