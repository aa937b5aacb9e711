//! Everything that is shown is read back as it was.

use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Value, json};

use super::super::{parse, show};
use crate::engine::{
    Accepted, Audit, Cursor, Extended, Mode, Outage, Page, Pushed, QueueList, Settled, Steered,
};
use crate::event::Notice;
use crate::explain::{Watch, explain};
use crate::job::{Backoff, DeadReason, Holder, Job, Leased, Moment};
use crate::life::Event;
use crate::queue::{Books, Counts, QueueConfig, QueueInfo, Rate};
use crate::schedule::{Missed, Rhythm, Schedule};
use crate::time::{Base, Due};
use crate::topic::{Pattern, Subscription};
use crate::{Code, Error, JobId, JobSpec, QueueName, State, Timestamp, Token};

const NOON: Timestamp = Timestamp(1_700_000_000_000);

fn body(shown: impl Serialize) -> Vec<u8> {
    serde_json::to_vec(&shown).unwrap()
}

fn mail() -> QueueName {
    QueueName::new("mail").unwrap()
}

fn plain() -> Job {
    Job {
        id: JobId(7),
        queue: mail(),
        kind: "".into(),
        payload: Bytes::new(),
        headers: [].into(),
        priority: 1024,
        state: State::Ready,
        run_at: NOON,
        created_at: NOON,
        ttr: Duration::from_secs(60),
        expires_at: None,
        max_attempts: 10,
        backoff: Backoff::default(),
        key: None,
        key_window: Duration::ZERO,
        group: None,
        retention: Duration::ZERO,
        attempt: 0,
        failures: 0,
        vanished: 0,
        last_error: None,
        dead: None,
        ended_at: None,
        progress: None,
        result: None,
        holder: None,
        timeline: Vec::new(),
    }
}

fn full() -> Job {
    let moment = |event| Moment {
        at: NOON,
        event,
        by: "w1".into(),
        note: "n".into(),
    };
    Job {
        id: JobId(u64::MAX),
        kind: "welcome".into(),
        payload: Bytes::from_static(b" {\"a\": 1.50}\n"),
        headers: [("traceparent".to_owned(), "00-1".to_owned())].into(),
        state: State::Leased,
        expires_at: Some(Timestamp(u64::MAX)),
        backoff: Backoff::List {
            delays: vec![Duration::from_millis(1500)],
        },
        key: Some("user-7".into()),
        key_window: Duration::from_secs(3600),
        group: Some("acme".into()),
        retention: Duration::from_secs(60),
        attempt: 3,
        failures: 1,
        vanished: 2,
        last_error: Some("smtp 451".into()),
        dead: Some(DeadReason::Vanished),
        ended_at: Some(NOON),
        progress: Some(Bytes::from_static(b"null")),
        result: Some(Bytes::from_static(b"\xff")),
        holder: Some(Holder {
            worker: "w1".into(),
            deadline: NOON,
            cancel: true,
        }),
        timeline: Event::ALL.into_iter().map(moment).collect(),
        ..plain()
    }
}

#[test]
fn a_job_is_read_back_as_it_was_shown() {
    for job in [plain(), full()] {
        assert_eq!(parse::job(&body(show::job(&job))).unwrap(), job);
        for payload in [&b""[..], b"null", b"\n[1, 2]\t", b"text", b"\x00\xff", b" "] {
            let job = Job {
                payload: Bytes::from_static(payload),
                ..job.clone()
            };
            let read = parse::job(&body(show::job(&job))).unwrap();
            assert_eq!(read.payload, payload);
        }
    }
    for dead in [DeadReason::Failed, DeadReason::Buried, DeadReason::Expired] {
        let job = Job {
            dead: Some(dead),
            ..plain()
        };
        assert_eq!(parse::job(&body(show::job(&job))).unwrap(), job);
    }
}

#[test]
fn a_job_without_a_key_holds_none_whatever_is_said_of_it() {
    let mut shown: Value = serde_json::from_slice(&body(show::job(&plain()))).unwrap();
    shown["key_window"] = "24h".into();
    assert_eq!(parse::job(&body(shown)).unwrap(), plain());
}

