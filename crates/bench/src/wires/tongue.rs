//! The languages: requests as bytes, and where an answer ends.

use std::fmt;
use std::ops::Range;

/// A language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tongue {
    /// beanstalkd's.
    Beanstalk,
    /// Disque's, over RESP.
    Disque,
    /// Redis lists.
    Lists,
}

impl fmt::Display for Tongue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Tongue::Beanstalk => "beanstalk",
            Tongue::Disque | Tongue::Lists => "resp",
        })
    }
}

impl Tongue {
    /// A job, due after so many seconds.
    pub fn put(self, payload: &[u8], delay: u64, out: &mut Vec<u8>) {
        match self {
            Tongue::Beanstalk => {
                let head = format!("put 1024 {delay} 60 {}\r\n", payload.len());
                out.extend_from_slice(head.as_bytes());
                out.extend_from_slice(payload);
                out.extend_from_slice(b"\r\n");
            }
            Tongue::Disque if delay > 0 => {
                let delay = delay.to_string();
                let words: [&[u8]; 6] = [
                    b"ADDJOB",
                    b"bench",
                    payload,
                    b"0",
                    b"DELAY",
                    delay.as_bytes(),
                ];
                command(&words, out);
            }
            Tongue::Disque => command(&[b"ADDJOB", b"bench", payload, b"0"], out),
            Tongue::Lists => command(&[b"LPUSH", b"bench", payload], out),
        }
    }

    /// What a connection says first.
    pub fn greeting(self) -> &'static [u8] {
        match self {
            Tongue::Beanstalk => b"use bench\r\nwatch bench\r\n",
            Tongue::Disque | Tongue::Lists => b"PING\r\nPING\r\n",
        }
    }

    /// The next job, which may have to be waited for.
    pub fn wait(self, out: &mut Vec<u8>) {
        match self {
            Tongue::Lists => {
                let words: [&[u8]; 6] = [b"BLMOVE", b"bench", b"busy", b"RIGHT", b"LEFT", b"0"];
                command(&words, out);
            }
            other => other.take(out),
        }
    }

    /// The next job, which is there.
    pub fn take(self, out: &mut Vec<u8>) {
        match self {
            Tongue::Beanstalk => out.extend_from_slice(b"reserve\r\n"),
            Tongue::Disque => command(&[b"GETJOB", b"FROM", b"bench"], out),
            Tongue::Lists => command(&[b"LMOVE", b"bench", b"busy", b"RIGHT", b"LEFT"], out),
        }
    }

    /// A job is done.
    pub fn done(self, id: &[u8], out: &mut Vec<u8>) {
        match self {
            Tongue::Beanstalk => {
                out.extend_from_slice(b"delete ");
                out.extend_from_slice(id);
                out.extend_from_slice(b"\r\n");
            }
            Tongue::Disque => command(&[b"ACKJOB", id], out),
            Tongue::Lists => command(&[b"LREM", b"busy", b"1", id], out),
        }
    }

    /// The first answer of some bytes, if it is complete: how long it is, where the name of a job is in it, and where its payload.
    pub fn answer(self, bytes: &[u8]) -> Option<Answer> {
        match self {
            Tongue::Beanstalk => beanstalk(bytes),
            Tongue::Disque => {
                let parts = resp(bytes)?;
                Some(Answer {
                    length: parts.length,
                    is_error: bytes[0] == b'-',
                    id: parts.bulks.get(1).cloned().unwrap_or(0..0),
                    payload: parts.bulks.get(2).cloned().unwrap_or(0..0),
                })
            }
            Tongue::Lists => {
                let parts = resp(bytes)?;
                let payload = parts.bulks.first().cloned().unwrap_or(0..0);
                Some(Answer {
                    length: parts.length,
                    is_error: bytes[0] == b'-' || bytes.starts_with(b"$-1"),
                    id: payload.clone(),
                    payload,
                })
            }
        }
    }
}

