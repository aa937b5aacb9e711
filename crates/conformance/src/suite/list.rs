//! Listing: every job once, page by page, and each field of the filter.

use std::collections::BTreeSet;

use auxo_core::engine::{Action, Cursor, Filter, Query, Which};
use auxo_core::job::{Headers, OnDuplicate};
use auxo_core::life::State;
use auxo_core::time::When;
use auxo_core::{Code, JobId, JobSpec};

use crate::bench::*;

/// Pages of any size show every job once.
pub async fn pages_show_every_job_once(t: &Bench) {
    let all = mixed(t).await;
    for page in [1, 2, 3, 7, 1000] {
        let mut shown = ids(t, Filter::default(), page).await;
        shown.sort();
        assert_eq!(shown, all, "pages of {page}");
    }
}

/// A listing shows what `find` shows.
pub async fn a_listed_job_is_shown_as_it_is_found(t: &Bench) {
    mixed(t).await;
    for job in t.all(Filter::default(), 10).await {
        let found = t.engine.find(Which::Id(job.id)).await.unwrap();
        assert_eq!(found, Some(job));
    }
}

/// Within a queue the jobs that wait or run come first, then the dead, then the done.
pub async fn the_dead_and_the_done_come_last(t: &Bench) {
    mixed(t).await;
    for name in ["a", "b"] {
        let filter = Filter {
            queue: Some(named(name)),
            ..Filter::default()
        };
        let jobs = t.all(filter, 3).await;
        let part = |state: &State| match state {
            State::Dead => 1,
            State::Done => 2,
            _ => 0,
        };
        let states: Vec<State> = jobs.iter().map(|job| job.state).collect();
        assert!(states.is_sorted_by_key(part), "{states:?}");
    }
}

/// A cursor leads nowhere but on: into no other queue than the one that is asked for.
pub async fn a_cursor_of_another_queue_shows_nothing_of_it(t: &Bench) {
    for name in ["a", "b"] {
        for _ in 0..3 {
            t.push_to(&named(name), plain()).await;
        }
    }
    for (own, other) in [("a", "b"), ("b", "a")] {
        let query = |queue, cursor| Query {
            filter: Filter {
                queue: Some(named(queue)),
                ..Filter::default()
            },
            cursor,
            limit: 1,
        };
        let of_other = t.engine.list(query(other, None)).await.unwrap().next;
        assert!(of_other.is_some());
        if let Ok(page) = t.engine.list(query(own, of_other)).await {
            assert!(page.jobs.iter().all(|job| job.queue == named(own)));
        }
    }
}

/// Queues are listed one after the other.
pub async fn a_queue_is_listed_in_one_piece(t: &Bench) {
    for name in ["b", "a", "b", "c", "a"] {
        t.push_to(&named(name), plain()).await;
    }
    let jobs = t.all(Filter::default(), 2).await;
    let mut queues: Vec<_> = jobs.into_iter().map(|job| job.queue).collect();
    queues.dedup();
    assert_eq!(queues.len(), 3, "{queues:?}");
}

/// Jobs that wait are listed in the order in which they will be handed out.
pub async fn waiting_jobs_are_listed_in_the_order_of_their_turn(t: &Bench) {
    let low = t.push(urgency(9)).await;
    let second = t.push(urgency(1)).await;
    let when = When::At(t.wall().minus(secs(5)));
    let first = t.push(JobSpec { when, ..urgency(1) }).await;
    let when = When::After(secs(60));
    let third = t.push(JobSpec { when, ..urgency(1) }).await;
    let listed = ids(t, Filter::default(), 10).await;
    assert_eq!(listed, [first, second, third, low]);
}

/// A walk goes on where it was, though jobs behind and before it come and go.
pub async fn a_walk_goes_on_while_jobs_change(t: &Bench) {
    let all = t.push_many(10, plain()).await;
    let first = page(t, None, 4).await;
    assert_eq!(first.0, all[..4]);
    for id in [all[0], all[3], all[5]] {
        t.steer(id, Action::Delete).await.unwrap();
    }
    let new = t.push(plain()).await;
    let mut rest = Vec::new();
    let mut next = first.1;
    while let Some(cursor) = next {
        let (shown, more) = page(t, Some(cursor), 4).await;
        rest.extend(shown);
        next = more;
    }
    assert_eq!(rest, [all[4], all[6], all[7], all[8], all[9], new]);
}

