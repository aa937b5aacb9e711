//! Redis has other clients, too: no script does so much that they would have to wait for it.
//!
//! How long a script takes depends on the machine, so the suite counts what it does: the commands that it calls, as `MONITOR` shows
//! them. What that comes to in time is printed, as Redis' slow log has it.

use std::collections::BTreeMap;
use std::thread::JoinHandle;
use std::time::Duration;

use auxo_conformance::Bench;
use auxo_conformance::bench::{
    ack, asking, fail, keyed, later, named, plain, queue, release, secs,
};
use auxo_core::engine::*;
use auxo_core::job::{Leased, OnDuplicate, Ttl};
use auxo_core::passage::{Adoption, Departure, Leaving, Step};
use auxo_core::queue::QueueConfig;
use auxo_core::schedule::{Missed, Rhythm, Schedule};
use auxo_core::topic::Subscription;
use auxo_core::{JobSpec, NewJob};

use crate::store;
use auxo_harness::redis::Single;

/// How many commands one script may call. Each takes a microsecond or two; the most costly script needs some 14 for a job.
const COMMANDS: usize = 1000;
/// How many words these commands may have together: one that is given five hundred jobs does more than one that is given one.
const WORDS: usize = 3000;
/// How many bytes a script may be given, as `MONITOR` writes them.
const BYTES: usize = 1_600_000;
/// How many jobs a call has: as many as it may have.
const JOBS: usize = 1000;

/// What scripts do, seen from now on.
struct Watch {
    seen: JoinHandle<Vec<Script>>,
}

/// What one script did.
#[derive(Default)]
struct Script {
    commands: BTreeMap<String, usize>,
    words: usize,
    /// What it was given.
    bytes: usize,
}

impl Script {
    fn count(&self) -> usize {
        self.commands.values().sum()
    }
}

const END: &str = "enough was seen";

impl Watch {
    fn start(server: &Single) -> Watch {
        server.ask(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
        server.ask(&["CONFIG", "SET", "slowlog-max-len", "100000"]);
        let mut client = server.client();
        client.ask(&["MONITOR"]);
        let seen = std::thread::spawn(move || {
            let mut scripts: Vec<Script> = Vec::new();
            loop {
                let line = client.read().expect("a line");
                let line = line.text();
                if line.contains(END) {
                    return scripts;
                }
                let mut words = line.split('"');
                let head = words.next().unwrap_or_default();
                let name = words.next().unwrap_or_default();
                if head.ends_with(" lua] ") {
                    let script = scripts.last_mut().expect("a script before what it does");
                    *script.commands.entry(name.to_owned()).or_default() += 1;
                    script.words += 1 + line.matches("\" \"").count();
                } else if name == "EVALSHA" {
                    scripts.push(Script {
                        bytes: line.len(),
                        ..Script::default()
                    });
                }
            }
        });
        Watch { seen }
    }

    /// Tells what was seen of `what`, and that nothing was too much.
    fn end(self, server: &Single, what: &str) {
        server.ask(&["ECHO", END]);
        let scripts = self.seen.join().expect("what was seen");
        let most = scripts.iter().max_by_key(|script| script.count());
        let most = most.expect("a script");
        let words = scripts.iter().map(|script| script.words).max();
        let (words, longest) = (words.unwrap_or_default(), longest(server));
        println!(
            "{what}: {} scripts, at most {} commands, {words} words, {longest:?}",
            scripts.len(),
            most.count(),
        );
        assert!(words <= WORDS, "{what}: a script used {words} words");
        let bytes = scripts.iter().map(|script| script.bytes).max();
        assert!(
            bytes <= Some(BYTES),
            "{what}: a script was given {bytes:?} bytes"
        );
        assert!(
            most.count() <= COMMANDS,
            "{what}: a script called {} commands: {:?}",
            most.count(),
            most.commands
        );
    }
}

/// The time that the longest script took since it was last asked, by Redis' own measure.
fn longest(server: &Single) -> Duration {
    let log = server.ask(&["SLOWLOG", "GET", "-1"]);
    server.ask(&["SLOWLOG", "RESET"]);
    let scripts = log.items().iter().filter(|entry| {
        let command = entry.items()[3].items();
        command[0].text() == "EVALSHA"
    });
    let micros = scripts.map(|entry| entry.items()[2].int() as u64);
    Duration::from_micros(micros.max().unwrap_or(0))
}

/// A store, and the server that it is on.
struct Place {
    server: std::sync::Arc<Single>,
    t: Bench,
}

impl Place {
    async fn new() -> Place {
        let server = std::sync::Arc::new(Single::start(&[]));
        let t = store::on(server.url("?durability=none"), server.clone()).await;
        Place { server, t }
    }

