//! What all calls share: the link, the names, the time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use auxo_core::clock::Clock;
use auxo_core::queue::Books;
use auxo_core::time::Timestamp;
use auxo_core::{Code, Error, QueueName, Result};
use bytes::Bytes;
use redis::Value;

use crate::desk::Desk;
use crate::keys::Keys;
use crate::link::{Call, Done, Link};
use crate::notices::Notices;
use crate::record::garbled;
use crate::script::Script;
use crate::spread::Spreads;

/// What a script answers that finds another store than its caller means.
const GONE: &str = "GONE";
const EMPTIED: &str = "the store was emptied or replaced since it was opened (FLUSHALL, or a Redis that came back without its \
                       data): nothing is read or written until this process is started again";

/// An open store.
pub struct Store {
    pub link: Link,
    pub keys: Keys,
    pub shards: u16,
    /// What the store was given when it was made; empty until that is known.
    pub identity: String,
    /// Whether it was seen that the store is another one, or none any more.
    gone: AtomicBool,
    /// How this process is known to the others.
    pub process: String,
    /// For how long callers wait; and in tests, what the scripts are told instead of Redis' own time.
    pub clock: Arc<dyn Clock>,
    pub told: bool,
    pub notices: Notices,
    pub spreads: Spreads,
    /// Which place of a queue that is spread comes next.
    pub turns: AtomicUsize,
    /// Where this process waits for jobs of each shard.
    pub desks: OnceLock<Vec<Weak<Desk>>>,
    pub closed: AtomicBool,
    /// The roots of the shards whose Redis had no memory for the last call that brought jobs in.
    full: Mutex<BTreeSet<String>>,
    /// The roots of the shards whose last change too few replicas confirmed.
    unconfirmed: Mutex<BTreeSet<String>>,
    /// The books of the forgotten queues of each shard, as they were last seen.
    pub forgotten: Mutex<BTreeMap<u16, Books>>,
    /// How many leases were over when Redis answered.
    pub late: AtomicU64,
    /// How much was put right.
    pub repaired: AtomicU64,
    dice: Mutex<Dice>,
}

/// Random bytes, fetched from the system by the block.
#[derive(Default)]
struct Dice {
    bytes: Vec<u8>,
}

impl Store {
    pub fn new(
        link: Link,
        keys: Keys,
        shards: u16,
        clock: Arc<dyn Clock>,
        told: bool,
    ) -> Result<Store> {
        let mut store = Store {
            link,
            keys,
            shards,
            identity: String::new(),
            gone: AtomicBool::new(false),
            process: String::new(),
            clock,
            told,
            notices: Notices::default(),
            spreads: Spreads::default(),
            turns: AtomicUsize::new(0),
            desks: OnceLock::new(),
            closed: AtomicBool::new(false),
            full: Mutex::default(),
            unconfirmed: Mutex::default(),
            forgotten: Mutex::default(),
            late: AtomicU64::new(0),
            repaired: AtomicU64::new(0),
            dice: Mutex::default(),
        };
        store.process = store.name()?;
        Ok(store)
    }

    /// A name that nobody else has.
    pub fn name(&self) -> Result<String> {
        let name = self.random(12)?;
        Ok(name.iter().map(|b| format!("{b:02x}")).collect())
    }

    /// Where a queue is, or, if it is spread over several shards, the first of them.
    pub fn shard_of(&self, queue: &QueueName) -> u16 {
        home(queue, self.shards)
    }

    /// Where this process waits for jobs of a shard.
    pub fn desk(&self, shard: u16) -> Option<Arc<Desk>> {
        self.desks.get()?.get(usize::from(shard))?.upgrade()
    }

    /// All shards.
    pub fn all(&self) -> std::ops::Range<u16> {
        0..self.shards
    }

    /// A call of a script on a shard.
    pub fn call(&self, script: &'static Script, shard: u16) -> Call {
        let mut call = Call::new(script, self.keys.part(shard, "META"));
        call.key(self.keys.part(shard, "ABSENT"));
        match self.told {
            true => call.arg(self.clock.now().wall.0.to_string()),
            false => call.arg(""),
        };
        let watches = if self.notices.wanted() { "1" } else { "0" };
        call.arg(format!("{watches}{}", self.identity));
        call
    }

    /// Runs a script. Fails also if too few replicas confirmed it.
    pub async fn run(&self, call: Call) -> Result<Value> {
        self.run_at_all(call).await?.confirmed()
    }

    /// Runs a script, and tells what it answered also if too few replicas confirmed it.
    pub async fn run_at_all(&self, call: Call) -> Result<Done> {
        self.open()?;
        if self.notices.wanted() {
            self.notices.ready().await;
        }
        let grows = call.grows().then(|| call.root().to_owned());
        let is_replicated = self.link.is_replicated(&call);
        let replicated = is_replicated.then(|| call.root().to_owned());
        let done = self.link.run(call).await;
        if let Some(root) = grows {
            self.note_memory(root, &done);
        }
        let done = done?;
        if let Some(root) = replicated {
            self.note_replicas(root, &done);
        }
        if matches!(&done.answer, Value::SimpleString(text) if text == GONE) {
            if !self.gone.swap(true, Ordering::AcqRel) {
                tracing::error!("redis: {EMPTIED}");
            }
            self.open()?;
        }
        Ok(done)
    }

    /// Notes whether there was memory for jobs. Only for the lack of it, Redis itself refuses a script with this code.
    fn note_memory(&self, root: String, done: &Result<Done>) {
        let mut full = self.full.lock().expect("full");
        match done {
            Err(error) if error.code() == Code::QueueFull => _ = full.insert(root),
            Ok(_) => _ = full.remove(&root),
            Err(_) => {}
        }
    }

