//! The contract of an engine, kept through a server: the client, the wire and the routes together.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use auxo_client::Remote;
use auxo_conformance::{Bench, ModelEngine};
use auxo_core::clock::ManualClock;
use auxo_core::{Limits, Service};
use auxo_server::{Server, Settings};

/// A server over the model, and a client of it. The cases speak to an engine, which has no limits; so the server's are wide.
async fn make() -> Bench {
    let clock = ManualClock::at(1_700_000_000_000);
    let engine = Arc::new(ModelEngine::new(clock.clone()));
    let year = Duration::from_secs(366 * 24 * 60 * 60);
    let limits = Limits {
        batch: 100_000,
        page: 100_000,
        payload: 16 << 20,
        wait: year,
        ttr: year,
        ..Limits::default()
    };
    let service = Arc::new(Service::with_clock(engine, limits, clock.clone()));
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let listener = Server::listen(any).expect("a free port");
    let server = Server::new(listener, service, Settings::default()).expect("a server");
    let url = format!("http://{}", server.address().expect("an address"));
    tokio::spawn(server.run(std::future::pending()));
    Bench {
        engine: Arc::new(Remote::new(&url).expect("a good URL")),
        clock,
        reopen: None,
    }
}

auxo_conformance::suite!(make);
