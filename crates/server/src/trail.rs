//! Who moved what, and when: the audit log.
//!
//! A file of JSON lines that only grows. Every call that an operator or an administrator changes something with, in whatever
//! protocol, has two lines:
//! one before, with who and what, and one after, with how it went. The first one is written before anything is moved, and a
//! move whose line cannot be written is refused: there is no move that nobody can be asked about. If only the second is lost,
//! the move was made and is answered so, and the log of the server says that it is missing. Lines are not synced one by one;
//! a power cut may take the last of them.
//!
//! Some calls free space, so they must work on a full disk: the file system is asked to set aside space behind the last line
//! while there is some, also after the file was moved away or emptied. The file's length does not change by that.
//!
//! Neither payloads nor tokens are in it, nor what was searched for in them.

use std::fs::File;
use std::future::Future;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use auxo_core::engine::{Filter, Order, Target};
use auxo_core::json::write;
use auxo_core::queue::QueueConfig;
use auxo_core::{Code, Error, JobId, QueueName, Timestamp};
use rustix::fs::{FallocateFlags, Mode, OFlags};
use rustix::io::Errno;
use serde_json::{Map, Value, json};

use crate::auth::Caller;
use crate::owner::{Owner, directory};

/// Ids that are named in a line. Of more than that only their number is.
const MOST_IDS: usize = 100;

/// Space that is set aside behind the last line, 1 MiB. Half of it is always left: enough for 1,000 calls that name few jobs.
const RESERVE: u64 = 1 << 20;

/// The audit log. Clones write to the same file.
#[derive(Clone, Debug, Default)]
pub struct Trail(Option<Arc<Shared>>);

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    writer: Writer,
    run: String,
    file: Mutex<Open>,
    moves: AtomicU64,
    failures: AtomicU64,
}

/// Who writes it, and whose it is if it has to be made.
#[derive(Clone, Copy, Debug)]
enum Writer {
    /// A server, for itself.
    Server,
    /// A command, perhaps of another user, for the server whose directory it is in.
    Command,
}

#[derive(Debug)]
struct Open {
    file: File,
    /// The last line may not be whole.
    torn: bool,
    /// Up to where in the file space is set aside.
    reserved: u64,
    /// How long the file was after the last line, as far as this process knows.
    length: u64,
}

impl Open {
    /// Sets space aside behind the last line, unless half of what there should be is left.
    fn reserve(&mut self, length: u64) -> io::Result<()> {
        if length < self.length {
            // Somebody emptied it, and the file system took the space back.
            self.reserved = 0;
            self.length = length;
        }
        if self.reserved >= length + RESERVE / 2 {
            return Ok(());
        }
        rustix::fs::fallocate(&self.file, KEEP_LENGTH, length, RESERVE)?;
        self.reserved = length + RESERVE;
        Ok(())
    }

    /// Whether both are the same file, which then keeps what is set aside for it.
    fn is_same(&self, other: &Open) -> bool {
        let about = |open: &Open| open.file.metadata().map(|about| (about.dev(), about.ino()));
        matches!((about(self), about(other)), (Ok(one), Ok(other)) if one == other)
    }
}

/// Space is set aside without making the file longer.
#[cfg(target_os = "linux")]
const KEEP_LENGTH: FallocateFlags = FallocateFlags::KEEP_SIZE;
/// Elsewhere the system call does so anyway.
#[cfg(not(target_os = "linux"))]
const KEEP_LENGTH: FallocateFlags = FallocateFlags::empty();

/// Somebody who moves something.
#[derive(Clone, Debug)]
pub struct Who {
    /// The token's name, or `local`, or the subject of a certificate; a protocol that has no word for it has none.
    pub name: Option<String>,
    /// The token's public part.
    pub token: Option<String>,
    /// An address, or `command line`.
    pub from: String,
    /// The protocol.
    pub via: &'static str,
}

impl From<&Caller> for Who {
    fn from(caller: &Caller) -> Who {
        Who {
            name: Some(caller.identity().name().to_owned()),
            token: caller.identity().id().map(str::to_owned),
            from: caller.from().to_string(),
            via: caller.via().as_str(),
        }
    }
}

