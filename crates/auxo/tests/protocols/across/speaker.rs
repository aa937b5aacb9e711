//! Somebody who speaks every protocol, with a connection for each.

use std::future::Future;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use auxo_proto::v1;
use auxo_proto::v1::jobs_client::JobsClient;
use auxo_proto::v1::queues_client::QueuesClient;
use auxo_proto::v1::workers_client::WorkersClient;
use redis::{Connection, FromRedisValue, RedisResult};
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tonic::transport::Channel;
use tonic::{Response, Status, Streaming};

use crate::servers::Auxo;
use auxo_harness::http::{Client, Reply};

/// Longer than anything takes; only a broken test waits for it.
const PATIENCE: Duration = Duration::from_secs(60);

/// The connections.
pub struct Speaker {
    pub beanstalk: Beanstalk,
    pub resp: Connection,
    pub http: Client,
    pub grpc: Grpc,
}

impl Speaker {
    pub fn new(server: &Auxo) -> Speaker {
        let url = format!("redis://{}", server.resp());
        let resp = redis::Client::open(url).unwrap().get_connection().unwrap();
        resp.set_read_timeout(Some(PATIENCE)).unwrap();
        Speaker {
            beanstalk: Beanstalk::connect(server.beanstalk()),
            resp,
            http: Client::connect(server.http()),
            grpc: Grpc::connect(server.http()),
        }
    }

    /// Asks over RESP.
    pub fn resp<T: FromRedisValue>(&mut self, words: &[&[u8]]) -> RedisResult<T> {
        let mut command = redis::Cmd::new();
        for word in words {
            command.arg(*word);
        }
        command.query(&mut self.resp)
    }

    /// Asks over HTTP for something that must be answered well.
    pub fn http(&mut self, method: &str, path: &str, body: &Value) -> Reply {
        let body = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let reply = self.http.call(method, path, &body);
        assert!(reply.status < 300, "{method} {path}: {reply:?}");
        reply
    }
}

/// A client of beanstalkd.
pub struct Beanstalk(BufReader<TcpStream>);

impl Beanstalk {
    pub fn connect(address: SocketAddr) -> Beanstalk {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Beanstalk(BufReader::new(stream))
    }

    /// Sends a request and reads the line that answers it.
    pub fn ask(&mut self, request: impl AsRef<[u8]>) -> String {
        let request = [request.as_ref(), b"\r\n"].concat();
        self.0.get_mut().write_all(&request).unwrap();
        self.line()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.strip_suffix("\r\n").expect("a whole line").to_owned()
    }

    /// Sends a request that is answered with bytes behind a line; `None` if it is answered with another word.
    pub fn fetch(&mut self, request: &str, word: &str) -> Result<(String, Vec<u8>), String> {
        let line = self.ask(request);
        let Some(rest) = line.strip_prefix(word) else {
            return Err(line);
        };
        let (id, length) = rest.trim().rsplit_once(' ').unwrap_or(("", rest.trim()));
        let mut bytes = vec![0; length.parse::<usize>().unwrap() + 2];
        self.0.read_exact(&mut bytes).unwrap();
        assert!(
            bytes.ends_with(b"\r\n"),
            "{request}: it is longer than said"
        );
        bytes.truncate(bytes.len() - 2);
        Ok((id.to_owned(), bytes))
    }
}

/// A client of gRPC.
pub struct Grpc {
    runtime: Runtime,
    channel: Channel,
    /// The stream that a job came by last, which gives back what it holds when it ends.
    pub work: Option<Work>,
}

impl Grpc {
    fn connect(address: SocketAddr) -> Grpc {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let _inside = runtime.enter();
        let channel = Channel::from_shared(format!("http://{address}")).unwrap();
        Grpc {
            channel: channel.connect_lazy(),
            runtime: { runtime },
            work: None,
        }
    }

    pub fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        let future = async { tokio::time::timeout(PATIENCE, future).await };
        self.runtime.block_on(future).expect("no answer")
    }

    /// Waits for the answer to a call.
    pub fn call<T>(
        &self,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, Status> {
        self.wait(call).map(Response::into_inner)
    }

    pub fn jobs(&self) -> JobsClient<Channel> {
        JobsClient::new(self.channel.clone())
    }

    pub fn workers(&self) -> WorkersClient<Channel> {
        WorkersClient::new(self.channel.clone())
    }

    pub fn queues(&self) -> QueuesClient<Channel> {
        QueuesClient::new(self.channel.clone())
    }

    /// Begins a worker's stream.
    pub fn begin(&self, queue: &str, credit: u32) -> Work {
        let start = v1::WorkRequest {
            start: Some(v1::work_request::Start {
                queues: vec![queue.to_owned()],
                ttr_ms: None,
                worker: "ada".to_owned(),
                pick: v1::Pick::Unspecified.into(),
            }),
            credit,
            ..v1::WorkRequest::default()
        };
        let (say, mut said) = mpsc::channel(16);
        self.wait(say.send(start)).unwrap();
        let requests = futures_util::stream::poll_fn(move |cx| said.poll_recv(cx));
        let hear = self.call(self.workers().work(requests)).unwrap();
        Work { say, hear }
    }
}

/// A worker's stream.
pub struct Work {
    pub say: mpsc::Sender<v1::WorkRequest>,
    hear: Streaming<v1::WorkResponse>,
}

impl Work {
    /// The next message that has something in it.
    pub async fn next(&mut self) -> v1::WorkResponse {
        loop {
            let message = self.hear.message().await.unwrap();
            let message = message.expect("the stream ended");
            if message != v1::WorkResponse::default() {
                return message;
            }
        }
    }
}
