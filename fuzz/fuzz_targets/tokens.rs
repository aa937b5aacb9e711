//! The file with tokens: any text, and a token that somebody shows.

#![no_main]

use auxo_core::Timestamp;
use auxo_fuzz::files::auth::tokens::Tokens;
use auxo_fuzz::{refusal, room};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let read = room::within(2000 * text.len() + (1 << 20), || Tokens::parse(&text));
    // What nobody was given is no token, whatever is in the file: no text is known that has a given hash.
    let shown = text.lines().next().unwrap_or_default();
    match read {
        Ok(tokens) => {
            assert!(tokens.find(shown, Timestamp(0)).is_none());
            let written = tokens.text().expect("a text");
            let twice = Tokens::parse(&written).expect("what was written");
            assert_eq!(tokens.list(), twice.list());
        }
        Err(error) => refusal::check(&error),
    }
});