    /// Does something, and holds its scripts to the limit.
    async fn watch<T>(&self, what: &str, work: impl Future<Output = T>) -> T {
        let watch = Watch::start(&self.server);
        let done = work.await;
        watch.end(&self.server, what);
        done
    }

    async fn push(&self, shape: &Shape) {
        let jobs = (0..shape.jobs).map(|number| NewJob {
            queue: queue(),
            spec: (shape.spec)(number),
        });
        let pushed = self.t.engine.push(jobs.collect()).await.unwrap();
        let ids: Vec<_> = pushed
            .into_iter()
            .map(|pushed| pushed.unwrap().id)
            .collect();
        assert!(ids.is_sorted(), "{}: out of order", shape.name);
        assert_eq!(ids.len(), shape.jobs);
    }

    async fn lease(&self, shape: &Shape) -> Vec<Leased> {
        let ask = asking(&[queue()], JOBS as u32, Duration::ZERO);
        let leased = self.t.engine.lease(ask).await.unwrap();
        assert_eq!(leased.len(), shape.jobs, "all that there are");
        leased
    }

    /// An operator's move on all jobs that can make it.
    async fn steer(&self, action: Action) {
        let mut cursor = None;
        loop {
            let order = Order {
                target: Target::Matching(Query {
                    filter: Filter::default(),
                    cursor,
                    limit: JOBS as u32,
                }),
                action: action.clone(),
                mode: Mode::Act,
            };
            let steered = self.t.engine.steer(order).await.unwrap();
            cursor = steered.next;
            if cursor.is_none() {
                return;
            }
        }
    }

