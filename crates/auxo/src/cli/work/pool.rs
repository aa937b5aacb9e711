//! Takes jobs as long as there is room for them, and sees them through to the end.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use auxo::core::engine::Ask;
use auxo::core::job::Leased;
use auxo::{Auxo, Error, Result};
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until};

use super::super::failure::Failure;
use super::super::output::Output;
use super::super::signals::Signals;
use super::attempt::Stop;
use super::hold::passing;
use super::report::Report;
use super::tell::Tell;
use super::worker::Worker;

/// How long a queue may give no answer before the worker gives up, for whoever supervises it to see.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a queue that is being drained is waited for. Due times are whole milliseconds, rounded up: a job that is tried again
/// without a delay is due in a moment.
const MOMENT: Duration = Duration::from_millis(5);

/// When to stop by oneself.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// Never.
    Told,
    /// When no job is due and none is running.
    Drained,
    /// After one job, or at once if none is due.
    Once,
}

type Asked = Pin<Box<dyn Future<Output = Result<Vec<Leased>>> + Send>>;

/// The jobs that are being worked on, and the request for more.
pub struct Pool {
    worker: Arc<Worker>,
    /// The request to repeat; how many jobs it is for depends on the room.
    ask: Ask,
    room: usize,
    grace: Duration,
    until: Until,
    running: JoinSet<Report>,
    asked: Option<Asked>,
    /// Whether to take more jobs at all.
    open: bool,
    /// In a queue that is being drained: nothing was due, and nothing has happened since.
    dry: bool,
    /// When there is no more time for what still runs.
    last_call: Option<Instant>,
    trouble: Option<Error>,
}

impl Pool {
    pub fn new(worker: Worker, ask: Ask, room: usize, grace: Duration, until: Until) -> Pool {
        Pool {
            worker: Arc::new(worker),
            ask,
            room,
            grace,
            until,
            running: JoinSet::new(),
            asked: None,
            open: true,
            dry: false,
            last_call: None,
            trouble: None,
        }
    }

    /// Works until there is nothing left to do.
    pub async fn run(
        mut self,
        mut signals: Signals,
        tell: &mut Tell,
        output: &mut Output,
    ) -> Result<(), Failure> {
        loop {
            self.ask_for_more();
            if self.asked.is_none() && self.running.is_empty() {
                return self.trouble.map_or(Ok(()), |error| Err(error.into()));
            }
            tell.running(self.running.len());
            tokio::select! {
                () = signals.next() => self.told_to_end(tell),
                Some(ended) = self.running.join_next() => {
                    let report = ended.map_err(io::Error::other)?;
                    self.dry = false;
                    tell.report(&report, output)?;
                }
                leased = answer(&mut self.asked) => self.begin(leased),
                () = at(self.last_call) => {
                    self.last_call = None;
                    self.worker.leaving.stop(Stop::Leaving);
                }
                () = tell.tick() => {}
            }
        }
    }

    fn ask_for_more(&mut self) {
        let free = self.room - self.running.len();
        if !self.open || self.dry || free == 0 || self.asked.is_some() {
            return;
        }
        let limits = self.worker.auxo.service().limits();
        let mut ask = self.ask.clone();
        ask.max = u32::try_from(free.min(limits.batch)).unwrap_or(u32::MAX);
        ask.wait = match self.until {
            Until::Told => limits.wait,
            Until::Drained | Until::Once => MOMENT,
        };
        self.asked = Some(Box::pin(lease(self.worker.auxo.clone(), ask)));
    }

    fn begin(&mut self, leased: Result<Vec<Leased>>) {
        self.asked = None;
        let leased = leased.unwrap_or_else(|error| {
            self.open = false;
            self.trouble = Some(error);
            Vec::new()
        });
        match self.until {
            Until::Told => {}
            Until::Once => self.open = false,
            Until::Drained if leased.is_empty() && self.running.is_empty() => self.open = false,
            // A job that runs may yet put another one there.
            Until::Drained => self.dry = leased.is_empty(),
        }
        for leased in leased {
            let worker = self.worker.clone();
            self.running.spawn(async move { worker.work(leased).await });
        }
    }

    /// The first time: finish what runs. The second time: end, whatever runs.
    fn told_to_end(&mut self, tell: &Tell) {
        if self.last_call.is_some() || self.worker.leaving.reason().is_some() {
            self.worker.task.kill();
            tell.say("ending at once; the jobs come back at their deadlines");
            std::process::exit(1);
        }
        self.open = false;
        // What it was about to return goes back.
        self.asked = None;
        self.last_call = Some(Instant::now() + self.grace);
        match self.running.len() {
            0 => {}
            count => tell.say(&format!(
                "finishing {count} running, taking no more; a second signal ends at once"
            )),
        }
    }
}

/// Asks for jobs, again and again if there is no answer.
async fn lease(auxo: Auxo, ask: Ask) -> Result<Vec<Leased>> {
    let mut pause = Duration::from_millis(50);
    let mut away: Option<Instant> = None;
    loop {
        match auxo.service().lease(ask.clone()).await {
            Err(error) if passing(&error) => {
                let since = *away.get_or_insert_with(Instant::now);
                if since.elapsed() >= PATIENCE {
                    return Err(error);
                }
            }
            answer => return answer,
        }
        sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(5));
    }
}

async fn answer(asked: &mut Option<Asked>) -> Result<Vec<Leased>> {
    match asked {
        Some(asked) => asked.await,
        None => std::future::pending().await,
    }
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}
