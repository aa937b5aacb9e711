//! The file itself: only its owner may change it, it is replaced as a whole, and never through a link.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use auxo_core::{Code, Error};
use rustix::fs::{AtFlags, Mode, OFlags};

use super::Tokens;
use crate::owner::{self, Owner, directory};

/// The most that is read of a file: 1 MiB, some thousands of tokens.
const MOST: u64 = 1 << 20;

/// What is in the note beside the file.
const NOTE: &str = "Tokens were in use here. If the file with them is gone, `auxo serve` does not start, so that nobody gets in without \
one.\nTo go on without tokens, delete this note.\n";

/// A file with tokens.
#[derive(Clone, Debug)]
pub struct TokenFile(PathBuf);

/// Whose file is good enough.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// Anybody's: root may look after the files of all.
    Anybody,
    /// That of one whom this process believes.
    Owner,
}

impl TokenFile {
    /// The file at a path. It need not be there.
    pub fn new(path: impl Into<PathBuf>) -> TokenFile {
        TokenFile(path.into())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The directory that it is in.
    pub fn directory(&self) -> &Path {
        directory(&self.0)
    }

    /// The note beside it, which says that there were tokens.
    pub fn note(&self) -> PathBuf {
        self.beside(".used")
    }

    fn beside(&self, ending: &str) -> PathBuf {
        let mut name = self.0.clone().into_os_string();
        name.push(ending);
        name.into()
    }

    /// Keeps other commands from changing the file until the lock is dropped. The directory cannot serve as the lock: a server that has
    /// its store in it holds that one as long as it runs.
    fn lock(&self) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // There is nothing in it to read. Who may not change the tokens is told so when it comes to that.
        let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
        let lock = File::from(rustix::fs::open(self.beside(".lock"), flags, mode)?);
        // Whoever may change the directory may change the file.
        let _ = Owner::in_directory(&self.directory().metadata()?).give(&lock);
        // Whatever the mask of this process is.
        let _ = rustix::fs::fchmod(&lock, mode);
        lock.lock()?;
        Ok(lock)
    }

    /// Leaves the note, for the time when the file may be gone.
    pub fn remember(&self) -> io::Result<()> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = match rustix::fs::open(self.note(), flags, Mode::RUSR | Mode::WUSR) {
            Err(rustix::io::Errno::EXIST) => return Ok(()),
            made => File::from(made?),
        };
        // The note counts, whoever has it.
        let _ = Owner::in_directory(&self.directory().metadata()?).give(&file);
        file.write_all(NOTE.as_bytes())
    }

    /// What it holds; `None` if there is no such file.
    pub fn read(&self) -> Result<Option<Tokens>, Error> {
        self.understand(Trust::Anybody)
    }

    /// The same for a server, which lets in whom the file says: it must belong to somebody who may say so.
    pub fn read_trusted(&self) -> Result<Option<Tokens>, Error> {
        self.understand(Trust::Owner)
    }

    fn understand(&self, trust: Trust) -> Result<Option<Tokens>, Error> {
        let text = match self.text(trust) {
            Ok(text) => text,
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(self.wrong(&error.to_string())),
        };
        let tokens = Tokens::parse(&text).map_err(|error| self.wrong(error.message()))?;
        Ok(Some(tokens))
    }

    fn text(&self, trust: Trust) -> io::Result<String> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = match rustix::fs::open(&self.0, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(rustix::io::Errno::LOOP) => {
                return Err(io::Error::other("is a link, which is not followed"));
            }
            Err(error) => return Err(error.into()),
        };
        let about = file.metadata()?;
        if !about.is_file() {
            return Err(io::Error::other("is not a file"));
        }
        if others_may_write(&about) {
            return Err(io::Error::other(
                "others than its owner may change it; `chmod 600` it, after a look at what is in it",
            ));
        }
        if trust == Trust::Owner {
            owner::check(&about, self.directory())?;
        }
        let mut text = String::new();
        file.take(MOST + 1).read_to_string(&mut text)?;
        match text.len() as u64 > MOST {
            true => Err(io::Error::other("is larger than 1 MiB")),
            false => Ok(text),
        }
    }

    /// Changes what it holds, and makes it if need be. Nobody else who changes it this way comes in between, and whoever
    /// reads it sees the old or the new whole.
    pub fn change<T>(
        &self,
        change: impl FnOnce(&Tokens) -> Result<(Tokens, T), Error>,
    ) -> Result<T, Error> {
        let failed = |error: io::Error| self.wrong(&error.to_string());
        let directory = File::open(self.directory()).map_err(failed)?;
        let _lock = self.lock().map_err(failed)?;
        let (tokens, answer) = change(&self.read()?.unwrap_or_default())?;
        self.replace(&directory, &tokens.text()?).map_err(failed)?;
        // A server that finds the file tries again.
        let _ = self.remember();
        Ok(answer)
    }

    fn replace(&self, directory: &File, text: &str) -> io::Result<()> {
        let name = self.0.file_name().ok_or(ErrorKind::InvalidInput)?;
        let mut new = name.to_owned();
        new.push(".new");
        let forget = || {
            let _ = rustix::fs::unlinkat(directory, &new, AtFlags::empty());
        };
        // What a command left that was killed.
        forget();
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(directory, &new, flags, Mode::RUSR | Mode::WUSR)?;
        let written = self.fill(File::from(file), directory, text);
        written.inspect_err(|_| forget())?;
        rustix::fs::renameat(directory, &new, directory, name)?;
        directory.sync_all()
    }

    /// Writes what is to take the place of the file, for those who had it.
    fn fill(&self, mut new: File, directory: &File, text: &str) -> io::Result<()> {
        let owner = match self.0.symlink_metadata() {
            Ok(old) => Owner::of(&old),
            Err(error) if is_absent(&error) => Owner::in_directory(&directory.metadata()?),
            Err(error) => return Err(error),
        };
        new.write_all(text.as_bytes())?;
        owner.give(&new)?;
        new.sync_all()
    }

    fn wrong(&self, why: &str) -> Error {
        let message = format!("tokens {}: {why}", self.0.display());
        Error::new(Code::Unavailable, message)
    }
}

