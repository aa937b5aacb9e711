//! Connections that have not shown yet who they are: there are few of them, and they get little.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::time::Instant;

/// What those get who have not shown who they are, where tokens are needed.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Connections at once: 1,000.
    pub connections: usize,
    /// Of these from one address, or a /64 of IPv6: 100.
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

/// The places that there are for strangers.
#[derive(Debug)]
pub struct Places {
    most: usize,
    each: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by: HashMap<IpAddr, usize>,
}

/// A place among the strangers, given back with the value.
#[derive(Debug)]
pub struct Place {
    places: Arc<Places>,
    network: IpAddr,
}

impl Places {
    pub(super) fn new(patience: &Patience) -> Arc<Places> {
        Arc::new(Places {
            most: patience.connections,
            each: patience.each,
            taken: Mutex::default(),
        })
    }

    /// A place for somebody from there, if there is one.
    pub(super) fn take(self: &Arc<Places>, network: IpAddr) -> Option<Place> {
        let mut taken = self.taken();
        let own = taken.by.get(&network).copied().unwrap_or(0);
        if taken.all >= self.most || own >= self.each {
            return None;
        }
        taken.all += 1;
        taken.by.insert(network, own + 1);
        Some(Place {
            places: self.clone(),
            network,
        })
    }

    fn taken(&self) -> std::sync::MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        taken.all -= 1;
        if let Some(own) = taken.by.get_mut(&self.network) {
            *own -= 1;
            if *own == 0 {
                taken.by.remove(&self.network);
            }
        }
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
    _place: Option<Place>,
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
                _place: Some(place),
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

    /// Wakes the task when it is known. True if it is already.
    pub fn wake_when_known(&self, cx: &mut Context<'_>) -> bool {
        let mut kept = self.kept();
        kept.reader = Some(cx.waker().clone());
        // Asked again with the lock held: whoever recognises it takes the waker under the same lock, after the note.
        self.is_known()
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
