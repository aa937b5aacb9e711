//! Who waits in one process is woken by what others do, at once; and one that is gone takes little of that with it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use auxo_conformance::bench::{ack, asking, code, ms, named, plain, secs};
use auxo_core::engine::{Change, Settle};
use auxo_core::job::Leased;
use auxo_core::schedule::{Missed, Rhythm, Schedule};
use auxo_core::{Code, Engine, QueueName};
use auxo_redis::RedisEngine;
use tokio::task::{JoinHandle, JoinSet};

use crate::away::until_waiting;
use crate::child::{self, Process, push};
use crate::load::open;
use auxo_harness::redis::Server;

const MEMORY_ONLY: &str = "?durability=none";
/// How often a process looks though nobody told it to, and what a busy machine may add.
const SURE: Duration = Duration::from_secs(5);
const SLACK: Duration = Duration::from_secs(1);

async fn store(processes: usize) -> (Server, Vec<Arc<RedisEngine>>) {
    let server = Server::start(&[]);
    let mut engines = Vec::new();
    for _ in 0..processes {
        engines.push(open(&server.url(MEMORY_ONLY)).await);
    }
    (server, engines)
}

/// Waits for a job, and tells how long ago it was received.
fn waiter(engine: &Arc<RedisEngine>) -> JoinHandle<(Leased, Instant)> {
    let engine = engine.clone();
    tokio::spawn(async move {
        let ask = asking(&[named("q")], 1, secs(60));
        let mut leased = engine.lease(ask).await.unwrap();
        (leased.remove(0), Instant::now())
    })
}

