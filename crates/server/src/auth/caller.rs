//! Who makes a call, and what the call needs.

use std::net::IpAddr;
use std::sync::Arc;

use auxo_core::{Code, Error, QueueName};
use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;

use super::grant::Right;
use super::identity::Identity;
use super::stranger::Stranger;
use super::{Auth, Denied};
use crate::app::App;
use crate::problem::Problem;

/// Who is at the other end of a connection.
#[derive(Clone)]
pub struct Visitor {
    /// From where it comes.
    pub from: IpAddr,
    /// Whether it has shown who it is.
    pub stranger: Arc<Stranger>,
}

/// What is spoken to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// HTTP.
    Http,
    /// gRPC.
    Grpc,
    /// Disque's commands.
    Resp,
}

impl Via {
    /// Its name in the audit log.
    pub fn as_str(self) -> &'static str {
        match self {
            Via::Http => "http",
            Via::Grpc => "grpc",
            Via::Resp => "resp",
        }
    }
}

/// What a call needs, as its route was registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing.
    Nothing,
    /// Any token that is right: what is asked for is not there anyway.
    Token,
    /// This right in every queue.
    Everywhere(Right),
    /// This right, in queues that the handler knows.
    Somewhere(Right),
}

impl Need {
    /// Reads a need as a route names it: `push:{queue}`, `read:*`. What stands behind the colon says to people where the handler
    /// finds the queue; only `*` means something here.
    pub fn parse(text: &str) -> Option<Need> {
        let (verb, place) = text.split_once(':')?;
        let right = verb.parse().ok()?;
        Some(match place {
            "*" => Need::Everywhere(right),
            _ => Need::Somewhere(right),
        })
    }
}

/// Somebody who may make this kind of call, at least in some queue.
#[derive(Clone)]
pub struct Caller {
    identity: Arc<Identity>,
    right: Right,
    from: IpAddr,
    via: Via,
}

/// Why a request was turned away.
pub enum Turned {
    /// Nobody knows who is asking.
    Denied(Denied),
    /// They may not.
    Forbidden(Error),
}

impl Auth {
    /// Who makes a request that needs this; `None` if it needs nothing.
    pub fn admit(
        &self,
        need: Need,
        headers: &HeaderMap,
        visitor: &Visitor,
        via: Via,
    ) -> Result<Option<Caller>, Turned> {
        if need == Need::Nothing {
            return Ok(None);
        }
        let identity = self
            .check(bearer(headers), visitor.from)
            .map_err(Turned::Denied)?;
        visitor.stranger.recognise();
        let caller = |right| Caller::new(identity.clone(), right, visitor.from, via);
        match need {
            Need::Nothing | Need::Token => Ok(None),
            Need::Everywhere(right) => {
                let caller = caller(right);
                caller.check_everywhere().map_err(Turned::Forbidden)?;
                Ok(Some(caller))
            }
            Need::Somewhere(right) => {
                let caller = caller(right);
                caller.check_somewhere().map_err(Turned::Forbidden)?;
                Ok(Some(caller))
            }
        }
    }
}

/// The token of a request. Two of them are none: who is meant is not for us to choose.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (value, None) = (values.next()?, values.next()) else {
        return None;
    };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    let token = token.trim_matches(' ');
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

impl Caller {
    /// Somebody who wants to use a right.
    pub fn new(identity: Arc<Identity>, right: Right, from: IpAddr, via: Via) -> Caller {
        Caller {
            identity,
            right,
            from,
            via,
        }
    }

    /// Who it is.
    pub fn identity(&self) -> &Arc<Identity> {
        &self.identity
    }

    /// From where.
    pub fn from(&self) -> IpAddr {
        self.from
    }

    /// By way of what.
    pub fn via(&self) -> Via {
        self.via
    }

    /// Whether the call is allowed in that queue.
    pub fn may(&self, queue: &QueueName) -> bool {
        self.identity.may(self.right, queue)
    }

    /// Whether the call is allowed in every queue, so that nobody need look which one it is about.
    pub fn may_everywhere(&self) -> bool {
        self.identity.may_everywhere(self.right)
    }

    /// Refuses unless the call is allowed in that queue.
    pub fn check(&self, queue: &QueueName) -> Result<(), Error> {
        match self.may(queue) {
            true => Ok(()),
            false => Err(self.forbidden(queue.as_str())),
        }
    }

    /// Refuses unless the call is allowed in all of these queues.
    pub fn check_all(&self, queues: &[QueueName]) -> Result<(), Error> {
        queues.iter().try_for_each(|queue| self.check(queue))
    }

    /// Refuses unless the call is allowed in every queue.
    pub fn check_everywhere(&self) -> Result<(), Error> {
        match self.may_everywhere() {
            true => Ok(()),
            false => Err(self.forbidden("*")),
        }
    }

    /// Refuses unless the call is allowed in some queue.
    pub fn check_somewhere(&self) -> Result<(), Error> {
        match self.identity.may_somewhere(self.right) {
            true => Ok(()),
            false => Err(self.forbidden("any queue")),
        }
    }

    /// The same caller, with another right in mind.
    pub fn with(&self, right: Right) -> Caller {
        Caller {
            right,
            ..self.clone()
        }
    }

    /// Refuses unless the call is allowed in that queue or, if none is named, in every queue.
    pub fn check_filter(&self, queue: Option<&QueueName>) -> Result<(), Error> {
        match queue {
            Some(queue) => self.check(queue),
            None => self.check_everywhere(),
        }
    }

    fn forbidden(&self, place: &str) -> Error {
        let (name, right) = (self.identity.name(), self.right);
        let message = match place {
            "*" => {
                format!("the token {name} may not do this for all queues; it would need {right}:*")
            }
            "any queue" => format!(
                "the token {name} may not do this in any queue; it would need {right}:QUEUE"
            ),
            queue => format!(
                "the token {name} may not do this in queue {queue}; it would need {right}:{queue}"
            ),
        };
        Error::new(Code::Forbidden, message)
    }
}

impl FromRequestParts<Arc<App>> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<App>) -> Result<Caller, Problem> {
        // Whatever let it through without one, it goes no further.
        let caller = parts.extensions.get::<Caller>();
        caller.cloned().ok_or_else(|| {
            Error::new(Code::Internal, "the server does not know who is asking").into()
        })
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn token(values: &[&str]) -> Option<String> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
        }
        bearer(&headers).map(str::to_owned)
    }

    #[test]
    fn a_token_is_what_stands_behind_bearer() {
        assert_eq!(token(&["Bearer x"]).as_deref(), Some("x"));
        assert_eq!(token(&["bearer  x "]).as_deref(), Some("x"));
        for none in [
            &[][..],
            &[""],
            &["x"],
            &["Bearer"],
            &["Bearer "],
            &["Basic x"],
            &["Bearer x", "Bearer x"],
        ] {
            assert_eq!(token(none), None, "{none:?}");
        }
    }

    #[test]
    fn a_need_is_read_as_routes_write_it() {
        assert_eq!(Need::parse("read:*"), Some(Need::Everywhere(Right::Read)));
        assert_eq!(
            Need::parse("push:{queue}"),
            Some(Need::Somewhere(Right::Push))
        );
        assert_eq!(Need::parse("push"), None);
        assert_eq!(Need::parse("pull:*"), None);
    }
}
