//! A server that follows a script: a step for each request, in the order they come.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use auxo_client::Auxo;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// What the server does about a request.
#[derive(Clone, Debug)]
pub enum Step {
    /// Answers, and keeps the connection.
    Answer(u16, String),
    /// Closes the connection.
    Drop,
    /// Begins an answer, and closes the connection in the middle of it.
    Half,
    /// Says nothing, and waits until the client hangs up.
    Silence,
    /// Waits until the client hangs up, and only then answers.
    Late(String),
    /// Begins a stream of events, and closes it after them.
    Events(String),
}

/// A request as it came, or the news that the client hung up on a silent server.
#[derive(Debug, PartialEq)]
pub enum Heard {
    /// The first line, and the body.
    Request(String, String),
    /// The value of `last-event-id` on a request for events.
    Resumed(Option<String>),
    /// The client closed its side.
    HungUp,
}

pub struct Stub {
    pub url: String,
    heard: mpsc::UnboundedReceiver<Heard>,
    /// How many connections were accepted.
    connections: mpsc::UnboundedReceiver<()>,
}

impl Stub {
    /// Starts a server. After the last step it closes every connection at once.
    pub async fn new(steps: impl IntoIterator<Item = Step>) -> Stub {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (tell, heard) = mpsc::unbounded_channel();
        let (count, connections) = mpsc::unbounded_channel();
        let script = Script::new(Mutex::new(steps.into_iter().collect()));
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                count.send(()).unwrap_or_default();
                tokio::spawn(serve(socket, script.clone(), tell.clone()));
            }
        });
        Stub {
            url,
            heard,
            connections,
        }
    }

    pub async fn connect(&self) -> Auxo {
        Auxo::connect(&self.url).await.unwrap()
    }

    /// A client that gives up soon.
    pub async fn hasty(&self) -> Auxo {
        let hasty = Auxo::connector().timeout(Duration::from_millis(300));
        hasty.connect(&self.url).await.unwrap()
    }

    /// The next thing that the server heard.
    pub async fn heard(&mut self) -> Heard {
        let heard = tokio::time::timeout(Duration::from_secs(30), self.heard.recv());
        heard.await.expect("something in time").unwrap()
    }

    /// The next request: its first line without the version, and its body.
    pub async fn request(&mut self) -> (String, Value) {
        match self.heard().await {
            Heard::Request(line, body) => {
                let body = serde_json::from_str(&body).unwrap_or(Value::Null);
                (line.trim_end_matches(" HTTP/1.1").to_owned(), body)
            }
            other => panic!("{other:?}"),
        }
    }

    /// How many requests came that nobody has asked about yet.
    pub fn left(&mut self) -> usize {
        std::iter::from_fn(|| self.heard.try_recv().ok()).count()
    }

    pub fn connections(&mut self) -> usize {
        std::iter::from_fn(|| self.connections.try_recv().ok()).count()
    }
}

type Script = Arc<Mutex<VecDeque<Step>>>;

async fn serve(socket: TcpStream, script: Script, tell: mpsc::UnboundedSender<Heard>) {
    let mut socket = BufReader::new(socket);
    while let Some((line, body, last)) = request(&mut socket).await {
        let step = script.lock().unwrap().pop_front().unwrap_or(Step::Drop);
        let heard = match &step {
            Step::Events(_) => Heard::Resumed(last),
            _ => Heard::Request(line, body),
        };
        if tell.send(heard).is_err() {
            return;
        }
        let answer = |status: u16, body: &str| {
            let length = body.len();
            format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n\r\n{body}")
        };
        match step {
            Step::Answer(status, body) => {
                socket
                    .write_all(answer(status, &body).as_bytes())
                    .await
                    .unwrap();
                continue;
            }
            Step::Half => {
                let whole = answer(200, "{\"results\": []}");
                let half = &whole.as_bytes()[..whole.len() - 3];
                socket.write_all(half).await.unwrap();
            }
            Step::Silence => {
                hung_up(&mut socket).await;
                tell.send(Heard::HungUp).unwrap_or_default();
            }
            Step::Late(body) => {
                hung_up(&mut socket).await;
                tell.send(Heard::HungUp).unwrap_or_default();
                let _ = socket.write_all(answer(200, &body).as_bytes()).await;
            }
            Step::Events(events) => {
                let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
                let stream = format!("{head}{events}");
                socket.write_all(stream.as_bytes()).await.unwrap();
            }
            Step::Drop => {}
        }
        return;
    }
}

async fn hung_up(socket: &mut BufReader<TcpStream>) {
    let mut byte = [0];
    while let Ok(1..) = socket.read(&mut byte).await {}
}

async fn request(socket: &mut BufReader<TcpStream>) -> Option<(String, String, Option<String>)> {
    let (mut first, mut length, mut last) = (String::new(), 0, None);
    loop {
        let mut line = String::new();
        if socket.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line if first.is_empty() => first = line.to_owned(),
            line => {
                let (name, value) = line.split_once(": ")?;
                match name.to_ascii_lowercase().as_str() {
                    "content-length" => length = value.parse().unwrap(),
                    "last-event-id" => last = Some(value.to_owned()),
                    _ => {}
                }
            }
        }
    }
    let mut body = vec![0; length];
    socket.read_exact(&mut body).await.ok()?;
    Some((first, String::from_utf8(body).unwrap(), last))
}

/// A good answer to so many pushes.
pub fn pushed(ids: std::ops::Range<u64>) -> Step {
    let one = |id: u64| json!({"ok": {"id": id.to_string(), "state": "ready", "run_at": 0, "how": "new"}});
    let results: Vec<Value> = ids.map(one).collect();
    ok(json!({ "results": results }))
}

/// A good answer.
pub fn ok(body: Value) -> Step {
    Step::Answer(200, body.to_string())
}

/// A refusal.
pub fn problem(status: u16, code: &str, message: &str) -> Step {
    let body = json!({
        "type": "about:blank", "title": "X", "status": status, "code": code,
        "message": message, "detail": message, "job": "7",
    });
    Step::Answer(status, body.to_string())
}

/// A lease of one job.
pub fn leased() -> String {
    let at = "2023-11-14T22:13:20.000Z";
    json!({"jobs": [{
        "id": "7", "queue": "q", "state": "leased", "payload": "x", "priority": 1024, "run_at": at,
        "created_at": at, "attempt": 1, "max_attempts": 10, "ttr": "1m", "deadline": at,
        "backoff": {"kind": "fixed", "delay": "1s"}, "token": "7-1-0000000000000002",
    }]})
    .to_string()
}
