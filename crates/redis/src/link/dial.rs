//! Making a connection: the socket, TLS, who we are, and whether it is the server we want.

use std::io;
use std::time::Duration;

use redis::io::tcp::socket2::{SockRef, TcpKeepalive};
use redis::{RedisConnectionInfo, Value};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::connection::{Connection, Stream};
use super::fault::Fault;
use super::tls::Tls;
use crate::url::{Address, Login, StoreUrl};

/// How connections of one kind (to the servers, or to the sentinels) are made.
pub(super) struct Dialer {
    tls: Option<Tls>,
    login: Option<Login>,
    db: u32,
    patience: Duration,
}

/// What a server has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    /// Any that answers.
    Any,
    /// A primary.
    Primary,
}

impl Dialer {
    /// To the servers.
    pub(super) fn new(url: &StoreUrl) -> auxo_core::Result<Dialer> {
        Ok(Dialer {
            tls: url.tls().map(Tls::new).transpose()?,
            login: url.login().cloned(),
            db: url.db(),
            patience: patience(url.timeout()),
        })
    }

    /// To the sentinels.
    pub(super) fn to_sentinels(url: &StoreUrl) -> auxo_core::Result<Dialer> {
        Ok(Dialer {
            login: url.sentinel_login().cloned(),
            db: 0,
            ..Dialer::new(url)?
        })
    }

    /// How long making a connection may take.
    pub(super) fn patience(&self) -> Duration {
        self.patience
    }

    /// A connection that answered.
    pub(super) async fn connect(&self, to: &Address, want: Want) -> Result<Connection, Fault> {
        let until = Instant::now() + self.patience;
        let stream = self.stream(to, until).await?;
        match tokio::time::timeout_at(until, self.open(stream, to, want, until)).await {
            Ok(opened) => opened,
            Err(_) => Err(self.silent(to)),
        }
    }

    /// A connection for messages.
    pub(super) async fn listen(&self, to: &Address) -> Result<redis::aio::PubSub, Fault> {
        let until = Instant::now() + self.patience;
        let stream = self.stream(to, until).await?;
        let listening = async {
            let mut greeting = RedisConnectionInfo::default().set_skip_set_lib_name();
            if let Some(login) = &self.login {
                greeting = greeting.set_password(&login.password);
                if let Some(user) = &login.user {
                    greeting = greeting.set_username(user);
                }
            }
            redis::aio::PubSub::new(&greeting, stream)
                .await
                .map_err(|error| Fault::Away(format!("redis at {to} does not listen: {error}")))
        };
        match tokio::time::timeout_at(until, listening).await {
            Ok(listening) => listening,
            Err(_) => Err(self.silent(to)),
        }
    }

    /// What to say of a server that does not answer. One without TLS waits for the rest of what it takes for a command.
    pub(super) fn silent(&self, to: &Address) -> Fault {
        if self.tls.is_some() && is_tcp(to) {
            return plain(to);
        }
        let patience = auxo_core::text::duration(self.patience);
        Fault::Away(format!("redis at {to} did not answer within {patience}"))
    }

    async fn open(
        &self,
        stream: Stream,
        to: &Address,
        want: Want,
        until: Instant,
    ) -> Result<Connection, Fault> {
        let connection = Connection::new(stream)
            .await
            .map_err(|error| Fault::Away(format!("redis at {to} cannot be reached: {error}")))?;
        self.greet(&connection, to, want, until).await?;
        Ok(connection)
    }

