//! Push a job, lease it, do it, acknowledge it.

use auxo::Auxo;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let auxo = Auxo::open(dir.path()).await?;

    let pushed = auxo.queue("greetings")?.push("hello, world").await?;
    println!("pushed job {}, it is {}", pushed.id, pushed.state);

    let lease = auxo.lease(["greetings"]).worker("example").one().await?;
    let lease = lease.expect("the job that was just pushed");
    println!("leased: {}", lease.payload::<String>()?);
    lease.ack().await?;

    assert!(auxo.lease(["greetings"]).one().await?.is_none());
    auxo.close().await?;
    Ok(())
}
