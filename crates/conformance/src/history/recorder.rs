//! Writes events down as they happen.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::{Event, History, Op, Phase, whole_lines};

/// Where a run is written down. Any number of threads may share one; the order of the lines is the order of the events.
///
/// Its clock counts elapsed time. It starts at the wall clock's value, or behind the last event of the file that it goes on
/// with, so that the runs of several processes, one after the other, make one history.
pub struct Recorder {
    opened: Instant,
    anchor: u64,
    inside: Mutex<Inside>,
}

struct Inside {
    last_call: u64,
    sink: Sink,
}

enum Sink {
    File(PathBuf, File),
    Memory(Vec<Event>),
    Hand(Box<dyn FnMut(&Event) + Send>),
}

impl Recorder {
    /// A recorder that keeps the history in memory.
    pub fn in_memory() -> Recorder {
        Recorder::with(&[], Sink::Memory(Vec::new()))
    }

    /// A recorder that hands each event to somebody who writes it down, such as the [`Recorder`] of another process, and goes on
    /// when that is done. It keeps no history.
    pub fn handing_to(hand: impl FnMut(&Event) + Send + 'static) -> Recorder {
        Recorder::with(&[], Sink::Hand(Box::new(hand)))
    }

    /// A recorder that appends to a file, which is made if need be. A torn last line is cut off first.
    pub fn append_to(path: &Path) -> io::Result<Recorder> {
        let mut options = OpenOptions::new();
        let mut file = options.create(true).append(true).read(true).open(path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        bytes.truncate(whole_lines(&bytes));
        file.set_len(bytes.len() as u64)?;
        let history = History::parse(&bytes)?;
        Ok(Recorder::with(
            &history.events,
            Sink::File(path.to_owned(), file),
        ))
    }

    fn with(before: &[Event], sink: Sink) -> Recorder {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
        let wall = since_epoch.map_or(0, |since| since.as_micros() as u64);
        let last = before.iter().map(|event| event.at + 1).max();
        Recorder {
            opened: Instant::now(),
            anchor: wall.max(last.unwrap_or(0)),
            inside: Mutex::new(Inside {
                last_call: before.iter().map(|event| event.call).max().unwrap_or(0),
                sink,
            }),
        }
    }

    /// When the recorder was made, on its own clock: later than every event that the history had before.
    pub fn started(&self) -> u64 {
        self.anchor
    }

    /// What its clock shows.
    pub fn now(&self) -> u64 {
        self.anchor + self.opened.elapsed().as_micros() as u64
    }

    /// Writes that a call is about to be made, and answers with its number. Time, phase and number of `event` are filled in.
    ///
    /// Panics when the event cannot be written, as does [`Recorder::answer`]: a run that is not recorded proves nothing.
    pub fn invoke(&self, event: Event) -> u64 {
        let mut inside = self.lock();
        inside.last_call += 1;
        let call = inside.last_call;
        self.write(
            &mut inside,
            Event {
                call,
                phase: Phase::Invoke,
                ..event
            },
        );
        call
    }

    /// Writes what came of a call. The time of `event` is filled in.
    pub fn answer(&self, event: Event) {
        self.write(&mut self.lock(), event);
    }

    /// Writes what happened to the engine: [`Op::Killed`] or [`Op::PowerCut`].
    pub fn mark(&self, op: Op) {
        let mut inside = self.lock();
        inside.last_call += 1;
        let call = inside.last_call;
        self.write(
            &mut inside,
            Event {
                op,
                call,
                ..Event::default()
            },
        );
    }

    /// What was recorded so far, with what the file had before.
    pub fn history(&self) -> io::Result<History> {
        match &self.lock().sink {
            Sink::Memory(events) => Ok(History {
                events: events.clone(),
            }),
            Sink::File(path, _) => History::read(path),
            Sink::Hand(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().expect("no writer panicked")
    }

    /// The time is read under the lock, so that later lines never have earlier times.
    fn write(&self, inside: &mut Inside, event: Event) {
        let at = self.now();
        let event = Event { at, ..event };
        match &mut inside.sink {
            Sink::Memory(events) => events.push(event),
            Sink::File(_, file) => file
                .write_all(format!("{event}\n").as_bytes())
                .expect("the history can be written"),
            Sink::Hand(hand) => hand(&event),
        }
    }
}
