//! Jobs that are pushed again and again.

use auxo_core::engine::Change;
use auxo_core::job::OnDuplicate;
use auxo_core::queue::QueueConfig;
use auxo_core::schedule::{Missed, Rhythm, Schedule};
use auxo_core::time::{Base, Due};
use auxo_core::{Code, JobSpec};

use crate::bench::*;

/// Each tick makes one job, however often somebody looks.
pub async fn a_tick_makes_one_job(t: &Bench) {
    set(t, every(10)).await;
    t.pass(ms(9_999));
    assert_eq!(made(t).await, 0);
    for ticks in 1..=3 {
        t.pass(ms(1));
        for _ in 0..3 {
            assert_eq!(made(t).await, ticks);
        }
        t.pass(ms(9_999));
    }
}

/// The job is the one that the schedule says, due at once.
pub async fn a_tick_pushes_the_job_of_the_schedule(t: &Bench) {
    let spec = JobSpec {
        kind: "report".into(),
        payload: text("p"),
        priority: 5,
        ..plain()
    };
    let schedule = Schedule { spec, ..every(10) };
    set(t, schedule).await;
    t.pass(secs(10));
    let job = t.one().await.job;
    assert_eq!((&*job.kind, &job.payload), ("report", &text("p")));
    assert_eq!((job.priority, job.run_at), (5, t.wall()));
}

/// Cron ticks follow the wall clock: at the full minute, in this case.
pub async fn a_cron_expression_ticks_by_the_wall_clock(t: &Bench) {
    let begin = t.wall().0;
    set(t, minutely()).await;
    let minute = 60_000;
    let next = begin / minute * minute + minute;
    assert_eq!(shown(t).await.next.map(|due| due.at.0), Some(next));
    t.pass(ms(next - begin - 1));
    assert_eq!(made(t).await, 0);
    t.pass(ms(1));
    assert_eq!(made(t).await, 1);
    t.pass(secs(60));
    assert_eq!(made(t).await, 2);
}

/// Ticks that nobody was there for are made up as the schedule says.
pub async fn missed_ticks_are_made_up_as_the_policy_says(t: &Bench) {
    for (missed, jobs) in [(Missed::Skip, 0), (Missed::Once, 1), (Missed::All, 60)] {
        let queue = named(&format!("{missed:?}"));
        let schedule = Schedule {
            queue: queue.clone(),
            missed,
            rhythm: Rhythm::Every(secs(60)),
            ..every(60)
        };
        set(t, schedule).await;
        // Half a minute after the last of 60 ticks, which is too late for that one as well.
        t.pass(secs(60 * 60 + 30));
        let infos = t.engine.queues(Some(vec![queue])).await.unwrap();
        let made = infos.first().map_or(0, |info| info.books.accepted);
        assert_eq!(made, jobs, "{missed:?}");
        t.change(Change::Unschedule("s".into())).await;
    }
}

/// An interval keeps its phase through ticks that were late.
pub async fn an_interval_keeps_its_phase(t: &Bench) {
    set(t, every(10)).await;
    t.pass(secs(13));
    assert_eq!(made(t).await, 1);
    t.pass(secs(7));
    assert_eq!(made(t).await, 2);
}

/// A removed schedule ticks no more, and its jobs stay.
pub async fn a_removed_schedule_keeps_its_jobs(t: &Bench) {
    set(t, every(10)).await;
    t.pass(secs(10));
    assert_eq!(made(t).await, 1);
    t.change(Change::Unschedule("s".into())).await;
    t.pass(secs(100));
    assert_eq!(made(t).await, 1);
    assert_eq!(t.order(10).await.len(), 1);
    let again = t.engine.change(Change::Unschedule("s".into())).await;
    assert_eq!(code(again), Code::NotFound);
}

/// Whoever takes a schedule away must know of its last tick.
pub async fn a_schedule_that_ticked_since_it_was_read_stays(t: &Bench) {
    let disarm = |last| t.engine.change(Change::Disarm("s".into(), last));
    assert_eq!(code(disarm(None).await), Code::NotFound);
    set(t, every(10)).await;
    assert_eq!(code(disarm(Some(t.wall())).await), Code::Conflict);
    t.pass(secs(10));
    // The tick has come, though nobody has looked.
    assert_eq!(code(disarm(None).await), Code::Conflict);
    let last = shown(t).await.last;
    t.pass(secs(10));
    assert_eq!(code(disarm(last).await), Code::Conflict);
    assert_eq!(made(t).await, 2);
    let last = shown(t).await.last;
    disarm(last).await.unwrap();
    t.pass(secs(100));
    assert_eq!(made(t).await, 2);
    set(t, every(10)).await;
    let last = shown(t).await.last;
    disarm(last).await.unwrap();
}

