//! What does the queue on Redis cost beside what Redis itself costs, and beside other queues on Redis? All sides in one run,
//! alternating, on the same server, which this program starts for itself.
//!
//! A `Line` is a question, a `Side` one way to answer it: a function that is given the ground and answers the
//! figures of one round. `auxo.rs` is our own, `raw.rs` has the sides that are only Redis commands, `peer.rs` those that other programs measure.
//! A new side is one more function and one more entry in the list below.

mod auxo;
mod ground;
mod line;
mod load;
mod neighbour;
mod peer;
mod raw;

use self::ground::Ground;
pub use self::ground::Persistence;
use self::line::{COMMANDS, Line, MEMORY, NEIGHBOUR, RATE, Side, TIMES};
use self::peer::Peers;
use crate::drive::PAYLOAD;
use crate::table::heading;
use crate::{Plan, Result};

/// Jobs in a batch.
const BATCH: usize = 100;
/// Pushes of one job that are open at once.
const OPEN: usize = 64;
/// Jobs that handlers have at once while a backlog is consumed.
const CONCURRENCY: [usize; 2] = [50, 100];
/// Calls that wait for a job each, to see how soon it comes.
const HANDLERS: usize = 16;
/// Jobs per second, to see how soon each is handled.
const PACE: u32 = 1_000;
/// Jobs whose memory is measured.
const STORED: u64 = 100_000;

/// Prints how fast jobs are pushed.
pub fn run_push(plan: &Plan) -> Result<()> {
    on_each(plan, |plan, peers| {
        let flight = plan.in_flight;
        vec![
            Line::new(
                format!("bulk push, batches of {BATCH}, {flight} under way"),
                RATE,
                [
                    Some(Side::new("auxo", |ground| auxo::bulk(ground, 0))),
                    Some(Side::new("LPUSH, pipelined", raw::bulk)),
                    peers.bullmq("bulk", &[]),
                ],
            ),
            Line::new(
                format!("pushes of one job, {OPEN} open"),
                RATE,
                [
                    Some(Side::new("auxo", auxo::single)),
                    Some(Side::new("LPUSH", raw::single)),
                    peers.bullmq("single", &[]),
                ],
            ),
        ]
    })
}

/// Prints how fast jobs are consumed, from a backlog and as they come.
pub fn run_consume(plan: &Plan) -> Result<()> {
    on_each(plan, |plan, peers| {
        let drain = |at_once: usize| {
            let option = ["--concurrency", &at_once.to_string()];
            Line::new(
                format!("consume a backlog, {at_once} at once"),
                RATE,
                [
                    Some(Side::new("auxo", move |ground| {
                        auxo::drain(ground, at_once)
                    })),
                    Some(Side::new("LMOVE, LREM, pipelined", move |ground| {
                        raw::drain(ground, at_once)
                    })),
                    peers.bullmq("drain", &option),
                    peers.apalis("drain", &option),
                ],
            )
        };
        let flight = plan.in_flight;
        let cycle = Line::new(
            format!("end to end, batches of {BATCH}, {flight} under way"),
            RATE,
            [
                Some(Side::new("auxo", auxo::cycle)),
                Some(Side::new("LPUSH, LMOVE, LREM, pipelined", raw::cycle)),
                peers.bullmq("cycle", &[]),
            ],
        );
        CONCURRENCY.map(drain).into_iter().chain([cycle]).collect()
    })
}

