//! A server on a port of its own, and clients of it.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use auxo_core::engine::Change;
use auxo_core::queue::QueueConfig;
use auxo_core::{Engine, ManualClock, Service};
use auxo_embedded::{Embedded, Options, Sync};
use auxo_proto::v1;
use auxo_proto::v1::jobs_client::JobsClient;
use auxo_proto::v1::workers_client::WorkersClient;
use auxo_server::{Server, Settings};
use tempfile::TempDir;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

/// Longer than anything takes; only a broken test waits for it.
const PATIENCE: Duration = Duration::from_secs(100);

/// What must come, sooner or later.
pub async fn within<T>(future: impl Future<Output = T>) -> T {
    let late = tokio::time::timeout(PATIENCE, future).await;
    late.expect("what was waited for did not come")
}

/// A running server.
pub struct Bench {
    pub address: SocketAddr,
    pub service: Arc<Service>,
    stop: Option<oneshot::Sender<()>>,
    server: JoinHandle<()>,
    _dir: TempDir,
}

impl Bench {
    pub async fn start() -> Bench {
        Bench::with(|_| ()).await
    }

    pub async fn with(adjust: impl FnOnce(&mut Settings)) -> Bench {
        Bench::around(|engine| Arc::new(engine), adjust).await
    }

    /// A server whose engine is what a test makes of the real one.
    pub async fn around(
        wrap: impl FnOnce(Embedded) -> Arc<dyn Engine>,
        adjust: impl FnOnce(&mut Settings),
    ) -> Bench {
        let dir = tempfile::tempdir().unwrap();
        let clock = ManualClock::at(1_700_000_000_000);
        let options = Options {
            sync: Sync::Os,
            clock: Some(clock.clone()),
            ..Options::default()
        };
        let engine = wrap(Embedded::open(dir.path(), options).unwrap());
        let service = Service::with_clock(engine, Default::default(), clock);
        let service = Arc::new(service);
        let mut settings = Settings::default();
        adjust(&mut settings);
        let any = "127.0.0.1:0".parse().unwrap();
        let server = Server::new(Server::listen(any).unwrap(), service.clone(), settings).unwrap();
        let address = server.address().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let server = tokio::spawn(server.run(async {
            let _ = stopped.await;
        }));
        Bench {
            address,
            service,
            stop: Some(stop),
            server,
            _dir: dir,
        }
    }

    pub fn tell_to_stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
    }

    pub async fn stopped(self) {
        within(self.server).await.unwrap();
    }

    /// A connection of its own.
    pub fn channel(&self) -> Channel {
        let url = format!("http://{}", self.address);
        Channel::from_shared(url).unwrap().connect_lazy()
    }

    pub fn jobs(&self) -> JobsClient<Channel> {
        JobsClient::new(self.channel())
    }

    pub fn workers(&self) -> WorkersClient<Channel> {
        WorkersClient::new(self.channel())
    }

    /// Pushes jobs whose payloads are their numbers, and answers their ids.
    pub async fn push(&self, queue: &str, count: u64) -> Vec<u64> {
        let jobs = (0..count).map(|n| job(queue, n.to_string())).collect();
        let pushed = within(self.jobs().push(v1::PushRequest { jobs })).await;
        let results = pushed.unwrap().into_inner().results;
        results.into_iter().map(id).collect()
    }

    /// Makes a queue, which is shown from then on.
    pub async fn make(&self, queue: &str) {
        let change = Change::Queue(queue.parse().unwrap(), QueueConfig::default());
        self.service.change(change).await.unwrap();
    }

    /// Waits until somebody waits for jobs of a queue.
    pub async fn until_asked(&self, queue: &str) {
        let names = vec![queue.parse().unwrap()];
        let asked = async {
            while self.service.queues(Some(names.clone())).await.unwrap()[0].waiting == 0 {
                tokio::task::yield_now().await;
            }
        };
        within(asked).await;
    }

    /// The counts of a queue.
    pub async fn counts(&self, queue: &str) -> auxo_core::queue::Counts {
        let name = queue.parse().unwrap();
        let found = self.service.queues(Some(vec![name])).await.unwrap();
        found.first().map(|info| info.counts).unwrap_or_default()
    }
}

pub fn job(queue: &str, payload: impl Into<Vec<u8>>) -> v1::NewJob {
    v1::NewJob {
        queue: queue.to_owned(),
        spec: Some(v1::JobSpec {
            payload: payload.into().into(),
            ..v1::JobSpec::default()
        }),
    }
}

/// The id of a push that was accepted.
pub fn id(result: v1::PushResult) -> u64 {
    match result.result.unwrap() {
        v1::push_result::Result::Ok(pushed) => pushed.id,
        v1::push_result::Result::Error(error) => panic!("{error:?}"),
    }
}

/// A stream of a worker.
pub struct Worker {
    pub say: mpsc::Sender<v1::WorkRequest>,
    pub hear: Streaming<v1::WorkResponse>,
}

impl Worker {
    /// Begins to work on a queue.
    pub async fn start(bench: &Bench, queue: &str, credit: u32) -> Worker {
        Worker::with(bench, start(queue, credit)).await
    }

    pub async fn with(bench: &Bench, first: v1::WorkRequest) -> Worker {
        let (say, mut said) = mpsc::channel(16);
        say.send(first).await.unwrap();
        let messages = futures_util::stream::poll_fn(move |cx| said.poll_recv(cx));
        let hear = within(bench.workers().work(messages)).await.unwrap();
        Worker {
            say,
            hear: hear.into_inner(),
        }
    }

    pub async fn say(&self, message: v1::WorkRequest) {
        within(self.say.send(message)).await.unwrap();
    }

    /// The next message that is no heartbeat.
    pub async fn next(&mut self) -> Result<Option<v1::WorkResponse>, Status> {
        loop {
            let message = within(self.hear.message()).await?;
            if message != Some(v1::WorkResponse::default()) {
                return Ok(message);
            }
        }
    }

    /// Messages until there are so many jobs.
    pub async fn jobs(&mut self, count: usize) -> Vec<v1::Leased> {
        let mut jobs = Vec::new();
        while jobs.len() < count {
            jobs.extend(self.next().await.unwrap().expect("more jobs").jobs);
        }
        jobs
    }
}

pub fn start(queue: &str, credit: u32) -> v1::WorkRequest {
    v1::WorkRequest {
        start: Some(v1::work_request::Start {
            queues: vec![queue.to_owned()],
            ttr_ms: None,
            worker: "ada".to_owned(),
            pick: v1::Pick::Unspecified.into(),
        }),
        credit,
        ..v1::WorkRequest::default()
    }
}

pub fn ack(leased: &v1::Leased) -> v1::Settle {
    v1::Settle {
        token: leased.token.clone(),
        outcome: Some(v1::settle::Outcome::Ack(v1::settle::Ack::default())),
    }
}
