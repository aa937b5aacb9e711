//! The user of Redis that the documentation recommends can do all that Auxo does, and nothing else.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use auxo_conformance::Bench;
use auxo_conformance::bench::{ack, asking, plain, queue, secs};
use auxo_core::engine::Settle;
use auxo_core::{Engine, NewJob};
use auxo_redis::{Options, RedisEngine, keys};

use auxo_harness::redis::user::{PASSWORD, documented};
use auxo_harness::redis::{ClusterSet, Reply, SentinelSet, Server, Single, wait};

/// What all servers of a test were asked to do, and what they refused to.
#[derive(Default)]
struct Seen {
    used: BTreeSet<String>,
    refused: Vec<String>,
}

/// A server that tells what it was asked to do when it ends.
struct Observed(Single, Arc<Mutex<Seen>>);

impl Drop for Observed {
    fn drop(&mut self) {
        self.1.lock().expect("what was seen").add(&self.0);
    }
}

impl Seen {
    fn add(&mut self, server: &Server) {
        let stats = server.ask(&["INFO", "commandstats"]);
        let names = stats.text().lines().filter_map(|line| {
            let (name, counts) = line.strip_prefix("cmdstat_")?.split_once(':')?;
            (!counts.starts_with("calls=0,")).then(|| name.to_owned())
        });
        self.used.extend(names);
        self.refusals(server);
    }

    fn refusals(&mut self, server: &Server) {
        for entry in server.ask(&["ACL", "LOG"]).items() {
            let parts = entry.items().iter();
            let texts = parts.filter(|part| matches!(part, Reply::Text(_)));
            let texts: Vec<&str> = texts.map(Reply::text).collect();
            // A store asks how Redis is set up, and says what it could not see.
            if !texts.contains(&"config|get") {
                self.refused.push(texts.join(" "));
            }
        }
    }

    /// Commands that the user may call, but nobody did, except those that something else needs.
    fn idle(&self, elsewhere: &[&str]) -> Vec<&str> {
        let words = documented("auxo").into_iter();
        let allowed = words.filter_map(|word| word.strip_prefix('+'));
        allowed
            .filter(|word| !self.used.contains(*word) && !elsewhere.contains(word))
            .collect()
    }
}

fn lines(reply: Reply) -> Vec<String> {
    reply.text().lines().map(str::to_owned).collect()
}

async fn open(url: &str) -> RedisEngine {
    let url = url.parse().expect("a good URL");
    let engine = RedisEngine::open(&url, Options::default()).await;
    engine.expect("the store opens")
}

/// One job from its push to its end.
async fn work(engine: &RedisEngine) {
    let waiting = engine.lease(asking(&[queue()], 1, secs(20)));
    let pushing = async {
        let job = NewJob {
            queue: queue(),
            spec: plain(),
        };
        let pushed = engine.push(vec![job]).await.expect("a push");
        pushed[0].as_ref().expect("a job").id
    };
    let (leased, id) = tokio::join!(waiting, pushing);
    let leased = leased.expect("a lease").remove(0);
    assert_eq!(leased.job.id, id);
    let end = Settle {
        token: leased.token,
        outcome: ack(),
    };
    let settled = engine.settle(vec![end]).await.expect("an answer");
    settled[0].as_ref().expect("a running lease");
    engine
        .audit()
        .await
        .expect("an audit")
        .into_result()
        .expect("books");
}

#[test]
fn the_documented_user_keeps_the_whole_contract_and_needs_all_that_it_may() {
    let seen = Arc::new(Mutex::new(Seen::default()));
    let make = async || -> Bench {
        let server = Single::start(&[]);
        let url = server.limited(&[], "?durability=none");
        crate::store::on(url, Arc::new(Observed(server, seen.clone()))).await
    };
    auxo_conformance::run_all!(make, restarts, together, direct);
    let seen = seen.lock().expect("what was seen");
    assert_eq!(seen.refused, Vec::<String>::new());
    // For Redis' own clock, calls that wait for replicas, and the auditor's beat: other tests need them.
    let idle = seen.idle(&["time", "role", "wait", "get", "set", "hlen"]);
    assert_eq!(idle, Vec::<&str>::new(), "nobody needs these");
}

