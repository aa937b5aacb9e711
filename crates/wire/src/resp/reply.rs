//! Replies into bytes, in both versions of the protocol.

use std::borrow::Cow;

use auxo_core::{Error, text};
use bytes::{BufMut, Bytes, BytesMut};
use serde_json::Value;

/// How replies are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// As every client understands them.
    #[default]
    Two,
    /// With maps, truth values and one kind of nothing.
    Three,
}

/// What a client is answered.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// A word.
    Status(&'static str),
    /// The id of a job; Disque says it as a word.
    Id([u8; 40]),
    /// A number.
    Number(i64),
    /// Bytes.
    Bulk(Bytes),
    /// Nothing where there could be bytes.
    Null,
    /// Nothing where there could be a list.
    NullArray,
    /// A list.
    Array(Vec<Reply>),
    /// Names with their values; a list of both where there are no maps.
    Map(Vec<(Reply, Reply)>),
    /// A truth value; 1 or 0 where there are none.
    Bool(bool),
    /// A number with a fraction; a text where there are none.
    Double(f64),
    /// What is wrong: a word in capitals, and a sentence.
    Error(Cow<'static, str>),
}

impl Reply {
    /// All is well.
    pub const OK: Reply = Reply::Status("OK");
    /// The options of a command make no sense.
    pub const SYNTAX: Reply = Reply::Error(Cow::Borrowed("ERR syntax error"));
    /// An id does not look like one.
    pub const BAD_ID: Reply = Reply::Error(Cow::Borrowed("BADID Invalid Job ID format."));

    /// Text.
    pub fn text(text: impl Into<String>) -> Reply {
        Reply::Bulk(text.into().into())
    }

    /// An error without a word of its own.
    pub fn wrong(sentence: impl std::fmt::Display) -> Reply {
        Reply::Error(format!("ERR {sentence}").into())
    }

    /// Writes it.
    ///
    /// ```
    /// use auxo_wire::resp::{Reply, Version};
    /// let mut bytes = bytes::BytesMut::new();
    /// Reply::Map(vec![(Reply::text("len"), Reply::Number(7))]).encode(Version::Two, &mut bytes);
    /// assert_eq!(bytes, "*2\r\n$3\r\nlen\r\n:7\r\n");
    /// ```
    pub fn encode(&self, version: Version, buf: &mut BytesMut) {
        match (self, version) {
            (Reply::Status(word), _) => line(buf, b'+', word.as_bytes()),
            (Reply::Id(id), _) => line(buf, b'+', id),
            (Reply::Number(value), _) => number(buf, *value),
            (Reply::Bulk(bytes), _) => bulk(buf, bytes),
            (Reply::Null | Reply::NullArray, Version::Three) => buf.put_slice(b"_\r\n"),
            (Reply::Null, Version::Two) => buf.put_slice(b"$-1\r\n"),
            (Reply::NullArray, Version::Two) => buf.put_slice(b"*-1\r\n"),
            (Reply::Array(items), _) => {
                array(buf, items.len());
                items.iter().for_each(|item| item.encode(version, buf));
            }
            (Reply::Map(pairs), _) => {
                match version {
                    Version::Two => array(buf, pairs.len() * 2),
                    Version::Three => count(buf, b'%', pairs.len() as u64),
                }
                for (name, value) in pairs {
                    name.encode(version, buf);
                    value.encode(version, buf);
                }
            }
            (Reply::Bool(value), Version::Two) => number(buf, i64::from(*value)),
            (Reply::Bool(true), Version::Three) => buf.put_slice(b"#t\r\n"),
            (Reply::Bool(false), Version::Three) => buf.put_slice(b"#f\r\n"),
            (Reply::Double(value), Version::Two) => bulk(buf, value.to_string().as_bytes()),
            (Reply::Double(value), Version::Three) => line(buf, b',', value.to_string().as_bytes()),
            (Reply::Error(sentence), _) => line(buf, b'-', text::one_line(sentence).as_bytes()),
        }
    }
}

/// Our own errors: the code in capitals, and the sentence.
impl From<&Error> for Reply {
    fn from(error: &Error) -> Reply {
        let code = error.code().as_str().to_ascii_uppercase();
        Reply::Error(format!("{code} {}", error.message()).into())
    }
}

/// The JSON forms of our answers, as RESP has them.
impl From<Value> for Reply {
    fn from(value: Value) -> Reply {
        match value {
            Value::Null => Reply::Null,
            Value::Bool(value) => Reply::Bool(value),
            Value::Number(value) => match (value.as_i64(), value.as_f64()) {
                (Some(value), _) => Reply::Number(value),
                (None, Some(fraction)) if value.is_f64() => Reply::Double(fraction),
                // Larger than a number may be here.
                _ => Reply::text(value.to_string()),
            },
            Value::String(text) => Reply::text(text),
            Value::Array(items) => Reply::Array(items.into_iter().map(Reply::from).collect()),
            Value::Object(fields) => {
                let pair = |(name, value)| (Reply::text(name), Reply::from(value));
                Reply::Map(fields.into_iter().map(pair).collect())
            }
        }
    }
}

/// Writes the beginning of a list of so many.
pub fn array(buf: &mut BytesMut, items: usize) {
    count(buf, b'*', items as u64);
}

/// Writes bytes.
pub fn bulk(buf: &mut BytesMut, bytes: &[u8]) {
    count(buf, b'$', bytes.len() as u64);
    buf.put_slice(bytes);
    buf.put_slice(b"\r\n");
}

/// Writes a number.
pub fn number(buf: &mut BytesMut, value: i64) {
    match value < 0 {
        false => count(buf, b':', value.unsigned_abs()),
        true => {
            buf.put_u8(b':');
            count(buf, b'-', value.unsigned_abs());
        }
    }
}

fn line(buf: &mut BytesMut, sign: u8, bytes: &[u8]) {
    buf.put_u8(sign);
    buf.put_slice(bytes);
    buf.put_slice(b"\r\n");
}

/// Writes a sign and a number in decimal. The formatting of the standard library takes several times as long, and there are
/// numbers in every reply.
fn count(buf: &mut BytesMut, sign: u8, mut value: u64) {
    let mut digits = [0; 23];
    digits[21] = b'\r';
    digits[22] = b'\n';
    let mut first = 21;
    loop {
        first -= 1;
        digits[first] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    first -= 1;
    digits[first] = sign;
    buf.put_slice(&digits[first..]);
}

#[cfg(test)]
mod tests {
    use auxo_core::Code;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn written(reply: &Reply, version: Version) -> String {
        let mut buf = BytesMut::new();
        reply.encode(version, &mut buf);
        String::from_utf8(buf.to_vec()).unwrap()
    }

    #[test]
    fn each_kind_is_written_as_both_versions_have_it() {
        let map = Reply::Map(vec![(Reply::text("a"), Reply::Number(-1))]);
        for (reply, two, three) in [
            (Reply::OK, "+OK\r\n", "+OK\r\n"),
            (
                Reply::Id([b'x'; 40]),
                "+xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n",
                "+xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n",
            ),
            (
                Reply::text("a\r\nb"),
                "$4\r\na\r\nb\r\n",
                "$4\r\na\r\nb\r\n",
            ),
            (Reply::Null, "$-1\r\n", "_\r\n"),
            (Reply::NullArray, "*-1\r\n", "_\r\n"),
            (
                Reply::Array(vec![Reply::Null]),
                "*1\r\n$-1\r\n",
                "*1\r\n_\r\n",
            ),
            (map, "*2\r\n$1\r\na\r\n:-1\r\n", "%1\r\n$1\r\na\r\n:-1\r\n"),
            (Reply::Bool(true), ":1\r\n", "#t\r\n"),
            (Reply::Bool(false), ":0\r\n", "#f\r\n"),
            (Reply::Double(1.5), "$3\r\n1.5\r\n", ",1.5\r\n"),
        ] {
            assert_eq!(written(&reply, Version::Two), two);
            assert_eq!(written(&reply, Version::Three), three);
        }
    }

    #[test]
    fn an_error_is_one_line_whatever_it_quotes() {
        let error = Error::new(Code::LeaseLost, "a\r\n+OK");
        let reply = Reply::from(&error);
        assert_eq!(written(&reply, Version::Two), "-LEASE_LOST a\\r\\n+OK\r\n");
    }

    #[test]
    fn json_is_written_as_what_it_is() {
        let value = json!({ "a": [1, -2, 1.5, true, null, "x"], "b": {} });
        assert_eq!(
            written(&value.into(), Version::Three),
            "%2\r\n$1\r\na\r\n*6\r\n:1\r\n:-2\r\n,1.5\r\n#t\r\n_\r\n$1\r\nx\r\n$1\r\nb\r\n%0\r\n"
        );
        assert_eq!(
            Reply::from(json!(u64::MAX)),
            Reply::text("18446744073709551615")
        );
    }

    proptest! {
        #[test]
        fn every_number_is_written_as_it_is(value: i64) {
            prop_assert_eq!(written(&Reply::Number(value), Version::Two), format!(":{value}\r\n"));
        }
    }
}
