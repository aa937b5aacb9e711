use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::super::{read, show};
use crate::engine::{Accepted, Audit, Cursor, Extended, Mode, Page, Pushed, Settled, Steered};
use crate::event::Notice;
use crate::explain::{Watch, explain};
use crate::job::{
    Backoff, DeadReason, Holder, Job, JobSpec, Key, Leased, Moment, OnDuplicate, Ttl,
};
use crate::life::Event;
use crate::queue::{Books, Counts, QueueConfig, QueueInfo};
use crate::{Code, Error, JobId, QueueName, State, Timestamp, Token, When};

const NOON: Timestamp = Timestamp(1_700_000_000_000);

fn token() -> Token {
    Token {
        job: JobId(7),
        counter: 1,
        nonce: 2,
    }
}

fn job(payload: &'static [u8]) -> Job {
    Job {
        id: JobId(u64::MAX),
        queue: QueueName::new("mail").unwrap(),
        kind: "welcome".into(),
        payload: Bytes::from_static(payload),
        headers: [("traceparent".to_owned(), "00-1".to_owned())].into(),
        priority: 5,
        state: State::Leased,
        run_at: NOON,
        created_at: Timestamp(NOON.0 - 1),
        ttr: Duration::from_millis(1500),
        expires_at: Some(Timestamp(NOON.0 + 1)),
        max_attempts: 3,
        backoff: Backoff::List {
            delays: vec![Duration::from_secs(5), Duration::from_secs(90)],
        },
        key: Some("user-7".into()),
        key_window: Duration::from_secs(3600),
        group: Some("acme".into()),
        retention: Duration::from_secs(60),
        attempt: 2,
        failures: 1,
        vanished: 0,
        last_error: Some("smtp 451".into()),
        dead: Some(DeadReason::Failed),
        ended_at: None,
        progress: Some(Bytes::from_static(b"{\"percent\":50}")),
        result: Some(Bytes::from_static(b"\xff")),
        holder: Some(Holder {
            worker: "w1".into(),
            deadline: NOON,
            cancel: true,
        }),
        timeline: vec![Moment {
            at: NOON,
            event: Event::Push,
            by: String::new(),
            note: "n".into(),
        }],
    }
}

fn to_value(shown: impl serde::Serialize) -> Value {
    serde_json::to_value(shown).unwrap()
}

#[test]
fn a_job_survives_out_and_in_for_the_fields_of_a_push() {
    for payload in [
        &b"{\"a\": [1, 2.50]}"[..],
        b"\x00\xff",
        b"",
        b"text",
        b"null",
    ] {
        let job = job(payload);
        let shown = serde_json::to_string(&show::job(&job)).unwrap();
        let all: BTreeMap<String, Box<RawValue>> = serde_json::from_str(&shown).unwrap();
        let kept: BTreeMap<_, _> = all
            .iter()
            .filter(|(name, _)| read::PUSH_FIELDS.contains(&name.as_str()))
            .collect();
        let spec = read::push(serde_json::to_string(&kept).unwrap().as_bytes()).unwrap();
        assert_eq!(
            spec,
            JobSpec {
                kind: job.kind.to_string(),
                payload: job.payload,
                headers: job.headers,
                priority: job.priority,
                when: When::At(job.run_at),
                ttr: job.ttr,
                ttl: Ttl::At(job.expires_at.unwrap()),
                max_attempts: job.max_attempts,
                backoff: job.backoff,
                key: Some(Key {
                    name: job.key.unwrap(),
                    on_duplicate: OnDuplicate::Reject,
                    window: job.key_window,
                }),
                group: job.group,
                retention: job.retention,
            }
        );
        let again = serde_json::to_string(&show::spec(&spec)).unwrap();
        assert_eq!(read::push(again.as_bytes()).unwrap(), spec);
    }
}

#[test]
fn a_job_is_shown_in_full_and_without_what_says_nothing() {
    let leased = Leased {
        job: job(b"{\"a\":1}"),
        token: token(),
        deadline: NOON,
    };
    let noon = "2023-11-14T22:13:20.000Z";
    assert_eq!(
        to_value(show::leased(&leased)),
        json!({
            "id": "18446744073709551615", "queue": "mail", "state": "leased", "kind": "welcome",
            "payload": {"a": 1}, "headers": {"traceparent": "00-1"}, "priority": 5, "run_at": noon,
            "created_at": "2023-11-14T22:13:19.999Z", "attempt": 2, "failures": 1, "max_attempts": 3,
            "backoff": {"kind": "list", "delays": ["5s", "1m30s"]}, "ttr": "1.5s",
            "expires_at": "2023-11-14T22:13:20.001Z", "key": "user-7", "key_window": "1h", "group": "acme",
            "retention": "1m", "last_error": "smtp 451", "dead_reason": "failed",
            "progress": {"percent": 50}, "result_base64": "/w==",
            "lease": {"worker": "w1", "deadline": noon, "cancel": true},
            "token": "7-1-0000000000000002", "deadline": noon,
            "timeline": [{"at": noon, "event": "push", "note": "n"}],
        })
    );
    assert_eq!(
        to_value(show::leases(&[leased]))["jobs"][0]["token"],
        "7-1-0000000000000002"
    );
}

