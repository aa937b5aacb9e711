//! Durations, instants and sizes as people write them, the same in JSON, in the config file and on the command line.
//!
//! Everything is read in whole numbers and to the millisecond or byte: a value that would be rounded is refused, so what is
//! printed reads back as exactly the same value.

use std::time::Duration;

use crate::error::{Error, Result};
use crate::id::clip;
use crate::time::{Timestamp, millis};

/// One of a few words.
pub(crate) fn word<T: Copy>(text: &str, all: &[T], as_str: fn(T) -> &'static str) -> Result<T> {
    let found = all.iter().find(|one| as_str(**one) == text);
    found.copied().ok_or_else(|| {
        let words: Vec<&str> = all.iter().map(|one| as_str(*one)).collect();
        let words = words.join(", ");
        Error::bad_request(format!("expected one of {words}, not {:?}", clip(text)))
    })
}

/// The last millisecond of the year 9999, where RFC 3339 ends.
pub const LAST_INSTANT: Timestamp = Timestamp(253_402_300_799_999);

const SECOND: u64 = 1000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Largest first, as they must follow each other in a compound such as `1h30m`.
const TIME_UNITS: [(&str, u64); 5] = [
    ("d", DAY),
    ("h", HOUR),
    ("m", MINUTE),
    ("s", SECOND),
    ("ms", 1),
];

const SIZE_UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("KB", 1000),
    ("B", 1),
];

/// Reads a duration: `250ms`, `1.5s`, `1h30m`, `2d`, or a whole number of milliseconds.
///
/// ```
/// use std::time::Duration;
/// use auxo_core::text;
/// assert_eq!(text::parse_duration("1h30m").unwrap(), Duration::from_secs(5400));
/// assert_eq!(text::parse_duration("1500").unwrap(), Duration::from_millis(1500));
/// assert!(text::parse_duration("-1s").is_err());
/// ```
pub fn parse_duration(text: &str) -> Result<Duration> {
    whole(text)
        .unwrap_or_else(|| compound(text))
        .map(Duration::from_millis)
        .map_err(|problem| {
            Error::bad_request(format!(
                "duration {:?} {problem}; write it like \"30s\", \"1h30m\", \"250ms\", or as milliseconds",
                clip(text)
            ))
        })
}

/// Prints a duration, to the millisecond: `1h30m`, `1m1.5s`, `250ms`, `0s`.
pub fn duration(duration: Duration) -> String {
    let mut rest = millis(duration);
    match rest {
        0 => return "0s".to_owned(),
        1..SECOND => return format!("{rest}ms"),
        _ => {}
    }
    let mut text = String::new();
    for (unit, size) in &TIME_UNITS[..3] {
        if rest >= *size {
            text += &format!("{}{unit}", rest / size);
            rest %= size;
        }
    }
    if rest > 0 {
        let seconds = format!("{}.{:03}", rest / SECOND, rest % SECOND);
        text += seconds.trim_end_matches('0').trim_end_matches('.');
        text.push('s');
    }
    text
}

/// A text from outside, for a message: control characters are spelled out, so that whoever prints it prints one line, and
/// nothing that a terminal obeys.
///
/// ```
/// assert_eq!(auxo_core::text::one_line("a\nb"), r"a\nb");
/// ```
pub fn one_line(text: &str) -> String {
    let mut line = String::new();
    for c in text.chars() {
        if is_deceptive(c) {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    line
}

/// Whether a character makes a line of text look like something else: a control character, one that ends a line or a paragraph, or one
/// that turns the direction of writing (Unicode's `Bidi_Control`).
///
/// ```
/// assert!(auxo_core::text::is_deceptive('\u{202e}'));
/// assert!(!auxo_core::text::is_deceptive('é'));
/// ```
pub fn is_deceptive(c: char) -> bool {
    let turns = matches!(
        c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    c.is_control() || turns || matches!(c, '\u{2028}' | '\u{2029}')
}

/// Reads an instant: RFC 3339 with an offset, or Unix milliseconds, from 1970 to 9999.
///
/// ```
/// use auxo_core::{Timestamp, text};
/// let at = Timestamp(1_700_000_000_000);
/// assert_eq!(text::parse_timestamp("2023-11-14T23:13:20+01:00").unwrap(), at);
/// assert_eq!(text::parse_timestamp("1700000000000").unwrap(), at);
/// ```
pub fn parse_timestamp(text: &str) -> Result<Timestamp> {
    whole(text)
        .unwrap_or_else(|| calendar(text))
        .and_then(in_range)
        .map(Timestamp)
        .map_err(|problem| {
            Error::bad_request(format!(
                "time {:?} {problem}; write it like \"2030-01-31T09:00:00Z\", \"2030-01-31T09:00:00+01:00\", or as Unix \
                 milliseconds",
                clip(text)
            ))
        })
}

fn in_range(ms: u64) -> Result<u64, &'static str> {
    if ms <= LAST_INSTANT.0 {
        Ok(ms)
    } else {
        Err("is after the year 9999")
    }
}

/// Reads a size: `64KiB`, `10MB`, `1.5GiB`, or a whole number of bytes. The case of the letters does not matter.
pub fn parse_size(text: &str) -> Result<u64> {
    let scaled = || {
        let (number, unit) = text.split_at(number_length(text));
        let size = SIZE_UNITS
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(unit))
            .map(|(_, size)| *size)
            .ok_or("has no unit of bytes")?;
        scale(number, size)
    };
    whole(text).unwrap_or_else(scaled).map_err(|problem| {
        Error::bad_request(format!(
            "size {:?} {problem}; write it like \"64KiB\", \"10MB\", or as bytes",
            clip(text)
        ))
    })
}

/// Prints a size exactly, in the largest unit that divides it: `64KiB`, `10MB`, `1001B`.
pub fn size(bytes: u64) -> String {
    let (unit, size) = SIZE_UNITS
        .into_iter()
        .find(|(_, size)| bytes >= *size && bytes.is_multiple_of(*size))
        .unwrap_or(("B", 1));
    format!("{}{unit}", bytes / size)
}

/// `None` unless the text is digits only.
fn whole(text: &str) -> Option<Result<u64, &'static str>> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().map_err(|_| "is too large"))
}

