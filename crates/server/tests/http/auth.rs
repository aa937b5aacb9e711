//! Who may do what, over every route there is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use auxo_core::{SystemClock, Timestamp};
use auxo_server::{Auth, Patience, Settings, Token, TokenFile, Trail};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;

use super::bench::{Bench, Reply, read_head, read_reply, within};

/// A server that wants tokens, and the file that has them.
struct Guarded {
    bench: Bench,
    auth: Auth,
    file: TokenFile,
    _dir: TempDir,
}

impl Guarded {
    async fn start() -> Guarded {
        // There are many wrong tokens in these tests.
        let delay = Duration::from_millis(1);
        Guarded::with(Patience {
            delay,
            ..Patience::default()
        })
        .await
    }

    async fn with(patience: Patience) -> Guarded {
        Guarded::adjusted(patience, |_| ()).await
    }

    async fn adjusted(patience: Patience, adjust: impl FnOnce(&mut Settings)) -> Guarded {
        let dir = tempfile::tempdir().unwrap();
        let file = TokenFile::new(dir.path().join("tokens.toml"));
        file.change(|tokens| Ok((tokens.clone(), ()))).unwrap();
        let clock = Arc::new(SystemClock::new(Timestamp(0)));
        let auth = Auth::open(file.clone(), clock, patience).unwrap();
        let settings = auth.clone();
        Guarded {
            bench: Bench::with(|with| {
                with.auth = settings;
                adjust(with);
            })
            .await,
            auth,
            file,
            _dir: dir,
        }
    }

    /// A new token, as the header that shows it.
    fn token(&self, allow: &[&str]) -> String {
        self.named(allow).1
    }

    fn named(&self, allow: &[&str]) -> (String, String) {
        let allow = allow.iter().map(|grant| grant.parse().unwrap()).collect();
        let (token, secret) = Token::new("t", allow, Timestamp(0), None).unwrap();
        let id = token.id.clone();
        self.file
            .change(|tokens| Ok((tokens.with(token), ())))
            .unwrap();
        self.auth.reload();
        (id, format!("authorization: Bearer {}", secret.reveal()))
    }

    fn revoke(&self, id: &str) {
        let revoked = |tokens: &auxo_server::Tokens| Ok(tokens.without(id).unwrap());
        self.file.change(revoked).unwrap();
        self.auth.reload();
    }

    async fn call(&self, token: &str, method: &str, path: &str, body: &str) -> Reply {
        let headers = [token, "content-type: application/json"];
        let headers: Vec<&str> = headers.into_iter().filter(|h| !h.is_empty()).collect();
        self.bench.call_with(method, path, &headers, body).await
    }
}

const UNKNOWN: &str =
    "authorization: Bearer auxo_aaaaaaaa_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

/// Every call that is documented: method, path with its variables filled in, what it needs.
fn routes() -> Vec<(String, String, Option<String>)> {
    let document = auxo_server::document();
    let mut routes = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let need = operation["security"].as_array().expect("what it needs");
            let need = need.iter().find_map(|choice| choice["token"][0].as_str());
            let path = path.replace("{queue}", "mail").replace("{id}", "7");
            let path = path.replace("{key}", "k").replace(['{', '}'], "");
            routes.push((method.to_uppercase(), path, need.map(str::to_owned)));
        }
    }
    assert!(routes.len() >= 39, "{routes:?}");
    routes
}

/// A body with which a call gets as far as asking who may do it.
fn body(method: &str, path: &str) -> &'static str {
    match (method, path) {
        ("POST", "/v1/lease") => r#"{"queues":["mail"]}"#,
        ("POST", "/v1/settle") => r#"{"token":"7-1-0000000000000000","outcome":"ack"}"#,
        ("POST", "/v1/extend") => r#"{"token":"7-1-0000000000000000"}"#,
        ("POST", "/v1/jobs:bulk") => r#"{"action":"kick","filter":{"queue":"mail"}}"#,
        ("POST", "/v1/jobs/7/reschedule") => r#"{"delay":"1s"}"#,
        ("PUT", "/v1/schedules/name") => r#"{"queue":"mail","every":"1h"}"#,
        ("PUT", "/v1/topics/topic/subscriptions/name") => r#"{"queue":"mail"}"#,
        _ => "",
    }
}