#[test]
fn pages_and_leases_are_read_back() {
    for next in [None, Some(Cursor("c".into()))] {
        let page = Page {
            jobs: vec![plain(), full()],
            next,
        };
        assert_eq!(parse::page(&body(show::page(&page))).unwrap(), page);
    }
    let leased = Leased {
        job: full(),
        token: Token {
            job: JobId(7),
            counter: 1,
            nonce: 2,
        },
        deadline: NOON,
    };
    let leases = [leased.clone(), leased];
    assert_eq!(parse::leases(&body(show::leases(&leases))).unwrap(), leases);
}

#[test]
fn batches_are_read_back_item_by_item() {
    let pushed = |how| Pushed {
        id: JobId(7),
        state: State::Scheduled,
        run_at: NOON,
        how,
    };
    let taken = || Error::new(Code::DuplicateKey, "key is taken").about(JobId(9));
    let pushes = [
        Ok(pushed(Accepted::New)),
        Err(taken()),
        Ok(pushed(Accepted::Existing)),
        Ok(pushed(Accepted::Replaced)),
        Err(Error::new(Code::QueueFull, "full")),
    ];
    let shown = show::results(&pushes, show::pushed);
    assert_eq!(parse::pushed(&body(shown)).unwrap(), pushes);

    let settled = |run_at| Settled {
        id: JobId(7),
        state: State::Dead,
        run_at,
    };
    let settles = [Ok(settled(None)), Err(taken()), Ok(settled(Some(NOON)))];
    let shown = show::results(&settles, show::settled);
    assert_eq!(parse::settled(&body(shown)).unwrap(), settles);

    let extended = Extended {
        id: JobId(7),
        deadline: NOON,
        cancel: true,
    };
    let extends = [Ok(extended), Err(taken())];
    let shown = show::results(&extends, show::extended);
    assert_eq!(parse::extended(&body(shown)).unwrap(), extends);

    let jobs = json!({ "jobs": [show::pushed(&pushed(Accepted::New))] });
    let published = parse::published(&body(jobs)).unwrap();
    assert_eq!(published, [pushed(Accepted::New)]);
}

#[test]
fn a_move_is_read_back() {
    let steered = [
        Steered::default(),
        Steered {
            moved: 3,
            results: vec![Ok(State::Ready), Err(Error::new(Code::Conflict, "no"))],
            next: Some(Cursor("c".into())),
        },
    ];
    for steered in steered {
        let shown = show::steered(&steered, Mode::Act);
        assert_eq!(parse::steered(&body(shown)).unwrap(), steered);
    }
}

#[test]
fn queues_and_audits_are_read_back() {
    let books = Books {
        accepted: 21,
        live: 1,
        done: 2,
        dead: 3,
        expired: 4,
        cancelled: 5,
        deleted: 6,
    };
    let bare = QueueInfo {
        name: mail(),
        config: QueueConfig::default(),
        counts: Counts::default(),
        bytes: 0,
        books: Books::default(),
        waiting: 0,
        last_asked: None,
        next_due: None,
        rate_wait: None,
    };
    let busy = QueueInfo {
        config: QueueConfig {
            paused_in: true,
            paused_out: true,
            paused_until: Some(crate::time::When::At(Timestamp(1_000))),
            max_jobs: Some(1),
            max_bytes: Some(2),
            max_leased: Some(3),
            rate: Some(Rate {
                count: 4,
                per: Duration::from_secs(5),
                burst: 6,
            }),
            fair: true,
            shards: Some(8),
        },
        counts: Counts {
            scheduled: 1,
            ready: 2,
            leased: 3,
            dead: 4,
            done: 5,
        },
        bytes: 9,
        books,
        waiting: 7,
        last_asked: Some(NOON),
        next_due: Some(Timestamp(1)),
        rate_wait: Some(Timestamp(2)),
        ..bare.clone()
    };
    assert_eq!(parse::queue(&body(show::queue(&busy))).unwrap(), busy);
    let both = json!({ "queues": [show::queue(&bare), show::queue(&busy)] });
    let mut listed = parse::queues(&body(both.clone())).unwrap();
    assert_eq!(listed, QueueList::whole(vec![bare, busy]));
    // A part of the store is away.
    let mut partly = both;
    let outage = Outage {
        part: "shard 3".into(),
        why: "no answer".into(),
    };
    partly["unavailable"] = json!([show::outage(&outage)]);
    listed.unavailable.push(outage);
    assert_eq!(parse::queues(&body(partly.clone())).unwrap(), listed);
    let missing = listed.into_all().unwrap_err();
    assert_eq!(missing.message(), "shard 3 is away: no answer");
    assert_eq!(parse::forgotten(&body(partly)).unwrap(), Books::default());
    let shown = json!({ "queues": [], "forgotten": show::books(&books) });
    assert_eq!(parse::forgotten(&body(shown)).unwrap(), books);

    let audit = Audit {
        queues: vec![(mail(), books)],
        forgotten: books,
        jobs: 2,
        problems: vec!["queue mail: off by one".into()],
    };
    assert_eq!(parse::audit(&body(show::audit(&audit))).unwrap(), audit);
}