/// How many bytes at the start look like a number.
fn number_length(text: &str) -> usize {
    text.bytes()
        .take_while(|b| b.is_ascii_digit() || *b == b'.')
        .count()
}

fn compound(text: &str) -> Result<u64, &'static str> {
    if text.is_empty() {
        return Err("is empty");
    }
    let (mut total, mut rest, mut units) = (0u64, text, TIME_UNITS.as_slice());
    while !rest.is_empty() {
        let (number, tail) = rest.split_at(number_length(rest));
        let letters = tail.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, tail) = tail.split_at(letters);
        let place = units
            .iter()
            .position(|(name, _)| *name == unit)
            .ok_or("is not made of numbers with d, h, m, s or ms, the largest first")?;
        total = total
            .checked_add(scale(number, units[place].1)?)
            .ok_or("is too large")?;
        (rest, units) = (tail, &units[place + 1..]);
    }
    Ok(total)
}

/// A decimal number times `unit`, exactly.
fn scale(number: &str, unit: u64) -> Result<u64, &'static str> {
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(part) {
        return Err("is not a number with a unit");
    }
    let whole: u64 = whole.parse().map_err(|_| "is too large")?;
    let part = part.trim_end_matches('0');
    let too_fine = "is finer than a millisecond or a byte";
    // Nineteen digits of a part times any of our units fit into 128 bits.
    if part.len() > 19 {
        return Err(too_fine);
    }
    let (scale, part) = (
        10u128.pow(part.len() as u32),
        part.parse::<u128>().unwrap_or(0),
    );
    let part = part * u128::from(unit);
    if !part.is_multiple_of(scale) {
        return Err(too_fine);
    }
    // The part is less than one unit, so it fits.
    whole
        .checked_mul(unit)
        .and_then(|ms| ms.checked_add((part / scale) as u64))
        .ok_or("is too large")
}

