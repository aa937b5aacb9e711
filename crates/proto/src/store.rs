//! The store as a whole: its books, and jobs that move to another one.

use auxo_core::engine::{Audit, Cursor};
use auxo_core::json::read::DEFAULT_LIMIT;
use auxo_core::passage::{Adopted, Adoption, Departure, Leaving, Passage, Passages, Step};
use auxo_core::queue::Books;
use auxo_core::time::Base;
use auxo_core::{Error, JobId, QueueName, Result};

use crate::v1;
use crate::value::{choice, need, queue, read_all, result, wrong};

/// The books of forgotten queues, as they are sent: left out where there is nothing in them.
pub fn forgotten(books: &Books) -> Option<v1::Books> {
    (!books.is_empty()).then(|| books.into())
}

impl From<&Audit> for v1::AuditResponse {
    fn from(audit: &Audit) -> v1::AuditResponse {
        let books = audit.queues.iter();
        v1::AuditResponse {
            queues: books
                .map(|(queue, books)| v1::audit_response::QueueBooks {
                    queue: queue.to_string(),
                    books: Some(books.into()),
                })
                .collect(),
            jobs: audit.jobs,
            problems: audit.problems.clone(),
            forgotten: forgotten(&audit.forgotten),
        }
    }
}

impl TryFrom<v1::AuditResponse> for Audit {
    type Error = Error;

    fn try_from(audit: v1::AuditResponse) -> Result<Audit> {
        let read = |of: v1::audit_response::QueueBooks| {
            let books = of.books.unwrap_or_default().into();
            Ok((queue("queue", &of.queue)?, books))
        };
        Ok(Audit {
            queues: audit
                .queues
                .into_iter()
                .map(read)
                .collect::<Result<Vec<(QueueName, _)>>>()?,
            forgotten: audit.forgotten.unwrap_or_default().into(),
            jobs: audit.jobs,
            problems: audit.problems,
        })
    }
}

fn clock(base: Base) -> i32 {
    match base {
        Base::Steady => v1::Clock::Steady.into(),
        Base::Wall => v1::Clock::Wall.into(),
    }
}

fn base(field: &str, number: i32) -> Result<Base> {
    match choice(field, number)? {
        v1::Clock::Steady => Ok(Base::Steady),
        v1::Clock::Wall => Ok(Base::Wall),
        v1::Clock::Unspecified => Err(wrong(field, "is missing")),
    }
}

impl From<&Passage> for v1::Passage {
    fn from(passage: &Passage) -> v1::Passage {
        v1::Passage {
            job: Some((&passage.job).into()),
            front: passage.front,
            due: clock(passage.due),
            expires: clock(passage.expires),
            version: passage.version,
        }
    }
}

impl TryFrom<v1::Passage> for Passage {
    type Error = Error;

    fn try_from(passage: v1::Passage) -> Result<Passage> {
        Ok(Passage {
            job: need("job", passage.job)?.try_into()?,
            front: passage.front,
            due: base("due", passage.due)?,
            expires: base("expires", passage.expires)?,
            version: passage.version,
        })
    }
}

impl From<&Departure> for v1::PassagesRequest {
    fn from(departure: &Departure) -> v1::PassagesRequest {
        v1::PassagesRequest {
            queue: departure.queue.to_string(),
            cursor: departure.cursor.as_ref().map(|cursor| cursor.0.clone()),
            limit: Some(departure.limit),
        }
    }
}

impl TryFrom<v1::PassagesRequest> for Departure {
    type Error = Error;

    fn try_from(asked: v1::PassagesRequest) -> Result<Departure> {
        Ok(Departure {
            queue: queue("queue", &asked.queue)?,
            cursor: asked.cursor.map(Cursor),
            limit: asked.limit.unwrap_or(DEFAULT_LIMIT),
        })
    }
}

impl From<&Passages> for v1::PassagesResponse {
    fn from(passages: &Passages) -> v1::PassagesResponse {
        v1::PassagesResponse {
            store: passages.store.clone(),
            jobs: result(&passages.jobs),
            next_cursor: passages.next.as_ref().map(|cursor| cursor.0.clone()),
        }
    }
}

impl TryFrom<v1::PassagesResponse> for Passages {
    type Error = Error;

