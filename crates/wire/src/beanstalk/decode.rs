//! Requests out of bytes, however these were cut.

use bytes::{Buf, Bytes, BytesMut};

use super::line::{Line, parse};
use super::{LINE, Reply, Request};

/// Reads the requests of one connection.
///
/// ```
/// use auxo_wire::beanstalk::{Decoder, Item, Request};
/// use bytes::BytesMut;
///
/// let mut decoder = Decoder::new(65_535);
/// let mut bytes = BytesMut::from("delete 17\r\npeek");
/// assert_eq!(decoder.decode(&mut bytes), Ok(Some(Item::Request(Request::Delete(17)))));
/// assert_eq!(decoder.decode(&mut bytes), Ok(None));
/// bytes.extend_from_slice(b"-ready\r\n");
/// assert_eq!(decoder.decode(&mut bytes), Ok(Some(Item::Request(Request::PeekReady))));
/// ```
#[derive(Debug)]
pub struct Decoder {
    largest: usize,
    state: State,
}

/// What comes next out of a connection, in the order in which it must be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A request.
    Request(Request),
    /// Something that is answered with this, and nothing is done.
    Wrong(Reply),
}

/// The other side speaks HTTP: a browser that was made to send something here. Nothing of it may be obeyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Http;

#[derive(Debug)]
enum State {
    /// A line; so many bytes at the beginning of the buffer have no end of it.
    Line { searched: usize },
    /// The body of a put.
    Body(Head),
    /// So many bytes that nobody wants, and then this answer.
    Skip(u64, Reply),
    /// The end of a line that is too long.
    End,
}

#[derive(Clone, Copy, Debug)]
struct Head {
    priority: u32,
    delay: u32,
    ttr: u32,
    size: usize,
}

impl Decoder {
    /// Reads jobs of at most `largest` bytes.
    pub fn new(largest: usize) -> Decoder {
        Decoder {
            largest,
            state: State::Line { searched: 0 },
        }
    }

    /// The next item, if its bytes are all there. They are taken out of the buffer, and so are bytes that nobody wants.
    pub fn decode(&mut self, buf: &mut BytesMut) -> Result<Option<Item>, Http> {
        loop {
            let step = match &mut self.state {
                State::Line { searched } => match end_of_line(buf, *searched) {
                    Some(length) => self.line(buf, length)?,
                    None => {
                        *searched = buf.len().saturating_sub(1);
                        self.part_of_line(buf)?
                    }
                },
                State::Body(head) => match buf.len() < head.size + 2 {
                    true => Step::Wait,
                    false => Step::Item(head.put(buf.split_to(head.size + 2).freeze())),
                },
                State::Skip(left, reply) => {
                    let here = usize::try_from(*left).map_or(buf.len(), |left| left.min(buf.len()));
                    buf.advance(here);
                    *left -= here as u64;
                    match *left {
                        0 => Step::Item(Item::Wrong(reply.clone())),
                        _ => Step::Wait,
                    }
                }
                State::End => end_of_long_line(buf),
            };
            match step {
                Step::On => {}
                Step::Wait => return Ok(None),
                Step::Item(item) => {
                    self.state = State::Line { searched: 0 };
                    return Ok(Some(item));
                }
            }
        }
    }

    /// Whether the beginning of a request was taken out of the buffer, and the rest is to come.
    pub fn is_amid(&self) -> bool {
        !matches!(self.state, State::Line { .. })
    }

    /// How many bytes of a body are still to come that will be kept.
    pub fn missing(&self, buf: &BytesMut) -> usize {
        match &self.state {
            State::Body(head) => (head.size + 2).saturating_sub(buf.len()),
            _ => 0,
        }
    }

    fn line(&mut self, buf: &mut BytesMut, length: usize) -> Result<Step, Http> {
        if length > LINE {
            refuse_long_http(buf)?;
            buf.advance(length);
            return Ok(Step::Item(Item::Wrong(Reply::BadFormat)));
        }
        refuse_http(&buf[..length])?;
        let line = parse(&buf[..length - 2]);
        buf.advance(length);
        Ok(match line {
            Ok(Line::Whole(request)) => Step::Item(Item::Request(request)),
            Err(reply) => Step::Item(Item::Wrong(reply)),
            Ok(Line::Put { size, .. }) if size as usize > self.largest => {
                self.state = State::Skip(u64::from(size) + 2, Reply::JobTooBig);
                Step::On
            }
            Ok(Line::Put { garbage: true, .. }) => Step::Item(Item::Wrong(Reply::BadFormat)),
            Ok(Line::Put {
                priority,
                delay,
                ttr,
                size,
                ..
            }) => {
                self.state = State::Body(Head {
                    priority,
                    delay,
                    ttr,
                    size: size as usize,
                });
                Step::On
            }
        })
    }

    fn part_of_line(&mut self, buf: &mut BytesMut) -> Result<Step, Http> {
        if buf.len() < LINE {
            return Ok(Step::Wait);
        }
        refuse_long_http(buf)?;
        self.state = State::End;
        Ok(Step::On)
    }
}

enum Step {
    /// Look again: something else is waited for now.
    On,
    /// There is nothing to do without more bytes.
    Wait,
    /// This came out.
    Item(Item),
}

impl Head {
    fn put(self, mut body: Bytes) -> Item {
        if !body.ends_with(b"\r\n") {
            return Item::Wrong(Reply::ExpectedCrlf);
        }
        body.truncate(self.size);
        Item::Request(Request::Put {
            priority: self.priority,
            delay: self.delay,
            ttr: self.ttr,
            body,
        })
    }
}

/// Where the first line ends, CR LF included. So many bytes were searched before, but the last of them may be a CR.
fn end_of_line(buf: &[u8], searched: usize) -> Option<usize> {
    let found = buf[searched..].windows(2).position(|two| two == b"\r\n")?;
    Some(searched + found + 2)
}

fn end_of_long_line(buf: &mut BytesMut) -> Step {
    match end_of_line(buf, 0) {
        Some(length) => {
            buf.advance(length);
            Step::Item(Item::Wrong(Reply::BadFormat))
        }
        None => {
            // A CR at the end may be the first half of what is looked for.
            let keep = usize::from(buf.last() == Some(&b'\r'));
            buf.advance(buf.len() - keep);
            Step::Wait
        }
    }
}

/// The methods whose names alone are no sign of a browser.
const METHODS: [&[u8]; 6] = [
    b"HEAD ",
    b"PUT ",
    b"DELETE ",
    b"OPTIONS ",
    b"PATCH ",
    b"PRI ",
];

/// A browser can be made to send lines here, but not to leave out its first one, nor the header that every request has.
pub(crate) fn refuse_http(line: &[u8]) -> Result<(), Http> {
    let is_request = || line.windows(6).any(|six| six == b" HTTP/");
    match begins_http(line) || begins_method(line) && is_request() {
        true => Err(Http),
        false => Ok(()),
    }
}

/// The same of a line that is too long. Its end may not be there yet, and what is behind must not depend on how it was cut: so
/// its beginning is enough.
pub(crate) fn refuse_long_http(line: &[u8]) -> Result<(), Http> {
    match begins_http(line) || begins_method(line) {
        true => Err(Http),
        false => Ok(()),
    }
}

fn begins_http(line: &[u8]) -> bool {
    let host = |start: &[u8]| start.eq_ignore_ascii_case(b"host:");
    line.starts_with(b"GET ") || line.starts_with(b"POST ") || line.get(..5).is_some_and(host)
}

fn begins_method(line: &[u8]) -> bool {
    METHODS.iter().any(|method| line.starts_with(method))
}