#[tokio::test]
async fn every_route_but_two_is_closed_to_strangers() {
    let guarded = Guarded::start().await;
    let mut open = Vec::new();
    for (method, path, need) in routes() {
        let none = guarded.call("", &method, &path, body(&method, &path)).await;
        if need.is_none() {
            assert_eq!(none.status, 200, "{method} {path}");
            open.push(path);
            continue;
        }
        none.problem(401, "unauthorized");
        assert!(
            none.header("www-authenticate")
                .is_some_and(|h| h.starts_with("Bearer"))
        );
        for wrong in [
            UNKNOWN,
            "authorization: Bearer x",
            "authorization: Basic dTpw",
            "authorization: Bearer ",
            "cookie: token=x",
        ] {
            let refused = guarded
                .call(wrong, &method, &path, body(&method, &path))
                .await;
            // Too many wrong ones come from here, which is said instead after a while.
            assert!(
                matches!(refused.status, 401 | 429),
                "{method} {path}: {refused:?}"
            );
        }
    }
    open.sort();
    assert_eq!(open, ["/healthz", "/readyz"]);
    // What is not there is not told to strangers, either.
    let nowhere = guarded.call("", "GET", "/nowhere", "").await;
    assert_eq!(nowhere.status, 401);
    let method = guarded.call("", "PATCH", "/healthz", "").await;
    assert_eq!(method.status, 401);
}

