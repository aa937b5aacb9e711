//! Connections that end at every byte of a request and of its answer, that pass one byte at a time, and that are slow.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::load::Load;
use crate::raw::{Said, Wire, ask, request};
use crate::server::Server;
use crate::tale::{Least, judge};
use auxo_harness::proxy::{Lane, Plan, Proxy};

/// How many try at once, each with a network of its own.
const LANES: usize = 8;

/// Where a connection breaks off.
#[derive(Clone, Copy, Debug)]
enum Break {
    /// So many bytes of the request get through; the last number is all of them.
    Request(usize, usize),
    /// So many bytes of the answer get through.
    Answer(usize),
}

impl Break {
    fn plan(self) -> Plan {
        let reset = |at| Lane {
            reset_at: Some(at),
            ..Lane::default()
        };
        let (up, down) = match self {
            Break::Request(at, _) => (reset(at), Lane::default()),
            Break::Answer(at) => (Lane::default(), reset(at)),
        };
        Plan { up, down }
    }

    /// Whether the server did what was asked; `None` if that cannot be told.
    fn done(self) -> Option<bool> {
        match self {
            Break::Request(at, all) => (at < all).then_some(false),
            Break::Answer(_) => Some(true),
        }
    }
}

/// Every break of a request and of an answer of these lengths.
fn breaks(request: usize, answer: usize) -> Vec<Break> {
    let requests = (0..=request).map(|at| Break::Request(at, request));
    requests.chain((0..answer).map(Break::Answer)).collect()
}

/// A network whose next connection breaks as it is told to, and a client behind it.
struct Brittle {
    proxy: Proxy,
    next: Arc<Mutex<VecDeque<Plan>>>,
}

impl Brittle {
    async fn new(server: SocketAddr) -> Brittle {
        let next = Arc::new(Mutex::new(VecDeque::new()));
        let plans: Arc<Mutex<VecDeque<Plan>>> = next.clone();
        let plan = move || plans.lock().unwrap().pop_front().expect("a plan");
        let proxy = Proxy::new(server, plan).await;
        Brittle { proxy, next }
    }

    /// Sends a request whose answer gets lost.
    async fn send(&self, at: Break, request: &str) {
        self.next.lock().unwrap().push_back(at.plan());
        let said = Wire::new(self.proxy.address).call(request).await;
        assert!(matches!(said, Said::Unknown), "{at:?}: {said:?}");
    }
}

