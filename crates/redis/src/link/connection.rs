//! One connection, and what is known about what was sent over it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::aio::{AsyncStream, MultiplexedConnection};
use redis::{AsyncConnectionConfig, Cmd, Pipeline, RedisConnectionInfo, RedisError, Value};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::fault::Fault;

/// Bytes to and from a server, over whatever.
pub(super) type Stream = std::pin::Pin<Box<dyn AsyncStream + Send + Sync>>;

/// A connection over which many calls go at once. Closed when the last of its owners lets it go.
pub(super) struct Connection {
    inner: MultiplexedConnection,
    gone: Arc<AtomicBool>,
    driver: AbortHandle,
    since: Instant,
}

/// Tells that a connection is gone, however its task ends.
struct Gone(Arc<AtomicBool>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Connection {
    pub(super) async fn new(stream: Stream) -> Result<Connection, RedisError> {
        // Nothing is said at first and nothing has a time limit: both are our business.
        let greeting = RedisConnectionInfo::default().set_skip_set_lib_name();
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_connection_timeout(None);
        let (inner, driver) =
            MultiplexedConnection::new_with_config(&greeting, stream, config).await?;
        let gone = Arc::new(AtomicBool::new(false));
        let guard = Gone(gone.clone());
        // The task is ours, so that we know when it ended: what is asked of a connection that is gone was surely not sent.
        let driver = tokio::spawn(async move {
            let _guard = guard;
            driver.await;
        });
        Ok(Connection {
            inner,
            gone,
            driver: driver.abort_handle(),
            since: Instant::now(),
        })
    }

    /// Whether calls can still be sent.
    pub(super) fn alive(&self) -> bool {
        !self.gone.load(Ordering::Acquire)
    }

    pub(super) fn age(&self) -> Duration {
        self.since.elapsed()
    }

    /// Ends it at once; calls on their way are lost.
    pub(super) fn close(&self) {
        self.driver.abort();
    }

    /// Sends a command and waits for its answer.
    pub(super) async fn ask(&self, command: &Cmd, until: Instant) -> Result<Value, Fault> {
        let mut inner = self.sendable()?.clone();
        let answer = tokio::time::timeout_at(until, inner.send_packed_command(command)).await;
        self.answered(answer).and_then(value)
    }

    /// Sends commands right after each other and waits for all of their answers.
    pub(super) async fn ask_all(
        &self,
        commands: &Pipeline,
        until: Instant,
    ) -> Result<Vec<Result<Value, Fault>>, Fault> {
        let mut inner = self.sendable()?.clone();
        let answers = inner.send_packed_commands(commands, 0, commands.len());
        let answers = tokio::time::timeout_at(until, answers).await;
        Ok(self.answered(answers)?.into_iter().map(value).collect())
    }

    fn sendable(&self) -> Result<&MultiplexedConnection, Fault> {
        match self.alive() {
            true => Ok(&self.inner),
            false => Err(Fault::Away("the connection to redis was lost".to_owned())),
        }
    }

    fn answered<T>(
        &self,
        answer: Result<Result<T, RedisError>, tokio::time::error::Elapsed>,
    ) -> Result<T, Fault> {
        match answer {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(Fault::Lost(format!(
                "the connection to redis was lost before it answered ({error})"
            ))),
            Err(_) => Err(Fault::Lost("redis did not answer in time".to_owned())),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

fn value(value: Value) -> Result<Value, Fault> {
    match value {
        Value::ServerError(error) => Err(Fault::answered(&error)),
        value => Ok(value),
    }
}
