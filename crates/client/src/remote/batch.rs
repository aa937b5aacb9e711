//! Batches, cut into requests that a server takes, and their answers put together again.

use std::ops::Range;

use auxo_core::{Code, Error, Result};
use bytes::{BufMut, Bytes, BytesMut};
use hyper::Method;

use super::link::{Call, Effect, Link};

/// Items of one request: the limit of a server.
pub(crate) const MOST_ITEMS: usize = 1000;
/// Bytes of one request, unless a single item has more: far below what a server takes.
pub(crate) const MOST_BYTES: usize = 4 << 20;

/// A part of a batch that goes in one request.
pub(super) struct Piece {
    pub path: String,
    pub body: Bytes,
    pub effect: Effect,
    /// For each item its place in the whole batch.
    pub places: Vec<usize>,
}

/// Cuts a list into runs of items, each within the limits.
pub(crate) fn cut(sizes: &[usize]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    let mut bytes = 0;
    for (place, size) in sizes.iter().enumerate() {
        match runs.last_mut() {
            Some(run) if run.len() < MOST_ITEMS && bytes + size <= MOST_BYTES => {
                run.end = place + 1;
                bytes += size;
            }
            _ => {
                runs.push(place..place + 1);
                bytes = *size;
            }
        }
    }
    runs
}

/// Items that are JSON already, as a list.
pub(super) fn list(items: &[Bytes]) -> Bytes {
    let size: usize = items.iter().map(|item| item.len() + 1).sum();
    let mut out = BytesMut::with_capacity(size + 2);
    for (place, item) in items.iter().enumerate() {
        out.put_u8(if place == 0 { b'[' } else { b',' });
        out.put_slice(item);
    }
    if items.is_empty() {
        out.put_u8(b'[');
    }
    out.put_u8(b']');
    out.freeze()
}

impl Link {
    /// Cuts a batch for one path.
    pub fn pieces(&self, path: &str, items: &[Bytes], effect: Effect) -> Vec<Piece> {
        let sizes: Vec<usize> = items.iter().map(Bytes::len).collect();
        let piece = |run: Range<usize>| Piece {
            path: path.to_owned(),
            body: list(&items[run.clone()]),
            effect,
            places: run.collect(),
        };
        cut(&sizes).into_iter().map(piece).collect()
    }

    /// Sends the pieces of a batch of `total` items one after the other.
    ///
    /// The call as a whole fails only if nothing of it was answered. Otherwise the items of a piece without an answer have its
    /// error, and what could not be sent after it is `unavailable`: nothing happened to those.
    pub async fn batch<T>(
        &self,
        pieces: Vec<Piece>,
        total: usize,
        read: impl Fn(&[u8]) -> Result<Vec<Result<T>>>,
    ) -> Result<Vec<Result<T>>> {
        let mut answers: Vec<Option<Result<T>>> = (0..total).map(|_| None).collect();
        let (mut answered, mut failed): (bool, Option<Error>) = (false, None);
        for piece in pieces {
            if let Some(error) = failed.as_ref().filter(|error| is_away(error)) {
                let error = Error::new(Code::Unavailable, format!("not sent: {}", error.message()));
                for place in piece.places {
                    answers[place] = Some(Err(error.clone()));
                }
                continue;
            }
            match self.piece(&piece, &read).await {
                Ok(results) => {
                    answered = true;
                    for (place, result) in piece.places.into_iter().zip(results) {
                        answers[place] = Some(result);
                    }
                }
                Err(error) => {
                    for place in piece.places {
                        answers[place] = Some(Err(error.clone()));
                    }
                    failed.get_or_insert(error);
                }
            }
        }
        match failed {
            Some(error) if !answered => Err(error),
            _ => Ok(answers.into_iter().flatten().collect()),
        }
    }

    async fn piece<T>(
        &self,
        piece: &Piece,
        read: impl Fn(&[u8]) -> Result<Vec<Result<T>>>,
    ) -> Result<Vec<Result<T>>> {
        let call = Call::new(Method::POST, &*piece.path, piece.effect).body(piece.body.clone());
        let answer = self.call(call).await?;
        let results = self.read(piece.effect, &answer.body, |body| {
            let results = read(body)?;
            match (results.len(), piece.places.len()) {
                (got, asked) if got == asked => Ok(results),
                (got, asked) => Err(Error::bad_request(format!(
                    "{got} results for {asked} items"
                ))),
            }
        })?;
        let note = |error: Error| match answer.repeated && error.code() == Code::DuplicateKey {
            true => own_double(error),
            false => error,
        };
        Ok(results.into_iter().map(|item| item.map_err(note)).collect())
    }
}

/// Whether trying the next piece would be in vain, or would overtake this one when it is tried again.
pub(crate) fn is_away(error: &Error) -> bool {
    matches!(
        error.code(),
        Code::Unavailable | Code::UnknownOutcome | Code::RateLimited
    )
}

/// The key is taken, perhaps by this very push.
pub(crate) fn own_double(error: Error) -> Error {
    let message = format!(
        "{}, perhaps by this push itself: the answer to its first try was lost",
        error.message()
    );
    let told = Error::new(error.code(), message);
    match error.job() {
        Some(job) => told.about(job),
        None => told,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_cut_by_count_and_by_bytes() {
        assert_eq!(cut(&[]), []);
        assert_eq!(cut(&[10; 1001]), [0..1000, 1000..1001]);
        assert_eq!(cut(&[10; 2500]), [0..1000, 1000..2000, 2000..2500]);
        let half = MOST_BYTES / 2;
        assert_eq!(cut(&[half; 5]), [0..2, 2..4, 4..5]);
        assert_eq!(cut(&[1, 2 * MOST_BYTES, 1]), [0..1, 1..2, 2..3]);
    }

    #[test]
    fn items_are_joined_to_a_list() {
        let item = Bytes::from_static(b"{}");
        assert_eq!(list(&[]), "[]");
        assert_eq!(list(std::slice::from_ref(&item)), "[{}]");
        assert_eq!(list(&[item.clone(), item]), "[{},{}]");
    }
}
