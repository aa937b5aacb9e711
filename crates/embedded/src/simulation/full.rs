//! A full disk: nothing more comes in, everything that is there goes on, and space that comes back is noticed.

use std::time::Duration;

use auxo_core::engine::{Accepted, Action, Ask, Mode, Order, Outcome, Pick, Retry, Settle, Target};
use auxo_core::job::{Backoff, JobSpec, Key, OnDuplicate};
use auxo_core::time::Now;
use auxo_core::{Code, JobId, NewJob, QueueName, Token};
use bytes::Bytes;

use super::compare::ask;
use super::store::Store;
use crate::disk::SimDisk;
use crate::disk::sim::Rng;
use crate::machine::{Op, Reply};
use crate::options::Sync;

const SEGMENT: u64 = 64 << 10;

struct Full {
    store: Store,
    now: Now,
    rng: Rng,
    /// After how many rounds the thread of the upkeep comes to its next task, on average. Unless it is zero, time stands still.
    lateness: u64,
}

fn queue() -> QueueName {
    QueueName::new("q").unwrap()
}

impl Full {
    /// One operation, and the threads' work behind it.
    fn act(&mut self, op: Op) -> Reply {
        if self.lateness > 0 {
            return self.act_among_others(op);
        }
        self.now.steady.0 += 1;
        self.now.wall.0 += 1;
        self.now.ceiling = self.now.steady;
        let mut round = self.store.round(self.now, vec![(1, op)]);
        assert!(round.broken.is_none(), "{:?}", round.broken);
        let reply = round.answers.pop().unwrap().reply.unwrap();
        self.work();
        reply
    }

    /// The same, with the threads' work done whenever its turn comes.
    fn act_among_others(&mut self, op: Op) -> Reply {
        let mut op = Some(op);
        loop {
            // While it is stalled, operations wait.
            let op = op.take_if(|_| !self.store.machine.stalled());
            let ops = op.map(|op| (1, op)).into_iter().collect();
            let mut round = self.store.round(self.now, ops);
            assert!(round.broken.is_none(), "{:?}", round.broken);
            self.store.sync().unwrap();
            if self.rng.below(self.lateness) == 0 {
                self.store.maintain();
            }
            if let Some(answer) = round.answers.pop() {
                return answer.reply.unwrap();
            }
        }
    }

    fn work(&mut self) {
        let rounds = self.store.settle(self.now).unwrap_or_else(|error| {
            panic!(
                "a write failed on the full disk, at {:?}: {error}",
                self.store.written
            )
        });
        for round in rounds {
            assert!(round.broken.is_none(), "{:?}", round.broken);
        }
    }

    fn push(&mut self, most: u64) -> Result<JobId, Code> {
        let len = self.rng.below(most) as usize;
        self.push_exactly(len)
    }

    fn push_exactly(&mut self, len: usize) -> Result<JobId, Code> {
        let spec = JobSpec {
            payload: Bytes::from(vec![7; len]),
            backoff: Backoff::Fixed {
                delay: Duration::ZERO,
            },
            max_attempts: 100,
            ..JobSpec::default()
        };
        let queue = queue();
        match self.act(Op::Push(vec![NewJob { queue, spec }])) {
            Reply::Push(mut pushed) => match pushed.pop().unwrap() {
                Ok(pushed) => Ok(pushed.id),
                Err(error) => Err(error.code()),
            },
            _ => panic!("another answer"),
        }
    }

    fn lease(&mut self, max: u32) -> Vec<Token> {
        self.lease_as(max, "w")
    }

    fn lease_as(&mut self, max: u32, worker: &str) -> Vec<Token> {
        let ask = Ask {
            queues: vec![queue()],
            job: None,
            pick: Pick::First,
            max,
            wait: Duration::ZERO,
            ttr: None,
            worker: worker.into(),
        };
        match self.act(Op::Lease(ask)) {
            Reply::Lease(leased) => leased.into_iter().map(|leased| leased.token).collect(),
            _ => panic!("another answer"),
        }
    }

    fn settle(&mut self, token: Token, outcome: Outcome) {
        match self.act(Op::Settle(vec![Settle { token, outcome }])) {
            Reply::Settle(mut settled) => drop(settled.pop().unwrap().unwrap()),
            _ => panic!("another answer"),
        }
    }

    fn fill(&mut self, most: u64) -> Vec<JobId> {
        let mut ids = Vec::new();
        loop {
            match self.push(most) {
                Ok(id) => ids.push(id),
                Err(code) => {
                    assert_eq!(code, Code::QueueFull);
                    return ids;
                }
            }
        }
    }
}

fn full(seed: u64, capacity: u64) -> Full {
    let disk = SimDisk::new();
    disk.set_capacity(Some(capacity));
    Full {
        store: Store::open(disk, SEGMENT, Sync::Always, 1).unwrap(),
        now: Now::at(1_700_000_000_000),
        rng: Rng::new(seed),
        lateness: 0,
    }
}

