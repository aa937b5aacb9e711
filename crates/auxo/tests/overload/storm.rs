//! More connections than the process may have file descriptors.

use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::client::Client;
use crate::command::auxo;
use crate::server::{Server, until};

const DESCRIPTORS: &str = "256";
const STORM: usize = 1000;

/// A server that may open few files, and syncs every push.
fn confined() -> Server {
    let serve = auxo();
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -n \"$0\" && exec \"$@\"", DESCRIPTORS])
        .arg(serve.get_program())
        .args(["serve", "--http", "127.0.0.1:0", "--sync", "always"])
        .stderr(std::process::Stdio::piped());
    Server::spawn(command, tempfile::TempDir::new().unwrap())
}

#[test]
fn a_storm_of_connections_takes_no_descriptor_from_the_store() {
    let server = confined();
    let mut worker = server.client();
    // Two thirds of a segment: the storm will see the next one begin.
    let payload = format!(r#"{{"payload":"{}"}}"#, "x".repeat(1 << 20).split_off(100));
    let push = |worker: &mut Client| {
        let reply = worker.post("/v1/queues/q/jobs", &payload);
        assert_eq!(reply.status, 201, "{reply:?}");
    };
    (0..50).for_each(|_| push(&mut worker));
    let before = server.segments();
    let mut storm: Vec<TcpStream> = Vec::new();
    for _ in 0..STORM {
        // The kernel's own queue may be full as well; then it is full.
        if let Ok(stream) = TcpStream::connect_timeout(&server.address, Duration::from_secs(1)) {
            storm.push(stream);
        }
    }
    println!(
        "{} connections against {DESCRIPTORS} descriptors",
        storm.len()
    );
    assert!(storm.len() > 300, "no storm");
    (0..30).for_each(|_| push(&mut worker));
    assert!(server.segments() > before, "no segment began");

    // While nothing happens nothing is done: who is past the limit waits in the kernel, or is told and gone.
    let (cpu, began) = (server.processor(), Instant::now());
    worker.post("/v1/lease", r#"{"queues":["none"],"wait":"3s"}"#);
    let (used, time) = (server.processor() - cpu, began.elapsed());
    println!("{used:?} of processor time in {time:?}");
    assert!(used < time / 10, "{used:?} in {time:?}");

    drop(storm);
    let healed = Instant::now();
    until("a new connection is answered", || {
        let mut next = TcpStream::connect(server.address).map(Client::over).ok()?;
        next.try_get("/healthz").filter(|reply| reply.status == 200)
    });
    println!("healed after {:?}", healed.elapsed());
    assert!(healed.elapsed() < Duration::from_secs(30));
    push(&mut worker);
    server.assert_well();
}
