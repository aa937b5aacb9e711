//! A request that is a line, as a person types it.
//!
//! Words stand between spaces. A word in double quotes may have spaces, and `\n`, `\r`, `\t`, `\b`, `\a` and `\x41` in it; one in
//! single quotes is taken as it is, but for `\'`.

use super::args::Place;

/// A quote that does not end, or a word that goes on behind one.
#[derive(Debug)]
pub struct Unbalanced;

/// Takes a line apart: its words one behind the other, and where each is.
pub fn split(line: &[u8], places: &mut Vec<Place>) -> Result<Vec<u8>, Unbalanced> {
    let mut words = Vec::with_capacity(line.len());
    let mut rest = line;
    loop {
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return Ok(words);
        }
        let begin = words.len();
        rest = word(rest, &mut words)?;
        places.push((begin, words.len()));
    }
}

/// Takes one word; answers what is behind it.
fn word<'a>(mut rest: &'a [u8], words: &mut Vec<u8>) -> Result<&'a [u8], Unbalanced> {
    while let Some((first, behind)) = rest.split_first() {
        match first {
            b'"' => return closed(double(behind, words)?),
            b'\'' => return closed(single(behind, words)?),
            byte if byte.is_ascii_whitespace() => break,
            byte => words.push(*byte),
        }
        rest = behind;
    }
    Ok(rest)
}

/// A quote must be the end of its word.
fn closed(rest: &[u8]) -> Result<&[u8], Unbalanced> {
    match rest.first() {
        Some(byte) if !byte.is_ascii_whitespace() => Err(Unbalanced),
        _ => Ok(rest),
    }
}

fn double<'a>(mut rest: &'a [u8], words: &mut Vec<u8>) -> Result<&'a [u8], Unbalanced> {
    loop {
        rest = match rest {
            [b'"', behind @ ..] => return Ok(behind),
            [b'\\', b'x', high, low, behind @ ..]
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                words.push(nibble(*high) << 4 | nibble(*low));
                behind
            }
            [b'\\', escaped, behind @ ..] => {
                words.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                behind
            }
            [byte, behind @ ..] => {
                words.push(*byte);
                behind
            }
            [] => return Err(Unbalanced),
        };
    }
}

fn nibble(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

fn single<'a>(mut rest: &'a [u8], words: &mut Vec<u8>) -> Result<&'a [u8], Unbalanced> {
    loop {
        rest = match rest {
            [b'\'', behind @ ..] => return Ok(behind),
            [b'\\', b'\'', behind @ ..] => {
                words.push(b'\'');
                behind
            }
            [byte, behind @ ..] => {
                words.push(*byte);
                behind
            }
            [] => return Err(Unbalanced),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        let mut places = Vec::new();
        let all = split(line.as_bytes(), &mut places).unwrap();
        let word = |(begin, end): &Place| String::from_utf8_lossy(&all[*begin..*end]).into_owned();
        places.iter().map(word).collect()
    }

    #[test]
    fn words_stand_between_spaces_and_in_quotes() {
        for (line, expected) in [
            ("", &[] as &[&str]),
            ("  \t ", &[]),
            ("ping", &["ping"]),
            ("  a  b\tc ", &["a", "b", "c"]),
            ("a \"b c\" d", &["a", "b c", "d"]),
            ("\"\" ''", &["", ""]),
            (r#""\x41\n\"\\\q""#, &["A\n\"\\q"]),
            (r#""\x4""#, &["x4"]),
            (r"'it\'s \n'", &["it's \\n"]),
            ("a\"b\"", &["ab"]),
        ] {
            assert_eq!(words(line), expected, "{line:?}");
        }
    }

    #[test]
    fn a_quote_that_does_not_end_is_refused() {
        for line in ["\"a", "'a", "a \"", "\"a\"b", "'a'b", "\"a\\"] {
            assert!(split(line.as_bytes(), &mut Vec::new()).is_err(), "{line:?}");
        }
    }
}
