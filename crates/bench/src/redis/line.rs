//! A question and the sides that answer it, round by round.

use super::ground::Ground;
use crate::table::{heading, median};
use crate::{Result, host};

/// What a side saw in one round: a figure for each column of its line.
pub type Figures = Vec<f64>;

/// What sides of rates print; the first column is the one they are compared by.
pub const RATE: &[&str] = &["jobs/s", "client us/job", "redis us/job"];
/// What sides of times print.
pub const TIMES: &[&str] = &["p50 ms", "p99 ms", "max ms", "early"];
/// What sides of memory print.
pub const MEMORY: &[&str] = &["bytes/job"];

/// What sides that have a neighbour print: how long its PINGs took, and how long the scripts took that the slow log has.
pub const NEIGHBOUR: &[&str] = &[
    "p50 ms",
    "p99 ms",
    "max ms",
    "script p50 ms",
    "script p99 ms",
    "script max ms",
    "jobs/s",
];
/// What sides of rest print.
pub const COMMANDS: &[&str] = &["commands/s"];

/// The figures of [`RATE`]; times in seconds.
pub fn rate(jobs: f64, wall: f64, client: f64, redis: f64) -> Figures {
    vec![jobs / wall, client * 1e6 / jobs, redis * 1e6 / jobs]
}

/// The figures of [`TIMES`] from the seconds that each job took.
pub fn spread(mut times: Vec<f64>) -> Figures {
    times.sort_by(f64::total_cmp);
    let part = |share: f64| times[((times.len() - 1) as f64 * share) as usize] * 1e3;
    let early = times.iter().filter(|time| **time < 0.0).count();
    vec![part(0.5), part(0.99), part(1.0), early as f64]
}

/// Measures one round on an empty Redis.
type Measure = dyn Fn(&Ground) -> Result<Figures>;

/// One way to answer a question.
pub struct Side {
    name: String,
    measure: Box<Measure>,
}

impl Side {
    /// A side and the function that measures one round of it.
    pub fn new(
        name: impl Into<String>,
        measure: impl Fn(&Ground) -> Result<Figures> + 'static,
    ) -> Side {
        Side {
            name: name.into(),
            measure: Box::new(measure),
        }
    }
}

/// A question.
pub struct Line {
    title: String,
    columns: &'static [&'static str],
    sides: Vec<Side>,
}

impl Line {
    /// A question with the sides that are there.
    pub fn new(
        title: String,
        columns: &'static [&'static str],
        sides: impl IntoIterator<Item = Option<Side>>,
    ) -> Line {
        Line {
            title,
            columns,
            sides: sides.into_iter().flatten().collect(),
        }
    }

    /// Measures all sides in each round, one after the other.
    pub fn measure(self, ground: &Ground) -> Result<Outcome> {
        let mut rounds = vec![Vec::new(); self.sides.len()];
        for _ in 0..ground.plan.rounds {
            for (side, rounds) in self.sides.iter().zip(&mut rounds) {
                ground.clear()?;
                host::settle(&ground.plan.dir)?;
                rounds.push((side.measure)(ground)?);
            }
        }
        let names = self.sides.into_iter().map(|side| side.name);
        Ok(Outcome {
            title: self.title,
            columns: self.columns,
            sides: names.zip(rounds).collect(),
        })
    }
}

/// What was seen: for each side its figures in each round.
pub struct Outcome {
    title: String,
    columns: &'static [&'static str],
    sides: Vec<(String, Vec<Figures>)>,
}

impl Outcome {
    /// Prints the medians, and each side's first figure as a part of every later side's.
    pub fn print(&self) {
        heading(&self.title);
        if self.sides.is_empty() {
            println!("  no side is here");
            return;
        }
        print!("  {:<34}", "side");
        self.columns.iter().for_each(|name| print!(" {name:>14}"));
        println!();
        for (name, rounds) in &self.sides {
            print!("  {name:<34}");
            for column in 0..self.columns.len() {
                let value = median(rounds.iter().map(|figures| figures[column]).collect());
                let digits = if value < 1_000.0 { 2 } else { 0 };
                print!(" {value:>14.digits$}");
            }
            println!();
        }
        for (at, (name, _)) in self.sides.iter().enumerate() {
            for (other, (beside, _)) in self.sides.iter().enumerate().skip(at + 1) {
                println!("  {name} of {beside}: {:.3}", self.ratio(at, other));
            }
        }
    }

    /// The median over the rounds of one side's first figure as a part of another's in the same round.
    pub fn ratio(&self, side: usize, other: usize) -> f64 {
        let pairs = self.sides[side].1.iter().zip(&self.sides[other].1);
        median(pairs.map(|(a, b)| a[0] / b[0]).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_milliseconds_and_a_negative_one_is_early() {
        let mut times: Vec<f64> = (1..=100).map(|number| f64::from(number) / 1e3).collect();
        times[99] = -0.5;
        assert_eq!(spread(times), [49.0, 98.0, 99.0, 1.0]);
    }

    #[test]
    fn a_ratio_compares_round_by_round() {
        let rounds = |rates: [f64; 3]| (String::new(), rates.map(|rate| vec![rate]).to_vec());
        let outcome = Outcome {
            title: String::new(),
            columns: MEMORY,
            // The machine was slow in the second round, for both.
            sides: vec![rounds([200.0, 20.0, 300.0]), rounds([100.0, 10.0, 100.0])],
        };
        assert_eq!(outcome.ratio(0, 1), 2.0);
    }
}