/// What is moved.
#[derive(Clone, Debug)]
pub struct Move(Map<String, Value>);

impl Move {
    /// A call by its name.
    pub fn new(call: &str) -> Move {
        Move(Map::from_iter([("what".to_owned(), call.into())]))
    }

    /// In this queue.
    pub fn queue(self, queue: &QueueName) -> Move {
        self.with("queue", queue.as_str())
    }

    /// With something else that says what it was.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Move {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    /// On these jobs.
    pub fn jobs(self, ids: &[JobId]) -> Move {
        let named: Vec<Value> = ids
            .iter()
            .take(MOST_IDS)
            .map(|id| id.to_string().into())
            .collect();
        let said = self.with("ids", named);
        match ids.len() > MOST_IDS {
            true => said.with("count", ids.len()),
            false => said,
        }
    }

    /// New settings of a queue, by the name of the call that makes them.
    pub fn settings(call: &str, queue: &QueueName, config: &QueueConfig) -> Move {
        let what = Move::new(call).queue(queue);
        what.with("settings", write::queue_config(config))
    }

    /// An order on jobs or a filter.
    pub fn order(order: &Order) -> Move {
        let what = Move::new(order.action.event().as_str());
        match &order.target {
            Target::Jobs(ids) => what.jobs(ids),
            Target::Matching(query) => what.with("filter", filter(&query.filter)),
        }
    }
}

/// A filter without what may be a part of a payload or a name of somebody.
fn filter(filter: &Filter) -> Value {
    let mut said = Map::new();
    if let Some(queue) = &filter.queue {
        said.insert("queue".to_owned(), queue.as_str().into());
    }
    if !filter.states.is_empty() {
        let states = filter.states.iter().map(|state| state.as_str());
        said.insert("states".to_owned(), states.collect());
    }
    if let Some(kind) = &filter.kind {
        said.insert("kind".to_owned(), kind.as_str().into());
    }
    for (name, time) in [
        ("created_from", filter.created_from),
        ("created_before", filter.created_before),
        ("due_from", filter.due_from),
        ("due_before", filter.due_before),
    ] {
        if let Some(time) = time {
            said.insert(name.to_owned(), time.to_string().into());
        }
    }
    for (name, is_given) in [
        ("key", filter.key.is_some()),
        ("group", filter.group.is_some()),
        ("error", filter.error.is_some()),
        ("search", filter.search.is_some()),
        ("headers", !filter.headers.is_empty()),
    ] {
        if is_given {
            said.insert(name.to_owned(), "…".into());
        }
    }
    said.into()
}

impl Trail {
    /// Nothing is written.
    pub fn off() -> Trail {
        Trail(None)
    }

    /// Opens the file, and makes it if need be: readable by its owner only, and not through a link.
    pub fn open(path: impl Into<PathBuf>) -> Result<Trail, Error> {
        Trail::begun(path.into(), Writer::Server)
    }

    /// The same for a command beside a server, which must be able to write to it: a file that is made belongs to the owner of its
    /// directory.
    pub fn open_beside(path: impl Into<PathBuf>) -> Result<Trail, Error> {
        Trail::begun(path.into(), Writer::Command)
    }

    fn begun(path: PathBuf, writer: Writer) -> Result<Trail, Error> {
        let mut file = open(&path, writer).map_err(|error| unwritable(&path, &error))?;
        if let Writer::Server = writer {
            warn_without_reserve(&path, &mut file);
        }
        let dice = getrandom::u32().map_err(io::Error::other);
        let dice = dice.map_err(|error| unwritable(&path, &error))?;
        Ok(Trail(Some(Arc::new(Shared {
            run: format!("{dice:08x}"),
            file: Mutex::new(file),
            moves: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            writer,
            path,
        }))))
    }

    /// Where it is.
    pub fn path(&self) -> Option<&Path> {
        self.0.as_ref().map(|shared| &*shared.path)
    }

