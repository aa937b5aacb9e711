//! Recurring jobs: by the calendar in a time zone, or each time an interval has passed.

use std::time::Duration;

use auxo::{Auxo, Missed};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let auxo = Auxo::open(dir.path()).await?;
    let reports = auxo.queue("reports")?;

    let nightly = reports.cron("nightly", "30 2 * * *", "all of them")?;
    nightly
        .zone("Europe/Berlin")
        .missed(Missed::Once)
        .set()
        .await?;
    let pulse = reports.every("pulse", Duration::from_millis(100), "tick")?;
    pulse.ttl(Duration::from_secs(60)).set().await?;

    for schedule in auxo.service().catalog().await?.schedules {
        let next = schedule.next.map(|due| due.at.to_string());
        println!("{}: next {}", schedule.name, next.unwrap_or_default());
    }

    let wait = Duration::from_secs(10);
    for _ in 0..2 {
        let lease = auxo.lease(["reports"]).wait(wait).one().await?;
        let lease = lease.expect("a job each time the interval has passed");
        println!("{}", lease.payload::<String>()?);
        lease.ack().await?;
    }

    auxo.unschedule("pulse").await?;
    auxo.close().await?;
    Ok(())
}
