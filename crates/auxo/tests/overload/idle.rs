//! Ten thousand connections that do nothing, and connections that come and go.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::port::{Guest, Port};
use crate::server::{KB, MB, Server, until};
use auxo_harness::http::Client;

/// Lets this process have a socket for each of the crowd, and says how large it may be: 10,000 unless the system allows less.
fn crowd() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    setrlimit(Resource::Nofile, raised).unwrap();
    // The server has the same limit, and leaves a part of it to its files.
    limit.maximum.map_or(10_000, |most| (most / 2).min(10_000))
}

/// Pushes a second, from one client that waits for each answer.
fn rate(client: &mut Client) -> f64 {
    let began = Instant::now();
    for _ in 0..500 {
        let reply = client.post("/v1/queues/q/jobs", "{}");
        assert_eq!(reply.status, 201, "{reply:?}");
    }
    500.0 / began.elapsed().as_secs_f64()
}

#[test]
fn ten_thousand_idle_connections_cost_little_and_disturb_nobody() {
    crowd_on(Port::Http);
}

#[test]
fn ten_thousand_idle_connections_on_disques_port_cost_little_and_disturb_nobody() {
    crowd_on(Port::Resp);
}

#[test]
fn ten_thousand_idle_connections_on_beanstalkds_port_cost_little_and_disturb_nobody() {
    crowd_on(Port::Beanstalk);
}

fn crowd_on(port: Port) {
    let crowd = crowd();
    let server = Server::start(&["--connections", "11000"]);
    let mut worker = server.client();
    rate(&mut worker);
    let alone = rate(&mut worker);
    let (start, files) = (server.memory(), server.descriptors());

    // Each has had an answer: a connection that never asked for anything costs a tenth of that.
    let mut idle: Vec<Guest> = (0..crowd).map(|_| Guest::new(&server, port)).collect();
    idle.iter_mut().for_each(Guest::greet);
    let cost = (server.memory() - start) / crowd;
    println!("{crowd} connections, {cost} bytes each");
    assert!(cost <= 32 * KB);
    let among = rate(&mut worker);
    println!("{alone:.0} pushes a second alone, {among:.0} among them");
    let (cpu, began) = (server.processor(), Instant::now());
    worker.post("/v1/lease", r#"{"queues":["none"],"wait":"3s"}"#);
    let (used, time) = (server.processor() - cpu, began.elapsed());
    println!("{used:?} of processor time in {time:?} of silence");
    assert!(used <= time / 50);
    // Nobody was sent away meanwhile.
    idle.iter_mut().step_by(1000).for_each(Guest::greet);

    drop(idle);
    until("their descriptors are free", || {
        (server.descriptors() <= files).then_some(())
    });
    let peak = server.peak();
    let began = Instant::now();
    let after = until("their memory is given back", || {
        assert_eq!(server.client().get("/healthz").status, 200);
        Some(server.memory()).filter(|memory| *memory < start + 32 * MB)
    });
    println!(
        "{} MB before, {} MB at most, {} MB after {:?}",
        start / MB,
        peak / MB,
        after / MB,
        began.elapsed()
    );
    assert!(server.peak() < 320 * MB);
    until("the last are gone", || {
        (server.descriptors() <= files).then_some(())
    });
    server.assert_well();
}

#[test]
fn connections_that_come_and_go_disturb_nobody() {
    let server = Server::start(&[]);
    let mut worker = server.client();
    rate(&mut worker);
    let alone = rate(&mut worker);
    let start = server.memory();
    let enough = AtomicBool::new(false);
    let churn = std::thread::scope(|scope| {
        let churn = scope.spawn(|| {
            let mut count = 0;
            // Half of them say nothing at all.
            while !enough.load(Relaxed) {
                let mut client = server.client();
                if count % 2 == 0 {
                    assert_eq!(client.get("/healthz").status, 200);
                }
                count += 1;
            }
            count
        });
        let among = rate(&mut worker);
        println!("{alone:.0} pushes a second alone, {among:.0} among connections that come and go");
        enough.store(true, Relaxed);
        churn.join().unwrap()
    });
    let grown = server.memory().saturating_sub(start);
    println!("{churn} came and went: {grown} bytes more");
    assert!(churn > 100, "{churn}");
    assert!(grown < 8 * MB);
    server.assert_well();
}
