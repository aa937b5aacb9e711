//! Recurring jobs: when the next tick is, and what a missed one leads to.
//!
//! Cron ticks follow the wall clock, interval ticks the steady one. An engine keeps the next tick with the schedule and
//! moves it in the same step that makes the job, so a tick makes at most one job. When the wall clock was set back an
//! engine asks [`Schedule::rearm`] for the next tick, so that the schedule is not silent until the clock has caught up;
//! when it was set forward the policy for missed ticks decides, so that there is no storm of old ones.

use std::str::FromStr;
use std::time::Duration;

use jiff::tz::TimeZone;

use crate::error::{Error, Result};
use crate::id::clip;
use crate::job::{JobSpec, QueueName};
use crate::text::{one_line, word};
use crate::time::{Base, Due, Now, Timestamp};

/// A tick that is later than this, or that the next one has followed, counts as missed.
pub const GRACE: Duration = Duration::from_secs(5);
/// The most jobs that one catch-up makes under [`Missed::All`]; older ticks are dropped.
pub const CATCH_UP: usize = 1000;

/// A job that is pushed again and again.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// Its unique name.
    pub name: String,
    /// Where its jobs go.
    pub queue: QueueName,
    /// When it ticks.
    pub rhythm: Rhythm,
    /// What to do about ticks that nobody was there for.
    pub missed: Missed,
    /// What it pushes.
    pub spec: JobSpec,
    /// The next tick, kept by the engine. `None` when there will be none.
    pub next: Option<Due>,
    /// The last tick that made a job, kept by the engine.
    pub last: Option<Timestamp>,
}

/// When a schedule ticks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rhythm {
    /// By the calendar.
    Cron {
        /// Five fields (or six, with seconds first), or an alias such as `@daily`.
        expression: String,
        /// The name of a time zone, such as `Europe/Berlin` or `UTC`.
        zone: String,
    },
    /// Each time this long has passed.
    Every(Duration),
}

/// What to do about ticks that are in the past when the engine gets to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missed {
    /// Nothing.
    Skip,
    /// One job for all of them.
    #[default]
    Once,
    /// One job for each, the newest [`CATCH_UP`].
    All,
}

impl Missed {
    /// Every one.
    pub const ALL: [Missed; 3] = [Missed::Skip, Missed::Once, Missed::All];

    /// The word for it, in JSON and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Missed::Skip => "skip",
            Missed::Once => "once",
            Missed::All => "all",
        }
    }
}

impl FromStr for Missed {
    type Err = Error;

    fn from_str(text: &str) -> Result<Missed> {
        word(text, &Missed::ALL, Missed::as_str)
    }
}

impl Rhythm {
    /// Checks a rhythm, so that [`Rhythm::next_after`] can be relied on.
    pub fn check(&self) -> Result<()> {
        match self {
            Rhythm::Every(period) if *period < Duration::from_millis(1) => Err(Error::bad_request(
                "every: the interval is shorter than a millisecond",
            )),
            Rhythm::Every(_) => Ok(()),
            Rhythm::Cron { expression, zone } => parse(expression, zone).map(drop),
        }
    }

    /// The first tick later than `after`, on the clock this rhythm follows.
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        self.beat()?.next_after(after)
    }

    /// The same rhythm, understood: whoever asks it for many ticks has it read once.
    fn beat(&self) -> Option<Beat> {
        Some(match self {
            Rhythm::Every(period) => Beat::Every(*period),
            Rhythm::Cron { expression, zone } => {
                let (cron, zone) = parse(expression, zone).ok()?;
                Beat::Cron(Box::new(cron), zone)
            }
        })
    }

    /// The clock that it follows.
    pub fn base(&self) -> Base {
        match self {
            Rhythm::Cron { .. } => Base::Wall,
            Rhythm::Every(_) => Base::Steady,
        }
    }
}

/// A rhythm that can be asked for its ticks.
enum Beat {
    Every(Duration),
    Cron(Box<croner::Cron>, TimeZone),
}

impl Beat {
    fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        match self {
            Beat::Every(period) => Some(after.plus(*period)),
            Beat::Cron(cron, zone) => {
                let from = jiff::Timestamp::from_millisecond(i64::try_from(after.0).ok()?).ok()?;
                let from = from.to_zoned(zone.clone());
                let next = cron.find_next_occurrence(&from, false).ok()?;
                let next = next.timestamp().as_millisecond();
                u64::try_from(next).ok().map(Timestamp)
            }
        }
    }
}

/// The most that is told of what is wrong with an expression, in bytes.
const QUOTED: usize = 200;

fn parse(expression: &str, zone: &str) -> Result<(croner::Cron, TimeZone)> {
    let cron = croner::Cron::from_str(expression).map_err(|error| {
        // What it says quotes parts of the expression as they are, however long.
        let mut error = one_line(&error.to_string());
        error.truncate(error.floor_char_boundary(QUOTED));
        Error::bad_request(format!("cron expression {:?}: {error}", clip(expression)))
    })?;
    let zone = TimeZone::get(zone).map_err(|_| {
        Error::bad_request(format!(
            "time zone {:?} is not known, try one like Europe/Berlin",
            clip(zone)
        ))
    })?;
    Ok((cron, zone))
}

