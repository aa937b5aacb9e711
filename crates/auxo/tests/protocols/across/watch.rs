//! Somebody who watches what happens, over HTTP.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use crate::servers::Auxo;

/// Longer than anything takes; only a broken test waits for it.
const PATIENCE: Duration = Duration::from_secs(60);

/// A stream of events.
pub struct Watcher(BufReader<TcpStream>);

impl Watcher {
    pub fn new(server: &Auxo) -> Watcher {
        let mut stream = TcpStream::connect(server.http()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // In the old version a body has no chunks.
        let request = b"GET /v1/events HTTP/1.0\r\nhost: localhost\r\n\r\n";
        stream.write_all(request).unwrap();
        let mut watcher = Watcher(BufReader::new(stream));
        let status = watcher.line();
        assert!(status.contains(" 200 "), "{status}");
        while !watcher.line().is_empty() {}
        watcher
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert_ne!(self.0.read_line(&mut line).unwrap(), 0, "the stream ended");
        line.trim_end().to_owned()
    }

    /// What happened next: what, in which queue, to which job.
    pub fn next(&mut self) -> (String, String, u64) {
        let mut name = String::new();
        loop {
            let line = self.line();
            if let Some(event) = line.strip_prefix("event: ") {
                name = event.to_owned();
            }
            if let Some(data) = line.strip_prefix("data: ") {
                let data: Value = serde_json::from_str(data).unwrap();
                assert_eq!(data["event"], name, "{data}");
                let queue = data["queue"].as_str().unwrap().to_owned();
                return (name, queue, data["id"].as_str().unwrap().parse().unwrap());
            }
        }
    }

    /// Checks that exactly this happened next.
    #[track_caller]
    pub fn tells(&mut self, event: &str, queue: &str, id: u64) {
        let expected = (event.to_owned(), queue.to_owned(), id);
        assert_eq!(self.next(), expected);
    }
}
