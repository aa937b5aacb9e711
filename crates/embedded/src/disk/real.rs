//! The operating system's disk: one directory, locked for this process.
//!
//! All names are resolved relative to the opened directory and never through a symbolic link, so that nobody who can
//! write elsewhere can lead the engine's files away.

use std::fs::{DirBuilder, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use auxo_core::{Code, Error};
use rustix::fs::{Access, AtFlags, FallocateFlags, Mode, OFlags};
use rustix::io::Errno;

use super::{Disk, DiskFile};

/// The file that holds the id of the process that has the directory open. That process has it locked.
const LOCK: &str = "lock";

/// A directory of the operating system, held by this process alone until it is dropped.
#[derive(Debug)]
pub struct RealDisk {
    path: PathBuf,
    /// Locked as long as it is open.
    dir: File,
    // Never read: it is locked as long as it is open.
    _lock: File,
}

impl RealDisk {
    /// Opens the directory, making it if need be, and locks it against other processes. Nothing in it is touched before
    /// the lock is held.
    pub fn open(path: impl AsRef<Path>) -> Result<RealDisk, Error> {
        let path = path.as_ref();
        make_directory(path).map_err(|error| refusal(path, &error))?;
        let path = path.canonicalize().map_err(|error| refusal(path, &error))?;
        let dir = open_writable(&path).map_err(|error| refusal(&path, &error))?;
        let lock = lock(&path, &dir)?;
        Ok(RealDisk {
            path,
            dir,
            _lock: lock,
        })
    }

    /// The directory, as an absolute path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Disk for RealDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.path)? {
            let entry = entry?;
            // A name that is not UTF-8 cannot be one of ours.
            if let Ok(name) = entry.file_name().into_string()
                && name != LOCK
                && entry.file_type()?.is_file()
            {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        match self.remove(name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = open_at(&self.dir, name, OFlags::CREATE | OFlags::EXCL)?;
        Ok(Arc::new(RealFile(file)))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let file = open_at(&self.dir, checked(name)?, OFlags::empty())?;
        Ok(Arc::new(RealFile(file)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        rustix::fs::renameat(&self.dir, checked(from)?, &self.dir, checked(to)?)?;
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        rustix::fs::unlinkat(&self.dir, checked(name)?, AtFlags::empty())?;
        Ok(())
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.dir.sync_all()
    }
}

/// Refuses a name that would leave the directory, or that says who has it.
fn checked(name: &str) -> io::Result<&str> {
    if matches!(name, "" | "." | ".." | LOCK) || name.contains(['/', '\0']) {
        let what = format!("{name:?} is not a name for a data file");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    Ok(name)
}

fn open_at(dir: &File, name: &str, extra: OFlags) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | extra;
    let fd = rustix::fs::openat(dir, name, flags, Mode::RUSR | Mode::WUSR)?;
    Ok(File::from(fd))
}

/// Makes the directory and its missing parents, each readable by the owner only and each safe in its parent.
fn make_directory(path: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = path
        .ancestors()
        .take_while(|p| !p.as_os_str().is_empty() && !p.exists())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    for made in missing {
        let parent = match made.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        File::open(parent)?.sync_all()?;
    }
    Ok(())
}

/// Opens the directory and asks now whether files can be made in it, rather than at the first write.
fn open_writable(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::open(path, flags, Mode::empty())?;
    rustix::fs::accessat(
        &dir,
        ".",
        Access::WRITE_OK | Access::EXEC_OK,
        AtFlags::empty(),
    )?;
    Ok(File::from(dir))
}

/// Locks the directory itself, because a file in it could be removed, and the next process would lock another one. Locks the file
/// as well: NFS tells no other host of the lock of a directory.
fn lock(path: &Path, dir: &File) -> Result<File, Error> {
    lock_one(path, dir, dir)?;
    let mut file = open_at(dir, LOCK, OFlags::CREATE).map_err(|error| refusal(path, &error))?;
    lock_one(path, dir, &file)?;
    // A courtesy to a process that is refused: a full disk must not keep the store from opening.
    let _ = file
        .set_len(0)
        .and_then(|()| write!(file, "{}", std::process::id()));
    Ok(file)
}

fn lock_one(path: &Path, dir: &File, file: &File) -> Result<(), Error> {
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => in_use(path, dir),
        TryLockError::Error(error) => refusal(path, &error),
    })
}

fn in_use(path: &Path, dir: &File) -> Error {
    let mut bytes = [0; 20];
    let read = open_at(dir, LOCK, OFlags::empty()).and_then(|file| file.read_at(&mut bytes, 0));
    let read = read.unwrap_or(0);
    let holder = match std::str::from_utf8(&bytes[..read]).map(str::parse::<u32>) {
        Ok(Ok(pid)) => format!("another process (pid {pid})"),
        _ => "another process".into(),
    };
    let message = format!(
        "data directory {} is in use: {holder} has it open; stop that process, talk to it over the network instead, or \
         choose another directory",
        path.display()
    );
    Error::new(Code::Unavailable, message)
}

/// The same error in words that say what to do about it.
fn refusal(path: &Path, error: &io::Error) -> Error {
    let path = path.display();
    let message = match error.kind() {
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            format!(
                "data directory {path} cannot be used: it, or a part of its path, is not a directory"
            )
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            format!("data directory {path} cannot be used: the file system is mounted read-only")
        }
        io::ErrorKind::PermissionDenied => format!(
            "data directory {path} cannot be used: this user may not write there; change its owner or choose another \
             directory"
        ),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            format!("data directory {path} cannot be used: no space left there")
        }
        _ => format!("data directory {path} cannot be used: {error}"),
    };
    Error::new(Code::Unavailable, message)
}

