//! What operators ask for: pages of jobs, and moves.

use serde_json::value::RawValue;

use super::super::fields::{Fields, boolean, each, string, texts, time, u32, u64, word};
use super::{moment, queue};
use crate::engine::{Action, Cursor, Filter, Mode, Order, Query, Target};
use crate::error::{Error, Result};
use crate::id::{JobId, clip};
use crate::life::State;
use crate::text::one_line;
use crate::time::When;

/// The page size of a query that names none.
pub const DEFAULT_LIMIT: u32 = 100;

/// A filter with `cursor` and `limit` (100) beside its fields.
pub fn query(body: &[u8]) -> Result<Query> {
    let mut fields = Fields::of(body)?;
    let query = Query {
        filter: filter(&mut fields)?,
        cursor: fields.get("cursor", string)?.map(Cursor),
        limit: fields.get("limit", u32)?.unwrap_or(DEFAULT_LIMIT),
    };
    fields.finish()?;
    Ok(query)
}

/// A query as it stands in a URL or in flags: pairs of texts. A pair without a value counts as absent, `state` may be given
/// several times or as a list with commas, and `header.NAME` asks for a header.
pub fn query_pairs<'p>(pairs: impl IntoIterator<Item = (&'p str, &'p str)>) -> Result<Query> {
    let mut object = serde_json::Map::new();
    let mut headers = serde_json::Map::new();
    for (name, value) in pairs {
        if let Some(header) = name.strip_prefix("header.").filter(|_| !value.is_empty()) {
            if headers.insert(header.to_owned(), value.into()).is_some() {
                return Err(twice(name));
            }
            continue;
        }
        let number = value.parse::<u64>().ok().filter(|_| name == "limit");
        let value = match (object.remove(name), number) {
            _ if value.is_empty() => continue,
            (None, Some(number)) => number.into(),
            (None, None) => value.into(),
            (Some(before), _) if name == "state" => {
                format!("{},{value}", before.as_str().unwrap_or_default()).into()
            }
            (Some(_), _) => return Err(twice(name)),
        };
        object.insert(name.to_owned(), value);
    }
    if !headers.is_empty() {
        object.insert("headers".to_owned(), headers.into());
    }
    query(serde_json::Value::Object(object).to_string().as_bytes())
}

/// Where to go on and how many (100), as they stand in a URL.
pub fn page_pairs<'p>(
    pairs: impl IntoIterator<Item = (&'p str, &'p str)>,
) -> Result<(Option<Cursor>, u32)> {
    let query = query_pairs(pairs)?;
    match query.filter == Filter::default() {
        true => Ok((query.cursor, query.limit)),
        false => Err(Error::bad_request("only cursor and limit can be said here")),
    }
}

fn twice(name: &str) -> Error {
    Error::bad_request(format!("{}: is there twice", one_line(&clip(name))))
}

fn filter(fields: &mut Fields<'_>) -> Result<Filter> {
    Ok(Filter {
        queue: fields.get("queue", queue)?,
        states: fields.get("state", states)?.unwrap_or_default(),
        kind: fields.get("kind", string)?,
        key: fields.get("key", string)?,
        group: fields.get("group", string)?,
        headers: fields.get("headers", texts)?.unwrap_or_default(),
        error: fields.get("error", string)?,
        search: fields.get("search", string)?,
        created_from: fields.get("created_from", time)?,
        created_before: fields.get("created_before", time)?,
        due_from: fields.get("due_from", time)?,
        due_before: fields.get("due_before", time)?,
    })
}

/// `"dead"`, `"dead,done"` or `["dead", "done"]`.
fn states(raw: &RawValue) -> Result<Vec<State>> {
    if raw.get().starts_with('[') {
        each("a list of states", 100, |raw| string(raw)?.parse())(raw)
    } else {
        string(raw)?.split(',').map(str::parse).collect()
    }
}

/// An operator's move on many jobs: `action` (kick, cancel, delete or reschedule with `run_at` or `delay`), either `ids` or
/// a `filter` with `cursor` and `limit`, and `dry_run`.
///
/// An empty `filter` means every job and must be written as `{}`: leaving it out is an error, not a wish.
pub fn order(body: &[u8]) -> Result<Order> {
    let mut fields = Fields::of(body)?;
    let action = fields.need(
        "action",
        word(&[
            ("kick", Action::Kick),
            ("cancel", Action::Cancel),
            ("delete", Action::Delete),
            ("reschedule", Action::Reschedule(When::Now)),
        ]),
    )?;
    let action = match (action, moment(&mut fields)?) {
        (Action::Reschedule(_), Some(when)) => Action::Reschedule(when),
        (Action::Reschedule(_), None) => {
            return Err(fields.wrong("run_at", "is missing, or delay: to when?"));
        }
        (_, Some(_)) => {
            return Err(fields.wrong("run_at", "and delay go with action reschedule only"));
        }
        (action, None) => action,
    };
    let mode = match fields.get("dry_run", boolean)? {
        Some(true) => Mode::DryRun,
        _ => Mode::Act,
    };
    let target = target(&mut fields)?;
    fields.finish()?;
    Ok(Order {
        target,
        action,
        mode,
    })
}

fn target(fields: &mut Fields<'_>) -> Result<Target> {
    let ids = fields.get("ids", each("a list of job ids", 100_000, id))?;
    let filter = fields.object("filter", filter)?;
    let cursor = fields.get("cursor", string)?.map(Cursor);
    let limit = fields.get("limit", u32)?;
    match (ids, filter) {
        (Some(_), None) if cursor.is_some() => Err(fields.wrong("cursor", "goes with filter only")),
        (Some(_), None) if limit.is_some() => Err(fields.wrong("limit", "goes with filter only")),
        (Some(ids), None) => Ok(Target::Jobs(ids)),
        (None, Some(filter)) => Ok(Target::Matching(Query {
            filter,
            cursor,
            limit: limit.unwrap_or(DEFAULT_LIMIT),
        })),
        (Some(_), Some(_)) => Err(fields.wrong("filter", "stands beside ids")),
        (None, None) => Err(fields.wrong("filter", "is missing, or ids: which jobs?")),
    }
}

/// An id is written as a text; a number is taken too, where it is exact.
fn id(raw: &RawValue) -> Result<JobId> {
    if raw.get().starts_with('"') {
        string(raw)?.parse()
    } else {
        u64(raw).map(JobId)
    }
}

/// The body of a reschedule: `run_at` or `delay`.
pub fn when(body: &[u8]) -> Result<When> {
    let mut fields = Fields::of(body)?;
    let when = moment(&mut fields)?
        .ok_or_else(|| fields.wrong("run_at", "is missing, or delay: to when?"))?;
    fields.finish()?;
    Ok(when)
}
