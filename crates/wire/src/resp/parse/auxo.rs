//! Our own commands: what Disque has no words for. Fields have the names and the forms that they have in JSON over HTTP, and are
//! read by the same functions.

use std::time::Duration;

use auxo_core::engine::{Ask, Extend, Holds, NamedJob, Outcome, Pick, Which};
use auxo_core::json::read::{self, Batch};
use auxo_core::{Code, Error, JobId, NewJob, Token, text};
use bytes::Bytes;
use serde_json::{Map, Value};

use super::{Args, Command, Id, Reader, Reply, integer, ours, shown, wrong_number};

/// Fields that are not texts in JSON.
const JSON: [&str; 5] = ["priority", "max_attempts", "headers", "backoff", "retry"];

fn wrong(field: &str, problem: &str) -> Reply {
    ours(Error::bad_request(format!("{field}: {problem}")))
}

/// `AUXO.PUSH queue payload [field value …]`, or with one JSON document of fields.
pub fn push(reader: &mut Reader, args: Args<'_>) -> Result<Command, Reply> {
    let queue = reader.queue(args.get(1)).map_err(ours)?;
    let is_document = args.len() == 4 && args.get(3).starts_with(b"{");
    let spec = match is_document {
        true => read::push(args.get(3)),
        false => read::push(&fields(args, 3, Map::new(), "")?.0),
    };
    let mut spec = spec.map_err(ours)?;
    if !spec.payload.is_empty() {
        return Err(wrong("payload", "stands behind the queue already"));
    }
    spec.payload = args.bytes(2);
    Ok(Command::Push(Box::new(NewJob { queue, spec })))
}

/// Pairs of a name and a value as JSON. The field called `raw` is left out of it: its bytes are taken as they are.
fn fields(
    args: Args<'_>,
    first: usize,
    mut object: Map<String, Value>,
    raw: &str,
) -> Result<(Vec<u8>, Option<Bytes>), Reply> {
    let mut bytes = None;
    for at in (first..args.len()).step_by(2) {
        let name = shown(args.get(at)).to_ascii_lowercase();
        if at + 1 == args.len() {
            return Err(wrong(&name, "has no value"));
        }
        let is_there = match name == raw {
            true => bytes.replace(args.bytes(at + 1)).is_some(),
            false => {
                let value = value(&name, args.get(at + 1))?;
                object.insert(name.clone(), value).is_some()
            }
        };
        if is_there {
            return Err(wrong(&name, "is there twice"));
        }
    }
    Ok((Value::Object(object).to_string().into_bytes(), bytes))
}

fn value(name: &str, argument: &[u8]) -> Result<Value, Reply> {
    let text = std::str::from_utf8(argument).map_err(|_| wrong(name, "is not text"))?;
    let json = match JSON.contains(&name) {
        true => serde_json::from_str(text).ok(),
        false => None,
    };
    // What is wrong with it is told by whoever reads it.
    Ok(json.unwrap_or_else(|| text.into()))
}

/// `AUXO.LEASE [MAX n] [WAIT time] [TTR time] [WORKER name] [PICK first|most_urgent] FROM queue …`, or `JOB id` instead of the queues
pub fn lease(reader: &mut Reader, args: Args<'_>) -> Result<Command, Reply> {
    let mut ask = Ask {
        queues: Vec::new(),
        job: None,
        pick: Pick::First,
        max: 1,
        wait: Duration::ZERO,
        ttr: None,
        worker: "".into(),
    };
    let mut at = 1;
    while at < args.len() && !args.is(at, "from") {
        let name = shown(args.get(at)).to_ascii_lowercase();
        let value = args.get(at + 1);
        let time = || text::parse_duration(&String::from_utf8_lossy(value)).map_err(ours);
        match name.as_str() {
            "max" => {
                let max = integer(value).and_then(|max| u32::try_from(max).ok());
                ask.max = max.ok_or_else(|| wrong("max", "expected a whole number"))?;
            }
            "wait" => ask.wait = time()?,
            "ttr" => ask.ttr = Some(time()?),
            "job" => {
                ask.job = Some(NamedJob {
                    id: job_id(value)?,
                    holds: Holds::Respect,
                });
            }
            "pick" => {
                let word = String::from_utf8_lossy(value).to_ascii_lowercase();
                let pick = word.parse::<Pick>();
                ask.pick = pick.map_err(|error| wrong("pick", error.message()))?;
            }
            "worker" => ask.worker = String::from_utf8_lossy(value).into(),
            _ => {
                return Err(wrong(
                    &name,
                    "is unknown; known are max, wait, ttr, worker, pick, job, from",
                ));
            }
        }
        at += 2;
    }
    for name in args.from(at + 1) {
        ask.queues.push(reader.queue(name).map_err(ours)?);
    }
    match ask.queues.is_empty() && ask.job.is_none() {
        true => Err(wrong("from", "names no queue")),
        false => Ok(Command::Lease(Box::new(ask))),
    }
}

