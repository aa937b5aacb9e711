//! Files that others replace while the server runs: tokens and certificates.
//!
//! Directories are watched, not the files: a file is replaced by renaming, and Kubernetes replaces the directory that a link
//! points to. Linux tells of it, so nothing is asked while nothing happens. Only what a replacement looks like is listened to:
//! tokens lie in the data directory, where the store writes all the time. Elsewhere the files are read once a second.

use std::path::{Path, PathBuf};

/// The directory that a file is in.
pub fn directory(file: &Path) -> PathBuf {
    match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Calls `changed` whenever something may have changed in these directories. It never ends by itself.
pub async fn watch(mut directories: Vec<PathBuf>, changed: impl Fn()) {
    directories.sort_unstable();
    directories.dedup();
    if directories.is_empty() {
        return std::future::pending().await;
    }
    #[cfg(target_os = "linux")]
    match linux::Watcher::new(&directories) {
        Ok(watcher) => {
            // What happened between the first reading and now.
            changed();
            let Err(error) = watcher.run(changed).await;
            tracing::error!(%error, "files are not watched any more; SIGHUP has them read again");
        }
        Err(error) => {
            tracing::error!(%error, "files cannot be watched; SIGHUP has them read again");
        }
    }
    #[cfg(not(target_os = "linux"))]
    loop {
        changed();
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
    #[cfg(target_os = "linux")]
    std::future::pending().await
}

#[cfg(target_os = "linux")]
mod linux {
    use std::convert::Infallible;
    use std::io;
    use std::mem::MaybeUninit;
    use std::os::fd::OwnedFd;
    use std::path::PathBuf;

    use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};
    use rustix::io::Errno;
    use tokio::io::unix::AsyncFd;

    /// The system's word that something happened.
    pub struct Watcher(AsyncFd<OwnedFd>);

    impl Watcher {
        pub fn new(directories: &[PathBuf]) -> io::Result<Watcher> {
            let news = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
            let what = WatchFlags::CREATE
                | WatchFlags::MOVED_TO
                | WatchFlags::CLOSE_WRITE
                | WatchFlags::DELETE
                | WatchFlags::ONLYDIR;
            for directory in directories {
                inotify::add_watch(&news, directory, what)?;
            }
            #[expect(
                deprecated,
                reason = "its successor is `unsafe`, for the sake of types that give their descriptor away; this one owns it"
            )]
            let news = AsyncFd::new(news)?;
            Ok(Watcher(news))
        }

        pub async fn run(self, changed: impl Fn()) -> Result<Infallible, io::Error> {
            loop {
                let mut ready = self.0.readable().await?;
                let mut bytes = [MaybeUninit::uninit(); 4096];
                let mut news = Reader::new(self.0.get_ref(), &mut bytes);
                // All that is there means the same.
                loop {
                    match news.next() {
                        Ok(_) => {}
                        Err(Errno::AGAIN) => break,
                        Err(Errno::INTR) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                ready.clear_ready();
                changed();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::time::Duration;

    use tokio::sync::Notify;

    use super::*;

    #[test]
    fn a_file_without_a_directory_is_in_this_one() {
        assert_eq!(directory(Path::new("tokens.toml")), Path::new("."));
        assert_eq!(directory(Path::new("/etc/a/b")), Path::new("/etc/a"));
    }

    /// Waits for the next word of a change, but not for ever.
    async fn told(news: &Notify) {
        let patience = Duration::from_secs(100);
        tokio::time::timeout(patience, news.notified())
            .await
            .expect("nothing was told");
    }

    #[tokio::test]
    async fn a_file_that_is_made_replaced_or_removed_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let (news, count) = (Notify::new(), AtomicUsize::new(0));
        let path = |name: &str| dir.path().join(name);
        let here = vec![dir.path().to_owned(), dir.path().to_owned()];
        let watching = watch(here, || {
            count.fetch_add(1, SeqCst);
            news.notify_one();
        });
        let moves = async {
            told(&news).await;
            std::fs::write(path("a"), "1").unwrap();
            told(&news).await;
            std::fs::write(path("b"), "2").unwrap();
            told(&news).await;
            std::fs::rename(path("b"), path("a")).unwrap();
            told(&news).await;
            std::os::unix::fs::symlink("x", path("..data.new")).unwrap();
            told(&news).await;
            std::fs::rename(path("..data.new"), path("..data")).unwrap();
            told(&news).await;
            std::fs::remove_file(path("a")).unwrap();
            told(&news).await;
        };
        tokio::select! {
            () = watching => unreachable!("it ended"),
            () = moves => {}
        }
        assert!(count.load(SeqCst) >= 7);
    }
}
