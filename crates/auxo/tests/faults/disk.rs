//! Disks that fail and disks that are full, as clients see them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use auxo::Options;
use auxo::core::{ManualClock, Service};
use auxo_embedded::Embedded;
use auxo_embedded::disk::SimDisk;
use auxo_embedded::disk::sim::Op;
use serde_json::{Value, json};

use crate::raw::{ask, text};
use crate::server::PATIENCE;

/// A server in this process over a disk in memory, with the smallest segments there are.
fn served(disk: &SimDisk, clock: &Arc<ManualClock>) -> SocketAddr {
    let options = Options {
        segment_size: 64 << 10,
        clock: Some(clock.clone()),
        ..Options::default()
    };
    let engine = Arc::new(Embedded::on(Arc::new(disk.clone()), options).unwrap());
    let service = Service::with_clock(engine, Default::default(), clock.clone());
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = auxo_server::Server::listen(any).unwrap();
    let settings = auxo_server::Settings::default();
    let server = auxo_server::Server::new(listener, Arc::new(service), settings).unwrap();
    let address = server.address().unwrap();
    tokio::spawn(server.run(std::future::pending()));
    address
}

fn clock() -> Arc<ManualClock> {
    ManualClock::at(1_700_000_000_000)
}

async fn push(server: SocketAddr) -> (u16, Value) {
    let body = json!({ "payload": "x".repeat(1000) }).to_string();
    ask(server, "POST", "/v1/queues/q/jobs", &body).await
}

