//! A Redis cluster that has lost a node, as the clients of a server see it.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::raw::{ask, text};
use crate::server::Server;
use auxo_harness::command::{Ran, auxo, finish};
use auxo_harness::redis::ClusterSet;

/// A node that comes back has what it had.
const KEEPS: &[&str] = &["--appendonly", "yes", "--appendfsync", "always"];
/// Enough for some to be on each node.
const QUEUES: usize = 40;

async fn push(server: SocketAddr, queue: &str) -> u16 {
    let path = format!("/v1/queues/{queue}/jobs");
    ask(server, "POST", &path, "{}").await.0
}

/// Asks for the queues on the command line.
fn queues(url: &str) -> Ran {
    let mut command = auxo();
    command.args(["queues", "--json"]).env("AUXO_SERVER", url);
    finish(command, b"")
}

/// What a probe says, of a server that is degraded.
async fn refused(server: SocketAddr) -> Value {
    for probe in ["/healthz", "/readyz"] {
        let (status, standing) = ask(server, "GET", probe, "").await;
        assert_eq!(status, 200, "{standing}");
        assert_eq!(standing["status"], "degraded", "{standing}");
    }
    ask(server, "GET", "/readyz", "").await.1["refused"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_serves_what_lives_and_says_what_is_missing() {
    let (mut cluster, mut server) = tokio::task::block_in_place(|| {
        let cluster = ClusterSet::start_with(3, KEEPS);
        let url = cluster.url("?durability=none&timeout=1s");
        (cluster, Server::on(&url))
    });
    for n in 0..QUEUES {
        assert_eq!(push(server.address, &format!("q{n}")).await, 201);
    }
    let all = ask(server.address, "GET", "/v1/queues", "").await.1;
    assert_eq!(all["queues"].as_array().unwrap().len(), QUEUES);
    assert_eq!(all.get("unavailable"), None);
    cluster.servers[2].kill();
    tokio::task::block_in_place(|| server.says("degraded: shard"));

    // Another server starts meanwhile.
    let url = cluster.url("?durability=none&timeout=1s");
    let new = tokio::task::block_in_place(|| Server::on(&url));
    for server in [server.address, new.address] {
        let missing = refused(server).await;
        assert!(missing[0].as_str().unwrap().starts_with("shard "));
        let metrics = text(server, "/metrics").await;
        let metric = format!("auxo_degraded{{part={}}} 1", missing[0]);
        assert!(metrics.contains(&metric), "{metrics}");
        let (status, list) = ask(server, "GET", "/v1/queues", "").await;
        assert_eq!(status, 200, "{list}");
        assert!(list["unavailable"][0]["why"].is_string(), "{list}");
        let shown = list["queues"].as_array().unwrap();
        assert!((1..QUEUES).contains(&shown.len()), "{list}");
        for queue in shown {
            assert_eq!(push(server, queue["name"].as_str().unwrap()).await, 201);
        }
        for scheme in ["http", "grpc"] {
            let url = format!("{scheme}://{server}");
            let ran = tokio::task::block_in_place(|| queues(&url));
            assert_eq!(ran.code, 1, "{ran:?}");
            assert_eq!(ran.out.lines().count(), shown.len(), "{ran:?}");
            assert!(
                ran.err.contains("not shown: the queues of shard "),
                "{ran:?}"
            );
        }
    }
    tokio::task::block_in_place(|| {
        cluster.servers[2].restart();
        server.says("served again");
    });
    let well = json!({ "status": "ok" });
    while ask(server.address, "GET", "/readyz", "").await.1 != well {}
    let all = ask(server.address, "GET", "/v1/queues", "").await.1;
    assert_eq!(all["queues"].as_array().unwrap().len(), QUEUES);
}
