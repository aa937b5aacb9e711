//! The names of all keys, spelled here and nowhere else.
//!
//! A store is a prefix and a number of shards. All keys of shard 3 of the store `auxo` begin with `auxo{3}:`; the braces make
//! Redis Cluster keep them together, so that a script can change them in one step. The scripts get the root of their shard and
//! append what [`NAMES`] says. A queue's name is always the last part of a key, so no two names can make the same one.

/// The parts of a shard, with the name that scripts know them by.
pub const NAMES: &[(&str, &str)] = &[
    // A hash: the store's identity, its layout and number of shards, the newest id, the count of leases, until when somebody watches, when
    // schedules were armed, how many walks of the auditor came to their end, how many queues there may be if not as many as usual.
    ("META", "meta"),
    // A hash of packed jobs by id: what a client said.
    ("JOBS", "jobs"),
    // A hash of packed lives by id: what happened since.
    ("LIVES", "lives"),
    // A sorted set of ids by the one instant at which something must happen to the job by itself.
    ("TIMERS", "timers"),
    // A sorted set of the names of all queues.
    ("QUEUES", "queues"),
    // A sorted set of the names of queues that may have nothing, by when they were last used.
    ("UNUSED", "unused"),
    // A hash: the books of all forgotten queues.
    ("FORGOTTEN", "forgotten"),
    // A hash: a queue's settings and counts in this shard, when it was last asked for, and while it is being spread otherwise the plan.
    ("QUEUE", "q:"),
    // A sorted set: the priorities in which a queue has jobs that wait.
    ("CLASSES", "c:"),
    // A sorted set, one for each priority of a queue: jobs that wait, by due time.
    ("LINE", "l:"),
    // A hash: the job that has a key.
    ("KEYS_OF", "k:"),
    // A sorted set: a queue's dead jobs, by the time of death.
    ("DEAD", "d:"),
    // A sorted set: a queue's done jobs that are kept, by the time they were done.
    ("DONE", "e:"),
    // A sorted set, one for each group in a priority of a fair queue: jobs that wait, by due time.
    ("GROUP", "g:"),
    // A sorted set, one for each priority of a fair queue: its groups, by their last turn, or by when they came.
    ("RING", "r:"),
    // A sorted set: the processes that wait for a queue, by the order in which they came.
    ("WAITING", "w:"),
    // A list: what a process is to be told.
    ("SIGNALS", "s:"),
    // A hash of packed subscriptions by topic and name.
    ("SUBSCRIPTIONS", "subscriptions"),
    // A hash of packed schedules by name.
    ("SCHEDULES", "schedules"),
    // A sorted set of the names of schedules by their next tick.
    ("TICKS", "ticks"),
    // A hash: by the store that jobs are moved from, who moves them into the queue, and which were taken in last.
    ("NOTES", "n:"),
    // A string that expires: the process that looks after the shard.
    ("AUDITOR", "auditor"),
    // Never there. Every script names it, so that a cluster refuses it for a moment (TRYAGAIN) while the shard moves from one
    // node to another: then some of the named keys are here and some are not. Without it a script could find half a shard.
    ("ABSENT", "absent"),
    // A channel, not a key: what happens, while somebody watches.
    ("EVENTS", "events"),
];

/// Which store, on a Redis that may hold other things.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    prefix: String,
}

impl Keys {
    /// The keys that begin with this prefix.
    pub fn new(prefix: &str) -> Keys {
        Keys {
            prefix: prefix.to_owned(),
        }
    }

    /// What all keys of a shard begin with.
    pub fn root(&self, shard: u16) -> String {
        format!("{}{{{shard}}}:", self.prefix)
    }

    /// A part of a shard, by the name that scripts know it by.
    pub fn part(&self, shard: u16, name: &str) -> String {
        let part = NAMES.iter().find(|(known, _)| *known == name);
        let (_, part) = part.expect("a name of the list above");
        format!("{}{part}", self.root(shard))
    }
}
