//! What is asked of the store, by the dice.

use std::time::Duration;

use auxo_core::engine::{
    Action, Ask, Change, Extend, Message, Mode, Order, Outcome, Pick, Retry, Settle, Target,
};
use auxo_core::job::{Backoff, Jitter, JobSpec, Key, OnDuplicate, Ttl};
use auxo_core::queue::QueueConfig;
use auxo_core::schedule::{Missed, Rhythm, Schedule};
use auxo_core::time::{Now, Timestamp, When};
use auxo_core::topic::{Pattern, Subscription};
use auxo_core::{JobId, NewJob, QueueName, Token};
use bytes::Bytes;

use super::oracle::{Oracle, Request};
use crate::disk::sim::Rng;

/// Dice with a taste.
pub struct Load {
    pub rng: Rng,
    pub now: Now,
    /// Whether schedules may be set up.
    pub schedules: bool,
    /// Whether queues may be fair.
    pub fair: bool,
    /// The size of large payloads.
    pub large: u64,
}

const QUEUES: [&str; 5] = ["a", "b", "fair", "tight", "d"];

fn queue(name: &str) -> QueueName {
    QueueName::new(name).expect("a name")
}

impl Load {
    pub fn below(&mut self, end: u64) -> u64 {
        self.rng.below(end)
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.rng.below(n) == 0
    }

    fn any_queue(&mut self) -> QueueName {
        queue(QUEUES[self.below(QUEUES.len() as u64) as usize])
    }

    fn span(&mut self) -> Duration {
        let most = [1, 1_000, 10_000, 600_000, 90_000_000][self.below(5) as usize];
        Duration::from_millis(self.below(most))
    }

    /// Lets time pass; now and then somebody sets the clock.
    pub fn pass(&mut self) {
        let most = [1, 1, 10, 100, 2_000, 30_000, 8_000_000][self.below(7) as usize];
        let by = Duration::from_millis(self.below(most));
        self.now.steady = self.now.steady.plus(by);
        self.now.ceiling = self.now.steady;
        self.now.wall = self.now.wall.plus(by);
        if self.one_in(40) {
            let step = Duration::from_millis(2_000 + self.below(7_200_000));
            self.now.wall = match self.one_in(2) {
                true => self.now.wall.plus(step),
                false => self.now.wall.minus(step),
            };
        }
    }

    pub fn requests(&mut self, oracle: &Oracle) -> Vec<Request> {
        let count = [1, 1, 1, 2, 4][self.below(5) as usize];
        (0..count).map(|_| self.request(oracle)).collect()
    }

    fn request(&mut self, oracle: &Oracle) -> Request {
        match self.below(100) {
            0..34 => {
                let count = [1, 1, 1, 2, 6][self.below(5) as usize];
                Request::Push((0..count).map(|_| self.job()).collect())
            }
            34..58 => Request::Lease(self.ask()),
            58..80 => {
                let count = [1, 1, 2, 5][self.below(4) as usize];
                Request::Settle((0..count).map(|_| self.settle(oracle)).collect())
            }
            80..84 => Request::Extend(vec![Extend {
                token: self.token(oracle),
                ttr: self.one_in(2).then(|| self.ttr()),
                progress: self.one_in(2).then(|| self.payload()),
            }]),
            84..92 => {
                let count = [1, 1, 3][self.below(3) as usize];
                Request::Steer(Order {
                    target: Target::Jobs((0..count).map(|_| self.id(oracle)).collect()),
                    action: self.action(),
                    mode: Mode::Act,
                })
            }
            92..97 => Request::Publish(Message {
                topic: "news".into(),
                routing_key: self.one_in(2).then(|| "sport.ball".into()),
                spec: self.spec(),
            }),
            _ => Request::Change(self.change()),
        }
    }

    fn job(&mut self) -> NewJob {
        NewJob {
            queue: self.any_queue(),
            spec: self.spec(),
        }
    }

    pub fn payload(&mut self) -> Bytes {
        let most = match self.below(40) {
            0 => self.large,
            1..10 => 3_000,
            _ => 300,
        };
        let len = self.below(most);
        let bits = self.rng.bits();
        (0..len).map(|i| (bits >> (i % 57)) as u8).collect()
    }

    fn ttr(&mut self) -> Duration {
        Duration::from_millis([1, 50, 5_000, 60_000][self.below(4) as usize])
    }

    fn when(&mut self) -> When {
        match self.below(6) {
            0 => When::After(self.span()),
            1 => When::At(Timestamp(self.now.wall.0 - 30_000 + self.below(3_600_000))),
            _ => When::Now,
        }
    }