    fn try_from(passages: v1::PassagesResponse) -> Result<Passages> {
        Ok(Passages {
            store: passages.store,
            jobs: read_all("jobs", passages.jobs)?,
            next: passages.next_cursor.map(Cursor),
        })
    }
}

impl From<&Leaving> for v1::Leaving {
    fn from(leaving: &Leaving) -> v1::Leaving {
        v1::Leaving {
            id: leaving.id.0,
            version: leaving.version,
        }
    }
}

impl From<v1::Leaving> for Leaving {
    fn from(leaving: v1::Leaving) -> Leaving {
        Leaving {
            id: JobId(leaving.id),
            version: leaving.version,
        }
    }
}

impl From<&Result<()>> for v1::DepartResult {
    fn from(departed: &Result<()>) -> v1::DepartResult {
        v1::DepartResult {
            error: departed.as_ref().err().map(Into::into),
        }
    }
}

impl From<v1::DepartResult> for Result<()> {
    fn from(departed: v1::DepartResult) -> Result<()> {
        departed.error.map_or(Ok(()), |error| Err(error.into()))
    }
}

impl From<&Adoption> for v1::AdoptRequest {
    fn from(adoption: &Adoption) -> v1::AdoptRequest {
        let (step, jobs) = match &adoption.step {
            Step::Look => (v1::Step::Look, &[][..]),
            Step::Begin => (v1::Step::Begin, &[][..]),
            Step::Jobs(jobs) => (v1::Step::Jobs, &jobs[..]),
            Step::End => (v1::Step::End, &[][..]),
            Step::Leave => (v1::Step::Leave, &[][..]),
            Step::Stay => (v1::Step::Stay, &[][..]),
        };
        v1::AdoptRequest {
            queue: adoption.queue.to_string(),
            store: adoption.store.clone(),
            run: adoption.run,
            step: step.into(),
            jobs: result(jobs),
        }
    }
}

/// A part of a move.
pub fn adoption(asked: v1::AdoptRequest) -> Result<Adoption> {
    let step = match choice("step", asked.step)? {
        v1::Step::Unspecified => return Err(wrong("step", "is missing")),
        v1::Step::Jobs => Step::Jobs(read_all("jobs", asked.jobs)?),
        _ if !asked.jobs.is_empty() => return Err(wrong("jobs", "goes with step JOBS only")),
        v1::Step::Look => Step::Look,
        v1::Step::Begin => Step::Begin,
        v1::Step::End => Step::End,
        v1::Step::Leave => Step::Leave,
        v1::Step::Stay => Step::Stay,
    };
    Ok(Adoption {
        queue: queue("queue", &asked.queue)?,
        store: asked.store,
        run: asked.run,
        step,
    })
}

impl From<&Adopted> for v1::AdoptResponse {
    fn from(adopted: &Adopted) -> v1::AdoptResponse {
        use v1::adopt_result::Result as Answer;
        let answer = |adopted: &Result<JobId>| v1::AdoptResult {
            result: Some(match adopted {
                Ok(id) => Answer::Ok(id.0),
                Err(error) => Answer::Error(error.into()),
            }),
        };
        let last = adopted.last.as_ref();
        v1::AdoptResponse {
            last: last.map(|jobs| v1::adopt_response::Last { jobs: result(jobs) }),
            leaving: adopted.leaving.clone(),
            results: adopted.results.iter().map(answer).collect(),
        }
    }
}

impl TryFrom<v1::AdoptResponse> for Adopted {
    type Error = Error;

    fn try_from(adopted: v1::AdoptResponse) -> Result<Adopted> {
        use v1::adopt_result::Result as Answer;
        let read = |answer: v1::AdoptResult| {
            Ok(match need("result", answer.result)? {
                Answer::Ok(id) => Ok(JobId(id)),
                Answer::Error(error) => Err(error.into()),
            })
        };
        let leaving = |last: v1::adopt_response::Last| last.jobs.into_iter().map(Into::into);
        Ok(Adopted {
            last: adopted.last.map(|last| leaving(last).collect()),
            leaving: adopted.leaving,
            results: adopted
                .results
                .into_iter()
                .map(read)
                .collect::<Result<_>>()?,
        })
    }
}
