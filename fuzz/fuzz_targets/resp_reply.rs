//! Disque's port: what is answered is read by a client as it was meant, whatever is in it.

#![no_main]

use arbitrary::Arbitrary;
use auxo_core::{Code, Error, JobId};
use auxo_fuzz::resp;
use auxo_wire::resp::{Id, Life, Reply};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
enum Answer {
    Ok,
    Id(u64),
    Number(i64),
    Bytes(Vec<u8>),
    Null,
    NullArray,
    List(Vec<Answer>),
    Map(Vec<(Answer, Answer)>),
    Bool(bool),
    Double(f64),
    Error(String),
    /// One of our own errors, by the place of its code.
    Refusal(u8, String),
    /// Our JSON as RESP has it.
    Json(String),
}

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Reply {
        match answer {
            Answer::Ok => Reply::OK,
            Answer::Id(id) => Reply::Id(Id::of_job(JobId(id), Life::new(None, Default::default()))),
            Answer::Number(number) => Reply::Number(number),
            Answer::Bytes(bytes) => Reply::Bulk(bytes.into()),
            Answer::Null => Reply::Null,
            Answer::NullArray => Reply::NullArray,
            Answer::List(items) => Reply::Array(items.into_iter().map(Reply::from).collect()),
            Answer::Map(pairs) => {
                let pair = |(name, value)| (Reply::from(name), Reply::from(value));
                Reply::Map(pairs.into_iter().map(pair).collect())
            }
            Answer::Bool(value) => Reply::Bool(value),
            Answer::Double(value) => Reply::Double(value),
            Answer::Error(text) => Reply::wrong(text),
            Answer::Refusal(code, text) => {
                let code = Code::ALL[usize::from(code) % Code::ALL.len()];
                Reply::from(&Error::new(code, text))
            }
            Answer::Json(text) => match serde_json::from_str::<serde_json::Value>(&text) {
                Ok(value) => value.into(),
                Err(_) => Reply::Null,
            },
        }
    }
}

fuzz_target!(|answer: Answer| resp::answered(&answer.into()));