#[tokio::test]
async fn a_token_without_the_verb_is_refused_everywhere_and_one_with_it_is_not() {
    let guarded = Guarded::start().await;
    let all = ["push", "lease", "read", "operate", "admin"];
    let mut tokens = BTreeMap::new();
    for verb in all {
        let others: Vec<String> = all
            .iter()
            .filter(|v| **v != verb && **v != "admin")
            .map(|v| format!("{v}:*"))
            .collect();
        let others: Vec<&str> = others.iter().map(String::as_str).collect();
        let with = guarded.token(&[&format!("{verb}:*")]);
        tokens.insert(verb, (guarded.token(&others), with));
    }
    let admin = guarded.token(&["admin:*"]);
    for (method, path, need) in routes() {
        let Some(need) = need else { continue };
        if path == "/v1/events" {
            continue;
        }
        let (without, with) = &tokens[need.split(':').next().unwrap()];
        let body = body(&method, &path);
        guarded
            .call(without, &method, &path, body)
            .await
            .problem(403, "forbidden");
        for enough in [with, &admin] {
            let reply = guarded.call(enough, &method, &path, body).await;
            assert!(
                !matches!(reply.status, 401 | 403),
                "{method} {path}: {reply:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_token_for_other_queues_gets_nothing_out_of_any_route() {
    let guarded = Guarded::start().await;
    let admin = guarded.token(&["admin:*"]);
    let narrow: Vec<String> = ["push", "lease", "read", "operate", "admin"]
        .iter()
        .map(|v| format!("{v}:mail.*"))
        .collect();
    let narrow: Vec<&str> = narrow.iter().map(String::as_str).collect();
    let narrow = guarded.token(&narrow);
    // Something that it must not see: a job, and a schedule that has the name which is tried.
    let pushed = guarded
        .call(&admin, "POST", "/v1/queues/mail/jobs", "{}")
        .await
        .json();
    let job = pushed["id"].as_str().unwrap();
    let schedule = r#"{"queue":"mail","every":"1h"}"#;
    guarded
        .call(&admin, "PUT", "/v1/schedules/name", schedule)
        .await;
    for (method, path, need) in routes() {
        let Some(need) = need else { continue };
        let tried = path.replace("/7", &format!("/{job}"));
        let body = body(&method, &path);
        let reply = guarded.call(&narrow, &method, &tried, body).await;
        match need.rsplit(':').next().unwrap() {
            "{any queue}" => assert_eq!(reply.status, 200, "{path}"),
            // As if it were not there.
            "{id}" if path.ends_with("/explain") => {
                assert_eq!(reply.json()["reason"], "unknown_job", "{reply:?}")
            }
            "{id}" => {
                reply.problem(404, "not_found");
                let absent = guarded.call(&narrow, &method, &path, body).await;
                assert_eq!(reply.text.replace(job, "7"), absent.text, "{method} {path}");
            }
            "{token}" => drop(reply.problem(409, "lease_lost")),
            "{its queue}" if method == "PUT" => drop(reply.problem(403, "forbidden")),
            "{its queue}" => drop(reply.problem(404, "not_found")),
            _ => drop(reply.problem(403, "forbidden")),
        }
    }
    let still = guarded
        .call(&admin, "GET", &format!("/v1/jobs/{job}"), "")
        .await;
    assert_eq!(
        (still.status, &still.json()["state"]),
        (200, &"ready".into())
    );
    let schedule = guarded.call(&admin, "GET", "/v1/schedules/name", "").await;
    assert_eq!(schedule.json()["queue"], "mail");
}

#[tokio::test]
async fn a_token_for_some_queues_does_its_work_there_and_only_there() {
    let guarded = Guarded::start().await;
    let admin = guarded.token(&["admin:*"]);
    let worker = guarded.token(&[
        "push:mail.*",
        "lease:mail.*",
        "read:mail.*",
        "operate:mail.*",
    ]);
    let push = |token: &str, queue: &str| {
        let (token, path) = (token.to_owned(), format!("/v1/queues/{queue}/jobs"));
        let guarded = &guarded;
        async move { guarded.call(&token, "POST", &path, "{}").await }
    };
    assert_eq!(push(&worker, "mail.in").await.status, 201);
    assert_eq!(push(&worker, "mail%2Ein").await.status, 201);
    for foreign in [
        "mail",
        "mailx",
        "bills",
        "x%2Fmail.in",
        "%6Dail",
        "mail%2F.in",
    ] {
        push(&worker, foreign).await.problem(403, "forbidden");
    }
    push(&admin, "bills").await;
    // One of several queues is enough to be refused.
    let both = r#"{"queues":["mail.in","bills"]}"#;
    guarded
        .call(&worker, "POST", "/v1/lease", both)
        .await
        .problem(403, "forbidden");
    let lease = |token: String, queue: &'static str| {
        let guarded = &guarded;
        async move {
            let body = json!({ "queues": [queue] }).to_string();
            let leased = guarded
                .call(&token, "POST", "/v1/lease", &body)
                .await
                .json();
            leased["jobs"][0]["token"].as_str().unwrap().to_owned()
        }
    };
    let own = lease(worker.clone(), "mail.in").await;
    let foreign = lease(admin.clone(), "bills").await;
    let extend = json!([{ "token": own }, { "token": foreign }]).to_string();
    let extended = guarded
        .call(&worker, "POST", "/v1/extend", &extend)
        .await
        .json();
    assert!(extended["results"][0]["ok"].is_object(), "{extended}");
    assert_eq!(extended["results"][1]["error"]["code"], "lease_lost");
    let ack = json!([{ "token": foreign, "outcome": "ack" }, { "token": own, "outcome": "ack" }])
        .to_string();
    let settled = guarded
        .call(&worker, "POST", "/v1/settle", &ack)
        .await
        .json();
    assert_eq!(settled["results"][0]["error"]["code"], "lease_lost");
    assert_eq!(settled["results"][1]["ok"]["state"], "done", "{settled}");
    let ack = json!({ "token": foreign, "outcome": "ack" }).to_string();
    assert_eq!(
        guarded
            .call(&admin, "POST", "/v1/settle", &ack)
            .await
            .status,
        200
    );

    let id = |reply: Reply| reply.json()["id"].as_str().unwrap().to_owned();
    let (mine, other) = (
        id(push(&worker, "mail.in").await),
        id(push(&admin, "bills").await),
    );
    // A job that is asked for by its id is in a queue as well.
    for (job, count) in [(&other, 0), (&mine, 1)] {
        let ask = json!({ "job": job }).to_string();
        let leased = guarded.call(&worker, "POST", "/v1/lease", &ask).await;
        let jobs = leased.json()["jobs"].clone();
        assert_eq!(jobs.as_array().unwrap().len(), count, "{jobs}");
        if let Some(token) = jobs[0]["token"].as_str() {
            let back = json!({ "token": token, "outcome": "release" }).to_string();
            guarded.call(&worker, "POST", "/v1/settle", &back).await;
        }
    }
    let order = json!({ "action": "cancel", "ids": [other, mine, "7"] }).to_string();
    let steered = guarded
        .call(&worker, "POST", "/v1/jobs:bulk", &order)
        .await
        .json();
    let code = |place: usize| steered["results"][place]["error"]["code"].clone();
    assert_eq!(
        (code(0), code(2)),
        ("not_found".into(), "not_found".into()),
        "{steered}"
    );
    assert_eq!(
        steered["results"][1]["ok"]["state"], "cancelled",
        "{steered}"
    );
    assert_eq!(steered["moved"], 1);
    let all = r#"{"action":"cancel","filter":{"state":"ready"}}"#;
    guarded
        .call(&worker, "POST", "/v1/jobs:bulk", all)
        .await
        .problem(403, "forbidden");
    let jobs = guarded
        .call(&worker, "GET", "/v1/jobs?queue=mail.in", "")
        .await;
    assert_eq!(jobs.status, 200);
    guarded
        .call(&worker, "GET", "/v1/jobs", "")
        .await
        .problem(403, "forbidden");
    guarded
        .call(&worker, "GET", "/v1/jobs?queue=", "")
        .await
        .problem(403, "forbidden");
    let schedule = r#"{"queue":"mail.in","every":"1h"}"#;
    let set = guarded
        .call(&worker, "PUT", "/v1/schedules/pulse", schedule)
        .await;
    assert_eq!(set.status, 200, "{set:?}");
    let elsewhere = r#"{"queue":"bills","every":"1h"}"#;
    guarded
        .call(&worker, "PUT", "/v1/schedules/pulse", elsewhere)
        .await
        .problem(403, "forbidden");
    let gone = guarded
        .call(&worker, "DELETE", "/v1/schedules/pulse", "")
        .await;
    assert_eq!(gone.status, 204);
    // HEAD is answered like GET, and so it needs the same.
    let mut stream = guarded.bench.connect().await;
    let head = format!(
        "HEAD /v1/queues HTTP/1.1\r\nhost: localhost\r\n{worker}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    assert!(read_head(&mut stream).await.starts_with("HTTP/1.1 403"));
}

#[tokio::test]
async fn unknown_and_wrong_are_answered_alike_and_slowed_alike() {
    let guarded = Guarded::start().await;
    let (id, right) = guarded.named(&["read:*"]);
    let wrong = format!("authorization: Bearer auxo_{id}_{}", "a".repeat(40));
    let mut said: BTreeMap<u16, Vec<Value>> = BTreeMap::new();
    for _ in 0..5 {
        for header in [UNKNOWN, &wrong] {
            let reply = guarded.call(header, "GET", "/v1/queues", "").await;
            said.entry(reply.status).or_default().push(reply.json());
        }
    }
    let statuses: Vec<u16> = said.keys().copied().collect();
    assert_eq!(statuses, [401, 429]);
    for replies in said.values() {
        assert_eq!(replies.len(), 5);
        assert!(
            replies.iter().all(|reply| *reply == replies[0]),
            "{replies:?}"
        );
    }
    let refused = guarded.call(&wrong, "GET", "/v1/queues", "").await;
    refused.problem(429, "rate_limited");
    assert!(refused.header("retry-after").is_some());
    // A right one is let in all the same, and no token is not a wrong one.
    assert_eq!(
        guarded.call(&right, "GET", "/v1/queues", "").await.status,
        200
    );
    assert_eq!(guarded.call("", "GET", "/v1/queues", "").await.status, 401);
    let metrics = guarded.call(&right, "GET", "/metrics", "").await.text;
    for line in [
        "auxo_denied_total{reason=\"wrong\"} 5\n",
        "auxo_denied_total{reason=\"too_many\"} 6\n",
        "auxo_denied_total{reason=\"missing\"} 1\n",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}

#[tokio::test]
async fn a_token_that_is_revoked_ends_what_it_had_begun() {
    let guarded = Guarded::start().await;
    let admin = guarded.token(&["admin:*"]);
    guarded.call(&admin, "PUT", "/v1/queues/mail", "{}").await;
    let (id, token) = guarded.named(&["lease:*", "read:*"]);
    let mut waiting = guarded.bench.connect().await;
    let ask = r#"{"queues":["mail"],"wait":"60s"}"#;
    let request = format!(
        "POST /v1/lease HTTP/1.1\r\nhost: localhost\r\n{token}\r\ncontent-length: {}\r\n\r\n{ask}",
        ask.len()
    );
    waiting.write_all(request.as_bytes()).await.unwrap();
    let mut events = guarded.bench.connect().await;
    let request = format!(
        "GET /v1/events HTTP/1.1\r\nhost: localhost\r\n{token}\r\nconnection: close\r\n\r\n"
    );
    events.write_all(request.as_bytes()).await.unwrap();
    assert!(read_head(&mut events).await.starts_with("HTTP/1.1 200"));
    // Both are under way.
    within(async {
        loop {
            let queues = guarded.call(&admin, "GET", "/metrics", "").await.text;
            if queues.contains("auxo_queue_waiting_leases{queue=\"mail\"} 1\n") {
                break;
            }
        }
    })
    .await;
    guarded.revoke(&id);
    let reply = read_reply(&mut waiting).await;
    assert_eq!((reply.status, reply.json()), (200, json!({ "jobs": [] })));
    let mut rest = Vec::new();
    within(tokio::io::AsyncReadExt::read_to_end(&mut events, &mut rest))
        .await
        .unwrap();
    // The same connection is asked again.
    waiting
        .write_all(
            format!("GET /v1/queues HTTP/1.1\r\nhost: localhost\r\n{token}\r\n\r\n").as_bytes(),
        )
        .await
        .unwrap();
    assert_eq!(read_reply(&mut waiting).await.status, 401);
}

#[tokio::test]
async fn a_running_server_follows_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = TokenFile::new(dir.path().join("tokens.toml"));
    let clock = Arc::new(SystemClock::new(Timestamp(0)));
    let auth = Auth::open(file.clone(), clock, Patience::default()).unwrap();
    let bench = Bench::with(|with| with.auth = auth.clone()).await;
    assert_eq!(bench.get("/v1/queues").await.status, 200);
    let (token, secret) =
        Token::new("t", vec!["read:*".parse().unwrap()], Timestamp(0), None).unwrap();
    let id = token.id.clone();
    file.change(|tokens| Ok((tokens.with(token), ()))).unwrap();
    let becomes = async |headers: &[&str], status: u16| {
        within(async {
            while bench
                .call_with("GET", "/v1/queues", headers, "")
                .await
                .status
                != status
            {
                tokio::task::yield_now().await;
            }
        })
        .await;
    };
    becomes(&[], 401).await;
    let header = format!("authorization: Bearer {}", secret.reveal());
    becomes(&[&header], 200).await;
    file.change(|tokens| Ok(tokens.without(&id).unwrap()))
        .unwrap();
    becomes(&[&header], 401).await;
}

#[tokio::test]
async fn every_call_that_operates_is_written_down_and_no_other_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.jsonl");
    let trail = Trail::open(&path).unwrap();
    let bench = Bench::with(|settings| settings.trail = trail.clone()).await;
    let lines = || -> Vec<Value> {
        let text = std::fs::read_to_string(&path).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        lines.collect()
    };
    for (method, path, need) in routes() {
        if path == "/v1/events" {
            continue;
        }
        let body = match path.as_str() {
            "/v1/queues/mail" | "/v1/queues/mail/jobs" => "{}",
            "/v1/topics/topic/messages" => "{}",
            "/v1/queues/mail/depart" => r#"{"jobs":[{"id":"7","version":"1"}]}"#,
            "/v1/queues/mail/adopt" => r#"{"store":"other","run":"7","step":"begin"}"#,
            _ => body(&method, &path),
        };
        let before = lines().len();
        let reply = bench.call(&method, &path, body).await;
        assert_ne!(reply.status, 400, "{method} {path}: {reply:?}");
        let verb = need.as_deref().and_then(|need| need.split(':').next());
        let moves =
            matches!(verb, Some("operate" | "admin")) && method != "GET" && path != "/v1/audit";
        let new = &lines()[before..];
        assert_eq!(
            new.len(),
            if moves { 2 } else { 0 },
            "{method} {path}: {new:?}"
        );
        if let [asked, ended] = new {
            assert_eq!(
                (&asked["who"], &asked["from"]),
                (&"local".into(), &"127.0.0.1".into())
            );
            assert!(
                asked["what"].is_string() && asked["at"].is_string(),
                "{asked}"
            );
            assert_eq!(asked["move"], ended["move"]);
            // An order about a job that is not there is carried out, and moves nothing.
            let refused = ended["outcome"] == "refused" || ended["moved"] == 0;
            assert!(refused || reply.status < 400, "{ended} {reply:?}");
            assert!(
                ended["outcome"] == "done" || reply.status >= 400,
                "{ended} {reply:?}"
            );
        }
    }
    // A dry run moves nothing.
    let before = lines().len();
    let order = r#"{"action":"kick","filter":{"queue":"mail"},"dry_run":true}"#;
    assert_eq!(bench.call("POST", "/v1/jobs:bulk", order).await.status, 200);
    assert_eq!(lines().len(), before);
    // Where it cannot be written down, it is not done.
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    bench.push("mail", "{}").await;
    trail.reopen();
    assert_eq!(trail.failures(), 1);
    let metrics = bench.get("/metrics").await.text;
    assert!(metrics.contains("auxo_unaudited_total 1\n"), "{metrics}");
}

#[tokio::test]
async fn with_a_token_any_name_will_do() {
    let guarded = Guarded::start().await;
    let token = guarded.token(&["read:*"]);
    let mut stream = guarded.bench.connect().await;
    let ask = format!("GET /v1/queues HTTP/1.1\r\nhost: queue.example\r\n{token}\r\n\r\n");
    stream.write_all(ask.as_bytes()).await.unwrap();
    assert_eq!(read_reply(&mut stream).await.status, 200);
}

#[tokio::test]
async fn a_lease_by_id_of_what_is_held_back_needs_operate_and_is_written_down() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.jsonl");
    let trail = Trail::open(&path).unwrap();
    let written_down = |settings: &mut Settings| settings.trail = trail;
    let guarded = Guarded::adjusted(Patience::default(), written_down).await;
    let leases = || {
        let text = std::fs::read_to_string(&path).unwrap();
        text.matches(r#""what":"lease""#).count()
    };
    let admin = guarded.token(&["admin:*"]);
    let worker = guarded.token(&["lease:mail", "push:mail"]);
    let operator = guarded.token(&["lease:mail", "operate:mail"]);
    let pushed = async |body: &str| {
        let path = "/v1/queues/mail/jobs";
        let pushed = guarded.call(&worker, "POST", path, body).await;
        pushed.json()["id"].as_str().unwrap().to_owned()
    };
    let lease = async |token: &str, id: &str| {
        let body = json!({ "job": id }).to_string();
        guarded.call(token, "POST", "/v1/lease", &body).await
    };
    let ready = pushed("{}").await;
    assert_eq!(lease(&worker, &ready).await.json()["jobs"][0]["id"], *ready);
    let scheduled = pushed(r#"{"delay":"1h"}"#).await;
    let refused = lease(&worker, &scheduled).await;
    let message = refused.problem(403, "forbidden");
    assert!(message.contains("not due"), "{message}");
    assert!(message.contains("operate:mail"), "{message}");
    let path = "/v1/queues/mail";
    let limit = r#"{"max_leased":1}"#;
    assert_eq!(guarded.call(&admin, "PUT", path, limit).await.status, 200);
    let second = pushed("{}").await;
    lease(&worker, &second).await.problem(403, "forbidden");
    assert_eq!(leases(), 0);
    for id in [&scheduled, &second] {
        let leased = lease(&operator, id).await;
        assert_eq!(leased.json()["jobs"][0]["id"], **id);
    }
    assert_eq!(leases(), 2);
    // Nothing can be learned of a job that is there for others only.
    let elsewhere = guarded.token(&["lease:other"]);
    assert_eq!(lease(&elsewhere, &second).await.json()["jobs"], json!([]));
}

#[tokio::test]
async fn how_long_a_refusal_takes_does_not_say_whether_there_is_a_job() {
    let guarded = Guarded::start().await;
    let admin = guarded.token(&["admin:*"]);
    let large = json!({ "payload": "x".repeat(1_000_000) }).to_string();
    let path = "/v1/queues/mail/jobs";
    let pushed = guarded.call(&admin, "POST", path, &large).await;
    let foreign = pushed.json()["id"].as_str().unwrap().to_owned();
    let other = guarded.token(&["read:other", "lease:other", "operate:other"]);
    for id in [&foreign, "7"] {
        let path = format!("/v1/jobs/{id}");
        for (method, path) in [("GET", path.clone()), ("DELETE", path)] {
            let began = std::time::Instant::now();
            let refused = guarded.call(&other, method, &path, "").await;
            refused.problem(404, "not_found");
            // No sooner than to look for the largest job takes.
            assert!(began.elapsed() >= Duration::from_millis(5), "{method}");
        }
    }
}

#[tokio::test]
async fn a_token_for_some_queues_makes_no_more_of_them_than_its_share() {
    let share = |settings: &mut Settings| settings.queue_share = 3;
    let guarded = Guarded::adjusted(Patience::default(), share).await;
    let own = guarded.token(&["push:a.*"]);
    let other = guarded.token(&["push:b.*"]);
    let admin = guarded.token(&["admin:*"]);
    let push = async |token: &str, queue: &str| {
        let path = format!("/v1/queues/{queue}/jobs");
        guarded.call(token, "POST", &path, r#"{"payload":1}"#).await
    };
    for queue in ["a.1", "a.2", "a.3", "a.1"] {
        assert_eq!(push(&own, queue).await.status, 201);
    }
    let refused = push(&own, "a.4").await;
    assert_eq!(refused.status, 413);
    let problem = refused.json();
    assert_eq!(problem["code"], "too_large");
    let detail = problem["detail"].as_str().unwrap();
    assert!(
        detail.starts_with("queue a.4 does not exist, and the token t has its share of 3 queues")
    );
    // Other tokens make queues, also more than that, and queues that they have made are open to this one.
    assert_eq!(push(&other, "b.1").await.status, 201);
    for queue in ["a.4", "a.5", "a.6", "a.7"] {
        assert_eq!(push(&admin, queue).await.status, 201);
    }
    assert_eq!(push(&own, "a.4").await.status, 201);
    assert_eq!(push(&own, "a.8").await.status, 413);
    // A queue that is forgotten leaves the share.
    let purged = guarded
        .call(&admin, "POST", "/v1/queues/a.1/purge", "")
        .await;
    assert_eq!(purged.status, 200);
    guarded.bench.clock.advance(Duration::from_secs(2 * 3600));
    assert_eq!(push(&own, "a.8").await.status, 201);
    assert_eq!(push(&own, "a.9").await.status, 413);
}

#[tokio::test]
async fn a_token_for_some_queues_makes_no_more_of_them_by_their_settings() {
    let share = |settings: &mut Settings| settings.queue_share = 2;
    let guarded = Guarded::adjusted(Patience::default(), share).await;
    let own = guarded.token(&["operate:a.*"]);
    let admin = guarded.token(&["admin:*"]);
    let set = async |token: &str, queue: &str| {
        let path = format!("/v1/queues/{queue}");
        let reply = guarded.call(token, "PUT", &path, r#"{"fair":true}"#).await;
        reply.status
    };
    for queue in ["a.1", "a.2", "a.1"] {
        assert_eq!(set(&own, queue).await, 200);
    }
    assert_eq!(set(&own, "a.3").await, 413);
    for queue in ["a.3", "a.4"] {
        assert_eq!(set(&admin, queue).await, 200);
    }
    assert_eq!(set(&own, "a.3").await, 200);
    assert_eq!(set(&own, "a.5").await, 413);
}

#[tokio::test]
async fn a_token_for_some_queues_makes_no_more_of_them_by_its_schedules() {
    let share = |settings: &mut Settings| settings.queue_share = 2;
    let guarded = Guarded::adjusted(Patience::default(), share).await;
    let own = guarded.token(&["operate:a.*", "read:a.*"]);
    let set = async |name: &str, queue: &str| {
        let path = format!("/v1/schedules/{name}");
        let body = json!({ "queue": queue, "every": "1h" }).to_string();
        guarded.call(&own, "PUT", &path, &body).await
    };
    for (name, queue) in [("s1", "a.1"), ("s2", "a.2"), ("s3", "a.1")] {
        let reply = set(name, queue).await;
        assert_eq!(reply.status, 200, "{reply:?}");
    }
    assert_eq!(set("s4", "a.3").await.status, 413);
    // Though no tick has made their queues yet, these keep their places.
    guarded.bench.clock.advance(Duration::from_secs(120));
    assert_eq!(set("s4", "a.3").await.status, 413);
}
