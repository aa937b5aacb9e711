//! Reading a JSON object field by field, with errors that name the field.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;
use serde_json::value::RawValue;

use crate::error::{Code, Error, Result};
use crate::id::clip;
use crate::text;
use crate::time::Timestamp;

/// More fields than any of our objects has; keeps a hostile one small in memory.
const MOST_FIELDS: usize = 1000;

/// Up to so many fields are compared each with each, which takes no memory.
const FEW_FIELDS: usize = 32;
/// Room for as many names as a push has.
const ASKED: usize = 20;

/// Base64 with or without the padding at its end: half of the world leaves it out.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// What is left to read of an object.
pub(super) struct Fields<'a> {
    path: String,
    asked: Vec<&'static str>,
    left: Vec<Field<'a>>,
}

/// A name and what stands under it.
type Field<'a> = (Cow<'a, str>, &'a RawValue);

impl<'a> Fields<'a> {
    /// The object that makes up the whole of `body`.
    pub fn of(body: &'a [u8]) -> Result<Fields<'a>> {
        match first(body) {
            Some(b'{') => Ok(Fields::with(String::new(), read_all(body, Object)?)),
            // It is no object; what it is instead is named.
            _ => Fields::new(String::new(), parse(body)?),
        }
    }

    /// An object that is an item of a list.
    pub fn item(raw: &'a RawValue) -> Result<Fields<'a>> {
        Fields::new(String::new(), raw)
    }

    fn new(path: String, raw: &'a RawValue) -> Result<Fields<'a>> {
        if !raw.get().starts_with('{') {
            return Err(expected("an object", raw));
        }
        let mut reader = serde_json::Deserializer::from_str(raw.get());
        let left = Object
            .deserialize(&mut reader)
            .map_err(|error| Error::bad_request(error.to_string()))?;
        Ok(Fields::with(path, left))
    }

    fn with(path: String, left: Vec<Field<'a>>) -> Fields<'a> {
        Fields {
            path,
            asked: Vec::with_capacity(ASKED),
            left,
        }
    }

    /// Whether a field is there, also as `null`.
    pub fn has(&self, name: &str) -> bool {
        self.left.iter().any(|(field, _)| field == name)
    }

    /// Takes a field whatever it is, also `null`.
    pub fn raw(&mut self, name: &'static str) -> Option<&'a RawValue> {
        self.asked.push(name);
        let at = self.left.iter().position(|(field, _)| field == name)?;
        Some(self.left.swap_remove(at).1)
    }

    /// Takes a field, if it is there and not `null`.
    pub fn get<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&'a RawValue) -> Result<T>,
    ) -> Result<Option<T>> {
        self.raw(name)
            .filter(|raw| raw.get() != "null")
            .map(read)
            .transpose()
            .map_err(|error| self.about(name, error))
    }

    /// Takes a field that must be there.
    pub fn need<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&'a RawValue) -> Result<T>,
    ) -> Result<T> {
        self.get(name, read)?
            .ok_or_else(|| self.wrong(name, "is missing"))
    }

    /// Takes a field that is an object of its own and reads all of it.
    pub fn object<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&mut Fields<'a>) -> Result<T>,
    ) -> Result<Option<T>> {
        let Some(raw) = self.get(name, Ok)? else {
            return Ok(None);
        };
        let mut inner = Fields::new(format!("{}{name}.", self.path), raw)
            .map_err(|error| self.about(name, error))?;
        let value = read(&mut inner)?;
        inner.finish()?;
        Ok(Some(value))
    }

    /// Takes bytes that are given as JSON under one name or in base64 under another.
    pub fn bytes(
        &mut self,
        name: &'static str,
        name_base64: &'static str,
        null: Null,
    ) -> Result<Option<Bytes>> {
        let json = self
            .raw(name)
            .filter(|raw| null == Null::IsJson || raw.get() != "null")
            .map(|raw| Bytes::copy_from_slice(raw.get().as_bytes()));
        let decoded = self.get(name_base64, base64)?;
        match (json, decoded) {
            (Some(_), Some(_)) => Err(self.wrong(name_base64, format!("stands beside {name}"))),
            (json, decoded) => Ok(json.or(decoded)),
        }
    }

    /// An error about a field.
    pub fn wrong(&self, name: &str, problem: impl fmt::Display) -> Error {
        Error::bad_request(format!("{}{name}: {problem}", self.path))
    }

    fn about(&self, name: &str, error: Error) -> Error {
        Error::new(
            error.code(),
            format!("{}{name}: {}", self.path, error.message()),
        )
    }

    /// Refuses whatever nobody asked for.
    pub fn finish(self) -> Result<()> {
        match self.left.iter().min_by_key(|(name, _)| name) {
            None => Ok(()),
            Some((name, _)) => Err(Error::bad_request(format!(
                "{}{}: unknown field; known are {}",
                self.path,
                text::one_line(&clip(name)),
                self.asked.join(", ")
            ))),
        }
    }
}

/// What `null` means for a field that may hold any JSON.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Null {
    /// The JSON `null`.
    IsJson,
    /// That the field is not there.
    IsAbsent,
}

/// The JSON text in `body`.
pub(super) fn parse(body: &[u8]) -> Result<&RawValue> {
    serde_json::from_slice(body).map_err(|error| not_json(&error))
}

fn not_json(error: &serde_json::Error) -> Error {
    Error::bad_request(format!("the body is not JSON: {error}"))
}

/// The first byte of what may be JSON.
fn first(body: &[u8]) -> Option<u8> {
    body.trim_ascii_start().first().copied()
}

/// Reads a body to its end in one pass.
fn read_all<'a, S: DeserializeSeed<'a>>(body: &'a [u8], seed: S) -> Result<S::Value> {
    let mut reader = serde_json::Deserializer::from_slice(body);
    let read = seed.deserialize(&mut reader);
    read.and_then(|value| reader.end().map(|()| value))
        .map_err(|error| match error.classify() {
            // It is JSON, and what is wrong with it is in our own words.
            Category::Data => Error::bad_request(error.to_string()),
            _ => not_json(&error),
        })
}

/// The items of a body that is a list.
pub(super) fn list_of(body: &[u8], limit: usize) -> Result<Option<Vec<&RawValue>>> {
    match first(body) {
        Some(b'[') => within(read_all(body, List(limit))?, limit).map(Some),
        _ => Ok(None),
    }
}

/// The items of a list, or `None` when it is not one. A list longer than `limit` is refused before it takes memory.
pub(super) fn list(raw: &RawValue, limit: usize) -> Result<Option<Vec<&RawValue>>> {
    if !raw.get().starts_with('[') {
        return Ok(None);
    }
    let items = List(limit)
        .deserialize(&mut serde_json::Deserializer::from_str(raw.get()))
        .map_err(|error| Error::bad_request(error.to_string()))?;
    within(items, limit).map(Some)
}

fn within<T>(items: Vec<T>, limit: usize) -> Result<Vec<T>> {
    match items.len() <= limit {
        true => Ok(items),
        false => Err(Error::new(
            Code::TooLarge,
            format!("the list has more than {limit} items"),
        )),
    }
}

struct Object;

impl<'de> DeserializeSeed<'de> for Object {
    type Value = Vec<Field<'de>>;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
        reader.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Object {
    type Value = Vec<Field<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::new();
        while let Some(name) = map.next_key_seed(Name)? {
            fields.push((name, map.next_value()?));
            if fields.len() > MOST_FIELDS {
                return Err(A::Error::custom(format!(
                    "an object has more than {MOST_FIELDS} fields"
                )));
            }
        }
        // Readers disagree about which of two wins, so neither does.
        match twice(&fields) {
            Some(name) => {
                let name = text::one_line(&clip(name));
                Err(A::Error::custom(format!("{name}: is there twice")))
            }
            None => Ok(fields),
        }
    }
}

/// A name that two fields have.
fn twice<'f>(fields: &'f [Field<'_>]) -> Option<&'f str> {
    if fields.len() <= FEW_FIELDS {
        let mut rest = fields;
        while let Some(((name, _), after)) = rest.split_first() {
            if after.iter().any(|(other, _)| other == name) {
                return Some(name);
            }
            rest = after;
        }
        return None;
    }
    let mut names: Vec<&str> = fields.iter().map(|(name, _)| &**name).collect();
    names.sort_unstable();
    let pair = names.windows(2).find(|pair| pair[0] == pair[1])?;
    Some(pair[0])
}

/// Reads a name without copying it, if it stands there as it is.
struct Name;

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
        reader.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Name {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(name))
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(name.to_owned()))
    }
}

