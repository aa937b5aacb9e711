//! A store tells what its Redis can lose, and does not open on one that does not keep jobs.

use auxo_core::engine::Which;
use auxo_core::{Code, Engine, Error, JobId};
use auxo_redis::{Options, RedisEngine};

use auxo_harness::redis::{ClusterSet, Single};

async fn open(url: &str) -> Result<Vec<String>, Error> {
    let url = url.parse().expect("a good URL");
    let engine = RedisEngine::open(&url, Options::default()).await?;
    Ok(engine.setup().lines.clone())
}

#[track_caller]
fn says(lines: &[String], words: &str) {
    let said = lines.iter().any(|line| line.contains(words));
    assert!(said, "nobody says {words:?}: {lines:#?}");
}

#[tokio::test]
async fn each_way_to_keep_jobs_says_what_it_can_lose() {
    for (args, words) in [
        (
            &["--appendonly", "yes", "--appendfsync", "always"][..],
            "synced before each answer",
        ),
        (
            &["--appendonly", "yes", "--appendfsync", "everysec"],
            "with its machine or alone, up to about two seconds",
        ),
        (
            &["--appendonly", "yes", "--appendfsync", "no"],
            "half a minute",
        ),
        (&["--save", "60 1"], "snapshots only (save 60 1)"),
    ] {
        let server = Single::start(args);
        let lines = open(&server.url("")).await.expect("it is good enough");
        says(&lines, words);
        says(&lines, "No replica is connected");
    }
}

#[tokio::test]
async fn a_redis_that_keeps_nothing_is_refused_unless_that_is_wanted() {
    let server = Single::start(&[]);
    let refused = open(&server.url("")).await.expect_err("it forgets");
    assert_eq!(refused.code(), Code::Conflict);
    let text = refused.message();
    assert!(text.contains(&server.address()), "{text}");
    assert!(text.contains("keeps nothing on the disk"), "{text}");
    let lines = open(&server.url("?durability=none")).await.expect("wanted");
    says(&lines, "a restart loses all jobs");
}

#[tokio::test]
async fn a_redis_that_throws_away_jobs_is_refused_unless_that_is_wanted() {
    for policy in ["allkeys-lru", "volatile-ttl", "allkeys-random"] {
        let server = Single::start(&["--appendonly", "yes", "--maxmemory-policy", policy]);
        let refused = open(&server.url("")).await.expect_err("it evicts");
        assert_eq!(refused.code(), Code::Conflict);
        assert!(refused.message().contains(policy), "{refused}");
        let lines = open(&server.url("?durability=none")).await.expect("wanted");
        says(&lines, policy);
    }
}

#[tokio::test]
async fn a_redis_that_lacks_a_command_is_refused() {
    for (command, word) in [
        ("BLPOP", "BLPOP"),
        ("ZADD", "ZADD"),
        ("EVALSHA", "EVALSHA"),
        ("SCRIPT", "SCRIPT"),
    ] {
        let server = Single::start(&["--rename-command", command, "OTHER"]);
        let refused = open(&server.url("?durability=none"))
            .await
            .expect_err("it lacks a command");
        let text = refused.message();
        assert!(text.contains(word) && text.contains("renamed"), "{text}");
        assert!(!text.contains("user_script"), "{text}");
    }
}

#[tokio::test]
async fn who_only_reads_is_not_told_of_a_lease() {
    let server = Single::start(&[]);
    let url = server.url("?durability=none&timeout=1s").parse().unwrap();
    let engine = RedisEngine::open(&url, Options::default()).await.unwrap();
    server.pause();
    let error = engine
        .find(Which::Id(JobId(7)))
        .await
        .expect_err("it hangs");
    server.resume();
    assert_eq!(error.code(), Code::Unavailable);
    assert!(!error.message().contains("may or may not"), "{error}");
}

#[tokio::test]
async fn replicas_keep_jobs_too_but_not_from_a_primary_that_comes_back_empty() {
    let primary = Single::start(&[]);
    let follow = primary.port().to_string();
    let _replica = Single::start(&["--replicaof", "127.0.0.1", &follow]);
    primary.wait_for_replicas(1);
    let lines = open(&primary.url("")).await.expect("a replica has a copy");
    says(&lines, "1 replica: calls that a replica had not received");
    says(&lines, "before one of them took over is empty");
    says(&lines, "min-replicas-to-write is 0");
    primary.ask(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    let lines = open(&primary.url("?durability=replicated")).await.unwrap();
    says(&lines, "a failover loses no answered call");
    says(&lines, "stops taking changes after 10 s");
}

#[tokio::test]
async fn what_a_user_may_not_see_is_said_to_be_unseen() {
    let server = Single::start(&[]);
    server.ask(&["ACL", "SETUSER", "default", "-config"]);
    let lines = open(&server.url(""))
        .await
        .expect("nothing is known against it");
    says(&lines, "CONFIG GET is not allowed");
}

#[tokio::test]
async fn every_server_of_a_cluster_is_looked_at() {
    let cluster = ClusterSet::start(3);
    let refused = open(&cluster.url("")).await.expect_err("they forget");
    assert!(
        refused.message().contains("keeps nothing on the disk"),
        "{refused}"
    );
    let lines = open(&cluster.url("?durability=none"))
        .await
        .expect("wanted");
    assert_eq!(
        lines
            .iter()
            .filter(|line| line.contains("a restart loses all"))
            .count(),
        1
    );
}
