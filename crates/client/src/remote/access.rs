//! What a server needs to let us in, and the way to its door.

use std::pin::Pin;

use auxo_core::Result;
use hyper::header::HeaderValue;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use super::address::Address;
use super::settings::Settings;
use super::socket::Socket;
use super::tls::{Ending, Tls};

/// What to do where nobody answers.
const START: &str = "is it running? start it with `auxo serve`";

/// What a server needs to let us in.
#[derive(Clone)]
pub(crate) struct Access {
    /// Begins every connection.
    tls: Option<Tls>,
    /// Is shown with every request.
    pub authorization: Option<HeaderValue>,
}

/// Bytes there and back, whatever is around them.
pub(crate) trait Bytewise: AsyncRead + AsyncWrite + Send {}
impl<T: AsyncRead + AsyncWrite + Send> Bytewise for T {}
pub(crate) type Stream = Pin<Box<dyn Bytewise>>;

/// A new connection.
pub(crate) struct Dialled {
    pub stream: Stream,
    #[cfg_attr(
        not(feature = "grpc"),
        expect(dead_code, reason = "over HTTP/1.1 the error itself says it")
    )]
    pub ending: Ending,
}

impl Access {
    /// Reads the files that are named in the settings, if TLS is spoken. `inside` is what is spoken within it, by its name in TLS.
    pub fn new(address: &Address, settings: &Settings, inside: &str) -> Result<Access> {
        Ok(Access {
            tls: match address.tls {
                true => Some(Tls::new(&settings.files, inside)?),
                false => None,
            },
            authorization: settings.authorization()?,
        })
    }

    /// A new connection, or why there is none and what to do about it.
    pub async fn dial(&self, address: &Address, deadline: Instant) -> Result<Dialled, String> {
        let connect = TcpStream::connect((&*address.host, address.port));
        let socket = match timeout_at(deadline, connect).await {
            Ok(Ok(socket)) => socket,
            Ok(Err(error)) => return Err(format!("{error}; {START}")),
            Err(_) => return Err(format!("the connection takes too long; {START}")),
        };
        // Requests are written whole; waiting for more to send would only delay them.
        let _ = socket.set_nodelay(true);
        let socket = Socket::new(socket);
        let Some(tls) = &self.tls else {
            return Ok(Dialled {
                stream: Box::pin(socket),
                ending: Ending::default(),
            });
        };
        match timeout_at(deadline, tls.wrap(address, socket)).await {
            Ok(Ok(stream)) => Ok(Dialled {
                ending: stream.ending.clone(),
                stream: Box::pin(stream),
            }),
            Ok(Err(error)) => Err(format!("TLS: {error}")),
            Err(_) => Err("TLS takes too long; does the server speak it there?".to_owned()),
        }
    }
}