struct List(usize);

impl<'de> DeserializeSeed<'de> for List {
    type Value = Vec<&'de RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
        reader.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for List {
    type Value = Vec<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            // One too many is enough to know; the rest is read over.
            if items.len() <= self.0 {
                items.push(item);
            }
        }
        Ok(items)
    }
}

fn expected(what: &str, raw: &RawValue) -> Error {
    Error::bad_request(format!(
        "expected {what}, not {}",
        text::one_line(&clip(raw.get()))
    ))
}

pub(super) fn string(raw: &RawValue) -> Result<String> {
    serde_json::from_str(raw.get()).map_err(|_| expected("a text", raw))
}

pub(super) fn boolean(raw: &RawValue) -> Result<bool> {
    serde_json::from_str(raw.get()).map_err(|_| expected("true or false", raw))
}

pub(super) fn u16(raw: &RawValue) -> Result<u16> {
    whole(raw.get())
        .and_then(|number| number.try_into().ok())
        .ok_or_else(|| expected("a whole number from 0 to 65535", raw))
}

pub(super) fn u32(raw: &RawValue) -> Result<u32> {
    whole(raw.get())
        .and_then(|number| number.try_into().ok())
        .ok_or_else(|| expected("a whole number from 0 to 4294967295", raw))
}

pub(super) fn u64(raw: &RawValue) -> Result<u64> {
    whole(raw.get()).ok_or_else(|| expected("a whole number from 0 to 18446744073709551615", raw))
}

