//! Answers, read back by a client: what [`show`](super::show) wrote, as types again.
//!
//! A field that is missing or wrong is an error that names it. A field that nobody knows is passed over: a server may be
//! newer than its clients.

mod answers;
mod job;
mod setup;

use serde_json::value::RawValue;

use super::fields::{Fields, each, string, u64};
use crate::error::Result;
use crate::text;
use crate::time::Timestamp;

pub(super) use self::answers::results;
pub use self::answers::{
    explanation, extended, missed, notice, problem, published, pushed, settled, steered,
};
pub(super) use self::job::job_of;
pub use self::job::{job, leases, page};
pub use self::setup::{audit, forgotten, queue, queues, schedules, subscriptions};

/// More than a server puts into one answer; keeps a hostile one small in memory.
const MOST_ITEMS: usize = 10_000_000;

/// Reads a field that is a list of objects.
pub(super) fn items<'a, T>(
    fields: &mut Fields<'a>,
    name: &'static str,
    read: impl Fn(&mut Fields<'a>) -> Result<T>,
) -> Result<Vec<T>> {
    let item = |raw: &'a RawValue| read(&mut Fields::item(raw)?);
    fields.need(name, each("a list", MOST_ITEMS, item))
}

/// Reads an instant. An engine may show one outside of the calendar, which is then a number in a text.
fn instant(raw: &RawValue) -> Result<Timestamp> {
    let text = match raw.get().starts_with('"') {
        true => string(raw)?,
        false => u64(raw)?.to_string(),
    };
    match text.parse() {
        Ok(ms) => Ok(Timestamp(ms)),
        Err(_) => text::parse_timestamp(&text),
    }
}

#[cfg(test)]
mod tests;
