//! Compares what was printed with what was expected, word by word.

use std::collections::BTreeMap;

/// Which id or token of the README stands for which of this run.
#[derive(Default)]
pub struct Names(BTreeMap<String, String>);

impl Names {
    /// A command with the ids and tokens of this run.
    pub fn in_command(&self, command: &str) -> String {
        // Longest first: a token begins with an id.
        let mut names: Vec<_> = self.0.iter().collect();
        names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        names
            .into_iter()
            .fold(command.to_owned(), |line, (name, now)| {
                line.replace(name, now)
            })
    }

    /// Says what is different.
    pub fn compare(&mut self, expected: &[String], printed: &[String]) -> Result<(), String> {
        if expected.len() != printed.len() {
            let (was, is) = (expected.len(), printed.len());
            return Err(format!("{was} lines were expected, not {is}"));
        }
        expected
            .iter()
            .zip(printed)
            .try_for_each(|(expected, printed)| self.line(expected, printed))
    }

    fn line(&mut self, expected: &str, printed: &str) -> Result<(), String> {
        let (expected, printed) = (words(expected), words(printed));
        if expected.len() != printed.len() {
            return Err(format!("{expected:?} is not {printed:?}"));
        }
        for (place, (was, is)) in expected.iter().zip(&printed).enumerate() {
            let before = place.checked_sub(1).map(|place| expected[place]);
            let after = expected.get(place + 1).copied();
            let is_distance = matches!(before, Some("in" | "(")) || after == Some("ago");
            if !(self.word(was, is)? || is_distance && is_span(was) && is_span(is)) {
                return Err(format!("{was:?} is not {is:?} in {printed:?}"));
            }
        }
        Ok(())
    }

    /// Whether two words mean the same.
    fn word(&mut self, was: &str, is: &str) -> Result<bool, String> {
        let is_name = |word: &str| is_id(word) || is_token(word);
        if is_name(was) && is_name(is) && is_id(was) == is_id(is) {
            let known = self.0.iter().find(|(name, now)| *name == was || *now == is);
            match known {
                Some((name, now)) if (name.as_str(), now.as_str()) != (was, is) => {
                    return Err(format!("{name} was {now} before, and {was} is {is} now"));
                }
                _ => self.0.insert(was.to_owned(), is.to_owned()),
            };
            return Ok(true);
        }
        Ok(was == is || is_time(was) && is_time(is) || is_rate(was) && is_rate(is))
    }
}

/// Words, and the punctuation around them that could be part of a value.
fn words(line: &str) -> Vec<&str> {
    let mut words = Vec::new();
    for mut word in line.split_whitespace() {
        while let Some(rest) = word.strip_prefix(['(', '`']) {
            words.push(&word[..1]);
            word = rest;
        }
        let bare = word.trim_end_matches([',', ':', ';', ')', '`']);
        words.extend(
            [bare, &word[bare.len()..]]
                .into_iter()
                .filter(|part| !part.is_empty()),
        );
    }
    words
}

fn is_id(word: &str) -> bool {
    word.len() >= 15 && word.bytes().all(|b| b.is_ascii_digit())
}

fn is_token(word: &str) -> bool {
    let mut parts = word.splitn(2, '-');
    parts.next().is_some_and(is_id) && parts.next().is_some()
}

/// RFC 3339 in UTC.
fn is_time(word: &str) -> bool {
    word.len() == "2026-01-01T00:00:00.000Z".len() && word.contains('T') && word.ends_with('Z')
}

fn is_span(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit()) && auxo::core::text::parse_duration(word).is_ok()
}

/// So many in a second.
fn is_rate(word: &str) -> bool {
    word.strip_suffix("/s")
        .is_some_and(|count| count.parse::<f64>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "242112531406848";
    const B: &str = "242112531574784";

    fn same(names: &mut Names, was: &str, is: &str) -> bool {
        names.compare(&[was.to_owned()], &[is.to_owned()]).is_ok()
    }

    #[test]
    fn what_differs_from_run_to_run_is_the_same() {
        let names = &mut Names::default();
        assert!(same(
            names,
            "due 2026-01-01T00:00:00.000Z, in 9m59s",
            "due 2027-11-16T03:28:24.781Z, in 10m"
        ));
        assert!(same(names, "5 done in 307ms", "5 done in 1.2s"));
        assert!(same(names, "(3s ago)", "(5s ago)"));
        assert!(same(
            names,
            "5 pushed, 6676/s in 14ms",
            "5 pushed, 12/s in 1s"
        ));
        assert!(same(names, "a   b", "a b"));
    }

    #[test]
    fn what_was_changed_is_not() {
        let names = &mut Names::default();
        assert!(!same(names, "5 done in 307ms", "4 done in 307ms"));
        assert!(!same(names, "5 done in 307ms", "5 done after 307ms"));
        assert!(!same(names, "lease length 1m", "lease length 2m"));
        assert!(!same(names, "a b", "a"));
        assert!(!same(names, A, "no such job"));
        assert!(names.compare(&["a".into()], &[]).is_err());
    }

    #[test]
    fn an_id_stands_for_one_id_throughout() {
        let names = &mut Names::default();
        assert!(same(names, A, B));
        assert!(same(
            names,
            &format!("job {A}: done"),
            &format!("job {B}: done")
        ));
        assert!(!same(names, A, "242112531808256"));
        assert!(!same(names, "242112531808256", B));
        let (was, is) = (
            format!("{A}-1-6dfc0781a389e9fd"),
            format!("{B}-7-0000000000000000"),
        );
        assert!(same(names, &was, &is));
        assert_eq!(
            names.in_command(&format!("auxo ack {was}; auxo job {A}")),
            format!("auxo ack {is}; auxo job {B}")
        );
    }
}