#[test]
fn answers_have_their_stable_fields() {
    let pushed = Pushed {
        id: JobId(7),
        state: State::Ready,
        run_at: Timestamp(0),
        how: Accepted::New,
    };
    let refused = Error::new(Code::DuplicateKey, "key is taken").about(JobId(9));
    assert_eq!(
        to_value(show::results(&[Ok(pushed), Err(refused)], show::pushed)),
        json!({"results": [
            {"ok": {"id": "7", "state": "ready", "run_at": "1970-01-01T00:00:00.000Z", "how": "new"}},
            {"error": {"code": "duplicate_key", "message": "key is taken", "id": "9"}},
        ]})
    );
    let steered = Steered {
        moved: 1,
        results: vec![Ok(State::Ready)],
        next: Some(Cursor("c".into())),
    };
    assert_eq!(
        show::steered(&steered, Mode::DryRun),
        json!({"moved": 1, "dry_run": true, "next_cursor": "c", "results": [{"ok": {"state": "ready"}}]})
    );
    let page = to_value(show::page(&Page::default()));
    assert_eq!(page, json!({"jobs": [], "next_cursor": null}));
}

#[test]
fn leases_that_end_or_go_on_are_shown() {
    let noon = "2023-11-14T22:13:20.000Z";
    let settled = |run_at| Settled {
        id: JobId(7),
        state: State::Scheduled,
        run_at,
    };
    assert_eq!(
        to_value(show::settled(&settled(Some(NOON)))),
        json!({"id": "7", "state": "scheduled", "run_at": noon})
    );
    assert_eq!(
        to_value(show::settled(&settled(None))),
        json!({"id": "7", "state": "scheduled"})
    );
    let extended = Extended {
        id: JobId(7),
        deadline: NOON,
        cancel: true,
    };
    assert_eq!(
        to_value(show::extended(&extended)),
        json!({"id": "7", "deadline": noon, "cancel": true})
    );
}

#[test]
fn queues_and_their_books_are_shown() {
    let books = Books {
        accepted: 3,
        live: 2,
        done: 1,
        ..Books::default()
    };
    let info = QueueInfo {
        name: QueueName::new("mail").unwrap(),
        config: QueueConfig::default(),
        counts: Counts {
            ready: 2,
            ..Counts::default()
        },
        bytes: 9,
        books,
        waiting: 1,
        last_asked: Some(NOON),
        next_due: None,
        rate_wait: None,
    };
    let shown_books = json!({"accepted": 3, "live": 2, "done": 1, "dead": 0, "expired": 0, "cancelled": 0, "deleted": 0});
    assert_eq!(
        show::queue(&info),
        json!({
            "name": "mail", "config": {"paused_in": false, "paused_out": false},
            "counts": {"scheduled": 0, "ready": 2, "leased": 0, "dead": 0, "done": 0},
            "bytes": 9, "books": shown_books, "waiting": 1, "last_asked": "2023-11-14T22:13:20.000Z",
        })
    );
    let mut audit = Audit {
        queues: vec![(info.name, books)],
        forgotten: Books::default(),
        jobs: 2,
        problems: vec!["queue mail: off by one".into()],
    };
    assert_eq!(
        show::audit(&audit),
        json!({
            "ok": false, "jobs": 2, "problems": ["queue mail: off by one"],
            "queues": [{"name": "mail", "books": shown_books, "balanced": true}],
        })
    );
    audit.forgotten = books;
    assert_eq!(show::audit(&audit)["forgotten"], shown_books);
}

#[test]
fn notices_and_explanations_are_shown() {
    let notice = Notice {
        sequence: 3,
        at: NOON,
        queue: QueueName::new("mail").unwrap(),
        job: JobId(7),
        event: Event::Lease,
        by: "w1".into(),
        note: "".into(),
    };
    let noon = "2023-11-14T22:13:20.000Z";
    assert_eq!(
        show::notice(&notice),
        json!({"sequence": 3, "at": noon, "queue": "mail", "id": "7", "event": "lease", "by": "w1"})
    );
    let leased = job(b"");
    let watch = Watch {
        since: None,
        now: NOON,
    };
    let shown = show::explanation(&explain(Some(&leased), None, watch));
    assert_eq!(
        shown,
        json!({
            "reason": "leased", "text": shown["text"], "id": leased.id.to_string(), "state": "leased",
            "queue": "mail", "until": noon, "worker": "w1", "error": "smtp 451",
        })
    );
    let unknown = show::explanation(&explain(None, None, watch));
    assert_eq!(unknown.as_object().unwrap().len(), 2, "{unknown}");
}
