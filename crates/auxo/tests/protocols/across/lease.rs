//! The first job of a queue, in every way.

use std::collections::HashMap;

use auxo_proto::v1;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use redis::{FromRedisValue as _, Value, from_redis_value};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::push::number;
use super::speaker::Speaker;

/// A job that was lent.
#[derive(Debug)]
pub struct Leased {
    pub id: u64,
    pub payload: Vec<u8>,
    pub right: Right,
}

/// What ends the lease.
#[derive(Debug)]
pub enum Right {
    /// Being the connection that it was given to.
    Connection,
    /// The name that Disque's clients have for it.
    Delivery(String),
    /// A token.
    Token(String),
}

/// Answers nothing if there is no job. Nobody waits: what was pushed is there.
pub type Lease = fn(&mut Speaker, &str) -> Option<Leased>;

pub const LEASES: [(&str, Lease); 6] = [
    ("reserve", reserve),
    ("GETJOB", get),
    ("AUXO.LEASE", own),
    ("Lease", grpc),
    ("Work", work),
    ("POST", http),
];

pub fn reserve(speaker: &mut Speaker, queue: &str) -> Option<Leased> {
    let beanstalk = &mut speaker.beanstalk;
    beanstalk.ask(format!("watch {queue}"));
    let leased = beanstalk.fetch("reserve-with-timeout 0", "RESERVED ");
    // Nothing of this queue is to come by a later one.
    beanstalk.ask("watch default");
    beanstalk.ask(format!("ignore {queue}"));
    match leased {
        Ok((id, payload)) => Some(Leased {
            id: id.parse().unwrap(),
            payload,
            right: Right::Connection,
        }),
        Err(word) => {
            assert_eq!(word, "TIMED_OUT");
            None
        }
    }
}

pub fn get(speaker: &mut Speaker, queue: &str) -> Option<Leased> {
    let words: [&[u8]; 4] = [b"GETJOB", b"NOHANG", b"FROM", queue.as_bytes()];
    let jobs: Option<Vec<(String, String, Vec<u8>)>> = speaker.resp(&words).unwrap();
    let (from, id, payload) = jobs?.remove(0);
    assert_eq!(from, queue);
    Some(Leased {
        id: number(&id),
        payload,
        right: Right::Delivery(id),
    })
}

pub fn own(speaker: &mut Speaker, queue: &str) -> Option<Leased> {
    let words: [&[u8]; 3] = [b"AUXO.LEASE", b"FROM", queue.as_bytes()];
    let mut jobs: Vec<HashMap<String, Value>> = speaker.resp(&words).unwrap();
    let mut job = jobs.pop()?;
    let mut text = |name: &str| String::from_redis_value(job.remove(name).unwrap()).unwrap();
    let (id, token) = (text("id"), text("token"));
    Some(Leased {
        id: id.parse().unwrap(),
        payload: from_redis_value(job.remove("payload").unwrap()).unwrap(),
        right: Right::Token(token),
    })
}

fn lent(leased: v1::Leased, queue: &str) -> Leased {
    let job = leased.job.unwrap();
    assert_eq!(job.queue, queue);
    Leased {
        id: job.id,
        payload: job.payload.to_vec(),
        right: Right::Token(leased.token),
    }
}

pub fn grpc(speaker: &mut Speaker, queue: &str) -> Option<Leased> {
    let grpc = &speaker.grpc;
    let ask = v1::LeaseRequest {
        queues: vec![queue.to_owned()],
        ..v1::LeaseRequest::default()
    };
    let mut jobs = grpc.call(grpc.workers().lease(ask)).unwrap().jobs;
    jobs.pop().map(|leased| lent(leased, queue))
}

/// A stream waits for as long as it is open, so there must be a job.
pub fn work(speaker: &mut Speaker, queue: &str) -> Option<Leased> {
    let mut work = speaker.grpc.begin(queue, 1);
    let job = speaker.grpc.wait(async {
        loop {
            let message = work.next().await;
            if let Some(leased) = message.jobs.into_iter().next() {
                return leased;
            }
        }
    });
    speaker.grpc.work = Some(work);
    Some(lent(job, queue))
}

/// A job as it stands in JSON, where the space around a payload has a field of its own.
#[derive(Deserialize)]
struct Shown {
    id: String,
    queue: String,
    token: String,
    payload: Option<Box<RawValue>>,
    payload_base64: Option<String>,
    payload_space: Option<[String; 2]>,
}

#[derive(Deserialize)]
struct Lent {
    jobs: Vec<Shown>,
}

pub fn http(speaker: &mut Speaker, queue: &str) -> Option<Leased> {
    let reply = speaker.http("POST", "/v1/lease", &json!({ "queues": [queue] }));
    let mut lent: Lent = serde_json::from_str(&reply.text).unwrap();
    let job = lent.jobs.pop()?;
    assert_eq!(job.queue, queue);
    let payload = match job.payload {
        Some(json) => {
            let [before, after] = job.payload_space.unwrap_or_default();
            format!("{before}{}{after}", json.get()).into_bytes()
        }
        // Without a field there is nothing in it.
        None => BASE64_STANDARD
            .decode(job.payload_base64.unwrap_or_default())
            .unwrap(),
    };
    Some(Leased {
        id: job.id.parse().unwrap(),
        payload,
        right: Right::Token(job.token),
    })
}