/// A directory that is none has no files in it; whoever opens the store says what is wrong.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn others_may_write(about: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    about.permissions().mode() & 0o022 != 0
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

    use auxo_core::Timestamp;

    use super::super::Token;
    use super::*;

    fn token() -> Token {
        let allow = vec!["push:mail".parse().unwrap()];
        Token::new("", allow, Timestamp(1), None).unwrap().0
    }

    fn add(file: &TokenFile, token: Token) -> Result<(), Error> {
        file.change(|tokens| Ok((tokens.with(token), ())))
    }

    #[test]
    fn a_change_replaces_the_whole_file_and_only_its_owner_can_read_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = TokenFile::new(dir.path().join("tokens.toml"));
        assert!(file.read().unwrap().is_none());
        let (one, two) = (token(), token());
        add(&file, one.clone()).unwrap();
        std::fs::write(dir.path().join("tokens.toml.new"), "left behind").unwrap();
        add(&file, two.clone()).unwrap();
        assert_eq!(file.read().unwrap().unwrap().list(), [one, two]);
        let mode = file.path().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        // And the note that there were tokens, and the lock.
        assert!(file.note().exists());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 3);
    }

    #[test]
    #[ignore = "only root can give a file to another user"]
    fn a_change_by_another_user_leaves_the_file_to_those_who_had_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = TokenFile::new(dir.path().join("tokens.toml"));
        add(&file, token()).unwrap();
        let readable = std::fs::Permissions::from_mode(0o640);
        std::fs::set_permissions(file.path(), readable).unwrap();
        chown(file.path(), Some(4001), Some(4002)).unwrap();
        add(&file, token()).unwrap();
        let about = file.path().metadata().unwrap();
        assert_eq!(about.mode() & 0o777, 0o640);
        assert_eq!((about.uid(), about.gid()), (4001, 4002));
    }

    #[test]
    #[ignore = "only root can give a directory to another user"]
    fn a_new_file_belongs_to_the_owner_of_its_directory() {
        let dir = tempfile::tempdir().unwrap();
        chown(dir.path(), Some(4001), Some(4002)).unwrap();
        let file = TokenFile::new(dir.path().join("tokens.toml"));
        add(&file, token()).unwrap();
        let about = file.path().metadata().unwrap();
        assert_eq!((about.uid(), about.gid()), (4001, 4002));
        assert_eq!(about.mode() & 0o777, 0o600);
    }

    #[test]
    fn a_link_a_directory_and_a_file_that_others_may_change_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let real = TokenFile::new(dir.path().join("real"));
        add(&real, token()).unwrap();
        let link = TokenFile::new(dir.path().join("link"));
        symlink(real.path(), link.path()).unwrap();
        assert!(link.read().unwrap_err().message().contains("is a link"));
        assert!(add(&link, token()).is_err());
        assert!(TokenFile::new(dir.path()).read().is_err());
        let open = std::fs::Permissions::from_mode(0o620);
        std::fs::set_permissions(real.path(), open).unwrap();
        let error = real.read().unwrap_err();
        assert!(error.message().contains("chmod 600"), "{error}");
    }

    #[test]
    fn a_temporary_name_that_is_a_link_leads_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let victim = dir.path().join("victim");
        std::fs::write(&victim, "dear ada").unwrap();
        symlink(&victim, dir.path().join("tokens.toml.new")).unwrap();
        let file = TokenFile::new(dir.path().join("tokens.toml"));
        add(&file, token()).unwrap();
        assert_eq!(std::fs::read_to_string(victim).unwrap(), "dear ada");
    }
}
