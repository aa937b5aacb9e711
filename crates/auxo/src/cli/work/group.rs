//! A command with everything it started: a process group, told to end as a whole.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::process::Child;

/// How often to look whether a group that was told to end has ended. Nothing tells of the end of grandchildren.
const LOOK: Duration = Duration::from_millis(20);

/// The groups that run now, for the moment in which there is no time to ask them to end.
#[derive(Clone, Default)]
pub struct Groups(Arc<Mutex<HashSet<Pid>>>);

impl Groups {
    /// The group that `child` leads. It must have been started as the leader of a group of its own.
    pub fn enter(&self, child: &Child) -> Option<Group> {
        let leader = Pid::from_raw(i32::try_from(child.id()?).ok()?)?;
        self.with(|running| running.insert(leader));
        Some(Group {
            leader,
            groups: self.clone(),
        })
    }

    /// Ends all of them at once.
    pub fn kill(&self) {
        let running = self.with(|running| running.clone());
        for leader in running {
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }

    fn with<T>(&self, look: impl FnOnce(&mut HashSet<Pid>) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A running group. What is left of it is killed when this is dropped: nothing that a command left behind may go on with the
/// job once another worker can have it.
///
/// The number of a group is not given out again while a member lives. That of an empty one may be, after all others were
/// used; the few microseconds between the end of a group and our last signal to it do not suffice for that.
pub struct Group {
    leader: Pid,
    groups: Groups,
}

impl Group {
    /// Asks all to end.
    pub fn terminate(&self) {
        // A group that is gone has ended.
        let _ = kill_process_group(self.leader, Signal::TERM);
    }

    /// Waits until nobody is left.
    pub async fn emptied(&self) {
        while test_kill_process_group(self.leader).is_ok() {
            tokio::time::sleep(LOOK).await;
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = kill_process_group(self.leader, Signal::KILL);
        self.groups.with(|running| running.remove(&self.leader));
    }
}
