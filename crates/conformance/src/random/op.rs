//! Random steps as data.

use std::time::Duration;

use auxo_core::engine::{self, Action, Mode, Outcome, Retry};
use auxo_core::job::{Backoff, Jitter, Key, OnDuplicate, Ttl};
use auxo_core::queue::{QueueConfig, Rate};
use auxo_core::time::When;
use auxo_core::{JobSpec, State};

use crate::bench::{Bench, ms, secs, text};

/// How many queues a run uses: small, so that steps meet.
pub(super) const QUEUES: u8 = 3;
/// After so many steps everything that is not leased is deleted, so that the model stays fast.
const SWEEP: usize = 150;

/// One step.
#[derive(Clone, Debug)]
pub enum Op {
    /// A batch of pushes.
    Push(Vec<Draft>),
    /// A lease call that does not wait.
    Lease {
        /// The queues, by number.
        queues: Vec<u8>,
        /// Which of them gives.
        pick: engine::Pick,
        /// How many jobs at most.
        max: u32,
        /// The length of the leases.
        ttr: Option<Duration>,
    },
    /// A lease call that names a job.
    LeaseJob(Pick, engine::Holds),
    /// A lease call that waits.
    Wait {
        /// The queues, by number.
        queues: Vec<u8>,
        /// Which of them gives.
        pick: engine::Pick,
        /// How many jobs at most.
        max: u32,
        /// For how long.
        wait: Duration,
    },
    /// A lease call that waits is dropped.
    Drop(u8),
    /// A batch of ends of leases.
    Settle(Vec<(Pick, Outcome)>),
    /// A batch of signs of life.
    Extend(Vec<(Pick, Option<Duration>)>),
    /// An operator's move on some jobs.
    Steer(Vec<Pick>, Action, Mode),
    /// An operator's move to an instant so far from now, which may be past.
    Reschedule(Pick, Moment),
    /// An operator's move on all jobs of a queue in some states.
    Bulk(u8, Vec<State>, Action, Mode),
    /// Looks up a key.
    FindKey(u8, u8),
    /// Changes a queue's settings.
    Configure(u8, QueueConfig),
    /// Adds a subscription of the one topic.
    Subscribe(u8, u8),
    /// Removes it.
    Unsubscribe(u8),
    /// Publishes to the one topic.
    Publish(Box<Draft>),
    /// Adds a schedule.
    Schedule(u8, u8, Duration),
    /// Removes it.
    Unschedule(u8),
    /// Lets time pass.
    Pass(Duration),
    /// Steps the wall clock by so many milliseconds.
    StepWall(i64),
    /// Closes and opens the engine.
    Reopen,
    /// Compares every job and the audit.
    Look,
}

/// A job to push; its instants are relative to the wall clock.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The queue, by number.
    pub queue: u8,
    /// What it is.
    pub spec: JobSpec,
    /// An absolute due time instead.
    pub due: Option<Moment>,
    /// An absolute end of life instead.
    pub end: Option<Moment>,
}

/// So many milliseconds from now on the wall clock.
#[derive(Clone, Copy, Debug)]
pub struct Moment(pub i64);

/// A job or lease by its number among those that are there.
#[derive(Clone, Copy, Debug)]
pub enum Pick {
    /// One of those that live.
    Live(u16),
    /// One of those that are gone, newest first.
    Gone(u16),
}

impl Op {
    /// The step where queues are in several places: who waits is served in one of them, and the most urgent is not known.
    fn one_queue_at_a_time(mut self) -> Op {
        match &mut self {
            Op::Lease { pick, .. } => *pick = engine::Pick::First,
            Op::Wait { queues, .. } => queues.truncate(1),
            _ => {}
        }
        self
    }

    /// The step without one of the items of its batch, in every way that leaves an item.
    pub(super) fn smaller(&self) -> Vec<Op> {
        match self {
            Op::Push(items) => without_one(items).map(Op::Push).collect(),
            Op::Settle(items) => without_one(items).map(Op::Settle).collect(),
            Op::Extend(items) => without_one(items).map(Op::Extend).collect(),
            Op::Steer(picks, action, mode) => without_one(picks)
                .map(|picks| Op::Steer(picks, action.clone(), *mode))
                .collect(),
            _ => Vec::new(),
        }
    }
}

fn without_one<T: Clone>(items: &[T]) -> impl Iterator<Item = Vec<T>> {
    let parts = if items.len() > 1 { items.len() } else { 0 };
    (0..parts).map(|at| {
        let mut fewer = items.to_vec();
        fewer.remove(at);
        fewer
    })
}