/// What is to be done when a schedule's time has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tick {
    /// The ticks that make a job each, oldest first.
    pub fire: Vec<Timestamp>,
    /// The tick after them.
    pub next: Option<Due>,
}

impl Schedule {
    /// The first tick from now on.
    pub fn rearm(&self, now: Now) -> Option<Due> {
        let base = self.rhythm.base();
        self.rhythm
            .next_after(now.of(base))
            .map(|at| Due { at, base })
    }

    /// The ticks that have come, by the policy for missed ones. Asked before the next tick it fires nothing.
    pub fn tick(&self, now: Now) -> Tick {
        let Some(first) = self.next.filter(|next| now.reached(*next)) else {
            return Tick {
                fire: Vec::new(),
                next: self.next,
            };
        };
        let clock = now.of(first.base);
        let come = self.come(first.at, clock);
        // A tick that another one has followed is missed however short the time: only the newest can still be on time.
        let newest = come.last().copied();
        let on_time = |at: &Timestamp| clock.since(*at) <= GRACE;
        let fire = match self.missed {
            Missed::All => come,
            Missed::Once => newest.into_iter().collect(),
            Missed::Skip => newest.filter(on_time).into_iter().collect(),
        };
        Tick {
            fire,
            next: self.after(first, clock),
        }
    }

    /// The newest ticks from `first` to `clock`, at most [`CATCH_UP`], without walking through a year of seconds.
    fn come(&self, first: Timestamp, clock: Timestamp) -> Vec<Timestamp> {
        let Some(beat) = self.rhythm.beat() else {
            return Vec::new();
        };
        let mut from = first;
        if let Rhythm::Every(period) = self.rhythm {
            let period = crate::time::millis(period).max(1);
            let steps = (clock.0 - first.0) / period;
            from = Timestamp(first.0 + steps.saturating_sub(CATCH_UP as u64 - 1) * period);
        } else if clock.since(first) > Duration::from_secs(CATCH_UP as u64) {
            from = window_start(&beat, first, clock);
        }
        let mut ticks = Vec::new();
        let mut at = Some(from);
        while let Some(tick) = at.filter(|tick| *tick <= clock) {
            ticks.push(tick);
            at = beat.next_after(tick);
        }
        ticks.split_off(ticks.len().saturating_sub(CATCH_UP))
    }

    fn after(&self, first: Due, clock: Timestamp) -> Option<Due> {
        let at = match self.rhythm {
            // Interval ticks keep their phase.
            Rhythm::Every(period) => {
                let period = crate::time::millis(period).max(1);
                Some(Timestamp(
                    first.at.0 + ((clock.0 - first.at.0) / period + 1) * period,
                ))
            }
            Rhythm::Cron { .. } => self.rhythm.next_after(clock),
        };
        at.map(|at| Due {
            at,
            base: first.base,
        })
    }
}

