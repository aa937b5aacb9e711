//! Publishing to a topic puts one job into the queue of each subscription whose pattern fits.

use auxo::Auxo;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let auxo = Auxo::open(dir.path()).await?;

    let orders = auxo.topic("orders");
    let (audit, shipping) = (auxo.queue("audit")?, auxo.queue("shipping")?);
    orders.subscribe("audit", &audit, None).await?;
    orders
        .subscribe("shipping", &shipping, Some("order.*.paid"))
        .await?;

    for (routing_key, copies) in [("order.7.created", 1), ("order.7.paid", 2)] {
        let message = orders.message(routing_key)?.routing_key(routing_key);
        let jobs = message.publish().await?;
        println!("{routing_key}: {} jobs", jobs.len());
        assert_eq!(jobs.len(), copies);
    }

    let lease = auxo.lease(["shipping"]).one().await?.expect("a paid order");
    assert_eq!(lease.payload::<String>()?, "order.7.paid");
    lease.ack().await?;

    auxo.close().await?;
    Ok(())
}
