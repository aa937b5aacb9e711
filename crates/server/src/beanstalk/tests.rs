//! What is written down of what a connection does.

use std::sync::Arc;

use auxo_core::{Limits, Service};
use auxo_embedded::{Embedded, Options};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::*;
use crate::settings::Settings;
use crate::trail::Trail;

struct Bench {
    app: Arc<App>,
    dir: TempDir,
}

impl Bench {
    fn start() -> Bench {
        let dir = tempfile::tempdir().unwrap();
        let engine = Embedded::open(&dir.path().join("data"), Options::default()).unwrap();
        let service = Service::new(Arc::new(engine), Limits::default());
        let settings = Settings {
            trail: Trail::open(dir.path().join("audit.jsonl")).unwrap(),
            ..Settings::default()
        };
        let app = Arc::new(App::new(Arc::new(service), settings).unwrap());
        Bench { app, dir }
    }

    fn connect(&self, subject: Option<&str>) -> DuplexStream {
        let (client, server) = tokio::io::duplex(1 << 20);
        let peer = Peer {
            name: "192.0.2.1:7".to_owned(),
            from: Some("192.0.2.1".parse().unwrap()),
            subject: subject.map(str::to_owned),
        };
        tokio::spawn(converse(server, peer, self.app.clone()));
        client
    }

    /// The lines that were written since the first so many.
    fn lines(&self, after: usize) -> Vec<Value> {
        let text = std::fs::read_to_string(self.dir.path().join("audit.jsonl")).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        lines.skip(after).collect()
    }
}

/// Sends all of it at once, and reads so many lines.
async fn talk(client: &mut DuplexStream, sent: &str, count: usize) -> Vec<String> {
    client.write_all(sent.as_bytes()).await.unwrap();
    let (mut lines, mut line) = (Vec::new(), Vec::new());
    while lines.len() < count {
        line.push(client.read_u8().await.unwrap());
        if line.ends_with(b"\r\n") {
            let text = String::from_utf8(std::mem::take(&mut line)).unwrap();
            lines.push(text.trim_end().to_owned());
        }
    }
    lines
}

/// The number behind a word.
fn id(line: &str) -> &str {
    line.split(' ').nth(1).unwrap()
}

#[tokio::test]
async fn what_operators_do_is_written_down_and_what_workers_do_is_not() {
    let bench = Bench::start();
    let mut client = bench.connect(Some("CN=ada"));
    let put = "put 0 0 60 1\r\nx\r\n";
    // A worker's day: in, out, back, out, buried, in, out, done.
    let put_line = talk(&mut client, put, 1).await.remove(0);
    let job = id(&put_line).to_owned();
    let day = format!(
        "reserve\r\ntouch {job}\r\nrelease {job} 0 0\r\nreserve\r\nbury {job} 0\r\n{put}reserve\r\n"
    );
    let answers = talk(&mut client, &day, 10).await;
    assert_eq!(answers[5..7], ["x", "BURIED"], "{answers:?}");
    let own = id(&answers[8]).to_owned();
    let done = talk(&mut client, &format!("delete {own}\r\n"), 1).await;
    assert_eq!(done, ["DELETED"]);
    assert_eq!(bench.lines(0), [] as [Value; 0]);
    // Nothing is there to be moved.
    let none = talk(
        &mut client,
        "delete 7\r\nkick-job 7\r\npause-tube none 1\r\n",
        3,
    )
    .await;
    assert_eq!(none, ["NOT_FOUND"; 3]);
    assert_eq!(bench.lines(0), [] as [Value; 0]);

    let late = "put 0 1000 60 1\r\nx\r\n";
    let waits = talk(&mut client, late, 1).await.remove(0);
    let waits = id(&waits).to_owned();
    for (request, answer, what) in [
        ("kick 10".to_owned(), "KICKED 1", "kick"),
        (format!("kick-job {waits}"), "KICKED", "kick"),
        ("pause-tube default 60".to_owned(), "PAUSED", "pause"),
        ("pause-tube default 0".to_owned(), "PAUSED", "resume"),
        (format!("delete {waits}"), "DELETED", "delete"),
    ] {
        let before = bench.lines(0).len();
        let answers = talk(&mut client, &format!("{request}\r\n"), 1).await;
        assert_eq!(answers, [answer], "{request}");
        let lines = bench.lines(before);
        let [asked, ended] = &lines[..] else {
            panic!("{request}: {lines:?}");
        };
        let said = |name: &str| asked[name].as_str().unwrap_or_default().to_owned();
        assert_eq!(said("what"), what, "{asked}");
        assert_eq!(said("via"), "beanstalk");
        assert_eq!(
            (said("who"), said("from")),
            ("CN=ada".into(), "192.0.2.1".into())
        );
        assert_eq!(
            (&ended["outcome"], &ended["moved"]),
            (&"done".into(), &1.into())
        );
        assert_eq!(asked["move"], ended["move"]);
    }
    // Who has no certificate has an address only.
    let mut nobody = bench.connect(None);
    let before = bench.lines(0).len();
    assert_eq!(talk(&mut nobody, "kick 1\r\n", 1).await, ["KICKED 0"]);
    assert_eq!(bench.lines(before)[0]["who"], Value::Null);
    assert_eq!(bench.lines(before)[0]["from"], "192.0.2.1");
}

