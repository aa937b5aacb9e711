//! A TCP connection whose peer is heard to the end.
//!
//! A server that refuses a client says why and hangs up: with an alert of TLS, or with an answer to a request that it did not read
//! whole. If the client is about to write then, the write fails with "broken pipe" before the client has read the reason, which
//! waits in the receive buffer. So a failed write is not reported at once. Its bytes are dropped, as if they had been sent a moment
//! before the peer hung up, and the next read finds what the peer said. When nothing is left to read, the read ends with the
//! error of the write.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A TCP connection that reports a failed write only when everything from the peer has been read.
pub(super) struct Socket {
    stream: TcpStream,
    /// Whether the peer takes what is sent, as far as is known.
    sends: bool,
    /// Why it does not, until a read reports it.
    failed: Option<io::Error>,
}

impl Socket {
    pub fn new(stream: TcpStream) -> Socket {
        Socket {
            stream,
            sends: true,
            failed: None,
        }
    }

    /// Sends with `write`, or drops `len` bytes if the peer takes no more.
    fn send(
        &mut self,
        len: usize,
        write: impl FnOnce(Pin<&mut TcpStream>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if !self.sends {
            return Poll::Ready(Ok(len));
        }
        match write(Pin::new(&mut self.stream)) {
            Poll::Ready(Err(error)) => {
                self.sends = false;
                self.failed = Some(error);
                Poll::Ready(Ok(len))
            }
            sent => sent,
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (before, room) = (buf.filled().len(), buf.remaining());
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        let is_end =
            matches!(read, Poll::Ready(Ok(()))) && room > 0 && buf.filled().len() == before;
        match self.failed.take_if(|_| is_end) {
            Some(error) => Poll::Ready(Err(error)),
            None => read,
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.send(buf.len(), |stream| stream.poll_write(cx, buf))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let len = bufs.iter().map(|buf| buf.len()).sum();
        self.send(len, |stream| stream.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Of a socket of the system, this does nothing.
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
