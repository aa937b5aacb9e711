//! How long a wrong token takes says nothing about what is wrong with it.
//!
//! Two sorts of wrong tokens are shown in a random order, and the times that each took are compared by Welch's t-test, as dudect
//! does it: what is far from zero cannot be chance. The slowest times are left out, for they are those in which the system did
//! something else. A machine that is busy with other things can still favour one sort for a while, so there are several tries; a
//! difference that is in the program shows in all of them.

use std::hint::black_box;
use std::time::Instant;

use auxo_core::Timestamp;
use auxo_server::{Token, Tokens};

const SAMPLES: usize = 100_000;
const TRIES: usize = 10;
/// What dudect takes for chance.
const BOUND: f64 = 4.5;
const NOW: Timestamp = Timestamp(1_700_000_000_000);

/// A thousand tokens, as the one that is attacked would be among others, and the text of one.
fn tokens() -> (Tokens, String) {
    let made = |_| Token::new("t", vec!["read:*".parse().unwrap()], NOW, None).unwrap();
    let made: Vec<_> = (0..1000).map(made).collect();
    let text = made[500].1.reveal().to_owned();
    let tokens = made.into_iter().map(|(token, _)| token);
    let tokens = tokens.fold(Tokens::default(), |tokens, token| tokens.with(token));
    (tokens, text)
}

/// The text with another letter in this place.
fn wrong_at(text: &str, place: usize) -> String {
    let mut bytes = text.as_bytes().to_owned();
    bytes[place] = if bytes[place] == b'a' { b'b' } else { b'a' };
    String::from_utf8(bytes).unwrap()
}

/// How far apart the means are, in units of what chance makes of them.
fn t(one: &[f64], other: &[f64]) -> f64 {
    let about = |times: &[f64]| {
        let count = times.len() as f64;
        let mean = times.iter().sum::<f64>() / count;
        let square = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>();
        (mean, square / (count - 1.0) / count)
    };
    let ((mean, spread), (other_mean, other_spread)) = (about(one), about(other));
    (mean - other_mean) / (spread + other_spread).sqrt()
}

fn measure(tokens: &Tokens, sorts: [&str; 2]) -> f64 {
    let mut times: [Vec<f64>; 2] = Default::default();
    // The same memory for both.
    let mut shown = String::with_capacity(100);
    let mut dice: u64 = 0x9e37_79b9_7f4a_7c15;
    for _ in 0..SAMPLES {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        let sort = (dice >> 32 & 1) as usize;
        shown.clear();
        shown.push_str(sorts[sort]);
        let began = Instant::now();
        let found = tokens.find(black_box(&shown), NOW);
        let took = began.elapsed();
        assert!(black_box(found).is_none());
        times[sort].push(took.as_nanos() as f64);
    }
    let mut all: Vec<f64> = times.iter().flatten().copied().collect();
    all.sort_by(f64::total_cmp);
    let slowest = all[all.len() * 9 / 10];
    for times in &mut times {
        times.retain(|time| *time < slowest);
    }
    t(&times[0], &times[1])
}

#[track_caller]
fn alike(tokens: &Tokens, one: &str, other: &str) {
    let mut seen = Vec::new();
    for _ in 0..TRIES {
        let t = measure(tokens, [one, other]);
        seen.push(t);
        println!("t = {t:.2}");
        if t.abs() < BOUND {
            return;
        }
    }
    panic!("{one} and {other} can be told apart: t = {seen:.1?}");
}

#[test]
fn how_much_of_a_secret_is_right_does_not_show() {
    let (tokens, text) = tokens();
    let first = text.rfind('_').unwrap() + 1;
    let (early, late) = (wrong_at(&text, first), wrong_at(&text, text.len() - 1));
    alike(&tokens, &early, &late);
}

#[test]
fn whether_an_id_is_known_does_not_show() {
    let (tokens, text) = tokens();
    let secret = text.rfind('_').unwrap() + 1;
    let known = wrong_at(&text, secret);
    let unknown = known.replacen(&text[5..13], "zzzzzzzz", 1);
    alike(&tokens, &known, &unknown);
}