    async fn settle(&self, leased: &[Leased], outcome: impl Fn(usize) -> Outcome) {
        let items = leased.iter().enumerate().map(|(at, leased)| Settle {
            token: leased.token,
            outcome: outcome(at),
        });
        for settled in self.t.engine.settle(items.collect()).await.unwrap() {
            settled.unwrap();
        }
    }
}

/// A kind of jobs, in a kind of queue.
struct Shape {
    name: &'static str,
    jobs: usize,
    config: fn() -> QueueConfig,
    spec: fn(usize) -> JobSpec,
}

/// Each costs something else.
const SHAPES: [Shape; 7] = [
    Shape {
        name: "plain",
        jobs: JOBS,
        config: QueueConfig::default,
        spec: |_| plain(),
    },
    Shape {
        name: "with a key",
        jobs: JOBS,
        config: QueueConfig::default,
        spec: |number| keyed(&number.to_string(), OnDuplicate::Reject),
    },
    Shape {
        name: "with a delay",
        jobs: JOBS,
        config: QueueConfig::default,
        spec: |number| later(secs(1 + number as u64 % 60)),
    },
    Shape {
        name: "with a TTL",
        jobs: JOBS,
        config: QueueConfig::default,
        spec: |_| JobSpec {
            ttl: Ttl::After(secs(86_400)),
            ..plain()
        },
    },
    Shape {
        name: "in groups of a fair queue",
        jobs: JOBS,
        config: || QueueConfig {
            fair: true,
            ..QueueConfig::default()
        },
        spec: |number| JobSpec {
            group: Some((number % 100).to_string()),
            ..plain()
        },
    },
    Shape {
        name: "in a queue with a limit",
        jobs: JOBS,
        config: || QueueConfig {
            max_jobs: Some(10_000),
            ..QueueConfig::default()
        },
        spec: |_| plain(),
    },
    Shape {
        name: "of 20 KiB",
        jobs: 100,
        config: QueueConfig::default,
        spec: |_| JobSpec {
            payload: vec![7; 20 << 10].into(),
            ..plain()
        },
    },
];

#[tokio::test]
async fn no_call_with_many_jobs_keeps_redis_from_others() {
    for shape in SHAPES {
        let place = Place::new().await;
        let (t, name) = (&place.t, shape.name);
        t.configure((shape.config)()).await;
        let what = |verb: &str| format!("{verb} {} jobs {name}", shape.jobs);
        place.watch(&what("push"), place.push(&shape)).await;
        let all = Query {
            filter: Filter::default(),
            cursor: None,
            limit: JOBS as u32,
        };
        place
            .watch(&what("list"), t.engine.list(all))
            .await
            .unwrap();
        t.pass(secs(100));
        let leased = place.watch(&what("lease"), place.lease(&shape)).await;
        let extend = leased.iter().map(|leased| Extend {
            token: leased.token,
            ttr: None,
            progress: None,
        });
        let extend = t.engine.extend(extend.collect());
        place.watch(&what("extend"), extend).await.unwrap();
        place
            .watch(
                &what("settle"),
                place.settle(&leased, |at| match at % 3 {
                    0 => fail("no"),
                    1 => release(),
                    _ => Outcome::Bury {
                        error: None,
                        priority: None,
                    },
                }),
            )
            .await;
        place.watch(&what("audit"), t.engine.audit()).await.unwrap();
        place.watch(&what("kick"), place.steer(Action::Kick)).await;
        let leased = place.watch(&what("lease again"), place.lease(&shape)).await;
        place
            .watch(&what("ack"), place.settle(&leased, |_| ack()))
            .await;
        place
            .watch(&what("push again"), async {
                // The keys of those that are done are held.
                t.pass(secs(100_000));
                place.push(&shape).await;
            })
            .await;
        t.pass(secs(100));
        let leased = place.lease(&shape).await;
        place
            .watch(&what("let vanish the leases of"), async {
                t.pass(secs(3600));
                assert_eq!(t.info().await.counts.leased, 0);
            })
            .await;
        drop(leased);
        place
            .watch(&what("purge"), place.steer(Action::Delete))
            .await;
        t.check_books().await;
    }
}

#[tokio::test]
async fn no_move_to_another_store_keeps_redis_from_others() {
    let (from, to) = (Place::new().await, Place::new().await);
    let shape = &SHAPES[1];
    from.push(shape).await;
    let page = from.t.engine.passages(Departure {
        queue: queue(),
        cursor: None,
        limit: JOBS as u32,
    });
    let page = from.watch("show what to move", page).await.unwrap();
    assert_eq!(page.jobs.len(), JOBS);
    let adopt = async |step| {
        let adoption = Adoption {
            queue: queue(),
            store: page.store.clone(),
            run: 7,
            step,
        };
        to.t.engine.adopt(adoption).await.unwrap()
    };
    adopt(Step::Begin).await;
    let adopted = to
        .watch("take in", adopt(Step::Jobs(page.jobs.clone())))
        .await;
    let leaving = |job: &auxo_core::passage::Passage| Leaving {
        id: job.job.id,
        version: Some(job.version),
    };
    let leaving: Vec<Leaving> = page.jobs.iter().map(leaving).collect();
    // The note of the call names all its jobs, in however many parts they came.
    assert_eq!(adopted.last.as_ref(), Some(&leaving));
    assert_eq!(adopt(Step::Look).await.last, Some(leaving.clone()));
    let departed = from.t.engine.depart(queue(), leaving);
    let departed = from.watch("let go", departed).await.unwrap();
    departed.into_iter().for_each(|gone| gone.unwrap());
    assert_eq!(from.t.info().await.books.accepted, 0);
    assert_eq!(to.t.info().await.books.live, JOBS as u64);
    to.t.check_books().await;
}

#[tokio::test]
async fn no_message_or_schedule_keeps_redis_from_others() {
    let place = Place::new().await;
    let t = &place.t;
    for number in 0..300 {
        t.change(Change::Subscribe(Subscription {
            topic: "news".to_owned(),
            name: number.to_string(),
            queue: named(&format!("q{number}")),
            pattern: None,
        }))
        .await;
    }
    let message = Message {
        topic: "news".to_owned(),
        routing_key: None,
        spec: plain(),
    };
    let copies = place.watch("publish to 300 queues", t.engine.publish(message));
    assert_eq!(copies.await.unwrap().len(), 300);
    t.change(Change::Schedule(Schedule {
        name: "s".to_owned(),
        queue: queue(),
        rhythm: Rhythm::Every(secs(1)),
        missed: Missed::All,
        spec: plain(),
        next: None,
        last: None,
    }))
    .await;
    place
        .watch("make up for 900 ticks", async {
            t.pass(secs(900));
            assert_eq!(t.info().await.books.accepted, 900);
        })
        .await;
    let shown = t.engine.catalog().await.unwrap().schedules;
    assert_eq!(shown[0].last, Some(t.wall()));
    place
        .watch("make a queue fair", async {
            t.configure(QueueConfig {
                fair: true,
                ..QueueConfig::default()
            })
            .await;
        })
        .await;
    t.check_books().await;
}