#[tokio::test]
async fn a_move_that_cannot_be_written_down_is_not_made_and_workers_go_on() {
    let bench = Bench::start();
    let mut client = bench.connect(None);
    let waits = talk(&mut client, "put 0 1000 60 1\r\nx\r\n", 1)
        .await
        .remove(0);
    let waits = id(&waits).to_owned();
    bench.app.trail.fill_up();
    let moves = format!("kick 1\r\nkick-job {waits}\r\npause-tube default 9\r\ndelete {waits}\r\n");
    let refused = talk(&mut client, &moves, 4).await;
    assert_eq!(refused, ["INTERNAL_ERROR"; 4]);
    let there = talk(&mut client, "peek-delayed\r\n", 2).await;
    assert_eq!(there[0], format!("FOUND {waits} 1"));
    let answers = talk(&mut client, "put 0 0 60 1\r\ny\r\nreserve\r\n", 3).await;
    let own = id(&answers[1]).to_owned();
    let done = talk(&mut client, &format!("delete {own}\r\n"), 1).await;
    assert_eq!(done, ["DELETED"]);
}

/// How many jobs are leased.
async fn leased(bench: &Bench) -> u64 {
    let queues = bench.app.service.queues(None).await.unwrap();
    queues.iter().map(|queue| queue.counts.leased).sum()
}

#[tokio::test]
async fn jobs_are_not_reserved_by_the_hundred_for_who_takes_none() {
    let bench = Bench::start();
    let mut client = bench.connect(None);
    let body = "x".repeat(500_000);
    for _ in 0..200 {
        let put = format!("put 0 0 6000 {}\r\n{body}\r\n", body.len());
        talk(&mut client, &put, 1).await;
    }
    let mut deaf = bench.connect(None);
    let row = "reserve-with-timeout 0\r\n".repeat(200);
    deaf.write_all(row.as_bytes()).await.unwrap();
    while leased(&bench).await == 0 {
        tokio::task::yield_now().await;
    }
    // Turns enough for all of them, if nobody minded that the answers are not taken.
    for _ in 0..5000 {
        leased(&bench).await;
    }
    // One answer of the engine has 16 MiB.
    let leased = leased(&bench).await;
    assert!((1..=40).contains(&leased), "{leased}");
}

#[tokio::test]
async fn the_time_of_a_reserved_job_is_counted_here_whatever_the_engines_clock_says() {
    let bench = Bench::start();
    let mut client = bench.connect(None);
    talk(&mut client, "put 0 0 60 1\r\nx\r\n", 1).await;
    let ask = auxo_core::engine::Ask {
        queues: vec![auxo_core::QueueName::new("default").unwrap()],
        job: None,
        max: 1,
        wait: std::time::Duration::ZERO,
        ttr: None,
        pick: Default::default(),
        worker: "w".into(),
    };
    let mut leased = bench.app.service.lease(ask).await.unwrap().remove(0);
    tokio::time::pause();
    // As a server sees it whose clock is years ahead of Redis'.
    leased.deadline = auxo_core::Timestamp(0);
    let (mut held, id) = (held::Held::default(), leased.job.id.0);
    held.insert(&leased);
    let second = std::time::Duration::from_secs(1);
    assert_eq!(held.until_warning(), Some(59 * second));
    tokio::time::advance(59 * second).await;
    assert_eq!(
        (held.until_warning(), held.forget_overdue()),
        (Some(std::time::Duration::ZERO), 0)
    );
    held.prolong(id);
    tokio::time::advance(59 * second).await;
    assert_eq!((held.get(id).is_some(), held.forget_overdue()), (true, 0));
    tokio::time::advance(second).await;
    assert_eq!((held.forget_overdue(), held.until_warning()), (1, None));
    assert!(held.get(id).is_none());
}