/// Reads as much as there is; less than asked for only at the end of the file.
pub fn read_at(file: &File, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        match file.read_at(&mut buf[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

struct RealFile(File);

impl DiskFile for RealFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        read_at(&self.0, offset, buf)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        let before = self.len()?;
        if len < before {
            self.0.set_len(len)?;
        }
        let reserved = match reserve(&self.0, len) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_zeros(&self.0, before, len),
            other => other.map_err(io::Error::from),
        };
        if reserved.is_err() && len > before {
            // Give back what was taken, or a full disk stays full.
            let _ = self.0.set_len(before);
        }
        reserved
    }
}

fn reserve(file: &File, len: u64) -> Result<(), Errno> {
    if len == 0 {
        return Ok(()); // the system call refuses a length of nothing
    }
    loop {
        match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, len) {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

/// Takes the space by using it, on file systems that cannot reserve.
fn write_zeros(file: &File, from: u64, to: u64) -> io::Result<()> {
    let zeros = [0; 64 << 10];
    let mut at = from;
    while at < to {
        let step = (to - at).min(zeros.len() as u64);
        file.write_all_at(&zeros[..step as usize], at)?;
        at += step;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    fn scratch() -> (tempfile::TempDir, RealDisk) {
        let dir = tempfile::tempdir().unwrap();
        let disk = RealDisk::open(dir.path().join("data")).unwrap();
        (dir, disk)
    }

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn directory_and_files_are_readable_by_the_owner_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b");
        let disk = RealDisk::open(&path).unwrap();
        disk.create("f").unwrap();
        assert_eq!(mode(&path), 0o700);
        assert_eq!(mode(&dir.path().join("a")), 0o700);
        assert_eq!(mode(&path.join("f")), 0o600);
        assert_eq!(mode(&path.join(LOCK)), 0o600);
    }

    #[test]
    fn what_was_written_is_read_and_a_read_is_short_only_at_the_end() {
        let (_dir, disk) = scratch();
        let file = disk.create("f").unwrap();
        file.write_at(3, b"hello").unwrap();
        file.sync().unwrap();
        assert_eq!(file.len().unwrap(), 8);
        let mut buf = [9; 16];
        assert_eq!(
            disk.open("f").unwrap().read_at(1, &mut buf[..5]).unwrap(),
            5
        );
        assert_eq!(&buf[..6], b"\0\0hel\x09");
        assert_eq!(file.read_at(6, &mut buf).unwrap(), 2);
        assert_eq!(file.read_at(100, &mut buf).unwrap(), 0);
    }

    #[test]
    fn creating_over_a_file_leaves_its_readers_the_old_content() {
        let (_dir, disk) = scratch();
        let old = disk.create("f").unwrap();
        old.write_at(0, b"old").unwrap();
        let new = disk.create("f").unwrap();
        assert_eq!(new.len().unwrap(), 0);
        assert_eq!(old.len().unwrap(), 3);
    }

    #[test]
    fn files_are_listed_sorted_without_the_lock_and_without_directories() {
        let (_dir, disk) = scratch();
        for name in ["b", "c", "a"] {
            disk.create(name).unwrap();
        }
        std::fs::create_dir(disk.path().join("folder")).unwrap();
        disk.rename("c", "d").unwrap();
        disk.remove("b").unwrap();
        disk.sync_dir().unwrap();
        assert_eq!(disk.list().unwrap(), ["a", "d"]);
    }

    #[test]
    fn an_absent_file_is_not_found() {
        let (_dir, disk) = scratch();
        assert_eq!(
            disk.open("f").err().unwrap().kind(),
            io::ErrorKind::NotFound
        );
        assert_eq!(
            disk.remove("f").unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }

    #[test]
    fn allocating_takes_the_blocks_and_sets_the_length_exactly() {
        let (_dir, disk) = scratch();
        let file = disk.create("f").unwrap();
        file.write_at(0, b"kept").unwrap();
        file.allocate(1 << 20).unwrap();
        assert_eq!(file.len().unwrap(), 1 << 20);
        let blocks = disk.path().join("f").metadata().unwrap().blocks();
        assert!(blocks * 512 >= 1 << 20, "only {blocks} blocks");
        file.allocate(2).unwrap();
        assert_eq!(file.len().unwrap(), 2);
        file.allocate(6).unwrap();
        let mut buf = [9; 6];
        file.read_at(0, &mut buf).unwrap();
        assert_eq!(&buf, b"ke\0\0\0\0");
        file.allocate(0).unwrap();
        assert_eq!(file.len().unwrap(), 0);
    }

    #[test]
    fn writing_zeros_reserves_as_well() {
        let (_dir, disk) = scratch();
        disk.create("f").unwrap().write_at(0, b"kept").unwrap();
        let file = File::options()
            .write(true)
            .open(disk.path().join("f"))
            .unwrap();
        write_zeros(&file, 4, 100_000).unwrap();
        let content = std::fs::read(disk.path().join("f")).unwrap();
        assert_eq!(content.len(), 100_000);
        assert_eq!(&content[..4], b"kept");
        assert!(content[4..].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn a_directory_in_use_is_refused_by_name_until_it_is_let_go() {
        let (_dir, disk) = scratch();
        let path = disk.path().to_owned();
        let error = RealDisk::open(&path).unwrap_err();
        assert_eq!(error.code(), Code::Unavailable);
        for part in [
            path.to_str().unwrap(),
            &format!("another process (pid {})", std::process::id()),
            "stop that process",
        ] {
            assert!(error.message().contains(part), "{error}");
        }
        drop(disk);
        RealDisk::open(&path).unwrap();
    }

    #[test]
    fn a_directory_stays_locked_when_the_file_that_names_its_process_is_removed() {
        let (_dir, disk) = scratch();
        std::fs::remove_file(disk.path().join(LOCK)).unwrap();
        let error = RealDisk::open(disk.path()).unwrap_err();
        assert!(
            error.message().contains("another process has it open"),
            "{error}"
        );
    }

    /// The lock of a directory does not reach another host over NFS; that of a file does.
    #[test]
    fn the_file_lock_is_held_as_well_and_respected() {
        let (_dir, disk) = scratch();
        let path = disk.path().to_owned();
        let file = File::open(path.join(LOCK)).unwrap();
        assert!(matches!(
            file.try_lock_shared(),
            Err(TryLockError::WouldBlock)
        ));
        drop(disk);
        file.try_lock().unwrap();
        std::fs::write(path.join(LOCK), "4711").unwrap();
        let error = RealDisk::open(&path).unwrap_err();
        assert!(error.message().contains("(pid 4711)"), "{error}");
        assert_eq!(std::fs::read(path.join(LOCK)).unwrap(), b"4711");
        drop(file);
        RealDisk::open(&path).unwrap();
    }

    #[test]
    fn a_file_in_the_place_of_the_directory_is_refused_in_words() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "x").unwrap();
        for path in [file.clone(), file.join("below")] {
            let error = RealDisk::open(&path).unwrap_err();
            assert_eq!(error.code(), Code::Unavailable);
            assert!(error.message().contains("not a directory"), "{error}");
        }
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        let said = |kind: io::ErrorKind| refusal(Path::new("data"), &kind.into()).to_string();
        assert!(said(io::ErrorKind::PermissionDenied).contains("change its owner"));
        assert!(said(io::ErrorKind::ReadOnlyFilesystem).contains("read-only"));
        assert!(said(io::ErrorKind::StorageFull).contains("no space left"));
    }

    #[test]
    fn a_symbolic_link_is_not_followed() {
        let (dir, disk) = scratch();
        let outside = dir.path().join("outside");
        std::fs::write(&outside, "secret").unwrap();
        symlink(&outside, disk.path().join("f")).unwrap();
        assert!(disk.open("f").is_err());
        disk.create("f").unwrap().write_at(0, b"mine").unwrap();
        assert_eq!(std::fs::read(&outside).unwrap(), b"secret");
    }

    #[test]
    fn a_name_that_leaves_the_directory_is_refused() {
        let (_dir, disk) = scratch();
        for name in ["", ".", "..", "../f", "/f", "a/b", "a\0b", LOCK] {
            for error in [
                disk.create(name).err(),
                disk.open(name).err(),
                disk.remove(name).err(),
                disk.rename(name, "x").err(),
                disk.rename("x", name).err(),
            ] {
                let kind = error.map(|error| error.kind());
                assert_eq!(kind, Some(io::ErrorKind::InvalidInput), "{name:?}");
            }
        }
    }
}
