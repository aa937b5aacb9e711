//! How values are read from the command line. A wrong one is an error of usage that names the flag.

use std::time::Duration;

use auxo::core::job::{Backoff, OnDuplicate};
use auxo::core::json::read;
use auxo::core::schedule::Missed;
use auxo::core::text;
use auxo::core::topic::Pattern;
use auxo::{JobId, QueueName, Rate, Result, State, Sync, Timestamp, Token};
use serde_json::{Value, json};

/// The parser prints its own words around the reason, so the code is left out.
fn reason<T>(result: Result<T>) -> Result<T, String> {
    result.map_err(|error| error.message().to_owned())
}

pub fn duration(input: &str) -> Result<Duration, String> {
    reason(text::parse_duration(input))
}

pub fn timestamp(input: &str) -> Result<Timestamp, String> {
    reason(text::parse_timestamp(input))
}

pub fn queue(input: &str) -> Result<QueueName, String> {
    reason(QueueName::new(input))
}

pub fn id(input: &str) -> Result<JobId, String> {
    reason(input.parse())
}

pub fn token(input: &str) -> Result<Token, String> {
    reason(input.parse())
}

pub fn state(input: &str) -> Result<State, String> {
    reason(input.parse())
}

pub fn pattern(input: &str) -> Result<Pattern, String> {
    reason(Pattern::new(input))
}

pub fn backoff(input: &str) -> Result<Backoff, String> {
    let value: Value = serde_json::from_str(input).map_err(|error| format!("not JSON: {error}"))?;
    let job = json!({ "backoff": value }).to_string();
    reason(read::push(job.as_bytes())).map(|spec| spec.backoff)
}

pub fn on_duplicate(input: &str) -> Result<OnDuplicate, String> {
    reason(input.parse())
}

pub fn missed(input: &str) -> Result<Missed, String> {
    reason(input.parse())
}

/// `name=value`; the value may be empty and may have further `=`.
pub fn pair(input: &str) -> Result<(String, String), String> {
    match input.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        _ => Err("write it like name=value".into()),
    }
}

/// How many of something, at least one.
pub fn count(input: &str) -> Result<u64, String> {
    let count = input.parse().ok().filter(|count| *count > 0);
    count.ok_or_else(|| "write a whole number from 1 on".into())
}

/// A number, or `none` for no limit.
pub fn limit(input: &str) -> Result<Option<u64>, String> {
    match input {
        "none" => Ok(None),
        number => number
            .parse()
            .map(Some)
            .map_err(|_| "write a whole number, or none".into()),
    }
}

/// A size such as `64MiB`, or `none` for no limit.
pub fn size(input: &str) -> Result<Option<u64>, String> {
    match input {
        "none" => Ok(None),
        size => reason(text::parse_size(size)).map(Some),
    }
}

/// A size such as `100B` or `4KiB`.
pub fn bytes(input: &str) -> Result<u64, String> {
    reason(text::parse_size(input))
}

/// `always`, `interval:50ms` or `os`.
pub fn sync(input: &str) -> Result<Sync, String> {
    match input.split_once(':') {
        None if input == "always" => Ok(Sync::Always),
        None if input == "os" => Ok(Sync::Os),
        Some(("interval", period)) => duration(period).map(Sync::Interval),
        _ => Err("write always, interval:50ms or os".into()),
    }
}

/// `100/1s` or, with a burst of its own, `100/1s/500`; `none` for no limit.
pub fn rate(input: &str) -> Result<Option<Rate>, String> {
    if input == "none" {
        return Ok(None);
    }
    let wrong = || "write it like 100/1s, 100/1s/500 (with a burst), or none".to_owned();
    let mut parts = input.split('/');
    let count: u32 = parts
        .next()
        .and_then(|n| n.parse().ok())
        .ok_or_else(wrong)?;
    let per = duration(parts.next().ok_or_else(wrong)?)?;
    let burst = match parts.next() {
        Some(burst) => burst.parse().map_err(|_| wrong())?,
        None => count,
    };
    match parts.next() {
        None => Ok(Some(Rate { count, per, burst })),
        Some(_) => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_count_a_time_and_maybe_a_burst() {
        let rate_of = |count, per, burst| {
            let per = Duration::from_secs(per);
            Ok(Some(Rate { count, per, burst }))
        };
        assert_eq!(rate("100/1s"), rate_of(100, 1, 100));
        assert_eq!(rate("5/1m/20"), rate_of(5, 60, 20));
        assert_eq!(rate("none"), Ok(None));
        for wrong in ["", "100", "100/", "x/1s", "1/1s/x", "1/1s/1/1", "-1/1s"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_pair_keeps_everything_after_the_first_equals_sign() {
        assert_eq!(pair("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert_eq!(pair("a="), Ok(("a".into(), String::new())));
        assert!(pair("=b").is_err());
        assert!(pair("a").is_err());
    }
}