/// A tick of a cron rhythm from which on there are at most about twice [`CATCH_UP`] ticks left: found by halving, as a cron
/// expression cannot be counted.
fn window_start(beat: &Beat, first: Timestamp, clock: Timestamp) -> Timestamp {
    let mut start = first;
    loop {
        let mut at = Some(start);
        for _ in 0..2 * CATCH_UP {
            at = at
                .and_then(|at| beat.next_after(at))
                .filter(|at| *at <= clock);
        }
        let Some(_) = at else { return start };
        let middle = Timestamp(start.0 + clock.since(start).as_millis() as u64 / 2);
        match beat
            .next_after(middle)
            .filter(|at| *at <= clock && *at > start)
        {
            Some(later) => start = later,
            None => return start,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(rhythm: Rhythm, missed: Missed) -> Schedule {
        let mut schedule = Schedule {
            name: "s".into(),
            queue: QueueName::new("q").unwrap(),
            rhythm,
            missed,
            spec: JobSpec::default(),
            next: None,
            last: None,
        };
        schedule.next = schedule.rearm(Now::at(1_700_000_000_000));
        schedule
    }

    fn minutely() -> Rhythm {
        Rhythm::Cron {
            expression: "* * * * *".into(),
            zone: "UTC".into(),
        }
    }

    #[test]
    fn a_missed_run_is_made_up_as_the_policy_says() {
        let hour_later = Now::at(1_700_003_600_000);
        for (missed, jobs) in [(Missed::Skip, 0), (Missed::Once, 1), (Missed::All, 60)] {
            let tick = schedule(minutely(), missed).tick(hour_later);
            assert_eq!(tick.fire.len(), jobs, "{missed:?}");
            assert_eq!(tick.next.unwrap().at, Timestamp(1_700_003_640_000));
        }
    }

    #[test]
    fn of_several_ticks_that_have_come_only_the_newest_is_on_time() {
        let second = || Rhythm::Every(Duration::from_secs(1));
        // Each row: how long after its first tick the schedule is looked at, and the jobs of skip, once and all.
        let table = [
            (second(), 0, [1, 1, 1]),
            (second(), 999, [1, 1, 1]),
            (second(), 1_000, [1, 1, 2]),
            (second(), 10_000, [1, 1, 11]),
            (minutely(), 0, [1, 1, 1]),
            (minutely(), 5_000, [1, 1, 1]),
            (minutely(), 5_001, [0, 1, 1]),
            (minutely(), 60_000, [1, 1, 2]),
            (minutely(), 604_999, [1, 1, 11]),
            (minutely(), 606_000, [0, 1, 11]),
        ];
        for (rhythm, late, jobs) in table {
            for (missed, jobs) in [Missed::Skip, Missed::Once, Missed::All]
                .into_iter()
                .zip(jobs)
            {
                let schedule = schedule(rhythm.clone(), missed);
                let now = Now::at(schedule.next.unwrap().at.0 + late);
                let fire = schedule.tick(now).fire;
                assert_eq!(fire.len(), jobs, "{rhythm:?} {missed:?} {late} ms late");
                let newest = schedule.come(schedule.next.unwrap().at, now.wall).pop();
                assert!(fire.is_empty() || fire.last() == newest.as_ref());
            }
        }
    }

    #[test]
    fn a_tick_on_time_fires_under_every_policy() {
        for missed in [Missed::Skip, Missed::Once, Missed::All] {
            let schedule = schedule(minutely(), missed);
            let next = schedule.next.unwrap().at;
            assert_eq!(schedule.tick(Now::at(next.0 - 1)).fire, []);
            assert_eq!(schedule.tick(Now::at(next.0)).fire, [next]);
        }
    }

    #[test]
    fn a_year_of_seconds_is_caught_up_in_bounded_time() {
        let year = Now::at(1_700_000_000_000 + 365 * 86_400_000);
        for rhythm in [
            Rhythm::Every(Duration::from_secs(1)),
            Rhythm::Cron {
                expression: "* * * * * *".into(),
                zone: "UTC".into(),
            },
        ] {
            let tick = schedule(rhythm, Missed::All).tick(year);
            assert_eq!(tick.fire.len(), CATCH_UP);
            assert!(year.wall.since(*tick.fire.last().unwrap()) < Duration::from_secs(1));
        }
    }

    #[test]
    fn an_hour_that_daylight_saving_skips_or_repeats_makes_one_run() {
        let daily = Rhythm::Cron {
            expression: "30 2 * * *".into(),
            zone: "Europe/Berlin".into(),
        };
        let at = |text: &str| {
            Timestamp(text.parse::<jiff::Timestamp>().unwrap().as_millisecond() as u64)
        };
        // Clocks go forward on 2026-03-29 at 2:00 and back on 2026-10-25 at 3:00.
        let mut tick = at("2026-03-27T12:00:00Z");
        let mut days = Vec::new();
        for _ in 0..4 {
            tick = daily.next_after(tick).unwrap();
            days.push(tick.to_string());
        }
        assert_eq!(
            days.iter().map(|day| &day[..10]).collect::<Vec<_>>(),
            ["2026-03-28", "2026-03-29", "2026-03-30", "2026-03-31"]
        );
        let first = daily.next_after(at("2026-10-24T12:00:00Z")).unwrap();
        let second = daily.next_after(first).unwrap();
        assert!(
            second.since(first) > Duration::from_secs(20 * 3600),
            "{first} {second}"
        );
    }

    #[test]
    fn a_wrong_rhythm_is_refused_with_its_reason() {
        let cron = |expression: &str, zone: &str| Rhythm::Cron {
            expression: expression.into(),
            zone: zone.into(),
        };
        for wrong in [
            cron("61 * * * *", "UTC"),
            cron("", "UTC"),
            cron("* * * *", "UTC"),
            cron("* * * * *", "Mars/Olympus"),
            Rhythm::Every(Duration::ZERO),
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
        assert!(minutely().check().is_ok());
    }

    #[test]
    fn a_refusal_is_one_line_whatever_the_expression_has_in_it() {
        for expression in ["\u{1f} * * * *", "* * \u{7}\u{1b}[2J * *", "@\u{1b}"] {
            let wrong = Rhythm::Cron {
                expression: expression.into(),
                zone: "UTC".into(),
            };
            let error = wrong.check().unwrap_err();
            assert!(!error.message().chars().any(char::is_control), "{error:?}");
        }
    }

    #[test]
    fn a_refusal_is_short_whatever_the_expression_has_in_it() {
        let long = "\u{1d}".repeat(190);
        let expressions = [
            long.clone(),
            format!("@{long}"),
            format!("{long} * * * *"),
            format!("* * {long} * *"),
            format!("* * * * {long}"),
            format!("1-{long} * * * *"),
            "\u{10ffff}".repeat(190),
        ];
        for expression in expressions {
            let wrong = Rhythm::Cron {
                expression,
                zone: "UTC".into(),
            };
            let error = wrong.check().unwrap_err();
            assert!(error.message().len() < 1000, "{error:?}");
        }
    }
}
