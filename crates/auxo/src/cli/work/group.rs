//! A command with everything it started: a process group, told to end as a whole.

use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::process::Child;

use super::guard::Guard;

/// How often to look whether a group that was told to end has ended. Nothing tells of the end of grandchildren.
const LOOK: Duration = Duration::from_millis(20);

/// The groups that run now, for the moment in which there is no time to ask them to end.
#[derive(Clone, Default)]
pub struct Groups(Arc<Mutex<Inside>>);

#[derive(Default)]
struct Inside {
    running: HashSet<Pid>,
    guarding: Guarding,
}

/// Whether groups are ended when this process is killed.
#[derive(Default)]
enum Guarding {
    /// They are not: tests of single parts, which are not this program.
    #[default]
    Off,
    /// They will be, from the first group on.
    Wanted,
    By(Guard),
}

impl Groups {
    /// Groups that end with this process, however it ends.
    pub fn guarded() -> Groups {
        let groups = Groups::default();
        groups.with(|inside| inside.guarding = Guarding::Wanted);
        groups
    }

    /// The group that `child` leads. It must have been started as the leader of a group of its own, and must not have begun its
    /// work: it is guarded when this returns.
    pub fn enter(&self, child: &Child) -> io::Result<Group> {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        let leader = id.and_then(Pid::from_raw);
        let leader = leader.ok_or_else(|| io::Error::other("it has no process id"))?;
        self.with(|inside| inside.running.insert(leader));
        // Dropped, and with it the group ended, if there is no guard.
        let group = Group {
            leader,
            groups: self.clone(),
        };
        self.with(|inside| inside.guard(leader))?;
        Ok(group)
    }

    /// Ends all of them at once.
    pub fn kill(&self) {
        let running = self.with(|inside| inside.running.clone());
        for leader in running {
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }

    fn with<T>(&self, look: impl FnOnce(&mut Inside) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Inside {
    /// Has a new group guarded. A guard that is gone is replaced.
    fn guard(&mut self, leader: Pid) -> io::Result<()> {
        let guarded = match &mut self.guarding {
            Guarding::Off => true,
            Guarding::Wanted => false,
            Guarding::By(guard) => guard.begun(leader).is_ok(),
        };
        if !guarded {
            self.guarding = Guarding::By(Guard::start(&self.running)?);
        }
        Ok(())
    }

    fn ended(&mut self, leader: Pid) {
        self.running.remove(&leader);
        if let Guarding::By(guard) = &mut self.guarding {
            // One that is gone is replaced with the next group.
            let _ = guard.ended(leader);
        }
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
        self.groups.with(|inside| inside.ended(self.leader));
    }
}