/// A cursor that the engine did not make is refused.
pub async fn a_foreign_cursor_is_refused(t: &Bench) {
    t.push(plain()).await;
    for text in ["", "nonsense", "\u{1f980}", "9,9,9"] {
        let query = Query {
            cursor: Some(Cursor(text.to_owned())),
            limit: 10,
            ..Query::default()
        };
        let refused = t.engine.list(query).await;
        assert_eq!(code(refused), Code::BadRequest, "{text:?}");
    }
}

/// By state, one or several.
pub async fn a_filter_by_state_shows_these_states(t: &Bench) {
    mixed(t).await;
    use State::*;
    let all = t.all(Filter::default(), 100).await;
    for states in [
        vec![Scheduled],
        vec![Ready],
        vec![Leased],
        vec![Dead],
        vec![Done],
        vec![Scheduled, Dead],
        vec![Cancelled],
    ] {
        let expected: BTreeSet<JobId> = all
            .iter()
            .filter(|job| states.contains(&job.state))
            .map(|job| job.id)
            .collect();
        let filter = Filter {
            states: states.clone(),
            ..Filter::default()
        };
        let shown: BTreeSet<JobId> = ids(t, filter, 2).await.into_iter().collect();
        assert_eq!(shown, expected, "{states:?}");
    }
}

/// By queue; one that is not there is empty.
pub async fn a_filter_by_queue_shows_that_queue(t: &Bench) {
    mixed(t).await;
    for (name, count) in [("a", 8), ("b", 8), ("never", 0)] {
        let filter = Filter {
            queue: Some(named(name)),
            ..Filter::default()
        };
        let jobs = t.all(filter, 3).await;
        assert_eq!(jobs.len(), count, "{name}");
        assert!(jobs.iter().all(|job| job.queue == named(name)));
    }
}

/// By kind, key, group, headers, error and text: each alone finds its job, and all together.
pub async fn each_field_of_a_filter_chooses(t: &Bench) {
    let (id, spec) = marked(t).await;
    let none = Filter::default;
    let header = Headers::from([("trace".to_owned(), "abc".to_owned())]);
    let filters = [
        Filter {
            kind: Some("mail".into()),
            ..none()
        },
        Filter {
            key: Some("key-7".into()),
            ..none()
        },
        Filter {
            group: Some("customer-9".into()),
            ..none()
        },
        Filter {
            headers: header.clone(),
            ..none()
        },
        Filter {
            headers: spec.headers.clone(),
            ..none()
        },
        Filter {
            error: Some("timed out".into()),
            ..none()
        },
        Filter {
            queue: Some(queue()),
            states: vec![State::Dead],
            kind: Some("mail".into()),
            key: Some("key-7".into()),
            group: Some("customer-9".into()),
            headers: header,
            error: Some("timed".into()),
            search: Some("customer".into()),
            ..none()
        },
    ];
    for filter in filters {
        assert_eq!(ids(t, filter.clone(), 3).await, [id], "{filter:?}");
    }
}

/// A filter that asks for more than a job has does not show it.
pub async fn a_filter_asks_for_all_of_its_fields(t: &Bench) {
    marked(t).await;
    let none = Filter::default;
    let filters = [
        Filter {
            kind: Some("mai".into()),
            ..none()
        },
        Filter {
            key: Some("key".into()),
            ..none()
        },
        Filter {
            headers: Headers::from([("trace".to_owned(), "ab".to_owned())]),
            ..none()
        },
        Filter {
            kind: Some("mail".into()),
            group: Some("another".into()),
            ..none()
        },
        Filter {
            search: Some("nowhere to be found".into()),
            ..none()
        },
    ];
    for filter in filters {
        assert_eq!(ids(t, filter.clone(), 3).await, [], "{filter:?}");
    }
}

