//! Index files rot while the store runs: it goes on as if nothing had happened, because the log has everything.

use std::time::Duration;

use auxo_core::engine::{Ask, Outcome, Pick, Query, Settle, Which};
use auxo_core::job::{JobSpec, Key, OnDuplicate};
use auxo_core::time::Now;
use auxo_core::{Code, JobId, NewJob, QueueName, When};
use bytes::Bytes;

use super::compare::ask;
use super::store::Store;
use crate::disk::sim::Rng;
use crate::disk::{Disk, SimDisk};
use crate::machine::{Op, Reply};
use crate::options::Sync;

const SEGMENT: u64 = 64 << 10;
const JOBS: u64 = 1800;
const PAGE: usize = 4096;

fn queue() -> QueueName {
    QueueName::new("q").unwrap()
}

/// A store with a few indexed segments: three priorities, some jobs for later, some with a key, some done already.
struct Stage {
    store: Store,
    now: Now,
    ids: Vec<JobId>,
}

fn stage() -> Stage {
    let mut rng = Rng::new(1);
    let mut stage = Stage {
        store: Store::open(SimDisk::new(), SEGMENT, Sync::Always, 1).unwrap(),
        now: Now::at(1_700_000_000_000),
        ids: Vec::new(),
    };
    for n in 0..JOBS {
        let key = (n % 5 == 0).then(|| Key {
            name: n.to_string(),
            on_duplicate: OnDuplicate::Reject,
            window: Duration::ZERO,
        });
        let spec = JobSpec {
            payload: Bytes::from(vec![7; 50 + rng.below(100) as usize]),
            priority: rng.below(3) as u32,
            when: When::After(Duration::from_millis(rng.below(60_000))),
            key,
            ..JobSpec::default()
        };
        let queue = queue();
        let Reply::Push(pushed) = stage.act(Op::Push(vec![NewJob { queue, spec }])) else {
            panic!("another answer");
        };
        stage
            .ids
            .extend(pushed.into_iter().map(|one| one.unwrap().id));
        stage.store.maintain();
    }
    stage.work();
    assert!(stage.indexes().len() >= 3, "{:?}", stage.indexes());
    stage
}

impl Stage {
    fn act(&mut self, op: Op) -> Reply {
        self.now.steady.0 += 1;
        self.now.wall.0 += 1;
        self.now.ceiling = self.now.steady;
        let mut round = self.store.round(self.now, vec![(1, op)]);
        assert!(round.broken.is_none(), "{:?}", round.broken);
        round.answers.pop().unwrap().reply.unwrap()
    }

    /// Lets the other threads do what there is.
    fn work(&mut self) {
        self.store.round(self.now, Vec::new());
        for round in self.store.settle(self.now).unwrap() {
            assert!(round.broken.is_none(), "{:?}", round.broken);
        }
    }

    fn indexes(&self) -> Vec<String> {
        let mut names = self.store.disk.list().unwrap();
        names.retain(|name| name.ends_with(".idx"));
        names
    }

    /// Flips a bit in each page of each index file, the first ones too, which nobody reads again.
    fn rot(&self) {
        for name in self.indexes() {
            let pages = self.store.disk.content(&name).unwrap().len() / PAGE;
            for page in 0..pages {
                let byte = (page * PAGE + 77 * page % PAGE) as u64;
                self.store.disk.flip_bit(&name, byte, 3).unwrap();
            }
        }
    }

    /// Leases and acks so many jobs; answers which they were.
    fn drain(&mut self, count: usize) -> Vec<JobId> {
        let mut order = Vec::new();
        while order.len() < count {
            let request = Ask {
                queues: vec![queue()],
                job: None,
                pick: Pick::First,
                max: 3,
                wait: Duration::ZERO,
                ttr: None,
                worker: "w".into(),
            };
            let Reply::Lease(leased) = self.act(Op::Lease(request)) else {
                panic!("another answer");
            };
            if leased.is_empty() {
                self.now.steady.0 += 1000;
                self.now.wall.0 += 1000;
                continue;
            }
            order.extend(leased.iter().map(|leased| leased.job.id));
            let acks = leased.into_iter().map(|leased| Settle {
                token: leased.token,
                outcome: Outcome::Ack { result: None },
            });
            self.act(Op::Settle(acks.collect()));
        }
        order
    }

