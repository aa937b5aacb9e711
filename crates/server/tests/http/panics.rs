//! A panic on the way to an answer costs that answer and nothing else.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use auxo_core::engine::{
    Ask, Audit, Catalog, Change, Engine, Extend, Extended, Message, Order, Page, Pushed, Query,
    Settle, Settled, Steered, Which,
};
use auxo_core::event::Notice;
use auxo_core::job::{Job, Leased, NewJob};
use auxo_core::passage::{Adopted, Adoption, Departure, Leaving, Passages};
use auxo_core::queue::QueueInfo;
use auxo_core::{QueueName, Result};
use auxo_embedded::Embedded;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::broadcast;

use super::bench::{Bench, Reply, read_reply};
use super::events::Watcher;
use super::work::waiting;

/// An engine that panics in every call while it is told to.
struct Brittle {
    engine: Embedded,
    broken: Arc<AtomicBool>,
}

impl Brittle {
    fn hold(&self) {
        assert!(!self.broken.load(SeqCst), "a secret of the engine");
    }
}

/// Writes out what `async_trait` makes of the calls of [`Engine`].
macro_rules! calls {
    ($($name:ident($($arg:ident: $kind:ty),*) -> $answer:ty;)*) => {$(
        fn $name<'s, 'a>(
            &'s self,
            $($arg: $kind),*
        ) -> Pin<Box<dyn Future<Output = Result<$answer>> + Send + 'a>>
        where
            's: 'a,
            Self: 'a,
        {
            Box::pin(async move {
                self.hold();
                self.engine.$name($($arg),*).await
            })
        }
    )*};
}

impl Engine for Brittle {
    calls! {
        push(jobs: Vec<NewJob>) -> Vec<Result<Pushed>>;
        lease(ask: Ask) -> Vec<Leased>;
        settle(items: Vec<Settle>) -> Vec<Result<Settled>>;
        extend(items: Vec<Extend>) -> Vec<Result<Extended>>;
        find(which: Which) -> Option<Job>;
        list(query: Query) -> Page;
        steer(order: Order) -> Steered;
        queues(names: Option<Vec<QueueName>>) -> Vec<QueueInfo>;
        change(change: Change) -> ();
        catalog() -> Catalog;
        publish(message: Message) -> Vec<Pushed>;
        passages(departure: Departure) -> Passages;
        depart(queue: QueueName, jobs: Vec<Leaving>) -> Vec<Result<()>>;
        adopt(adoption: Adoption) -> Adopted;
        audit() -> Audit;
        close() -> ();
    }

    fn watch(&self) -> broadcast::Receiver<Notice> {
        self.hold();
        self.engine.watch()
    }

    fn health(&self) -> Result<()> {
        self.hold();
        self.engine.health()
    }

    fn repaired(&self) -> u64 {
        7
    }
}

/// A server over a brittle engine, and what breaks it.
async fn brittle() -> (Bench, Arc<AtomicBool>) {
    let broken = Arc::new(AtomicBool::new(false));
    let flag = broken.clone();
    let wrap = |engine| Arc::new(Brittle { engine, broken }) as Arc<dyn Engine>;
    (Bench::around(wrap, |_| ()).await, flag)
}

/// Answers that come from the server alone.
const WITHOUT_ENGINE: [&str; 3] = ["/docs", "/openapi.json", "/v1/nodes"];

/// A body with which a call gets as far as the engine.
fn body(method: &str, path: &str) -> &'static str {
    const TOKEN: &str = r#"{"token":"7-1-0000000000000001","outcome":"ack"}"#;
    match (method, path) {
        (_, "/v1/lease") => r#"{"queues":["q"]}"#,
        (_, "/v1/settle") => TOKEN,
        (_, "/v1/extend") => r#"{"token":"7-1-0000000000000001"}"#,
        (_, "/v1/jobs:bulk") => r#"{"action":"kick","filter":{}}"#,
        (_, "/v1/jobs/{id}/reschedule") => r#"{"delay":"1s"}"#,
        (_, "/v1/queues/{queue}/depart") => r#"{"jobs":[{"id":"7"}]}"#,
        (_, "/v1/queues/{queue}/adopt") => r#"{"store":"s","run":"1","step":"begin"}"#,
        ("PUT", "/v1/queues/{queue}") => "{}",
        ("PUT", "/v1/schedules/{name}") => r#"{"queue":"q","every":"1h"}"#,
        ("PUT", _) => r#"{"queue":"q"}"#,
        ("POST", "/v1/queues/{queue}/jobs" | "/v1/topics/{topic}/messages") => "{}",
        _ => "",
    }
}

async fn ask(stream: &mut TcpStream, method: &str, path: &str, body: &str) -> Reply {
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    read_reply(stream).await
}

#[tokio::test]
async fn a_panic_in_any_handler_is_answered_and_everything_else_goes_on() {
    let (bench, broken) = brittle().await;
    let mut worker = waiting(&bench, "q").await;
    let mut stream = bench.connect().await;
    broken.store(true, SeqCst);
    let document = auxo_server::document();
    let mut panicked = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        if WITHOUT_ENGINE.contains(&path.as_str()) {
            continue;
        }
        for method in item.as_object().unwrap().keys() {
            let method = method.to_uppercase();
            let body = body(&method, path);
            let path = path.replace("{id}", "7").replace(['{', '}'], "");
            let reply = ask(&mut stream, &method, &path, body).await;
            let message = reply.problem(500, "internal");
            assert!(!message.contains("secret"), "{method} {path}: {message}");
            assert!(reply.header("x-request-id").is_some(), "{reply:?}");
            panicked += 1;
        }
    }
    assert!(panicked > 30, "only {panicked} calls reached the engine");
    for path in WITHOUT_ENGINE {
        assert_eq!(ask(&mut stream, "GET", path, "").await.status, 200);
    }

    // The connection on which it all happened goes on, and so does the call that waited all the time.
    broken.store(false, SeqCst);
    let pushed = ask(&mut stream, "POST", "/v1/queues/q/jobs", "{}").await;
    assert_eq!(pushed.status, 201, "{pushed:?}");
    let leased = read_reply(&mut worker).await;
    assert_eq!(leased.json()["jobs"][0]["id"], pushed.json()["id"]);
    assert_eq!(ask(&mut stream, "GET", "/healthz", "").await.status, 200);
    let changed = ask(&mut stream, "PUT", "/v1/queues/q", r#"{"fair":true}"#).await;
    assert_eq!(changed.status, 200, "{changed:?}");
}

#[tokio::test]
async fn a_watcher_whose_beginning_panicked_does_not_silence_the_next() {
    let (bench, broken) = brittle().await;
    broken.store(true, SeqCst);
    let failed = bench.get("/v1/events").await;
    failed.problem(500, "internal");
    broken.store(false, SeqCst);
    let mut watcher = Watcher::new(&bench, "", "").await;
    bench.push("q", "{}").await;
    assert_eq!(watcher.next().await.1, "push");
}

#[tokio::test]
async fn what_an_engine_put_right_by_itself_is_in_the_metrics() {
    let (bench, _) = brittle().await;
    let text = bench.get("/metrics").await.text;
    assert!(text.contains("auxo_repaired_total 7"), "{text}");
}