/// A schedule that is set again ticks from then on.
pub async fn a_replaced_schedule_ticks_from_now_on(t: &Bench) {
    set(t, every(10)).await;
    t.pass(secs(9));
    set(t, every(10)).await;
    t.pass(secs(9));
    assert_eq!(made(t).await, 0);
    t.pass(secs(1));
    assert_eq!(made(t).await, 1);
}

/// The catalog shows the last tick and the next one.
pub async fn a_schedule_shows_its_last_and_next_tick(t: &Bench) {
    let begin = t.now().steady;
    set(t, every(10)).await;
    let due = |seconds| {
        Some(Due {
            at: begin.plus(secs(seconds)),
            base: Base::Steady,
        })
    };
    assert_eq!((shown(t).await.next, shown(t).await.last), (due(10), None));
    t.pass(secs(10));
    assert_eq!(made(t).await, 1);
    let shown = shown(t).await;
    assert_eq!(shown.next, due(20));
    assert_eq!(shown.last, Some(begin.plus(secs(10))));
}

/// A tick into a queue that takes nothing is dropped, and the schedule goes on.
pub async fn a_tick_into_a_paused_or_full_queue_is_dropped(t: &Bench) {
    t.push(plain()).await;
    set(t, every(10)).await;
    let paused = QueueConfig {
        paused_in: true,
        ..QueueConfig::default()
    };
    let full = QueueConfig {
        max_jobs: Some(1),
        ..QueueConfig::default()
    };
    for config in [paused, full] {
        t.configure(config).await;
        t.pass(secs(10));
        assert_eq!(made(t).await, 1);
        assert_eq!(shown(t).await.last, None);
    }
    t.configure(QueueConfig::default()).await;
    assert_eq!(made(t).await, 1);
    t.pass(secs(10));
    assert_eq!(made(t).await, 2);
}

/// A schedule whose job has a key makes no second one while the first is about.
pub async fn a_tick_respects_the_key_of_its_job(t: &Bench) {
    let spec = keyed("k", OnDuplicate::Reject);
    set(t, Schedule { spec, ..every(10) }).await;
    t.pass(secs(10));
    assert_eq!(made(t).await, 1);
    t.pass(secs(10));
    assert_eq!(made(t).await, 1);
}

/// Set back, the wall clock does not silence a cron schedule until it has caught up.
pub async fn a_clock_set_back_does_not_silence_a_schedule(t: &Bench) {
    set(t, minutely()).await;
    t.pass(secs(60));
    assert_eq!(made(t).await, 1);
    t.clock.step_wall_back(secs(8 * 60 * 60));
    t.info().await;
    t.pass(secs(60));
    assert_eq!(made(t).await, 2);
}

/// Set forward, the wall clock makes no storm of old ticks.
pub async fn a_clock_set_forward_makes_no_storm(t: &Bench) {
    set(t, minutely()).await;
    t.pass(secs(60));
    assert_eq!(made(t).await, 1);
    t.clock.step_wall_forward(secs(24 * 60 * 60));
    let after = made(t).await;
    assert!(after <= 2, "{after} jobs");
    t.pass(secs(60));
    assert_eq!(made(t).await, after + 1);
}

/// Schedules are shown in the order of their names.
pub async fn schedules_are_shown_in_order(t: &Bench) {
    for name in ["b", "c", "a"] {
        let name = name.to_owned();
        set(t, Schedule { name, ..every(10) }).await;
    }
    let shown = t.engine.catalog().await.unwrap().schedules;
    let names: Vec<&str> = shown.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
}

/// How many jobs the queue ever got.
pub(super) async fn made(t: &Bench) -> u64 {
    let infos = t.engine.queues(Some(vec![queue()])).await.unwrap();
    infos.first().map_or(0, |info| info.books.accepted)
}

async fn shown(t: &Bench) -> Schedule {
    t.engine.catalog().await.unwrap().schedules.remove(0)
}

pub(super) async fn set(t: &Bench, schedule: Schedule) {
    t.change(Change::Schedule(schedule)).await;
}

pub(super) fn every(seconds: u64) -> Schedule {
    Schedule {
        name: "s".into(),
        queue: queue(),
        rhythm: Rhythm::Every(secs(seconds)),
        missed: Missed::Once,
        spec: plain(),
        next: None,
        last: None,
    }
}

fn minutely() -> Schedule {
    Schedule {
        rhythm: Rhythm::Cron {
            expression: "* * * * *".into(),
            zone: "UTC".into(),
        },
        ..every(1)
    }
}
