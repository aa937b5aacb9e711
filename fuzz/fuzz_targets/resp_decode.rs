//! Disque's port: commands as clients send and people type them, some of them wrong, one behind the other and cut anywhere.

#![no_main]

use arbitrary::Arbitrary;
use auxo_core::{JobId, Token};
use auxo_fuzz::resp;
use auxo_wire::resp::{COMMANDS, Id, Life};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Talk {
    parts: Vec<Part>,
    changes: Vec<(u16, u8)>,
    cuts: Vec<u8>,
}

#[derive(Arbitrary, Debug)]
enum Part {
    /// As an array; each argument's length is told right, unless it is said otherwise.
    Sent(Words, Option<(u8, i64)>),
    /// As a line.
    Typed(Words),
    /// The beginning of an array.
    Array(i64),
    /// So many letters without an end.
    Long(u32),
    End,
    Any(Vec<u8>),
}

#[derive(Arbitrary, Debug)]
struct Words {
    command: u8,
    arguments: Vec<Argument>,
}

#[derive(Arbitrary, Debug)]
enum Argument {
    Known(u8),
    Small(u8),
    Number(i64),
    Job(u64),
    Delivery(u64, u64, u64, u16),
    Token(u64, u64, u64),
    Any(Vec<u8>),
}

const KNOWN: &[&str] = &[
    "q",
    "mail",
    "from",
    "count",
    "ttl",
    "timeout",
    "nohang",
    "withcounters",
    "retry",
    "delay",
    "replicate",
    "maxlen",
    "async",
    "busyloop",
    "minlen",
    "importrate",
    "queue",
    "state",
    "reply",
    "all",
    "id",
    "active",
    "queued",
    "acked",
    "dead",
    "none",
    "in",
    "out",
    "bcast",
    "auth",
    "setname",
    "info",
    "docs",
    "list",
    "get",
    "getname",
    "setinfo",
    "no-evict",
    "on",
    "off",
    "skip",
    "max",
    "wait",
    "ttr",
    "worker",
    "job",
    "ack",
    "fail",
    "release",
    "bury",
    "snooze",
    "result",
    "progress",
    "error",
    "priority",
    "headers",
    "backoff",
    "kind",
    "key",
    "on_duplicate",
    "return",
    "replace",
    "key_window",
    "1h30m",
    "2030-01-31T09:00:00Z",
    "{}",
    "{\"a\":\"b\"}",
    "{\"key\":\"k\",\"delay\":\"1s\"}",
    "{\"kind\":\"fixed\",\"delay\":1}",
    "",
];

impl Argument {
    fn bytes(&self) -> Vec<u8> {
        let token = |job: &u64, counter: &u64, nonce: &u64| Token {
            job: JobId(*job),
            counter: *counter,
            nonce: *nonce,
        };
        let life = |minutes: u16| {
            let ttl = std::time::Duration::from_secs(60 * u64::from(minutes));
            Life::new(Some(ttl), ttl)
        };
        match self {
            Argument::Known(place) => KNOWN[usize::from(*place) % KNOWN.len()].into(),
            Argument::Small(number) => number.to_string().into(),
            Argument::Number(number) => number.to_string().into(),
            Argument::Job(id) => Id::of_job(JobId(*id), life(1440)).into(),
            Argument::Delivery(job, counter, nonce, minutes) => {
                let token = token(job, counter, nonce);
                match Id::of_delivery(token, life(*minutes)) {
                    Some(id) => {
                        // An id that was given out is known again.
                        let bare = (token.counter, token.nonce) == (0, 0);
                        let known = Id::read(&id);
                        match bare {
                            true => assert_eq!(known, Some(Id::Job(token.job))),
                            false => assert_eq!(known, Some(Id::Delivery(token))),
                        }
                        id.into()
                    }
                    None => token.to_string().into(),
                }
            }
            Argument::Token(job, counter, nonce) => token(job, counter, nonce).to_string().into(),
            Argument::Any(bytes) => bytes.clone(),
        }
    }
}

impl Words {
    fn all(&self) -> Vec<Vec<u8>> {
        let name = COMMANDS[usize::from(self.command) % COMMANDS.len()].name;
        let arguments = self.arguments.iter().map(Argument::bytes);
        [name.into()].into_iter().chain(arguments).collect()
    }
}

impl Part {
    fn write(&self, bytes: &mut Vec<u8>) {
        match self {
            Part::Sent(words, None) => bytes.extend(resp::request(&words.all())),
            Part::Sent(words, Some((place, length))) => {
                let words = words.all();
                let wrong = usize::from(*place) % words.len();
                bytes.extend(format!("*{}\r\n", words.len()).bytes());
                for (place, word) in words.iter().enumerate() {
                    match place == wrong {
                        true => bytes.extend(format!("${length}\r\n").bytes()),
                        false => bytes.extend(format!("${}\r\n", word.len()).bytes()),
                    }
                    bytes.extend(word);
                    bytes.extend(b"\r\n");
                }
            }
            Part::Typed(words) => {
                for word in words.all() {
                    bytes.extend(word);
                    bytes.push(b' ');
                }
                bytes.extend(b"\r\n");
            }
            Part::Array(count) => bytes.extend(format!("*{count}\r\n").bytes()),
            Part::Long(length) => bytes.resize(bytes.len() + (length % 70_000) as usize, b'x'),
            Part::End => bytes.extend(b"\r\n"),
            Part::Any(any) => bytes.extend(any),
        }
    }
}

fuzz_target!(|talk: Talk| {
    let mut bytes = Vec::new();
    for part in &talk.parts {
        part.write(&mut bytes);
        if let Part::Sent(words, None) | Part::Typed(words) = part {
            resp::check_words(&words.all());
        }
    }
    for (at, to) in talk.changes {
        if let Some(byte) = bytes.get_mut(usize::from(at)) {
            *byte = to;
        }
    }
    // A few long lines are enough to reach every limit.
    bytes.truncate(300_000);
    resp::check(&bytes, &talk.cuts);
});
