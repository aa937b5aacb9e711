//! Connections that have not shown yet who they are: there are few of them, and they get little.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::Instant;

/// What those get who have not shown who they are, where tokens are needed.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Connections at once: 1,000. One more displaces the oldest of the network that has the most.
    pub connections: usize,
    /// Of these from one address, or a /64 of IPv6: 250. One more displaces the oldest of them.
    pub each: usize,
    /// Bytes of requests: 4 KiB. What TLS needs to begin is not in it; that has bounds of its own.
    pub bytes: usize,
    /// From the first moment of the connection on: 10 s.
    pub time: Duration,
    /// How long the answer to a wrong token is held back when there were too many: 1 s.
    pub delay: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience {
            connections: 1000,
            each: 250,
            bytes: 4 << 10,
            time: Duration::from_secs(10),
            delay: Duration::from_secs(1),
        }
    }
}

/// The places that there are for strangers. When all are taken, a new connection gets the place of the oldest one, for it may
/// have a right token: connections that only wait must not keep those out.
#[derive(Debug)]
pub struct Places {
    most: usize,
    each: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    /// How many there are.
    all: usize,
    /// How many there ever were: the number of the next one.
    next: u64,
    /// Those of each network, the oldest first.
    by: HashMap<IpAddr, BTreeMap<u64, Arc<Displaced>>>,
}

impl Taken {
    fn count(&self, network: IpAddr) -> usize {
        self.by.get(&network).map_or(0, BTreeMap::len)
    }

    /// The network that has the most places; of several the one with the oldest connection.
    fn largest(&self) -> Option<IpAddr> {
        let order =
            |places: &BTreeMap<u64, _>| (places.len(), Reverse(places.keys().next().copied()));
        let largest = self.by.iter().max_by_key(|(_, places)| order(places));
        largest.map(|(network, _)| *network)
    }

    /// Takes the place of the oldest connection of a network.
    fn displace(&mut self, network: IpAddr) {
        let oldest = self
            .by
            .get(&network)
            .and_then(|places| places.keys().next());
        if let Some(&oldest) = oldest
            && let Some(displaced) = self.remove(network, oldest)
        {
            displaced.displace();
        }
    }

    fn remove(&mut self, network: IpAddr, number: u64) -> Option<Arc<Displaced>> {
        let places = self.by.get_mut(&network)?;
        let removed = places.remove(&number)?;
        if places.is_empty() {
            self.by.remove(&network);
        }
        self.all -= 1;
        Some(removed)
    }
}

/// Whether the place of a connection was given to another one.
#[derive(Debug, Default)]
struct Displaced(Mutex<(bool, Option<Waker>)>);

impl Displaced {
    fn displace(&self) {
        let mut state = self.state();
        state.0 = true;
        if let Some(connection) = state.1.take() {
            connection.wake();
        }
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state();
        if state.0 {
            return Poll::Ready(());
        }
        state.1 = Some(cx.waker().clone());
        Poll::Pending
    }

    fn state(&self) -> MutexGuard<'_, (bool, Option<Waker>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place among the strangers, given back with the value.
#[derive(Debug)]
pub struct Place {
    places: Arc<Places>,
    network: IpAddr,
    number: u64,
    displaced: Arc<Displaced>,
}

impl Places {
    pub(super) fn new(patience: &Patience) -> Arc<Places> {
        Arc::new(Places {
            most: patience.connections,
            each: patience.each,
            taken: Mutex::default(),
        })
    }

    /// A place for a new connection from there. If the network has as many as it may, its oldest connection loses its place; else, if
    /// there are no more at all, the oldest one of the network that has the most: a flood displaces itself before others.
    pub(super) fn take(self: &Arc<Places>, network: IpAddr) -> Place {
        let mut taken = self.taken();
        if taken.count(network) >= self.each {
            taken.displace(network);
        } else if taken.all >= self.most
            && let Some(largest) = taken.largest()
        {
            taken.displace(largest);
        }
        let (number, displaced) = (taken.next, Arc::<Displaced>::default());
        taken.next += 1;
        taken.all += 1;
        let places = taken.by.entry(network).or_default();
        places.insert(number, displaced.clone());
        Place {
            places: self.clone(),
            network,
            number,
            displaced,
        }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // One that was displaced is gone already.
        self.places.taken().remove(self.network, self.number);
    }
}

/// A connection, and whether it has shown who it is. Until then it has a place among few, and bounds.
#[derive(Debug)]
pub struct Stranger {
    known: AtomicBool,
    left: AtomicUsize,
    until: Instant,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    place: Option<Place>,
    reader: Option<Waker>,
}

impl Stranger {
    /// One that has to show who it is.
    pub(super) fn new(patience: &Patience, place: Place) -> Stranger {
        Stranger {
            known: AtomicBool::new(false),
            left: AtomicUsize::new(patience.bytes),
            until: Instant::now() + patience.time,
            kept: Mutex::new(Kept {
                place: Some(place),
                reader: None,
            }),
        }
    }

    /// One that need not.
    pub fn known() -> Stranger {
        Stranger {
            known: AtomicBool::new(true),
            left: AtomicUsize::new(0),
            until: Instant::now(),
            kept: Mutex::default(),
        }
    }

    /// Whether it may go on without bounds.
    pub fn is_known(&self) -> bool {
        self.known.load(Relaxed)
    }

    /// Notes that it has shown who it is, and gives its place to another.
    pub fn recognise(&self) {
        if self.known.swap(true, Relaxed) {
            return;
        }
        let kept = std::mem::take(&mut *self.kept());
        if let Some(reader) = kept.reader {
            reader.wake();
        }
    }

    /// How many bytes may still be read.
    pub fn left(&self) -> usize {
        match self.is_known() {
            true => usize::MAX,
            false => self.left.load(Relaxed),
        }
    }

    /// Notes that so many were read.
    pub fn took(&self, bytes: usize) {
        if !self.is_known() {
            let left = self.left.load(Relaxed);
            self.left.store(left.saturating_sub(bytes), Relaxed);
        }
    }

    /// By when it must have shown who it is; `None` if it has.
    pub fn until(&self) -> Option<Instant> {
        (!self.is_known()).then_some(self.until)
    }

    /// Ready when its place was given to a newer connection before it has shown who it is: then it is to be closed.
    pub fn poll_displaced(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_known() {
            return Poll::Pending;
        }
        match &self.kept().place {
            Some(place) => place.displaced.poll(cx),
            None => Poll::Pending,
        }
    }

    /// Wakes the task when it is known. True if it is already.
    pub fn wake_when_known(&self, cx: &mut Context<'_>) -> bool {
        let mut kept = self.kept();
        kept.reader = Some(cx.waker().clone());
        // Asked again with the lock held: whoever recognises it takes the waker under the same lock, after the note.
        self.is_known()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
