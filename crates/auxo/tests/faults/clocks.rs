//! Servers on one Redis whose clocks on the wall are an hour apart: only Redis' clock counts.

use std::time::Duration;

use auxo::core::engine::{Change, Settle};
use auxo::core::job::{Leased, Ttl};
use auxo::core::time::When;
use auxo::core::{Engine, NewJob};
use auxo::{Code, JobSpec, Pushed, QueueName, Remote, Timestamp};
use auxo_conformance::bench::{ack, asking, code, named};
use serde_json::json;

use crate::raw::{Said, Wire, ask, request};
use crate::server::Server;
use auxo_harness::redis;

const HOUR: f64 = 3600.0;
/// Later than anything is on a busy machine, and far from an hour.
const LATE: Duration = Duration::from_secs(60);
/// The leases that are to run out, and those that are not.
const SHORT: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(600);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_whose_clocks_are_an_hour_apart_are_as_one() {
    let redis = redis::Server::start(&[]);
    let url = redis.url("?durability=none");
    let right = Server::on(&url);
    let ahead = Server::on_at(&url, "+1h");
    let apart = started(&ahead).await - started(&right).await;
    assert!((apart - HOUR).abs() < 60.0, "{apart} s apart");
    for (name, here, there) in [("a", &right, &ahead), ("b", &ahead, &right)] {
        let side = |server: &Server| Side {
            client: server.client(),
            queue: named(name),
        };
        let (here, there) = (side(here), side(there));

        // What is pushed for later through one is given by the other when it is due.
        let pushed = here
            .push(When::After(Duration::from_millis(300)), Ttl::None)
            .await;
        let first = there.take(SHORT).await;
        first.in_time(pushed.run_at, 1);

        // A lease by one is as long as it said for the other, and its token is worth as much, or as little, to both.
        let second = here.take(LONG).await;
        second.in_time(first.leased.deadline, 2);
        assert_eq!(code(here.settle(&first).await), Code::LeaseLost);
        there.settle(&second).await.unwrap();

        // An instant is an instant, also in the future of one and in the past of the other.
        let at = pushed.run_at.plus(Duration::from_secs(3));
        there.push(When::At(at), Ttl::None).await;
        let third = here.take(LONG).await;
        third.in_time(at, 1);
        here.settle(&third).await.unwrap();

        // Who lives for a minute is not too old for the one that is an hour ahead.
        here.push(When::Now, Ttl::After(LATE)).await;
        let fourth = there.take(LONG).await;
        there.settle(&fourth).await.unwrap();

        // A schedule ticks when Redis' clock says so.
        let body = json!({ "queue": name, "every": "1s" }).to_string();
        let path = format!("/v1/schedules/{name}");
        let (status, answer) = ask(ahead.address, "PUT", &path, &body).await;
        assert!(status < 300, "{answer}");
        let tick = there.take(LONG).await;
        tick.in_time(tick.leased.job.run_at, 1);
        let since = tick.granted.0.abs_diff(fourth.granted.0);
        assert!(u128::from(since) < LATE.as_millis(), "{since} ms");
        here.settle(&tick).await.unwrap();
        // The audit is exact only while no job comes.
        let remove = Change::Unschedule(name.to_owned());
        here.client.change(remove).await.unwrap();
    }
    right.audit();
    ahead.audit();
}

/// When a server was started, by its own clock, in seconds.
async fn started(server: &Server) -> f64 {
    let mut wire = Wire::new(server.address);
    let Said::Answer(200, metrics) = wire.call(&request("GET", "/metrics", &[], "")).await else {
        panic!("no metrics");
    };
    let metrics = String::from_utf8(metrics).unwrap();
    let mut words = metrics
        .lines()
        .filter_map(|line| line.strip_prefix("auxo_process_start_time_seconds "));
    words.next().expect(&metrics).parse().unwrap()
}

/// A server, and a queue.
struct Side {
    client: Remote,
    queue: QueueName,
}

impl Side {
    async fn push(&self, when: When, ttl: Ttl) -> Pushed {
        let spec = JobSpec {
            when,
            ttl,
            ..JobSpec::default()
        };
        let queue = self.queue.clone();
        let answers = self.client.push(vec![NewJob { queue, spec }]).await;
        answers.unwrap().remove(0).unwrap()
    }

    async fn take(&self, ttr: Duration) -> Taken {
        let mut ask = asking(
            std::slice::from_ref(&self.queue),
            1,
            Duration::from_secs(60),
        );
        ask.ttr = Some(ttr);
        let leased = self.client.lease(ask).await.unwrap().pop().expect("a job");
        Taken {
            granted: leased.deadline.minus(ttr),
            leased,
        }
    }

    async fn settle(&self, taken: &Taken) -> auxo::Result<()> {
        let (token, outcome) = (taken.leased.token, ack());
        let answers = self.client.settle(vec![Settle { token, outcome }]).await?;
        answers.into_iter().next().unwrap().map(drop)
    }
}

/// A job, and when it was given by Redis' clock.
struct Taken {
    leased: Leased,
    granted: Timestamp,
}

impl Taken {
    /// Given not early, and not an hour late.
    fn in_time(&self, due: Timestamp, attempt: u32) {
        assert_eq!(self.leased.job.attempt, attempt);
        let late = self.granted.0.checked_sub(due.0).expect("not early");
        assert!(u128::from(late) < LATE.as_millis(), "{late} ms late");
    }
}
