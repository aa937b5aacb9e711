//! Connecting to a server.

use std::sync::Arc;
use std::time::Duration;

use auxo_core::Result;
use auxo_core::limits::Limits;
use auxo_core::service::Service;

use crate::handle::Auxo;
use crate::remote::{Remote, Settings};

/// How to connect to a server; see [`Auxo::connector`].
#[derive(Clone, Default)]
#[must_use]
pub struct Connector {
    settings: Settings,
    limits: Limits,
}

impl Connector {
    /// How long a connection may take to be made. The default is 5 seconds.
    pub fn connect_timeout(mut self, time: Duration) -> Connector {
        self.settings.connect_time = time;
        self
    }

    /// How long a call may take with all its tries, besides what a lease waits for. The default is 40 seconds, more than a
    /// server gives itself.
    pub fn timeout(mut self, time: Duration) -> Connector {
        self.settings.answer_time = time;
        self
    }

    /// What is checked before anything is sent. The server has limits of its own.
    pub fn limits(mut self, limits: Limits) -> Connector {
        self.limits = limits;
        self
    }

    /// A handle to the server at this URL. Nothing is sent before the first call, so the server need not be there yet.
    pub async fn connect(self, url: &str) -> Result<Auxo> {
        let remote = Remote::with_settings(url, self.settings)?;
        Ok(Auxo::with_service(Service::new(
            Arc::new(remote),
            self.limits,
        )))
    }
}

impl Auxo {
    /// A handle to a server, such as `http://127.0.0.1:8000`. It must be used within a tokio runtime.
    ///
    /// Nothing is sent before the first call. Connections are kept and shared by all clones. Reading, and pushing jobs that
    /// have a [key](crate::Draft::key), is tried again when the server does not answer. Any other call that was sent and got
    /// no answer is `unknown_outcome`; one that never left is `unavailable`.
    ///
    /// ```no_run
    /// # #[tokio::main]
    /// # async fn main() -> auxo_core::Result<()> {
    /// let auxo = auxo_client::Auxo::connect("http://127.0.0.1:8000").await?;
    /// auxo.queue("mail")?.job("hello")?.key("hello:ada").push().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(url: &str) -> Result<Auxo> {
        Auxo::connector().connect(url).await
    }

    /// Connects with other than the default settings.
    pub fn connector() -> Connector {
        Connector::default()
    }
}
