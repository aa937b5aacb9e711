//! The stream of events: one connection, opened when somebody first watches, opened again where it was left whenever it ends.

use std::time::Duration;

use auxo_core::event::Notice;
use auxo_core::job::{Backoff, Jitter};
use auxo_core::json::parse;
use auxo_core::retry;
use bytes::{Buf, Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Incoming;
use hyper::header::{ACCEPT, AUTHORIZATION, HOST, HeaderName, HeaderValue, USER_AGENT};
use tokio::sync::{broadcast, watch};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::access::Access;
use super::address::Address;
use super::link::AGENT;
use super::pool::Pool;

/// How many notices a watcher may fall behind before it misses some.
pub(crate) const KEPT: usize = 16_384;
/// A server is heard of every 15 s; after three times that long it is gone.
pub(crate) const SILENCE: Duration = Duration::from_secs(45);
/// Bytes of one line, at most.
const MOST_LINE: usize = 1 << 20;
/// The waits before the stream is opened again.
pub(crate) const WAITS: Backoff = Backoff::Exponential {
    base: Duration::from_millis(200),
    factor: 2.0,
    cap: Duration::from_secs(5),
    jitter: Jitter::Full,
};

/// The stream as its watchers see it.
pub(super) struct Stream {
    notices: broadcast::Sender<Notice>,
    tried: watch::Receiver<bool>,
}

impl Stream {
    /// Starts the stream. It ends with `closed`, or with its sender.
    pub fn start(
        address: Address,
        access: Access,
        connect_time: Duration,
        closed: watch::Receiver<bool>,
    ) -> Stream {
        let (notices, _) = broadcast::channel(KEPT);
        let (try_it, tried) = watch::channel(false);
        let source = Source {
            address,
            authorization: access.authorization.clone(),
            pool: Pool::new(connect_time, access),
            notices: notices.clone(),
            last: None,
        };
        tokio::spawn(source.run(try_it, closed));
        Stream { notices, tried }
    }

    /// A new watcher.
    pub fn watch(&self) -> broadcast::Receiver<Notice> {
        self.notices.subscribe()
    }

    /// Resolves once the stream was opened, or could not be at the first try.
    pub async fn tried(&self) {
        // A stream that is over was tried.
        let _ = self.tried.clone().wait_for(|tried| *tried).await;
    }
}

struct Source {
    address: Address,
    pool: Pool,
    authorization: Option<HeaderValue>,
    notices: broadcast::Sender<Notice>,
    /// The id of the last event, to go on from.
    last: Option<HeaderValue>,
}

impl Source {
    async fn run(mut self, tried: watch::Sender<bool>, mut closed: watch::Receiver<bool>) {
        let mut failures = 0;
        loop {
            let read = async {
                if let Some(body) = self.open().await {
                    failures = 0;
                    tried.send_replace(true);
                    self.read(body).await;
                }
                tried.send_replace(true);
                failures += 1;
                let dice = getrandom::u64().unwrap_or(u64::MAX);
                sleep(retry::wait(failures, &WAITS, dice)).await;
            };
            tokio::select! {
                () = read => {}
                // An error means that the last handle is gone.
                _ = closed.wait_for(|closed| *closed) => return,
            }
        }
    }

    async fn open(&self) -> Option<Incoming> {
        let deadline = Instant::now() + SILENCE;
        let mut line = self.pool.dial(&self.address, deadline).await.ok()?;
        let mut request = Request::new(Full::new(Bytes::new()));
        *request.uri_mut() = self.address.path("/v1/events").ok()?;
        let headers = request.headers_mut();
        headers.insert(HOST, self.address.authority.clone());
        headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(value) = &self.authorization {
            headers.insert(AUTHORIZATION, value.clone());
        }
        if let Some(last) = &self.last {
            headers.insert(HeaderName::from_static("last-event-id"), last.clone());
        }
        let answer = timeout_at(deadline, line.send(request, std::future::pending()));
        let answer = answer.await.ok()?.ok()?;
        answer.status().is_success().then(|| answer.into_body())
    }

    /// Tells what comes until the stream ends or is silent for too long.
    async fn read(&mut self, mut body: Incoming) {
        let mut events = Events::default();
        while let Ok(Some(Ok(frame))) = timeout(SILENCE, body.frame()).await {
            let Ok(data) = frame.into_data() else {
                continue;
            };
            if !events.feed(&data, |event| self.tell(event)) {
                return;
            }
        }
    }

    fn tell(&mut self, event: Event) {
        if let Ok(id) = HeaderValue::from_str(&event.id)
            && !event.id.is_empty()
        {
            self.last = Some(id);
        }
        // What the server could not tell is a gap in the sequence, which a watcher sees for itself.
        if let Ok(notice) = parse::notice(event.data.as_bytes()) {
            // Nobody may be watching just now.
            let _ = self.notices.send(notice);
        }
    }
}

/// One event of the stream.
#[derive(Debug, Default, PartialEq)]
struct Event {
    id: String,
    data: String,
}

/// Makes events of bytes, which come in pieces of any size.
#[derive(Default)]
struct Events {
    rest: BytesMut,
    event: Event,
}

impl Events {
    /// Takes more bytes, and tells the events that are complete; false when a line is longer than any of ours.
    fn feed(&mut self, bytes: &[u8], mut tell: impl FnMut(Event)) -> bool {
        self.rest.extend_from_slice(bytes);
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line = self.rest.split_to(end);
            self.rest.advance(1);
            let line = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(&line));
            if line.is_empty() {
                let event = std::mem::take(&mut self.event);
                if event != Event::default() {
                    tell(event);
                }
                continue;
            }
            let (name, value) = line.split_once(':').unwrap_or((&line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match name {
                "id" => self.event.id = value.to_owned(),
                "data" => self.event.data += value,
                // Comments, and what we do not need: each notice says itself what it is.
                _ => {}
            }
        }
        self.rest.len() <= MOST_LINE && self.event.data.len() <= MOST_LINE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_from_pieces_of_any_size() {
        let text = "retry: 1\n\n: hello\n\nid: a-1\nevent: push\ndata: {\"x\":\"ä\"}\n\nid:a-2\r\ndata:y\r\n\r\n: beat\n\ndata: un";
        let event = |id: &str, data: &str| Event {
            id: id.into(),
            data: data.into(),
        };
        for size in 1..=text.len() {
            let (mut events, mut told) = (Events::default(), Vec::new());
            for piece in text.as_bytes().chunks(size) {
                assert!(events.feed(piece, |event| told.push(event)));
            }
            let expected = [event("a-1", "{\"x\":\"ä\"}"), event("a-2", "y")];
            assert_eq!(told, expected, "in pieces of {size}");
        }
    }

    #[test]
    fn a_line_without_end_is_given_up() {
        let mut events = Events::default();
        let piece = vec![b'x'; MOST_LINE];
        assert!(events.feed(&piece, |_| ()));
        assert!(!events.feed(&piece, |_| ()));
    }
}