    /// Opens the file anew, after somebody has moved it away. Space is set aside in the new one at once: the disk may be full when
    /// the next line comes.
    pub fn reopen(&self) {
        let Some(shared) = &self.0 else {
            return;
        };
        let mut new = match open(&shared.path, shared.writer) {
            Ok(new) => new,
            Err(error) => return shared.lost(&error),
        };
        let mut old = shared.file();
        if old.is_same(&new) {
            (new.reserved, new.length) = (old.reserved, old.length);
        }
        *old = new;
        warn_without_reserve(&shared.path, &mut old);
    }

    /// Leaves no room for another line.
    #[cfg(test)]
    pub fn fill_up(&self) {
        let full = File::options().write(true).open("/dev/full").unwrap();
        self.0.as_ref().unwrap().file().file = full;
    }

    /// How many lines could not be written.
    pub fn failures(&self) -> u64 {
        self.0
            .as_ref()
            .map_or(0, |shared| shared.failures.load(Relaxed))
    }

    /// Notes that somebody is about to move something; refuses it if that cannot be written.
    pub fn begin(&self, who: &Who, what: Move) -> Result<Noted, Error> {
        let Some(shared) = self.0.clone() else {
            return Ok(Noted(None));
        };
        let name = format!("{}-{}", shared.run, shared.moves.fetch_add(1, Relaxed));
        let mut line = Map::from_iter([
            ("move".to_owned(), name.as_str().into()),
            ("from".to_owned(), who.from.as_str().into()),
            ("via".to_owned(), who.via.into()),
        ]);
        if let Some(name) = &who.name {
            line.insert("who".to_owned(), name.as_str().into());
        }
        if let Some(token) = &who.token {
            line.insert("token".to_owned(), token.as_str().into());
        }
        line.extend(what.0);
        match shared.write(line) {
            Ok(()) => Ok(Noted(Some((shared, name)))),
            Err(error) => {
                shared.lost(&error);
                // Where it is, is for those who run the server.
                let message = format!(
                    "the audit log cannot be written, so nothing was changed: {error}; the server's log names the file"
                );
                Err(Error::new(Code::Unavailable, message))
            }
        }
    }

    /// Makes a move between its two lines. `moved` says how much was.
    pub async fn noted<T>(
        &self,
        who: impl Into<Who>,
        what: Move,
        call: impl Future<Output = Result<T, Error>>,
        moved: impl FnOnce(&T) -> u64,
    ) -> Result<T, Error> {
        let note = self.begin(&who.into(), what)?;
        let answer = call.await;
        note.end(answer.as_ref().map(moved).map_err(|error| error.code()));
        answer
    }
}

/// A move that is being made. Dropped without an end, it is one of which nobody knows how it went.
#[derive(Debug)]
#[must_use]
pub struct Noted(Option<(Arc<Shared>, String)>);

impl Noted {
    /// Notes how it went: how much was moved, or why nothing was.
    pub fn end(mut self, outcome: Result<u64, Code>) {
        self.say(match outcome {
            Ok(moved) => json!({ "outcome": "done", "moved": moved }),
            Err(Code::UnknownOutcome) => json!({ "outcome": "unknown" }),
            Err(code) => json!({ "outcome": "refused", "code": code.as_str() }),
        });
    }

    fn say(&mut self, outcome: Value) {
        let (Some((shared, name)), Value::Object(mut line)) = (self.0.take(), outcome) else {
            return;
        };
        line.insert("move".to_owned(), name.into());
        if let Err(error) = shared.write(line) {
            shared.lost(&error);
        }
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        // Whoever asked has gone, in the middle of it.
        self.say(json!({ "outcome": "unknown" }));
    }
}

impl Shared {
    fn file(&self) -> std::sync::MutexGuard<'_, Open> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the file again if it was deleted: what is written to one that has no name is written nowhere. Answers with its
    /// length.
    fn find(&self, open: &mut Open) -> io::Result<u64> {
        let about = open.file.metadata()?;
        if about.nlink() > 0 {
            return Ok(about.len());
        }
        *open = self::open(&self.path, self.writer)?;
        tracing::warn!(path = %self.path.display(), "the audit log was deleted; a new one begins");
        Ok(open.file.metadata()?.len())
    }