/// A whole number. `5000.0` is one too, as JSON Schema has it and as programs write it that compute with fractions.
fn whole(text: &str) -> Option<u64> {
    // From here on a fraction may be lost in reading.
    const FINE: f64 = (1_u64 << 52) as f64;
    serde_json::from_str(text).ok().or_else(|| {
        let number: f64 = serde_json::from_str(text).ok()?;
        let is_whole = (0.0..FINE).contains(&number) && number.fract() == 0.0;
        is_whole.then_some(number as u64)
    })
}

pub(super) fn f64(raw: &RawValue) -> Result<f64> {
    serde_json::from_str(raw.get()).map_err(|_| expected("a number", raw))
}

pub(super) fn duration(raw: &RawValue) -> Result<Duration> {
    if raw.get().starts_with('"') {
        text::parse_duration(&string(raw)?)
    } else {
        u64(raw)
            .map(Duration::from_millis)
            .map_err(|_| expected("a duration like \"30s\" or milliseconds", raw))
    }
}

pub(super) fn time(raw: &RawValue) -> Result<Timestamp> {
    if raw.get().starts_with('"') {
        text::parse_timestamp(&string(raw)?)
    } else {
        u64(raw)
            .map_err(|_| {
                expected(
                    "a time like \"2030-01-31T09:00:00Z\" or Unix milliseconds",
                    raw,
                )
            })
            .and_then(|ms| text::parse_timestamp(&ms.to_string()))
    }
}

pub(super) fn base64(raw: &RawValue) -> Result<Bytes> {
    BASE64
        .decode(string(raw)?)
        .map(Bytes::from)
        .map_err(|error| Error::bad_request(format!("not base64: {error}")))
}

/// Reads what has a word of its own. What is no text is named in the refusal as it stands.
pub(super) fn parsed<T: FromStr<Err = Error>>(raw: &RawValue) -> Result<T> {
    match string(raw) {
        Ok(text) => text.parse(),
        Err(_) => raw.get().parse(),
    }
}

/// Reads one of a few words.
pub(super) fn word<T: Clone>(words: &[(&str, T)]) -> impl FnOnce(&RawValue) -> Result<T> {
    move |raw| {
        let text = string(raw).unwrap_or_default();
        words
            .iter()
            .find(|(word, _)| *word == text)
            .map(|(_, value)| value.clone())
            .ok_or_else(|| {
                let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
                expected(&format!("one of {}", all.join(", ")), raw)
            })
    }
}

/// Reads a flat object of texts.
pub(super) fn texts(raw: &RawValue) -> Result<BTreeMap<String, String>> {
    Fields::new(String::new(), raw)?
        .left
        .into_iter()
        .map(|(name, value)| match string(value) {
            Ok(text) => Ok((name.into_owned(), text)),
            Err(error) => Err(Error::bad_request(format!(
                "{:?}: {}",
                clip(&name),
                error.message()
            ))),
        })
        .collect()
}

/// Reads a list, each item with `read`.
pub(super) fn each<'a, T>(
    what: &'static str,
    limit: usize,
    read: impl Fn(&'a RawValue) -> Result<T>,
) -> impl FnOnce(&'a RawValue) -> Result<Vec<T>> {
    move |raw| {
        list(raw, limit)?
            .ok_or_else(|| expected(what, raw))?
            .into_iter()
            .map(read)
            .collect()
    }
}
