//! What every verb works with: the opened queue and the output. The engine is opened here and nowhere else.

use std::path::{Path, PathBuf};

use auxo::{Auxo, Code, Error};

use super::failure::Failure;
use super::output::Output;

/// What to do about a data directory that does not exist.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// Make it: the verb puts something into it.
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
        if missing == Missing::Refuse && !data.is_dir() {
            let message = format!("there is no data directory {}", data.display());
            return Err(Error::new(Code::NotFound, message).into());
        }
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