    /// Everything that indexes are asked: by id, by key, lists, counts, the audit.
    fn look(&mut self) -> String {
        let now = self.now;
        let mut seen = String::new();
        for n in (0..JOBS).step_by(7) {
            let which = Which::Id(self.ids[n as usize]);
            let Reply::Find(by_id) = ask(&mut self.store, Op::Find(which), now) else {
                panic!("another answer");
            };
            let which = Which::Key(queue(), n.to_string());
            let Reply::Find(by_key) = ask(&mut self.store, Op::Find(which), now) else {
                panic!("another answer");
            };
            seen += &format!(
                "{:?} {:?}\n",
                by_id.map(|job| job.id),
                by_key.map(|job| job.id)
            );
        }
        let mut query = Query {
            limit: 100,
            ..Query::default()
        };
        loop {
            let Reply::List(page) = ask(&mut self.store, Op::List(query.clone()), now) else {
                panic!("another answer");
            };
            for job in page.jobs {
                seen += &format!("{} {}\n", job.id, job.state);
            }
            query.cursor = page.next;
            if query.cursor.is_none() {
                break;
            }
        }
        let Reply::Queues(queues) = ask(&mut self.store, Op::Queues(None), now) else {
            panic!("another answer");
        };
        let Reply::Audit(audit) = ask(&mut self.store, Op::Audit, now) else {
            panic!("another answer");
        };
        assert_eq!(audit.problems, Vec::<String>::new());
        seen + &format!("{:?} {}", queues[0].counts, audit.jobs)
    }
}

#[test]
fn jobs_are_leased_in_order_though_every_index_page_is_damaged() {
    for before in [0, 700] {
        let (mut whole, mut rotten) = (stage(), stage());
        assert_eq!(whole.drain(before), rotten.drain(before));
        rotten.rot();
        let rest = JOBS as usize - before;
        let expected = whole.drain(rest);
        // Without a look at anything else: positions that were reached before the damage still hold.
        assert_eq!(rotten.drain(rest), expected);
        rotten.work();
        assert_eq!(whole.look(), rotten.look());
    }
}

#[test]
fn every_question_is_answered_though_every_index_page_is_damaged() {
    for before in [0, 700] {
        let (mut whole, mut rotten) = (stage(), stage());
        whole.drain(before);
        rotten.drain(before);
        rotten.rot();
        assert_eq!(whole.look(), rotten.look());
        rotten.work();
        assert_eq!(whole.look(), rotten.look());
        let rest = JOBS as usize - before;
        assert_eq!(whole.drain(rest), rotten.drain(rest));
    }
}

#[test]
fn a_damaged_index_file_is_made_anew() {
    let mut rotten = stage();
    rotten.rot();
    let seen = rotten.look();
    rotten.work();
    let disk = rotten.store.disk.clone();
    for name in rotten.indexes() {
        let number = name[..10].parse().unwrap();
        crate::index::Index::open(&disk, &name, number).unwrap();
    }
    rotten.store.close().unwrap();
    rotten.store = Store::open(disk, SEGMENT, Sync::Always, 2).unwrap();
    assert_eq!(rotten.look(), seen);
}

#[test]
fn damage_before_the_store_is_opened_does_no_harm_either() {
    let mut rotten = stage();
    let seen = rotten.look();
    rotten.store.close().unwrap();
    let disk = rotten.store.disk.clone();
    for name in rotten.indexes() {
        // The first page of entries, which is read when the lines are put together.
        disk.flip_bit(&name, PAGE as u64 + 100, 0).unwrap();
    }
    rotten.store = Store::open(disk, SEGMENT, Sync::Always, 2).unwrap();
    assert_eq!(rotten.look(), seen);
}

#[test]
fn a_segment_that_is_damaged_as_well_is_named() {
    let mut rotten = stage();
    rotten.rot();
    let name = rotten.indexes()[0].replace("idx", "log");
    rotten.store.disk.flip_bit(&name, 1000, 0).unwrap();
    let now = rotten.now;
    let which = Which::Id(rotten.ids[0]);
    let mut round = rotten.store.round(now, vec![(1, Op::Find(which))]);
    let error = round.answers.pop().unwrap().reply.err().expect("an error");
    assert_eq!(error.code(), Code::Internal);
    assert!(
        error.message().contains(&format!("file {name} at byte")),
        "{error}"
    );
}
