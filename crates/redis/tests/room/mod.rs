//! Room that is on its way between two shards of a queue, with a real server. It is a part of the crate, so that a test can carry it.

use auxo_conformance::bench::{ms, plain, queue};
use auxo_core::clock::ManualClock;
use auxo_core::engine::Change;
use auxo_core::queue::QueueConfig;
use auxo_core::schedule::{Missed, Rhythm, Schedule};
use auxo_core::{Engine, NewJob};

use super::*;
use crate::{Options, RedisEngine};
use auxo_harness::redis::{Client, Single};

/// A queue with room for 40 jobs that is spread over 4 shards, ten in each.
struct Place {
    server: Single,
    clock: Arc<ManualClock>,
    engine: RedisEngine,
}

impl Place {
    async fn new() -> Place {
        let server = Single::start(&[]);
        let clock = ManualClock::at(1_700_000_000_000);
        let options = Options {
            clock: Some(clock.clone()),
        };
        let url = server.url("?durability=none&shards=7");
        let url = url.parse().expect("a good URL");
        let engine = RedisEngine::open(&url, options).await.expect("a store");
        let config = QueueConfig {
            max_jobs: Some(40),
            shards: Some(4),
            ..QueueConfig::default()
        };
        let change = Change::Queue(queue(), config);
        engine.change(change).await.expect("a queue that is spread");
        refresh(&engine.store, &queue())
            .await
            .expect("how it is spread");
        Place {
            server,
            clock,
            engine,
        }
    }

    async fn room(&self, place: u16, give_and_take: (u64, u64)) -> u64 {
        let store = &self.engine.store;
        let spread = store.spreads.of(&queue());
        let shard = store.place(&queue(), place);
        let room = room(store, &queue(), shard, &spread, Limit::Jobs, give_and_take).await;
        room.expect("an answer").expect("the same epoch").given
    }

    /// Another process takes the room of all other shards, to bring it to the queue's home.
    async fn take(&self) -> u64 {
        let mut taken = 0;
        for place in 1..4 {
            taken += self.room(place, (10, 0)).await;
        }
        taken
    }

    /// Waits until all places were asked for room, and none had any.
    fn asked_in_vain(&self) -> tokio::task::JoinHandle<()> {
        let mut monitor = self.server.client();
        monitor.ask(&["MONITOR"]);
        tokio::task::spawn_blocking(move || (0..4).for_each(|_| next_room(&mut monitor)))
    }

    async fn accepted(&self) -> u64 {
        let infos = self.engine.queues(Some(vec![queue()])).await;
        infos.expect("the queue")[0].books.accepted
    }
}

fn next_room(monitor: &mut Client) {
    loop {
        let line = monitor.read().expect("what Redis does");
        if line.text().contains(script::ROOM.hash()) {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ticks_do_not_give_up_room_that_is_on_its_way() {
    let place = Place::new().await;
    let schedule = Schedule {
        name: "s".to_owned(),
        queue: queue(),
        rhythm: Rhythm::Every(ms(10)),
        missed: Missed::All,
        spec: plain(),
        next: None,
        last: None,
    };
    let change = Change::Schedule(schedule);
    place.engine.change(change).await.expect("a schedule");
    assert_eq!(place.take().await, 30);
    let asked = place.asked_in_vain();
    place.clock.advance(ms(300));
    let arrives = async {
        asked.await.expect("what was asked");
        place.room(0, (0, 30)).await;
    };
    let (accepted, ()) = tokio::join!(place.accepted(), arrives);
    assert_eq!(accepted, 30, "jobs of thirty ticks, with room for forty");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pushes_are_not_refused_for_room_that_is_on_its_way() {
    let place = Place::new().await;
    let push = async |count: usize| {
        let job = || NewJob {
            queue: queue(),
            spec: plain(),
        };
        let jobs = std::iter::repeat_with(job).take(count).collect();
        let pushed = place.engine.push(jobs).await.expect("an answer");
        pushed.iter().filter(|pushed| pushed.is_ok()).count()
    };
    assert_eq!(place.take().await, 30);
    let asked = place.asked_in_vain();
    let arrives = async {
        asked.await.expect("what was asked");
        place.room(0, (0, 30)).await;
    };
    let (pushed, ()) = tokio::join!(push(40), arrives);
    assert_eq!(pushed, 40, "there is room for all");
    assert_eq!(push(1).await, 0, "and for no more");
}
