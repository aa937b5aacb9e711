//! What every verb works with: the opened queue and the output. The engine is opened here and nowhere else.

use std::fs::DirEntry;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use auxo::core::contents::Contents;
use auxo::{Auxo, Code, Error};

use super::failure::Failure;
use super::output::Output;

/// What to do about a directory that holds no store yet, or a queue that does not exist.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// Make one, if nothing else is there: the verb puts something into it, or says that it is meant.
    Create,
    /// Refuse: looking at a mistyped path must not make a new queue there.
    Refuse,
}

impl Missing {
    /// Refuses, unless the making was asked for.
    pub fn unless(create: bool) -> Missing {
        match create {
            true => Missing::Create,
            false => Missing::Refuse,
        }
    }
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
        (Some(Contents::Nothing), Missing::Create) | (Some(Contents::Store) | None, _) => Ok(()),
        (Some(Contents::Nothing | Contents::Others), _) => {
            let message = format!("{} is not a data directory of auxo", data.display());
            Err(Error::new(Code::NotFound, message).into())
        }
    }
}

/// What lies in a directory; `None` when it cannot be listed, and opening it tells why.
fn contents(data: &Path) -> Option<Contents> {
    let entries = match std::fs::read_dir(data) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Some(Contents::Nothing),
        Err(_) => return None,
    };
    let name = |entry: DirEntry| entry.file_name().to_string_lossy().into_owned();
    Some(Contents::of(entries.flatten().map(name)))
}
