//! A server over an engine, and a client of it.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use auxo_client::{GrpcRemote, Remote};
use auxo_core::clock::ManualClock;
use auxo_core::{Engine, Limits, Service};
use auxo_server::{Server, Settings};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// How the client talks to its server.
#[derive(Clone, Copy)]
pub enum Over {
    Http,
    Grpc,
}

impl Over {
    fn client(self, address: SocketAddr) -> Arc<dyn Engine> {
        match self {
            Over::Http => {
                let remote = Remote::new(&format!("http://{address}"));
                Arc::new(remote.expect("a good URL"))
            }
            Over::Grpc => {
                let remote = GrpcRemote::new(&format!("grpc://{address}"));
                Arc::new(remote.expect("a good URL"))
            }
        }
    }
}

/// A server on a port of its own.
pub struct Served {
    pub client: Arc<dyn Engine>,
    stop: oneshot::Sender<()>,
    server: JoinHandle<()>,
}

impl Served {
    /// The cases speak to an engine, which has no limits; so the server's are wide.
    pub fn new(over: Over, engine: Arc<dyn Engine>, clock: Arc<ManualClock>) -> Served {
        let year = Duration::from_secs(366 * 24 * 60 * 60);
        let limits = Limits {
            batch: 100_000,
            page: 100_000,
            payload: 16 << 20,
            wait: year,
            ttr: year,
            ..Limits::default()
        };
        let service = Arc::new(Service::with_clock(engine, limits, clock));
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listener = Server::listen(any).expect("a free port");
        let server = Server::new(listener, service, Settings::default()).expect("a server");
        let address = server.address().expect("an address");
        let (stop, stopped) = oneshot::channel();
        let server = tokio::spawn(server.run(async {
            // Nobody stops a server that is dropped: it ends with its runtime.
            if stopped.await.is_err() {
                std::future::pending().await
            }
        }));
        Served {
            client: over.client(address),
            stop,
            server,
        }
    }

    /// Closes the client and stops the server, and leaves the engine as it is.
    pub async fn stop(self) {
        self.client.close().await.expect("the client closes");
        self.stop.send(()).expect("the server runs");
        self.server.await.expect("the server ends");
    }
}
