//! Samples, their medians, and how they are printed.

use std::time::{Duration, Instant};

use crate::counted::Io;
use crate::host;

/// What one side did in one round.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    pub jobs: u64,
    pub wall: Duration,
    pub cpu: Duration,
    pub io: Io,
}

impl Sample {
    pub fn rate(&self) -> f64 {
        self.jobs as f64 / self.wall.as_secs_f64()
    }

    fn per_job(&self, amount: f64) -> f64 {
        amount / self.jobs.max(1) as f64
    }
}

/// Measures from its making on.
pub struct Watch {
    wall: Instant,
    cpu: Duration,
    io: Io,
}

impl Watch {
    pub fn start(io: Io) -> Watch {
        Watch {
            cpu: host::cpu(),
            io,
            wall: Instant::now(),
        }
    }

    pub fn stop(self, jobs: u64, io: Io) -> Sample {
        Sample {
            jobs,
            wall: self.wall.elapsed(),
            cpu: host::cpu() - self.cpu,
            io: io - self.io,
        }
    }
}

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[n / 2],
        n => (values[n / 2 - 1] + values[n / 2]) / 2.0,
    }
}

/// One side of a comparison over all rounds.
pub struct Side {
    pub name: String,
    pub samples: Vec<Sample>,
}

impl Side {
    pub fn new(name: impl Into<String>) -> Side {
        Side {
            name: name.into(),
            samples: Vec::new(),
        }
    }

    pub fn median(&self, of: impl Fn(&Sample) -> f64) -> f64 {
        median(self.samples.iter().map(of).collect())
    }

    /// The median over the rounds of how much faster this side was than the other in the same round.
    pub fn ratio(&self, other: &Side) -> f64 {
        let pairs = self.samples.iter().zip(&other.samples);
        median(pairs.map(|(a, b)| a.rate() / b.rate()).collect())
    }
}

pub fn heading(text: &str) {
    println!("\n{text}");
}

pub fn print_columns() {
    println!(
        "  {:<44} {:>12} {:>11} {:>10} {:>12} {:>12}",
        "side", "jobs/s", "CPU us/job", "bytes/job", "writes/1k", "syncs/1k"
    );
}

pub fn print_side(side: &Side) {
    println!(
        "  {:<44} {:>12.0} {:>11.2} {:>10.1} {:>12.2} {:>12.2}",
        side.name,
        side.median(Sample::rate),
        side.median(|s| s.per_job(s.cpu.as_secs_f64() * 1e6)),
        side.median(|s| s.per_job(s.io.bytes as f64)),
        side.median(|s| s.per_job(s.io.writes as f64 * 1e3)),
        side.median(|s| s.per_job(s.io.syncs as f64 * 1e3)),
    );
}

/// Prints how a figure stands to its aim.
pub fn verdict(what: &str, value: f64, unit: &str, aim: Aim) {
    let (met, sign, limit) = match aim {
        Aim::AtLeast(limit) => (value >= limit, "at least", limit),
        Aim::AtMost(limit) => (value <= limit, "at most", limit),
    };
    let word = if met { "met" } else { "NOT MET" };
    println!("  {what}: {value:.3}{unit} (aim: {sign} {limit}{unit}: {word})");
}

/// What a figure should be.
pub enum Aim {
    AtLeast(f64),
    AtMost(f64),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_two() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn a_ratio_compares_round_by_round() {
        let side = |rates: [u64; 3]| Side {
            name: String::new(),
            samples: rates
                .into_iter()
                .map(|jobs| Sample {
                    jobs,
                    wall: Duration::from_secs(1),
                    cpu: Duration::ZERO,
                    io: Io::default(),
                })
                .collect(),
        };
        // The machine was slow in the second round, for both.
        assert_eq!(side([200, 20, 300]).ratio(&side([100, 10, 100])), 2.0);
    }
}
