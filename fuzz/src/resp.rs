//! Disque's commands over RESP, and what is answered to them.

use auxo_wire::resp::{Broken, Decoder, INLINE, Item, Reply, SLACK, Version, array, bulk};
use bytes::BytesMut;

use crate::pieces::pieces;
use crate::{refusal, room};

/// The largest job, which is small here so that the fuzzer reaches the limits.
pub const LARGEST: usize = 100;

/// Feeds these bytes in one go and in pieces; both must say the same, and take no more room than there may be.
pub fn check(bytes: &[u8], cuts: &[u8]) {
    // What a command refers to takes some room beside its bytes: a queue's name, a place in a list.
    let room = 600 * bytes.len() + (1 << 20);
    let whole = room::within(room, || listen(&[bytes]));
    let cut = room::within(room, || listen(&pieces(bytes, cuts)));
    assert_eq!(shown(&whole), shown(&cut));
    for item in whole.0 {
        if let Item::Wrong(reply) = item {
            refused(&reply);
        }
    }
    if let Some(reply) = whole.1.and_then(|broken| broken.reply()) {
        refused(&reply);
    }
}

/// A number that is none is not equal to itself, but looks the same.
fn shown(said: &(Vec<Item>, Option<Broken>)) -> String {
    format!("{said:?}")
}

fn refused(reply: &Reply) {
    let Reply::Error(text) = reply else {
        panic!("{reply:?}");
    };
    refusal::line(text);
    answered(reply);
}

/// A command means the same sent as an array and typed as a line.
pub fn check_words(words: &[Vec<u8>]) {
    let Some(line) = typed(words) else { return };
    let sent = listen(&[&request(words)]);
    // An array of arguments has a limit for each, a line one for all of them.
    if sent.1.is_none() {
        assert_eq!(shown(&sent), shown(&listen(&[&line])));
    }
}

/// A request as clients write it.
pub fn request(words: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    array(&mut bytes, words.len());
    words.iter().for_each(|word| bulk(&mut bytes, word));
    bytes.to_vec()
}

/// The same as a person types it, if it is not too long for that.
fn typed(words: &[Vec<u8>]) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    for word in words {
        line.push(b'"');
        for byte in word {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b' ' | b'{' | b'}' | b'\'' => {
                    line.push(*byte)
                }
                other => line.extend(format!("\\x{other:02x}").bytes()),
            }
        }
        line.extend(b"\" ");
    }
    line.extend(b"\r\n");
    (!words.is_empty() && line.len() <= INLINE).then_some(line)
}

/// Everything that comes out, and what ended it.
fn listen(pieces: &[&[u8]]) -> (Vec<Item>, Option<Broken>) {
    let (mut decoder, mut buf) = (Decoder::new(LARGEST, 1), BytesMut::new());
    let mut items = Vec::new();
    for piece in pieces {
        buf.extend_from_slice(piece);
        loop {
            match decoder.decode(&mut buf) {
                Ok(Some(item)) => items.push(item),
                Ok(None) => break,
                Err(broken) => return (items, Some(broken)),
            }
        }
        assert!(buf.len() <= 2 * (LARGEST + SLACK) + 2 * INLINE);
        assert!(decoder.missing() <= LARGEST + SLACK + 2);
    }
    (items, None)
}

/// An answer as a client takes it apart.
#[derive(Clone, Debug, PartialEq)]
enum Heard {
    Status(String),
    Error(String),
    Number(i64),
    Bytes(Vec<u8>),
    Nothing,
    NoList,
    List(Vec<Heard>),
    Map(Vec<(Heard, Heard)>),
    Bool(bool),
    Double(String),
}

/// What is answered is understood by a client as it was meant, in both versions, and nothing is left over.
pub fn answered(reply: &Reply) {
    for version in [Version::Two, Version::Three] {
        let mut bytes = BytesMut::new();
        reply.encode(version, &mut bytes);
        let mut rest = &bytes[..];
        assert_eq!(hear(&mut rest), meant(reply, version));
        assert_eq!(rest, b"");
    }
}

fn meant(reply: &Reply, version: Version) -> Heard {
    let three = version == Version::Three;
    let all = |items: &[Reply]| items.iter().map(|item| meant(item, version)).collect();
    match reply {
        Reply::Status(word) => Heard::Status((*word).to_owned()),
        Reply::Id(id) => Heard::Status(String::from_utf8_lossy(id).into_owned()),
        Reply::Number(number) => Heard::Number(*number),
        Reply::Bulk(bytes) => Heard::Bytes(bytes.to_vec()),
        Reply::Null => Heard::Nothing,
        Reply::NullArray if three => Heard::Nothing,
        Reply::NullArray => Heard::NoList,
        Reply::Array(items) => Heard::List(all(items)),
        Reply::Map(pairs) => {
            let pair = |(name, value)| (meant(name, version), meant(value, version));
            let pairs = pairs.iter().map(|(name, value)| pair((name, value)));
            match three {
                true => Heard::Map(pairs.collect()),
                false => Heard::List(pairs.flat_map(|(name, value)| [name, value]).collect()),
            }
        }
        Reply::Bool(value) if three => Heard::Bool(*value),
        Reply::Bool(value) => Heard::Number((*value).into()),
        Reply::Double(value) if three => Heard::Double(value.to_string()),
        Reply::Double(value) => Heard::Bytes(value.to_string().into()),
        Reply::Error(text) => Heard::Error(auxo_core::text::one_line(text)),
    }
}

fn hear(rest: &mut &[u8]) -> Heard {
    let line = line(rest);
    let (sign, text) = line.split_at_checked(1).expect("a sign");
    let number = || text.parse::<i64>().expect("a number");
    match sign {
        "+" => Heard::Status(text.to_owned()),
        "-" => Heard::Error(text.to_owned()),
        ":" => Heard::Number(number()),
        "_" => Heard::Nothing,
        "#" => Heard::Bool(text == "t"),
        "," => Heard::Double(text.to_owned()),
        "$" if text == "-1" => Heard::Nothing,
        "*" if text == "-1" => Heard::NoList,
        "$" => {
            let (bytes, behind) = rest.split_at(number() as usize);
            *rest = behind.strip_prefix(b"\r\n").expect("an end");
            Heard::Bytes(bytes.to_vec())
        }
        "*" => Heard::List((0..number()).map(|_| hear(rest)).collect()),
        "%" => Heard::Map((0..number()).map(|_| (hear(rest), hear(rest))).collect()),
        other => panic!("{other:?}"),
    }
}

fn line(rest: &mut &[u8]) -> String {
    let end = rest.windows(2).position(|two| two == b"\r\n");
    let (line, behind) = rest.split_at(end.expect("a line"));
    *rest = &behind[2..];
    String::from_utf8(line.to_vec()).expect("text")
}
