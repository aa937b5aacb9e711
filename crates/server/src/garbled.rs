//! The answer to what is no HTTP.
//!
//! Hyper answers a head that it cannot read by itself, with a bare status, before any handler hears of it. The socket sees that
//! answer pass and sends ours in its place, so that such a client, too, is told what is wrong in the one form that errors
//! have here.

use std::time::Duration;

use auxo_core::text::size;
use auxo_core::{Code, Error};
use axum::http::StatusCode;

use crate::app::App;
use crate::problem::Problem;
use crate::server::BUFFER;

/// What we answer instead, if these bytes are a bare answer of Hyper's. Every answer of ours has a request's id.
pub fn instead(app: &App, bytes: &[u8]) -> Option<Vec<u8>> {
    // Looked at with every answer, so most are let through by a glance.
    if bytes.len() > 512 || bytes.get(9) != Some(&b'4') {
        return None;
    }
    let head = std::str::from_utf8(bytes).ok()?;
    let rest = head.strip_prefix("HTTP/1.")?;
    let status = rest.split(' ').nth(1)?.parse().ok()?;
    let whole = head.find("\r\n\r\n")? + 4 == head.len();
    let bare = whole && head.contains("content-length: 0\r\n") && !head.contains("x-request-id");
    let problem = match status {
        400 if bare => Error::bad_request("this is not a request in HTTP/1.1 or HTTP/2"),
        414 | 431 if bare => Error::new(
            Code::TooLarge,
            format!(
                "the request is too large: its head may have {} and 100 lines, its body {}",
                size(BUFFER as u64),
                size(app.settings.body as u64)
            ),
        ),
        _ => return None,
    };
    app.metrics
        .answered("other", app.routes.none(), status, Duration::ZERO);
    tracing::debug!(status, "answered what is no request");
    let status = StatusCode::from_u16(status).ok()?;
    Some(text(status, problem, &app.request_id()))
}

fn text(status: StatusCode, error: Error, id: &str) -> Vec<u8> {
    let body = Problem::with_status(error, status).body().to_string();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/problem+json\r\nx-content-type-options: nosniff\r\n\
         x-request-id: {id}\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}
