//! Where connections come from: a port or a socket in the file system, with TLS or without. Protocols see a [`Stream`] and need
//! not know.

use std::io::{self, ErrorKind, IoSlice};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::{Domain, SockAddr, SockRef, Socket as RawSocket, TcpKeepalive, Type};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream};
use tokio_rustls::server::TlsStream;

use crate::tls::Tls;

/// How many connections may wait to be accepted.
const BACKLOG: u32 = 4096;
/// How long a peer may be silent on the level of the network.
const SILENCE: Duration = Duration::from_secs(45);

/// A place that is listened at.
#[derive(Debug)]
pub struct Listener {
    place: Place,
    tls: Option<Tls>,
}

#[derive(Debug)]
enum Place {
    Tcp(TcpListener),
    Unix {
        listener: UnixListener,
        _file: SocketFile,
    },
}

/// The name of a socket in the file system. It is removed with the value.
#[derive(Debug)]
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // It may have been removed already.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Listener {
        Listener {
            place: Place::Tcp(listener),
            tls: None,
        }
    }
}

impl Listener {
    /// Takes a port.
    pub fn tcp(address: SocketAddr) -> io::Result<TcpListener> {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        // A server that restarts must not wait for the kernel to forget its last connections.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    }

    /// Makes a socket in the file system that only its owner can connect to. One that a dead process left is replaced.
    pub fn unix(path: &Path) -> io::Result<Listener> {
        remove_stale(path)?;
        let socket = RawSocket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        socket.bind(&SockAddr::unix(path)?)?;
        let file = SocketFile(path.to_owned());
        // Before it listens, so that nobody else is quicker.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        socket.listen(i32::try_from(BACKLOG).unwrap_or(i32::MAX))?;
        let listener = UnixListener::from_std(socket.into())?;
        Ok(Listener {
            place: Place::Unix {
                listener,
                _file: file,
            },
            tls: None,
        })
    }

    /// The same place, with TLS. A socket in the file system has none: it does not leave the machine.
    pub fn with_tls(self, tls: Tls) -> Listener {
        Listener {
            tls: Some(tls),
            ..self
        }
    }

    /// Its port.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match &self.place {
            Place::Tcp(listener) => listener.local_addr(),
            Place::Unix { .. } => Err(ErrorKind::Unsupported.into()),
        }
    }

    /// Its certificates.
    pub fn tls(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }

    /// The next connection.
    pub(crate) async fn accept(&self) -> io::Result<Arrival> {
        match &self.place {
            Place::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok(Arrival {
                    socket: Socket::Tcp(stream),
                    from: peer.ip(),
                    name: peer.to_string(),
                    tls: self.tls.clone(),
                })
            }
            Place::Unix { listener, .. } => {
                let (stream, _) = listener.accept().await?;
                Ok(Arrival {
                    socket: Socket::Unix(stream),
                    from: Ipv4Addr::LOCALHOST.into(),
                    name: "unix".to_owned(),
                    tls: None,
                })
            }
        }
    }
}

/// Removes a socket that nobody listens at, and nothing else.
fn remove_stale(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
        Ok(about) if !about.file_type().is_socket() => {
            return Err(io::Error::new(
                ErrorKind::AlreadyExists,
                "there is something else than a socket",
            ));
        }
        Ok(_) => {}
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => Err(ErrorKind::AddrInUse.into()),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        Err(error) => Err(error),
    }
}

/// A connection that was just accepted.
pub struct Arrival {
    /// The socket as it is.
    pub socket: Socket,
    /// From where it comes; a socket in the file system is this machine.
    pub from: IpAddr,
    /// What it is called.
    pub name: String,
    /// What is to be spoken on it first.
    pub tls: Option<Tls>,
}

