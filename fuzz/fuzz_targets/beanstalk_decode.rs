//! beanstalkd's port: requests as clients write them, some of them wrong, one behind the other and cut anywhere.

#![no_main]

use arbitrary::Arbitrary;
use auxo_fuzz::beanstalk;
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Talk {
    largest: u8,
    parts: Vec<Part>,
    changes: Vec<(u16, u8)>,
    cuts: Vec<u8>,
}

#[derive(Arbitrary, Debug)]
enum Part {
    Put {
        numbers: [Number; 3],
        /// What is said of the size, if it is not the truth.
        size: Option<Number>,
        garbage: Vec<u8>,
        body: Vec<u8>,
    },
    Line {
        word: Word,
        arguments: Vec<Argument>,
    },
    /// So many letters without an end.
    Long(u16),
    End,
    Any(Vec<u8>),
}

#[derive(Arbitrary, Debug)]
enum Argument {
    Number(Number),
    Tube(Vec<u8>),
    Nothing,
}

#[derive(Arbitrary, Debug)]
enum Number {
    Small(u8),
    Any(u64),
    Signed(i64),
    Text(String),
}

macro_rules! words {
    ($($name:ident $text:literal,)*) => {
        #[derive(Arbitrary, Clone, Copy, Debug)]
        enum Word { $($name,)* }

        impl Word {
            fn text(self) -> &'static str {
                match self { $(Word::$name => $text,)* }
            }
        }
    };
}

words! {
    Put "put",
    Reserve "reserve",
    ReserveWithTimeout "reserve-with-timeout",
    ReserveJob "reserve-job",
    Delete "delete",
    Release "release",
    Bury "bury",
    Touch "touch",
    Use "use",
    Watch "watch",
    Ignore "ignore",
    Peek "peek",
    PeekReady "peek-ready",
    PeekDelayed "peek-delayed",
    PeekBuried "peek-buried",
    Kick "kick",
    KickJob "kick-job",
    StatsJob "stats-job",
    StatsTube "stats-tube",
    Stats "stats",
    ListTubes "list-tubes",
    ListTubeUsed "list-tube-used",
    ListTubesWatched "list-tubes-watched",
    PauseTube "pause-tube",
    Quit "quit",
    Get "GET / HTTP/1.1",
    UpperPut "PUT /",
    Http " HTTP/1.1",
    Host "Host: localhost",
}

impl Number {
    fn text(&self) -> String {
        match self {
            Number::Small(number) => number.to_string(),
            Number::Any(number) => number.to_string(),
            Number::Signed(number) => number.to_string(),
            Number::Text(text) => text.clone(),
        }
    }
}

impl Part {
    fn write(&self, bytes: &mut Vec<u8>) {
        match self {
            Part::Put {
                numbers,
                size,
                garbage,
                body,
            } => {
                let size = size.as_ref().map_or(body.len().to_string(), Number::text);
                let [priority, delay, ttr] = numbers.each_ref().map(Number::text);
                bytes.extend(format!("put {priority} {delay} {ttr} {size}").bytes());
                bytes.extend(garbage);
                bytes.extend(b"\r\n");
                bytes.extend(body);
                bytes.extend(b"\r\n");
            }
            Part::Line { word, arguments } => {
                bytes.extend(word.text().bytes());
                for argument in arguments {
                    bytes.push(b' ');
                    match argument {
                        Argument::Number(number) => bytes.extend(number.text().bytes()),
                        Argument::Tube(name) => bytes.extend(name),
                        Argument::Nothing => {}
                    }
                }
                bytes.extend(b"\r\n");
            }
            Part::Long(length) => bytes.resize(bytes.len() + usize::from(length % 500), b'x'),
            Part::End => bytes.extend(b"\r\n"),
            Part::Any(any) => bytes.extend(any),
        }
    }
}

fuzz_target!(|talk: Talk| {
    let mut bytes = Vec::new();
    talk.parts.iter().for_each(|part| part.write(&mut bytes));
    for (at, to) in talk.changes {
        if let Some(byte) = bytes.get_mut(usize::from(at)) {
            *byte = to;
        }
    }
    beanstalk::check(&bytes, &talk.cuts, usize::from(talk.largest));
});
