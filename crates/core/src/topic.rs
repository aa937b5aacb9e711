//! Topics: publishing puts one job into the queue of each subscription whose pattern matches.

use std::fmt;

use crate::error::{Error, Result};
use crate::id::clip;
use crate::job::QueueName;
use crate::text::is_deceptive;

/// The queue that gets a copy of each message of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// The topic.
    pub topic: String,
    /// The subscription's name, unique within the topic.
    pub name: String,
    /// Where the copies go.
    pub queue: QueueName,
    /// Which messages; `None` means all.
    pub pattern: Option<Pattern>,
}

/// What a routing key must look like: words separated by dots, where `*` stands for exactly one word and `#` for any
/// number of words, also none. It is matched as a whole, never in part.
#[derive(Clone, PartialEq, Eq)]
pub struct Pattern(String);

impl Pattern {
    /// Checks a pattern: `*` and `#` may only stand as whole words.
    ///
    /// ```
    /// use auxo_core::topic::Pattern;
    /// let pattern = Pattern::new("order.*.paid").unwrap();
    /// assert!(pattern.matches("order.7.paid"));
    /// assert!(!pattern.matches("order.7.8.paid"));
    /// ```
    pub fn new(text: &str) -> Result<Pattern> {
        let wild_part = |word: &str| word.len() > 1 && word.contains(['*', '#']);
        let problem = if text.is_empty() {
            "is empty"
        } else if text.len() > 255 {
            "is longer than 255 bytes"
        } else if text.chars().any(is_deceptive) {
            "has a control character"
        } else if text.split('.').any(wild_part) {
            "has '*' or '#' inside a word; they stand for whole words"
        } else {
            return Ok(Pattern(text.to_owned()));
        };
        Err(Error::bad_request(format!(
            "pattern {:?} {problem}",
            clip(text)
        )))
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the whole routing key fits. The time is bounded by words of the pattern times words of the key.
    pub fn matches(&self, routing_key: &str) -> bool {
        let words: Vec<&str> = if routing_key.is_empty() {
            Vec::new()
        } else {
            routing_key.split('.').collect()
        };
        // reach[i]: the pattern's words so far can stand for the first i words of the key.
        let mut reach = vec![false; words.len() + 1];
        reach[0] = true;
        for part in self.0.split('.') {
            if part == "#" {
                for i in 1..reach.len() {
                    reach[i] |= reach[i - 1];
                }
            } else {
                for i in (1..reach.len()).rev() {
                    reach[i] = reach[i - 1] && (part == "*" || part == words[i - 1]);
                }
                reach[0] = false;
            }
        }
        reach[words.len()]
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Subscription {
    /// Whether a message with this routing key belongs to the subscription.
    pub fn wants(&self, routing_key: Option<&str>) -> bool {
        self.pattern
            .as_ref()
            .is_none_or(|pattern| pattern.matches(routing_key.unwrap_or("")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_words_only() {
        let table = [
            ("a.b", "a.b", true),
            ("a.b", "a.b.c", false),
            ("a.b", "xa.b", false),
            ("*", "a", true),
            ("*", "", false),
            ("*", "a.b", false),
            ("#", "", true),
            ("#", "a.b.c", true),
            ("a.#", "a", true),
            ("a.#", "a.b.c", true),
            ("a.#", "b.a", false),
            ("#.z", "z", true),
            ("#.z", "a.b.z", true),
            ("a.#.z", "a.z", true),
            ("a.*.z", "a..z", true),
            ("a.#.m.#.z", "a.b.m.c.d.z", true),
            ("a.#.m.#.z", "a.b.c.d.z", false),
        ];
        for (pattern, key, expected) in table {
            assert_eq!(
                Pattern::new(pattern).unwrap().matches(key),
                expected,
                "{pattern} against {key:?}"
            );
        }
    }

    #[test]
    fn many_wildcards_do_not_take_exponential_time() {
        let pattern = Pattern::new(&["#"; 100].join(".")).unwrap();
        assert!(pattern.matches(&["a"; 1000].join(".")));
    }

    #[test]
    fn a_pattern_with_half_a_wildcard_is_refused() {
        for wrong in ["", "a*", "a.#b", "a\n", &"x".repeat(256)] {
            assert!(Pattern::new(wrong).is_err(), "{wrong:?}");
        }
    }
}