/// A connection without anything around it.
pub enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    /// The number of its file descriptor.
    pub fn descriptor(&self) -> usize {
        let fd = match self {
            Socket::Tcp(stream) => stream.as_raw_fd(),
            Socket::Unix(stream) => stream.as_raw_fd(),
        };
        usize::try_from(fd).unwrap_or_default()
    }

    /// The addresses of the other side and of this one, if it has any.
    pub fn ends(&self) -> Option<(SocketAddr, SocketAddr)> {
        match self {
            Socket::Tcp(stream) => Some((stream.peer_addr().ok()?, stream.local_addr().ok()?)),
            Socket::Unix(_) => None,
        }
    }

    /// The same socket, in the hands of the runtime that this is called in.
    pub fn moved(self) -> io::Result<Socket> {
        Ok(match self {
            Socket::Tcp(stream) => Socket::Tcp(TcpStream::from_std(stream.into_std()?)?),
            Socket::Unix(stream) => Socket::Unix(UnixStream::from_std(stream.into_std()?)?),
        })
    }

    /// Small answers go out at once, and a peer that is gone without a word is noticed within [`SILENCE`]: by probes while
    /// nothing is under way, and by the lack of any sign that what was sent has arrived.
    pub fn prepare(&self) -> io::Result<()> {
        let Socket::Tcp(stream) = self else {
            return Ok(());
        };
        stream.set_nodelay(true)?;
        let keepalive = TcpKeepalive::new()
            .with_time(SILENCE / 3)
            .with_interval(SILENCE / 3)
            .with_retries(2);
        let socket = SockRef::from(stream);
        // Probes rest while an answer is under way; without this one the system would send it again for a quarter of an hour.
        #[cfg(target_os = "linux")]
        socket.set_tcp_user_timeout(Some(SILENCE))?;
        socket.set_tcp_keepalive(&keepalive)
    }
}

/// A connection, whatever is around it.
pub enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    /// In a box: a connection without TLS, of which there may be ten thousand, need not have room for it.
    Tls(Box<TlsStream<TcpStream>>),
}

impl From<Socket> for Stream {
    fn from(socket: Socket) -> Stream {
        match socket {
            Socket::Tcp(stream) => Stream::Tcp(stream),
            Socket::Unix(stream) => Stream::Unix(stream),
        }
    }
}

impl Stream {
    /// The certificate that the other side has shown, if it has.
    pub fn certificate(&self) -> Option<&[u8]> {
        let Stream::Tls(stream) = self else {
            return None;
        };
        let shown = stream.get_ref().1.peer_certificates();
        Some(shown?.first()?.as_ref())
    }
}

macro_rules! inner {
    ($stream:expr, $inner:ident => $call:expr) => {
        match $stream {
            Stream::Tcp($inner) => $call,
            Stream::Unix($inner) => $call,
            Stream::Tls($inner) => $call,
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        inner!(self.get_mut(), inner => Pin::new(inner).poll_read(cx, buf))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        inner!(self.get_mut(), inner => Pin::new(inner).poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        inner!(self.get_mut(), inner => Pin::new(inner).poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        inner!(self, inner => inner.is_write_vectored())
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        inner!(self.get_mut(), inner => Pin::new(inner).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        inner!(self.get_mut(), inner => Pin::new(inner).poll_shutdown(cx))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_peer_that_is_gone_without_a_word_is_noticed_within_45_seconds() {
        let listener = Listener::tcp(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let _peer = TcpStream::connect(listener.local_addr().unwrap()).await;
        let arrival = Listener::from(listener).accept().await.unwrap();
        arrival.socket.prepare().unwrap();
        let Socket::Tcp(stream) = arrival.socket else {
            panic!("it came from a port");
        };
        let socket = SockRef::from(&stream);
        assert!(socket.keepalive().unwrap());
        let first = socket.tcp_keepalive_time().unwrap();
        let next = socket.tcp_keepalive_interval().unwrap();
        let probes = socket.tcp_keepalive_retries().unwrap();
        assert_eq!(first + next * probes, Duration::from_secs(45));
        #[cfg(target_os = "linux")]
        assert_eq!(
            socket.tcp_user_timeout().unwrap(),
            Some(Duration::from_secs(45))
        );
    }

    #[tokio::test]
    async fn a_socket_in_the_file_system_is_for_its_owner_and_replaces_only_a_dead_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let listener = Listener::unix(&path).unwrap();
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let busy = Listener::unix(&path).unwrap_err();
        assert_eq!(busy.kind(), ErrorKind::AddrInUse);
        let (_peer, arrival) = tokio::join!(UnixStream::connect(&path), listener.accept());
        let arrival = arrival.unwrap();
        assert!(arrival.from.is_loopback());
        drop(listener);
        assert!(!path.exists());
        // What a killed process leaves.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        drop(Listener::unix(&path).unwrap());
        std::fs::write(&path, "dear ada").unwrap();
        assert!(Listener::unix(&path).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "dear ada");
    }
}
