//! What a command prints, kept within bounds: all of it is read, so that the command never stands still, and a part is
//! kept.

use std::collections::VecDeque;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Keeps the first bytes: a result has its meaning from its beginning on.
pub struct Head {
    kept: Vec<u8>,
    most: usize,
}

impl Head {
    pub fn new(most: usize) -> Head {
        Head {
            kept: Vec::new(),
            most,
        }
    }

    pub fn take(&mut self, bytes: &[u8]) {
        let room = self.most - self.kept.len();
        self.kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// Whether more than this would be cut off.
    pub fn is_full(&self) -> bool {
        self.kept.len() == self.most
    }

    /// What was kept, without the line break at its end; `None` if that is nothing.
    pub fn into_result(self) -> Option<Bytes> {
        let mut kept = self.kept;
        if kept.last() == Some(&b'\n') {
            kept.pop();
        }
        (!kept.is_empty()).then(|| kept.into())
    }
}

/// Keeps the last bytes: the reason for a failure is what a program says at its end.
pub struct Tail {
    kept: VecDeque<u8>,
    most: usize,
    cut: bool,
}

impl Tail {
    pub fn new(most: usize) -> Tail {
        Tail {
            kept: VecDeque::new(),
            most,
            cut: false,
        }
    }

    pub fn take(&mut self, bytes: &[u8]) {
        let over = (self.kept.len() + bytes.len()).saturating_sub(self.most);
        self.cut |= over > 0;
        self.kept.drain(..over.min(self.kept.len()));
        self.kept
            .extend(&bytes[bytes.len().saturating_sub(self.most)..]);
    }

    /// What was kept as text, without space around it.
    pub fn into_words(self) -> String {
        let bytes: Vec<u8> = self.kept.into();
        let text = String::from_utf8_lossy(&bytes);
        match self.cut {
            true => format!("…{}", text.trim()),
            false => text.trim().to_owned(),
        }
    }
}

/// Reads to the end, or to an error, which for a pipe means the same.
pub async fn drain(pipe: Option<impl AsyncRead + Unpin>, mut take: impl FnMut(&[u8])) {
    let Some(mut pipe) = pipe else { return };
    let mut buffer = [0; 8 << 10];
    while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
        take(&buffer[..count]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_keeps_the_beginning_and_loses_one_line_break() {
        let head = |parts: &[&str]| {
            let mut head = Head::new(5);
            parts.iter().for_each(|part| head.take(part.as_bytes()));
            head.into_result()
        };
        assert_eq!(head(&["ab\n", "\n"]), Some("ab\n".into()));
        assert_eq!(head(&["abc", "defg", "h"]), Some("abcde".into()));
        assert_eq!(head(&["\n"]), None);
        assert_eq!(head(&[]), None);
    }

    #[test]
    fn a_tail_keeps_the_end_and_shows_that_it_was_cut() {
        let tail = |parts: &[&str]| {
            let mut tail = Tail::new(5);
            parts.iter().for_each(|part| tail.take(part.as_bytes()));
            tail.into_words()
        };
        assert_eq!(tail(&["ab", "c\n"]), "abc");
        assert_eq!(tail(&["abc", "def"]), "…bcdef");
        assert_eq!(tail(&["ab", "0123456789"]), "…56789");
        assert_eq!(tail(&[]), "");
    }
}
