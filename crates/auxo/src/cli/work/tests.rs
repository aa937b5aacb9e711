//! What happens to a job from outside while it runs. A data directory has room for one process, so these tests are both the
//! worker and the one who interferes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use auxo::core::engine::{Ask, Pick, Settle};
use auxo::core::job::Leased;
use auxo::{Auxo, Outcome, QueueName};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::attempt::{Stop, Stopper, Terms};
use super::exec::Exec;
use super::group::Groups;
use super::hold::Hold;
use super::report::{End, Report};
use super::worker::{Task, Worker};

/// A job with a short lease whose command has begun and will not end by itself. All its processes hold the fifo open.
struct Begun {
    dir: TempDir,
    auxo: Auxo,
    leased: Leased,
    working: JoinHandle<Report>,
    alive: JoinHandle<std::io::Result<String>>,
}

async fn begin() -> Begun {
    let dir = TempDir::new().unwrap();
    let auxo = Auxo::open(dir.path().join("data")).await.unwrap();
    let queue = auxo.queue("q").unwrap();
    let job = queue.raw("").ttr(Duration::from_secs(1));
    job.push().await.unwrap();
    let ask = Ask {
        queues: vec![QueueName::new("q").unwrap()],
        job: None,
        pick: Pick::First,
        max: 1,
        wait: Duration::from_secs(10),
        ttr: None,
        worker: "test".into(),
    };
    let leased = auxo.service().lease(ask).await.unwrap().remove(0);
    let fifo = dir.path().join("alive");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(made.unwrap().success());
    let worker = Arc::new(worker(auxo.clone(), &fifo));
    let job = leased.clone();
    let working = tokio::spawn(async move { worker.work(job).await });
    // Opening waits for the command to open the other end, reading for the last process to close it.
    let opened = tokio::task::spawn_blocking(move || std::fs::File::open(fifo));
    let file = opened.await.unwrap().unwrap();
    let alive = tokio::task::spawn_blocking(move || std::io::read_to_string(file));
    Begun {
        dir,
        auxo,
        leased,
        working,
        alive,
    }
}

fn worker(auxo: Auxo, fifo: &Path) -> Worker {
    Worker {
        auxo,
        task: Task::Exec(Exec {
            command: format!("exec 3>{}; sleep 1000 & sleep 1000", fifo.display()),
            kill_after: Duration::from_secs(60),
            most_output: 1,
            groups: Groups::default(),
        }),
        terms: Terms {
            timeout: None,
            retry_delay: Duration::ZERO,
            longest_delay: Duration::MAX,
        },
        ttr: None,
        leaving: Stopper::new(),
    }
}

#[tokio::test]
async fn a_job_that_is_cancelled_while_it_runs_is_ended_and_gone() {
    let begun = begin().await;
    begun.auxo.cancel(begun.leased.job.id).await.unwrap();
    let report = begun.working.await.unwrap();
    assert!(matches!(report.end, End::Cancelled), "{}", report.line());
    assert_eq!(begun.alive.await.unwrap().unwrap(), "");
    let queue = begun.auxo.queue("q").unwrap().info().await.unwrap();
    assert_eq!(queue.unwrap().books.cancelled, 1);
    begun.auxo.close().await.unwrap();
    drop(begun.dir);
}

#[tokio::test]
async fn a_job_whose_lease_was_lost_is_ended_and_left_alone() {
    let begun = begin().await;
    let settle = Settle {
        token: begun.leased.token,
        outcome: Outcome::Release {
            priority: None,
            delay: None,
        },
    };
    let settled = begun.auxo.service().settle(vec![settle]).await.unwrap();
    assert!(settled[0].is_ok());
    let report = begun.working.await.unwrap();
    assert!(matches!(report.end, End::Lost(_)), "{}", report.line());
    assert_eq!(begun.alive.await.unwrap().unwrap(), "");
    let queue = begun.auxo.queue("q").unwrap().info().await.unwrap();
    assert_eq!(queue.unwrap().counts.ready, 1);
    begun.auxo.close().await.unwrap();
    drop(begun.dir);
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_over_at_its_end_also_if_the_server_hangs() {
    // Connections are taken by the system, and nobody ever answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let auxo = Auxo::connect(&url).await.unwrap();
    let hold = Hold {
        service: auxo.service(),
        token: "7-1-0000000000000007".parse().unwrap(),
        length: Duration::from_secs(8),
        notice: Duration::from_secs(1),
    };
    let (stopper, began) = (Stopper::new(), Instant::now());
    let told = async {
        stopper.stopped().await;
        began.elapsed()
    };
    let over = async {
        hold.keep(&stopper).await;
        began.elapsed()
    };
    let (told, over) = tokio::join!(told, over);
    assert_eq!(stopper.reason(), Some(Stop::Lost));
    let rounded = [told, over].map(|elapsed| elapsed.as_secs_f64().round());
    assert_eq!(rounded, [7.0, 8.0]);
}
