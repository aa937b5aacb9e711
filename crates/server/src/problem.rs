//! Errors as `application/problem+json` (RFC 9457). There is no other error body.

use auxo_core::{Code, Error};
use axum::http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// What a handler answers.
pub type Answer<T = Response> = Result<T, Problem>;

/// An error on its way out.
#[derive(Debug)]
pub struct Problem {
    error: Error,
    status: StatusCode,
    allow: Option<HeaderValue>,
}

impl Problem {
    /// An error that HTTP has a status of its own for.
    pub fn with_status(error: Error, status: StatusCode) -> Problem {
        Problem {
            error,
            status,
            allow: None,
        }
    }

    /// The wrong method, and the right ones.
    pub fn method(allow: Option<HeaderValue>) -> Problem {
        let known = allow.as_ref().and_then(|allow| allow.to_str().ok());
        let message = match known {
            Some(methods) => format!("this path takes {methods} only"),
            None => "this path does not take that method".to_owned(),
        };
        Problem {
            allow,
            ..Problem::with_status(Error::bad_request(message), StatusCode::METHOD_NOT_ALLOWED)
        }
    }

    /// What is told.
    pub fn body(&self) -> Value {
        let mut body = json!({
            "type": "about:blank",
            "title": self.status.canonical_reason().unwrap_or("Error"),
            "status": self.status.as_u16(),
            "code": self.error.code().as_str(),
            "message": self.error.message(),
            "detail": self.error.message(),
        });
        if let Some(id) = self.error.job() {
            // A batch names the job `id`, so a single answer does too.
            body["job"] = id.to_string().into();
            body["id"] = id.to_string().into();
        }
        body
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Problem {
        let status = status(error.code());
        Problem::with_status(error, status)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = self.body().to_string();
        let mut response = (self.status, body).into_response();
        let headers = response.headers_mut();
        let kind = HeaderValue::from_static("application/problem+json");
        headers.insert(CONTENT_TYPE, kind);
        if matches!(
            self.status,
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
        ) {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer realm=\"auxo\"");
            headers.insert(WWW_AUTHENTICATE, scheme);
        }
        if let Some(allow) = self.allow {
            headers.insert(ALLOW, allow);
        }
        response
    }
}

/// The status that goes with a code.
pub fn status(code: Code) -> StatusCode {
    match code {
        Code::BadRequest => StatusCode::BAD_REQUEST,
        Code::Unauthorized => StatusCode::UNAUTHORIZED,
        Code::Forbidden => StatusCode::FORBIDDEN,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::Conflict | Code::DuplicateKey | Code::LeaseLost | Code::QueuePaused => {
            StatusCode::CONFLICT
        }
        Code::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Code::QueueFull | Code::RateLimited => StatusCode::TOO_MANY_REQUESTS,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::UnknownOutcome => StatusCode::GATEWAY_TIMEOUT,
        Code::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
