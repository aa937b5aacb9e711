//! Commands out of bytes, however these were cut.

use bytes::{Buf, Bytes, BytesMut};

use super::args::{Args, Place};
use super::inline::split;
use super::parse::{Reader, parse};
use super::{ARGUMENTS, Command, INLINE, Reply, SLACK};
use crate::beanstalk::{Http, refuse_http, refuse_long_http};

/// The longest first line of an array or of an argument: a sign, a number of 64 bits, CR LF, and some zeros.
const HEADER: usize = 32;
/// How many places of arguments are kept room for from one request to the next.
const KEPT: usize = 64;

/// Reads the commands of one connection.
///
/// ```
/// use auxo_wire::resp::{Command, Decoder, Item};
/// use bytes::BytesMut;
///
/// let mut decoder = Decoder::new(65_535, 1);
/// let mut bytes = BytesMut::from("*2\r\n$4\r\nQLEN\r\n$4\r\nmail\r\nTI");
/// let mail = "mail".parse().unwrap();
/// assert_eq!(decoder.decode(&mut bytes), Ok(Some(Item::Command(Command::QLen(mail)))));
/// assert_eq!(decoder.decode(&mut bytes), Ok(None));
/// bytes.extend_from_slice(b"ME\r\n");
/// assert_eq!(decoder.decode(&mut bytes), Ok(Some(Item::Command(Command::Time))));
/// ```
#[derive(Debug)]
pub struct Decoder {
    largest: usize,
    reader: Reader,
    state: State,
    /// The arguments of the array that is being read, and of the line that was.
    places: Vec<Place>,
}

/// What comes next out of a connection, in the order in which it must be answered.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// A command.
    Command(Command),
    /// Something that is answered with this, and nothing is done.
    Wrong(Reply),
}

/// Nobody can tell where the next command begins, or nobody may obey it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The other side speaks HTTP: a browser that was made to send something here.
    Http,
    /// The framing is wrong; this is what to say about it.
    Protocol(String),
}

