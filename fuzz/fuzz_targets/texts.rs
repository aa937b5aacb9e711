//! Durations, times, sizes, names, ids, tokens and patterns as people write them: two texts, one in each line.

#![no_main]

use auxo_core::topic::Pattern;
use auxo_core::{JobId, QueueName, Result, Token, text};
use auxo_fuzz::refusal;
use auxo_wire::resp::Id;
use libfuzzer_sys::fuzz_target;

/// What was understood reads the same when it is printed.
fn again<T: PartialEq + std::fmt::Debug>(
    input: &str,
    read: impl Fn(&str) -> Result<T>,
    print: impl Fn(&T) -> String,
) {
    match read(input) {
        Ok(value) => assert_eq!(read(&print(&value)).as_ref(), Ok(&value)),
        Err(error) => refusal::check(&error),
    }
}

/// Matches a pattern in the plainest way: every number of words that `#` could stand for is tried.
fn plainly(pattern: &[&str], key: &[&str]) -> bool {
    match pattern.split_first() {
        None => key.is_empty(),
        Some((&"#", rest)) => (0..=key.len()).any(|words| plainly(rest, &key[words..])),
        Some((word, rest)) => key.split_first().is_some_and(|(first, others)| {
            (*word == "*" || word == first) && plainly(rest, others)
        }),
    }
}

fn words(text: &str) -> Vec<&str> {
    match text {
        "" => Vec::new(),
        text => text.split('.').collect(),
    }
}

fuzz_target!(|bytes: &[u8]| {
    let input = String::from_utf8_lossy(bytes);
    let (one, two) = input.split_once('\n').unwrap_or((&input, ""));
    again(one, text::parse_duration, |span| text::duration(*span));
    again(one, text::parse_timestamp, |at| at.to_string());
    again(one, text::parse_size, |size| text::size(*size));
    again(one, str::parse::<JobId>, JobId::to_string);
    again(one, str::parse::<Token>, Token::to_string);
    again(one, QueueName::new, QueueName::to_string);
    refusal::line(&text::one_line(&one.chars().take(90).collect::<String>()));
    let _ = Id::read(one.as_bytes());
    match Pattern::new(one) {
        Ok(pattern) => {
            assert_eq!(pattern.as_str(), one);
            let fits = pattern.matches(two);
            // The plain way takes for ever where there is much to try.
            if one.len() <= 24 && two.len() <= 24 {
                assert_eq!(
                    fits,
                    plainly(&one.split('.').collect::<Vec<_>>(), &words(two))
                );
            }
        }
        Err(error) => refusal::check(&error),
    }
});