#[test]
fn what_is_set_up_is_read_back() {
    let subscription = |pattern| Subscription {
        topic: "orders".into(),
        name: "billing".into(),
        queue: mail(),
        pattern,
    };
    let subscriptions = [
        subscription(None),
        subscription(Some(Pattern::new("order.*.#").unwrap())),
    ];
    let shown: Vec<_> = subscriptions.iter().map(show::subscription).collect();
    let shown = json!({ "subscriptions": shown });
    assert_eq!(parse::subscriptions(&body(shown)).unwrap(), subscriptions);

    let every = Schedule {
        name: "pulse".into(),
        queue: mail(),
        rhythm: Rhythm::Every(Duration::from_secs(30)),
        missed: Missed::Skip,
        spec: JobSpec {
            payload: Bytes::from_static(b"{}"),
            ..JobSpec::default()
        },
        next: Some(Due {
            at: NOON,
            base: Base::Steady,
        }),
        last: Some(NOON),
    };
    let cron = Schedule {
        rhythm: Rhythm::Cron {
            expression: "@daily".into(),
            zone: "Europe/Berlin".into(),
        },
        next: Some(Due {
            at: NOON,
            base: Base::Wall,
        }),
        last: None,
        ..every.clone()
    };
    let shown = json!({ "schedules": [
        serde_json::to_value(show::schedule(&every)).unwrap(),
        serde_json::to_value(show::schedule(&cron)).unwrap(),
    ] });
    assert_eq!(parse::schedules(&body(shown)).unwrap(), [every, cron]);
}

#[test]
fn notices_and_explanations_are_read_back() {
    for event in Event::ALL {
        let notice = Notice {
            sequence: 3,
            at: NOON,
            queue: mail(),
            job: JobId(7),
            event,
            by: "w1".into(),
            note: "".into(),
        };
        assert_eq!(parse::notice(&body(show::notice(&notice))).unwrap(), notice);
    }
    assert_eq!(parse::missed(b"{\"missed\": 3}"), Ok(3));
    let watch = Watch {
        since: None,
        now: NOON,
    };
    for job in [None, Some(&full()), Some(&plain())] {
        let explanation = explain(job, None, watch);
        let shown = body(show::explanation(&explanation));
        assert_eq!(parse::explanation(&shown).unwrap(), explanation);
    }
}

#[test]
fn a_problem_is_the_error_it_was_made_of() {
    for code in Code::ALL {
        let problem = json!({
            "type": "about:blank", "title": "no", "status": 400, "code": code.as_str(),
            "message": "why", "detail": "why", "job": "7",
        });
        let error = Error::new(code, "why").about(JobId(7));
        assert_eq!(parse::problem(&body(problem)), Some(error));
    }
    let newer = parse::problem(br#"{"code":"too_shiny","message":"why"}"#).unwrap();
    assert_eq!(newer.message(), "too_shiny: why");
    for other in ["", "<html>", "[]", "{}", "{\"code\":1}"] {
        assert_eq!(parse::problem(other.as_bytes()), None, "{other}");
    }
}

#[test]
fn fields_of_a_newer_server_are_passed_over_and_missing_ones_are_named() {
    let mut job = serde_json::to_value(show::job(&plain())).unwrap();
    job["colour"] = "blue".into();
    assert_eq!(parse::job(&body(&job)).unwrap(), plain());
    job.as_object_mut().unwrap().remove("run_at");
    let error = parse::job(&body(&job)).unwrap_err();
    assert_eq!(error.message(), "run_at: is missing");
}

#[test]
fn an_answer_that_cannot_be_read_is_told_of_in_short() {
    let long = "x".repeat(100_000);
    for body in [
        json!({ "results": long }),
        json!({ "results": [{ "ok": long }] }),
        json!({ "results": [{ "error": long }] }),
    ] {
        let error = parse::pushed(body.to_string().as_bytes()).unwrap_err();
        assert!(error.message().len() < 600, "{}", error.message().len());
    }
}
