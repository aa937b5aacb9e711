//! Replies of RESP as a line of text, each in exactly one way:
//!
//! ```text
//! 'bytes'   +status   -error   :number   $-1   *-1   _   #t   [a list of them]   %['name' :1]
//! ```

use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;

/// Reads the next reply.
pub fn read(from: &mut BufReader<TcpStream>, here: &str) -> String {
    let mut line = Vec::new();
    let read = from.read_until(b'\n', &mut line);
    read.unwrap_or_else(|error| panic!("{here}: {error}"));
    let line = String::from_utf8_lossy(&line).into_owned();
    let Some(line) = line.strip_suffix("\r\n") else {
        panic!("{here}: got {line:?}");
    };
    let length = |line: &str| -> usize {
        let length = line[1..].parse::<usize>().ok();
        // A length is written in one way only.
        let length = length.filter(|length| length.to_string() == line[1..]);
        length.unwrap_or_else(|| panic!("{here}: got {line:?}"))
    };
    match line.as_bytes() {
        b"$-1" | b"*-1" | b"_" | b"#t" | b"#f" | [b'+' | b'-' | b':', ..] => line.to_owned(),
        [b'$', ..] => bytes(from, length(line), here),
        [b'*', ..] => list(from, length(line), here),
        [b'%', ..] => format!("%{}", list(from, length(line) * 2, here)),
        _ => panic!("{here}: got {line:?}"),
    }
}

fn bytes(from: &mut BufReader<TcpStream>, length: usize, here: &str) -> String {
    let mut bytes = vec![0; length + 2];
    let read = from.read_exact(&mut bytes);
    read.unwrap_or_else(|error| panic!("{here}: {error}"));
    let text = String::from_utf8_lossy(&bytes).into_owned();
    match text.strip_suffix("\r\n") {
        Some(text) => format!("'{text}'"),
        None => panic!("{here}: {text:?} does not end where it says"),
    }
}

fn list(from: &mut BufReader<TcpStream>, count: usize, here: &str) -> String {
    let items: Vec<String> = (0..count).map(|_| read(from, here)).collect();
    format!("[{}]", items.join(" "))
}