    /// Writes a line in one go.
    fn write(&self, mut line: Map<String, Value>) -> io::Result<()> {
        let at = Timestamp::from(std::time::SystemTime::now());
        line.insert("at".to_owned(), at.to_string().into());
        let mut open = self.file();
        let length = self.find(&mut open)?;
        // On a full disk the line goes into what was set aside before.
        let _ = open.reserve(length);
        let begin = if open.torn { "\n" } else { "" };
        let text = format!("{begin}{}\n", Value::Object(line));
        open.torn = true;
        open.file.write_all(text.as_bytes())?;
        open.torn = false;
        open.length = length + text.len() as u64;
        Ok(())
    }

    fn lost(&self, error: &io::Error) {
        self.failures.fetch_add(1, Relaxed);
        tracing::error!(%error, path = %self.path.display(), "the audit log cannot be written");
    }
}

fn open(path: &Path, writer: Writer) -> io::Result<Open> {
    let file = match reach(path, OFlags::empty()) {
        Err(error) if error.kind() == ErrorKind::NotFound => make(path, writer)?,
        found => found?,
    };
    let about = file.metadata()?;
    match about.is_file() {
        true => Ok(Open {
            torn: is_torn(&file, about.len()),
            reserved: 0,
            length: about.len(),
            file,
        }),
        false => Err(io::Error::other("it is not a file")),
    }
}

/// Whether a process was cut off in the middle of the last line. One too many is better than two in one.
fn is_torn(file: &File, length: u64) -> bool {
    let mut last = [0];
    match length.checked_sub(1) {
        None => false,
        Some(place) => file.read_exact_at(&mut last, place).is_err() || last != *b"\n",
    }
}

fn make(path: &Path, writer: Writer) -> io::Result<File> {
    let file = match reach(path, OFlags::CREATE | OFlags::EXCL) {
        // Somebody else was faster.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            return reach(path, OFlags::empty());
        }
        made => made?,
    };
    if let Writer::Command = writer {
        let given = directory(path)
            .metadata()
            .and_then(|directory| Owner::in_directory(&directory).give(&file));
        given.inspect_err(|_| {
            let _ = std::fs::remove_file(path);
        })?;
    }
    Ok(file)
}

fn reach(path: &Path, more: OFlags) -> io::Result<File> {
    let flags = more | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let open = |access| rustix::fs::open(path, flags | access, Mode::RUSR | Mode::WUSR);
    let file = match open(OFlags::RDWR) {
        // To look at its end is not worth a refusal.
        Err(Errno::ACCESS | Errno::PERM) => open(OFlags::WRONLY),
        opened => opened,
    };
    Ok(File::from(file?))
}

/// Sets the first space aside; where that cannot be done, an operator should know before the disk is full.
fn warn_without_reserve(path: &Path, open: &mut Open) {
    let reserved = open
        .file
        .metadata()
        .and_then(|about| open.reserve(about.len()));
    if let Err(error) = reserved {
        tracing::warn!(
            %error,
            path = %path.display(),
            "no space can be set aside for the audit log: if its disk is full, calls of operators will be refused, also those that free space"
        );
    }
}

