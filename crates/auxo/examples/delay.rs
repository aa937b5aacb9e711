//! A job with a delay is not handed out before its time, and waiting for it costs nothing.

use std::time::{Duration, Instant};

use auxo::Auxo;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let auxo = Auxo::open(dir.path()).await?;
    let reminders = auxo.queue("reminders")?;

    let delay = Duration::from_millis(300);
    let began = Instant::now();
    let pushed = reminders.job("tea is ready")?.delay(delay).push().await?;
    println!("{} until {}", pushed.state, pushed.run_at);
    assert!(auxo.lease(["reminders"]).one().await?.is_none());

    // Sleeps until the job falls due; a job pushed meanwhile would end the wait as well.
    let wait = Duration::from_secs(10);
    let lease = auxo.lease(["reminders"]).wait(wait).one().await?;
    let lease = lease.expect("the job, when its time has come");
    println!("{} after {:?}", lease.payload::<String>()?, began.elapsed());
    assert!(began.elapsed() >= delay);
    lease.ack().await?;

    auxo.close().await?;
    Ok(())
}
