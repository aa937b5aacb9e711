//! A worker that stops well: it asks for nothing more, finishes what it holds, and gives back what it has not begun.

use std::time::Duration;

use auxo::{Auxo, Result};
use tokio::sync::watch;

async fn work(auxo: Auxo, mut stop: watch::Receiver<bool>) -> Result<u32> {
    let mut finished = 0;
    loop {
        let ask = auxo.lease(["images"]).max(4).wait(Duration::from_secs(30));
        // Dropping a request that waits gives back what it was about to get.
        let leases = tokio::select! {
            leases = ask.many() => leases?,
            _ = stop.wait_for(|stop| *stop) => return Ok(finished),
        };
        for mut lease in leases {
            if *stop.borrow() {
                lease.release().await?;
                continue;
            }
            // Long work says now and then that it is alive, and learns whether it is still wanted.
            if lease.extend().await?.cancel {
                lease.release().await?;
                continue;
            }
            lease.ack().await?;
            finished += 1;
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let auxo = Auxo::open(dir.path()).await?;
    let images = auxo.queue("images")?;
    let numbers: Vec<u32> = (0..10).collect();
    for pushed in images.push_many(&numbers).await? {
        pushed?;
    }

    // In a program of yours the signal comes from tokio::signal::ctrl_c().
    let (signal, stop) = watch::channel(false);
    let mut events = auxo.service().watch();
    let worker = tokio::spawn(work(auxo.clone(), stop));
    while images
        .info()
        .await?
        .is_some_and(|queue| queue.books.done < 10)
    {
        events.recv().await?;
    }
    signal.send(true)?;
    println!("the worker finished {} jobs", worker.await??);

    let books = images.info().await?.expect("the queue").books;
    assert_eq!((books.done, books.live), (10, 0));
    auxo.close().await?;
    Ok(())
}
