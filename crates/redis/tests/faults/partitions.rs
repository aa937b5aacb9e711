//! The primary is cut off from its replicas, the sentinels and most clients, but not from all: somebody on its side goes on
//! using it while the others have another one.
//!
//! `scripts/prove partitions` does so more often.

use std::sync::Arc;
use std::time::Instant;

use auxo_conformance::bench::{ack, asking, code, ms, named, plain, secs};
use auxo_conformance::rounds;
use auxo_core::engine::{Pushed, Settle, Which};
use auxo_core::job::Leased;
use auxo_core::{Code, Engine, JobId, NewJob, Result, Token};
use auxo_redis::RedisEngine;
use futures_util::future::join_all;

use crate::load::{Load, PATIENCE, Plan, open};
use crate::tale::{count, judge};
use auxo_harness::proxy::{self, Net, Proxy, Side, Way};
use auxo_harness::redis::{SentinelSet, Server, wait};

const ROUNDS: u64 = 2;
/// Nothing arrives; only what it sends does; only what it is sent does; its side hears that it is over and the other does not.
const CUTS: [Net; 4] = [
    Net::Cut,
    Net::OneWay(Way::Up),
    Net::OneWay(Way::Down),
    Net::Told(Side::Server),
];
/// How long a primary goes on without replicas, in seconds.
const MAX_LAG: &str = "3";
/// Where those on the side of the old primary have their jobs.
const QUEUE: &str = "side";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_is_cut_off_confirms_nothing_that_is_lost() {
    let mut world = World::start("?durability=replicated&timeout=2s").await;
    for cut in cuts(0) {
        let old = Old::before(&world).await;
        world.cut(cut).await;
        // Nobody on its side is told that anything was done.
        let began = Instant::now();
        let mut tries = 0;
        while !world.replaced() || tries == 0 {
            let pushed = code(old.push().await);
            assert!(is_unsure(pushed), "pushed: {pushed}");
            let acked = code(old.settle(old.token).await);
            assert!(is_unsure(acked), "acked: {acked}");
            match old.lease().await {
                Ok(leased) => assert_eq!(leased.len(), 0, "leased"),
                Err(error) => assert!(is_unsure(error.code()), "{error}"),
            }
            tries += 1;
            assert!(began.elapsed() < PATIENCE, "nobody takes over");
        }
        println!(
            "{cut:?}: {tries} rounds of calls on the old side, none of them answered with success"
        );
        world.heal().await;
        // What was confirmed before is true for the others: the lease counts, and its ack is the first and the last. Only if
        // they heard the old primary, who did not hear them, they may have the ack from there.
        match world.now.settle(old.token).await {
            Ok(()) => {}
            Err(error) => {
                assert_eq!(cut, Net::OneWay(Way::Up), "{error}");
                assert_eq!(error.code(), Code::LeaseLost, "{error}");
            }
        }
        assert_eq!(code(world.now.settle(old.token).await), Code::LeaseLost);
    }
    world.load.drain().await;
    judge(&world.load, 100).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_is_cut_off_stops_by_itself_and_what_it_gave_away_does_no_harm() {
    let mut world = World::start("?timeout=2s").await;
    for cut in cuts(2) {
        let old = Old::before(&world).await;
        world.cut(cut).await;
        // It goes on for a while, and all of that is lost.
        let (mut pushed, mut tokens) = (Vec::new(), Vec::new());
        let began = Instant::now();
        let refused = loop {
            match old.push().await {
                Ok(job) => pushed.push(job.id),
                Err(error) => break error,
            }
            let leased = old.lease().await.unwrap_or_default();
            tokens.extend(leased.iter().map(|one| one.token));
            assert!(began.elapsed() < PATIENCE, "it goes on for ever");
        };
        assert_eq!(refused.code(), Code::Unavailable, "{refused}");
        assert!(refused.message().contains("NOREPLICAS"), "{refused}");
        tokio::task::block_in_place(|| wait("there is another primary", || world.replaced()));
        world.heal().await;
        let find = |id: &JobId| world.now.engine.find(Which::Id(*id));
        let mut lost = 0;
        for some in pushed.chunks(100) {
            for found in join_all(some.iter().map(find)).await {
                lost += usize::from(found.expect("an answer").is_none());
            }
        }
        println!(
            "{cut:?}: {} pushes and {} leases on the old side until it refused; {lost} of the jobs are lost",
            pushed.len(),
            tokens.len()
        );
        // A lease of the old side is worth something only if those who took over know it.
        tokens.push(old.token);
        let settle = |token: &Token| world.now.settle(*token);
        for settled in join_all(tokens.iter().map(settle)).await {
            if let Err(error) = settled {
                assert_eq!(error.code(), Code::LeaseLost, "{error}");
            }
        }
    }
    world.load.drain().await;
    let plain = count(&world.load).await;
    assert_eq!(plain.doubled_in_spite_of_answers, 0);
}

/// What is cut in which way: all in turn, beginning with this one.
fn cuts(first: usize) -> impl Iterator<Item = Net> {
    let rounds = rounds::or(ROUNDS);
    CUTS.into_iter().cycle().skip(first).take(rounds as usize)
}

/// The options of a store of their own, so that what they leave behind is not in the way of the load.
fn aside(options: &str) -> String {
    format!("{options}&prefix=side")
}

/// Neither done nor surely not done; or surely not done.
fn is_unsure(code: Code) -> bool {
    matches!(code, Code::UnknownOutcome | Code::Unavailable)
}

/// Three servers, each behind a network of its own by which all others know it; three sentinels; and a load.
struct World {
    options: &'static str,
    set: SentinelSet,
    networks: Vec<Proxy>,
    /// Which server is cut off, and its port as all know it.
    away: Option<(usize, u16)>,
    load: Load,
    /// One who looks with the eyes of the others.
    now: Client,
}

impl World {
    async fn start(options: &'static str) -> World {
        let args = [
            "--repl-diskless-sync-delay",
            "0",
            "--repl-ping-replica-period",
            "1",
            "--min-replicas-to-write",
            "1",
            "--min-replicas-max-lag",
            MAX_LAG,
        ];
        let start = || Server::start(&args);
        let servers: Vec<Server> =
            tokio::task::block_in_place(|| (0..3).map(|_| start()).collect());
        let mut networks = Vec::new();
        for server in &servers {
            let address = server.address().parse().expect("an address");
            networks.push(Proxy::new(address, proxy::Plan::default).await);
        }
        let ports = networks.iter().map(|it| it.address.port()).collect();
        let set = tokio::task::block_in_place(|| SentinelSet::around(servers, ports));
        set.be_patient();
        let url = set.url(options);
        let load = Load::start(Plan {
            urls: vec![url.clone(), url],
            queues: 1,
            ttr: secs(5),
            pace: Some(ms(8)),
        })
        .await;
        World {
            options,
            networks,
            away: None,
            load,
            now: Client {
                engine: open(&set.url(&aside(options))).await,
            },
            set,
        }
    }

    /// Cuts the primary off.
    async fn cut(&mut self, cut: Net) {
        self.load.progress(50).await;
        self.load.trouble(8);
        let index = self.set.primary_index();
        self.away = Some((index, self.set.primary()));
        self.networks[index].set(cut);
    }

    /// Whether all sentinels have another primary.
    fn replaced(&self) -> bool {
        let (_, port) = self.away.expect("a primary that is cut off");
        self.set.has_another_primary(port)
    }

    /// Makes the network whole. Everybody goes on, and the old primary follows the new one.
    async fn heal(&mut self) {
        // The others had another one before.
        self.load.progress(20).await;
        let (index, _) = self.away.take().expect("a primary that is cut off");
        self.networks[index].set(Net::Whole);
        tokio::task::block_in_place(|| wait("the set is whole again", || self.set.is_whole()));
        self.load.everybody_goes_on().await;
        self.load.killed();
    }
}

/// One who speaks to one engine.
struct Client {
    engine: Arc<RedisEngine>,
}

impl Client {
    async fn push(&self) -> Result<Pushed> {
        let job = NewJob {
            queue: named(QUEUE),
            spec: plain(),
        };
        self.engine.push(vec![job]).await?.remove(0)
    }

    async fn lease(&self) -> Result<Vec<Leased>> {
        let mut ask = asking(&[named(QUEUE)], 1, ms(0));
        ask.ttr = Some(secs(3600));
        self.engine.lease(ask).await
    }

    async fn settle(&self, token: Token) -> Result<()> {
        let outcome = ack();
        let mut answers = self.engine.settle(vec![Settle { token, outcome }]).await?;
        answers.remove(0).map(drop)
    }
}

/// One on the side of the old primary, which it reaches whatever happens to the network; and a lease that it has from before.
struct Old {
    client: Client,
    token: Token,
}

impl std::ops::Deref for Old {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Old {
    async fn before(world: &World) -> Old {
        let server = &world.set.servers[world.set.primary_index()];
        let client = Client {
            engine: open(&server.url(&aside(world.options))).await,
        };
        client.push().await.expect("a push");
        let token = client.lease().await.expect("a lease")[0].token;
        Old { client, token }
    }
}
