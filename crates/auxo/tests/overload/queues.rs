//! As many queues as there may be.

use std::io::Write;
use std::path::Path;

use auxo::core::engine::{Change, Engine};
use auxo::core::queue::QueueConfig;
use auxo::{Options, QueueName, Sync};
use auxo_embedded::Embedded;
use tempfile::TempDir;

use crate::port::{Guest, Port};
use crate::server::{MB, Server, until};

const MOST: u32 = 100_000;

/// Makes a store with so many queues. The server would need a minute for it in a debug build.
fn fill(data: &Path) {
    let options = Options {
        sync: Sync::Os,
        ..Options::default()
    };
    let engine = Embedded::open(data, options).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(async {
        for i in 0..MOST {
            let name = QueueName::new(&format!("some-queue-or-other-{i}")).unwrap();
            // Without a setting they would make room for new ones.
            let config = QueueConfig {
                max_jobs: Some(1_000_000),
                ..QueueConfig::default()
            };
            let change = Change::Queue(name, config);
            engine.change(change).await.unwrap();
        }
        engine.close().await.unwrap();
    });
}

#[test]
fn a_hundred_thousand_queues_are_the_most_and_cost_little() {
    let empty = Server::start(&[]).memory();
    let dir = TempDir::new().unwrap();
    fill(&dir.path().join("data"));
    let server = Server::on(dir, &[]);
    let mut client = server.client();
    // What reading the files took is given back in some seconds. 660 bytes a queue are left, of which 448 are the queue itself.
    let start = until("they cost little", || {
        assert_eq!(client.get("/healthz").status, 200);
        Some(server.memory()).filter(|memory| memory - empty < 72 * MB)
    });
    println!("{} MB for {MOST} queues", (start - empty) / MB);

    // New names are refused, by whatever call, and cost nothing; known ones go on.
    for i in 0..500 {
        let path = format!("/v1/queues/{}{i}", "n".repeat(190));
        for (method, path) in [("POST", format!("{path}/jobs")), ("PUT", path)] {
            let reply = client.call(method, &path, "{}");
            assert_eq!(reply.status, 413, "{reply:?}");
            assert!(reply.text.contains("100000 queues"), "{reply:?}");
        }
    }
    let reply = client.post("/v1/queues/some-queue-or-other-7/jobs", "{}");
    assert_eq!(reply.status, 201, "{reply:?}");
    refused_on_the_other_ports(&server);
    let grown = server.memory().saturating_sub(start);
    println!("{} MB for 1,000 refusals", grown / MB);
    assert!(grown < 8 * MB);

    // The list of all is large, but only one is made at a time, and none is a tree of values on the way.
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let all = server.client().get("/v1/queues");
                assert_eq!(all.status, 200);
                assert!(all.text.len() > 20_000_000, "{}", all.text.len());
            });
        }
    });
    let peak = server.peak() - start;
    println!("{} MB more while two clients list them all", peak / MB);
    assert!(peak < 160 * MB);
    assert_eq!(client.get("/metrics").status, 200);
    assert_eq!(client.get("/healthz").status, 200);
}

/// New names are refused there, too. Naming a tube makes none, so who goes through a hundred thousand of them costs nothing.
fn refused_on_the_other_ports(server: &Server) {
    let mut resp = Guest::new(server, Port::Resp);
    let mut beanstalk = Guest::new(server, Port::Beanstalk);
    for i in 0..100 {
        let name = format!("{}{i}", "m".repeat(190));
        for command in [format!("ADDJOB {name} x 0"), format!("AUXO.PUSH {name} x")] {
            let refused = resp.ask(&command);
            assert!(refused.contains("100000 queues"), "{refused}");
        }
        assert_eq!(
            beanstalk.ask(&format!("use {name}")),
            format!("USING {name}")
        );
        assert_eq!(beanstalk.ask("put 0 0 60 1\r\nx"), "JOB_TOO_BIG");
    }
    let added = resp.ask("ADDJOB some-queue-or-other-7 x 0");
    assert!(added.starts_with("+D-"), "{added}");
    beanstalk.ask("use some-queue-or-other-7");
    let put = beanstalk.ask("put 0 0 60 1\r\nx");
    assert!(put.starts_with("INSERTED "), "{put}");
    for turn in 0..100 {
        let uses = (0..1000).map(|i| format!("use {}{turn}-{i}\r\n", "u".repeat(190)));
        beanstalk
            .socket()
            .write_all(uses.collect::<String>().as_bytes())
            .unwrap();
        assert!(beanstalk.hears(&format!("{turn}-999\r\n")));
    }
}
