//! Over the engine on Redis: client, wire, routes and scripts together.

use std::sync::Arc;

use auxo_conformance::Bench;
use auxo_core::clock::ManualClock;
use auxo_redis::{Options, RedisEngine};

use crate::served::{Over, Served};
use auxo_harness::redis::Single;

#[test]
fn a_server_on_redis_keeps_the_contract() {
    keeps_the_contract(Over::Http);
}

#[test]
fn a_server_on_redis_keeps_the_contract_over_grpc() {
    keeps_the_contract(Over::Grpc);
}

fn keeps_the_contract(over: Over) {
    let redis = Single::start(&[]);
    let stores = std::cell::Cell::new(0);
    let make = async || {
        stores.set(stores.get() + 1);
        let url = redis.url(&format!("?durability=none&prefix=s{}", stores.get()));
        let clock = ManualClock::at(1_760_000_000_000);
        let options = Options {
            clock: Some(clock.clone()),
        };
        let engine = RedisEngine::open(&url.parse().expect("a good URL"), options).await;
        let engine = Arc::new(engine.expect("the store opens"));
        Bench {
            engine: Served::new(over, engine, clock.clone()).client,
            clock,
            reopen: None,
            steady: false,
            together: true,
        }
    };
    auxo_conformance::run_all!(make, together);
}