fn unwritable(path: &Path, error: &io::Error) -> Error {
    let message = format!(
        "the audit log {} cannot be written: {error}",
        path.display()
    );
    Error::new(Code::Unavailable, message)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use auxo_core::State;

    use super::*;

    fn who() -> Who {
        Who {
            name: Some("ops".into()),
            token: Some("abc".into()),
            from: "192.0.2.1".into(),
            via: "http",
        }
    }

    fn lines(path: &Path) -> Vec<Value> {
        let text = std::fs::read_to_string(path).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    #[tokio::test]
    async fn a_move_has_a_line_before_and_one_after() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.jsonl");
        let trail = Trail::open(&path).unwrap();
        let mail = QueueName::new("mail").unwrap();
        let purge = || Move::new("purge").queue(&mail);
        let during = async {
            assert_eq!(lines(&path).len(), 1, "it is written first");
            Ok(12)
        };
        let purged = trail.noted(who(), purge(), during, |moved| *moved).await;
        assert_eq!(purged.unwrap(), 12);
        let refused = async { Err::<u64, _>(Error::new(Code::NotFound, "no")) };
        trail
            .noted(who(), purge(), refused, |moved| *moved)
            .await
            .unwrap_err();
        drop(trail.begin(&who(), purge()).unwrap());
        let lines = lines(&path);
        assert_eq!(lines.len(), 6);
        assert_eq!(
            (&lines[0]["who"], &lines[0]["token"]),
            (&"ops".into(), &"abc".into())
        );
        assert_eq!(
            (&lines[0]["what"], &lines[0]["queue"]),
            (&"purge".into(), &"mail".into())
        );
        assert_eq!(lines[0]["from"], "192.0.2.1");
        assert!(lines[0]["at"].is_string());
        assert_eq!(lines[0]["move"], lines[1]["move"]);
        assert_ne!(lines[0]["move"], lines[2]["move"]);
        assert_eq!(
            (&lines[1]["outcome"], &lines[1]["moved"]),
            (&"done".into(), &12.into())
        );
        assert_eq!(lines[3]["code"], "not_found");
        assert_eq!(lines[5]["outcome"], "unknown");
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[tokio::test]
    async fn a_move_that_cannot_be_written_down_is_not_made() {
        // Every write to it fails for want of room.
        let trail = Trail::open("/dev/full");
        assert!(trail.is_err(), "it is no file");
        let dir = tempfile::tempdir().unwrap();
        let trail = Trail::open(dir.path().join("audit.jsonl")).unwrap();
        trail.fill_up();
        let call = async { panic!("it was made") as Result<u64, Error> };
        let refused = trail
            .noted(who(), Move::new("purge"), call, |moved| *moved)
            .await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.code(), Code::Unavailable);
        assert!(!refused.message().contains("audit.jsonl"), "{refused}");
        assert_eq!(trail.failures(), 1);
        // It heals when there is room, on a line of its own.
        trail.reopen();
        drop(trail.begin(&who(), Move::new("purge")).unwrap());
        let text = std::fs::read_to_string(trail.path().unwrap()).unwrap();
        assert_eq!(text.trim_start().lines().count(), 2);
    }

    #[test]
    fn space_is_set_aside_behind_the_last_line_and_the_file_does_not_get_longer() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.jsonl");
        let trail = Trail::open(&path).unwrap();
        let on_disk = || path.metadata().unwrap().blocks() * 512;
        assert!(on_disk() >= RESERVE, "{}", on_disk());
        assert_eq!(path.metadata().unwrap().len(), 0);
        let long = "x".repeat(100_000);
        for _ in 0..20 {
            drop(trail.begin(&who(), Move::new(&long)).unwrap());
            let length = path.metadata().unwrap().len();
            assert!(on_disk() >= length + RESERVE / 4, "{length} {}", on_disk());
        }
        assert_eq!(lines(&path).len(), 40);
    }

    #[test]
    fn space_is_set_aside_again_after_a_rotation() {
        let dir = tempfile::tempdir().unwrap();
        let (path, old) = (dir.path().join("audit.jsonl"), dir.path().join("old"));
        let trail = Trail::open(&path).unwrap();
        let on_disk = |path: &Path| path.metadata().unwrap().blocks() * 512;
        drop(trail.begin(&who(), Move::new("purge")).unwrap());
        std::fs::rename(&path, &old).unwrap();
        trail.reopen();
        assert!(on_disk(&path) >= RESERVE, "{}", on_disk(&path));
        assert_eq!(path.metadata().unwrap().len(), 0);
        assert_eq!(lines(&old).len(), 2);
        // A signal without a rotation.
        drop(trail.begin(&who(), Move::new("purge")).unwrap());
        trail.reopen();
        assert!(on_disk(&path) >= RESERVE, "{}", on_disk(&path));
        assert_eq!(lines(&path).len(), 2);
    }

    #[test]
    fn space_is_set_aside_again_after_the_file_was_copied_and_emptied() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.jsonl");
        let trail = Trail::open(&path).unwrap();
        let on_disk = || path.metadata().unwrap().blocks() * 512;
        for size in [10, 300_000, 2_000_000] {
            drop(trail.begin(&who(), Move::new(&"x".repeat(size))).unwrap());
            let file = File::options().write(true).open(&path).unwrap();
            file.set_len(0).unwrap();
            assert!(on_disk() < RESERVE / 2, "{}", on_disk());
            drop(trail.begin(&who(), Move::new("purge")).unwrap());
            assert!(on_disk() >= RESERVE, "{size}: {}", on_disk());
        }
    }

    #[test]
    fn what_was_searched_for_is_not_told_and_nobody_forges_a_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.jsonl");
        let trail = Trail::open(&path).unwrap();
        let searched = Filter {
            queue: Some(QueueName::new("mail").unwrap()),
            states: vec![State::Dead],
            search: Some("secret".into()),
            key: Some("secret".into()),
            group: Some("secret".into()),
            error: Some("secret".into()),
            headers: [("secret".into(), "secret".into())].into(),
            ..Filter::default()
        };
        let what = Move::new("set")
            .with("name", "a\n{\"who\":\"ada\"}")
            .with("filter", filter(&searched));
        drop(trail.begin(&who(), what).unwrap());
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains("secret"), "{text}");
        assert_eq!(text.lines().count(), 2);
        assert_eq!(lines(&path)[0]["filter"]["states"][0], "dead");
    }

    #[test]
    fn a_file_that_was_moved_away_is_made_again_and_a_link_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.jsonl");
        let trail = Trail::open(&path).unwrap();
        drop(trail.begin(&who(), Move::new("purge")).unwrap());
        std::fs::rename(&path, dir.path().join("old")).unwrap();
        trail.reopen();
        drop(trail.begin(&who(), Move::new("purge")).unwrap());
        assert_eq!(lines(&path).len(), 2);
        let link = dir.path().join("link");
        symlink(&path, &link).unwrap();
        assert!(Trail::open(link).is_err());
        assert!(Trail::off().begin(&who(), Move::new("purge")).is_ok());
    }

    #[test]
    fn a_file_that_was_deleted_is_made_again_and_nothing_is_moved_without_one() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("log");
        std::fs::create_dir(&place).unwrap();
        let path = place.join("audit.jsonl");
        let trail = Trail::open(&path).unwrap();
        drop(trail.begin(&who(), Move::new("purge")).unwrap());
        std::fs::remove_file(&path).unwrap();
        let note = trail.begin(&who(), Move::new("purge")).unwrap();
        assert_eq!(lines(&path).len(), 1);
        std::fs::remove_dir_all(&place).unwrap();
        let refused = trail.begin(&who(), Move::new("purge")).unwrap_err();
        assert_eq!(refused.code(), Code::Unavailable);
        assert_eq!(trail.failures(), 1);
        // It heals by itself.
        std::fs::create_dir(&place).unwrap();
        note.end(Ok(1));
        assert_eq!(lines(&path)[0]["outcome"], "done");
    }

    #[test]
    fn a_line_that_was_cut_off_does_not_swallow_the_next_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.jsonl");
        let cut = "{\"at\":\"2026-11-1";
        std::fs::write(&path, cut).unwrap();
        let trail = Trail::open(&path).unwrap();
        drop(trail.begin(&who(), Move::new("purge")).unwrap());
        let whole = |path: &Path| {
            let text = std::fs::read_to_string(path).unwrap();
            let lines = text.lines().filter(|line| !line.is_empty());
            let is_whole = |line: &&str| serde_json::from_str::<Value>(line).is_ok();
            (lines.clone().count(), lines.filter(is_whole).count())
        };
        assert_eq!(whole(&path), (3, 2));
        std::fs::write(&path, cut).unwrap();
        trail.reopen();
        drop(trail.begin(&who(), Move::new("purge")).unwrap());
        assert_eq!(whole(&path), (3, 2));
        // Behind a whole line nothing is missing.
        drop(trail);
        let trail = Trail::open(&path).unwrap();
        drop(trail.begin(&who(), Move::new("purge")).unwrap());
        assert_eq!(whole(&path), (5, 4));
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains("\n\n"), "{text}");
    }
}
