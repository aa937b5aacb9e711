//! One call: sent, sent again where that is safe, and its answer or the lack of one turned into a result.
//!
//! Every call may be tried again while it has not left this process. Once it has, only what does no harm twice is: reading,
//! and pushing jobs that all have a key. A call that changes something and gets no answer is `unknown_outcome`; one that
//! only reads, or never left, is `unavailable`.

use std::future::pending;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use auxo_core::job::{Backoff, Jitter};
use auxo_core::json::parse;
use auxo_core::{Code, Error, Result, retry, text};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use hyper::{Method, Request, Response, StatusCode, Uri};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};

use super::access::Access;
use super::address::Address;
use super::events::Stream;
use super::pool::{Line, Lost, Pool, reason};
use super::settings::Settings;

/// How often a call is tried.
const TRIES: u32 = 4;
/// The waits between tries: spread, so that the clients of a server that restarts do not come back in step.
const WAITS: Backoff = Backoff::Exponential {
    base: Duration::from_millis(100),
    factor: 2.0,
    cap: Duration::from_secs(2),
    jitter: Jitter::Full,
};
/// How long the answer to a call that was hung up is waited for.
const PARTING: Duration = Duration::from_secs(5);

/// What sending a call twice would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It only reads.
    None,
    /// It changes something, and the same again changes nothing more.
    Repeatable,
    /// It changes something.
    Once,
}

/// A call on its way.
pub(super) struct Call {
    pub method: Method,
    pub path: String,
    pub body: Bytes,
    pub effect: Effect,
    /// For all of its tries together.
    pub time: Duration,
    /// Ends when nobody waits for the answer any more.
    pub caller: Option<watch::Receiver<()>>,
}

impl Call {
    pub fn new(method: Method, path: impl Into<String>, effect: Effect) -> Call {
        Call {
            method,
            path: path.into(),
            body: Bytes::new(),
            effect,
            time: Duration::ZERO,
            caller: None,
        }
    }

    pub fn body(self, body: Bytes) -> Call {
        Call { body, ..self }
    }

    pub fn time(self, time: Duration) -> Call {
        Call { time, ..self }
    }
}

/// A good answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub body: Bytes,
    /// An earlier try may have done the work already.
    pub repeated: bool,
}

/// The way to one server. The stream of events shares nothing with it but the signal to stop, so that dropping the last handle
/// ends the stream.
pub(super) struct Link {
    pub address: Address,
    pub pool: Pool,
    pub settings: Settings,
    pub access: Access,
    /// Turns true when the handle is closed.
    pub closed: watch::Sender<bool>,
    pub stream: OnceLock<Stream>,
    health: Mutex<Result<()>>,
}

impl Link {
    pub fn new(address: Address, settings: Settings) -> Result<Link> {
        let access = Access::new(&address, &settings, "http/1.1")?;
        Ok(Link {
            address,
            pool: Pool::new(settings.connect_time, access.clone()),
            access,
            settings,
            closed: watch::Sender::new(false),
            stream: OnceLock::new(),
            health: Mutex::new(Ok(())),
        })
    }

