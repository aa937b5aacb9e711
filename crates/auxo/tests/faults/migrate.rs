//! `auxo migrate` is killed with -9 again and again, in both directions, and while workers are at the target already.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use auxo::core::engine::Query;
use auxo::{Auxo, Job, JobId};
use tempfile::TempDir;

use crate::server::{PATIENCE, Server};
use auxo_harness::command;
use auxo_harness::redis::{Client, Reply, Single};
use auxo_harness::started::Started;

/// Enough for a dozen of batches.
const JOBS: usize = 12_000;
/// How far a run may come before it is killed.
const REACH: u64 = 4_000;

struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

fn start(from: &str, to: &str) -> Started {
    let mut command = command::auxo();
    command.args(["migrate", "--from", from, "--to", to]);
    Started::new(command)
}

/// How many jobs the store on Redis has in its books.
fn accepted(redis: &mut Client) -> u64 {
    match redis.ask(&["HGET", "auxo{0}:q:work", "accepted"]) {
        Reply::Text(text) => text.parse().expect("a number"),
        _ => 0,
    }
}

/// Runs the command until it ends by itself, killing it whenever so many jobs more have come or gone at the Redis. Says how
/// often that was.
fn killed_until_done(redis: &Single, from: &str, to: &str, dice: &mut Dice) -> u32 {
    let mut kills = 0;
    let mut client = redis.client();
    loop {
        let (begin, reach) = (accepted(&mut client), dice.roll(REACH));
        let mut running = start(from, to);
        let began = Instant::now();
        while !running.has_ended() && accepted(&mut client).abs_diff(begin) <= reach {
            assert!(began.elapsed() < PATIENCE, "it neither moves nor ends");
        }
        if !running.has_ended() {
            running.signal("KILL");
            kills += 1;
        }
        let ran = running.finish();
        match ran.code {
            0 => return kills,
            -1 => {}
            _ => panic!("{ran:?}"),
        }
    }
}

async fn jobs(place: &str) -> BTreeMap<JobId, Job> {
    let auxo = match place.contains("://") {
        true => Auxo::connect(place).await,
        false => Auxo::open(place).await,
    };
    let auxo = auxo.expect("the store opens");
    let (mut all, mut cursor) = (BTreeMap::new(), None);
    loop {
        let query = Query {
            cursor,
            limit: 1000,
            ..Query::default()
        };
        let page = auxo.service().list(query).await.expect("a page");
        all.extend(page.jobs.into_iter().map(|job| (job.id, job)));
        match page.next {
            None => break,
            next => cursor = next,
        }
    }
    let audit = auxo.service().audit().await.expect("an audit");
    audit.into_result().expect("clean books");
    auxo.close().await.expect("the store closes");
    all
}

/// The same jobs, but for times that are told by a clock that began anew.
fn assert_same(before: &BTreeMap<JobId, Job>, after: &BTreeMap<JobId, Job>) {
    assert_eq!(before.len(), after.len());
    for (id, old) in before {
        let new = after.get(id).unwrap_or_else(|| panic!("job {id} is lost"));
        assert!(new.run_at.0.abs_diff(old.run_at.0) < 50, "{old:?} {new:?}");
        let same = Job {
            run_at: old.run_at,
            ..new.clone()
        };
        assert_eq!(&same, old);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_killed_at_any_point_goes_on_and_loses_and_doubles_nothing() {
    let redis = Single::start(&[]);
    let url = redis.url("?durability=none");
    let (first, second) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (first, second) = (
        first.path().to_str().unwrap(),
        second.path().to_str().unwrap(),
    );
    let mut push = command::auxo();
    push.args([
        "push", "work", "--lines", "--data", first, "--keys", "k", "--delay", "10h",
    ]);
    let lines: String = (0..JOBS).map(|i| format!("{i}\n")).collect();
    assert_eq!(command::finish(push, lines.as_bytes()).code, 0);
    let before = jobs(first).await;
    assert_eq!(before.len(), JOBS);

    let mut dice = Dice(0x2545_f491_4f6c_dd1d);
    let mut kills = killed_until_done(&redis, first, &url, &mut dice);
    assert_same(&before, &jobs(&url).await);
    assert_eq!(jobs(first).await.len(), 0);
    kills += killed_until_done(&redis, &url, second, &mut dice);
    assert_same(&before, &jobs(second).await);
    assert_eq!(jobs(&url).await.len(), 0);
    assert!(kills >= 4, "killed {kills} times only");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_killed_while_others_push_and_work_hands_out_every_job_once() {
    let redis = Single::start(&[]);
    let url = redis.url("?durability=none");
    let server = Server::start();
    let from = server.url();
    let mut push = command::auxo();
    push.args(["push", "work", "--lines", "--server", &from]);
    let lines: String = (0..JOBS / 2).map(|i| format!("{i}\n")).collect();
    assert_eq!(command::finish(push, lines.as_bytes()).code, 0);

    // One pushes at the source until it is refused there.
    let pusher = tokio::spawn({
        let auxo = Auxo::connect(&from).await.unwrap();
        async move {
            let queue = auxo.queue("work").unwrap();
            for i in JOBS / 2.. {
                let pushed = queue.job(&i).unwrap().key(format!("late {i}")).push().await;
                match pushed {
                    Ok(_) => {}
                    Err(error) if error.code() == auxo::Code::QueuePaused => return i,
                    Err(error) => panic!("{error}"),
                }
            }
            unreachable!("it is refused one day")
        }
    });
    // One works at the target from the beginning on.
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let worker = tokio::spawn({
        let auxo = Auxo::connect(&url).await.unwrap();
        async move {
            let mut done: BTreeMap<u64, u32> = BTreeMap::new();
            loop {
                let over = *stopped.borrow();
                let lease = auxo.lease(["work"]).wait(Duration::from_millis(200));
                match lease.one().await.expect("a lease") {
                    Some(lease) => {
                        *done.entry(lease.payload().expect("a number")).or_default() += 1;
                        lease.ack().await.expect("an ack");
                    }
                    None if over => return done,
                    None => {}
                }
            }
        }
    });
    let (redis, mover) = {
        let to = url.clone();
        let mover = tokio::task::spawn_blocking(move || {
            let kills = killed_until_done(&redis, &from, &to, &mut Dice(0x9e37_79b9_7f4a_7c15));
            (redis, kills)
        });
        mover.await.expect("it ends")
    };
    let pushed = pusher.await.expect("it ends");
    stop.send(true).unwrap();
    let done = worker.await.expect("it ends");
    assert!(mover >= 1, "killed {mover} times only");
    let twice: Vec<_> = done.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "handed out more than once: {twice:?}");
    let missing: Vec<u64> = (0..pushed as u64)
        .filter(|i| !done.contains_key(i))
        .collect();
    assert!(missing.is_empty(), "lost: {missing:?}");
    drop(redis);
}