/// After the first push that fails, the probes must be red soon, and no call is answered well any more.
async fn turns_red(server: SocketAddr) {
    let failed = loop {
        let before = Instant::now();
        let (status, answer) = push(server).await;
        if status != 201 {
            assert!(matches!(status, 503 | 504), "{status}: {answer}");
            break before;
        }
    };
    for probe in ["/healthz", "/readyz"] {
        let (status, answer) = ask(server, "GET", probe, "").await;
        assert_eq!((status, &answer["code"]), (503, &json!("unavailable")));
    }
    assert!(failed.elapsed() < Duration::from_secs(10));
    for _ in 0..3 {
        let (status, answer) = push(server).await;
        assert_eq!((status, &answer["code"]), (503, &json!("unavailable")));
    }
    let (status, answer) = ask(server, "POST", "/v1/lease", r#"{"queues":["q"]}"#).await;
    assert_eq!(status, 503, "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_error_of_the_disk_turns_the_probes_red_within_a_second() {
    for op in [Op::Write, Op::Sync] {
        let disk = SimDisk::new();
        let server = served(&disk, &clock());
        for probe in ["/healthz", "/readyz"] {
            assert_eq!(ask(server, "GET", probe, "").await.0, 200);
        }
        assert_eq!(push(server).await.0, 201);
        disk.fail(op, 3, io::ErrorKind::Other);
        turns_red(server).await;
    }
}

/// A limit on the size of files is the one error of a real disk that needs no rights and no special disk.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_whose_disk_fails_says_so_and_keeps_what_it_had_answered() {
    use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

    let mut server = crate::server::Server::start();
    let mut ids = Vec::new();
    for _ in 0..20 {
        let (status, pushed) = push(server.address).await;
        assert_eq!(status, 201, "{pushed}");
        ids.push(pushed["id"].clone());
    }
    let pid = Pid::from_raw(server.id().try_into().unwrap());
    let none = Rlimit {
        current: Some(1),
        ..getrlimit(Resource::Fsize)
    };
    prlimit(pid, Resource::Fsize, none).unwrap();
    turns_red(server.address).await;
    server.signal("TERM");
    let ran = server.ended();
    assert_ne!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("File too large"), "{ran:?}");
    server.again();
    server.audit();
    for id in ids {
        let path = format!("/v1/jobs/{}", id.as_str().unwrap());
        let (status, job) = ask(server.address, "GET", &path, "").await;
        assert_eq!((status, &job["state"]), (200, &json!("ready")));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_full_disk_pushes_are_refused_in_words_and_everything_else_goes_on() {
    let (disk, clock) = (SimDisk::new(), clock());
    disk.set_capacity(Some(1 << 20));
    let server = served(&disk, &clock);
    let mut pushed = 0;
    let refused = loop {
        match push(server).await {
            (201, _) => pushed += 1,
            (status, refused) => {
                assert_eq!(status, 429, "{refused}");
                break refused;
            }
        }
    };
    assert!(pushed > 400, "{pushed}");
    assert_eq!(refused["code"], "queue_full");
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("disk is full"), "{message}");
    // A full disk is not a broken one, and what it refuses is named.
    let degraded = json!({ "status": "degraded", "refused": ["pushes"] });
    for probe in ["/healthz", "/readyz"] {
        assert_eq!(ask(server, "GET", probe, "").await, (200, degraded.clone()));
    }
    let metric = r#"auxo_degraded{part="pushes"} 1"#;
    assert!(text(server, "/metrics").await.contains(metric));
    // Half of the jobs, so that the disk stays full enough.
    let half = pushed / 2;
    for number in 0..half {
        let (_, leased) = ask(server, "POST", "/v1/lease", r#"{"queues":["q"]}"#).await;
        let token = &leased["jobs"][0]["token"];
        let outcome = ["ack", "release", "fail", "bury"][number % 4];
        let settle = json!({ "token": token, "outcome": outcome }).to_string();
        let (status, settled) = ask(server, "POST", "/v1/settle", &settle).await;
        assert_eq!(status, 200, "{outcome}: {settled}");
    }
    // Space that comes back is found without a restart.
    disk.set_capacity(None);
    clock.advance(Duration::from_secs(5));
    let began = Instant::now();
    while push(server).await.0 != 201 {
        assert!(began.elapsed() < PATIENCE, "it does not heal");
        clock.advance(Duration::from_secs(1));
    }
    let (_, audit) = ask(server, "POST", "/v1/audit", "").await;
    assert_eq!(audit["problems"], json!([]), "{audit}");
}

/// Fills the disk that a directory is on to its last byte.
#[cfg(target_os = "linux")]
fn fill(directory: &std::path::Path) {
    use std::io::Write;

    let mut file = std::fs::File::create(directory.join("filler")).unwrap();
    for step in [1 << 20, 4096, 1] {
        let bytes = vec![b'x'; step];
        while file.write(&bytes).is_ok_and(|written| written > 0) {}
    }
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_disk_full_to_its_last_byte_operators_can_free_space() {
    // Two segments, and a little.
    let mut server = crate::server::Server::on_small_disk(160);
    let mut ids = Vec::new();
    for _ in 0..10 {
        let (status, pushed) = push(server.address).await;
        assert_eq!(status, 201, "{pushed}");
        ids.push(pushed["id"].as_str().unwrap().to_owned());
    }
    fill(&server.directory());
    let mut calls = vec![
        ("DELETE", format!("/v1/jobs/{}", ids[0]), ""),
        ("POST", "/v1/queues/q/pause".into(), ""),
        ("POST", "/v1/queues/q/resume".into(), ""),
        ("POST", format!("/v1/jobs/{}/cancel", ids[1]), ""),
    ];
    // Many of them.
    for _ in 0..200 {
        calls.push(("POST", "/v1/queues/q/pause".into(), ""));
    }
    calls.push(("POST", "/v1/queues/q/purge".into(), "{}"));
    for (method, path, body) in &calls {
        let (status, answer) = ask(server.address, method, path, body).await;
        assert_eq!(status, 200, "{method} {path}: {answer}");
    }
    let (_, counted) = ask(server.address, "GET", "/v1/queues/q", "").await;
    assert_eq!(counted["counts"]["ready"], 0, "{counted}");
    let text = std::fs::read_to_string(server.directory().join("audit.jsonl")).unwrap();
    assert_eq!(text.lines().count(), 2 * calls.len());
    // A server that has ended takes its disk with it.
    server.kill();
}
