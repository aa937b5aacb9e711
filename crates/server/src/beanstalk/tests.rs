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
