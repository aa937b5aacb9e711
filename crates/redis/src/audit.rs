//! The audit: every stored job is looked at in all places where it must or must not be, and counted for the books.
//!
//! It goes piece by piece, so nobody waits for it, and what is found about a job is true at one moment. What the pieces add up
//! to is exact only while nothing else happens.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::Arc;

use auxo_core::engine::Audit;
use auxo_core::queue::QueueInfo;
use auxo_core::{JobId, QueueName, Result};
use bytes::Bytes;

use crate::bytes::Unpack;
use crate::desk::catch_up;
use crate::forget;
use crate::look::queues_in;
use crate::record::{garbled, id_of};
use crate::script;
use crate::spread;
use crate::store::{Store, bytes, items, text, tuple};

/// How many jobs a piece has, and how many bytes of payload they should not exceed: the script has them all in its hands.
const PIECE: usize = 100;
const BYTES: u64 = 256 * 1024;

/// Something that is not where it must be, or is where it must not.
pub struct Find {
    /// A job, or a set as `strays.lua` names it.
    kind: String,
    queue: String,
    class: Bytes,
    group: Bytes,
    member: Bytes,
    /// What is wrong with a job.
    problem: String,
}

impl Find {
    fn job(member: Bytes, problem: String) -> Find {
        Find {
            kind: "job".to_owned(),
            queue: String::new(),
            class: Bytes::new(),
            group: Bytes::new(),
            member,
            problem,
        }
    }

    /// As `repair.lua` takes it.
    pub fn parts(&self) -> [&[u8]; 5] {
        let (kind, queue) = (self.kind.as_bytes(), self.queue.as_bytes());
        [kind, queue, &self.class, &self.group, &self.member]
    }
}

impl fmt::Display for Find {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queue = &self.queue;
        let member = match id_of(&self.member) {
            Ok(id) if self.kind != "keys" && self.kind != "ring" => id.to_string(),
            _ => format!("{:?}", String::from_utf8_lossy(&self.member)),
        };
        match self.kind.as_str() {
            "job" => write!(f, "job {member} {}", self.problem),
            "lives" => write!(f, "job {member} has a life but is not there"),
            "timers" => write!(f, "job {member} has a timer but is not there"),
            "keys" => write!(f, "queue {queue}: nobody has key {member}, but it is taken"),
            "ring" => write!(f, "queue {queue}: group {member} has turns but no jobs"),
            "line" | "group" => write!(f, "queue {queue}: job {member} stands in a wrong line"),
            kind => write!(
                f,
                "queue {queue}: job {member} is among the {kind} by mistake"
            ),
        }
    }
}

/// What the stored jobs of a queue add up to.
#[derive(Clone, Copy, Default)]
pub struct Sum {
    pub waiting: u64,
    pub leased: u64,
    pub dead: u64,
    pub expired: u64,
    pub bytes: u64,
}

/// What the stored jobs of all queues of a shard add up to.
pub type Sums = BTreeMap<QueueName, Sum>;

/// A walk through all stored jobs of a shard.
pub struct Jobs {
    cursor: Option<String>,
    count: usize,
    /// A scan shows a job that is there all the while at least once. Who must be exact remembers which it has seen.
    seen: Option<HashSet<JobId>>,
    pub jobs: u64,
    pub sums: Sums,
}

impl Jobs {
    pub fn new(exact: bool) -> Jobs {
        Jobs {
            cursor: Some("0".to_owned()),
            // Nothing is known yet about how large they are.
            count: 10,
            seen: exact.then(HashSet::new),
            jobs: 0,
            sums: Sums::new(),
        }
    }

    /// What is wrong with the next jobs. `None` when there are no more.
    pub async fn next(&mut self, store: &Store, shard: u16) -> Result<Option<Vec<Find>>> {
        let Some(cursor) = &self.cursor else {
            return Ok(None);
        };
        let mut call = store.call(&script::AUDIT, shard);
        call.arg(cursor.as_str()).arg(self.count.to_string());
        let [next, names, jobs, wrong] = tuple(store.run(call).await?)?;
        let name = |name| QueueName::new(&text(name)?);
        let names: Vec<QueueName> = items(names)?.into_iter().map(name).collect::<Result<_>>()?;
        let (count, size) = self.add(&bytes(jobs)?, &names)?;
        if let Some(each) = size.checked_div(count) {
            self.count = (BYTES / each.max(1)).clamp(1, PIECE as u64) as usize;
        }
        let next = text(next)?;
        self.cursor = Some(next).filter(|next| next != "0");
        let mut finds = Vec::new();
        let mut wrong = items(wrong)?.into_iter();
        while let (Some(id), Some(problem)) = (wrong.next(), wrong.next()) {
            finds.push(Find::job(bytes(id)?, text(problem)?));
        }
        Ok(Some(finds))
    }

