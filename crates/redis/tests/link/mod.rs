//! The link with real servers. It is a part of the crate, because scripts cannot be made outside of it.

use std::time::{Duration, Instant};

use auxo_core::{Code, Error, Result};

use super::{Call, Link, Value};
use crate::script::{Effect, Script};

mod cluster;
mod listen;
mod replicas;
mod sentinel;
mod single;
#[cfg(feature = "tls")]
mod tls;
mod trouble;
mod url;

static BUMP: Script = Script::new(
    "bump",
    Effect::Grows,
    &["return redis.call('INCR', KEYS[1])"],
);
static READ: Script = Script::new(
    "read",
    Effect::Reads,
    &["return tonumber(redis.call('GET', KEYS[1]) or 0)"],
);
static BROKEN: Script = Script::new("broken", Effect::Writes, &["return redis.call('INCR')"]);

const KEY: &str = "auxo{0}:meta";

async fn open(url: &str) -> Link {
    try_open(url).await.expect("a link")
}

async fn try_open(url: &str) -> Result<Link> {
    Link::open(&url.parse().expect("a good URL")).await
}

/// The error of a link that cannot be opened.
async fn refused(url: &str) -> Error {
    match try_open(url).await {
        Ok(_) => panic!("{url} was opened"),
        Err(error) => error,
    }
}

async fn run(link: &Link, script: &'static Script, key: &str) -> Result<i64> {
    let done = link.run(Call::new(script, key.to_owned())).await?;
    match done.confirmed()? {
        Value::Int(number) => Ok(number),
        other => panic!("no number: {other:?}"),
    }
}

/// Adds one to a counter.
async fn bump(link: &Link, key: &str) -> Result<i64> {
    run(link, &BUMP, key).await
}

/// Reads a counter.
async fn read(link: &Link, key: &str) -> Result<i64> {
    run(link, &READ, key).await
}

#[track_caller]
fn is(error: &Error, code: Code, text: &str) {
    let good = error.code() == code && error.message().contains(text);
    assert!(good, "expected {code} with {text:?}: {error}");
}

/// Whether something took less than it may.
#[track_caller]
fn within(most: Duration, began: Instant) {
    let took = began.elapsed();
    assert!(took < most, "it took {took:?}");
}

/// The next message, or that some are missing. A test that waits for ever says nothing.
async fn heard(messages: &mut tokio::sync::mpsc::Receiver<Option<bytes::Bytes>>) -> Option<String> {
    let heard = tokio::time::timeout(60 * SECOND, messages.recv()).await;
    let heard = heard.expect("a message in time").expect("a subscription");
    heard.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

const SECOND: Duration = Duration::from_secs(1);
