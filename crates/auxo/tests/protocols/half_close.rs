//! Half-closes over HTTP. The transcripts `half_close` have those of the other two ports; over gRPC every call ends its side of the
//! stream.

use std::net::Shutdown;

use crate::servers::Auxo;
use auxo_harness::http::{Client, Reply};
use auxo_harness::redis::Server as Redis;

/// Sends a request, closes the sending side, and reads the answer if there is one.
fn last_request(server: &Auxo, path: &str, body: &str) -> Option<Reply> {
    let mut client = Client::connect(server.http());
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    client.send(request.as_bytes());
    client.socket().shutdown(Shutdown::Write).unwrap();
    client.reply()
}

/// A client of HTTP that closes its side has hung up. It may get its answer, and if it gets none, no job is lent to it.
fn no_job_is_lent_to_a_client_that_got_no_answer(server: &Auxo) {
    let mut other = Client::connect(server.http());
    for wait in ["0s", "20s"] {
        for _ in 0..10 {
            let pushed = other.post("/v1/queues/half/jobs", r#"{"payload":1,"ttr":"1h"}"#);
            assert_eq!(pushed.status, 201, "{pushed:?}");
            let lease = format!(r#"{{"queues":["half"],"wait":"{wait}"}}"#);
            let leased = last_request(server, "/v1/lease", &lease)
                .unwrap_or_else(|| other.post("/v1/lease", r#"{"queues":["half"],"wait":"20s"}"#));
            let token = leased.json()["jobs"][0]["token"].clone();
            assert!(token.is_string(), "{leased:?}");
            let ack = format!(r#"{{"outcome":"ack","token":{token}}}"#);
            assert_eq!(other.post("/v1/settle", &ack).status, 200);
        }
    }
    // Nobody is there to wait for.
    if let Some(answer) = last_request(server, "/v1/lease", r#"{"queues":["none"],"wait":"60s"}"#) {
        assert_eq!(answer.json()["jobs"], serde_json::json!([]), "{answer:?}");
    }
}

#[test]
fn no_job_is_lent_to_a_client_that_got_no_answer_from_a_directory() {
    no_job_is_lent_to_a_client_that_got_no_answer(&Auxo::on_a_directory());
}

#[test]
fn no_job_is_lent_to_a_client_that_got_no_answer_from_redis() {
    let redis = Redis::start(&["--appendonly", "yes"]);
    no_job_is_lent_to_a_client_that_got_no_answer(&Auxo::on_redis(&redis.url("")));
}
