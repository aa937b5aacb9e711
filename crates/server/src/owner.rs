//! Whom a file belongs to.
//!
//! A command may run as another user than the server beside it, root above all. What it makes there must be the server's, or
//! the server goes on with what it read before.

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