#[test]
fn on_a_full_disk_every_job_can_still_be_leased_failed_deleted_and_acked() {
    let (mut jobs, mut moves) = (0, 0);
    for seed in 0..40 {
        let capacity = SEGMENT * (6 + seed % 9) + 1000 * seed;
        let most = [50, 300, 1_000, 3_000][seed as usize % 4];
        let mut full = full(seed, capacity);
        let ids = full.fill(most);
        assert!(ids.len() > 3, "seed {seed}: hardly anything fits");
        // The disk stays full for a while: what is tried meanwhile must not use up what is left.
        for _ in 0..200 {
            assert_eq!(full.push(most), Err(Code::QueueFull), "seed {seed}");
        }
        let mut left = ids.len();
        while left > 0 {
            moves += 1;
            let max = 1 + full.rng.below(4) as u32;
            let tokens = full.lease(max);
            assert!(
                !tokens.is_empty(),
                "seed {seed}: {left} jobs cannot be leased"
            );
            for token in tokens {
                moves += 1;
                match full.rng.below(8) {
                    0 => full.settle(
                        token,
                        Outcome::Fail {
                            error: "not now".into(),
                            delay: None,
                            retry: Retry::Policy,
                        },
                    ),
                    1 => {
                        full.settle(
                            token,
                            Outcome::Bury {
                                error: None,
                                priority: None,
                            },
                        );
                        let order = Order {
                            target: Target::Jobs(vec![token.job]),
                            action: Action::Delete,
                            mode: Mode::Act,
                        };
                        assert!(
                            matches!(full.act(Op::Steer(order)), Reply::Steer(s) if s.moved == 1)
                        );
                        left -= 1;
                    }
                    _ => {
                        full.settle(token, Outcome::Ack { result: None });
                        left -= 1;
                    }
                }
            }
        }
        jobs += ids.len();
        // The jobs are gone, so is what they took: it is noticed without a restart.
        full.now.steady.0 += 5_000;
        full.now.wall.0 += 5_000;
        full.work();
        full.store.round(full.now, Vec::new());
        full.work();
        let now = full.now;
        assert!(full.push(most).is_ok(), "seed {seed}: not healed");
        let Reply::Audit(audit) = ask(&mut full.store, Op::Audit, now) else {
            panic!("another answer");
        };
        assert_eq!(audit.problems, Vec::<String>::new());
    }
    println!("{jobs} jobs on 40 full disks, {moves} moves, none refused");
}

#[test]
fn on_a_full_disk_jobs_can_be_settled_however_late_the_other_threads_are() {
    // If the machine does not ask again as soon as a task has made space, it refuses a settle of seed 255.
    for seed in 230..280 {
        let mut full = full(seed, 16 * SEGMENT);
        full.store = Store::open(full.store.disk.clone(), SEGMENT, Sync::Os, seed).unwrap();
        full.lateness = 1 + seed % 50;
        let mut pushed = 0;
        while full.push_exactly(1000).is_ok() {
            pushed += 1;
        }
        // Half of the jobs, so that the disk stays full enough.
        for number in 0..pushed / 2 {
            let token = full.lease(1).pop().expect("a job that no worker holds");
            let outcome = match number % 4 {
                0 => Outcome::Ack { result: None },
                1 => Outcome::Release {
                    priority: None,
                    delay: None,
                },
                2 => Outcome::Fail {
                    error: String::new(),
                    delay: Some(Duration::from_secs(60)),
                    retry: Retry::Policy,
                },
                _ => Outcome::Bury {
                    error: None,
                    priority: None,
                },
            };
            full.settle(token, outcome);
        }
    }
}

#[test]
fn a_full_disk_refuses_what_would_replace_a_job_too() {
    let mut full = full(4, 6 * SEGMENT);
    let replace = |full: &mut Full, len: usize| {
        let spec = JobSpec {
            payload: Bytes::from(vec![7; len]),
            key: Some(Key {
                name: "k".into(),
                on_duplicate: OnDuplicate::Replace,
                window: Duration::ZERO,
            }),
            ..JobSpec::default()
        };
        let queue = queue();
        match full.act(Op::Push(vec![NewJob { queue, spec }])) {
            Reply::Push(mut pushed) => pushed.pop().unwrap(),
            _ => panic!("another answer"),
        }
    };
    replace(&mut full, 100).unwrap();
    assert_eq!(replace(&mut full, 50).unwrap().how, Accepted::Replaced);
    full.fill(3_000);
    let refused = replace(&mut full, 50).unwrap_err();
    assert_eq!(refused.code(), Code::QueueFull);
    assert!(refused.message().contains("disk is full"), "{refused}");
}

#[test]
fn a_large_checkpoint_can_be_written_on_a_full_disk() {
    let mut full = full(5, 80 * SEGMENT);
    for _ in 0..2_500 {
        full.push(50).unwrap();
    }
    // Each lease is in every checkpoint, with the name of its worker.
    let mut held = 0;
    while held < 2_000 {
        held += full.lease_as(100, &"w".repeat(200)).len();
    }
    full.fill(2_000);
    // What is written again and again needs segments, and they are freed by checkpoints only.
    for _ in 0..3_000 {
        let token = full.lease(1).pop().expect("a job that nobody holds");
        let back = Outcome::Release {
            priority: None,
            delay: None,
        };
        full.settle(token, back);
    }
}

#[test]
fn space_that_somebody_else_frees_is_noticed_without_a_restart() {
    let mut full = full(3, 6 * SEGMENT);
    let before = full.fill(3_000).len();
    full.store.disk.set_capacity(None);
    full.now.steady.0 += 5_000;
    full.now.wall.0 += 5_000;
    full.store.round(full.now, Vec::new());
    full.work();
    for _ in 0..before {
        full.push(3_000).unwrap();
    }
}