impl Broken {
    /// The last word to the other side, if there is one.
    pub fn reply(&self) -> Option<Reply> {
        match self {
            Broken::Http => None,
            Broken::Protocol(what) => Some(Reply::wrong(format_args!("Protocol error: {what}"))),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Nothing has begun. So many bytes at the beginning of the buffer have no end of a line.
    Begin { searched: usize },
    /// An array that so many arguments are missing of. The next one begins here, and that many bytes of it are not there.
    Array {
        left: usize,
        at: usize,
        missing: usize,
    },
}

const BEGIN: State = State::Begin { searched: 0 };

enum Step {
    /// Look again: something else is waited for now.
    On,
    /// There is nothing to do without more bytes.
    Wait,
    /// This came out.
    Item(Item),
}

impl Decoder {
    /// Reads jobs of at most `largest` bytes, for a store that keeps so many copies of each.
    pub fn new(largest: usize, copies: u16) -> Decoder {
        Decoder {
            largest,
            reader: Reader::new(copies),
            state: BEGIN,
            places: Vec::new(),
        }
    }

    /// The next item, if its bytes are all there. They are taken out of the buffer.
    pub fn decode(&mut self, buf: &mut BytesMut) -> Result<Option<Item>, Broken> {
        loop {
            let step = match self.state {
                State::Array { left, at, .. } => self.arguments(buf, left, at)?,
                State::Begin { .. } if buf.is_empty() => Step::Wait,
                State::Begin { .. } if buf[0] == b'*' => self.array(buf)?,
                State::Begin { searched } => self.line(buf, searched)?,
            };
            match step {
                Step::On => {}
                Step::Wait => return Ok(None),
                Step::Item(item) => return Ok(Some(item)),
            }
        }
    }

    /// How many bytes of an argument are still to come.
    pub fn missing(&self) -> usize {
        match self.state {
            State::Array { missing, .. } => missing,
            State::Begin { .. } => 0,
        }
    }

    /// The first line of an array.
    fn array(&mut self, buf: &mut BytesMut) -> Result<Step, Broken> {
        let Some((count, end)) = header(buf, 0, "mbulk count", "multibulk length")? else {
            return Ok(Step::Wait);
        };
        if count > ARGUMENTS as i64 {
            return Err(broken("invalid multibulk length"));
        }
        if count <= 0 {
            buf.advance(end);
            return Ok(Step::On);
        }
        self.forget();
        self.state = State::Array {
            left: count as usize,
            at: end,
            missing: 0,
        };
        Ok(Step::On)
    }

    /// The arguments of an array, as far as they are there. Nothing is taken out of the buffer before the last one.
    fn arguments(
        &mut self,
        buf: &mut BytesMut,
        mut left: usize,
        mut at: usize,
    ) -> Result<Step, Broken> {
        while left > 0 {
            let argument = self.argument(buf, at)?;
            let (begin, end) = match argument {
                Argument::Whole(place) => place,
                Argument::Lacks(missing) => {
                    self.state = State::Array { left, at, missing };
                    return Ok(Step::Wait);
                }
            };
            self.places.push((begin, end));
            at = end + 2;
            left -= 1;
        }
        self.state = BEGIN;
        let frame = buf.split_to(at).freeze();
        Ok(Step::Item(self.item(&frame)))
    }

    fn argument(&self, buf: &[u8], at: usize) -> Result<Argument, Broken> {
        match buf.get(at) {
            None => return Ok(Argument::Lacks(0)),
            Some(b'$') => {}
            Some(other) => {
                let shown = match other.is_ascii_graphic() {
                    true => char::from(*other),
                    false => '?',
                };
                return Err(broken(&format!("expected '$', got '{shown}'")));
            }
        }
        let Some((length, begin)) = header(buf, at, "bulk count", "bulk length")? else {
            return Ok(Argument::Lacks(0));
        };
        // A request has one large argument, or two: a job, and what is said about it.
        let most = self.largest + SLACK;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > most || begin + length > 2 * most + INLINE {
            return Err(broken("invalid bulk length"));
        }
        let end = begin + length;
        match buf.get(end..end + 2) {
            None => Ok(Argument::Lacks(end + 2 - buf.len())),
            Some(b"\r\n") => Ok(Argument::Whole((begin, end))),
            Some(_) => Err(broken("expected CRLF behind an argument")),
        }
    }

    /// A line of words.
    fn line(&mut self, buf: &mut BytesMut, searched: usize) -> Result<Step, Broken> {
        let found = buf[searched..].iter().position(|byte| *byte == b'\n');
        let Some(found) = found else {
            if buf.len() > INLINE {
                long_http(buf)?;
                return Err(broken("too big inline request"));
            }
            self.state = State::Begin {
                searched: buf.len(),
            };
            return Ok(Step::Wait);
        };
        self.state = BEGIN;
        let line = buf.split_to(searched + found + 1);
        if line.len() > INLINE {
            long_http(&line)?;
            return Err(broken("too big inline request"));
        }
        refuse_http(&line).map_err(|Http| Broken::Http)?;
        self.forget();
        let words =
            split(&line, &mut self.places).map_err(|_| broken("unbalanced quotes in request"))?;
        match self.places.len() {
            0 => Ok(Step::On),
            1..=ARGUMENTS => Ok(Step::Item(self.item(&words.into()))),
            _ => Err(broken("too big inline request")),
        }
    }

    fn item(&mut self, frame: &Bytes) -> Item {
        let args = Args::new(frame, &self.places);
        match parse(&mut self.reader, args) {
            Ok(command) => Item::Command(command),
            Err(reply) => Item::Wrong(reply),
        }
    }

    /// Makes room for the places of another request.
    fn forget(&mut self) {
        self.places.clear();
        self.places.shrink_to(KEPT);
    }
}

enum Argument {
    /// It is here.
    Whole(Place),
    /// So many bytes are missing for sure.
    Lacks(usize),
}

fn broken(what: &str) -> Broken {
    Broken::Protocol(what.to_owned())
}

fn long_http(line: &[u8]) -> Result<(), Broken> {
    refuse_long_http(line).map_err(|Http| Broken::Http)
}

/// The number in a line like `*3`, and where the line ends. `None` if it is not all there.
fn header(
    buf: &[u8],
    at: usize,
    long: &str,
    invalid: &str,
) -> Result<Option<(i64, usize)>, Broken> {
    let invalid = || broken(&format!("invalid {invalid}"));
    let line = &buf[at + 1..buf.len().min(at + HEADER)];
    let Some(length) = line.iter().position(|byte| *byte == b'\r') else {
        return match at + HEADER <= buf.len() {
            true => Err(broken(&format!("too big {long} string"))),
            false => Ok(None),
        };
    };
    let end = at + 1 + length + 2;
    match buf.get(end - 1) {
        None => return Ok(None),
        Some(b'\n') => {}
        Some(_) => return Err(invalid()),
    }
    let count = count(&line[..length]).ok_or_else(invalid)?;
    Ok(Some((count, end)))
}

/// A number in decimal; one below zero counts as minus one, if it may be there at all.
fn count(digits: &[u8]) -> Option<i64> {
    let (sign, digits) = match digits {
        [b'-', digits @ ..] => (-1, digits),
        digits => (1, digits),
    };
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_i64, |value, digit| {
        let digit = digit.is_ascii_digit().then(|| i64::from(digit - b'0'))?;
        value.checked_mul(10)?.checked_add(digit * sign)
    })
}
