//! How often a proof repeats its fault: a few times in `scripts/test`, and as often as `scripts/prove NAME --rounds N` says.

/// The variable by which `scripts/prove` hands on its count.
const ROUNDS: &str = "AUXO_ROUNDS";

/// The count that was asked for, if one was.
pub fn asked() -> Option<u64> {
    let rounds = std::env::var(ROUNDS).ok()?;
    Some(rounds.parse().expect("AUXO_ROUNDS is a whole number"))
}

/// The count that was asked for, or a few.
pub fn or(few: u64) -> u64 {
    asked().unwrap_or(few)
}
