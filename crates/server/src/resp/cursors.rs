//! Where walks over all jobs go on. An engine's cursor is a text, and clients of Disque know numbers only.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use auxo_core::engine::Cursor;

/// How many are remembered. A walk that rests while so many others go on begins anew.
const KEPT: usize = 1000;

/// The cursors that were given out last.
pub struct Cursors(Mutex<Kept>);

struct Kept {
    /// The last number that was given out.
    last: u64,
    /// In the order of their numbers.
    cursors: VecDeque<(u64, Cursor)>,
}

impl Default for Cursors {
    fn default() -> Cursors {
        // Not from one on: a number from before a restart must not mean another place.
        let begin = u64::from(getrandom::u32().unwrap_or_default());
        Cursors(Mutex::new(Kept {
            last: begin << 16,
            cursors: VecDeque::new(),
        }))
    }
}

impl Cursors {
    /// Gives out a number for a cursor.
    pub fn keep(&self, cursor: Cursor) -> u64 {
        let mut kept = self.lock();
        if kept.cursors.len() >= KEPT {
            kept.cursors.pop_front();
        }
        kept.last += 1;
        let number = kept.last;
        kept.cursors.push_back((number, cursor));
        number
    }

    /// The cursor of a number, if it is remembered.
    pub fn find(&self, number: u64) -> Option<Cursor> {
        let kept = self.lock();
        let place = kept.cursors.binary_search_by_key(&number, |kept| kept.0);
        Some(kept.cursors[place.ok()?].1.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        // It is whole at any time.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_stands_for_its_cursor_until_many_others_came() {
        let cursors = Cursors::default();
        let first = cursors.keep(Cursor("a".into()));
        assert_ne!(first, 0);
        assert_eq!(cursors.find(first), Some(Cursor("a".into())));
        assert_eq!(cursors.find(first + 1), None);
        for i in 1..KEPT {
            let number = cursors.keep(Cursor(i.to_string()));
            assert_eq!(cursors.find(number), Some(Cursor(i.to_string())));
        }
        assert_eq!(cursors.find(first), Some(Cursor("a".into())));
        cursors.keep(Cursor("b".into()));
        assert_eq!(cursors.find(first), None);
    }
}
