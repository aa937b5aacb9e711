//! Instants and due times, in milliseconds.
//!
//! An engine reads two clocks. The *wall* clock is what people mean by "tomorrow at nine"; it can be stepped. The *steady*
//! clock starts at the wall clock's value when the engine opens and from then on only counts elapsed time, so no step of
//! the wall clock ends a lease early or shortens a delay. Each due time says which of the two it follows.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::error::Error;
use crate::text;

/// Milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// The instant `by` later, or the end of time if there is none.
    pub fn plus(self, by: Duration) -> Timestamp {
        Timestamp(self.0.saturating_add(millis(by)))
    }

    /// The instant `by` earlier, or the epoch if there is none.
    pub fn minus(self, by: Duration) -> Timestamp {
        Timestamp(self.0.saturating_sub(millis(by)))
    }

    /// How long after `earlier` this is; zero when it is not later.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl From<SystemTime> for Timestamp {
    /// The same instant in whole milliseconds; one before the epoch becomes the epoch.
    fn from(time: SystemTime) -> Timestamp {
        Timestamp(millis(time.duration_since(UNIX_EPOCH).unwrap_or_default()))
    }
}

impl FromStr for Timestamp {
    type Err = Error;

    /// RFC 3339, or milliseconds since the epoch.
    fn from_str(text: &str) -> Result<Timestamp, Error> {
        text::parse_timestamp(text)
    }
}

impl fmt::Display for Timestamp {
    /// RFC 3339 in UTC; an instant outside the calendar is shown as its milliseconds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match i64::try_from(self.0)
            .ok()
            .and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok())
        {
            Some(instant) => write!(f, "{instant:.3}"),
            None => write!(f, "{}", self.0),
        }
    }
}

/// A duration as whole milliseconds, at most `u64::MAX`.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// One reading of an engine's two clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Counts elapsed time since the engine opened, whatever happens to the wall clock.
    pub steady: Timestamp,
    /// What the wall clock shows.
    pub wall: Timestamp,
    /// The end of the millisecond that `steady` is the beginning of. What is to last a given time is counted from here, so that
    /// it is never cut short. A clock that only moves by whole milliseconds shows the same as `steady`.
    pub ceiling: Timestamp,
}

impl Now {
    /// Both clocks at the same value, as right after an engine opened.
    pub fn at(ms: u64) -> Now {
        Now {
            steady: Timestamp(ms),
            wall: Timestamp(ms),
            ceiling: Timestamp(ms),
        }
    }

    /// The reading of the clock that `base` names.
    pub fn of(&self, base: Base) -> Timestamp {
        match base {
            Base::Steady => self.steady,
            Base::Wall => self.wall,
        }
    }

    /// Whether the due time has come.
    pub fn reached(&self, due: Due) -> bool {
        due.at <= self.of(due.base)
    }

    /// How long until the due time, zero when it has come.
    pub fn until(&self, due: Due) -> Duration {
        due.at.since(self.of(due.base))
    }

    /// The due time as the wall clock will show it, if nobody steps it again.
    pub fn on_wall(&self, due: Due) -> Timestamp {
        match due.base {
            Base::Wall => due.at,
            Base::Steady => Timestamp(
                due.at
                    .0
                    .saturating_add(self.wall.0)
                    .saturating_sub(self.steady.0),
            ),
        }
    }

    /// The due time as the steady clock will show it, if nobody steps the wall clock again.
    pub fn on_steady(&self, due: Due) -> Timestamp {
        match due.base {
            Base::Steady => due.at,
            Base::Wall => Timestamp(
                due.at
                    .0
                    .saturating_add(self.steady.0)
                    .saturating_sub(self.wall.0),
            ),
        }
    }
}

/// The clock a due time follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Base {
    /// Elapsed time: leases, delays, retries.
    Steady,
    /// The calendar: `run_at`, `expires_at`, schedules.
    Wall,
}

/// A moment and the clock that decides when it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Due {
    /// The moment on that clock.
    pub at: Timestamp,
    /// The clock.
    pub base: Base,
}

/// When a caller wants something to happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum When {
    /// At once.
    #[default]
    Now,
    /// After this long, by the steady clock.
    After(Duration),
    /// At this instant, by the wall clock.
    At(Timestamp),
}

impl When {
    /// Fixes the wish to a due time.
    pub fn due(self, now: Now) -> Due {
        match self {
            When::Now => Due {
                at: now.steady,
                base: Base::Steady,
            },
            When::After(delay) if delay.is_zero() => When::Now.due(now),
            When::After(delay) => Due {
                at: now.ceiling.plus(delay),
                base: Base::Steady,
            },
            When::At(at) => Due {
                at,
                base: Base::Wall,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_read_from_the_system_and_from_text() {
        let second = UNIX_EPOCH + Duration::from_micros(1_000_900);
        assert_eq!(Timestamp::from(second), Timestamp(1_000));
        let early = UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(Timestamp::from(early), Timestamp(0));
        assert_eq!("1970-01-01T00:00:01Z".parse(), Ok(Timestamp(1_000)));
        assert!("soon".parse::<Timestamp>().is_err());
    }

    #[test]
    fn a_step_of_the_wall_clock_moves_absolute_times_only() {
        let relative = When::After(Duration::from_secs(10)).due(Now::at(1_000));
        let absolute = When::At(Timestamp(11_000)).due(Now::at(1_000));
        let stepped = Now {
            ceiling: Timestamp(2_000),
            steady: Timestamp(2_000),
            wall: Timestamp(3_602_000),
        };
        assert!(!stepped.reached(relative));
        assert!(stepped.reached(absolute));
        assert_eq!(stepped.on_wall(relative), Timestamp(3_611_000));
    }

    #[test]
    fn a_delay_is_counted_from_the_end_of_a_millisecond_that_has_begun() {
        let now = Now {
            ceiling: Timestamp(1_001),
            ..Now::at(1_000)
        };
        assert_eq!(
            When::After(Duration::from_millis(300)).due(now).at,
            Timestamp(1_301)
        );
        assert_eq!(When::After(Duration::ZERO).due(now).at, Timestamp(1_000));
    }

    #[test]
    fn a_timestamp_reads_as_rfc_3339() {
        assert_eq!(
            Timestamp(1_700_000_000_123).to_string(),
            "2023-11-14T22:13:20.123Z"
        );
        assert_eq!(Timestamp(u64::MAX).to_string(), u64::MAX.to_string());
    }
}