async fn done(engine: &RedisEngine, leased: &Leased) {
    let (token, outcome) = (leased.token, ack());
    let answers = engine
        .settle(vec![Settle { token, outcome }])
        .await
        .unwrap();
    answers[0].as_ref().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_in_one_process_wakes_who_waits_in_another_at_once() {
    let (server, engines) = store(2).await;
    let mut times = Vec::new();
    for _ in 0..100 {
        let waiting = waiter(&engines[0]);
        until_waiting(&server, "q");
        let began = Instant::now();
        push(&engines[1], "q", Duration::ZERO).await;
        let (leased, at) = waiting.await.unwrap();
        times.push(at - began);
        done(&engines[1], &leased).await;
    }
    times.sort();
    let (half, most) = (times[50], times[99]);
    println!("woken by another process after {half:?} (half of the times), {most:?} (at most)");
    assert!(half < ms(20), "{half:?}");
    assert!(most < SURE / 2, "{most:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_for_one_of_many_who_wait_costs_one_look() {
    const JOBS: i64 = 20;
    let (server, engines) = store(2).await;
    let mut waiting: JoinSet<_> = (0..2 * JOBS).map(|_| waiter(&engines[0])).collect();
    until_waiting(&server, "q");
    server.ask(&["CONFIG", "RESETSTAT"]);
    for _ in 0..JOBS {
        push(&engines[1], "q", Duration::ZERO).await;
        waiting.join_next().await.unwrap().unwrap().unwrap();
        // Who has done its job comes back, behind those who wait.
        waiting.spawn(waiter(&engines[0]));
        until_waiting(&server, "q");
    }
    let calls = scripts(&server);
    println!("{JOBS} jobs: {calls} scripts");
    // A push and a lease each, and now and then a look to be sure.
    assert!(calls <= 2 * JOBS + 5, "{calls} scripts");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_that_fall_due_are_not_forgotten_while_workers_come_back() {
    const JOBS: usize = 500;
    let (_server, engines) = store(1).await;
    let begin = Instant::now();
    for number in 0..JOBS {
        push(&engines[0], "q", ms(1000 + number as u64 * 3)).await;
    }
    let mut waiting: JoinSet<_> = (0..8).map(|_| waiter(&engines[0])).collect();
    for _ in 0..JOBS {
        let (leased, _) = waiting.join_next().await.unwrap().unwrap().unwrap();
        done(&engines[0], &leased).await;
        waiting.spawn(waiter(&engines[0]));
    }
    let pushed_for = ms(1000 + JOBS as u64 * 3);
    let late = begin.elapsed().saturating_sub(pushed_for);
    println!("the last of {JOBS} was done {late:?} after it was due");
    assert!(late < SURE / 2, "{late:?}");
}

/// How many scripts ran since the counts were last set back.
fn scripts(server: &Server) -> i64 {
    let stats = server.ask(&["INFO", "commandstats"]);
    let (_, calls) = stats.text().split_once("cmdstat_evalsha:calls=").unwrap();
    calls.split(',').next().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_refuses_is_not_asked_without_a_pause() {
    let (server, engines) = store(1).await;
    let wait = |span| engines[0].lease(asking(&[named("q")], 1, span));
    server.ask(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    // Beyond the first look to be sure.
    let refused = wait(SURE).await;
    assert_eq!(code(refused), Code::Unavailable);
    server.ask(&["CONFIG", "RESETSTAT"]);
    let refused = wait(secs(3)).await;
    assert_eq!(code(refused), Code::Unavailable);
    let calls = scripts(&server);
    println!("{calls} scripts in 3 s");
    assert!(calls < 40, "{calls} scripts");
}

/// Waits for a job of a queue, and tells how long after `due` it was received.
async fn lateness(engine: Arc<RedisEngine>, queue: &str, due: Instant) -> Duration {
    let ask = asking(&[named(queue)], 1, secs(60));
    assert_eq!(engine.lease(ask).await.unwrap().len(), 1);
    due.elapsed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_for_one_queue_is_not_forgotten_over_another() {
    let (_server, engines) = store(1).await;
    let engine = &engines[0];
    push(engine, "slow", ms(900)).await;
    let due = Instant::now() + ms(900);
    for _ in 0..5 {
        push(engine, "busy", ms(600)).await;
    }
    let slow = tokio::spawn(lateness(engine.clone(), "slow", due));
    let mut busy = JoinSet::new();
    for _ in 0..6 {
        busy.spawn(lateness(engine.clone(), "busy", due));
    }
    let late = slow.await.unwrap();
    assert!(late < SURE / 2, "{late:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_come_and_go_do_not_put_off_the_look_to_be_sure() {
    let (server, engines) = store(2).await;
    let mut waiting = waiter(&engines[0]);
    until_waiting(&server, "q");
    let come_and_go = async |span: Duration| {
        let began = Instant::now();
        while began.elapsed() < span {
            let call = engines[0].lease(asking(&[named("q")], 1, secs(60)));
            let _ = tokio::time::timeout(ms(200), call).await;
        }
    };
    // Until the process has looked to be sure for the first time.
    come_and_go(SURE).await;
    // As if it had never said that it waits.
    server.ask(&["DEL", "auxo{0}:w:q"]);
    push(&engines[1], "q", Duration::ZERO).await;
    tokio::select! {
        leased = &mut waiting => drop(leased.unwrap()),
        () = come_and_go(SURE + SLACK) => panic!("nobody looked"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_hundreds_of_queues_none_is_passed_over() {
    const QUEUES: usize = 300;
    let (server, engines) = store(1).await;
    let mut waiting = JoinSet::new();
    for number in 0..QUEUES {
        let (engine, queue) = (engines[0].clone(), format!("q{number}"));
        let name = queue.clone();
        waiting.spawn(async move { lateness(engine, &name, Instant::now()).await });
        // In this order.
        until_waiting(&server, &queue);
    }
    push(&engines[0], "q299", ms(500)).await;
    let due = Instant::now() + ms(500);
    waiting.join_next().await.unwrap().unwrap();
    let late = due.elapsed();
    assert!(late < SURE / 2, "{late:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_process_knows_when_the_next_job_is_due_if_the_first_waits_no_more() {
    for first_is_served in [true, false] {
        let (server, engines) = store(3).await;
        let due = Instant::now() + ms(1200);
        let wait = |engine: usize| {
            let (engine, due) = (engines[engine].clone(), due);
            tokio::spawn(async move { lateness(engine, "q", due).await })
        };
        let waits = || server.ask(&["ZCARD", "auxo{0}:w:q"]).int();
        let first = wait(0);
        until_waiting(&server, "q");
        let second = wait(1);
        while waits() < 2 {}
        // It is the first who is told.
        let jobs = if first_is_served {
            vec![ms(900), ms(1200)]
        } else {
            vec![ms(1200)]
        };
        for delay in jobs {
            push(&engines[2], "q", delay).await;
            while waits() < 2 {}
        }
        match first_is_served {
            true => drop(first.await.unwrap()),
            false => first.abort(),
        }
        let late = second.await.unwrap();
        assert!(late < SURE / 2, "{first_is_served}: {late:?}");
    }
}

#[tokio::test]
async fn nobody_waits_less_long_than_it_asked_to() {
    let (_server, engines) = store(1).await;
    let wait = |span| engines[0].lease(asking(&[named("q")], 1, span));
    // Each of these makes the process see whose time is over.
    let others = async {
        loop {
            wait(Duration::ZERO).await.unwrap();
        }
    };
    let patient = async {
        for _ in 0..50 {
            let began = Instant::now();
            assert_eq!(wait(ms(20)).await.unwrap().len(), 0);
            let took = began.elapsed();
            assert!(took >= ms(20), "{took:?}");
        }
    };
    tokio::select! {
        () = others => {}
        () = patient => {}
    }
}

#[tokio::test]
async fn who_waits_behind_many_who_do_not_is_told() {
    let (_server, engines) = store(2).await;
    let at_once = (0..50).map(|_| engines[0].lease(asking(&[named("q")], 1, Duration::ZERO)));
    let first = futures_util::future::join_all(at_once);
    let began = Instant::now();
    let patient = async {
        let leased = engines[0].lease(asking(&[named("q")], 1, secs(60))).await;
        (leased.unwrap().len(), began.elapsed())
    };
    let pushed = async {
        assert!(first.await.into_iter().all(|got| got.unwrap().is_empty()));
        push(&engines[1], "q", Duration::ZERO).await;
    };
    let ((), (got, after)) = tokio::join!(pushed, patient);
    assert_eq!(got, 1);
    assert!(after < SURE / 2, "{after:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_another_process_pushed_wakes_who_waits_when_it_is_due() {
    let (server, engines) = store(2).await;
    // The alarm is set for this one, and must be set anew.
    push(&engines[1], "q", secs(3600)).await;
    let mut late = Vec::new();
    for _ in 0..10 {
        let waiting = waiter(&engines[0]);
        until_waiting(&server, "q");
        let due = push(&engines[1], "q", ms(200)).await;
        let (leased, _) = waiting.await.unwrap();
        let granted = leased.deadline.minus(leased.job.ttr).0;
        assert!(granted >= due, "{} ms early", due - granted);
        late.push(granted - due);
        done(&engines[0], &leased).await;
    }
    late.sort_unstable();
    println!(
        "late by {} ms (half of the times), {} ms (at most)",
        late[5], late[9]
    );
    assert!(late[5] < 50 && late[9] < 2500, "{late:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_many_processes_are_woken_as_there_are_jobs() {
    let (server, engines) = store(4).await;
    let mut most = Duration::ZERO;
    for _ in 0..10 {
        let mut waiting = JoinSet::new();
        for engine in &engines {
            let waiter = waiter(engine);
            waiting.spawn(async move { waiter.await.unwrap() });
        }
        until_many_wait(&server, 4);
        let began = Instant::now();
        for _ in 0..4 {
            push(&engines[0], "q", Duration::ZERO).await;
        }
        while let Some(got) = waiting.join_next().await {
            let (leased, at) = got.unwrap();
            most = most.max(at - began);
            done(&engines[0], &leased).await;
        }
    }
    println!("four jobs reached four processes within {most:?}");
    assert!(most < SURE / 2, "{most:?}");
}

fn until_many_wait(server: &Server, processes: i64) {
    tokio::task::block_in_place(|| {
        auxo_harness::redis::wait("all of them wait", || {
            server.ask(&["ZCARD", "auxo{0}:w:q"]).int() == processes
        })
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_was_killed_keeps_a_job_from_others_for_five_seconds_at_most() {
    if child::is_one().await {
        return;
    }
    let (server, engines) = store(2).await;
    let test = "wakes::a_process_that_was_killed_keeps_a_job_from_others_for_five_seconds_at_most";
    let mut first = Process::start(test, &server.url(MEMORY_ONLY));
    first.order("take q 60000");
    until_waiting(&server, "q");
    let second = waiter(&engines[0]);
    until_many_wait(&server, 2);
    first.kill();
    let began = Instant::now();
    // Redis tells the first that waits, who is no more.
    push(&engines[1], "q", Duration::ZERO).await;
    let (_, at) = second.await.unwrap();
    println!(
        "who waited behind a dead process had its job after {:?}",
        at - began
    );
    assert!(at - began < SURE + SLACK);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_ends_well_keeps_no_job_from_others() {
    let (server, engines) = store(3).await;
    let first = tokio::spawn({
        let (engine, ask) = (engines[0].clone(), asking(&[named("q")], 1, secs(60)));
        async move { engine.lease(ask).await }
    });
    until_waiting(&server, "q");
    let second = waiter(&engines[1]);
    until_many_wait(&server, 2);
    engines[0].close().await.unwrap();
    assert_eq!(code(first.await.unwrap()), Code::Unavailable);
    let began = Instant::now();
    push(&engines[2], "q", Duration::ZERO).await;
    let (_, at) = second.await.unwrap();
    println!(
        "who waited behind a closed process had its job after {:?}",
        at - began
    );
    assert!(at - began < SURE / 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_watches_is_known_to_others_though_there_is_always_something_to_see() {
    let (server, engines) = store(2).await;
    let watcher = engines[0].watch();
    push(&engines[0], "q", Duration::ZERO).await;
    let until = || {
        let until = server.ask(&["HGET", "auxo{0}:meta", "watch"]);
        until.text().parse::<u64>().expect("a time")
    };
    let first = until();
    let began = Instant::now();
    while until() == first {
        push(&engines[1], "q", Duration::ZERO).await;
        assert!(began.elapsed() < secs(25), "it is about to be forgotten");
    }
    println!("said again after {:?}", began.elapsed());
    drop(watcher);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tick_makes_one_job_though_four_processes_see_it() {
    let (server, engines) = store(4).await;
    let period = ms(50);
    let schedule = Schedule {
        name: "often".to_owned(),
        queue: named("q"),
        rhythm: Rhythm::Every(period),
        missed: Missed::Skip,
        spec: plain(),
        next: None,
        last: None,
    };
    let began = time(&server);
    engines[0].change(Change::Schedule(schedule)).await.unwrap();
    let mut workers = JoinSet::new();
    for engine in &engines {
        workers.spawn(take_ten(engine.clone(), named("q")));
    }
    let mut made = Vec::new();
    while let Some(times) = workers.join_next().await {
        made.extend(times.unwrap());
    }
    let name = "often".to_owned();
    engines[0].change(Change::Unschedule(name)).await.unwrap();
    let ticks = (time(&server) - began) / period.as_millis() as u64;
    let books = engines[0].queues(None).await.unwrap()[0].books;
    println!(
        "{ticks} ticks, {} jobs; 40 of them done by 4 processes",
        books.accepted
    );
    assert_eq!(made.len(), 40);
    assert!(books.accepted <= ticks, "{books:?}");
    // No two of one tick: they are made when the tick has come, and the next is a period later.
    made.sort_unstable();
    let gaps = made.windows(2).map(|pair| pair[1] - pair[0]);
    let doubled = gaps.filter(|gap| *gap == 0).count();
    assert_eq!(doubled, 0, "{made:?}");
}

/// Does ten jobs; when they were made.
async fn take_ten(engine: Arc<RedisEngine>, queue: QueueName) -> Vec<u64> {
    let mut made = Vec::new();
    while made.len() < 10 {
        let ask = asking(std::slice::from_ref(&queue), 1, secs(60));
        let leased = engine.lease(ask).await.unwrap();
        for one in &leased {
            made.push(one.job.created_at.0);
            done(&engine, one).await;
        }
    }
    made
}

/// What Redis' clock shows.
fn time(server: &Server) -> u64 {
    let time = server.ask(&["TIME"]);
    let part = |n: usize| time.items()[n].text().parse::<u64>().expect("a number");
    part(0) * 1000 + part(1) / 1000
}