    /// Counts the jobs of a piece. How many they are, and how large together.
    fn add(&mut self, jobs: &[u8], names: &[QueueName]) -> Result<(u64, u64)> {
        let (mut count, mut size) = (0, 0);
        for job in jobs.chunks_exact(16) {
            let mut unpack = Unpack(job);
            let mut parts = || {
                let id = JobId(unpack.u64()?);
                let queue = names.get(usize::from(unpack.u16()?))?;
                Some((id, queue, unpack.u8()?, unpack.u8()?, unpack.u32()?.into()))
            };
            let (id, queue, state, reason, bytes) = parts().ok_or_else(|| garbled("a job"))?;
            count += 1;
            size += bytes;
            if self.seen.as_mut().is_none_or(|seen| seen.insert(id)) {
                self.jobs += 1;
                let sum = self.sums.entry(queue.clone()).or_default();
                sum.add(state, reason, bytes);
            }
        }
        Ok((count, size))
    }
}

impl Sum {
    fn add(&mut self, state: u8, reason: u8, bytes: u64) {
        match (state, reason) {
            (0, _) => self.waiting += 1,
            (1, _) => self.leased += 1,
            (2, 4) => self.expired += 1,
            (2, _) => self.dead += 1,
            // What is done is in no book any more.
            _ => return,
        }
        self.bytes += bytes;
    }

    /// How many jobs there are.
    pub fn stored(&self) -> u64 {
        self.waiting + self.leased + self.dead + self.expired
    }

    /// Where the books say something else: what, how many by the books, how many by this count.
    pub fn differences(&self, info: &QueueInfo) -> Vec<(&'static str, u64, u64)> {
        let (counts, books) = (&info.counts, &info.books);
        let all = [
            ("live", books.live, self.waiting + self.leased),
            ("waiting", counts.ready + counts.scheduled, self.waiting),
            ("leased", counts.leased, self.leased),
            ("dead", books.dead, self.dead),
            ("expired", books.expired, self.expired),
            ("bytes", info.bytes, self.bytes),
        ];
        let differ = all.into_iter().filter(|(_, booked, found)| booked != found);
        differ.collect()
    }
}

/// A walk through all sets of a shard that have jobs.
pub struct Strays {
    /// The queue, which of its sets, and the cursor in that.
    position: Option<[Bytes; 3]>,
}

impl Strays {
    pub fn new() -> Strays {
        let first = ["", "1", "0"].map(|part| Bytes::from_static(part.as_bytes()));
        Strays {
            position: Some(first),
        }
    }

    /// Who of the next has no business there. `None` when there are no more.
    pub async fn next(&mut self, store: &Store, shard: u16) -> Result<Option<Vec<Find>>> {
        let Some(position) = &self.position else {
            return Ok(None);
        };
        let mut call = store.call(&script::STRAYS, shard);
        for part in position {
            call.arg(part.to_vec());
        }
        call.arg(PIECE.to_string());
        let [next, found] = tuple(store.run(call).await?)?;
        let next: Vec<Bytes> = items(next)?.into_iter().map(bytes).collect::<Result<_>>()?;
        self.position = next.try_into().ok();
        let mut finds = Vec::new();
        let mut parts = items(found)?.into_iter();
        while let Some(kind) = parts.next() {
            let mut next = || parts.next().ok_or_else(|| garbled("half a stray"));
            finds.push(Find {
                kind: text(kind)?,
                queue: text(next()?)?,
                class: bytes(next()?)?,
                group: bytes(next()?)?,
                member: bytes(next()?)?,
                problem: String::new(),
            });
        }
        Ok(Some(finds))
    }
}

/// Recomputes the books from the stored jobs.
pub async fn audit(store: &Arc<Store>) -> Result<Audit> {
    let mut audit = Audit::default();
    for shard in store.all() {
        catch_up(store, shard).await?;
        forget::unused(store, shard).await?;
        audit_in(store, shard, &mut audit).await?;
    }
    for (queue, extent) in spread::seen(store).await? {
        if !spread::agree(store, &queue, extent).await? {
            let problem = format!("queue {queue}: its shards know different settings");
            audit.problems.push(problem);
        }
    }
    audit.queues.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(audit)
}

async fn audit_in(store: &Arc<Store>, shard: u16, audit: &mut Audit) -> Result<()> {
    let mut jobs = Jobs::new(true);
    while let Some(finds) = jobs.next(store, shard).await? {
        audit.problems.extend(finds.iter().map(Find::to_string));
    }
    let mut strays = Strays::new();
    while let Some(finds) = strays.next(store, shard).await? {
        audit.problems.extend(finds.iter().map(Find::to_string));
    }
    audit.jobs += jobs.jobs;
    for info in queues_in(store, shard).await? {
        let sum = jobs.sums.remove(&info.name).unwrap_or_default();
        let name = &info.name;
        for (what, booked, found) in sum.differences(&info) {
            audit.problems.push(format!(
                "queue {name}: {booked} {what} in the books, {found} among the stored jobs"
            ));
        }
        if !info.books.balanced() {
            let problem = format!("queue {name}: the books do not balance");
            audit.problems.push(problem);
        }
        match audit.queues.iter_mut().find(|(name, _)| *name == info.name) {
            Some((_, books)) => *books += info.books,
            None => audit.queues.push((info.name, info.books)),
        }
    }
    let forgotten = forget::books_in(store, shard).await?;
    if !forgotten.balanced() {
        let problem = format!("forgotten queues: the books do not balance: {forgotten:?}");
        audit.problems.push(problem);
    }
    audit.forgotten += forgotten;
    for queue in jobs.sums.keys() {
        let problem = format!("queue {queue} has jobs but no books");
        audit.problems.push(problem);
    }
    Ok(())
}
