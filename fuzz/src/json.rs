//! JSON: what clients ask for, and what servers answer.

use std::fmt::Debug;

use auxo_core::engine::{Change, Mode};
use auxo_core::json::write::body as text;
use auxo_core::json::{parse, passage, read, show, write};
use auxo_core::queue::QueueConfig;
use auxo_core::{Limits, QueueName, Result, Timestamp};
use bytes::Bytes;
use serde_json::json;

use crate::{refusal, room};

const NOW: Timestamp = Timestamp(1_700_000_000_000);
const MOST: usize = 1000;

/// What was understood means the same when it is written down and read again; what was not is refused.
#[track_caller]
fn again<T: Debug>(
    body: &[u8],
    read: impl Fn(&[u8]) -> Result<T>,
    write: impl Fn(&T) -> Bytes,
) -> Option<T> {
    match room::within(200 * body.len() + (64 << 10), || read(body)) {
        Err(error) => {
            refusal::check(&error);
            None
        }
        Ok(value) => {
            let written = write(&value);
            let twice = read(&written);
            let shown = String::from_utf8_lossy(&written);
            let twice = twice.unwrap_or_else(|error| panic!("{value:?}\n{shown}\n{error}"));
            assert_eq!(format!("{value:?}"), format!("{twice:?}"), "{shown}");
            Some(value)
        }
    }
}

/// A limit is told as any other refusal.
fn limited<T>(result: Result<T>) {
    if let Err(error) = result {
        refusal::check(&error);
    }
}

/// Takes a body for each request that there is.
pub fn requests(body: &[u8]) {
    let limits = Limits::default();
    if let Some(spec) = again(body, read::push, |spec| text(&write::push(spec))) {
        limited(limits.check_spec(&spec, NOW));
        // A schedule's job is shown with all its fields, and reads back as well.
        let shown = text(&show::spec(&spec));
        let twice = read::push(&shown).expect("what was shown");
        let space = twice.payload.trim_ascii() == spec.payload.trim_ascii();
        assert!(space, "{:?} {:?}", spec.payload, twice.payload);
    }
    if let Some(ask) = again(body, read::ask, |ask| text(&write::ask(ask))) {
        limited(limits.check_ask(&ask));
    }
    if let Some(order) = again(body, read::order, |order| text(&write::order(order))) {
        limited(limits.check_order(&order, NOW));
    }
    batches(body, &limits);
    setup(body, &limits);
    pages(body, &limits);
    moves(body, &limits);
    if let Err(error) = read::when(body) {
        refusal::check(&error);
    }
}

fn batches(body: &[u8], limits: &Limits) {
    fn each<T: Debug>(batch: Result<read::Batch<T>>, check: impl Fn(T)) {
        let items = match batch {
            Ok(batch) => batch.into_items(),
            Err(error) => return refusal::check(&error),
        };
        assert!(items.len() <= MOST);
        for item in items {
            match item {
                Ok(item) => check(item),
                Err(error) => refusal::check(&error),
            }
        }
    }
    each(read::pushes(body, MOST), |spec| {
        again(&text(&write::push(&spec)), read::push, |spec| {
            text(&write::push(spec))
        });
    });
    each(read::settles(body, MOST), |settle| {
        let written = text(&write::settle(&settle));
        let read::Batch::One(Ok(twice)) = read::settles(&written, 1).expect("what was written")
        else {
            panic!("one");
        };
        assert_eq!(settle, twice);
        limited(limits.check_settle(settle));
    });
    each(read::extends(body, MOST), |extend| {
        let written = text(&write::extend(&extend));
        let read::Batch::One(Ok(twice)) = read::extends(&written, 1).expect("what was written")
        else {
            panic!("one");
        };
        assert_eq!(extend, twice);
        limited(limits.check_extend(&extend));
    });
}

