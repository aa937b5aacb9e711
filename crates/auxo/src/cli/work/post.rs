//! Runs a job as an HTTP request.

use std::time::{Duration, SystemTime};

use auxo::Job;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT};
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::de::IgnoredAny;

use super::attempt::{Attempt, Stopper, Verdict};
use super::capture::{Head, Tail};

/// How long a host may take to accept a connection. The answer may take as long as the job's timeout.
const CONNECT: Duration = Duration::from_secs(10);
/// How much of the answer is kept for the job's error.
const WORDS: usize = 4 << 10;

/// Where jobs are posted to.
pub struct Post {
    url: Uri,
    client: Client<HttpConnector, Full<Bytes>>,
    /// How much of an answer is kept for the job's result.
    most_output: usize,
}

impl Post {
    pub fn new(url: Uri, most_output: usize) -> Post {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT));
        connector.set_nodelay(true);
        Post {
            url,
            client: Client::builder(TokioExecutor::new()).build(connector),
            most_output,
        }
    }

    /// A request that is cut short is dropped, and its connection with it: that is all a client can do to end it.
    pub async fn run(&self, job: &Job, stopper: &Stopper) -> Attempt {
        tokio::select! {
            attempt = self.post(job) => attempt,
            () = stopper.stopped() => Attempt {
                verdict: Verdict::Failed("the request was given up".into()),
                words: String::new(),
            },
        }
    }

    async fn post(&self, job: &Job) -> Attempt {
        let mut request = Request::post(self.url.clone());
        if let Some(headers) = request.headers_mut() {
            *headers = about(job);
        }
        let answer = match request.body(Full::new(job.payload.clone())) {
            Ok(request) => self.client.request(request).await,
            Err(error) => return failed(format!("the request could not be made: {error}")),
        };
        match answer {
            Ok(answer) => self.read(answer).await,
            Err(error) => again(format!("no answer from {}: {}", self.url, reason(&error))),
        }
    }

    async fn read(&self, answer: Response<Incoming>) -> Attempt {
        let (parts, mut body) = answer.into_parts();
        let wait = retry_after(&parts.headers, SystemTime::now());
        let (mut head, mut tail) = (Head::new(self.most_output), Tail::new(WORDS));
        while !head.is_full() {
            match body.frame().await {
                None => break,
                Some(Ok(frame)) => {
                    if let Some(bytes) = frame.data_ref() {
                        head.take(bytes);
                        tail.take(bytes);
                    }
                }
                Some(Err(error)) => {
                    return again(format!("the answer broke off: {}", reason(&error)));
                }
            }
        }
        Attempt {
            verdict: verdict(parts.status, wait, head),
            words: tail.into_words(),
        }
    }
}

fn verdict(status: StatusCode, wait: Option<Duration>, body: Head) -> Verdict {
    match status {
        _ if status.is_success() => Verdict::Done(body.into_result()),
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => Verdict::Again {
            why: format!("HTTP {status}"),
            after: wait,
        },
        _ if status.is_redirection() => {
            Verdict::Failed(format!("HTTP {status}, and redirects are not followed"))
        }
        _ => Verdict::Failed(format!("HTTP {status}")),
    }
}

fn failed(what: String) -> Attempt {
    Attempt {
        verdict: Verdict::Failed(what),
        words: String::new(),
    }
}

fn again(why: String) -> Attempt {
    Attempt {
        verdict: Verdict::Again { why, after: None },
        words: String::new(),
    }
}

/// The innermost cause: the outer ones only say that there is one.
fn reason(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

/// The wait that an answer asks for, in seconds or as a date.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let seconds = value.parse().ok().map(Duration::from_secs);
    let until = || {
        let at = httpdate::parse_http_date(value).ok()?;
        Some(at.duration_since(now).unwrap_or_default())
    };
    seconds.or_else(until)
}

/// What the receiver learns about the job.
fn about(job: &Job) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let mut put = |name: &str, value: &str| {
        let name = HeaderName::from_bytes(name.as_bytes());
        // A name or value that HTTP cannot carry is left out: the rest is worth sending.
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(value)) {
            headers.insert(name, value);
        }
    };
    put(
        USER_AGENT.as_str(),
        concat!("auxo/", env!("CARGO_PKG_VERSION")),
    );
    put(CONTENT_TYPE.as_str(), content_type(&job.payload));
    put("auxo-job-id", &job.id.to_string());
    put("auxo-queue", job.queue.as_str());
    put("auxo-kind", &job.kind);
    put("auxo-attempt", &job.attempt.to_string());
    if let Some(key) = &job.key {
        put("auxo-key", key);
    }
    for (name, value) in &job.headers {
        put(&format!("auxo-header-{name}"), value);
        // These say what they say only under their own names.
        if ["content-type", "traceparent", "tracestate"].contains(&&*name.to_ascii_lowercase()) {
            put(name, value);
        }
    }
    headers
}

fn content_type(payload: &[u8]) -> &'static str {
    match serde_json::from_slice::<IgnoredAny>(payload) {
        Ok(_) => "application/json",
        Err(_) => "application/octet-stream",
    }
}

/// Reads the URL of a receiver.
pub fn url(input: &str) -> Result<Uri, String> {
    let url: Uri = input.parse().map_err(|error| format!("{error}"))?;
    match (url.scheme_str(), url.host()) {
        (Some("http"), Some(host)) if !host.is_empty() => Ok(url),
        (Some("https"), _) => Err(
            "https is not supported yet; post to http, such as a proxy on this machine, or use --exec with curl".into(),
        ),
        _ => Err("write it like http://127.0.0.1:3000/jobs".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_given_in_seconds_or_as_a_date() {
        let now = httpdate::parse_http_date("Wed, 21 Oct 2015 07:28:00 GMT").unwrap();
        let wait = |value: &'static str| {
            let headers = [(RETRY_AFTER, HeaderValue::from_static(value))];
            retry_after(&headers.into_iter().collect(), now).map(|wait| wait.as_secs())
        };
        assert_eq!(wait("120"), Some(120));
        assert_eq!(wait("Wed, 21 Oct 2015 07:29:30 GMT"), Some(90));
        assert_eq!(wait("Wed, 21 Oct 2015 07:00:00 GMT"), Some(0));
        assert_eq!(wait("soon"), None);
        assert_eq!(retry_after(&HeaderMap::new(), now), None);
    }

    #[test]
    fn each_status_has_its_verdict() {
        let table = [
            (200, "done"),
            (204, "done"),
            (302, "failed"),
            (400, "failed"),
            (404, "failed"),
            (429, "again"),
            (500, "failed"),
            (502, "failed"),
            (503, "again"),
        ];
        for (status, expected) in table {
            let status = StatusCode::from_u16(status).unwrap();
            let said = match verdict(status, None, Head::new(8)) {
                Verdict::Done(_) => "done",
                Verdict::Again { .. } => "again",
                Verdict::Failed(_) => "failed",
            };
            assert_eq!(said, expected, "{status}");
        }
    }

    #[test]
    fn only_plain_http_is_taken_and_the_refusal_says_what_to_do() {
        assert!(url("http://localhost:3000/jobs?x=1").is_ok());
        assert!(url("https://example.org").unwrap_err().contains("--exec"));
        for wrong in ["", "example.org", "/jobs", "ftp://x", "http://", "a b"] {
            assert!(url(wrong).is_err(), "{wrong:?}");
        }
    }
}
