//! A panic on the way to an answer costs the connection that asked, and nothing else.

use std::sync::atomic::Ordering::SeqCst;

use super::bench::{Bench, Port};
use super::brittle::misbehaving;

/// Everything that needs the engine for its answer.
const ASKS: [(Port, &[&str]); 2] = [
    (
        Port::Beanstalk,
        &[
            "put 0 0 60 1\r\nx",
            "reserve",
            "reserve-with-timeout 1",
            "reserve-job 1",
            "delete 1",
            "peek 1",
            "peek-ready",
            "peek-delayed",
            "peek-buried",
            "kick 1",
            "kick-job 1",
            "stats-job 1",
            "stats-tube default",
            "stats",
            "list-tubes",
            "pause-tube default 1",
        ],
    ),
    (
        Port::Resp,
        &[
            "ADDJOB q x 0",
            "GETJOB FROM q",
            "GETJOB NOHANG FROM q",
            "ACKJOB 1",
            "FASTACK 1",
            "NACK D-00000000-AAAAAAAAAAEAAAAAAAAAAgAB-0001",
            "WORKING D-00000000-AAAAAAAAAAEAAAAAAAAAAgAB-0001",
            "ENQUEUE 1",
            "DEQUEUE 1",
            "DELJOB 1",
            "SHOW 1",
            "QLEN q",
            "QPEEK q 1",
            "QSTAT q",
            "QSCAN",
            "JSCAN",
            "PAUSE q all",
            "INFO",
            "AUXO.PUSH q x",
            "AUXO.LEASE FROM q",
            "AUXO.SETTLE 7-9-0000000000000abc ack",
            "AUXO.EXTEND 7-9-0000000000000abc",
            "AUXO.EXPLAIN 7",
            "AUXO.JOB 7",
            "AUXO.QUEUES",
            "AUXO.KICK 7",
            "AUXO.CANCEL 7",
        ],
    ),
];

async fn until_asked(bench: &Bench, queue: &str) {
    let name = vec![queue.parse().unwrap()];
    while bench.service.queues(Some(name.clone())).await.unwrap()[0].waiting == 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_ends_one_connection_and_no_other() {
    let (bench, manners) = misbehaving(|_| ()).await;
    let mut setup = bench.connect(Port::Resp);
    let changed = setup.ask("PAUSE work none");
    assert_eq!(changed, "+none");
    // Somebody waits all the while.
    setup.ask("AUXO.PUSH work first");
    let mut waiting = bench.connect(Port::Beanstalk);
    assert_eq!(waiting.ask("watch work"), "WATCHING 2");
    let first = waiting.ask("reserve");
    assert!(first.ends_with(" 5"), "{first}");
    assert_eq!(waiting.reply(), "first");
    waiting.send("reserve\r\n");
    until_asked(&bench, "work").await;

    manners.panics.store(true, SeqCst);
    for (port, asks) in ASKS {
        let mut other = bench.connect(port);
        for ask in asks {
            let mut one = bench.connect(port);
            one.greet();
            one.send(format!("{ask}\r\n"));
            let said = String::from_utf8(one.rest()).unwrap();
            assert_eq!(said, "", "{ask}");
            other.greet();
        }
    }
    manners.panics.store(false, SeqCst);

    let pushed = setup.ask("AUXO.PUSH work second");
    assert!(pushed.starts_with("['how' 'new'"), "{pushed}");
    let second = waiting.reply();
    assert!(second.starts_with("RESERVED "), "{second}");
    assert_eq!(waiting.reply(), "second");
    for (port, _) in ASKS {
        bench.connect(port).greet();
    }
}
