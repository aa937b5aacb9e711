//! Whom a certificate is for, in words for a log.
//!
//! rustls has checked the certificate and keeps it as it came, in DER. What is wanted of it is one name, so it is read here as far as
//! that: in the form of RFC 4514, but in the order of the certificate, the parts that people know.

/// How many characters of a subject are kept.
const MOST: usize = 200;

/// The subject of a certificate, such as `O=Example,CN=ada`; `None` if it has none.
pub fn subject(certificate: &[u8]) -> Option<String> {
    let (_, certificate, _) = element(certificate)?;
    let (_, mut rest, _) = element(certificate)?;
    // The version may be left out. Behind it are a serial number, an algorithm, the issuer and a time.
    if rest.first() == Some(&0xa0) {
        rest = element(rest)?.2;
    }
    for _ in 0..4 {
        rest = element(rest)?.2;
    }
    let (_, mut parts, _) = element(rest)?;
    let mut said = Vec::new();
    while let Some((_, set, more)) = element(parts) {
        parts = more;
        said.extend(part(set));
    }
    let text: String = said.join(",").chars().take(MOST).collect();
    (!text.is_empty()).then_some(text)
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
