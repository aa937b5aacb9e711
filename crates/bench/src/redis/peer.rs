//! Other queues: programs of their own that are told a line and answer its figures as JSON.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::ground::Ground;
use super::line::{Figures, Side, rate};
use crate::{Plan, Result};

/// The peers that are here.
pub struct Peers {
    bullmq: Option<PathBuf>,
    apalis: Option<PathBuf>,
}

impl Peers {
    /// Looks for them and says how to get those that are missing.
    pub fn find(plan: &Plan) -> Peers {
        let at = |path: &str| plan.peers.join(path);
        let there = |path: PathBuf, name: &str, how: &str| {
            if !path.exists() {
                println!(
                    "peers:    {name} is left out; `{how}` in {} gets it",
                    plan.peers.display()
                );
                return None;
            }
            Some(path)
        };
        Peers {
            bullmq: there(at("node_modules/bullmq"), "BullMQ", "npm ci").map(|_| at("bullmq.js")),
            apalis: there(
                at("apalis/target/release/apalis-peer"),
                "apalis-redis",
                "(cd apalis && cargo build --release --locked)",
            ),
        }
    }

    /// BullMQ on a line.
    pub fn bullmq(&self, line: &str, options: &[&str]) -> Option<Side> {
        let script = self.bullmq.clone()?;
        let program = vec![PathBuf::from("node"), script];
        Some(side("BullMQ", program, line, options))
    }

    /// apalis-redis on a line.
    pub fn apalis(&self, line: &str, options: &[&str]) -> Option<Side> {
        let program = vec![self.apalis.clone()?];
        Some(side("apalis-redis", program, line, options))
    }
}

fn side(name: &str, program: Vec<PathBuf>, line: &str, options: &[&str]) -> Side {
    let line = line.to_owned();
    let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
    Side::new(name, move |ground| {
        let mut command = Command::new(&program[0]);
        command
            .args(&program[1..])
            .args([&ground.url(), &line])
            .args(&options);
        figures(&answer(ground, command)?)
    })
}

/// Runs a peer and takes the last line that it prints.
fn answer(ground: &Ground, mut command: Command) -> Result<String> {
    let plan = &ground.plan;
    command
        .args(["--seconds", &plan.span.as_secs_f64().to_string()])
        .args(["--in-flight", &plan.in_flight.to_string()])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    let output = command.output()?;
    if !output.status.success() {
        return Err(format!("{command:?} failed: {}", output.status).into());
    }
    let text = String::from_utf8(output.stdout)?;
    let line = text.lines().last();
    Ok(line
        .ok_or(format!("{command:?} printed nothing"))?
        .to_owned())
}

/// The figures of whichever kind of line a peer was asked.
fn figures(answer: &str) -> Result<Figures> {
    let fields: Value = serde_json::from_str(answer)?;
    let number = |name: &str| -> Result<f64> {
        let missing = || format!("a peer did not say {name}: {answer}");
        Ok(fields[name].as_f64().ok_or_else(missing)?)
    };
    if !fields["bytes_per_job"].is_null() {
        return Ok(vec![number("bytes_per_job")?]);
    }
    if !fields["p50_ms"].is_null() {
        return ["p50_ms", "p99_ms", "max_ms", "early"]
            .map(number)
            .into_iter()
            .collect();
    }
    Ok(rate(
        number("jobs")?,
        number("seconds")?,
        number("client_cpu_seconds")?,
        number("redis_cpu_seconds")?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_answer_is_read_in_the_order_of_its_columns() {
        let rates =
            r#"{"jobs":2000,"seconds":2,"client_cpu_seconds":0.02,"redis_cpu_seconds":0.01}"#;
        assert_eq!(figures(rates).unwrap(), [1_000.0, 10.0, 5.0]);
        let times = r#"{"jobs":9,"early":1,"max_ms":3.5,"p99_ms":2.5,"p50_ms":1.5}"#;
        assert_eq!(figures(times).unwrap(), [1.5, 2.5, 3.5, 1.0]);
        assert_eq!(
            figures(r#"{"jobs":9,"bytes_per_job":700}"#).unwrap(),
            [700.0]
        );
    }

    #[test]
    fn a_figure_that_is_missing_is_named() {
        let error = figures(r#"{"jobs":2000,"seconds":2}"#)
            .unwrap_err()
            .to_string();
        assert!(error.contains("client_cpu_seconds"), "{error}");
    }
}
