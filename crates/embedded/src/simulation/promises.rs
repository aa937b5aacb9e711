//! What callers were told of single jobs.
//!
//! The oracle asks how far the log reaches. This asks the same from outside, by the answers that somebody has: a job that
//! was taken in is there after a power cut, and one that was done is not there again. It counts instead of stopping at
//! the first, so that a planted bug is seen for what it does.

use std::collections::HashMap;

use auxo_conformance::{Mint, Model};
use auxo_core::JobId;
use auxo_core::engine::Which;
use auxo_core::life::State;
use auxo_core::time::Now;

use crate::machine::{After, Answer, Reply, Ticket};
use crate::record::Position;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    Kept,
    Ended,
}

struct Promise {
    job: JobId,
    word: Word,
    /// Where the log ended when it was made.
    end: Position,
}

/// See the module.
#[derive(Default)]
pub struct Promises {
    /// In answers that nobody has yet.
    made: HashMap<Ticket, Vec<Promise>>,
    /// Somebody goes by these, and they are not known to be on the disk.
    given: Vec<Promise>,
    /// Jobs that were gone though somebody was told that they are kept.
    pub lost: u64,
    /// Jobs that were there again though somebody was told that they ended.
    pub resurrected: u64,
}

impl Promises {
    /// Notes what an answer says that must survive.
    pub fn make(&mut self, answer: &Answer, end: Position) {
        if let (After::Synced, Ok(reply)) = (answer.after, &answer.reply) {
            let words = words(reply).into_iter();
            let promises = words.map(|(job, word)| Promise { job, word, end });
            self.made.insert(answer.ticket, promises.collect());
        }
    }

    /// Callers have got these answers.
    pub fn give(&mut self, tickets: &[Ticket]) {
        let given = tickets.iter().filter_map(|ticket| self.made.remove(ticket));
        self.given.extend(given.flatten());
    }

    /// What is on the disk up to here can be kept.
    pub fn settle(&mut self, safe: Position) {
        self.given.retain(|promise| promise.end > safe);
    }

    /// A new process found the log up to `found`, and with it this model: counts the promises that it does not keep.
    pub fn judge(&mut self, model: &mut Model, found: Position, now: Now, mint: &mut impl Mint) {
        self.settle(found);
        for promise in self.given.drain(..) {
            let job = model.find(&Which::Id(promise.job), now, mint);
            match promise.word {
                Word::Kept if job.is_none() => self.lost += 1,
                Word::Ended if job.is_some_and(|job| job.state != State::Done) => {
                    self.resurrected += 1;
                }
                _ => {}
            }
        }
        self.made.clear();
    }

    /// Power went where no answer was promised to survive that.
    pub fn forget(&mut self) {
        self.given.clear();
    }
}

fn words(reply: &Reply) -> Vec<(JobId, Word)> {
    match reply {
        Reply::Push(pushed) => {
            let pushed = pushed.iter().flatten();
            pushed.map(|pushed| (pushed.id, Word::Kept)).collect()
        }
        Reply::Publish(pushed) => pushed
            .iter()
            .map(|pushed| (pushed.id, Word::Kept))
            .collect(),
        Reply::Settle(settled) => settled
            .iter()
            .flatten()
            .filter(|settled| matches!(settled.state, State::Done | State::Cancelled))
            .map(|settled| (settled.id, Word::Ended))
            .collect(),
        // What is delivered at most once is done when it is handed out.
        Reply::Lease(leased) => leased
            .iter()
            .filter(|leased| leased.job.state == State::Done)
            .map(|leased| (leased.job.id, Word::Ended))
            .collect(),
        _ => Vec::new(),
    }
}
