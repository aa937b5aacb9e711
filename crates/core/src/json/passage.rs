//! The JSON of a move, on both sides: it is one conversation, and what one side writes the other reads.
//!
//! A job on its way is written as it is shown, with `front`, `due_clock`, `expires_clock` and `version` beside its fields.

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::fields::{Fields, boolean, each, parsed, string, word};
use super::parse::{items, job_of, results};
use super::show;
use crate::engine::Cursor;
use crate::error::{Code, Error, Result};
use crate::id::JobId;
use crate::job::QueueName;
use crate::passage::{Adopted, Adoption, Leaving, Passage, Passages, Step};
use crate::time::Base;

const CLOCKS: [(&str, Base); 2] = [("steady", Base::Steady), ("wall", Base::Wall)];

/// A job on its way.
struct Out<'a>(&'a Passage);

impl Serialize for Out<'_> {
    fn serialize<S: Serializer>(&self, writer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Whole<J> {
            #[serde(flatten)]
            job: J,
            #[serde(skip_serializing_if = "std::ops::Not::not")]
            front: bool,
            due_clock: &'static str,
            expires_clock: &'static str,
            version: String,
        }
        let Passage {
            job,
            front,
            due,
            expires,
            version,
        } = self.0;
        let whole = Whole {
            job: show::job(job),
            front: *front,
            due_clock: clock(*due),
            expires_clock: clock(*expires),
            version: version.to_string(),
        };
        whole.serialize(writer)
    }
}

fn clock(base: Base) -> &'static str {
    match base {
        Base::Steady => "steady",
        Base::Wall => "wall",
    }
}

fn passage(fields: &mut Fields<'_>) -> Result<Passage> {
    Ok(Passage {
        front: fields.get("front", boolean)?.unwrap_or_default(),
        due: fields
            .get("due_clock", word(&CLOCKS))?
            .unwrap_or(Base::Wall),
        expires: fields
            .get("expires_clock", word(&CLOCKS))?
            .unwrap_or(Base::Wall),
        version: fields.get("version", number)?.unwrap_or_default(),
        job: job_of(fields)?,
    })
}

/// A number of 64 bits, which not every reader of JSON knows as one: in a text.
fn number(raw: &RawValue) -> Result<u64> {
    let text = string(raw)?;
    let number = text.parse();
    number.map_err(|_| Error::bad_request("is not a number of 64 bits"))
}

/// Jobs to be moved: `{"store": …, "jobs": […], "next_cursor": …}`.
pub fn show_passages(passages: &Passages) -> impl Serialize {
    #[derive(Serialize)]
    struct Page<'a> {
        store: &'a str,
        jobs: Vec<Out<'a>>,
        next_cursor: Option<&'a str>,
    }
    Page {
        store: &passages.store,
        jobs: passages.jobs.iter().map(Out).collect(),
        next_cursor: passages.next.as_ref().map(|cursor| cursor.0.as_str()),
    }
}

/// Reads jobs to be moved.
pub fn parse_passages(body: &[u8]) -> Result<Passages> {
    let mut fields = Fields::of(body)?;
    Ok(Passages {
        store: fields.need("store", string)?,
        jobs: items(&mut fields, "jobs", passage)?,
        next: fields.get("next_cursor", string)?.map(Cursor),
    })
}

fn leaving_out(leaving: &Leaving) -> Value {
    let version = leaving.version.map(|version| version.to_string());
    json!({ "id": leaving.id.to_string(), "version": version })
}

fn leaving(fields: &mut Fields<'_>) -> Result<Leaving> {
    Ok(Leaving {
        id: JobId(fields.need("id", number)?),
        version: fields.get("version", number)?,
    })
}

/// Jobs that leave: `{"jobs": [{"id", "version"?}, …]}`.
pub fn write_leaving(jobs: &[Leaving]) -> Value {
    json!({ "jobs": jobs.iter().map(leaving_out).collect::<Vec<_>>() })
}

/// Reads jobs that leave, at most so many.
pub fn read_leaving(body: &[u8], most: usize) -> Result<Vec<Leaving>> {
    let mut fields = Fields::of(body)?;
    let item = |raw| leaving(&mut Fields::item(raw)?);
    let jobs = fields.need("jobs", each("a list", most, item))?;
    fields.finish()?;
    Ok(jobs)
}

/// Which of the jobs have left: `{"results": [{"ok": {}} or {"error": …}, …]}`.
pub fn show_departed(departed: &[Result<()>]) -> impl Serialize {
    show::results(departed, |()| json!({}))
}

/// Reads which of the jobs have left.
pub fn parse_departed(body: &[u8]) -> Result<Vec<Result<()>>> {
    results(&mut Fields::of(body)?, |_| Ok(()))
}

/// A part of a move: `{"store", "run", "step", "jobs"?}`.
pub fn write_adoption(adoption: &Adoption) -> impl Serialize {
    #[derive(Serialize)]
    struct Part<'a> {
        store: &'a str,
        run: String,
        step: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        jobs: Option<Vec<Out<'a>>>,
    }
    Part {
        store: &adoption.store,
        run: adoption.run.to_string(),
        step: adoption.step.as_str(),
        jobs: match &adoption.step {
            Step::Jobs(jobs) => Some(jobs.iter().map(Out).collect()),
            _ => None,
        },
    }
}

/// Reads a part of a move into a queue, with at most so many jobs. Each of them is said to be in that queue, whatever it was
/// called elsewhere.
pub fn read_adoption(queue: QueueName, body: &[u8], most: usize) -> Result<Adoption> {
    let mut fields = Fields::of(body)?;
    let store = fields.need("store", string)?;
    let run = fields.need("run", number)?;
    let steps = [
        Step::Look,
        Step::Begin,
        Step::Jobs(Vec::new()),
        Step::End,
        Step::Leave,
        Step::Stay,
    ];
    let steps = steps.map(|step| (step.as_str(), step.clone()));
    let step = fields.need("step", word(&steps))?;
    let item = |raw| {
        let mut passage = passage(&mut Fields::item(raw)?)?;
        passage.job.queue = queue.clone();
        Ok(passage)
    };
    let jobs = fields.get("jobs", each("a list", most, item))?;
    let jobs = jobs.unwrap_or_default();
    let step = match step {
        Step::Jobs(_) => Step::Jobs(jobs),
        step if jobs.is_empty() => step,
        step => {
            let text = format!("jobs: go with the step jobs, not with {}", step.as_str());
            return Err(Error::new(Code::Conflict, text));
        }
    };
    fields.finish()?;
    Ok(Adoption {
        queue,
        store,
        run,
        step,
    })
}

/// How a move stands: `{"under_way", "last", "leaving", "results"}`.
pub fn show_adopted(adopted: &Adopted) -> Value {
    let last = adopted.last.iter().flatten().map(leaving_out);
    let id = |id: &crate::JobId| json!({ "id": id.to_string() });
    let mut out = json!(show::results(&adopted.results, id));
    out["under_way"] = adopted.last.is_some().into();
    out["last"] = last.collect();
    out["leaving"] = adopted.leaving.as_deref().into();
    out
}

/// Reads how a move stands.
pub fn parse_adopted(body: &[u8]) -> Result<Adopted> {
    let mut fields = Fields::of(body)?;
    let under_way = fields.need("under_way", boolean)?;
    let last = items(&mut fields, "last", leaving)?;
    Ok(Adopted {
        last: under_way.then_some(last),
        leaving: fields.get("leaving", string)?,
        results: results(&mut fields, |fields| fields.need("id", parsed))?,
    })
}
