//! What handlers take out of a request, each with errors as problems.

use std::fmt::Display;
use std::sync::Arc;

use auxo_core::{Code, Error, QueueName};
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;
use tokio::sync::OwnedSemaphorePermit;

use crate::app::{App, ROOM_UNIT};
use crate::auth::Caller;
use crate::clock::{Clock, Late, within};
use crate::problem::Problem;

/// The variables of a path, decoded.
pub struct Names<T>(pub T);

impl<T: DeserializeOwned + Send> FromRequestParts<Arc<App>> for Names<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        match Path::<T>::from_request_parts(parts, app).await {
            Ok(Path(names)) => Ok(Names(names)),
            Err(error) => {
                Err(Error::bad_request(format!("the path: {}", error.body_text())).into())
            }
        }
    }
}

/// A queue that is named in the path, and in which the caller may do what the route is for. Calls ask once more; but here it is
/// asked before anything of a body is read.
pub struct InQueue(pub QueueName);

impl FromRequestParts<Arc<App>> for InQueue {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let Names(name) = Names::<String>::from_request_parts(parts, app).await?;
        let queue = QueueName::new(&name)?;
        Caller::from_request_parts(parts, app)
            .await?
            .check(&queue)?;
        Ok(InQueue(queue))
    }
}

/// The pairs of a query, decoded.
pub struct Pairs(pub Vec<(String, String)>);

impl FromRequestParts<Arc<App>> for Pairs {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<App>) -> Result<Self, Problem> {
        let query = parts.uri.query().unwrap_or_default();
        let pairs = form_urlencoded::parse(query.as_bytes()).into_owned();
        Ok(Pairs(pairs.collect()))
    }
}

/// A JSON body as bytes, and the room it takes. It may be empty; what reads it says if it must not be.
pub struct Body {
    /// The bytes.
    pub bytes: Bytes,
    _room: Option<OwnedSemaphorePermit>,
}

impl Body {
    /// Refuses a body where nothing is to be said.
    pub fn nothing(&self) -> Result<(), Error> {
        match self.bytes.trim_ascii() {
            b"" | b"{}" => Ok(()),
            _ => Err(Error::bad_request("this call takes no body")),
        }
    }
}

impl FromRequest<Arc<App>> for Body {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        let (head, body) = request.into_parts();
        Body::read(&head.headers, body, app, &mut None).await
    }
}

impl Body {
    /// Reads a body within its limits of type, size and time.
    pub async fn read<B>(
        headers: &HeaderMap,
        body: B,
        app: &Arc<App>,
        clock: &mut Option<Clock>,
    ) -> Result<Body, Problem>
    where
        B: hyper::body::Body<Data = Bytes, Error: Display> + Unpin,
    {
        let length = length(headers)?;
        if length.is_some_and(|length| length > app.settings.body) {
            return Err(too_large(app).into());
        }
        if length != Some(0) {
            check_type(headers)?;
            check_coding(headers)?;
        }
        match within(app.settings.body_time, clock, collect(body, app)).await {
            Ok(body) => body,
            Err(Late) => Err(Problem::with_status(
                Error::bad_request("the body did not arrive in time"),
                StatusCode::REQUEST_TIMEOUT,
            )),
        }
    }
}

fn length(headers: &HeaderMap) -> Result<Option<usize>, Error> {
    let wrong = || Error::bad_request("content-length is not a number");
    match headers.get(CONTENT_LENGTH) {
        None => Ok(None),
        Some(value) => {
            let text = value.to_str().map_err(|_| wrong())?;
            text.parse().map(Some).map_err(|_| wrong())
        }
    }
}

/// JSON, or nothing said about it. Any other type is most often a forgotten header.
fn check_type(headers: &HeaderMap) -> Result<(), Problem> {
    let Some(value) = headers.get(CONTENT_TYPE) else {
        return Ok(());
    };
    let full = value.to_str().unwrap_or_default();
    let kind = full.split(';').next().unwrap_or_default().trim();
    let kind = kind.to_ascii_lowercase();
    if kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json")) {
        return Ok(());
    }
    let message =
        "the body must be JSON: send `content-type: application/json` (with curl: --json)";
    Err(Problem::with_status(
        Error::bad_request(message),
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
    ))
}

/// Nothing compressed: what a few bytes would grow to is only known when it has grown.
fn check_coding(headers: &HeaderMap) -> Result<(), Problem> {
    let plain = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
    if headers.get_all(CONTENT_ENCODING).iter().all(plain) {
        return Ok(());
    }
    let message = "a compressed body is not read: send it as it is, without content-encoding";
    Err(Problem::with_status(
        Error::bad_request(message),
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
    ))
}

fn too_large(app: &App) -> Error {
    let most = auxo_core::text::size(app.settings.body as u64);
    Error::new(
        Code::TooLarge,
        format!("the body is over the limit of {most}"),
    )
}

/// Reads a body. Room is taken as bytes arrive, not as announced: an announcement is free to make.
async fn collect<B>(mut body: B, app: &Arc<App>) -> Result<Body, Problem>
where
    B: hyper::body::Body<Data = Bytes, Error: Display> + Unpin,
{
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    let mut room: Option<OwnedSemaphorePermit> = None;
    while let Some(frame) = body.frame().await {
        let frame = frame
            .map_err(|error| Error::bad_request(format!("the body could not be read: {error}")))?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        let so_far = first.len() + rest.len();
        if so_far + data.len() > app.settings.body {
            return Err(too_large(app).into());
        }
        grow(&mut room, so_far + data.len(), app)?;
        if so_far == 0 {
            // Most bodies are one piece, which is then not copied.
            first = data;
        } else {
            if rest.is_empty() {
                rest.extend_from_slice(&std::mem::take(&mut first));
            }
            rest.extend_from_slice(&data);
        }
    }
    Ok(Body {
        bytes: if rest.is_empty() {
            first
        } else {
            rest.freeze()
        },
        _room: room,
    })
}

/// Takes more of the memory for bodies. It does not wait: half-read bodies that wait for each other would wait for ever.
fn grow(
    room: &mut Option<OwnedSemaphorePermit>,
    bytes: usize,
    app: &Arc<App>,
) -> Result<(), Error> {
    let need = bytes.div_ceil(ROOM_UNIT);
    let have = room.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
    let more = u32::try_from(need.saturating_sub(have)).unwrap_or(u32::MAX);
    if more == 0 {
        return Ok(());
    }
    match app.bodies.clone().try_acquire_many_owned(more) {
        Ok(taken) => {
            match room {
                Some(room) => room.merge(taken),
                None => *room = Some(taken),
            }
            Ok(())
        }
        Err(_) => Err(Error::new(
            Code::Unavailable,
            "too many large requests at once; try again",
        )),
    }
}
