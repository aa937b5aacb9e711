//! What does a queue cost in a language that clients already speak? The same client, the same bytes, the same number of
//! connections, once to the server that the language is of, once to `auxo serve`.
//!
//! beanstalkd's words go to beanstalkd and to Auxo. For RESP the other side is Redis, used as people use it for a queue that must not
//! lose jobs: LPUSH, LMOVE to a list of what is in work, LREM when it is done; to Auxo go Disque's words.

mod due;
mod peer;
mod tongue;
mod work;

use std::path::Path;

use self::peer::{Kind, Peer, Sync};
use self::tongue::Tongue;
use self::work::{Load, Work};
use crate::table::{Aim, heading, median, verdict};
use crate::{Plan, Result, host};

/// What is asked of a server, and how much better than the other it is to be.
struct Case {
    work: Work,
    connections: usize,
    depth: usize,
    aim: f64,
}

const fn case(work: Work, connections: usize, depth: usize, aim: f64) -> Case {
    Case {
        work,
        connections,
        depth,
        aim,
    }
}

/// Prints beanstalkd's protocol beside beanstalkd.
pub fn run_beanstalk(plan: &Plan) -> Result<()> {
    let written = [
        case(Work::Put, 1, 1, 1.0),
        case(Work::Cycle, 1, 1, 1.0),
        case(Work::Put, 16, 1, 1.1),
        case(Work::Cycle, 16, 1, 1.1),
        case(Work::Put, 1, 100, 4.0),
        case(Work::Cycle, 1, 100, 4.0),
    ];
    let synced = [
        case(Work::Put, 16, 1, 4.0),
        case(Work::Cycle, 16, 1, 4.0),
        case(Work::Put, 64, 1, 12.0),
        case(Work::Cycle, 64, 1, 12.0),
    ];
    let sides = sides(
        plan,
        (Kind::Beanstalkd, Tongue::Beanstalk),
        Tongue::Beanstalk,
    );
    for payload in [100, 1024] {
        compare(plan, &sides, Sync::Written, payload, &written)?;
        compare(plan, &sides, Sync::Synced, payload, &synced)?;
    }
    due::run(plan, &sides)?;
    due::weigh(plan, &sides)
}

/// Prints Disque's words beside Redis as a queue.
pub fn run_resp(plan: &Plan) -> Result<()> {
    let written = [
        case(Work::Put, 16, 1, 0.9),
        case(Work::Cycle, 16, 1, 0.9),
        case(Work::Cycle, 1, 100, 1.2),
    ];
    let synced = [
        case(Work::Put, 16, 1, 1.2),
        case(Work::Cycle, 16, 1, 1.2),
        case(Work::Put, 64, 1, 1.5),
        case(Work::Cycle, 64, 1, 1.5),
    ];
    let sides = sides(plan, (Kind::Redis, Tongue::Lists), Tongue::Disque);
    for payload in [100, 1024] {
        compare(plan, &sides, Sync::Written, payload, &written)?;
        compare(plan, &sides, Sync::Synced, payload, &synced)?;
    }
    due::run(plan, &sides)?;
    due::weigh(plan, &sides)
}

/// A server, and what is spoken to it.
type Side = (Kind, Tongue);

/// The other server, ours, and another build of ours if there is one.
fn sides(plan: &Plan, other: Side, ours: Tongue) -> Vec<Side> {
    let before = plan.before.as_ref().map(|_| (Kind::Before, ours));
    [other, (Kind::Auxo, ours)]
        .into_iter()
        .chain(before)
        .collect()
}

/// All sides in turn, each on a new store.
fn compare(plan: &Plan, sides: &[Side], sync: Sync, payload: usize, cases: &[Case]) -> Result<()> {
    let dir = tempfile::tempdir_in(&plan.dir)?;
    for case in cases {
        let title = format!(
            "{}: {} of {payload} B, {} connections, {} at once on each, {sync}",
            sides[1].1,
            case.work,
            case.connections,
            if case.depth == 1 {
                "one".to_owned()
            } else {
                case.depth.to_string()
            },
        );
        if !title.contains(&plan.only) {
            continue;
        }
        heading(&title);
        let mut rounds: Vec<Vec<Load>> = sides.iter().map(|_| Vec::new()).collect();
        for round in 0..plan.rounds {
            for (side, (kind, tongue)) in sides.iter().enumerate() {
                let place = dir.path().join(format!("{side}-{round}"));
                std::fs::create_dir_all(&place)?;
                let peer = Peer::start(plan, *kind, *tongue, &place, sync)?;
                host::settle(dir.path())?;
                rounds[side].push(work::measure(plan, &peer, *tongue, payload, case)?);
                drop(peer);
                std::fs::remove_dir_all(place)?;
            }
        }
        print(sides, &rounds);
        let what = format!("{} of {}", sides[1].0, sides[0].0);
        verdict(
            &what,
            ratio(&rounds[1], &rounds[0]),
            "",
            Aim::AtLeast(case.aim),
        );
        if let Some(before) = rounds.get(2) {
            println!("  auxo of auxo before: {:.3}", ratio(&rounds[1], before));
        }
        if case.depth > 1 && matches!(case.work, Work::Cycle) {
            let cpu = median(rounds[1].iter().map(Load::server_us).collect());
            verdict("server CPU of a cycle", cpu, " us", Aim::AtMost(6.0));
        }
    }
    Ok(())
}

/// The median of what the rounds of one side are of those of another.
fn ratio(ours: &[Load], others: &[Load]) -> f64 {
    let rounds = ours.iter().zip(others);
    median(
        rounds
            .map(|(one, other)| one.rate() / other.rate())
            .collect(),
    )
}

fn print(sides: &[Side], rounds: &[Vec<Load>]) {
    println!(
        "  {:<20} {:>12} {:>14} {:>14}",
        "side", "per second", "client us each", "server us each"
    );
    for ((kind, _), rounds) in sides.iter().zip(rounds) {
        let of = |figure: fn(&Load) -> f64| median(rounds.iter().map(figure).collect());
        println!(
            "  {:<20} {:>12.0} {:>14.2} {:>14.2}",
            kind.to_string(),
            of(Load::rate),
            of(Load::client_us),
            of(Load::server_us),
        );
    }
}

/// A directory below the plan's.
fn below(plan: &Plan) -> Result<tempfile::TempDir> {
    Ok(tempfile::tempdir_in(Path::new(&plan.dir))?)
}
