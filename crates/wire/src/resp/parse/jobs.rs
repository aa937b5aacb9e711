//! Commands about jobs. Options are looked at in the order in which Disque does, so that of two mistakes the same one is told.

use std::time::Duration;

use super::{Args, Command, Id, Reader, Reply, id, integer, refused};
use crate::resp::{AddJob, GetJob};

/// How long a job lives that does not say.
const TTL: i64 = 86_400;
/// The longest that is waited for the worker of a job that does not say.
const RETRY: i64 = 300;
/// How many copies there are of a job that does not say, if there can be so many.
const REPLICATE: i64 = 3;

pub fn addjob(reader: &mut Reader, args: Args<'_>) -> Result<Command, Reply> {
    let options = options(reader, args)?;
    timeout(args.get(3))?;
    let Options {
        replicate,
        delay,
        retry,
        ttl,
        maxlen,
    } = options;
    if replicate > 1 && retry == Some(0) {
        return Err(Reply::wrong(
            "With RETRY set to 0 please explicitly set  REPLICATE to 1 (at-most-once delivery)",
        ));
    }
    if delay >= ttl {
        return Err(Reply::wrong(
            "The specified DELAY is greater than TTL. Job refused since would never be delivered",
        ));
    }
    if replicate > i64::from(reader.copies) {
        return Err(Reply::Error(
            "NOREPL Not enough reachable nodes for the requested replication level".into(),
        ));
    }
    Ok(Command::AddJob(AddJob {
        queue: reader.queue(args.get(1)).map_err(refused)?,
        body: args.bytes(2),
        delay: seconds(delay),
        retry: seconds(retry.unwrap_or((ttl / 10).clamp(1, RETRY))),
        ttl: seconds(ttl),
        maxlen: maxlen.map(i64::unsigned_abs),
    }))
}

struct Options {
    replicate: i64,
    delay: i64,
    retry: Option<i64>,
    ttl: i64,
    maxlen: Option<i64>,
}

fn options(reader: &Reader, args: Args<'_>) -> Result<Options, Reply> {
    let mut options = Options {
        replicate: REPLICATE.min(reader.copies.into()),
        delay: 0,
        retry: None,
        ttl: TTL,
        maxlen: None,
    };
    let mut at = 4;
    while at < args.len() {
        let is_last = at + 1 == args.len();
        let number = |range: std::ops::RangeInclusive<i64>, wrong: &'static str| {
            let value = integer(args.get(at + 1)).filter(|value| range.contains(value));
            value.ok_or_else(|| Reply::wrong(wrong))
        };
        if args.is(at, "async") {
            // Every job that is answered is kept, so there is nothing to be quicker about.
            at += 1;
            continue;
        } else if is_last {
            return Err(Reply::SYNTAX);
        } else if args.is(at, "replicate") {
            options.replicate = number(1..=65_535, "REPLICATE must be between 1 and 65535")?;
        } else if args.is(at, "ttl") {
            options.ttl = number(1..=i64::MAX, "TTL must be a number > 0")?;
        } else if args.is(at, "retry") {
            let retry = number(0..=i64::MAX, "RETRY time must be a non negative number")?;
            options.retry = Some(retry);
        } else if args.is(at, "delay") {
            options.delay = number(0..=i64::MAX, "DELAY time must be a non negative number")?;
        } else if args.is(at, "maxlen") {
            options.maxlen = Some(number(1..=i64::MAX, "MAXLEN must be a positive number")?);
        } else {
            return Err(Reply::SYNTAX);
        }
        at += 2;
    }
    Ok(options)
}

fn seconds(count: i64) -> Duration {
    Duration::from_secs(count.unsigned_abs())
}

/// A time in milliseconds; zero is none.
fn timeout(argument: &[u8]) -> Result<Option<Duration>, Reply> {
    match integer(argument) {
        None => Err(Reply::wrong("timeout is not an integer or out of range")),
        Some(..0) => Err(Reply::wrong("timeout is negative")),
        Some(0) => Ok(None),
        Some(time) => Ok(Some(Duration::from_millis(time.unsigned_abs()))),
    }
}

pub fn getjob(reader: &mut Reader, args: Args<'_>) -> Result<Command, Reply> {
    let mut get = GetJob {
        queues: Vec::new(),
        count: 1,
        wait: None,
        counters: false,
    };
    let mut at = 1;
    let mut nohang = false;
    while at < args.len() {
        let is_last = at + 1 == args.len();
        if args.is(at, "from") {
            break;
        } else if args.is(at, "nohang") {
            nohang = true;
        } else if args.is(at, "withcounters") {
            get.counters = true;
        } else if args.is(at, "timeout") && !is_last {
            at += 1;
            get.wait = timeout(args.get(at))?;
        } else if args.is(at, "count") && !is_last {
            at += 1;
            let count = integer(args.get(at)).filter(|count| *count > 0);
            let count =
                count.ok_or_else(|| Reply::wrong("COUNT must be a number greater than zero"))?;
            get.count = super::small(count);
        } else {
            return Err(Reply::SYNTAX);
        }
        at += 1;
    }
    if nohang {
        get.wait = Some(Duration::ZERO);
    }
    for name in args.from(at + 1) {
        get.queues.push(reader.queue(name).map_err(refused)?);
    }
    match get.queues.is_empty() {
        true => Err(Reply::SYNTAX),
        false => Ok(Command::GetJob(get)),
    }
}

/// All ids, or none if one is bad.
fn ids(args: Args<'_>) -> Result<Vec<Id>, Reply> {
    args.from(1).map(id).collect()
}

pub fn ackjob(_: &mut Reader, args: Args<'_>) -> Result<Command, Reply> {
    ids(args).map(Command::AckJob)
}

pub fn fastack(_: &mut Reader, args: Args<'_>) -> Result<Command, Reply> {
    ids(args).map(Command::FastAck)
}

pub fn nack(_: &mut Reader, args: Args<'_>) -> Result<Command, Reply> {
    ids(args).map(Command::Nack)
}

pub fn working(_: &mut Reader, args: Args<'_>) -> Result<Command, Reply> {
    id(args.get(1)).map(Command::Working)
}

pub fn enqueue(_: &mut Reader, args: Args<'_>) -> Result<Command, Reply> {
    ids(args).map(Command::Enqueue)
}

pub fn dequeue(_: &mut Reader, args: Args<'_>) -> Result<Command, Reply> {
    ids(args).map(Command::Dequeue)
}

pub fn deljob(_: &mut Reader, args: Args<'_>) -> Result<Command, Reply> {
    ids(args).map(Command::DelJob)
}

pub fn show(_: &mut Reader, args: Args<'_>) -> Result<Command, Reply> {
    id(args.get(1)).map(Command::Show)
}
