//! `auxo work --post`: each job is a request, and its answer decides.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::{self, JoinHandle};

use serde_json::Value;

use crate::shell::{Shell, text};

both! {
    a_job_is_posted_with_its_fields_and_the_answer_is_its_result,
    an_answer_that_is_an_error_fails_the_job,
    a_receiver_that_is_away_or_hangs_up_is_tried_again_later,
    a_request_is_given_up_at_the_timeout,
}

/// What a receiver got.
struct Got {
    head: Vec<String>,
    body: String,
}

impl Got {
    fn header(&self, name: &str) -> Option<&str> {
        let named = |line: &&String| line.to_ascii_lowercase().starts_with(&format!("{name}: "));
        let line = self.head.iter().find(named)?;
        line.split_once(": ").map(|(_, value)| value)
    }
}

/// Answers each request with the next of these, one connection each.
fn receiver(answers: &[&'static str]) -> (String, JoinHandle<Vec<Got>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/jobs?from=auxo", listener.local_addr().unwrap());
    let answers = answers.to_vec();
    let serve = move || {
        let mut got = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            got.push(read(&stream));
            stream.write_all(answer.as_bytes()).unwrap();
        }
        got
    };
    (url, thread::spawn(serve))
}

fn read(stream: &TcpStream) -> Got {
    let mut reader = BufReader::new(stream);
    let mut got = Got {
        head: Vec::new(),
        body: String::new(),
    };
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        match line.trim_end() {
            "" => break,
            line => got.head.push(line.to_owned()),
        }
    }
    let length: u64 = got
        .header("content-length")
        .map_or(0, |length| length.parse().unwrap());
    reader.take(length).read_to_string(&mut got.body).unwrap();
    got
}

/// Works off the queue and answers with the reports.
fn post(shell: &Shell, url: &str, args: &[&str]) -> Vec<Value> {
    let all = [&["work", "q", "--drain", "--json", "--post", url], args].concat();
    let ran = shell.run(&all);
    assert_eq!(ran.code, 0, "{ran:?}");
    ran.out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn a_job_is_posted_with_its_fields_and_the_answer_is_its_result(shell: &Shell) {
    let (url, receiver) = receiver(&[
        "HTTP/1.1 200 OK\r\ncontent-length: 13\r\nconnection: close\r\n\r\n{\"sent\":true}",
    ]);
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let id = shell.push(&[
        "q",
        "{\"to\":\"ada\"}",
        "--kind",
        "welcome",
        "--key",
        "k1",
        "--retention",
        "1h",
        "--header",
        &format!("traceparent={trace}"),
        "--header",
        "x-lang=de",
    ]);
    assert_eq!(post(shell, &url, &[])[0]["outcome"], "done");
    let got = &receiver.join().unwrap()[0];
    assert_eq!(got.head[0], "POST /jobs?from=auxo HTTP/1.1");
    assert_eq!(got.body, "{\"to\":\"ada\"}");
    for (name, value) in [
        ("content-type", "application/json"),
        ("auxo-job-id", &*id),
        ("auxo-queue", "q"),
        ("auxo-kind", "welcome"),
        ("auxo-attempt", "1"),
        ("auxo-key", "k1"),
        ("auxo-header-x-lang", "de"),
        ("traceparent", trace),
    ] {
        assert_eq!(got.header(name), Some(value), "{name}: {:?}", got.head);
    }
    let job = shell.job(&id);
    assert_eq!(job["state"], "done");
    assert_eq!(job["result"]["sent"], true);
}

#[test]
fn a_busy_receiver_is_asked_again_when_it_says_and_no_failure_is_counted() {
    for status in ["429 Too Many Requests", "503 Service Unavailable"] {
        let shell = Shell::new();
        let answer = format!(
            "HTTP/1.1 {status}\r\nretry-after: 3600\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        );
        let (url, receiver) = receiver(&[answer.leak()]);
        let id = shell.push(&["q", "--max-attempts", "1"]);
        let before = text(&shell.job(&id)["run_at"]);
        let reports = post(&shell, &url, &["--retry-delay", "0s"]);
        assert_eq!(
            reports.len(),
            1,
            "with --retry-delay it would be due at once"
        );
        assert_eq!(reports[0]["outcome"], "retried");
        assert_eq!(reports[0]["error"], format!("HTTP {status}"));
        receiver.join().unwrap();
        let job = shell.job(&id);
        assert_eq!(job["state"], "scheduled");
        assert!(text(&job["run_at"]) > before);
        assert!(job.get("failures").is_none(), "{job}");
    }
}

fn an_answer_that_is_an_error_fails_the_job(shell: &Shell) {
    let (url, receiver) = receiver(&[
        "HTTP/1.1 400 Bad Request\r\ncontent-length: 10\r\nconnection: close\r\n\r\nno address",
        "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
        "HTTP/1.1 302 Found\r\nlocation: /\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
    ]);
    for _ in 0..3 {
        shell.push(&["q", "--max-attempts", "1"]);
    }
    let reports = post(shell, &url, &[]);
    let errors: Vec<String> = reports
        .iter()
        .map(|report| text(&report["error"]))
        .collect();
    assert_eq!(
        errors,
        [
            "HTTP 400 Bad Request: no address",
            "HTTP 500 Internal Server Error",
            "HTTP 302 Found, and redirects are not followed",
        ]
    );
    assert!(reports.iter().all(|report| report["state"] == "dead"));
    receiver.join().unwrap();
}

fn a_receiver_that_is_away_or_hangs_up_is_tried_again_later(shell: &Shell) {
    let id = shell.push(&["q", "--max-attempts", "1"]);
    // Bound and closed again: nobody listens there.
    let address = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let url = format!("http://{address}/");
    let reports = post(shell, &url, &["--retry-delay", "1h"]);
    assert_eq!(reports[0]["outcome"], "retried");
    let error = text(&reports[0]["error"]);
    assert!(
        error.contains("no answer from") && error.contains("refused"),
        "{error}"
    );
    shell.ok(&["kick", &id]);

    let (url, receiver) = receiver(&[""]);
    let reports = post(shell, &url, &["--retry-delay", "1h"]);
    assert_eq!(reports[0]["outcome"], "retried", "{reports:?}");
    receiver.join().unwrap();
    assert_eq!(shell.job(&id)["state"], "scheduled");
}

fn a_request_is_given_up_at_the_timeout(shell: &Shell) {
    let id = shell.push(&["q", "--max-attempts", "1"]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let reports = post(shell, &url, &["--timeout", "300ms"]);
    assert_eq!(reports[0]["error"], "timed out after 300ms");
    assert_eq!(shell.job(&id)["state"], "dead");
    // The connection was made and closed again, which is all that can be seen here.
    let (stream, _) = listener.accept().unwrap();
    let got = read(&stream);
    assert_eq!(got.head[0], "POST / HTTP/1.1");
}
