//! Clients that send all they have to say, close their side, and read the answers.

use std::net::Shutdown;
use std::sync::atomic::Ordering::SeqCst;

use super::bench::{Bench, Port};
use super::brittle::misbehaving;

/// Sends requests, closes the sending side, and reads all that comes.
fn converse(bench: &Bench, port: Port, requests: &str) -> String {
    let mut caller = bench.connect(port);
    caller.send(requests);
    caller.socket().shutdown(Shutdown::Write).unwrap();
    String::from_utf8(caller.rest()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_call_gets_what_the_store_has_now() {
    let (bench, manners) = misbehaving(|_| ()).await;
    // As with a store that is asked over a network: the call still waits for its first answer when the end of the requests is read.
    manners.lends_only_at_once.store(true, SeqCst);
    for (port, requests, answers) in [
        (
            Port::Beanstalk,
            "put 0 0 60 1\r\nx\r\nreserve\r\n",
            "RESERVED ",
        ),
        (
            Port::Beanstalk,
            "put 0 0 60 1\r\nx\r\nreserve-with-timeout 5\r\n",
            "RESERVED ",
        ),
        (Port::Resp, "ADDJOB q x 0\r\nGETJOB FROM q\r\n", "*1\r\n*3"),
        (
            Port::Resp,
            "ADDJOB q x 0\r\nGETJOB TIMEOUT 5000 FROM q\r\n",
            "*1\r\n*3",
        ),
        (
            Port::Resp,
            "AUXO.PUSH q x\r\nAUXO.LEASE WAIT 5s FROM q\r\n",
            "*1\r\n",
        ),
    ] {
        let said = converse(&bench, port, requests);
        let (_, leased) = said.split_once("\r\n").unwrap();
        assert!(leased.contains(answers), "{requests:?}: {said:?}");
    }
    for (port, requests, answer) in [
        (
            Port::Beanstalk,
            "watch empty\r\nignore default\r\nreserve\r\n",
            "WATCHING 2\r\nWATCHING 1\r\nTIMED_OUT\r\n",
        ),
        (Port::Resp, "GETJOB FROM empty\r\n", "*-1\r\n"),
        (Port::Resp, "AUXO.LEASE WAIT 5s FROM empty\r\n", "*0\r\n"),
    ] {
        assert_eq!(converse(&bench, port, requests), answer, "{requests:?}");
    }
}
