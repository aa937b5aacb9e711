//! A job that fails is tried again after a wait; when its tries are used up it is dead, until somebody looks and kicks it.

use std::time::Duration;

use auxo::{Auxo, Backoff, State};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let auxo = Auxo::open(dir.path()).await?;
    let payments = auxo.queue("payments")?;
    let wait = Duration::from_secs(10);

    let backoff = Backoff::List {
        delays: [20, 80].map(Duration::from_millis).into(),
    };
    let draft = payments.job("charge ada 7 EUR")?.max_attempts(3);
    let id = draft.backoff(backoff).push().await?.id;

    for attempt in 1..=3 {
        let lease = auxo.lease(["payments"]).wait(wait).one().await?;
        let lease = lease.expect("the job, again");
        assert_eq!(lease.job().attempt, attempt);
        let settled = lease.fail("the bank does not answer").await?;
        println!("attempt {attempt} failed, the job is {}", settled.state);
    }
    let dead = auxo.job(id).await?.expect("a dead job is kept");
    assert_eq!(dead.state, State::Dead);
    println!("last error: {}", dead.last_error.unwrap_or_default());

    // The bank is back: the job may fail as often as a new one.
    auxo.kick(id).await?;
    let lease = auxo.lease(["payments"]).one().await?;
    lease.expect("the kicked job").ack().await?;

    auxo.close().await?;
    Ok(())
}
