//! Schedules: expressions that are accepted tick later and later, and soon enough.

#![no_main]

use std::time::Duration;

use arbitrary::Arbitrary;
use auxo_core::schedule::{CATCH_UP, Missed, Rhythm, Schedule};
use auxo_core::{JobSpec, Limits, Now, QueueName, Timestamp};
use auxo_fuzz::refusal;
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Input {
    rhythm: Kind,
    zone: u8,
    missed: u8,
    now: u64,
    late: u32,
}

#[derive(Arbitrary, Debug)]
enum Kind {
    Fields(Vec<Field>),
    Text(String),
    Every(u64),
}

#[derive(Arbitrary, Debug)]
enum Field {
    Any,
    Number(u8),
    Range(u8, u8),
    Step(u8),
    RangeStep(u8, u8, u8),
    List(u8, u8, u8),
    Last(u8),
    Nearest(u8),
    Nth(u8, u8),
    Word(u8),
    Text(String),
}

const WORDS: &[&str] = &[
    "?", "L", "LW", "W", "MON", "sun", "JAN", "dec", "@daily", "FRI#L", "+MON",
];
const ZONES: &[&str] = &[
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kathmandu",
    "Mars",
    "",
];

impl Field {
    fn text(&self) -> String {
        // Most fields end below sixty; what is above is wrong, and tried as well.
        let n = |number: &u8| number % 70;
        match self {
            Field::Any => "*".into(),
            Field::Number(a) => n(a).to_string(),
            Field::Range(a, b) => format!("{}-{}", n(a), n(b)),
            Field::Step(a) => format!("*/{}", n(a)),
            Field::RangeStep(a, b, c) => format!("{}-{}/{}", n(a), n(b), n(c)),
            Field::List(a, b, c) => format!("{},{},{}", n(a), n(b), n(c)),
            Field::Last(a) => format!("{}L", n(a)),
            Field::Nearest(a) => format!("{}W", n(a)),
            Field::Nth(a, b) => format!("{}#{}", n(a), n(b)),
            Field::Word(a) => WORDS[usize::from(*a) % WORDS.len()].into(),
            Field::Text(text) => text.clone(),
        }
    }
}

fuzz_target!(|input: Input| {
    let rhythm = match input.rhythm {
        Kind::Every(ms) => Rhythm::Every(Duration::from_millis(ms)),
        kind => Rhythm::Cron {
            zone: ZONES[usize::from(input.zone) % ZONES.len()].into(),
            expression: match kind {
                Kind::Fields(fields) => {
                    let fields: Vec<String> = fields.iter().map(Field::text).collect();
                    fields.join(" ")
                }
                Kind::Text(text) => text,
                Kind::Every(_) => unreachable!("above"),
            },
        },
    };
    let mut schedule = Schedule {
        name: "s".into(),
        queue: QueueName::new("q").expect("a name"),
        rhythm,
        missed: Missed::ALL[usize::from(input.missed) % 3],
        spec: JobSpec::default(),
        next: None,
        last: None,
    };
    // A clock that shows a year after 9999 is one that nobody can have set.
    let now = Now::at(input.now % auxo_core::text::LAST_INSTANT.0);
    if let Err(error) = Limits::default().check_schedule(&schedule, now.wall) {
        return refusal::check(&error);
    }
    schedule.next = schedule.rearm(now);
    let Some(first) = schedule.next else { return };
    assert!(
        first.at > now.wall,
        "{} is not after {}",
        first.at,
        now.wall
    );
    assert!(schedule.tick(now).fire.is_empty());
    let later = Now::at(first.at.0 + u64::from(input.late));
    let tick = schedule.tick(later);
    assert!(tick.fire.len() <= CATCH_UP);
    assert!(
        tick.fire.is_sorted_by(|a: &Timestamp, b| a < b),
        "{:?}",
        tick.fire
    );
    assert!(
        tick.fire
            .iter()
            .all(|at| first.at <= *at && *at <= later.wall)
    );
    assert!(tick.next.is_none_or(|next| next.at > later.wall));
});