    /// Says who we are. The last question shows that somebody is there: a server that hangs takes connections, too.
    async fn greet(
        &self,
        connection: &Connection,
        to: &Address,
        want: Want,
        until: Instant,
    ) -> Result<(), Fault> {
        let mut greeting = redis::pipe();
        if let Some(login) = &self.login {
            greeting.cmd("AUTH");
            if let Some(user) = &login.user {
                greeting.arg(user);
            }
            greeting.arg(&login.password);
        }
        if self.db != 0 {
            greeting.cmd("SELECT").arg(self.db);
        }
        greeting.cmd(match want {
            Want::Any => "PING",
            Want::Primary => "ROLE",
        });
        let mut answers = match connection.ask_all(&greeting, until).await {
            Ok(answers) => answers,
            // A port for TLS hangs up on whoever comes without.
            Err(Fault::Lost(why)) if self.tls.is_none() && is_tcp(to) && Instant::now() < until => {
                return Err(Fault::Away(format!(
                    "redis at {to} closed the connection before it answered ({why}); if that port is for TLS, the store's URL \
                     must begin with rediss"
                )));
            }
            Err(Fault::Lost(why)) => return Err(Fault::Away(format!("{to}: {why}"))),
            Err(fault) => return Err(fault),
        };
        let there = answers.pop();
        for answer in answers {
            answer.map_err(|fault| match fault {
                Fault::Refused(refusal) => Fault::Denied(format!("{to}: {refusal}")),
                Fault::Denied(why) => Fault::Denied(format!("{to}: {why}")),
                fault => fault,
            })?;
        }
        match (want, there) {
            (_, Some(Err(Fault::Denied(why)))) if !why.starts_with("NOPERM") => {
                Err(Fault::Denied(format!("{to}: {why}")))
            }
            (Want::Primary, Some(Err(Fault::Denied(why)))) => {
                Err(Fault::Denied(format!("{to}: {why}")))
            }
            (Want::Primary, Some(Ok(role))) if !is_primary(&role) => {
                Err(Fault::Away(format!("redis at {to} is not a primary")))
            }
            // Closed at once, as when there are too many connections.
            (_, Some(Err(Fault::Refused(refusal)))) if refusal.code == "ERR" => {
                Err(Fault::Away(format!("redis at {to}: {refusal}")))
            }
            // A server that is loading is there, and so is one that we may not ask whether it is.
            _ => Ok(()),
        }
    }

    /// The way to a server, which takes its time, but not longer.
    async fn stream(&self, to: &Address, until: Instant) -> Result<Stream, Fault> {
        let socket = match tokio::time::timeout_at(until, socket(to)).await {
            Ok(socket) => socket.map_err(|error| unreachable(to, &error))?,
            Err(_) => return Err(self.silent(to)),
        };
        match (socket, &self.tls, to) {
            (Socket::Tcp(socket), Some(tls), Address::Tcp(host, _)) => {
                match tokio::time::timeout_at(until, tls.wrap(host, socket)).await {
                    Ok(Ok(stream)) => Ok(stream),
                    Ok(Err(error)) if !Tls::is_plain(&error) => Err(unreachable(to, &error)),
                    // A server without TLS may say that it knows no such command.
                    Ok(Err(_)) => Err(plain(to)),
                    Err(_) => Err(self.silent(to)),
                }
            }
            (Socket::Tcp(socket), ..) => Ok(Box::pin(socket)),
            #[cfg(unix)]
            (Socket::Unix(socket), ..) => Ok(Box::pin(socket)),
        }
    }
}

enum Socket {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(tokio::net::UnixStream),
}

async fn socket(to: &Address) -> io::Result<Socket> {
    match to {
        Address::Tcp(host, port) => tcp(host, *port).await.map(Socket::Tcp),
        #[cfg(unix)]
        Address::Unix(path) => {
            let socket = tokio::net::UnixStream::connect(path).await;
            socket.map(Socket::Unix)
        }
        #[cfg(not(unix))]
        Address::Unix(_) => Err(io::ErrorKind::Unsupported.into()),
    }
}

fn plain(to: &Address) -> Fault {
    Fault::Away(format!(
        "redis at {to} does not answer with TLS; if that port is a plain one, the store's URL must begin with redis, not rediss"
    ))
}

fn unreachable(to: &Address, error: &io::Error) -> Fault {
    Fault::Away(format!("redis at {to} cannot be reached: {error}"))
}

fn is_tcp(to: &Address) -> bool {
    matches!(to, Address::Tcp(..))
}

/// Making a connection must leave time for another, to another server.
fn patience(timeout: Duration) -> Duration {
    (timeout / 3).max(Duration::from_secs(1)).min(timeout)
}

async fn tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let socket = TcpStream::connect((host, port)).await?;
    socket.set_nodelay(true)?;
    // A host that vanished says nothing; without this, whoever only listens would wait for ever.
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(15))
        .with_interval(Duration::from_secs(5));
    SockRef::from(&socket).set_tcp_keepalive(&keepalive)?;
    Ok(socket)
}

/// Whether an answer to `ROLE` is a primary's.
pub(super) fn is_primary(role: &Value) -> bool {
    let Value::Array(role) = role else {
        return false;
    };
    matches!(role.first(), Some(Value::BulkString(name)) if name == b"master")
}