/// How long the answer to a request is, head and all.
async fn answer_length(server: SocketAddr, request: &str) -> usize {
    let mut stream = TcpStream::connect(server).await.unwrap();
    let closing = request.replacen("host: localhost", "host: localhost\r\nconnection: close", 1);
    stream.write_all(closing.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    bytes.len() - "connection: close\r\n".len()
}

/// Does something for each break, in a few lanes at once.
async fn each<F>(
    server: SocketAddr,
    breaks: Vec<Break>,
    act: impl Fn(usize, Break, Arc<Brittle>) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let mut lanes: Vec<Vec<F>> = (0..LANES).map(|_| Vec::new()).collect();
    let mut networks = Vec::new();
    for _ in 0..LANES {
        networks.push(Arc::new(Brittle::new(server).await));
    }
    for (number, at) in breaks.into_iter().enumerate() {
        let lane = number % LANES;
        lanes[lane].push(act(number, at, networks[lane].clone()));
    }
    let mut running = JoinSet::new();
    for lane in lanes {
        running.spawn(async move {
            for act in lane {
                act.await;
            }
        });
    }
    while running.join_next().await.transpose().unwrap().is_some() {}
}

fn push(key: usize) -> String {
    let header = format!("idempotency-key: key-{key:04}");
    request("POST", "/v1/queues/q/jobs", &[&header], r#"{"payload":1}"#)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_that_breaks_off_at_any_byte_and_is_repeated_makes_one_job() {
    let server = Server::start();
    let address = server.address;
    let length = answer_length(address, &push(9999)).await;
    let breaks = breaks(push(0).len(), length);
    let count = breaks.len();
    each(address, breaks, |number, at, network| async move {
        network.send(at, &push(number)).await;
        let Said::Answer(status, body) = Wire::new(address).call(&push(number)).await else {
            panic!("{at:?}: no answer");
        };
        match at.done() {
            Some(true) => assert_eq!(status, 200, "{at:?}"),
            Some(false) => assert_eq!(status, 201, "{at:?}"),
            None => assert!(matches!(status, 200 | 201), "{at:?}"),
        }
        let body: Value = serde_json::from_slice(&body).unwrap();
        let path = format!("/v1/queues/q/keys/key-{number:04}");
        let (_, job) = ask(address, "GET", &path, "").await;
        assert_eq!(job["id"], body["id"], "{at:?}");
    })
    .await;
    let (_, queue) = ask(address, "GET", "/v1/queues/q", "").await;
    assert_eq!(queue["books"]["accepted"], count + 1, "{queue}");
    server.audit();
    println!("{count} breaks");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_breaks_off_at_any_byte_loses_no_job() {
    let server = Server::start();
    let address = server.address;
    let lease = request("POST", "/v1/lease", &[], r#"{"queues":["q"],"ttr":"1s"}"#);
    ask(address, "POST", "/v1/queues/q/jobs", r#"{"payload":1}"#).await;
    let length = answer_length(address, &lease).await;
    let breaks = breaks(lease.len(), length);
    let count = breaks.len();
    for jobs in (0..count).collect::<Vec<_>>().chunks(500) {
        let jobs: Vec<Value> = jobs.iter().map(|_| json!({ "payload": 1 })).collect();
        let (status, _) = ask(
            address,
            "POST",
            "/v1/queues/q/jobs",
            &Value::from(jobs).to_string(),
        )
        .await;
        assert_eq!(status, 200);
    }
    each(address, breaks, |_, at, network| {
        let lease = lease.clone();
        async move { network.send(at, &lease).await }
    })
    .await;
    // Each of them is handed out again, when its lease is over.
    let mut done = 0;
    while done <= count {
        let ask_for = r#"{"queues":["q"],"max":1000,"wait":"10s","ttr":"60s"}"#;
        let (_, leased) = ask(address, "POST", "/v1/lease", ask_for).await;
        let jobs = leased["jobs"].as_array().unwrap();
        assert!(!jobs.is_empty(), "{done} of {count} jobs came back");
        let ack = |job: &Value| json!({ "token": job["token"], "outcome": "ack" });
        let acks = Value::from(jobs.iter().map(ack).collect::<Vec<_>>());
        let (_, acked) = ask(address, "POST", "/v1/settle", &acks.to_string()).await;
        let acked = acked["results"].as_array().unwrap();
        assert!(acked.iter().all(|one| one["ok"]["state"] == "done"));
        done += jobs.len();
    }
    let (_, queue) = ask(address, "GET", "/v1/queues/q", "").await;
    assert_eq!(queue["books"]["done"], count + 1, "{queue}");
    server.audit();
    println!("{count} breaks");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ack_that_breaks_off_at_any_byte_is_done_once_or_not_at_all() {
    let server = Server::start();
    let address = server.address;
    let ack = |token: &str| {
        let body = format!(r#"{{"token":"{token}","outcome":"ack"}}"#);
        request("POST", "/v1/settle", &[], &body)
    };
    let jobs = Value::from(vec![json!({ "payload": 1 }); 1000]);
    ask(address, "POST", "/v1/queues/q/jobs", &jobs.to_string()).await;
    let all = r#"{"queues":["q"],"max":1000,"ttr":"1h"}"#;
    let (_, leased) = ask(address, "POST", "/v1/lease", all).await;
    let leased = leased["jobs"].as_array().unwrap();
    let token = |number: usize| leased[number]["token"].as_str().unwrap().to_owned();
    let length = answer_length(address, &ack(&token(999))).await;
    // Tokens are not all of one length.
    let longest = leased
        .iter()
        .map(|job| job["token"].as_str().unwrap().len());
    let shortest = longest.clone().min().unwrap();
    let whole = ack(&"x".repeat(shortest)).len();
    let breaks = breaks(whole, length);
    let count = breaks.len();
    assert!(count < 999);
    each(address, breaks, |number, at, network| {
        let request = ack(&token(number));
        async move {
            network.send(at, &request).await;
            let Said::Answer(status, body) = Wire::new(address).call(&request).await else {
                panic!("{at:?}: no answer");
            };
            let body: Value = serde_json::from_slice(&body).unwrap();
            match at.done() {
                Some(true) => assert_eq!((status, &body["code"]), (409, &json!("lease_lost"))),
                Some(false) => assert_eq!((status, &body["state"]), (200, &json!("done"))),
                None => assert!(matches!(status, 200 | 409), "{at:?}"),
            }
        }
    })
    .await;
    let (_, queue) = ask(address, "GET", "/v1/queues/q", "").await;
    assert_eq!(queue["books"]["done"], count + 1, "{queue}");
    server.audit();
    println!("{count} breaks");
}

/// Random numbers from a seed.
fn dice(mut seed: u64) -> impl FnMut(u64) -> u64 {
    move |below| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % below
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_connections_that_break_anywhere_and_stutter_no_call_gets_the_answer_of_another() {
    let server = Server::start();
    let mut dice = dice(0x2545_f491_4f6c_dd1d);
    let plan = move || {
        // A request or two, or many.
        let most = [1_000, 20_000][dice(2) as usize];
        let mut lane = || Lane {
            reset_at: Some(dice(most) as usize),
            bytewise: dice(2) == 0,
            ..Lane::default()
        };
        Plan {
            up: lane(),
            down: lane(),
        }
    };
    let proxy = Proxy::new(server.address, plan).await;
    let mut load = Load::through(proxy.address, server.address);
    load.progress(1500).await;
    let recorder = load.drain().await;
    let least = Least {
        accepted: 300,
        restarts: 0,
    };
    judge(&recorder, &server.client(), least).await;
    server.audit();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_network_is_only_slow() {
    let server = Server::start();
    let mut dice = dice(7);
    let plan = move || {
        let mut lane = || Lane {
            delay: Duration::from_millis(50 + dice(101)),
            ..Lane::default()
        };
        Plan {
            up: lane(),
            down: lane(),
        }
    };
    let proxy = Proxy::new(server.address, plan).await;
    let mut load = Load::through(proxy.address, server.address);
    load.progress(60).await;
    let recorder = load.drain().await;
    let least = Least {
        accepted: 20,
        restarts: 0,
    };
    judge(&recorder, &server.client(), least).await;
}
