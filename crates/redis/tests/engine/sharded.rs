//! The contract of an engine, kept by a store of several shards.

use auxo_conformance::bench::{named, run, secs, urgency};
use auxo_core::QueueName;

use crate::store::make_sharded;

auxo_conformance::suite!(make_sharded, restarts, direct);

#[test]
fn the_most_urgent_job_is_known_among_queues_of_one_shard() {
    run(async {
        let t = make_sharded().await;
        let (mut here, mut elsewhere): (Vec<QueueName>, Option<QueueName>) = (Vec::new(), None);
        let mut shard = None;
        for number in 0..30 {
            let queue = named(&format!("q{number}"));
            let id = t.push_to(&queue, urgency(0)).await;
            t.take_from(std::slice::from_ref(&queue), 1).await;
            match *shard.get_or_insert(id.shard(7)) == id.shard(7) {
                true => here.push(queue),
                false => elsewhere = Some(queue),
            }
        }
        let [a, b] = [here[0].clone(), here[1].clone()];
        let other = elsewhere.expect("a queue in another shard");
        let low = t.push_to(&a, urgency(1)).await;
        let high = [
            t.push_to(&b, urgency(0)).await,
            t.push_to(&b, urgency(0)).await,
        ];
        // They are asked together, whatever stands between them.
        let all = [a.clone(), other.clone(), b.clone()];
        assert_eq!(t.most_urgent(&all, 10).await, high);
        assert_eq!(t.most_urgent(&all, 10).await, [low]);
        // Across shards the order in which they are named counts.
        let low = t.push_to(&a, urgency(1)).await;
        let high = t.push_to(&other, urgency(0)).await;
        assert_eq!(t.most_urgent(&all, 10).await, [low]);
        assert_eq!(t.most_urgent(&all, 10).await, [high]);
        t.pass(secs(1));
        t.check_books().await;
    });
}