fn calendar(text: &str) -> Result<u64, &'static str> {
    let instant: jiff::Timestamp = text
        .parse()
        .map_err(|_| "is not a calendar time with an offset")?;
    u64::try_from(instant.as_millisecond()).map_err(|_| "is before the year 1970")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::engine::Pick;
    use crate::job::{Jitter, OnDuplicate};
    use crate::life::State;
    use crate::schedule::Missed;

    #[test]
    fn every_word_reads_back_and_any_other_is_told_what_there_is() {
        fn check<T>(all: &[T], as_str: fn(T) -> &'static str)
        where
            T: Copy + std::fmt::Debug + PartialEq + std::str::FromStr<Err = Error>,
        {
            for one in all {
                assert_eq!(as_str(*one).parse(), Ok(*one));
            }
            let refusal = "Else".parse::<T>().expect_err("no such word");
            assert!(refusal.message().ends_with(", not \"Else\""), "{refusal}");
            assert!(refusal.message().contains(as_str(all[0])), "{refusal}");
        }
        check(&State::ALL, State::as_str);
        check(&Jitter::ALL, Jitter::as_str);
        check(&OnDuplicate::ALL, OnDuplicate::as_str);
        check(&Missed::ALL, Missed::as_str);
        check(&Pick::ALL, Pick::as_str);
    }

    #[test]
    fn durations_are_read_as_people_write_them() {
        let table = [
            ("0", 0),
            ("250", 250),
            ("0s", 0),
            ("250ms", 250),
            ("1.5s", 1500),
            ("0.001s", 1),
            ("1.500000000000000000000000s", 1500),
            ("30s", 30_000),
            ("5m", 300_000),
            ("2h", 7_200_000),
            ("1d", 86_400_000),
            ("1h30m", 5_400_000),
            ("1d2h3m4s5ms", 93_784_005),
            ("1m1.25s", 61_250),
            ("18446744073709551615ms", u64::MAX),
        ];
        for (text, ms) in table {
            assert_eq!(
                parse_duration(text).unwrap(),
                Duration::from_millis(ms),
                "{text}"
            );
        }
    }

    #[test]
    fn a_wrong_duration_is_refused_with_its_text_and_an_example() {
        let long = "9".repeat(10_000_000);
        for text in [
            "",
            " ",
            "-1",
            "-5s",
            "+5s",
            "NaN",
            "inf",
            "1e3",
            "s",
            "1.s",
            ".5s",
            "1..5s",
            "1.5",
            "5 s",
            "5s ",
            "30m1h",
            "1h1h",
            "1y",
            "1ss",
            "1S",
            "0.0001s",
            "1.5ms",
            "0.33333333333333333333s",
            "18446744073709551616",
            "18446744073709551616ms",
            "213503982335d",
            "1d18446744073709551615ms",
            "٣s",
            "5µs",
            "1h\0",
            &long,
        ] {
            let error = parse_duration(text).unwrap_err().to_string();
            assert!(error.contains(&format!("{:?}", clip(text))), "{error}");
            assert!(error.contains("\"30s\""), "{error}");
            assert!(error.len() < 400);
        }
    }

    #[test]
    fn durations_are_printed_for_people() {
        let table = [
            (0, "0s"),
            (1, "1ms"),
            (999, "999ms"),
            (1000, "1s"),
            (1500, "1.5s"),
            (60_000, "1m"),
            (60_001, "1m0.001s"),
            (61_250, "1m1.25s"),
            (5_400_000, "1h30m"),
            (86_400_000, "1d"),
            (10 * 365 * 86_400_000, "3650d"),
        ];
        for (ms, text) in table {
            assert_eq!(duration(Duration::from_millis(ms)), text);
        }
    }

    #[test]
    fn instants_are_read_with_any_offset_or_as_milliseconds() {
        let table = [
            ("0", 0),
            ("1700000000123", 1_700_000_000_123),
            ("2023-11-14T22:13:20.123Z", 1_700_000_000_123),
            ("2023-11-14T22:13:20.123999Z", 1_700_000_000_123),
            ("2023-11-15T00:13:20+02:00", 1_700_000_000_000),
            ("1970-01-01T00:00:00Z", 0),
        ];
        for (text, ms) in table {
            assert_eq!(parse_timestamp(text).unwrap(), Timestamp(ms), "{text}");
        }
    }

    #[test]
    fn a_wrong_instant_is_refused_with_its_text_and_an_example() {
        for text in [
            "",
            "now",
            "-1",
            "NaN",
            "2023-11-14",
            "2023-11-14T22:13:20",
            "2023-02-30T00:00:00Z",
            "1969-12-31T23:59:59Z",
            "-000001-01-01T00:00:00Z",
            "10000-01-01T00:00:00Z",
            "253402300800000",
            "18446744073709551615",
            "99999999999999999999",
        ] {
            let error = parse_timestamp(text).unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")), "{error}");
            assert!(error.contains("2030-01-31T09:00:00Z"), "{error}");
        }
    }

    #[test]
    fn sizes_are_read_and_printed() {
        for (text, bytes, shown) in [
            ("0", 0, "0B"),
            ("1001", 1001, "1001B"),
            ("10MB", 10_000_000, "10MB"),
            ("64KiB", 65_536, "64KiB"),
            ("64kib", 65_536, "64KiB"),
            ("1.5GiB", 1_610_612_736, "1536MiB"),
            ("1TB", 1_000_000_000_000, "1TB"),
            ("1024KiB", 1 << 20, "1MiB"),
            ("7B", 7, "7B"),
        ] {
            assert_eq!(parse_size(text).unwrap(), bytes, "{text}");
            assert_eq!(size(bytes), shown);
        }
        for text in [
            "",
            "MB",
            "-1MB",
            "1.5B",
            "1.5",
            "10 MB",
            "10XB",
            "NaN",
            "99999999TiB",
            "1M\0",
        ] {
            let error = parse_size(text).unwrap_err().to_string();
            assert!(error.contains("\"64KiB\""), "{error}");
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back(ms: u64, at in 0..=LAST_INSTANT.0, bytes: u64) {
            let span = Duration::from_millis(ms);
            prop_assert_eq!(parse_duration(&duration(span)).unwrap(), span);
            prop_assert_eq!(parse_timestamp(&Timestamp(at).to_string()).unwrap(), Timestamp(at));
            prop_assert_eq!(parse_size(&size(bytes)).unwrap(), bytes);
        }

        #[test]
        fn no_text_makes_a_reader_panic(text in any::<String>(), near in "[0-9.dhms +:TZ-]{0,30}") {
            for text in [text, near] {
                let _ = (parse_duration(&text), parse_timestamp(&text), parse_size(&text));
            }
        }
    }
}
