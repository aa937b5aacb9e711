//! Groups of a fair queue come and go.

use auxo_conformance::Bench;
use auxo_conformance::bench::{ack, plain};
use auxo_core::JobSpec;
use auxo_core::queue::QueueConfig;

use auxo_harness::redis::Single;

async fn fair(server: Single) -> (Bench, std::sync::Arc<Single>) {
    let server = std::sync::Arc::new(server);
    let url = server.url("?durability=none");
    let t = crate::store::on(url, server.clone()).await;
    let config = QueueConfig {
        fair: true,
        ..QueueConfig::default()
    };
    t.configure(config).await;
    (t, server)
}

fn of(group: &str) -> JobSpec {
    JobSpec {
        group: Some(group.to_owned()),
        ..plain()
    }
}

/// How many keys there are, with all their members.
fn size(server: &Single) -> i64 {
    let count = "local all = 0
        for _, key in ipairs(redis.call('KEYS', '*')) do
          local kind = redis.call('TYPE', key).ok
          all = all + 1
          if kind == 'hash' then all = all + redis.call('HLEN', key) end
          if kind == 'zset' then all = all + redis.call('ZCARD', key) end
        end
        return all";
    server.ask(&["EVAL", count, "0"]).int()
}

#[tokio::test]
async fn nothing_is_kept_of_groups_that_are_gone() {
    let (t, server) = fair(Single::start(&[])).await;
    let mut sizes = Vec::new();
    for round in 0..3 {
        for number in 0..50 {
            t.push(of(&format!("group {round}-{number}"))).await;
        }
        for _ in 0..50 {
            t.work(ack()).await;
        }
        sizes.push(size(&server));
    }
    assert_eq!(sizes, [sizes[0]; 3]);
    t.check_books().await;
}

/// A group that always has one job, and never more, is not always the first.
#[tokio::test]
async fn a_group_that_comes_again_and_again_takes_turns() {
    let (t, _server) = fair(Single::start(&[])).await;
    for group in ["a", "b"] {
        t.push_many(20, of(group)).await;
    }
    let mut served = Vec::new();
    t.push(of("single")).await;
    for _ in 0..18 {
        let leased = t.one().await;
        let group = leased.job.group.clone().unwrap();
        if group == "single" {
            t.push(of("single")).await;
        }
        served.push(group);
        t.settle(leased.token, ack()).await;
    }
    let count = |group: &str| served.iter().filter(|name| *name == group).count();
    assert_eq!(
        [count("a"), count("b"), count("single")],
        [6; 3],
        "{served:?}"
    );
}
