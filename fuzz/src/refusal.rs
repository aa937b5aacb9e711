//! What somebody hears who sent something wrong.

use auxo_core::{Code, Error};

/// No refusal is longer, whatever it quotes.
const LONGEST: usize = 1000;

/// A refusal says that the request is at fault and not the server, in one short line: what it quotes must not forge a line of a
/// log, nor reach a terminal as anything but text.
#[track_caller]
pub fn check(error: &Error) {
    let theirs = [
        Code::BadRequest,
        Code::TooLarge,
        Code::Conflict,
        Code::NotFound,
    ];
    assert!(theirs.contains(&error.code()), "{error:?}");
    line(error.message());
}

/// One short line.
#[track_caller]
pub fn line(message: &str) {
    assert!(!message.chars().any(char::is_control), "{message:?}");
    assert!(message.len() <= LONGEST, "{} bytes", message.len());
}