/// Prints whether many jobs slow the queue down, and what a job takes of memory.
pub fn run_far(plan: &Plan) -> Result<()> {
    on_each(plan, |plan, peers| {
        let far = plan.far as usize;
        vec![
            Line::new(
                format!("bulk push beside {far} waiting jobs"),
                RATE,
                [
                    Some(Side::new("auxo, a backlog", move |ground| {
                        auxo::bulk(ground, far)
                    })),
                    Some(Side::new("auxo", |ground| auxo::bulk(ground, 0))),
                ],
            ),
            Line::new(
                format!("consume from {far} waiting jobs"),
                RATE,
                [
                    Some(Side::new("auxo, of a backlog", move |ground| {
                        auxo::consume(ground, 100, far)
                    })),
                    Some(Side::new("auxo, all there is", |ground| {
                        auxo::drain(ground, 100)
                    })),
                ],
            ),
            Line::new(
                format!("consume {far} jobs that fell due at once"),
                RATE,
                [
                    Some(Side::new("auxo, due at once", move |ground| {
                        auxo::drain_due(ground, 100, far)
                    })),
                    Some(Side::new("auxo, a backlog", |ground| {
                        auxo::drain(ground, 100)
                    })),
                ],
            ),
            Line::new(
                format!("memory of {STORED} waiting jobs"),
                MEMORY,
                [
                    Some(Side::new("auxo", auxo::memory)),
                    Some(Side::new("a list", raw::memory)),
                    peers.bullmq("memory", &["--jobs", &STORED.to_string()]),
                ],
            ),
        ]
    })
}

/// Prints what a process asks of Redis while nothing happens.
pub fn run_idle(plan: &Plan) -> Result<()> {
    on_each(plan, |plan, _| {
        let side = |name: &str, shards: u16, waiting: usize| {
            let measure = move |ground: &Ground| auxo::idle(ground, shards, waiting);
            Some(Side::new(name, measure))
        };
        vec![Line::new(
            format!("idle for {} s", plan.idle.as_secs_f64()),
            COMMANDS,
            [
                side("auxo, nobody waits", 1, 0),
                side("auxo, 64 leases wait", 1, OPEN),
                side("auxo, 16 shards, 64 leases wait", 16, OPEN),
            ],
        )]
    })
}

/// Prints how soon jobs are handled that are pushed or fall due.
pub fn run_waiting(plan: &Plan) -> Result<()> {
    on_each(plan, |plan, peers| {
        vec![
            Line::new(
                format!("from push to handler, {PACE} jobs/s, {HANDLERS} wait"),
                TIMES,
                [
                    Some(Side::new("auxo", auxo::latency)),
                    Some(Side::new("LPUSH, BLMOVE", raw::latency)),
                    peers.bullmq("latency", &[]),
                ],
            ),
            Line::new(
                format!(
                    "lateness of {} jobs due at random instants within 10 s",
                    plan.due
                ),
                TIMES,
                [
                    Some(Side::new("auxo", auxo::lateness)),
                    peers.bullmq("lateness", &["--jobs", &plan.due.to_string()]),
                ],
            ),
        ]
    })
}

/// Prints how long another client of the same Redis waits while many jobs go through.
pub fn run_neighbour(plan: &Plan) -> Result<()> {
    on_each(plan, |plan, _| {
        let far = plan.far as usize;
        let side = |(name, spec): (&'static str, neighbour::Spec)| {
            Some(Side::new(name, move |ground| {
                auxo::beside_a_neighbour(ground, far, spec)
            }))
        };
        let control = Some(Side::new("a script that counts", neighbour::control));
        vec![Line::new(
            format!("a neighbour's PING while {far} jobs are pushed and worked off"),
            NEIGHBOUR,
            neighbour::KINDS.map(side).into_iter().chain([control]),
        )]
    })
}

/// Measures the lines on a server of each kind.
fn on_each(plan: &Plan, lines: impl Fn(&Plan, &Peers) -> Vec<Line>) -> Result<()> {
    let peers = Peers::find(plan);
    for persistence in plan.aof.iter().copied() {
        let dir = tempfile::tempdir_in(&plan.dir)?;
        let ground = Ground::start(plan, dir.path(), persistence)?;
        heading(&format!(
            "redis {}, {persistence}, {PAYLOAD} B payload",
            ground.version()?
        ));
        for line in lines(plan, &peers) {
            line.measure(&ground)?.print();
        }
    }
    Ok(())
}