/// The steps of a seed.
pub(super) fn steps(seed: u64, count: usize, bench: &Bench) -> Vec<Op> {
    let mut dice = Dice(seed);
    let restarts = bench.reopen.is_some();
    let mut ops = Vec::with_capacity(count);
    while ops.len() < count {
        match ops.len() % SWEEP {
            0 if !ops.is_empty() => {
                let sweep = |queue| Op::Bulk(queue, Vec::new(), Action::Delete, Mode::Act);
                ops.extend((0..QUEUES).map(sweep));
            }
            40 | 110 => ops.push(Op::Look),
            _ => match dice.op(restarts) {
                // By a single clock a step back is another contract.
                Op::StepWall(_) if !bench.steady => {}
                op if !bench.together => ops.push(op.one_queue_at_a_time()),
                op => ops.push(op),
            },
        }
    }
    ops
}

/// Splitmix64.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.roll() % end
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize].clone()
    }

    fn maybe<T>(&mut self, n: u64, make: impl FnOnce(&mut Dice) -> T) -> Option<T> {
        self.one_in(n).then(|| make(self))
    }

    fn some<T>(&mut self, most: u64, mut make: impl FnMut(&mut Dice) -> T) -> Vec<T> {
        let count = 1 + self.below(most);
        (0..count).map(|_| make(self)).collect()
    }

    fn queue(&mut self) -> u8 {
        self.below(QUEUES.into()) as u8
    }

    fn op(&mut self, restarts: bool) -> Op {
        match self.below(100) {
            0..23 => Op::Push(self.some(3, Dice::draft)),
            23..25 => Op::LeaseJob(
                self.pick(),
                self.of(&[engine::Holds::Respect, engine::Holds::Bypass]),
            ),
            25..43 => Op::Lease {
                queues: self.some(3, Dice::queue),
                pick: self.of(&engine::Pick::ALL),
                max: 1 + self.below(4) as u32,
                ttr: self.maybe(4, |dice| dice.of(&[ms(1), secs(1), secs(30)])),
            },
            43..46 => Op::Wait {
                queues: self.some(2, Dice::queue),
                pick: self.of(&engine::Pick::ALL),
                max: 1 + self.below(2) as u32,
                wait: self.of(&[secs(1), secs(60), secs(3600)]),
            },
            46 => Op::Drop(self.below(4) as u8),
            47..65 => Op::Settle(self.some(3, |dice| (dice.pick(), dice.outcome()))),
            65..69 => Op::Extend(self.some(2, |dice| {
                (
                    dice.pick(),
                    dice.maybe(2, |dice| dice.of(&[ms(1), secs(2)])),
                )
            })),
            69..74 => {
                let mode = self.mode();
                Op::Steer(self.some(2, Dice::pick), self.action(), mode)
            }
            74 => Op::Reschedule(self.pick(), self.moment()),
            75 => {
                let states = [State::Dead, State::Done, State::Scheduled, State::Ready];
                let action = self.of(&[Action::Kick, Action::Delete, Action::Cancel]);
                let mode = self.mode();
                Op::Bulk(
                    self.queue(),
                    self.some(2, |dice| dice.of(&states)),
                    action,
                    mode,
                )
            }
            76 => Op::FindKey(self.queue(), self.below(3) as u8),
            77..80 => Op::Configure(self.queue(), self.config()),
            80 => Op::Subscribe(self.below(3) as u8, self.queue()),
            81 if self.one_in(2) => Op::Unsubscribe(self.below(3) as u8),
            81 => Op::Publish(Box::new(Draft {
                due: None,
                end: None,
                queue: 0,
                spec: JobSpec {
                    key: None,
                    ..self.spec()
                },
            })),
            82 if self.one_in(3) => {
                let period = self.of(&[secs(7), secs(60), secs(5000)]);
                Op::Schedule(self.below(2) as u8, self.queue(), period)
            }
            82 => Op::Unschedule(self.below(2) as u8),
            83 if restarts && self.one_in(2) => Op::Reopen,
            84 if self.one_in(2) => {
                Op::StepWall(self.of(&[-3_600_000, -5_000, -11, 11, 5_000, 90_000, 3_600_000]))
            }
            _ => Op::Pass(self.of(&[
                ms(0),
                ms(1),
                ms(10),
                ms(999),
                secs(1),
                secs(1),
                secs(2),
                secs(10),
                secs(60),
                secs(3600),
                secs(5 * 3600),
            ])),
        }
    }

    fn draft(&mut self) -> Draft {
        Draft {
            queue: self.queue(),
            due: self.maybe(8, Dice::moment),
            end: self.maybe(12, Dice::moment),
            spec: self.spec(),
        }
    }

    fn moment(&mut self) -> Moment {
        Moment(self.of(&[-1_000, 0, 1, 1_000, 30_000, 3_600_000]))
    }

    fn spec(&mut self) -> JobSpec {
        JobSpec {
            kind: self.of(&["", "mail", "index"]).to_owned(),
            payload: text(self.of(&["", "x", "payload", "a longer payload"])),
            priority: self.of(&[0, 1024, 1024, 2000]),
            when: match self.below(4) {
                0 => When::After(self.of(&[ms(0), ms(1), secs(1), secs(10), secs(3600)])),
                _ => When::Now,
            },
            ttr: self.of(&[ms(0), ms(1), secs(1), secs(10), secs(60), secs(60)]),
            ttl: match self.below(5) {
                0 => Ttl::After(self.of(&[ms(1), secs(2), secs(60), secs(4000)])),
                _ => Ttl::None,
            },
            max_attempts: 1 + self.below(3) as u32,
            backoff: self.backoff(),
            key: self.maybe(3, Dice::key),
            group: self.maybe(4, |dice| dice.of(&["g", "h"]).to_owned()),
            retention: self.of(&[ms(0), ms(0), secs(5), secs(3600)]),
            ..JobSpec::default()
        }
    }

    fn key(&mut self) -> Key {
        Key {
            name: key_name(self.below(3) as u8),
            on_duplicate: self.of(&[
                OnDuplicate::Reject,
                OnDuplicate::Return,
                OnDuplicate::Replace,
            ]),
            window: self.of(&[ms(0), secs(5), secs(3600)]),
        }
    }

    /// Waits without jitter: the engine's dice are its own.
    fn backoff(&mut self) -> Backoff {
        match self.below(3) {
            0 => Backoff::Fixed {
                delay: self.of(&[ms(0), secs(1)]),
            },
            1 => Backoff::List {
                delays: vec![ms(5), secs(20)],
            },
            _ => Backoff::Exponential {
                base: secs(1),
                factor: 2.0,
                cap: secs(3),
                jitter: Jitter::None,
            },
        }
    }

    fn outcome(&mut self) -> Outcome {
        let error = || self.0.to_string();
        let error = error();
        match self.below(9) {
            0..4 => Outcome::Ack {
                result: self.maybe(2, |_| text("result")),
            },
            4 => Outcome::Fail {
                error,
                delay: self.maybe(3, |dice| dice.of(&[ms(0), secs(3)])),
                retry: match self.one_in(4) {
                    true => Retry::Never,
                    false => Retry::Policy,
                },
            },
            5 => Outcome::Fail {
                error,
                delay: None,
                retry: Retry::Policy,
            },
            6 => Outcome::Release {
                priority: self.maybe(3, |dice| dice.of(&[0, 1024])),
                delay: self.maybe(3, |dice| dice.of(&[ms(0), secs(3)])),
            },
            7 => Outcome::Bury {
                error: self.maybe(2, |_| error),
                priority: self.maybe(3, |dice| dice.of(&[0, 2000])),
            },
            _ => Outcome::Snooze {
                delay: self.of(&[ms(0), ms(1), secs(30)]),
            },
        }
    }

    fn pick(&mut self) -> Pick {
        match self.one_in(8) {
            true => Pick::Gone(self.below(6) as u16),
            false => Pick::Live(self.below(64) as u16),
        }
    }

    fn action(&mut self) -> Action {
        match self.below(5) {
            0 => Action::Kick,
            1 => Action::Cancel,
            2 => Action::Delete,
            3 => Action::Reschedule(When::Now),
            _ => Action::Reschedule(When::After(self.of(&[ms(1), secs(20), secs(3600)]))),
        }
    }

    fn mode(&mut self) -> Mode {
        match self.one_in(5) {
            true => Mode::DryRun,
            false => Mode::Act,
        }
    }

    fn config(&mut self) -> QueueConfig {
        if self.one_in(2) {
            return QueueConfig::default();
        }
        QueueConfig {
            paused_in: self.one_in(6),
            paused_out: self.one_in(6),
            paused_until: None,
            max_jobs: self.maybe(3, |dice| 1 + dice.below(12)),
            max_bytes: self.maybe(3, |dice| 10 + dice.below(60)),
            max_leased: self.maybe(3, |dice| 1 + dice.below(3) as u32),
            rate: self.maybe(3, Dice::rate),
            fair: false,
            shards: None,
        }
    }

    fn rate(&mut self) -> Rate {
        Rate {
            count: 1 + self.below(3) as u32,
            per: self.of(&[secs(1), secs(10)]),
            burst: 1 + self.below(3) as u32,
        }
    }
}

pub(super) fn key_name(number: u8) -> String {
    format!("key-{number}")
}