#[tokio::test]
async fn the_documented_user_can_wait_for_replicas() {
    let primary = Single::start(&[]);
    let follow = primary.port().to_string();
    let _replica = Single::start(&["--replicaof", "127.0.0.1", &follow]);
    primary.wait_for_replicas(1);
    let engine = open(&primary.limited(&[], "?durability=replicated")).await;
    work(&engine).await;
    let mut seen = Seen::default();
    seen.add(&primary);
    assert_eq!(seen.refused, Vec::<String>::new());
    assert!(seen.used.contains("wait") && seen.used.contains("role"));
}

#[tokio::test]
async fn the_documented_user_can_use_a_cluster_and_another_database() {
    let cluster = ClusterSet::start(3);
    for server in &cluster.servers {
        server.limited(&["+cluster|slots", "+asking"], "");
    }
    let url = cluster.url("?durability=none");
    let login = format!("redis+cluster://auxo:{PASSWORD}@");
    work(&open(&url.replace("redis+cluster://", &login)).await).await;
    let server = Single::start(&[]);
    work(&open(&server.limited(&["+select"], "/3?durability=none")).await).await;
    let mut seen = Seen::default();
    cluster.servers.iter().for_each(|server| seen.add(server));
    seen.add(&server);
    assert_eq!(seen.refused, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_documented_users_can_use_sentinels() {
    let set = SentinelSet::start();
    for server in &set.servers {
        server.limited(&[], "");
    }
    for sentinel in &set.sentinels {
        sentinel.add_user("auxo-sentinel", &[]);
    }
    let options = format!("?sentinel_user=auxo-sentinel&sentinel_password={PASSWORD}");
    let login = format!("redis+sentinel://auxo:{PASSWORD}@");
    let url = set.url(&options).replace("redis+sentinel://", &login);
    let engine = open(&url).await;
    work(&engine).await;
    wait("a sentinel is listened to", || {
        let clients = set.sentinels.iter().map(|one| one.ask(&["CLIENT", "LIST"]));
        clients
            .flat_map(lines)
            .any(|client| client.contains(" user=auxo-sentinel ") && client.contains(" sub=1 "))
    });
    let mut seen = Seen::default();
    let all = set.servers.iter().chain(&set.sentinels);
    all.for_each(|server| seen.refusals(server));
    assert_eq!(seen.refused, Vec::<String>::new());
}

#[test]
fn the_documented_user_can_do_nothing_else() {
    let server = Single::start(&[]);
    server.limited(&[], "");
    let mut client = server.client();
    client.ask(&["AUTH", "auxo", PASSWORD]);
    for command in [
        &["FLUSHALL"][..],
        &["KEYS", "*"],
        &["CONFIG", "GET", "requirepass"],
        &["SCRIPT", "FLUSH"],
        &["EVAL", "return 1", "0"],
        &["DEL", "auxo{0}:jobs"],
        &["GET", "a key of others"],
        &["PUBLISH", "a channel of others", "x"],
        &["ACL", "WHOAMI"],
    ] {
        match client.try_ask(command).expect("an answer") {
            Reply::Error(error) => assert!(error.starts_with("NOPERM"), "{error}"),
            other => panic!("{command:?}: {other:?}"),
        }
    }
    client.ask(&["GET", "auxo{0}:auditor"]);
}

#[test]
fn every_key_is_documented() {
    let page = include_str!("../../../../docs/REDIS.md");
    for (_, part) in keys::NAMES {
        let row = match part.strip_suffix(':') {
            Some(_) => format!("| `{part}"),
            None => format!("| `{part}` |"),
        };
        assert!(page.contains(&row), "the page says nothing of {part}");
    }
}
