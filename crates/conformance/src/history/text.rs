//! An event as a line, and back.

use std::fmt;
use std::str::FromStr;

use auxo_core::Code;
use auxo_core::engine::Accepted;

use super::{Event, Op, Phase};

const HOW: [(Accepted, &str); 3] = [
    (Accepted::New, "new"),
    (Accepted::Existing, "existing"),
    (Accepted::Replaced, "replaced"),
];

impl fmt::Display for Event {
    /// The line, without its end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (op, phase) = (self.op.as_str(), self.phase.as_str());
        write!(f, "{} {} {} {op} {phase}", self.at, self.process, self.call)?;
        field(f, "id", self.id)?;
        field(f, "token", self.token)?;
        field(f, "attempt", self.attempt)?;
        field(f, "engine", self.engine)?;
        field(f, "deadline", self.deadline)?;
        field(f, "due", self.due)?;
        field(f, "hash", self.hash.map(|hash| format!("{hash:016x}")))?;
        field(f, "queue", self.queue.as_deref().map(escape))?;
        field(f, "priority", self.priority)?;
        field(f, "key", self.key.as_deref().map(escape))?;
        field(f, "window", self.window)?;
        field(f, "limit", self.limit)?;
        field(f, "state", self.state)?;
        let how = HOW.iter().find(|(how, _)| Some(*how) == self.how);
        field(f, "how", how.map(|(_, name)| name))?;
        field(f, "code", self.code)
    }
}

fn field(f: &mut fmt::Formatter<'_>, name: &str, value: Option<impl fmt::Display>) -> fmt::Result {
    match value {
        Some(value) => write!(f, " {name}={value}"),
        None => Ok(()),
    }
}

/// Keeps a key from looking like the end of a word or of a line.
fn escape(key: &str) -> String {
    key.replace('%', "%25")
        .replace(' ', "%20")
        .replace('\n', "%0A")
}

fn unescape(key: &str) -> String {
    key.replace("%0A", "\n")
        .replace("%20", " ")
        .replace("%25", "%")
}

impl FromStr for Event {
    type Err = String;

    fn from_str(line: &str) -> Result<Event, String> {
        let mut words = line.split(' ');
        let mut word = |what| words.next().ok_or_else(|| format!("no {what}"));
        let mut event = Event {
            at: number("time", word("time")?)?,
            process: number("process", word("process")?)?,
            call: number("call", word("call")?)?,
            op: named("operation", word("operation")?, &Op::ALL, Op::as_str)?,
            phase: named("phase", word("phase")?, &Phase::ALL, Phase::as_str)?,
            ..Event::default()
        };
        for word in words {
            let (name, value) = word.split_once('=').ok_or(format!("{word:?} has no ="))?;
            set(&mut event, name, value)?;
        }
        Ok(event)
    }
}

fn set(event: &mut Event, name: &str, value: &str) -> Result<(), String> {
    match name {
        "id" => event.id = Some(number(name, value)?),
        "token" => event.token = Some(number(name, value)?),
        "attempt" => event.attempt = Some(number(name, value)?),
        "engine" => event.engine = Some(number(name, value)?),
        "deadline" => event.deadline = Some(number(name, value)?),
        "due" => event.due = Some(number(name, value)?),
        "hash" => {
            let hash = u64::from_str_radix(value, 16);
            event.hash = Some(hash.map_err(|_| format!("hash {value:?}"))?);
        }
        "queue" => event.queue = Some(unescape(value)),
        "priority" => event.priority = Some(number(name, value)?),
        "key" => event.key = Some(unescape(value)),
        "window" => event.window = Some(number(name, value)?),
        "limit" => event.limit = Some(number(name, value)?),
        "state" => event.state = Some(number(name, value)?),
        "how" => event.how = Some(named(name, value, &HOW, |(_, name)| name)?.0),
        "code" => event.code = Some(named(name, value, &Code::ALL, Code::as_str)?),
        _ => return Err(format!("no field is named {name:?}")),
    }
    Ok(())
}

fn number<T: FromStr>(name: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{name} {value:?}"))
}

fn named<T: Copy>(
    what: &str,
    word: &str,
    all: &[T],
    name: impl Fn(T) -> &'static str,
) -> Result<T, String> {
    let found = all.iter().find(|one| name(**one) == word);
    found.copied().ok_or(format!("{what} {word:?}"))
}
