//! Jobs in line: an ordered view over memory and index files.
//!
//! A stream yields its entries by time, then id. Entries of segments without an index file are in memory; those of sealed
//! segments stay in the index files and only the next one of each is held here. Nothing is ever taken out of the middle:
//! the segments' bits say whether an entry still counts, and stale ones are dropped when they reach the head.

use std::collections::{BTreeMap, VecDeque};
use std::ops::{Bound, Range};

use crate::damage::Trouble;
use crate::log::Log;
use crate::record::Place;

/// An entry of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    pub time: u64,
    pub id: u64,
    pub place: Place,
}

impl Spot {
    pub fn order(&self) -> (u64, u64) {
        (self.time, self.id)
    }
}

/// Whether entries that will be added later have an earlier time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Later {
    /// It is as good as the newest.
    No,
    /// It was set for a time to come.
    Yes,
}

/// The entries of one line, see the module.
#[derive(Default)]
pub struct Stream {
    /// What arrived in order, which is nearly everything.
    fifo: VecDeque<Spot>,
    /// What did not.
    others: BTreeMap<(u64, u64), Place>,
    /// One per index file that has more; the one with the smallest head is last.
    sources: Vec<Source>,
}

struct Source {
    head: Spot,
    rest: Range<u32>,
}

impl Stream {
    /// Adds an entry that is in memory. One that is due later than those to come must not stand at the end of those that
    /// arrive in order, or all of them would be out of order.
    pub fn insert(&mut self, spot: Spot, later: Later) {
        if later == Later::No
            && self
                .fifo
                .back()
                .is_none_or(|last| last.order() < spot.order())
        {
            self.fifo.push_back(spot);
        } else {
            self.others.insert(spot.order(), spot.place);
        }
    }

    /// Adds the entries of an index file.
    pub fn attach(
        &mut self,
        log: &mut Log,
        segment: u32,
        range: Range<u32>,
    ) -> Result<(), Trouble> {
        if let Some(source) = next_in_line(log, segment, range)? {
            let at = self
                .sources
                .partition_point(|other| other.head.order() > source.head.order());
            self.sources.insert(at, source);
        }
        Ok(())
    }

    /// Forgets the other entries: an index file takes over from memory, or segments are given up.
    pub fn retain(&mut self, stays: impl Fn(&Place) -> bool) {
        self.fifo.retain(|spot| stays(&spot.place));
        self.fifo.shrink_to(self.fifo.len() * 2);
        self.others.retain(|_, place| stays(place));
        self.sources.retain(|source| stays(&source.head.place));
    }

    /// The first entry that counts.
    pub fn head(&mut self, log: &mut Log) -> Result<Option<Spot>, Trouble> {
        while self
            .fifo
            .front()
            .is_some_and(|spot| !log.in_line(spot.place))
        {
            self.fifo.pop_front();
        }
        while self
            .others
            .first_key_value()
            .is_some_and(|(_, place)| !log.in_line(*place))
        {
            self.others.pop_first();
        }
        while self
            .sources
            .last()
            .is_some_and(|source| !log.in_line(source.head.place))
        {
            self.step(log)?;
        }
        let others = self
            .others
            .first_key_value()
            .map(|(&(time, id), &place)| Spot { time, id, place });
        let heads = [
            self.fifo.front().copied(),
            others,
            self.sources.last().map(|source| source.head),
        ];
        Ok(heads.into_iter().flatten().min_by_key(Spot::order))
    }

    /// The entries in memory from `from` on, in order, up to but not including `to`.
    pub fn memory(
        &self,
        from: Bound<(u64, u64)>,
        to: Bound<(u64, u64)>,
    ) -> impl Iterator<Item = Spot> + '_ {
        let start = self.fifo.partition_point(|spot| match from {
            Bound::Included(order) => spot.order() < order,
            Bound::Excluded(order) => spot.order() <= order,
            Bound::Unbounded => false,
        });
        let end = self.fifo.partition_point(|spot| match to {
            Bound::Included(order) => spot.order() <= order,
            Bound::Excluded(order) => spot.order() < order,
            Bound::Unbounded => true,
        });
        let mut fifo = self.fifo.range(start..end.max(start)).copied().peekable();
        let mut others = self
            .others
            .range((from, to))
            .map(|(&(time, id), &place)| Spot { time, id, place })
            .peekable();
        std::iter::from_fn(move || match (fifo.peek(), others.peek()) {
            (Some(a), Some(b)) if b.order() < a.order() => others.next(),
            (Some(_), _) => fifo.next(),
            (None, _) => others.next(),
        })
    }

    /// Whether the stream will yield this entry. Of an index file it is enough that the stream has not passed it.
    pub fn leads_to(&self, spot: &Spot) -> bool {
        let from = self
            .fifo
            .partition_point(|other| other.order() < spot.order());
        let equal = self.fifo.range(from..);
        equal
            .take_while(|other| other.order() == spot.order())
            .any(|other| other.place == spot.place)
            || self.others.get(&spot.order()) == Some(&spot.place)
            || self.sources.iter().any(|source| {
                source.head.place.segment == spot.place.segment
                    && source.head.order() <= spot.order()
            })
    }

    /// Moves the source with the smallest head on.
    fn step(&mut self, log: &mut Log) -> Result<(), Trouble> {
        let Some(source) = self.sources.pop() else {
            return Ok(());
        };
        self.attach(log, source.head.place.segment, source.rest)
    }
}

/// The first entry of the range that counts, and what lies behind it.
fn next_in_line(
    log: &mut Log,
    segment: u32,
    mut range: Range<u32>,
) -> Result<Option<Source>, Trouble> {
    while let Some(at) = range.next() {
        let head = log.entry(segment, at)?;
        if log.in_line(head.place) {
            return Ok(Some(Source { head, rest: range }));
        }
    }
    Ok(None)
}
