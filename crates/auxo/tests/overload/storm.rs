//! More connections than the process may have file descriptors.

use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::port::{Guest, PORTS};
use crate::server::{OTHERS, Server, until};
use auxo_harness::command::auxo;
use auxo_harness::http::Client;

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
        .args(OTHERS)
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
    // One on each port who was there before.
    let mut guests = PORTS.map(|port| Guest::new(&server, port));
    guests.iter_mut().for_each(Guest::greet);
    let mut storm: Vec<TcpStream> = Vec::new();
    for port in PORTS.into_iter().cycle().take(STORM) {
        // The kernel's own queue may be full as well; then it is full.
        let address = server.at(port);
        if let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_secs(1)) {
            storm.push(stream);
        }
    }
    println!(
        "{} connections against {DESCRIPTORS} descriptors",
        storm.len()
    );
    assert!(storm.len() > 300, "no storm");
    (0..30).for_each(|_| push(&mut worker));
    guests.iter_mut().for_each(Guest::greet);
    assert!(server.segments() > before, "no segment began");

    // While nothing happens nothing is done: who is past the limit waits in the kernel, or is told and gone.
    let (cpu, began) = (server.processor(), Instant::now());
    worker.post("/v1/lease", r#"{"queues":["none"],"wait":"3s"}"#);
    let (used, time) = (server.processor() - cpu, began.elapsed());
    println!("{used:?} of processor time in {time:?}");
    assert!(used < time / 10, "{used:?} in {time:?}");

    drop(storm);
    let healed = Instant::now();
    for port in PORTS {
        until("a new connection is answered", || {
            let next = TcpStream::connect(server.at(port)).ok()?;
            Guest::over(next, port).is_greeted().then_some(())
        });
    }
    println!("healed after {:?}", healed.elapsed());
    assert!(healed.elapsed() < Duration::from_secs(30));
    push(&mut worker);
    guests.iter_mut().for_each(Guest::greet);
    server.assert_well();
}
