//! The streams in index files: which there are, and which of them a job record is in.

use auxo_core::time::Base;

use crate::index::{Entry, StreamKey};
use crate::record::{Kept, Stored};

/// Waiting jobs of a priority, by due time: one stream for those without a group and one for those with.
pub const LINE: u8 = 0;
/// Waiting jobs of a priority and a group, by due time.
pub const TURN: u8 = 2;
/// Dead jobs, by when they died.
pub const DEAD: u8 = 4;
/// Retained jobs, by when they are forgotten.
pub const DONE: u8 = 5;
/// Waiting jobs of all queues that have a time to live, by when it ends.
pub const EXPIRY: u8 = 6;
/// Retained jobs and tombstones of all queues, by when they are forgotten.
pub const KEEP: u8 = 8;

/// Stands for all queues.
pub const EVERYWHERE: u32 = u32::MAX;

/// In the streams of [`LINE`], jobs that are in a group, whichever.
pub const GROUPED: u64 = 1;

/// The class of waiting jobs by one clock. The steady clock's class is even, the wall clock's follows.
pub fn line(base: Base) -> u8 {
    LINE + base as u8
}

pub fn turn(base: Base) -> u8 {
    TURN + base as u8
}

pub fn expiry(base: Base) -> u8 {
    EXPIRY + base as u8
}

/// The clock of a class in [`LINE`], [`TURN`] or [`EXPIRY`].
pub fn base(class: u8) -> Base {
    if class.is_multiple_of(2) {
        Base::Steady
    } else {
        Base::Wall
    }
}

/// Calls `add` for each stream that the record is in.
pub fn streams(job: &Stored, ord: u32, offset: u32, mut add: impl FnMut(StreamKey, Entry)) {
    let id = job.id.0;
    let entry = |time: u64| Entry {
        time,
        id,
        ord,
        offset,
    };
    let in_queue = |class| StreamKey {
        queue: job.queue,
        class,
        priority: 0,
        group: 0,
    };
    let everywhere = |class| StreamKey {
        queue: EVERYWHERE,
        class,
        priority: 0,
        group: 0,
    };
    match job.kept {
        Kept::Waiting => {
            let at = job.line();
            let group = job.group_hash();
            let grouped = if group == 0 { 0 } else { GROUPED };
            add(
                StreamKey {
                    priority: job.priority,
                    group: grouped,
                    ..in_queue(line(at.base))
                },
                entry(at.at.0),
            );
            if group != 0 {
                add(
                    StreamKey {
                        priority: job.priority,
                        group,
                        ..in_queue(turn(at.base))
                    },
                    entry(at.at.0),
                );
            }
            if let Some(due) = job.expires {
                add(everywhere(expiry(due.base)), entry(due.at.0));
            }
        }
        Kept::Dead => add(in_queue(DEAD), entry(job.ended_at.unwrap_or_default().0)),
        Kept::Done => {
            add(in_queue(DONE), entry(job.until.0));
            add(everywhere(KEEP), entry(job.until.0));
        }
        Kept::Tomb => add(everywhere(KEEP), entry(job.until.0)),
    }
}
