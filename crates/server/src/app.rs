//! What every handler works with.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use auxo_core::{Service, Timestamp};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;

use crate::auth::Auth;
use crate::beanstalk;
use crate::events::Hub;
use crate::grpc;
use crate::metrics::Metrics;
use crate::names::Names;
use crate::queue_shares::QueueShares;
use crate::resp;
use crate::routes::Table;
use crate::settings::Settings;
use crate::tls::Tls;
use crate::trail::Trail;

/// A unit of the memory for bodies and answers. A semaphore counts to 2^32 and less on small machines, so bytes would be too fine.
pub const ROOM_UNIT: usize = 1 << 10;

/// The name of a run of a server, from random bits. It begins with a letter: clients that read YAML take digits, also with an `e`
/// among them, for a number.
fn name_of_run(dice: u64) -> String {
    format!("a{dice:016x}")
}

/// The state of a server, shared by all its requests.
pub struct App {
    /// The queue.
    pub service: Arc<Service>,
    /// The limits.
    pub settings: Settings,
    /// Who may do what.
    pub auth: Auth,
    /// What operators do.
    pub trail: Trail,
    /// Whether only this machine can reach it over HTTP.
    pub is_local: bool,
    /// Names this run of the server, in ids of requests and events and to who asks for it over other protocols.
    pub run: String,
    /// When the server began.
    pub started_at: Timestamp,
    /// The recent events.
    pub hub: Arc<Hub>,
    /// What requests can ask for.
    pub routes: Table,
    /// What is counted.
    pub metrics: Metrics,
    /// Room for bodies, in [`ROOM_UNIT`]s.
    pub bodies: Arc<Semaphore>,
    /// Held while a part of a queue's settings is changed, so that two changes of different parts both count.
    pub changing: Mutex<()>,
    /// Held while a list of everything is made: a few hundred of them at once would take all memory there is.
    pub listing: Mutex<()>,
    /// Room for large answers that are being sent, in [`ROOM_UNIT`]s.
    pub answers: Arc<Semaphore>,
    /// Room for the names of queues in lease calls that wait.
    pub names: Arc<Names>,
    /// How many queues each token may make.
    pub queue_shares: QueueShares,
    /// What connections that speak beanstalkd's protocol share.
    pub beanstalk: beanstalk::Shared,
    /// What connections that speak Disque's commands share.
    pub resp: resp::Shared,
    /// What streams of workers share.
    pub grpc: grpc::Shared,
    /// The certificates of its listeners.
    pub certificates: OnceLock<Vec<Tls>>,
    stopping: watch::Sender<bool>,
    requests: AtomicU64,
}

impl App {
    /// The state of a server that has not seen a request yet.
    pub fn new(service: Arc<Service>, settings: Settings) -> io::Result<App> {
        let run = name_of_run(getrandom::u64().map_err(io::Error::other)?);
        Ok(App {
            hub: Hub::new(service.clone(), run.clone()),
            started_at: service.now(),
            auth: settings.auth.clone(),
            trail: settings.trail.clone(),
            is_local: false,
            routes: Table::new(),
            metrics: Metrics::default(),
            bodies: Arc::new(Semaphore::new(settings.bodies / ROOM_UNIT)),
            changing: Mutex::new(()),
            listing: Mutex::new(()),
            names: Names::new(settings.names),
            queue_shares: QueueShares::new(settings.queue_share),
            answers: Arc::new(Semaphore::new(settings.answers / ROOM_UNIT)),
            beanstalk: beanstalk::Shared::default(),
            resp: resp::Shared::default(),
            grpc: grpc::Shared::default(),
            certificates: OnceLock::new(),
            stopping: watch::channel(false).0,
            requests: AtomicU64::new(0),
            service,
            settings,
            run,
        })
    }

    /// Room for a body of this size that is on its way. Waits for it, but not for longer than a body may take.
    pub async fn room_for_body(&self, bytes: usize) -> io::Result<OwnedSemaphorePermit> {
        let units = u32::try_from(bytes.div_ceil(ROOM_UNIT)).unwrap_or(u32::MAX);
        let room = self.bodies.clone().acquire_many_owned(units);
        match timeout(self.settings.body_time, room).await {
            Ok(room) => room.map_err(io::Error::other),
            Err(_) => Err(io::Error::other("there is no room for so many bodies")),
        }
    }

    /// How often certificates could not be read again.
    pub fn unreadable_certificates(&self) -> u64 {
        let all = self.certificates.get().into_iter().flatten();
        all.map(Tls::unreadable).sum()
    }

    /// A name for a request that brought none.
    pub fn request_id(&self) -> String {
        format!("{}-{}", self.run, self.requests.fetch_add(1, Relaxed))
    }

    /// Lets everything that waits come to an end.
    pub fn stop(&self) {
        self.stopping.send_replace(true);
    }

    /// Whether the server is on its way out.
    pub fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Resolves when the server is told to stop.
    pub async fn stopped(&self) {
        // The sender lives as long as `self`, so waiting cannot fail.
        let _ = self.stopping.subscribe().wait_for(|stop| *stop).await;
    }
}
