//! Whom a certificate is for, in words for a log, and until when.
//!
//! rustls keeps a certificate as it came, in DER. What is wanted of it is one name and two times, so it is read here as far as
//! that: the name in the form of RFC 4514, but in the order of the certificate, the parts that people know.

use std::ops::Range;

use auxo_core::Timestamp;
use auxo_core::text::parse_timestamp;

/// How many characters of a subject are kept.
const MOST: usize = 200;

/// The subject of a certificate, such as `O=Example,CN=ada`; `None` if it has none.
pub fn subject(certificate: &[u8]) -> Option<String> {
    let (_, _, rest) = element(from_times(certificate)?)?;
    let (_, mut parts, _) = element(rest)?;
    let mut said = Vec::new();
    while let Some((_, set, more)) = element(parts) {
        parts = more;
        said.extend(part(set));
    }
    let text: String = said.join(",").chars().take(MOST).collect();
    (!text.is_empty()).then_some(text)
}

/// From when on, and until when, a certificate is good; `None` if it does not say so in a way that is known here.
pub fn validity(certificate: &[u8]) -> Option<Range<Timestamp>> {
    let (_, times, _) = element(from_times(certificate)?)?;
    let (kind, begin, rest) = element(times)?;
    let begin = time(kind, begin)?;
    let (kind, end, _) = element(rest)?;
    Some(begin..time(kind, end)?)
}

/// A certificate from its times on.
fn from_times(certificate: &[u8]) -> Option<&[u8]> {
    let (_, certificate, _) = element(certificate)?;
    let (_, mut rest, _) = element(certificate)?;
    // The version may be left out. Behind it are a serial number, an algorithm and the issuer.
    if rest.first() == Some(&0xa0) {
        rest = element(rest)?.2;
    }
    for _ in 0..3 {
        rest = element(rest)?.2;
    }
    Some(rest)
}

/// A time as RFC 5280 writes it: `YYMMDDhhmmssZ` up to 2049, `YYYYMMDDhhmmssZ` after.
fn time(kind: u8, text: &[u8]) -> Option<Timestamp> {
    let text = std::str::from_utf8(text).ok()?;
    let (year, rest) = match kind {
        0x17 => {
            let (year, rest) = text.split_at_checked(2)?;
            let century = if year < "50" { "20" } else { "19" };
            (format!("{century}{year}"), rest)
        }
        0x18 => {
            let (year, rest) = text.split_at_checked(4)?;
            (year.to_owned(), rest)
        }
        _ => return None,
    };
    let digits = rest.strip_suffix('Z')?;
    if digits.len() != 10 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let part = |at: usize| &digits[at..at + 2];
    let (month, day) = (part(0), part(2));
    let (hour, minute, second) = (part(4), part(6), part(8));
    let text = format!("{year}-{month}-{day}T{hour}:{minute}:{second}Z");
    parse_timestamp(&text).ok()
}

/// A part of a name, if it is one that people know.
fn part(set: &[u8]) -> Option<String> {
    let (_, pair, _) = element(set)?;
    let (_, kind, value) = element(pair)?;
    let kind = match kind {
        // 2.5.4.n
        [0x55, 4, 3] => "CN",
        [0x55, 4, 6] => "C",
        [0x55, 4, 7] => "L",
        [0x55, 4, 8] => "ST",
        [0x55, 4, 10] => "O",
        [0x55, 4, 11] => "OU",
        _ => return None,
    };
    let value = match element(value)? {
        // UTF8String, PrintableString, TeletexString, IA5String
        (0x0c | 0x13 | 0x14 | 0x16, text, _) => String::from_utf8_lossy(text),
        _ => return None,
    };
    Some(format!("{kind}={}", escaped(&value)))
}

/// A value as RFC 4514 writes it, so that nobody's name looks like two.
fn escaped(value: &str) -> String {
    let last = value.chars().count().saturating_sub(1);
    let mut text = String::with_capacity(value.len());
    for (place, letter) in value.chars().enumerate() {
        let is_special = match letter {
            '"' | '+' | ',' | ';' | '<' | '>' | '\\' => true,
            ' ' => place == 0 || place == last,
            '#' => place == 0,
            _ => false,
        };
        match letter {
            control if control.is_ascii_control() => {
                text.push_str(&format!("\\{:02X}", u32::from(control)));
            }
            letter if is_special => text.extend(['\\', letter]),
            letter => text.push(letter),
        }
    }
    text
}

/// The first element of DER: its tag, its contents, and what is behind it.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        // A length of so many bytes; nothing here has more than four.
        0x81..=0x84 => {
            let (length, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            let add = |sum: usize, byte: &u8| sum << 8 | usize::from(*byte);
            (length.iter().fold(0, add), rest)
        }
        _ => return None,
    };
    let (contents, rest) = rest.split_at_checked(length)?;
    Some((tag, contents, rest))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    use super::*;

    fn certificate(parts: &[(DnType, &str)]) -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["ada.example".to_owned()]).unwrap();
        params.distinguished_name = DistinguishedName::new();
        for (kind, value) in parts {
            params.distinguished_name.push(kind.clone(), *value);
        }
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn a_subject_is_told_by_the_parts_that_people_know() {
        let ada = certificate(&[
            (DnType::OrganizationName, "Example"),
            (DnType::CommonName, "ada"),
        ]);
        assert_eq!(subject(&ada).as_deref(), Some("O=Example,CN=ada"));
        assert_eq!(subject(&certificate(&[])), None);
        let long = certificate(&[(DnType::CommonName, &"ä".repeat(1000))]);
        assert_eq!(subject(&long).map(|s| s.chars().count()), Some(MOST));
    }

    #[test]
    fn a_certificate_says_from_when_and_until_when_it_is_good() {
        let mut params = CertificateParams::new(vec!["ada.example".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(1999, 12, 31);
        params.not_after = rcgen::date_time_ymd(2077, 1, 2);
        let key = KeyPair::generate().unwrap();
        let made = params.self_signed(&key).unwrap().der().to_vec();
        let at = |text| parse_timestamp(text).unwrap();
        let good = at("1999-12-31T00:00:00Z")..at("2077-01-02T00:00:00Z");
        assert_eq!(validity(&made), Some(good));
        for end in 0..made.len() {
            assert_eq!(validity(&made[..end]), None);
        }
    }

    #[test]
    fn nobody_forges_a_part_of_a_subject() {
        for (value, told) in [
            ("ada,O=Example", r"CN=ada\,O=Example"),
            ("a+b;c<d>e\"f\\g", r#"CN=a\+b\;c\<d\>e\"f\\g"#),
            ("#a b", r"CN=\#a b"),
            (" a ", r"CN=\ a\ "),
            (" ", r"CN=\ "),
            ("a\nb\0", r"CN=a\0Ab\00"),
            ("ä=#", "CN=ä=#"),
        ] {
            let made = certificate(&[(DnType::CommonName, value)]);
            assert_eq!(subject(&made).as_deref(), Some(told));
        }
    }

    #[test]
    fn half_a_certificate_is_nobodys() {
        let ada = certificate(&[(DnType::CommonName, "ada")]);
        for end in 0..ada.len() {
            assert_eq!(subject(&ada[..end]), None);
        }
        let _ = subject(&[0xff; 64]);
        let _ = subject(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff, 0]);
    }
}
