//! One call: sent, sent again where that is safe, and its answer or the lack of one turned into a result.
//!
//! The rules are those of the client over HTTP: every call may be tried again while it has not left this process; once it has,
//! only what does no harm twice is. A call that changes something and gets no answer is `unknown_outcome`; one that only
//! reads, or never left, is `unavailable`.

use std::error::Error as StdError;
use std::future::{Future, pending};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use auxo_core::{Code, Error, Result, text};
use auxo_proto::error_of;
use futures_util::stream::{self, Stream as Messages, StreamExt};
use hyper::Uri;
use hyper::http::uri::PathAndQuery;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};
use tonic::client::Grpc;
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use super::events::{Source, Stream};
use super::line::{Broken, Line, Lines};
use super::method::Method;
use crate::remote::access::Access;
use crate::remote::address::Address;
use crate::remote::link::{Effect, rest};
use crate::remote::settings::Settings;

/// How long the answer to a call that was given up is waited for.
const PARTING: Duration = Duration::from_secs(5);

/// A call on its way.
pub(super) struct Call<R> {
    pub request: R,
    pub effect: Effect,
    /// For all of its tries together.
    pub time: Duration,
    /// Ends when nobody waits for the answer any more.
    pub caller: Option<watch::Receiver<()>>,
}

impl<R> Call<R> {
    pub fn new(request: R, effect: Effect) -> Call<R> {
        Call {
            request,
            effect,
            time: Duration::ZERO,
            caller: None,
        }
    }

    pub fn time(self, time: Duration) -> Call<R> {
        Call { time, ..self }
    }
}

/// A good answer.
pub(super) struct Answer<T> {
    pub message: T,
    /// An earlier try may have done the work already.
    pub repeated: bool,
}

/// Why there is no good answer.
enum Fault {
    /// The server's own word.
    Told(Error),
    /// The call never left.
    Before(String),
    /// It did, and no whole answer came.
    After(String),
    /// Something else answered, or stands between.
    Strange(Status),
}

impl Fault {
    fn of(status: Status) -> Fault {
        if let Some(error) = error_of(&status) {
            return Fault::Told(error);
        }
        let mut source = StdError::source(&status);
        let is_local = source.is_some();
        while let Some(error) = source {
            if let Some(broken) = error.downcast_ref::<Broken>() {
                return match broken.sent {
                    false => Fault::Before(broken.why.clone()),
                    true => Fault::After(broken.why.clone()),
                };
            }
            source = error.source();
        }
        // An answer that was cut off has no status at all, which is told as one of these.
        let is_cut = matches!(
            status.code(),
            tonic::Code::Unknown | tonic::Code::Internal | tonic::Code::Cancelled
        );
        match is_local || is_cut {
            true => Fault::After(status.message().to_owned()),
            false => Fault::Strange(status),
        }
    }
}

/// The way to one server. The stream of events shares nothing with it but the signal to stop, so that dropping the last handle
/// ends the stream.
pub(super) struct Link {
    pub address: Address,
    origin: Uri,
    access: Access,
    pub lines: Lines,
    pub settings: Settings,
    /// Turns true when the handle is closed.
    pub closed: watch::Sender<bool>,
    pub stream: OnceLock<Stream>,
    health: Mutex<Result<()>>,
}

impl Link {
    pub fn new(address: Address, settings: Settings) -> Result<Link> {
        let access = Access::new(&address, &settings, "h2")?;
        Ok(Link {
            origin: address.origin()?,
            lines: Lines::new(settings.connect_time, access.clone()),
            access,
            address,
            settings,
            closed: watch::Sender::new(false),
            stream: OnceLock::new(),
            health: Mutex::new(Ok(())),
        })
    }

