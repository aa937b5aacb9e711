//! How patient a client is, and how much it takes.

use std::time::Duration;

use auxo_core::{Error, Result};
use hyper::header::HeaderValue;

use super::tls::Files;

/// Time-outs and bounds of one client.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// To be connected: 5 s.
    pub connect_time: Duration,
    /// For a call with all its tries, besides what a lease waits for: 40 s, more than a server gives itself, so that its
    /// own word on what became of the call arrives.
    pub answer_time: Duration,
    /// Bytes of one answer: 256 MiB.
    pub most_answer: usize,
    /// The token that is shown.
    pub token: Option<Token>,
    /// Files for TLS.
    pub files: Files,
}

/// A token, which is not shown by accident.
#[derive(Clone)]
pub(crate) struct Token(pub String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Settings {
    /// What is said about who we are.
    pub fn authorization(&self) -> Result<Option<HeaderValue>> {
        let Some(Token(token)) = &self.token else {
            return Ok(None);
        };
        let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
            .map_err(|_| Error::bad_request("the token has characters that no token has"))?;
        value.set_sensitive(true);
        Ok(Some(value))
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            connect_time: Duration::from_secs(5),
            answer_time: Duration::from_secs(40),
            most_answer: 256 << 20,
            token: None,
            files: Files::default(),
        }
    }
}
