//! Opening a data directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use auxo_core::limits::Limits;
use auxo_core::service::Service;
use auxo_core::{Code, Error, Result};
use auxo_embedded::{Embedded, Options, Sync};

use crate::handle::Auxo;

/// How to open a data directory; see [`Auxo::builder`].
#[derive(Clone, Default)]
#[must_use]
pub struct Builder {
    options: Options,
    limits: Limits,
}

impl Builder {
    /// When an accepted job is safe: see [`Sync`]. The default is before it is answered.
    pub fn sync(mut self, sync: Sync) -> Builder {
        self.options.sync = sync;
        self
    }

    /// How large anything may be.
    pub fn limits(mut self, limits: Limits) -> Builder {
        self.limits = limits;
        self
    }

    /// All settings of the engine at once.
    pub fn options(mut self, options: Options) -> Builder {
        self.options = options;
        self
    }

    /// Opens the directory, and makes it if need be. One process can have it open at a time.
    pub async fn open(self, path: impl AsRef<Path>) -> Result<Auxo> {
        let path: PathBuf = path.as_ref().to_owned();
        let (options, clock) = (self.options.clone(), self.options.clock);
        // Opening reads a checkpoint and the log behind it, a segment or two: no place for an async worker thread.
        let opened = tokio::task::spawn_blocking(move || Embedded::open(&path, options)).await;
        let engine = opened.map_err(|error| Error::new(Code::Internal, error.to_string()))??;
        // The service tells the time as the engine does.
        let service = match clock {
            Some(clock) => Service::with_clock(Arc::new(engine), self.limits, clock),
            None => Service::new(Arc::new(engine), self.limits),
        };
        Ok(Auxo::with_service(service))
    }
}

impl Auxo {
    /// Opens a data directory with the built-in durable engine, and makes it if need be. One process can have it open at a
    /// time; within it, clone the handle.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> auxo_core::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path();
    /// let auxo = auxo_client::Auxo::open(path).await?;
    /// let pushed = auxo.queue("mail")?.push("hello").await?;
    /// auxo.close().await?;
    ///
    /// let auxo = auxo_client::Auxo::open(path).await?;
    /// assert!(auxo.job(pushed.id).await?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn open(path: impl AsRef<Path>) -> Result<Auxo> {
        Auxo::builder().open(path).await
    }

    /// Opens a data directory with other than the default settings.
    ///
    /// ```
    /// use std::time::Duration;
    /// use auxo_client::Auxo;
    /// use auxo_embedded::Sync;
    ///
    /// # #[tokio::main]
    /// # async fn main() -> auxo_core::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path();
    /// // Up to 50 ms of accepted jobs may be lost with the machine, never with the process.
    /// let auxo = Auxo::builder().sync(Sync::Interval(Duration::from_millis(50))).open(path).await?;
    /// # auxo.close().await
    /// # }
    /// ```
    pub fn builder() -> Builder {
        Builder::default()
    }
}
