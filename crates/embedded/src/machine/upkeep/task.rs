//! The slow part of the upkeep, which the machine asks for and somebody else does.

use std::io;
use std::sync::Arc;

use super::{CHECKPOINT, RESERVE};
use crate::damage::Trouble;
use crate::disk::{Disk, DiskFile};
use crate::format::FORMAT;
use crate::index::Index;
use crate::road::Road;
use crate::sealed::Sealed;
use crate::segment::Blank;
use crate::snapshot;

/// Space that is given back when the disk is full, so that a checkpoint can still be written and segments freed.
const BALLAST: &str = "ballast";
/// What an error calls the newest segments together.
const LOG: &str = "the log";

/// Slow work, to be done in the order given, after everything written before it.
pub enum Task {
    /// Makes the next segment's file.
    Prepare {
        number: u32,
        salt: u32,
        size: u64,
        ballast: u64,
        reuse: Option<String>,
    },
    /// Syncs these files, then writes the index file of a sealed segment. An index leaves out what is not current any more:
    /// were the records that say so lost with the power, jobs would be back of which the index knows nothing.
    Index {
        sync: Vec<Arc<dyn DiskFile>>,
        sealed: Sealed,
    },
    /// Syncs these files, then writes a checkpoint.
    Checkpoint {
        sync: Vec<Arc<dyn DiskFile>>,
        body: Vec<u8>,
        ballast: u64,
    },
    /// Makes the reserve, out of an old file if there is one.
    Reserve {
        size: u64,
        ballast: u64,
        reuse: Option<String>,
    },
    /// Lays zeros in the active segment's file, up to there. Tasks are done in order, so whatever becomes of the file when it is not
    /// needed any more comes later.
    Pave {
        number: u32,
        road: Arc<Road>,
        upto: u64,
    },
    /// Removes files.
    Discard(Vec<String>),
}

/// What became of a [`Task`].
pub enum Done {
    Prepared(io::Result<(Blank, Reserve)>),
    Reserved(io::Result<Reserve>),
    Indexed(u32, std::result::Result<Index, Trouble>),
    /// Whether there is ballast for the next one.
    Checkpointed(io::Result<Reserve>),
    Paved(u32, io::Result<()>),
    Discarded,
}

/// Whether there is a segment's file to fall back on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserve {
    Kept,
    Missing,
}

impl Task {
    /// Does the work.
    pub fn run(self, disk: &dyn Disk) -> Done {
        match self {
            Task::Prepare {
                number,
                salt,
                size,
                ballast,
                reuse,
            } => {
                let made = blank(disk, number, salt, size, reuse.as_deref());
                Done::Prepared(
                    made.and_then(|(blank, _)| Ok((blank, fill_up(disk, size, ballast)?))),
                )
            }
            Task::Reserve {
                size,
                ballast,
                reuse,
            } => {
                if let Some(old) = reuse {
                    // If it cannot be had, it is made anew below, or not at all.
                    let _ = disk.rename(&old, RESERVE);
                }
                Done::Reserved(fill_up(disk, size, ballast))
            }
            Task::Index { sync, sealed } => {
                let synced = sync_all(&sync).map_err(|error| Trouble::io(LOG, error));
                Done::Indexed(sealed.number, synced.and_then(|()| sealed.index(disk)))
            }
            Task::Checkpoint {
                sync,
                body,
                ballast,
            } => {
                let written = write_checkpoint(disk, &sync, &body);
                Done::Checkpointed(written.and_then(|()| kept(weigh_down(disk, BALLAST, ballast))))
            }
            Task::Pave { number, road, upto } => Done::Paved(number, road.pave(upto)),
            Task::Discard(names) => {
                // What stays behind is removed at the next start.
                names.iter().for_each(|name| drop(disk.remove(name)));
                Done::Discarded
            }
        }
    }
}

/// Makes the next segment's file; on a full disk out of the reserve, which is then missing.
pub(super) fn blank(
    disk: &dyn Disk,
    number: u32,
    salt: u32,
    size: u64,
    reuse: Option<&str>,
) -> io::Result<(Blank, Reserve)> {
    match Blank::make(disk, number, salt, size, reuse) {
        Err(error) if is_full(&error) => Blank::make(disk, number, salt, size, Some(RESERVE))
            .map(|blank| (blank, Reserve::Missing))
            .map_err(|_| error),
        made => made.map(|blank| (blank, Reserve::Kept)),
    }
}

/// Sees to it that what a full disk is got out of with is there: without it nothing is lost, but nothing more is taken in.
fn fill_up(disk: &dyn Disk, size: u64, ballast: u64) -> io::Result<Reserve> {
    let ballast = weigh_down(disk, BALLAST, ballast);
    let reserve = weigh_down(disk, RESERVE, size);
    kept(ballast.and(reserve))
}

fn kept(made: io::Result<()>) -> io::Result<Reserve> {
    match made {
        Ok(()) => Ok(Reserve::Kept),
        Err(error) if is_full(&error) => Ok(Reserve::Missing),
        Err(error) => Err(error),
    }
}

/// Makes the file at least so large.
fn weigh_down(disk: &dyn Disk, name: &str, size: u64) -> io::Result<()> {
    let file = match disk.open(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => disk.create(name)?,
        opened => opened?,
    };
    let before = file.len()?;
    if before >= size {
        return Ok(());
    }
    let made = file.allocate(size);
    if made.is_err() && before == 0 {
        let _ = disk.remove(name);
    }
    made
}

fn sync_all(files: &[Arc<dyn DiskFile>]) -> io::Result<()> {
    files.iter().try_for_each(|file| file.sync())
}

fn write_checkpoint(disk: &dyn Disk, sync: &[Arc<dyn DiskFile>], body: &[u8]) -> io::Result<()> {
    sync_all(sync)?;
    match snapshot::write(disk, CHECKPOINT, FORMAT, body) {
        Err(error) if is_full(&error) => {
            // It may be gone already; then there is nothing to give.
            let _ = disk.remove(BALLAST);
            snapshot::write(disk, CHECKPOINT, FORMAT, body)
        }
        other => other,
    }
}

pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}