/// Text is found in kind, key, group, headers, error and payload.
pub async fn a_search_looks_everywhere(t: &Bench) {
    let (id, _) = marked(t).await;
    for text in ["mai", "y-7", "mer-9", "trac", "abc", "timed", "ello wor"] {
        let filter = Filter {
            search: Some(text.into()),
            ..Filter::default()
        };
        assert_eq!(ids(t, filter, 3).await, [id], "{text}");
    }
}

/// Times are chosen from one instant to another, the second not included.
pub async fn a_filter_by_time_includes_its_beginning_only(t: &Bench) {
    let begin = t.wall();
    let mut pushed = Vec::new();
    for _ in 0..4 {
        pushed.push(t.push(later(secs(100))).await);
        t.pass(secs(1));
    }
    let (from, before) = (begin.plus(secs(1)), begin.plus(secs(3)));
    let created = Filter {
        created_from: Some(from),
        created_before: Some(before),
        ..Filter::default()
    };
    assert_eq!(ids(t, created, 10).await, pushed[1..3]);
    let due = Filter {
        due_from: Some(from.plus(secs(100))),
        due_before: Some(before.plus(secs(100))),
        ..Filter::default()
    };
    assert_eq!(ids(t, due, 10).await, pushed[1..3]);
}

/// Nothing to show is shown as an empty page that is the last.
pub async fn an_empty_store_has_one_empty_page(t: &Bench) {
    assert_eq!(page(t, None, 10).await, (Vec::new(), None));
    assert_eq!(t.engine.queues(None).await.unwrap(), []);
}

/// A dead job with all the marks a filter can look for, among others that have none.
async fn marked(t: &Bench) -> (JobId, JobSpec) {
    let pairs = [("trace", "abc"), ("tenant", "acme")];
    let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let spec = JobSpec {
        kind: "mail".into(),
        payload: text("hello world"),
        headers: Headers::from(pairs),
        group: Some("customer-9".into()),
        ..keyed("key-7", OnDuplicate::Reject)
    };
    let id = t.push(spec.clone()).await;
    t.work(bury("the upstream timed out")).await;
    for _ in 0..5 {
        let bytes = [0xff, 0xfe, 0x00];
        let payload = bytes::Bytes::copy_from_slice(&bytes);
        t.push(JobSpec { payload, ..plain() }).await;
    }
    (id, spec)
}

/// Jobs in every state, in two queues; their ids in order.
async fn mixed(t: &Bench) -> Vec<JobId> {
    let mut ids = Vec::new();
    for queue in ["a", "b"].map(named) {
        let retention = secs(3600);
        let spec = JobSpec {
            retention,
            ..plain()
        };
        for outcome in [Some(ack()), Some(bury("no")), Some(fail("no")), None] {
            for _ in 0..2 {
                ids.push(t.push_to(&queue, spec.clone()).await);
                let leased = t.take_from(std::slice::from_ref(&queue), 1).await;
                if let Some(outcome) = &outcome {
                    t.settle(leased[0].token, outcome.clone()).await;
                }
            }
        }
    }
    ids.sort();
    // One of each queue is ready again.
    for queue in ["a", "b"].map(named) {
        let filter = Filter {
            queue: Some(queue),
            states: vec![State::Scheduled],
            ..Filter::default()
        };
        let scheduled = t.all(filter, 10).await.remove(0);
        t.steer(scheduled.id, Action::Kick).await.unwrap();
    }
    ids
}

async fn ids(t: &Bench, filter: Filter, page: u32) -> Vec<JobId> {
    let jobs = t.all(filter, page).await;
    jobs.into_iter().map(|job| job.id).collect()
}

async fn page(t: &Bench, cursor: Option<Cursor>, limit: u32) -> (Vec<JobId>, Option<Cursor>) {
    let query = Query {
        cursor,
        limit,
        ..Query::default()
    };
    let page = t.engine.list(query).await.unwrap();
    let ids = page.jobs.into_iter().map(|job| job.id).collect();
    (ids, page.next)
}