/// An answer in some bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub length: usize,
    pub is_error: bool,
    pub id: Range<usize>,
    pub payload: Range<usize>,
}

fn command(words: &[&[u8]], out: &mut Vec<u8>) {
    out.push(b'*');
    number(words.len(), out);
    for word in words {
        out.push(b'$');
        number(word.len(), out);
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

fn number(number: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(number.to_string().as_bytes());
    out.extend_from_slice(b"\r\n");
}

fn line(bytes: &[u8], from: usize) -> Option<usize> {
    let rest = bytes.get(from..)?;
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    Some(from + end + 1)
}

fn beanstalk(bytes: &[u8]) -> Option<Answer> {
    let head = line(bytes, 0)?;
    let text = std::str::from_utf8(&bytes[..head - 2]).ok()?;
    let mut words = text.split(' ');
    let word = words.next()?;
    let id = words.next().map_or(0..0, |id| {
        let from = word.len() + 1;
        from..from + id.len()
    });
    let mut answer = Answer {
        length: head,
        is_error: !matches!(
            word,
            "INSERTED" | "RESERVED" | "DELETED" | "USING" | "WATCHING"
        ),
        id,
        payload: 0..0,
    };
    if word == "RESERVED" {
        let size: usize = words.next()?.parse().ok()?;
        answer.payload = head..head + size;
        answer.length = head + size + 2;
    }
    (bytes.len() >= answer.length).then_some(answer)
}

/// A RESP value, and the bulk strings in it.
struct Parts {
    length: usize,
    bulks: Vec<Range<usize>>,
}

fn resp(bytes: &[u8]) -> Option<Parts> {
    let mut parts = Parts {
        length: 0,
        bulks: Vec::new(),
    };
    let mut left = 1_i64;
    while left > 0 {
        let at = parts.length;
        let end = line(bytes, at)?;
        let text = std::str::from_utf8(&bytes[at + 1..end - 2]).ok()?;
        left -= 1;
        parts.length = end;
        match bytes[at] {
            b'*' => left += text.parse::<i64>().ok()?.max(0),
            b'$' => {
                if let Ok(size) = text.parse::<usize>() {
                    parts.bulks.push(end..end + size);
                    parts.length = end + size + 2;
                }
            }
            _ => {}
        }
    }
    (bytes.len() >= parts.length).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_ends_where_it_ends_however_much_is_there() {
        type Bytes = &'static [u8];
        let cases: [(Tongue, Bytes, Bytes, Bytes); 5] = [
            (Tongue::Beanstalk, b"INSERTED 17\r\n", b"17", b""),
            (
                Tongue::Beanstalk,
                b"RESERVED 17 3\r\na\r\n\r\n",
                b"17",
                b"a\r\n",
            ),
            (
                Tongue::Disque,
                b"*1\r\n*3\r\n$1\r\nq\r\n$3\r\nD-1\r\n$2\r\nhi\r\n",
                b"D-1",
                b"hi",
            ),
            (Tongue::Disque, b"+D-1\r\n", b"", b""),
            (Tongue::Lists, b"$2\r\nhi\r\n", b"hi", b"hi"),
        ];
        for (tongue, bytes, id, payload) in cases {
            for cut in 0..bytes.len() {
                assert_eq!(tongue.answer(&bytes[..cut]), None);
            }
            let more = [bytes, b"more"].concat();
            let answer = tongue.answer(&more).unwrap();
            assert_eq!(answer.length, bytes.len());
            assert_eq!((&more[answer.id], &more[answer.payload]), (id, payload));
            assert!(!answer.is_error);
        }
        assert!(Tongue::Beanstalk.answer(b"NOT_FOUND\r\n").unwrap().is_error);
        assert!(Tongue::Disque.answer(b"-ERR no\r\n").unwrap().is_error);
        assert!(Tongue::Lists.answer(b"$-1\r\n").unwrap().is_error);
    }
}