    /// How the last call went: refusals count as good health.
    pub fn health(&self) -> Result<()> {
        self.check_open()?;
        let health = self.health.lock();
        health.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Refuses calls after the end.
    pub fn check_open(&self) -> Result<()> {
        match *self.closed.borrow() {
            false => Ok(()),
            true => Err(self.over()),
        }
    }

    fn over(&self) -> Error {
        let message = format!("this handle to Auxo at {} was closed", self.address);
        Error::new(Code::Unavailable, message)
    }

    /// Makes a call, and reads its answer.
    pub async fn ask<T>(&self, call: Call, read: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
        let effect = call.effect;
        let answer = self.call(call).await?;
        self.read(effect, &answer.body, read)
    }

    /// Reads an answer. One that cannot be understood is no answer.
    pub fn read<T>(
        &self,
        effect: Effect,
        body: &[u8],
        read: impl FnOnce(&[u8]) -> Result<T>,
    ) -> Result<T> {
        read(body).map_err(|error| {
            let code = match effect {
                Effect::None => Code::Unavailable,
                _ => Code::UnknownOutcome,
            };
            let message = format!(
                "{} did not answer like an Auxo server of this version: {}",
                self.address,
                error.message()
            );
            Error::new(code, message)
        })
    }

    /// Makes a call, and notes how it went.
    pub async fn call(&self, call: Call) -> Result<Answer> {
        self.check_open()?;
        // Who watches is to hear of every call that follows.
        if let Some(stream) = self.stream.get() {
            stream.tried().await;
        }
        let answer = self.send(call).await;
        let health = match &answer {
            Err(error) if matches!(error.code(), Code::Unavailable | Code::UnknownOutcome) => {
                Err(error.clone())
            }
            _ => Ok(()),
        };
        *self.health.lock().unwrap_or_else(PoisonError::into_inner) = health;
        answer
    }

    /// Makes a call, whether the handle is closed or not.
    pub async fn send(&self, call: Call) -> Result<Answer> {
        let time = match call.time.is_zero() {
            true => self.settings.answer_time,
            false => call.time,
        };
        let deadline = Instant::now() + time;
        let path = self.address.path(&call.path)?;
        let mut doubt = false;
        for tried in 1.. {
            let lost = match self.attempt(&call, &path, deadline).await {
                Ok((status, body)) => {
                    let retry = status == StatusCode::SERVICE_UNAVAILABLE
                        && call.effect != Effect::Once
                        && !self.is_gone(&call);
                    match retry && rest(tried, deadline).await {
                        true => continue,
                        false => return self.verdict(&call, status, body, doubt),
                    }
                }
                Err(lost) => lost,
            };
            let again = match &lost {
                Lost::Before(_) => true,
                Lost::After(_) => call.effect != Effect::Once,
                Lost::Vast(_) => false,
            };
            doubt |= !matches!(lost, Lost::Before(_));
            if self.is_gone(&call) {
                return Err(self.over());
            }
            if !again || !rest(tried, deadline).await {
                return Err(self.lost(&call, lost, doubt));
            }
        }
        Err(self.over())
    }

    async fn attempt(
        &self,
        call: &Call,
        path: &Uri,
        deadline: Instant,
    ) -> Result<(StatusCode, Bytes), Lost> {
        let request = self.request(call, path);
        let mut line = tokio::select! {
            biased;
            line = self.pool.take(&self.address, deadline) => line?,
            () = self.gone(call) => return Err(Lost::Before("nobody waits any more".to_owned())),
        };
        let exchange = self.exchange(&mut line, request, call);
        let (status, body) = match timeout_at(deadline, exchange).await {
            Ok(answer) => answer?,
            Err(_) => return Err(Lost::After("there was no answer in time".to_owned())),
        };
        self.pool.put(line);
        Ok((status, body))
    }

    async fn exchange(
        &self,
        line: &mut Line,
        request: Request<Full<Bytes>>,
        call: &Call,
    ) -> Result<(StatusCode, Bytes), Lost> {
        let answer = async {
            let response = line.send(request, self.gone(call)).await?;
            self.body(response).await
        };
        // Whoever has gone does not wait for long.
        let parting = async {
            self.gone(call).await;
            sleep(PARTING).await;
        };
        tokio::select! {
            biased;
            answer = answer => answer,
            () = parting => Err(Lost::After("nobody waits any more".to_owned())),
        }
    }

    async fn body(&self, response: Response<Incoming>) -> Result<(StatusCode, Bytes), Lost> {
        let status = response.status();
        let most = self.settings.most_answer;
        match Limited::new(response.into_body(), most).collect().await {
            Ok(body) => Ok((status, body.to_bytes())),
            Err(error) if error.is::<LengthLimitError>() => {
                let size = text::size(most as u64);
                let message = format!("the answer is larger than {size}; ask for less at once");
                Err(Lost::Vast(message))
            }
            Err(error) => Err(Lost::After(reason(&*error))),
        }
    }

    fn request(&self, call: &Call, path: &Uri) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(call.body.clone()));
        *request.method_mut() = call.method.clone();
        *request.uri_mut() = path.clone();
        let headers = request.headers_mut();
        headers.insert(HOST, self.address.authority.clone());
        headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        if let Some(value) = &self.access.authorization {
            headers.insert(AUTHORIZATION, value.clone());
        }
        if !call.body.is_empty() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        request
    }

    /// Resolves when nobody waits for the answer of this call any more.
    async fn gone(&self, call: &Call) {
        let Some(mut caller) = call.caller.clone() else {
            return pending().await;
        };
        let mut closed = self.closed.subscribe();
        tokio::select! {
            // Nothing is ever sent: it ends when the caller lets go.
            _ = caller.changed() => {}
            _ = closed.wait_for(|closed| *closed) => {}
        }
    }

    fn is_gone(&self, call: &Call) -> bool {
        let caller = call.caller.as_ref();
        caller.is_some_and(|caller| caller.has_changed().is_err() || *self.closed.borrow())
    }

    /// What a complete answer means.
    fn verdict(&self, call: &Call, status: StatusCode, body: Bytes, doubt: bool) -> Result<Answer> {
        if status.is_success() {
            let repeated = doubt;
            return Ok(Answer { body, repeated });
        }
        let error = parse::problem(&body).unwrap_or_else(|| self.strange(call, status));
        let unchanged = error.code() == Code::Unavailable;
        Err(match doubt && unchanged && call.effect != Effect::None {
            // This try changed nothing; an earlier one may have.
            true => Error::new(Code::UnknownOutcome, error.message()),
            false => error,
        })
    }

    /// An error that no Auxo server gives: something else listens there, or stands between.
    fn strange(&self, call: &Call, status: StatusCode) -> Error {
        let code = match status {
            StatusCode::UNAUTHORIZED => Code::Unauthorized,
            StatusCode::FORBIDDEN => Code::Forbidden,
            StatusCode::PAYLOAD_TOO_LARGE => Code::TooLarge,
            StatusCode::TOO_MANY_REQUESTS => Code::RateLimited,
            StatusCode::SERVICE_UNAVAILABLE => Code::Unavailable,
            status if status.is_server_error() && call.effect != Effect::None => {
                Code::UnknownOutcome
            }
            _ => Code::Unavailable,
        };
        let message = format!(
            "{} did not answer like an Auxo server, but with status {status}; is the URL right?",
            self.address
        );
        Error::new(code, message)
    }

    /// What the lack of an answer means.
    fn lost(&self, call: &Call, lost: Lost, doubt: bool) -> Error {
        let address = &self.address;
        let (code, message) = match (lost, doubt && call.effect != Effect::None) {
            (Lost::Before(why), false) => (
                Code::Unavailable,
                format!("cannot reach Auxo at {address}: {why}"),
            ),
            (Lost::After(why), false) => (
                Code::Unavailable,
                format!("there was no whole answer from Auxo at {address}: {why}"),
            ),
            (Lost::Vast(why), false) => (Code::TooLarge, why),
            (Lost::Before(why) | Lost::After(why) | Lost::Vast(why), true) => (
                Code::UnknownOutcome,
                format!(
                    "the call was sent, but there was no whole answer from Auxo at {address}: {why}; it may have been done"
                ),
            ),
        };
        Error::new(code, message)
    }
}

/// Waits before the next try of a call; false when there is none.
pub(crate) async fn rest(tried: u32, deadline: Instant) -> bool {
    // Without dice all clients wait alike, which is no reason to give up.
    let wait = retry::wait(tried, &WAITS, getrandom::u64().unwrap_or(u64::MAX));
    if tried >= TRIES || Instant::now() + wait >= deadline {
        return false;
    }
    sleep(wait).await;
    true
}

pub(super) const AGENT: &str = concat!("auxo-client/", env!("CARGO_PKG_VERSION"));
