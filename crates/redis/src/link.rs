//! The way to Redis. Nobody else speaks to it.

use std::time::Duration;

use auxo_core::{Code, Error, Result};
use bytes::Bytes;
pub use redis::Value;
use redis::aio::MultiplexedConnection;
use tokio::sync::mpsc;

use crate::script::Script;

/// Connections to the nodes of a store, shared by all calls of a process.
#[derive(Clone)]
pub struct Link {
    client: redis::Client,
    connection: MultiplexedConnection,
}

/// One call of a script on one shard.
pub struct Call {
    script: &'static Script,
    args: Vec<Vec<u8>>,
    key: String,
}

impl Call {
    /// A call on the shard that this key belongs to.
    pub fn new(script: &'static Script, key: String) -> Call {
        Call {
            script,
            args: Vec::new(),
            key,
        }
    }

    /// One more argument.
    pub fn arg(&mut self, arg: impl Into<Vec<u8>>) -> &mut Call {
        self.args.push(arg.into());
        self
    }
}

impl Link {
    /// Connects.
    pub async fn open(url: &str) -> Result<Link> {
        let client = redis::Client::open(url).map_err(failed)?;
        let connection = client.get_multiplexed_async_connection().await;
        Ok(Link {
            connection: connection.map_err(failed)?,
            client,
        })
    }

    /// Runs a script on the node that has its key.
    pub async fn run(&self, call: Call) -> Result<Value> {
        let mut connection = self.connection.clone();
        let mut command = redis::cmd("EVALSHA");
        command.arg(call.script.hash()).arg(1).arg(&call.key);
        for arg in &call.args {
            command.arg(arg);
        }
        match command.query_async(&mut connection).await {
            Err(error)
                if error.kind() == redis::ErrorKind::Server(redis::ServerErrorKind::NoScript) =>
            {
                let mut load = redis::cmd("SCRIPT");
                load.arg("LOAD").arg(call.script.source());
                let _: Value = load.query_async(&mut connection).await.map_err(failed)?;
                command.query_async(&mut connection).await.map_err(failed)
            }
            answer => answer.map_err(failed),
        }
    }

    /// Waits for the next item of a list.
    pub async fn pop(&self, key: &str, wait: Duration) -> Result<Option<Vec<u8>>> {
        let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
        let client = &self.client;
        let mut connection = client
            .get_multiplexed_async_connection_with_config(&config)
            .await
            .map_err(failed)?;
        let mut command = redis::cmd("BLPOP");
        command.arg(key).arg(wait.as_secs_f64());
        let popped: Option<(Vec<u8>, Vec<u8>)> =
            command.query_async(&mut connection).await.map_err(failed)?;
        Ok(popped.map(|(_, item)| item))
    }

    /// What is published on a channel. `None` says that something may have been missed.
    pub async fn subscribe(&self, channel: &str) -> Result<mpsc::Receiver<Option<Bytes>>> {
        use futures_util::StreamExt;
        let mut pubsub = self.client.get_async_pubsub().await.map_err(failed)?;
        pubsub.subscribe(channel).await.map_err(failed)?;
        let (sender, receiver) = mpsc::channel(1024);
        tokio::spawn(async move {
            let mut messages = pubsub.into_on_message();
            while let Some(message) = messages.next().await {
                let payload = Bytes::copy_from_slice(message.get_payload_bytes());
                if sender.send(Some(payload)).await.is_err() {
                    return;
                }
            }
        });
        Ok(receiver)
    }
}

fn failed(error: redis::RedisError) -> Error {
    Error::new(Code::Unavailable, format!("redis: {error}"))
}