    /// Notes whether enough replicas confirmed a change.
    fn note_replicas(&self, root: String, done: &Done) {
        let mut unconfirmed = self.unconfirmed.lock().expect("unconfirmed");
        match done.unconfirmed {
            Some(_) => _ = unconfirmed.insert(root),
            None => _ = unconfirmed.remove(&root),
        }
    }

    /// Whether too few replicas of a shard confirmed its last change.
    pub fn lacks_replicas(&self, shard: u16) -> bool {
        let root = self.keys.part(shard, "META");
        let unconfirmed = self.unconfirmed.lock().expect("unconfirmed");
        unconfirmed.contains(&root)
    }

    /// Whether the Redis of a shard had no memory for the last jobs.
    pub fn is_full(&self, shard: u16) -> bool {
        let root = self.keys.part(shard, "META");
        self.full.lock().expect("full").contains(&root)
    }

    /// Fails after the engine was closed, and when the store is not the one that was opened.
    pub fn open(&self) -> Result<()> {
        let why = match () {
            () if self.closed.load(Ordering::Acquire) => "the engine is closed",
            () if self.gone.load(Ordering::Acquire) => EMPTIED,
            () => return Ok(()),
        };
        Err(Error::new(Code::Unavailable, why))
    }

    /// Bytes that nobody can guess.
    pub fn random(&self, count: usize) -> Result<Vec<u8>> {
        let mut dice = self.dice.lock().expect("dice");
        if dice.bytes.len() < count {
            let mut fresh = vec![0; 4096.max(count)];
            getrandom::fill(&mut fresh).map_err(|error| {
                Error::new(Code::Unavailable, format!("no randomness: {error}"))
            })?;
            dice.bytes = fresh;
        }
        let rest = dice.bytes.len() - count;
        Ok(dice.bytes.split_off(rest))
    }
}

/// FNV-1a: every process, of every version, must find the same place.
pub fn hash<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u64 {
    let bytes = parts.into_iter().flatten();
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// So that each bit of a hash depends on each: of the last bytes, FNV-1a alone carries little into its upper bits.
pub fn mixed(hash: u64) -> u64 {
    let hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ hash >> 31
}

/// Which of so many shards a queue's name names. It must never change: jobs are found by it.
fn home(queue: &QueueName, shards: u16) -> u16 {
    let hash = mixed(hash([queue.as_str().as_bytes()]));
    ((hash >> 32) % u64::from(shards)) as u16
}

/// The bytes of an answer.
pub fn bytes(value: Value) -> Result<Bytes> {
    match value {
        Value::BulkString(bytes) => Ok(bytes.into()),
        Value::SimpleString(text) => Ok(text.into()),
        Value::Nil => Ok(Bytes::new()),
        _ => Err(garbled("something else than bytes")),
    }
}

/// The text of an answer.
pub fn text(value: Value) -> Result<String> {
    let text = String::from_utf8(bytes(value)?.to_vec());
    text.map_err(|_| garbled("bytes that are no text"))
}

/// The items of an answer.
pub fn items(value: Value) -> Result<Vec<Value>> {
    match value {
        Value::Array(items) => Ok(items),
        Value::Nil => Ok(Vec::new()),
        _ => Err(garbled("something else than a list")),
    }
}

/// Exactly so many items.
pub fn tuple<const N: usize>(value: Value) -> Result<[Value; N]> {
    items(value)?
        .try_into()
        .map_err(|_| garbled("a list of another length"))
}

/// A number, however it was sent.
pub fn number(value: Value) -> Result<u64> {
    let wrong = || garbled("something else than a number");
    match value {
        Value::Int(number) => u64::try_from(number).map_err(|_| wrong()),
        other => {
            let text = bytes(other)?;
            let text = std::str::from_utf8(&text).map_err(|_| wrong())?;
            // Lua writes large numbers as it likes: 1.7e+12 is one, too.
            let number = text
                .parse()
                .or_else(|_| text.parse::<f64>().map(|n| n as u64));
            number.map_err(|_| wrong())
        }
    }
}

/// A time.
pub fn time(value: Value) -> Result<Timestamp> {
    number(value).map(Timestamp)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of these queues each shard has.
    fn shared(names: impl Iterator<Item = String>, shards: u16) -> Vec<usize> {
        let mut counts = vec![0; usize::from(shards)];
        for name in names {
            let queue = QueueName::new(&name).expect("a name");
            counts[usize::from(home(&queue, shards))] += 1;
        }
        counts
    }

    #[test]
    fn queues_whose_names_differ_only_at_the_end_share_all_shards() {
        for shards in [3, 7, 16, 64] {
            let letters = 'a'..='z';
            let pairs = letters
                .flat_map(|first| ('a'..='z').map(move |last| format!("mail.{first}{last}")));
            let pairs: Vec<_> = pairs.collect();
            let numbers = |digits: usize| {
                let most = 10_usize.pow(digits as u32);
                (0..most).map(move |number| format!("tenant-{number:0digits$}"))
            };
            for names in [numbers(2).collect(), numbers(3).collect(), pairs] {
                let part = names.len().div_ceil(usize::from(shards));
                let counts = shared(names.into_iter(), shards);
                assert!(counts.iter().all(|count| *count <= 3 * part), "{counts:?}");
            }
        }
    }

    #[test]
    fn a_queue_is_where_it_always_was() {
        let home = |name| home(&QueueName::new(name).expect("a name"), 16);
        assert_eq!([home("mail"), home("q"), home("tenant-07")], [14, 2, 2]);
    }
}
