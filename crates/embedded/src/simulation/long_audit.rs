//! An audit of many jobs, while they are worked on, segments fill up, are indexed, emptied and given up.

use std::time::Duration;

use auxo_core::engine::{Action, Ask, Audit, Mode, Order, Outcome, Pick, Retry, Settle, Target};
use auxo_core::job::{JobSpec, Key, OnDuplicate, Ttl};
use auxo_core::time::Now;
use auxo_core::{JobId, NewJob, QueueName, Token, When};
use bytes::Bytes;

use super::compare::ask;
use super::store::Store;
use crate::disk::SimDisk;
use crate::disk::sim::Rng;
use crate::machine::{Op, Reply, Ticket};
use crate::options::Sync;

const SEGMENT: u64 = 128 << 10;
const AUDIT: Ticket = 77;

struct Busy {
    store: Store,
    now: Now,
    rng: Rng,
    ids: Vec<JobId>,
    tokens: Vec<Token>,
    audit: Option<Audit>,
}

impl Busy {
    /// One round with this and perhaps an audit, and some of the threads' work behind it.
    fn act(&mut self, op: Op, more: Option<Op>) -> Reply {
        self.now.steady.0 += 3;
        self.now.wall.0 += 3;
        self.now.ceiling = self.now.steady;
        let ops = [(1, op)].into_iter().chain(more.map(|op| (AUDIT, op)));
        let round = self.store.round(self.now, ops.collect());
        assert!(round.broken.is_none(), "{:?}", round.broken);
        let mut reply = None;
        for answer in round.answers {
            match answer.reply.unwrap() {
                Reply::Audit(audit) => self.audit = Some(audit),
                other => reply = Some(other),
            }
        }
        self.store.sync().unwrap();
        self.store.maintain();
        self.store.maintain();
        reply.expect("others are answered at once")
    }

    fn queue(&mut self) -> QueueName {
        QueueName::new(["a", "b", "c"][self.rng.below(3) as usize]).unwrap()
    }

    fn push(&mut self, count: usize) {
        let jobs = (0..count).map(|_| {
            let key = (self.rng.below(4) == 0).then(|| Key {
                name: self.rng.below(1 << 40).to_string(),
                on_duplicate: OnDuplicate::Return,
                window: Duration::from_millis(self.rng.below(200)),
            });
            let spec = JobSpec {
                payload: Bytes::from(vec![7; self.rng.below(60) as usize]),
                priority: self.rng.below(3) as u32,
                when: When::After(Duration::from_millis(self.rng.below(300))),
                ttl: match self.rng.below(10) {
                    0 => Ttl::After(Duration::from_millis(self.rng.below(2_000))),
                    _ => Ttl::None,
                },
                ttr: Duration::from_millis(self.rng.below(300)),
                retention: Duration::from_millis(self.rng.below(2) * 500),
                group: (self.rng.below(3) == 0).then(|| self.rng.below(9).to_string()),
                key,
                ..JobSpec::default()
            };
            let queue = self.queue();
            NewJob { queue, spec }
        });
        let jobs = jobs.collect();
        let Reply::Push(pushed) = self.act(Op::Push(jobs), None) else {
            panic!("another answer");
        };
        self.ids
            .extend(pushed.into_iter().map(|one| one.unwrap().id));
    }

    fn lease(&mut self) {
        let ask = Ask {
            queues: vec![self.queue()],
            job: None,
            pick: Pick::First,
            max: 60,
            wait: Duration::ZERO,
            ttr: None,
            worker: "w".into(),
        };
        let Reply::Lease(leased) = self.act(Op::Lease(ask), None) else {
            panic!("another answer");
        };
        self.tokens.extend(leased.iter().map(|leased| leased.token));
    }

    fn settle(&mut self) {
        let items = std::mem::take(&mut self.tokens).into_iter().map(|token| {
            let outcome = match self.rng.below(6) {
                0 => Outcome::Fail {
                    error: "no".into(),
                    delay: None,
                    retry: Retry::Policy,
                },
                1 => Outcome::Bury {
                    error: None,
                    priority: None,
                },
                _ => Outcome::Ack { result: None },
            };
            Settle { token, outcome }
        });
        let items = items.collect();
        // Some leases have run out by now.
        self.act(Op::Settle(items), None);
    }

    fn steer(&mut self) {
        let ids = (0..20).map(|_| self.ids[self.rng.below(self.ids.len() as u64) as usize]);
        let target = Target::Jobs(ids.collect());
        let action = match self.rng.below(3) {
            0 => Action::Cancel,
            1 => Action::Kick,
            _ => Action::Reschedule(When::After(Duration::from_millis(50))),
        };
        let mode = Mode::Act;
        self.act(
            Op::Steer(Order {
                target,
                action,
                mode,
            }),
            None,
        );
    }

    fn step(&mut self) {
        match self.rng.below(8) {
            0..2 => self.push(60),
            2..5 => self.lease(),
            5..7 => self.settle(),
            _ => self.steer(),
        }
    }
}

#[test]
fn an_audit_balances_while_everything_changes() {
    let (mut rounds, mut pieces_most) = (0, 0);
    for seed in 0..12 {
        let mut busy = Busy {
            store: Store::open(SimDisk::new(), SEGMENT, Sync::Always, seed).unwrap(),
            now: Now::at(1_700_000_000_000),
            rng: Rng::new(seed),
            ids: Vec::new(),
            tokens: Vec::new(),
            audit: None,
        };
        for _ in 0..120 {
            busy.push(100);
            busy.step();
        }
        for _ in 0..4 {
            // What is counted is what was there at the beginning.
            busy.step();
            let Reply::Queues(before) = busy.act(Op::Queues(None), Some(Op::Audit)) else {
                panic!("another answer");
            };
            let mut pieces = 1;
            while busy.audit.is_none() {
                busy.step();
                pieces += 1;
            }
            rounds += pieces;
            pieces_most = pieces.max(pieces_most);
            let audit = busy.audit.take().unwrap();
            assert_eq!(audit.problems, Vec::<String>::new(), "seed {seed}");
            let before: Vec<_> = before.into_iter().map(|q| (q.name, q.books)).collect();
            assert_eq!(audit.queues, before, "seed {seed}");
        }
        let now = busy.now;
        let Reply::Audit(audit) = ask(&mut busy.store, Op::Audit, now) else {
            panic!("another answer");
        };
        assert_eq!(audit.problems, Vec::<String>::new(), "seed {seed}");
    }
    println!("48 audits in {rounds} rounds, the longest in {pieces_most}");
    assert!(pieces_most >= 3, "no audit was a long one");
}
