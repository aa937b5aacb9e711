//! Which tubes connections use and watch. A tube that nobody has in use, and that holds no job, is none.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use auxo_core::QueueName;

/// The tube that every connection begins with.
pub const DEFAULT: &str = "default";

/// All tubes in use.
#[derive(Clone, Default)]
pub struct Tubes(Arc<Mutex<BTreeMap<QueueName, Weak<Tube>>>>);

/// A tube that some connection has in use.
pub struct Tube {
    /// Its name.
    pub name: QueueName,
    /// Connections that put into it.
    pub using: AtomicU64,
    /// Connections that watch it.
    pub watching: AtomicU64,
    /// Jobs of it that were deleted.
    pub deletes: AtomicU64,
    /// How often it was paused.
    pub pauses: AtomicU64,
    /// For how many seconds it was paused last.
    pub pause: AtomicU64,
    tubes: Tubes,
}

impl Tubes {
    /// Takes a tube into use.
    pub fn get(&self, name: &QueueName) -> Arc<Tube> {
        self.enter(&mut self.lock(), name)
    }

    /// Takes a tube into use, unless so many others are: a connection can name a thousand, and there may be thousands of them.
    pub fn get_if_fewer(&self, than: usize, name: &QueueName) -> Option<Arc<Tube>> {
        let mut tubes = self.lock();
        let room = tubes.len() < than || tubes.contains_key(name);
        room.then(|| self.enter(&mut tubes, name))
    }

    fn enter(&self, tubes: &mut BTreeMap<QueueName, Weak<Tube>>, name: &QueueName) -> Arc<Tube> {
        if let Some(tube) = tubes.get(name).and_then(Weak::upgrade) {
            return tube;
        }
        let tube = Arc::new(Tube {
            name: name.clone(),
            using: AtomicU64::new(0),
            watching: AtomicU64::new(0),
            deletes: AtomicU64::new(0),
            pauses: AtomicU64::new(0),
            pause: AtomicU64::new(0),
            tubes: self.clone(),
        });
        tubes.insert(name.clone(), Arc::downgrade(&tube));
        tube
    }

    /// A tube, if somebody has it in use.
    pub fn find(&self, name: &QueueName) -> Option<Arc<Tube>> {
        self.lock().get(name).and_then(Weak::upgrade)
    }

    /// The names of all tubes in use.
    pub fn names(&self) -> Vec<QueueName> {
        self.lock().keys().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<QueueName, Weak<Tube>>> {
        // The map is whole at any time.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Tube {
    fn drop(&mut self) {
        let mut tubes = self.tubes.lock();
        // Somebody may have taken it into use again since.
        if tubes
            .get(&self.name)
            .is_some_and(|tube| tube.strong_count() == 0)
        {
            tubes.remove(&self.name);
        }
    }
}

/// What a connection does with a tube, counted as long as it does.
pub struct Role {
    tube: Arc<Tube>,
    count: fn(&Tube) -> &AtomicU64,
}

impl Role {
    /// Begins.
    pub fn new(tube: Arc<Tube>, count: fn(&Tube) -> &AtomicU64) -> Role {
        count(&tube).fetch_add(1, Relaxed);
        Role { tube, count }
    }

    /// Its name.
    pub fn name(&self) -> &QueueName {
        &self.tube.name
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        (self.count)(&self.tube).fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tube_is_there_while_somebody_has_it_in_use() {
        let tubes = Tubes::default();
        let name = QueueName::new("a").unwrap();
        assert!(tubes.find(&name).is_none());
        let using = Role::new(tubes.get(&name), |tube| &tube.using);
        let watching = Role::new(tubes.get(&name), |tube| &tube.watching);
        drop(using);
        let tube = tubes.find(&name).unwrap();
        assert_eq!(tube.using.load(Relaxed), 0);
        assert_eq!(tube.watching.load(Relaxed), 1);
        drop((tube, watching));
        assert!(tubes.find(&name).is_none());
        assert!(tubes.names().is_empty());
    }
}