    pub fn spec(&mut self) -> JobSpec {
        let key = self.one_in(4).then(|| Key {
            name: format!("key-{}", self.below(12)),
            on_duplicate: [
                OnDuplicate::Reject,
                OnDuplicate::Return,
                OnDuplicate::Replace,
            ][self.below(3) as usize],
            window: Duration::from_millis([0, 1_000, 3_600_000][self.below(3) as usize]),
        });
        JobSpec {
            kind: ["", "mail", "resize"][self.below(3) as usize].into(),
            payload: self.payload(),
            headers: match self.one_in(5) {
                true => [("traceparent".to_owned(), self.below(1000).to_string())].into(),
                false => Default::default(),
            },
            priority: [1024, 1024, 0, 7][self.below(4) as usize],
            when: self.when(),
            ttr: match self.one_in(12) {
                true => Duration::ZERO,
                false => self.ttr(),
            },
            ttl: match self.below(10) {
                // A life that is over before it began is refused by the service.
                0 => Ttl::After(self.span() + Duration::from_millis(1)),
                1 => Ttl::At(Timestamp(self.now.wall.0 + 1 + self.below(7_200_000))),
                _ => Ttl::None,
            },
            max_attempts: [1, 2, 3, 10][self.below(4) as usize],
            backoff: match self.below(3) {
                0 => Backoff::Fixed { delay: self.span() },
                1 => Backoff::List {
                    delays: vec![self.span(), self.span()],
                },
                _ => Backoff::Exponential {
                    base: Duration::from_millis(10),
                    factor: 2.0,
                    cap: Duration::from_secs(60),
                    jitter: Jitter::None,
                },
            },
            key,
            // Where queues are fair there is one group: how several take turns after a restart is not promised.
            group: (self.fair || self.one_in(2)).then(|| "g".into()),
            retention: match self.one_in(5) {
                true => self.span(),
                false => Duration::ZERO,
            },
        }
    }

    fn ask(&mut self) -> Ask {
        let wait = match self.one_in(6) {
            true => self.span(),
            false => Duration::ZERO,
        };
        let mut queues = vec![self.any_queue()];
        while self.one_in(2) {
            queues.push(self.any_queue());
        }
        Ask {
            queues,
            job: None,
            pick: Pick::ALL[self.below(2) as usize],
            max: [1, 1, 2, 8][self.below(4) as usize],
            wait,
            ttr: self.one_in(3).then(|| self.ttr()),
            worker: ["w1", "w2", ""][self.below(3) as usize].into(),
        }
    }

    /// A token, the newer the likelier.
    fn token(&mut self, oracle: &Oracle) -> Token {
        let all = &oracle.tokens;
        let back = [4, 16, 64][self.below(3) as usize];
        let back = self.below(back).min((all.len() as u64).saturating_sub(1));
        let made_up = Token {
            job: JobId(1),
            counter: 1,
            nonce: 1,
        };
        all.iter()
            .rev()
            .nth(back as usize)
            .copied()
            .unwrap_or(made_up)
    }

    fn settle(&mut self, oracle: &Oracle) -> Settle {
        let delay = self.one_in(2).then(|| self.span());
        let priority = self.one_in(3).then(|| self.below(10) as u32);
        let outcome = match self.below(10) {
            0..4 => Outcome::Ack {
                result: self.one_in(2).then(|| self.payload()),
            },
            4..6 => Outcome::Fail {
                error: "it broke".into(),
                delay,
                retry: match self.one_in(6) {
                    true => Retry::Never,
                    false => Retry::Policy,
                },
            },
            6 => Outcome::Release { priority, delay },
            7 => Outcome::Bury {
                error: self.one_in(2).then(|| "no use".into()),
                priority,
            },
            _ => Outcome::Snooze { delay: self.span() },
        };
        Settle {
            token: self.token(oracle),
            outcome,
        }
    }

    fn id(&mut self, oracle: &Oracle) -> JobId {
        let known = &oracle.known;
        let back = self.below(60).min((known.len() as u64).saturating_sub(1));
        known
            .iter()
            .rev()
            .nth(back as usize)
            .copied()
            .unwrap_or(JobId(7))
    }

    fn action(&mut self) -> Action {
        match self.below(4) {
            0 => Action::Kick,
            1 => Action::Cancel,
            2 => Action::Reschedule(self.when()),
            _ => Action::Delete,
        }
    }

    fn change(&mut self) -> Change {
        let place = self.below(3);
        match self.below(if self.schedules { 10 } else { 7 }) {
            0..3 => {
                let name = self.any_queue();
                let fair = self.fair && name.as_str() == "fair" && self.one_in(2);
                let tight = name.as_str() == "tight" && !self.one_in(3);
                let config = QueueConfig {
                    paused_in: self.one_in(8),
                    paused_out: self.one_in(8),
                    paused_until: None,
                    max_jobs: tight.then_some(20),
                    max_bytes: tight.then_some(20_000),
                    max_leased: tight.then_some(3),
                    rate: None,
                    fair,
                    shards: None,
                };
                Change::Queue(name, config)
            }
            3..6 => Change::Subscribe(Subscription {
                topic: "news".into(),
                name: format!("s{place}"),
                // Each to a queue of its own: a key that two of them lead to one queue is a matter for the suite.
                queue: queue(QUEUES[place as usize]),
                pattern: self
                    .one_in(2)
                    .then(|| Pattern::new("sport.*").expect("a pattern")),
            }),
            6 => Change::Unsubscribe("news".into(), format!("s{}", self.below(3))),
            7..9 => Change::Schedule(Schedule {
                name: format!("t{}", self.below(2)),
                queue: self.any_queue(),
                rhythm: match self.one_in(2) {
                    true => Rhythm::Every(Duration::from_millis(1 + self.below(3_000_000))),
                    false => Rhythm::Cron {
                        expression: "*/10 * * * *".into(),
                        zone: "UTC".into(),
                    },
                },
                missed: [Missed::Skip, Missed::Once, Missed::All][self.below(3) as usize],
                // Times of the calendar make no sense in what is pushed again and again.
                spec: JobSpec {
                    when: When::Now,
                    ttl: Ttl::None,
                    ..self.spec()
                },
                next: None,
                last: None,
            }),
            _ => Change::Unschedule(format!("t{}", self.below(2))),
        }
    }
}
