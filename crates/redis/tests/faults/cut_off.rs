//! The network between a process and Redis is cut, in every way that a network can be.

use std::time::Duration;

use crate::load::{Load, Plan};
use crate::tale::judge;
use auxo_harness::proxy::{self, Net, Proxy, Side, Way};
use auxo_harness::redis::{Server, wait};

/// Nothing arrives; what goes one way does not; one side hears that it is over and the other does not.
const CUTS: [Net; 5] = [
    Net::Cut,
    Net::OneWay(Way::Up),
    Net::OneWay(Way::Down),
    Net::Told(Side::Client),
    Net::Told(Side::Server),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_cut_off_loses_nothing_and_all_in_it_go_on() {
    let server = Server::start(&[]);
    let address = server.address().parse().expect("an address");
    let network = Proxy::new(address, proxy::Plan::default).await;
    let options = "?durability=none&timeout=1s";
    let mut load = Load::start(Plan {
        // The last is behind the network; the other one must not notice.
        urls: vec![
            server.url(options),
            format!("redis://{}{options}", network.address),
        ],
        queues: 1,
        ttr: Duration::from_secs(2),
        pace: Some(Duration::from_millis(4)),
    })
    .await;
    for cut in CUTS {
        load.progress(50).await;
        load.trouble(8);
        let before = load.failures_of_the_last();
        network.set(cut);
        // Both producers have given up more than once, also on new connections.
        let failed = || load.failures_of_the_last() >= before + 6;
        tokio::task::block_in_place(|| wait("calls find nobody", failed));
        network.set(Net::Whole);
        load.everybody_goes_on().await;
    }
    load.drain().await;
    let (unavailable, unknown) = load.failures();
    println!(
        "{} cuts: {unavailable} calls found nobody, {unknown} had no answer; all clients went on each time",
        CUTS.len()
    );
    assert_eq!(load.failures_of_the_last(), unavailable + unknown);
    judge(&load, 250).await;
}