    /// What the stream of events comes from.
    pub fn source(&self) -> Source {
        Source::new(
            self.address.clone(),
            self.access.clone(),
            self.origin.clone(),
        )
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

    /// What an answer says. One that cannot be understood is no answer.
    pub fn read<T>(&self, effect: Effect, read: Result<T>) -> Result<T> {
        read.map_err(|error| {
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

    /// Makes a call.
    pub async fn ask<R: Method>(&self, call: Call<R>) -> Result<R::Answer> {
        Ok(self.call(call).await?.message)
    }

    /// Makes a call, and notes how it went.
    pub async fn call<R: Method>(&self, call: Call<R>) -> Result<Answer<R::Answer>> {
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
    pub async fn send<R: Method>(&self, call: Call<R>) -> Result<Answer<R::Answer>> {
        let time = match call.time.is_zero() {
            true => self.settings.answer_time,
            false => call.time,
        };
        let deadline = Instant::now() + time;
        let mut doubt = false;
        for tried in 1.. {
            let fault = match self.attempt(&call, deadline).await {
                Ok(message) => {
                    let repeated = doubt;
                    return Ok(Answer { message, repeated });
                }
                Err(fault) => fault,
            };
            let again = match &fault {
                Fault::Before(_) => true,
                Fault::After(_) => call.effect != Effect::Once,
                Fault::Told(error) => {
                    error.code() == Code::Unavailable && call.effect != Effect::Once
                }
                Fault::Strange(_) => false,
            };
            doubt |= matches!(fault, Fault::After(_));
            if self.is_gone(&call) {
                return Err(self.over());
            }
            if !again || !rest(tried, deadline).await {
                return Err(self.verdict(&call, fault, doubt));
            }
        }
        Err(self.over())
    }

    async fn attempt<R: Method>(
        &self,
        call: &Call<R>,
        deadline: Instant,
    ) -> Result<R::Answer, Fault> {
        let broken = |broken: Broken| Fault::Before(broken.why);
        let gone = self.gone(call);
        let line = tokio::select! {
            biased;
            line = self.lines.take(&self.address, deadline) => line.map_err(broken)?,
            () = gone => return Err(Fault::Before("nobody waits any more".to_owned())),
        };
        // Whoever has gone does not wait for long.
        let gone = self.gone(call);
        let parting = async move {
            gone.await;
            sleep(PARTING).await;
        };
        tokio::select! {
            biased;
            answer = timeout_at(deadline, self.exchange(line, call)) => match answer {
                Ok(answer) => answer.map_err(Fault::of),
                Err(_) => Err(Fault::After("there was no answer in time".to_owned())),
            },
            () = parting => Err(Fault::After("nobody waits any more".to_owned())),
        }
    }

    async fn exchange<R: Method>(&self, line: Line, call: &Call<R>) -> Result<R::Answer, Status> {
        let mut grpc = self.grpc(line);
        let path = PathAndQuery::from_static(R::PATH);
        let codec = ProstCodec::<R, R::Answer>::default();
        let request = call.request.clone();
        let answer = match call.caller {
            None => grpc.unary(Request::new(request), path, codec).await,
            Some(_) => {
                let messages = until(request, self.gone(call));
                grpc.client_streaming(Request::new(messages), path, codec)
                    .await
            }
        };
        answer.map(tonic::Response::into_inner)
    }

    fn grpc(&self, line: Line) -> Grpc<Line> {
        let most = self.settings.most_answer;
        Grpc::with_origin(line, self.origin.clone()).max_decoding_message_size(most)
    }

    /// Resolves when nobody waits for the answer of this call any more.
    fn gone<R>(&self, call: &Call<R>) -> impl Future<Output = ()> + Send + 'static + use<R> {
        let caller = call.caller.clone();
        let mut closed = self.closed.subscribe();
        async move {
            let Some(mut caller) = caller else {
                return pending().await;
            };
            tokio::select! {
                // Nothing is ever sent: it ends when the caller lets go.
                _ = caller.changed() => {}
                _ = closed.wait_for(|closed| *closed) => {}
            }
        }
    }

    fn is_gone<R>(&self, call: &Call<R>) -> bool {
        let caller = call.caller.as_ref();
        caller.is_some_and(|caller| caller.has_changed().is_err() || *self.closed.borrow())
    }

    /// What the lack of a good answer means.
    fn verdict<R>(&self, call: &Call<R>, fault: Fault, doubt: bool) -> Error {
        let (address, changes) = (&self.address, call.effect != Effect::None);
        match fault {
            // This try changed nothing; an earlier one may have.
            Fault::Told(error) if error.code() == Code::Unavailable && doubt && changes => {
                Error::new(Code::UnknownOutcome, error.message())
            }
            Fault::Told(error) => error,
            Fault::Strange(status) => self.strange(&status, changes),
            Fault::Before(why) | Fault::After(why) if doubt && changes => Error::new(
                Code::UnknownOutcome,
                format!(
                    "the call was sent, but there was no whole answer from Auxo at {address}: {why}; it may have been done"
                ),
            ),
            Fault::Before(why) => Error::new(
                Code::Unavailable,
                format!("cannot reach Auxo at {address}: {why}"),
            ),
            Fault::After(why) => Error::new(
                Code::Unavailable,
                format!("there was no whole answer from Auxo at {address}: {why}"),
            ),
        }
    }

    /// A status that no handler of an Auxo server gives.
    fn strange(&self, status: &Status, changes: bool) -> Error {
        use tonic::Code as Grpc;
        if status.code() == Grpc::OutOfRange && !changes {
            let size = text::size(self.settings.most_answer as u64);
            let message = format!("the answer is larger than {size}; ask for less at once");
            return Error::new(Code::TooLarge, message);
        }
        let code = match status.code() {
            Grpc::Unauthenticated => Code::Unauthorized,
            Grpc::PermissionDenied => Code::Forbidden,
            Grpc::OutOfRange => Code::TooLarge,
            Grpc::ResourceExhausted => Code::RateLimited,
            Grpc::Unavailable | Grpc::Unimplemented => Code::Unavailable,
            _ if changes => Code::UnknownOutcome,
            _ => Code::Unavailable,
        };
        let message = format!(
            "{} did not answer like an Auxo server, but with {:?}: {}; is the URL right?",
            self.address,
            status.code(),
            text::one_line(status.message())
        );
        Error::new(code, message)
    }
}

/// One message, and then an open stream until somebody is gone.
fn until<R: Method>(
    request: R,
    gone: impl Future<Output = ()> + Send + 'static,
) -> impl Messages<Item = R> + Send + 'static {
    let end = stream::once(gone).filter_map(|()| std::future::ready(None));
    stream::once(std::future::ready(request)).chain(end)
}
