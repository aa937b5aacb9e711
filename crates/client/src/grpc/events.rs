//! The stream of events: one connection, opened when somebody first watches, opened again where it was left whenever it ends.

use auxo_core::event::Notice;
use auxo_core::retry;
use auxo_proto::v1;
use auxo_proto::v1::events_client::EventsClient;
use hyper::Uri;
use tokio::sync::{broadcast, watch};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tonic::Streaming;

use super::line::{Line, dial};
use crate::remote::access::Access;
use crate::remote::address::Address;
use crate::remote::events::{KEPT, SILENCE, WAITS};

/// Bytes of one message, at most.
const MOST_MESSAGE: usize = 64 << 20;

/// The stream as its watchers see it.
pub(super) struct Stream {
    notices: broadcast::Sender<Notice>,
    tried: watch::Receiver<bool>,
}

impl Stream {
    /// Starts the stream. It ends with `closed`, or with its sender.
    pub fn start(source: Source, closed: watch::Receiver<bool>) -> Stream {
        let (try_it, tried) = watch::channel(false);
        let notices = source.notices.clone();
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

/// Where the events come from.
pub(super) struct Source {
    address: Address,
    access: Access,
    origin: Uri,
    notices: broadcast::Sender<Notice>,
    /// The run of the server that was heard last, and how far, to go on from.
    run: String,
    after: u64,
}

impl Source {
    pub fn new(address: Address, access: Access, origin: Uri) -> Source {
        Source {
            address,
            access,
            origin,
            notices: broadcast::channel(KEPT).0,
            run: String::new(),
            after: 0,
        }
    }

    async fn run(mut self, tried: watch::Sender<bool>, mut closed: watch::Receiver<bool>) {
        let mut failures = 0;
        loop {
            let read = async {
                if let Some(events) = self.open().await {
                    failures = 0;
                    self.read(events, &tried).await;
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

    async fn open(&self) -> Option<Streaming<v1::WatchResponse>> {
        let deadline = Instant::now() + SILENCE;
        let wire = dial(&self.address, &self.access, deadline).await.ok()?;
        let line = Line::alone(wire, &self.access);
        let client = EventsClient::with_origin(line, self.origin.clone());
        let mut client = client.max_decoding_message_size(MOST_MESSAGE);
        let request = v1::WatchRequest {
            queue: None,
            run: self.run.clone(),
            after: self.after,
        };
        let answer = timeout_at(deadline, client.watch(request))
            .await
            .ok()?
            .ok()?;
        Some(answer.into_inner())
    }

    /// Tells what comes until the stream ends or is silent for too long. The first message says that it is open.
    async fn read(
        &mut self,
        mut events: Streaming<v1::WatchResponse>,
        tried: &watch::Sender<bool>,
    ) {
        while let Ok(Ok(Some(message))) = timeout(SILENCE, events.message()).await {
            self.run = message.run;
            self.after = message.until;
            // What the server could not tell is a gap in the sequence, which a watcher sees for itself.
            for notice in message.notices {
                if let Ok(notice) = notice.try_into() {
                    // Nobody may be watching just now.
                    let _ = self.notices.send(notice);
                }
            }
            tried.send_replace(true);
        }
    }
}
