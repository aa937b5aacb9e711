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
mod peer;
mod raw;

use self::ground::{Ground, Persistence};
use self::line::{Line, MEMORY, RATE, Side, TIMES};
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
/// Jobs per second, to see how soon each is handled.
const PACE: u32 = 1_000;
/// Jobs whose memory is measured.
const STORED: u64 = 100_000;

/// Prints how fast jobs are pushed and consumed, and what they take of Redis.
pub fn run(plan: &Plan) -> Result<()> {
    on_each(plan, |plan, peers| {
        let flight = plan.in_flight;
        let mut lines = vec![
            Line::new(
                format!("bulk push, batches of {BATCH}, {flight} under way"),
                RATE,
                [
                    Some(Side::new("auxo", auxo::bulk)),
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
        ];
        for at_once in CONCURRENCY {
            let option = ["--concurrency", &at_once.to_string()];
            lines.push(Line::new(
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
            ));
        }
        lines.push(Line::new(
            format!("end to end, batches of {BATCH}, {flight} under way"),
            RATE,
            [
                Some(Side::new("auxo", auxo::cycle)),
                Some(Side::new("LPUSH, LMOVE, LREM, pipelined", raw::cycle)),
                peers.bullmq("cycle", &[]),
            ],
        ));
        lines.push(Line::new(
            format!("consume {} jobs that fell due at once", plan.far),
            RATE,
            [
                Some(Side::new("auxo, due at once", move |ground| {
                    auxo::drain_due(ground, 100, ground.plan.far as usize)
                })),
                Some(Side::new("auxo, a backlog", |ground| {
                    auxo::drain(ground, 100)
                })),
            ],
        ));
        lines.push(Line::new(
            format!("memory of {STORED} waiting jobs"),
            MEMORY,
            [
                Some(Side::new("auxo", auxo::memory)),
                Some(Side::new("a list", raw::memory)),
                peers.bullmq("memory", &["--jobs", &STORED.to_string()]),
            ],
        ));
        lines
    })
}

/// Prints how soon jobs are handled that are pushed or fall due.
pub fn run_waiting(plan: &Plan) -> Result<()> {
    on_each(plan, |plan, peers| {
        vec![
            Line::new(
                format!("from push to handler, {PACE} jobs/s"),
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

/// Measures the lines on a server of each kind.
fn on_each(plan: &Plan, lines: impl Fn(&Plan, &Peers) -> Vec<Line>) -> Result<()> {
    let peers = Peers::find(plan);
    for persistence in [Persistence::Off, Persistence::EverySecond] {
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
