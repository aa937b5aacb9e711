//! Whom a file belongs to.
//!
//! A command may run as another user than the server beside it, root above all. What it makes there must be the server's, or
//! the server goes on with what it read before. And a server must not believe a file that somebody else has put there.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Gid, Mode, Uid, fchmod, fchown};
use rustix::io::Errno;
use rustix::process::geteuid;

/// Whose a file is to be, and who else may do what with it.
#[derive(Clone, Copy, Debug)]
pub struct Owner {
    user: u32,
    group: u32,
    mode: u32,
}

impl Owner {
    /// As it is with a file that is there.
    pub fn of(file: &Metadata) -> Owner {
        Owner {
            user: file.uid(),
            group: file.gid(),
            mode: file.mode() & 0o777,
        }
    }

    /// As it is to be with a new file: the owner of its directory has it, and nobody else.
    pub fn in_directory(directory: &Metadata) -> Owner {
        Owner {
            mode: 0o600,
            ..Owner::of(directory)
        }
    }

    /// Gives a file to its owner that this process has made; an error says as whom that can be done.
    pub fn give(self, file: &File) -> io::Result<()> {
        let made = Owner::of(&file.metadata()?);
        let other_user = made.user != self.user;
        // Which group it is that may do nothing is all the same.
        let other_group = made.group != self.group && (other_user || self.mode & 0o070 != 0);
        if other_user || other_group {
            let user = other_user.then(|| Uid::from_raw(self.user));
            let group = other_group.then(|| Gid::from_raw(self.group));
            fchown(file, user, group).map_err(|error| self.foreign(error))?;
        }
        Ok(fchmod(file, Mode::from_raw_mode(self.mode))?)
    }

    fn foreign(self, error: Errno) -> io::Error {
        if !matches!(error, Errno::PERM | Errno::INVAL) {
            return error.into();
        }
        let Owner { user, group, .. } = self;
        io::Error::other(format!(
            "it is for user {user} and group {group}, and this is user {}: a server could not read what is written here; \
             run this as that user (`sudo -u '#{user}' auxo …`), or as root",
            geteuid().as_raw()
        ))
    }
}

/// The directory that a file is in.
pub fn directory(file: &Path) -> &Path {
    match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Refuses a file of somebody whom this process need not believe.
pub fn check(file: &Metadata, directory: &Path) -> io::Result<()> {
    let (own, owner) = (geteuid().as_raw(), file.uid());
    match believes(own, owner, directory.metadata()?.uid()) {
        true => Ok(()),
        false => Err(io::Error::other(format!(
            "belongs to user {owner}, not to user {own} or to root; `chown` it, after a look at what is in it"
        ))),
    }
}

/// Whether a process believes what is in a file of this owner, in a directory of that one: its own, and root's. Root believes who
/// has the directory, too, since that is to whom `auxo token` gives new files.
fn believes(process: u32, owner: u32, directory: u32) -> bool {
    owner == process || owner == 0 || process == 0 && owner == directory
}

/// Warns of a directory where anybody can put another file in the place of this one.
pub fn warn_of_others(file: &Path) {
    let Ok(about) = directory(file).metadata() else {
        return;
    };
    // With the sticky bit everybody has their own files only.
    if about.mode() & 0o1002 == 0o002 {
        tracing::warn!(file = %file.display(), "everybody can replace files in this directory; `chmod o-w` it");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_files_and_those_of_root_are_believed() {
        for (process, owner, directory, is_believed) in [
            (4001, 4001, 0, true),
            (4001, 0, 4002, true),
            (4001, 4002, 4001, false),
            (4001, 4002, 4002, false),
            (0, 0, 0, true),
            (0, 4002, 4002, true),
            (0, 4002, 0, false),
        ] {
            let is = believes(process, owner, directory);
            assert_eq!(is, is_believed, "{process} {owner} {directory}");
        }
    }
}
