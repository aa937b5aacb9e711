//! What every verb works with: the opened queue and the output. The engine is opened here and nowhere else.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use auxo::{Auxo, Code, Error};

use super::failure::Failure;
use super::output::Output;

/// What to do about a directory that holds no store yet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// Make one, if nothing else is there: the verb puts something into it.
    Create,
    /// Refuse: looking at a mistyped path must not make a new queue there.
    Refuse,
}

/// The opened queue and the output.
pub struct Context {
    data: Option<PathBuf>,
    auxo: Option<Auxo>,
    /// Where results go.
    pub output: Output,
}

impl Context {
    /// Nothing is opened yet.
    pub fn new(data: Option<PathBuf>, json: bool) -> Context {
        Context {
            data,
            auxo: None,
            output: Output::new(json),
        }
    }

    /// The data directory that was named.
    pub fn data(&self) -> Result<&Path, Failure> {
        self.data.as_deref().ok_or_else(|| {
            Failure::Usage("no data directory; name one with --data DIR or AUXO_DATA".into())
        })
    }

    /// Opens the data directory.
    pub async fn open(&mut self, missing: Missing) -> Result<Auxo, Failure> {
        let data = self.data()?;
        check(data, missing)?;
        let auxo = Auxo::open(data).await?;
        self.auxo = Some(auxo.clone());
        Ok(auxo)
    }

    /// Writes out what is left and closes the queue.
    pub async fn finish(mut self) -> Result<(), Failure> {
        let flushed = self.output.flush();
        if let Some(auxo) = self.auxo {
            auxo.close().await?;
        }
        flushed
    }
}

/// Refuses a directory that a mistyped path would explain better than the wish for a new store.
fn check(data: &Path, missing: Missing) -> Result<(), Failure> {
    if missing == Missing::Refuse && !data.is_dir() {
        let message = format!("there is no data directory {}", data.display());
        return Err(Error::new(Code::NotFound, message).into());
    }
    match (contents(data), missing) {
        (Contents::Nothing, Missing::Create) | (Contents::Store | Contents::Unknown, _) => Ok(()),
        (Contents::Nothing | Contents::Others, _) => {
            let message = format!("{} is not a data directory of auxo", data.display());
            Err(Error::new(Code::NotFound, message).into())
        }
    }
}

/// What lies in a directory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Contents {
    /// Nothing, or no more than a lock: the making of a store was cut short.
    Nothing,
    /// A store.
    Store,
    /// Somebody else's files.
    Others,
    /// It cannot be listed; opening it tells why.
    Unknown,
}

/// Looks at the names in a directory, and at nothing else.
fn contents(data: &Path) -> Contents {
    let entries = match std::fs::read_dir(data) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Contents::Nothing,
        Err(_) => return Contents::Unknown,
    };
    let mut found = Contents::Nothing;
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name == "mark" || name == "checkpoint" || name.ends_with(".log") {
            return Contents::Store;
        }
        // A disk that was just formatted has a directory of its own.
        if name != "lock" && name != "lost+found" {
            found = Contents::Others;
        }
    }
    found
}