/// A token in our form, or in the id that `GETJOB` gave out.
fn token(argument: &[u8]) -> Result<Token, Reply> {
    match Id::read(argument) {
        Some(Id::Delivery(token)) => Ok(token),
        _ => String::from_utf8_lossy(argument).parse().map_err(ours),
    }
}

/// `AUXO.SETTLE token outcome [field value …]`
pub fn settle(_: &mut Reader, args: Args<'_>) -> Result<Command, Reply> {
    let outcome = String::from_utf8_lossy(args.get(2)).to_ascii_lowercase();
    let mut object = Map::new();
    object.insert("token".into(), token(args.get(1))?.to_string().into());
    object.insert("outcome".into(), outcome.into());
    let (body, bytes) = fields(args, 3, object, "result")?;
    let mut settle = single(read::settles(&body, 1))?;
    match (&mut settle.outcome, bytes) {
        (_, None) => {}
        (Outcome::Ack { result }, bytes) => *result = bytes,
        (_, Some(_)) => return Err(wrong("result", "goes with outcome ack only")),
    }
    Ok(Command::Settle(Box::new(settle)))
}

/// `AUXO.EXTEND token [TTR time] [PROGRESS bytes]`
pub fn extend(_: &mut Reader, args: Args<'_>) -> Result<Command, Reply> {
    let mut object = Map::new();
    object.insert("token".into(), token(args.get(1))?.to_string().into());
    let (body, progress) = fields(args, 2, object, "progress")?;
    let extend = Extend {
        progress,
        ..single(read::extends(&body, 1))?
    };
    Ok(Command::Extend(Box::new(extend)))
}

fn single<T>(batch: auxo_core::Result<Batch<T>>) -> Result<T, Reply> {
    match batch {
        Ok(Batch::One(item)) => item.map_err(ours),
        Ok(Batch::Many(_)) => Err(Reply::SYNTAX),
        Err(error) => Err(ours(error)),
    }
}

/// A job by its id, in any form.
fn job_id(argument: &[u8]) -> Result<JobId, Reply> {
    match Id::read(argument) {
        Some(Id::Job(id)) => Ok(id),
        Some(Id::Delivery(token)) => Ok(token.job),
        Some(Id::Stranger) => {
            let text = "there is no job with such an id";
            Err(ours(Error::new(Code::NotFound, text)))
        }
        None => {
            let id = String::from_utf8_lossy(argument).parse::<JobId>();
            id.map_err(ours)
        }
    }
}

/// A job by its id, or by its queue and key.
fn which(command: &str, reader: &mut Reader, args: Args<'_>) -> Result<Which, Reply> {
    match args.len() {
        2 => job_id(args.get(1)).map(Which::Id),
        3 => {
            let queue = reader.queue(args.get(1)).map_err(ours)?;
            let key = String::from_utf8_lossy(args.get(2)).into_owned();
            Ok(Which::Key(queue, key))
        }
        _ => Err(wrong_number(command)),
    }
}

/// `AUXO.EXPLAIN id`, or `queue key`
pub fn explain(reader: &mut Reader, args: Args<'_>) -> Result<Command, Reply> {
    which("auxo.explain", reader, args).map(Command::Explain)
}

/// `AUXO.JOB id`, or `queue key`
pub fn job(reader: &mut Reader, args: Args<'_>) -> Result<Command, Reply> {
    which("auxo.job", reader, args).map(Command::Job)
}

/// `AUXO.QUEUES [queue …]`
pub fn queues(reader: &mut Reader, args: Args<'_>) -> Result<Command, Reply> {
    let names = args.from(1).map(|name| reader.queue(name).map_err(ours));
    names.collect::<Result<_, _>>().map(Command::Queues)
}

/// `AUXO.KICK id`
pub fn kick(_: &mut Reader, args: Args<'_>) -> Result<Command, Reply> {
    job_id(args.get(1)).map(Command::Kick)
}

/// `AUXO.CANCEL id`
pub fn cancel(_: &mut Reader, args: Args<'_>) -> Result<Command, Reply> {
    job_id(args.get(1)).map(Command::Cancel)
}