fn setup(body: &[u8], limits: &Limits) {
    let config = again(
        body,
        |body| read::queue_config(body, QueueConfig::default()),
        |config| text(&write::queue_config(config)),
    );
    if let Some(config) = config {
        limited(limits.check_config(&config, NOW));
    }
    let subscription = again(
        body,
        |body| read::subscription("t", "s", body),
        |subscription| text(&write::subscription(subscription)),
    );
    if let Some(subscription) = subscription {
        limited(limits.check_subscription(&subscription));
        subscription.wants(Some("order.7.paid"));
    }
    let message = again(
        body,
        |body| read::message("t", body),
        |message| text(&write::message(message)),
    );
    if let Some(message) = message {
        limited(limits.check_message(&message, NOW));
    }
    let change = again(
        body,
        |body| read::schedule_change("s", body),
        |change| match change {
            Change::Schedule(schedule) => text(&write::schedule(schedule)),
            Change::Arm(schedule) => text(&write::armed(schedule)),
            other => panic!("{other:?}"),
        },
    );
    if let Some(change) = change {
        limited(limits.check_change(&change, NOW));
    }
}

fn pages(body: &[u8], limits: &Limits) {
    let query = match read::query(body) {
        Ok(query) => query,
        Err(error) => return refusal::check(&error),
    };
    limited(limits.check_query(&query));
    let pairs = write::query_pairs(&query);
    // An empty text cannot be asked for in a URL.
    if pairs.iter().all(|(_, value)| !value.is_empty()) {
        let pairs = pairs.iter().map(|(name, value)| (&**name, &**value));
        let twice = read::query_pairs(pairs).expect("what was written");
        assert_eq!(format!("{query:?}"), format!("{twice:?}"));
    }
}

fn moves(body: &[u8], limits: &Limits) {
    let queue = QueueName::new("q").expect("a name");
    again(
        body,
        |body| passage::read_leaving(body, MOST),
        |jobs| text(&passage::write_leaving(jobs)),
    );
    let adoption = again(
        body,
        |body| passage::read_adoption(queue.clone(), body, MOST),
        |adoption| text(&passage::write_adoption(adoption)),
    );
    if let Some(auxo_core::passage::Step::Jobs(jobs)) = adoption.map(|adoption| adoption.step) {
        for job in jobs {
            limited(limits.check_passage(&job, NOW));
        }
    }
}

/// Takes a body for each answer that there is: a client must not fall over a server that is none.
pub fn answers(body: &[u8]) {
    again(body, parse::job, |job| text(&show::job(job)));
    again(body, parse::leases, |jobs| text(&show::leases(jobs)));
    again(body, parse::page, |page| text(&show::page(page)));
    again(body, parse::pushed, |pushed| {
        text(&show::results(pushed, show::pushed))
    });
    again(body, parse::settled, |settled| {
        text(&show::results(settled, show::settled))
    });
    again(body, parse::extended, |extended| {
        text(&show::results(extended, show::extended))
    });
    again(body, parse::published, |jobs| {
        let jobs: Vec<_> = jobs.iter().map(show::pushed).collect();
        text(&json!({ "jobs": jobs }))
    });
    again(body, parse::steered, |steered| {
        text(&show::steered(steered, Mode::Act))
    });
    again(body, parse::notice, |notice| text(&show::notice(notice)));
    again(body, parse::explanation, |explanation| {
        text(&show::explanation(explanation))
    });
    again(body, parse::queue, |queue| text(&show::queue(queue)));
    again(body, parse::queues, |queues| {
        let queues: Vec<_> = queues.queues.iter().map(show::queue).collect();
        text(&json!({ "queues": queues }))
    });
    again(body, parse::audit, |audit| text(&show::audit(audit)));
    again(body, parse::subscriptions, |all| {
        let all: Vec<_> = all.iter().map(show::subscription).collect();
        text(&json!({ "subscriptions": all }))
    });
    again(body, parse::schedules, |all| {
        let all: Vec<_> = all.iter().map(show::schedule).collect();
        text(&json!({ "schedules": all.iter().map(|one| json!(one)).collect::<Vec<_>>() }))
    });
    again(body, passage::parse_passages, |passages| {
        text(&passage::show_passages(passages))
    });
    again(body, passage::parse_adopted, |adopted| {
        text(&passage::show_adopted(adopted))
    });
    again(body, passage::parse_departed, |departed| {
        text(&passage::show_departed(departed))
    });
    let _ = (parse::problem(body), parse::missed(body));
}
