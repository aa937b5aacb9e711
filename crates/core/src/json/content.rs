//! Bytes that may be JSON: payloads, results, progress.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// How deep JSON may be nested to be shown as JSON. Many readers give up at 128, counted from the outside of the answer.
const DEPTH: u32 = 100;

/// The bytes as JSON if they are, or else in base64.
pub(super) fn shown(bytes: &[u8]) -> (Option<&RawValue>, Option<String>) {
    match plain_json(bytes) {
        Some(raw) => (Some(raw), None),
        None if bytes.is_empty() => (None, None),
        None => (None, Some(STANDARD.encode(bytes))),
    }
}

/// The same, but only what is byte for byte the same when it is read again counts as JSON.
pub(super) fn exact(bytes: &[u8]) -> (Option<&RawValue>, Option<String>) {
    match shown(bytes) {
        (Some(raw), _) if raw.get().len() != bytes.len() => (None, Some(STANDARD.encode(bytes))),
        shown => shown,
    }
}

/// The space before and after bytes that are shown as JSON, where there is any.
pub(super) fn space<'b>(bytes: &'b [u8], raw: Option<&RawValue>) -> Option<[&'b str; 2]> {
    let inner = raw?.get();
    if inner.len() == bytes.len() {
        return None;
    }
    let text = std::str::from_utf8(bytes).ok()?;
    let start = text.len() - text.trim_ascii_start().len();
    Some([&text[..start], &text[start + inner.len()..]])
}

/// The bytes as JSON that any reader can take. Space around it is not shown. JSON that is only correct by the letter, such as
/// a number of a thousand digits, half a surrogate pair or a thousand nested lists, would make a whole page of jobs
/// unreadable for a client: such bytes do not count.
fn plain_json(bytes: &[u8]) -> Option<&RawValue> {
    let text = std::str::from_utf8(bytes).ok()?;
    let mut reader = serde_json::Deserializer::from_str(text);
    Plain(DEPTH).deserialize(&mut reader).ok()?;
    reader.end().ok()?;
    serde_json::from_str(text).ok()
}

/// Reads any JSON and keeps nothing of it.
#[derive(Clone, Copy)]
struct Plain(u32);

impl<'de> DeserializeSeed<'de> for Plain {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl Plain {
    fn inner<E: serde::de::Error>(self) -> Result<Plain, E> {
        self.0
            .checked_sub(1)
            .map(Plain)
            .ok_or_else(|| E::custom("nested too deep"))
    }
}

impl<'de> Visitor<'de> for Plain {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let inner = self.inner()?;
        while list.next_element_seed(inner)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let inner = self.inner()?;
        while map.next_key_seed(inner)?.is_some() {
            map.next_value_seed(inner)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_as_json_only_if_every_reader_can_take_it() {
        let deep = |n: usize| "[".repeat(n) + &"]".repeat(n);
        for json in [
            "null",
            "0",
            "-1.5e3",
            "\"a\\u00e4\"",
            "[1,2]",
            "{\"a\": {\"b\": []}}",
            &deep(100),
        ] {
            let (raw, base64) = shown(json.as_bytes());
            assert_eq!(raw.unwrap().get(), json);
            assert_eq!(base64, None);
        }
        for other in [
            "hello",
            "{\"a\":1",
            "1 2",
            "1e999",
            "\"\\ud800\"",
            "{\"\\ud800\":1}",
            "NaN",
            &deep(101),
            &deep(100_000),
        ] {
            let (raw, base64) = shown(other.as_bytes());
            assert!(raw.is_none(), "{other}");
            assert_eq!(STANDARD.decode(base64.unwrap()).unwrap(), other.as_bytes());
        }
        assert!(shown(b"\"\xff\"").1.is_some());
    }

    #[test]
    fn space_around_json_is_told_and_never_sent_as_json() {
        for (bytes, around) in [
            ("{}\n", Some(["", "\n"])),
            (" \t1\r\n", Some([" \t", "\r\n"])),
            ("1", None),
            ("hello ", None),
        ] {
            let bytes = bytes.as_bytes();
            assert_eq!(space(bytes, shown(bytes).0), around);
            assert_eq!(exact(bytes).0.is_some(), bytes == b"1");
        }
    }

    #[test]
    fn no_bytes_are_shown_as_nothing() {
        let (raw, base64) = shown(b"");
        assert!(raw.is_none() && base64.is_none());
    }
}
