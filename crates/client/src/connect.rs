//! Connecting to a server, or to a Redis.

#[cfg(feature = "http")]
use std::path::PathBuf;
use std::sync::Arc;
#[cfg(feature = "http")]
use std::time::Duration;

#[cfg(not(all(feature = "grpc", feature = "http", feature = "redis")))]
use auxo_core::Error;
use auxo_core::limits::Limits;
use auxo_core::service::Service;
use auxo_core::{Engine, Result};

#[cfg(feature = "grpc")]
use crate::grpc::GrpcRemote;
use crate::handle::Auxo;
#[cfg(feature = "http")]
use crate::remote::{Remote, Settings, Token};

/// How to connect to a server or a Redis; see [`Auxo::connector`].
#[derive(Clone, Default)]
#[must_use]
pub struct Connector {
    #[cfg(feature = "http")]
    settings: Settings,
    limits: Limits,
}

impl Connector {
    /// How long a connection to a server may take to be made. The default is 5 seconds. (The URL of a Redis has its own
    /// `timeout`.)
    #[cfg(feature = "http")]
    pub fn connect_timeout(mut self, time: Duration) -> Connector {
        self.settings.connect_time = time;
        self
    }

    /// How long a call may take with all its tries, besides what a lease waits for. The default is 40 seconds, more than a
    /// server gives itself.
    #[cfg(feature = "http")]
    pub fn timeout(mut self, time: Duration) -> Connector {
        self.settings.answer_time = time;
        self
    }

    /// The token to show to a server that has tokens, as `auxo token new` prints it. Nothing of it is ever printed.
    #[cfg(feature = "http")]
    pub fn token(mut self, token: impl Into<String>) -> Connector {
        self.settings.token = Some(Token(token.into()));
        self
    }

    /// A file with the authority, in PEM, that the certificate of an `https://` or `grpcs://` server is of. The default are those that the
    /// system trusts.
    #[cfg(feature = "http")]
    pub fn authority(mut self, file: impl Into<PathBuf>) -> Connector {
        self.settings.files.ca = Some(file.into());
        self
    }

    /// Files with the certificate and its key, in PEM, to show to a server that wants certificates of its clients.
    #[cfg(feature = "http")]
    pub fn certificate(mut self, cert: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Connector {
        self.settings.files.identity = Some((cert.into(), key.into()));
        self
    }

    /// What is checked before anything is sent. The server has limits of its own.
    pub fn limits(mut self, limits: Limits) -> Connector {
        self.limits = limits;
        self
    }

    /// A handle to the server at this URL, which need not be there yet: nothing is sent before the first call. Or to the Redis
    /// at this URL, which must be.
    pub async fn connect(self, url: &str) -> Result<Auxo> {
        let engine = self.engine(url).await?;
        Ok(Auxo::with_service(Service::new(engine, self.limits)))
    }

    async fn engine(&self, url: &str) -> Result<Arc<dyn Engine>> {
        if url.starts_with("redis") {
            #[cfg(feature = "redis")]
            return Ok(Arc::new(
                auxo_redis::RedisEngine::open(&url.parse()?, auxo_redis::Options::default())
                    .await?,
            ));
            #[cfg(not(feature = "redis"))]
            return Err(Error::bad_request(
                "this program was built without the feature `redis`",
            ));
        }
        if url.starts_with("grpc") {
            #[cfg(feature = "grpc")]
            return Ok(Arc::new(GrpcRemote::with_settings(
                url,
                self.settings.clone(),
            )?));
            #[cfg(not(feature = "grpc"))]
            return Err(Error::bad_request(
                "this program was built without the feature `grpc`",
            ));
        }
        #[cfg(feature = "http")]
        return Ok(Arc::new(Remote::with_settings(url, self.settings.clone())?));
        #[cfg(not(feature = "http"))]
        Err(Error::bad_request(
            "this program was built without the feature `http`",
        ))
    }
}

impl Auxo {
    /// A handle to a server, such as `http://127.0.0.1:8000`, `https://queue.example` or, over gRPC, `grpc://127.0.0.1:8000` or `grpcs://queue.example`; or to a
    /// Redis or Valkey without any server in between: `redis://…`, `rediss://…`, `redis+sentinel://…`, `redis+cluster://…`. It must be
    /// used within a tokio runtime.
    ///
    /// To a server nothing is sent before the first call. Connections are kept and shared by all clones. Reading, and pushing jobs that
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
