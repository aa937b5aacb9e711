//! The stream of events.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::bench::{Bench, read_head, within};

/// Someone who watches, over a raw connection.
pub struct Watcher {
    stream: TcpStream,
    text: String,
}

impl Watcher {
    pub async fn new(bench: &Bench, query: &str, headers: &str) -> Watcher {
        let mut stream = bench.connect().await;
        let request = format!("GET /v1/events{query} HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let head = within(read_head(&mut stream)).await;
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert!(head.contains("content-type: text/event-stream"), "{head}");
        Watcher {
            stream,
            text: String::new(),
        }
    }

    /// The next event as (id, name, data).
    pub async fn next(&mut self) -> (String, String, serde_json::Value) {
        within(async {
            loop {
                if let Some((event, rest)) = self.text.split_once("\n\n") {
                    let field = |name: &str| {
                        let mut lines = event.lines();
                        let found =
                            lines.find_map(|line| line.split_once(name).map(|(_, v)| v.trim()));
                        found.unwrap_or_default().to_owned()
                    };
                    let told = (field("id:"), field("event:"), field("data:"));
                    self.text = rest.to_owned();
                    if !told.2.is_empty() {
                        return (told.0, told.1, serde_json::from_str(&told.2).unwrap());
                    }
                    continue;
                }
                let mut bytes = [0; 4096];
                let n = self.stream.read(&mut bytes).await.unwrap();
                assert!(n > 0, "the stream ended");
                self.text += std::str::from_utf8(&bytes[..n]).unwrap();
            }
        })
        .await
    }
}

#[tokio::test]
async fn what_happens_is_told_as_it_happens() {
    let bench = Bench::start().await;
    let mut all = Watcher::new(&bench, "", "").await;
    let mut mail = Watcher::new(&bench, "?queue=mail", "").await;
    bench.push("other", "{}").await;
    let id = bench.push("mail", "{}").await;
    assert_eq!(all.next().await.1, "push");
    let (event_id, name, data) = mail.next().await;
    assert_eq!(
        (name.as_str(), &data["id"]),
        ("push", &serde_json::json!(id))
    );
    assert_eq!(data["queue"], "mail");
    assert!(
        event_id.ends_with(&format!("-{}", data["sequence"])),
        "{event_id}"
    );
    assert_eq!(all.next().await.2["id"], data["id"]);
}

#[tokio::test]
async fn the_events_of_one_queue_do_not_count_those_of_others() {
    let bench = Bench::start().await;
    let mut mail = Watcher::new(&bench, "?queue=mail", "").await;
    let mut last = String::new();
    for sequence in 1..4 {
        for _ in 0..10 {
            bench.push("other", "{}").await;
        }
        bench.push("mail", "{}").await;
        let (id, name, data) = mail.next().await;
        assert_eq!(
            (name.as_str(), &data["sequence"]),
            ("push", &sequence.into())
        );
        assert!(id.ends_with(&format!("-{sequence}")), "{id}");
        last = id;
    }
    drop(mail);
    // It goes on where it was, and has missed nothing.
    bench.push("other", "{}").await;
    bench.push("mail", "{}").await;
    let header = format!("last-event-id: {last}\r\n");
    let mut again = Watcher::new(&bench, "?queue=mail", &header).await;
    let (_, name, data) = again.next().await;
    assert_eq!((name.as_str(), &data["sequence"]), ("push", &4.into()));
    // The place in one stream is none in another.
    let mut all = Watcher::new(&bench, "", &header).await;
    assert_eq!(all.next().await.2["restarted"], true);
}

#[tokio::test]
async fn a_watcher_that_comes_back_goes_on_where_it_was() {
    let bench = Bench::start().await;
    let mut first = Watcher::new(&bench, "", "").await;
    bench.push("q", "{}").await;
    let (last, ..) = first.next().await;
    drop(first);
    let missed: Vec<String> = vec![bench.push("q", "{}").await, bench.push("q", "{}").await];
    let header = format!("last-event-id: {last}\r\n");
    let mut again = Watcher::new(&bench, "", &header).await;
    for id in missed {
        assert_eq!(again.next().await.2["id"], id.as_str());
    }
}

#[tokio::test]
async fn what_cannot_be_told_any_more_is_counted() {
    let bench = Bench::start().await;
    // Nobody watches yet, so these are not kept.
    bench.push("q", "{}").await;
    bench.push("q", "{}").await;
    let mut watcher = Watcher::new(&bench, "", "").await;
    bench.push("q", "{}").await;
    let (id, ..) = watcher.next().await;
    let (run, sequence) = id.rsplit_once('-').unwrap();
    assert_eq!(sequence, "3");
    let header = format!("last-event-id: {run}-1\r\n");
    let mut late = Watcher::new(&bench, "", &header).await;
    let (id, name, data) = late.next().await;
    assert_eq!((name.as_str(), &data["missed"]), ("missed", &1.into()));
    assert_eq!(id, format!("{run}-2"));
    assert_eq!(late.next().await.1, "push");

    let mut other = Watcher::new(&bench, "", "last-event-id: 00000000-9\r\n").await;
    let (_, name, data) = other.next().await;
    assert_eq!(name, "missed");
    assert_eq!(data, serde_json::json!({"missed": 2, "restarted": true}));
    assert_eq!(other.next().await.2["sequence"], 3);
}

#[tokio::test]
async fn a_watcher_that_never_reads_holds_nobody_up_and_learns_what_it_missed() {
    let bench = Bench::start().await;
    let mut deaf = Watcher::new(&bench, "", "").await;
    let mut batch = "{},".repeat(1000);
    batch.pop();
    let batch = format!("[{batch}]");
    for _ in 0..60 {
        let reply = bench.call("POST", "/v1/queues/q/jobs", batch.clone()).await;
        assert_eq!(reply.status, 200);
    }
    // It starts to read: in order, and every hole is told.
    let (mut seen, mut holes) = (0, 0);
    while seen < 60_000 {
        let (_, name, data) = deaf.next().await;
        if name == "missed" {
            seen += data["missed"].as_u64().unwrap();
            holes += 1;
        } else {
            seen += 1;
            assert_eq!(data["sequence"], seen);
        }
    }
    assert_eq!(seen, 60_000);
    assert!(holes > 0, "the buffers held all of it; push more");
}

#[tokio::test]
async fn wrong_wishes_are_400() {
    let bench = Bench::start().await;
    for path in [
        "/v1/events?queue=-",
        "/v1/events?colour=red",
        "/v1/events?queue=a&queue=b",
    ] {
        bench.get(path).await.problem(400, "bad_request");
    }
    for id in ["", "x", "x-y", "7"] {
        let header = format!("last-event-id: {id}");
        let reply = bench.call_with("GET", "/v1/events", &[&header], "").await;
        reply.problem(400, "bad_request");
    }
}
