//! Clients that begin something and do not go on with it.

use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use super::bench::{Bench, PORTS, Port};

/// How many there are of each sort.
const EACH: usize = 25;
const PAUSE: Duration = Duration::from_millis(700);

/// What has been sent when a client stops.
fn halves() -> Vec<(Port, String)> {
    let resp = ["P", "\"", "*", "*2\r\n", "*2\r\n$4\r\nECHO\r\n$10\r\nx"];
    let beanstalk = [
        "p",
        // The line is understood, and the body is all that is missing.
        "put 0 0 60 5\r\n",
        "put 0 0 60 5\r\nhel",
        // Passed over, for as long as it comes.
        "put 0 0 60 4294967295\r\n",
        "put 0 0 60 4294967295\r\nhel",
    ];
    let resp = resp.map(|half| (Port::Resp, half.to_owned()));
    let beanstalk = beanstalk.map(|half| (Port::Beanstalk, half.to_owned()));
    let endless = (Port::Beanstalk, "a".repeat(1000));
    resp.into_iter().chain(beanstalk).chain([endless]).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_go_on_is_let_go_on_time_and_who_only_waits_is_not() {
    let bench = Bench::with(|settings| settings.body_time = PAUSE).await;
    let mut idle = PORTS.map(|port| bench.connect(port));
    let mut slow = Vec::new();
    for (port, half) in halves() {
        for _ in 0..EACH {
            let mut caller = bench.connect(port);
            caller.greet();
            let began = Instant::now();
            caller.send(&half);
            slow.push((caller, half.clone(), began));
        }
    }
    let mut workers = PORTS.map(|port| bench.connect(port));
    for (caller, half, began) in &mut slow {
        workers.iter_mut().for_each(|worker| worker.greet());
        let said = caller.rest();
        let after = began.elapsed();
        assert!(after >= PAUSE, "{half:?} was cut off after {after:?}");
        let said = String::from_utf8_lossy(&said);
        assert_eq!(said, "", "{half:?}");
    }
    let all = slow[0].2.elapsed();
    println!("{} slow clients were gone after {all:?}", slow.len());
    assert!(all < PAUSE + Duration::from_secs(10), "{all:?}");
    idle.iter_mut().for_each(|caller| caller.greet());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_that_trickle_do_not_give_a_request_more_time() {
    let bench = Bench::with(|settings| settings.body_time = Duration::from_millis(300)).await;
    let endless = "a".repeat(1000);
    for (port, half) in [
        (Port::Resp, "P"),
        (Port::Resp, "*2\r\n$4\r\nECHO\r\n$1000000\r\n"),
        (Port::Beanstalk, "p"),
        (Port::Beanstalk, "put 0 0 60 1000000\r\n"),
        (Port::Beanstalk, "put 0 0 60 4294967295\r\n"),
        (Port::Beanstalk, &endless),
    ] {
        let mut caller = bench.connect(port);
        caller.greet();
        let began = Instant::now();
        caller.send(half);
        let socket = caller.socket();
        let pace = Some(Duration::from_millis(5));
        socket.set_read_timeout(pace).unwrap();
        let late = |error: &std::io::Error| error.kind() == ErrorKind::WouldBlock;
        while socket.read(&mut [0; 64]).is_err_and(|error| late(&error)) {
            let after = began.elapsed();
            assert!(after < Duration::from_secs(30), "{half:?} goes on");
            // The server may be gone between the two; the next read tells.
            let _ = socket.write_all(b"x");
        }
        println!("{half:.30?} was let go after {:?}", began.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_goes_on_and_on_has_the_whole_time_for_each_request() {
    let time = Duration::from_millis(300);
    let bench = Bench::with(|settings| settings.body_time = time).await;
    for port in PORTS {
        let mut caller = bench.connect(port);
        let (question, answer) = port.greeting();
        let (begin, rest) = question.split_at(2);
        caller.send(begin);
        let began = Instant::now();
        // Wherever the server stops reading, the next request has begun, and it has to wait for the rest.
        while began.elapsed() < 3 * time {
            caller.send(format!("{rest}{begin}"));
            assert_eq!(caller.reply(), answer, "after {:?}", began.elapsed());
            assert!(caller.is_quiet_for(Duration::from_millis(20)), "closed");
        }
    }
}
