//! What the messages have in common: times, words, choices, and answers per item.

use std::fmt::Display;
use std::time::Duration;

use auxo_core::time::millis;
use auxo_core::{Code, Error, JobId, QueueName, Result, Timestamp, text};

use crate::v1;

/// A wrong field.
pub(crate) fn wrong(field: &str, problem: impl Display) -> Error {
    Error::bad_request(format!("{field}: {problem}"))
}

/// A field that must be there.
pub(crate) fn need<T>(field: &str, value: Option<T>) -> Result<T> {
    value.ok_or_else(|| wrong(field, "is missing"))
}

/// An error about what stands under a field.
pub(crate) fn within<T>(field: &str, result: Result<T>) -> Result<T> {
    result.map_err(|error| {
        let message = format!("{field}: {}", error.message());
        Error::new(error.code(), message)
    })
}

/// The name of a queue, in this field.
pub(crate) fn queue(field: &str, name: &str) -> Result<QueueName> {
    within(field, QueueName::new(name))
}

/// A choice by its number.
pub(crate) fn choice<T: TryFrom<i32>>(field: &str, number: i32) -> Result<T> {
    T::try_from(number).map_err(|_| wrong(field, format!("{number} is no choice that is known")))
}

/// A word of a list that only grows.
pub(crate) fn word<T: Copy>(
    field: &str,
    text: &str,
    all: &[T],
    as_str: fn(T) -> &'static str,
) -> Result<T> {
    let found = all.iter().copied().find(|one| as_str(*one) == text);
    found.ok_or_else(|| wrong(field, "is a word that is not known"))
}

/// A span of time.
pub(crate) fn span(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) fn ms(span: Duration) -> u64 {
    millis(span)
}

/// An instant that can be written as a date.
pub(crate) fn instant(field: &str, ms: u64) -> Result<Timestamp> {
    match ms <= text::LAST_INSTANT.0 {
        true => Ok(Timestamp(ms)),
        false => Err(wrong(
            field,
            format!("{ms} lies after {}", text::LAST_INSTANT),
        )),
    }
}

pub(crate) fn instant_if(field: &str, ms: Option<u64>) -> Result<Option<Timestamp>> {
    ms.map(|ms| instant(field, ms)).transpose()
}

pub(crate) fn at(time: Option<Timestamp>) -> Option<u64> {
    time.map(|at| at.0)
}

impl From<&Error> for v1::Error {
    fn from(error: &Error) -> v1::Error {
        v1::Error {
            code: error.code().as_str().to_owned(),
            message: error.message().to_owned(),
            job: error.job().map(|id| id.0),
        }
    }
}

impl From<v1::Error> for Error {
    /// A code that is not known is one of a newer server: what happened is then open.
    fn from(error: v1::Error) -> Error {
        let code = word("code", &error.code, &Code::ALL, Code::as_str);
        let told = Error::new(code.unwrap_or(Code::UnknownOutcome), error.message);
        match error.job {
            Some(job) => told.about(JobId(job)),
            None => told,
        }
    }
}

/// An answer for one item: `$answer { result: Some($module::Result::Ok or Error) }`, and back.
macro_rules! answers {
    ($($answer:ident, $module:ident, $ok:ty;)*) => {$(
        impl From<&Result<$ok>> for v1::$answer {
            fn from(answer: &Result<$ok>) -> v1::$answer {
                v1::$answer {
                    result: Some(match answer {
                        Ok(ok) => v1::$module::Result::Ok(ok.into()),
                        Err(error) => v1::$module::Result::Error(error.into()),
                    }),
                }
            }
        }

        impl TryFrom<v1::$answer> for Result<$ok> {
            type Error = Error;

            /// The outer error is an answer that cannot be read.
            fn try_from(answer: v1::$answer) -> Result<Result<$ok>> {
                Ok(match need("result", answer.result)? {
                    v1::$module::Result::Ok(ok) => Ok(ok.try_into()?),
                    v1::$module::Result::Error(error) => Err(error.into()),
                })
            }
        }
    )*};
}

answers! {
    PushResult, push_result, auxo_core::engine::Pushed;
    SettleResult, settle_result, auxo_core::engine::Settled;
    ExtendResult, extend_result, auxo_core::engine::Extended;
}

/// Reads each of a list, or says which one cannot be read.
pub fn read_all<T, U>(field: &str, items: Vec<T>) -> Result<Vec<U>>
where
    U: TryFrom<T, Error = Error>,
{
    let read = |(place, item)| within(&format!("{field}[{place}]"), U::try_from(item));
    items.into_iter().enumerate().map(read).collect()
}

/// Writes each of a list.
pub fn result<'a, T: 'a, U: From<&'a T>>(items: &'a [T]) -> Vec<U> {
    items.iter().map(U::from).collect()
}
