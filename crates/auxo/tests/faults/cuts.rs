//! A network that is cut between the clients and the server, and a client that is cut off while it waits.
//!
//! `scripts/prove cuts` does so more often.

use std::time::{Duration, Instant};

use auxo_conformance::rounds;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::load::Load;
use crate::raw::{answer, ask, request};
use crate::server::{PATIENCE, Server};
use crate::tale::{Least, judge};
use auxo_harness::proxy::{Net, Plan, Proxy, Side, Way};

const ROUNDS: u64 = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_network_that_is_cut_leaves_unknown_outcomes_and_the_same_key_again_makes_one_job() {
    let rounds = rounds::or(ROUNDS);
    let server = Server::start();
    let mut proxy = Proxy::new(server.address, Plan::default).await;
    let mut load = Load::through(proxy.address, server.address);
    for round in 0..rounds {
        load.progress(20 + round * 7 % 50).await;
        let first = match round % 5 {
            // A short cut: what was held back arrives after all.
            0 => Net::Whole,
            1 | 2 => Net::Told(Side::Client),
            _ => Net::Told(Side::Server),
        };
        proxy.set(match round % 3 {
            0 => Net::Cut,
            1 => Net::OneWay(Way::Up),
            _ => Net::OneWay(Way::Down),
        });
        proxy.until_held(4).await;
        proxy.set(first);
        proxy.until_free().await;
        proxy.set(Net::Whole);
    }
    load.progress(200).await;
    let recorder = load.drain().await;
    let least = Least {
        accepted: 10 * rounds,
        restarts: 0,
    };
    judge(&recorder, &server.client(), least).await;
    server.audit();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_went_to_a_client_which_is_cut_off_is_back_when_its_lease_is_over() {
    for net in [Net::Cut, Net::OneWay(Way::Down)] {
        let server = Server::start();
        ask(server.address, "PUT", "/v1/queues/q", "{}").await;
        let proxy = Proxy::new(server.address, Plan::default).await;
        let mut cut_off = TcpStream::connect(proxy.address).await.unwrap();
        let poll = r#"{"queues":["q"],"wait":"60s"}"#;
        let poll = request("POST", "/v1/lease", &[], poll);
        cut_off.write_all(poll.as_bytes()).await.unwrap();
        let began = Instant::now();
        while ask(server.address, "GET", "/v1/queues/q", "").await.1["waiting"] != 1 {
            assert!(began.elapsed() < PATIENCE, "the poll does not wait");
        }
        proxy.set(net);
        let pushed = Instant::now();
        let job = r#"{"payload":1,"ttr":"1s"}"#;
        ask(server.address, "POST", "/v1/queues/q/jobs", job).await;
        let again = r#"{"queues":["q"],"wait":"30s"}"#;
        let (_, leased) = ask(server.address, "POST", "/v1/lease", again).await;
        let took = pushed.elapsed();
        assert_eq!(leased["jobs"][0]["attempt"], 2, "{leased}");
        assert!(took < Duration::from_secs(5), "{took:?}");
        // What arrives in the end is an answer that is too old.
        proxy.set(Net::Whole);
        let (status, body) = answer(&mut cut_off).await.expect("the answer of old");
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(status, 200);
        let ack = json!({ "token": body["jobs"][0]["token"], "outcome": "ack" }).to_string();
        let (status, refused) = ask(server.address, "POST", "/v1/settle", &ack).await;
        assert_eq!((status, &refused["code"]), (409, &json!("lease_lost")));
    }
}
