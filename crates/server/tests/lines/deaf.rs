//! Clients that ask and do not listen.

use std::io::Write;
use std::time::{Duration, Instant};

use super::bench::{Bench, Caller, PATIENCE, PORTS, Port};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_take_answers_is_closed_and_the_others_go_on() {
    let bench = Bench::with(|settings| settings.stall_time = Duration::from_millis(300)).await;
    for port in PORTS {
        let mut worker = bench.connect(port);
        let mut deaf = bench.connect(port);
        let (question, _) = port.greeting();
        let many = question.repeat(1000);
        let mut sent = 0;
        // What ends it is the server, long before the patience of the socket.
        while deaf.socket().write_all(many.as_bytes()).is_ok() {
            sent += many.len();
            assert!(sent < 256 << 20, "it takes requests without end");
            worker.greet();
        }
        worker.greet();
        // The client may hear of it before the server has forgotten it.
        let began = Instant::now();
        while open(port, &mut worker) > 1 {
            assert!(began.elapsed() < PATIENCE, "{port:?}: it is still there");
        }
    }
}

/// How many connections the server has there.
fn open(port: Port, worker: &mut Caller) -> usize {
    let (text, name) = match port {
        Port::Resp => (worker.ask("INFO clients"), "connected_clients:"),
        Port::Beanstalk => {
            let length = worker.ask("stats");
            let length: usize = length.strip_prefix("OK ").unwrap().parse().unwrap();
            let mut text = String::new();
            while text.len() < length {
                text += &format!("{}\n", worker.line());
            }
            assert_eq!(worker.line(), "");
            (text, "current-connections: ")
        }
    };
    let (_, count) = text.split_once(name).unwrap();
    count.lines().next().unwrap().trim().parse().unwrap()
}
