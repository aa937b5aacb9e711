//! Room for the names of queues that calls wait in.
//!
//! A call that waits costs its names and little else, so they are counted, all of them together. Nobody may have more than a
//! quarter of the room: else one token for one queue could keep everybody from waiting. A call that does not wait has no names
//! here at all.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use auxo_core::engine::Ask;
use auxo_core::{Code, Error, QueueName, Result};

use crate::auth::{Identity, network};

/// What part of the room one holder may have.
const SHARE: usize = 4;

/// Up to so many names are compared with each other; for more it is worth to make a set.
const FEW: usize = 8;

/// The room that there is.
#[derive(Debug)]
pub struct Names {
    most: usize,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    all: usize,
    each: HashMap<Holder, usize>,
}

/// Whose calls are counted together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Holder {
    /// Those with a token, by its public part.
    Token(Box<str>),
    /// Those of whom only the address is known.
    Address(IpAddr),
}

impl Holder {
    /// Somebody who was let in, from there.
    pub fn of(identity: Option<&Identity>, from: IpAddr) -> Holder {
        match identity.and_then(Identity::id) {
            Some(id) => Holder::Token(id.into()),
            None => Holder::Address(network(from)),
        }
    }
}

/// Room that a call has until this is dropped.
#[derive(Debug)]
#[must_use]
pub struct Room {
    names: Arc<Names>,
    holder: Holder,
    count: usize,
}

impl Names {
    /// Room for so many names.
    pub fn new(most: usize) -> Arc<Names> {
        Arc::new(Names {
            most,
            held: Mutex::default(),
        })
    }

    /// Takes room for a call, if it waits. A name that it repeats means nothing more, and is taken out of it.
    pub fn take(
        self: &Arc<Names>,
        ask: &mut Ask,
        holder: impl FnOnce() -> Holder,
    ) -> Result<Option<Room>> {
        if ask.wait.is_zero() || ask.queues.is_empty() {
            return Ok(None);
        }
        dedup(&mut ask.queues);
        self.hold(holder(), ask.queues.len()).map(Some)
    }

    fn hold(self: &Arc<Names>, holder: Holder, count: usize) -> Result<Room> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let own = held.each.get(&holder).copied().unwrap_or(0);
        if own + count > self.most / SHARE || held.all + count > self.most {
            let message = "too many calls wait in too many queues; name fewer, or try again";
            return Err(Error::new(Code::Unavailable, message));
        }
        held.all += count;
        held.each.insert(holder.clone(), own + count);
        Ok(Room {
            names: self.clone(),
            holder,
            count,
        })
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut held = self
            .names
            .held
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        held.all -= self.count;
        if let Some(own) = held.each.get_mut(&self.holder) {
            *own -= self.count;
            if *own == 0 {
                held.each.remove(&self.holder);
            }
        }
    }
}

/// Keeps the first of each name.
fn dedup(names: &mut Vec<QueueName>) {
    if names.len() <= FEW {
        let mut place = 1;
        while place < names.len() {
            match names[..place].contains(&names[place]) {
                true => drop(names.remove(place)),
                false => place += 1,
            }
        }
        return;
    }
    let mut seen = HashSet::with_capacity(names.len());
    names.retain(|name| seen.insert(name.clone()));
    names.shrink_to_fit();
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn ask(queues: impl IntoIterator<Item = usize>, wait: u64) -> Ask {
        let name = |number| QueueName::new(&format!("q{number}")).unwrap();
        Ask {
            queues: queues.into_iter().map(name).collect(),
            job: None,
            max: 1,
            wait: Duration::from_secs(wait),
            ttr: None,
            pick: Default::default(),
            worker: "".into(),
        }
    }

    fn token(id: &str) -> Holder {
        Holder::Token(id.into())
    }

    #[test]
    fn nobody_has_more_than_a_quarter_and_all_together_not_more_than_there_is() {
        let names = Names::new(40);
        let take = |holder: &str, count: usize| names.take(&mut ask(0..count, 1), || token(holder));
        let first = take("a", 6).unwrap();
        assert!(take("a", 5).is_err());
        let second = take("a", 4).unwrap();
        assert!(take("a", 1).is_err());
        let others: Vec<_> = ["b", "c", "d"]
            .map(|holder| take(holder, 10).unwrap())
            .into();
        let full = take("e", 1).unwrap_err();
        assert_eq!(full.code(), Code::Unavailable);
        drop(first);
        let _more = take("a", 6).unwrap();
        drop((second, others));
        assert_eq!(names.held.lock().unwrap().each.len(), 1);
        assert_eq!(names.held.lock().unwrap().all, 6);
    }

    #[test]
    fn a_call_that_does_not_wait_takes_no_room() {
        let names = Names::new(4);
        let mut many = ask(0..1000, 0);
        let room = names.take(&mut many, || panic!("nobody asks whose it is"));
        assert!(room.unwrap().is_none());
        assert_eq!(many.queues.len(), 1000);
    }

    #[test]
    fn a_name_counts_once_and_the_order_stays() {
        for (queues, kept) in [
            (vec![3, 1, 3, 2, 1, 3], vec![3, 1, 2]),
            (vec![7; 1000], vec![7]),
            ((0..20).chain(0..20).collect(), (0..20).collect()),
        ] {
            let names = Names::new(80);
            let mut asked = ask(queues, 1);
            let room = names.take(&mut asked, || token("a")).unwrap().unwrap();
            assert_eq!(asked.queues, ask(kept, 1).queues);
            assert_eq!(room.count, asked.queues.len());
        }
    }

    #[test]
    fn who_has_no_token_is_counted_by_address() {
        let one = |address: &str| Holder::of(None, address.parse().unwrap());
        assert_eq!(one("2001:db8::1"), one("2001:db8::2"));
        assert_eq!(one("::ffff:10.0.0.1"), one("10.0.0.1"));
        assert_ne!(one("10.0.0.1"), one("10.0.0.2"));
        let everybody = Identity::everybody();
        let from = "10.0.0.1".parse().unwrap();
        assert_eq!(Holder::of(Some(&everybody), from), one("10.0.0.1"));
    }
}
