//! Why a call has no answer that counts, and what its caller is told.

use auxo_core::text::one_line;
use auxo_core::{Code, Error};
use redis::ServerError;

use crate::url::Address;

/// What happened to a call.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    /// It was not sent.
    Away(String),
    /// Redis does not let us in, or not do this.
    Denied(String),
    /// It was sent, and no answer came.
    Lost(String),
    /// Redis answered that it did not do it.
    Refused(Refusal),
    /// It was done, but fewer replicas have it than were asked for.
    Unconfirmed { confirmed: u32, asked: u32 },
}

/// An error that Redis answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) code: String,
    text: String,
}

/// What to do about a refusal.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Remedy {
    /// Go to this node, from now on.
    Move(Address),
    /// Go to this node, this once.
    Ask(Address),
    /// Wait a little.
    Wait,
    /// Wait, and find out who is the primary now.
    Look,
    /// Nothing helps.
    None,
}

impl Refusal {
    pub(super) fn new(error: &ServerError) -> Refusal {
        let code = error.code();
        let details = error.details().unwrap_or_default();
        // Before Redis 7, what stopped a script is told inside of another error.
        let inner = (code == "ERR" && details.starts_with("Error running script"))
            .then(|| details.split_once(": -").map(|(_, inner)| inner))
            .flatten();
        let (code, details) = match inner {
            Some(inner) => inner.split_once(' ').unwrap_or((inner, "")),
            None => (code, details),
        };
        Refusal {
            code: code.to_owned(),
            text: one_line(details),
        }
    }

    /// `asked` is who refused: a redirection without a host means the same host.
    pub(super) fn remedy(&self, asked: &Address) -> Remedy {
        match self.code.as_str() {
            "MOVED" => redirection(&self.text, asked).map_or(Remedy::Look, Remedy::Move),
            "ASK" => redirection(&self.text, asked).map_or(Remedy::Look, Remedy::Ask),
            "TRYAGAIN" | "LOADING" | "BUSY" | "NOREPLICAS" | "MISCONF" => Remedy::Wait,
            "READONLY" | "CLUSTERDOWN" | "MASTERDOWN" | "UNBLOCKED" => Remedy::Look,
            _ => Remedy::None,
        }
    }

    /// A command that Redis does not know, or that a script called: it was renamed, or this is no Redis that has it.
    pub(super) fn is_unknown_command(&self) -> bool {
        let text = self.text.to_lowercase();
        text.starts_with("unknown command") || text.starts_with("unknown redis command")
    }

    /// What Redis said, without where in which script that was.
    fn short(&self) -> &str {
        let ends = [" script: ", ", with args "].map(|rest| self.text.find(rest));
        let end = ends.into_iter().flatten().min();
        &self.text[..end.unwrap_or(self.text.len())]
    }

    fn denies(&self) -> bool {
        matches!(self.code.as_str(), "NOAUTH" | "WRONGPASS" | "NOPERM")
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.code.as_str() {
            // It says nothing.
            "ERR" => f.write_str(&self.text),
            code => write!(f, "{code} {}", self.text),
        }
    }
}

impl Fault {
    /// What Redis answered: a refusal, or that we may not.
    pub(super) fn answered(error: &ServerError) -> Fault {
        let refusal = Refusal::new(error);
        match refusal.denies() {
            true => Fault::Denied(refusal.to_string()),
            false => Fault::Refused(refusal),
        }
    }

    /// The error for the caller of `what`, a script's or a command's name.
    pub(super) fn error(self, what: &str) -> Error {
        match self {
            Fault::Away(why) => Error::new(Code::Unavailable, why),
            Fault::Denied(why) => {
                let why = format!("redis does not allow {what}: {why}");
                Error::new(Code::Unavailable, why)
            }
            Fault::Lost(why) => {
                let why = format!("{why}; {what} may or may not have been done");
                Error::new(Code::UnknownOutcome, why)
            }
            Fault::Unconfirmed { confirmed, asked } => Error::new(
                Code::UnknownOutcome,
                format!(
                    "{what} was done, but only {confirmed} of {asked} replicas confirmed it in time; \
                     it is lost if one of the others takes over"
                ),
            ),
            Fault::Refused(refusal) if refusal.code == "OOM" => Error::new(
                Code::QueueFull,
                format!(
                    "redis has no memory left for {what} (maxmemory): it takes no new jobs, but those that it has can be leased, \
                     settled and deleted"
                ),
            ),
            Fault::Refused(refusal) if refusal.is_unknown_command() => {
                let why = refusal.short();
                Error::new(
                    Code::Unavailable,
                    format!(
                        "{what} failed in redis: {why}; a command that it needs was renamed or switched off"
                    ),
                )
            }
            Fault::Refused(refusal) => {
                Error::new(Code::Internal, format!("{what} failed in redis: {refusal}"))
            }
        }
    }
}

/// `3999 127.0.0.1:6381`, where the host may be missing and may have colons of its own.
fn redirection(text: &str, asked: &Address) -> Option<Address> {
    let (_, place) = text.split_once(' ')?;
    let (host, port) = place.rsplit_once(':')?;
    let port = port.parse().ok()?;
    match (host, asked) {
        ("" | "?", Address::Tcp(host, _)) => Some(Address::Tcp(host.clone(), port)),
        ("" | "?", Address::Unix(_)) => None,
        (host, _) => Some(Address::Tcp(host.to_owned(), port)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(code: &str, text: &str) -> Refusal {
        Refusal {
            code: code.to_owned(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn what_is_wrong_with_a_redis_is_said_without_the_hash_of_a_script() {
        let said = |code: &str, text: &str| Fault::Refused(refusal(code, text)).error("push");
        let full = said(
            "OOM",
            "command not allowed when used memory > 'maxmemory'. script: 3f2a, on @user_script:7.",
        );
        assert_eq!(full.code(), Code::QueueFull);
        for (text, known) in [
            (
                "unknown command 'EVALSHA', with args beginning with: '3f2a' '2' ",
                "unknown command 'EVALSHA'",
            ),
            (
                "Unknown Redis command called from script script: 3f2a, on @user_script:7.",
                "renamed or switched off",
            ),
        ] {
            let error = said("ERR", text);
            assert_eq!(error.code(), Code::Unavailable);
            assert!(error.message().contains(known), "{error}");
            assert!(!error.message().contains("user_script"), "{error}");
        }
        assert!(!full.message().contains("3f2a"), "{full}");
    }

    #[test]
    fn a_redirection_names_a_node_or_another_port_of_the_same() {
        let asked = Address::Tcp("a".to_owned(), 1);
        let to = |host: &str, port| Address::Tcp(host.to_owned(), port);
        for (text, expected) in [
            ("7 10.0.0.1:6381", Remedy::Move(to("10.0.0.1", 6381))),
            ("7 ::1:6381", Remedy::Move(to("::1", 6381))),
            ("7 :6381", Remedy::Move(to("a", 6381))),
            ("7 ?:6381", Remedy::Move(to("a", 6381))),
            ("7", Remedy::Look),
            ("7 a:b", Remedy::Look),
        ] {
            assert_eq!(refusal("MOVED", text).remedy(&asked), expected, "{text}");
        }
    }
}
