//! What is told about jobs, tubes and the server, in the YAML of beanstalkd, key by key.

use std::fmt::{Display, Write as _};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use auxo_core::engine::{Filter, Query};
use auxo_core::life::Event;
use auxo_core::queue::QueueInfo;
use auxo_core::{Error, Job, QueueName, State, Timestamp};
use auxo_wire::beanstalk::Reply;

use super::counts::TOLD;
use super::session::Session;
use super::tubes::DEFAULT;

/// A priority below this is urgent.
const URGENT: u32 = 1024;
/// How many urgent jobs are counted: nobody keeps count of them, so they are looked at one by one.
const COUNTED: u64 = 1000;

/// A list of names.
pub fn list<'a>(names: impl Iterator<Item = &'a QueueName>) -> String {
    let mut text = String::from("---\n");
    for name in names {
        text.push_str("- ");
        text.push_str(name.as_str());
        text.push('\n');
    }
    text
}

/// Pairs of a key and a value.
struct Yaml(String);

impl Yaml {
    fn new() -> Yaml {
        Yaml("---\n".to_owned())
    }

    fn add(&mut self, key: impl Display, value: impl Display) -> &mut Yaml {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "{key}: {value}");
        self
    }

    fn reply(self) -> Reply {
        Reply::Data(self.0)
    }
}

impl Session {
    /// Tells about a job.
    pub(super) async fn stats_job(&self, id: u64) -> Result<Reply, Error> {
        let Some(job) = self.find(id).await? else {
            return Ok(Reply::NotFound);
        };
        let now = self.app.service.now();
        let seen = |event| {
            job.timeline
                .iter()
                .filter(|seen| seen.event == event)
                .count()
        };
        let end = match job.state {
            State::Scheduled => Some(job.run_at),
            State::Leased => job.holder.as_ref().map(|holder| holder.deadline),
            _ => None,
        };
        let mut yaml = Yaml::new();
        yaml.add("id", job.id)
            .add("tube", &job.queue)
            .add("state", state(job.state))
            .add("pri", job.priority)
            .add("age", now.since(job.created_at).as_secs())
            .add("delay", delay(&job).as_secs())
            .add("ttr", job.ttr.as_secs())
            .add("time-left", end.map_or(0, |end| left(end, now)))
            .add("file", 0)
            .add("reserves", job.attempt)
            .add("timeouts", job.vanished)
            .add("releases", seen(Event::Release) + seen(Event::Snooze))
            .add("buries", seen(Event::Bury))
            .add("kicks", seen(Event::Kick));
        Ok(yaml.reply())
    }

    /// Tells about a tube.
    pub(super) async fn stats_tube(&self, name: QueueName) -> Result<Reply, Error> {
        let tube = self.app.beanstalk.tubes.find(&name);
        let queue = self.queue(&name).await?;
        if !is_tube(&name, tube.is_some(), queue.as_ref()) {
            return Ok(Reply::NotFound);
        }
        let urgent = match &queue {
            Some(queue) => self.urgent(queue, COUNTED).await?,
            None => 0,
        };
        let queue = queue.as_ref();
        let counts = queue.map(|queue| queue.counts).unwrap_or_default();
        let now = self.app.service.now();
        let resumes = queue.and_then(|queue| queue.config.pause_ends(now));
        let pause_left = resumes.map_or(0, |at| left(at, now));
        let in_use = |count: fn(&super::tubes::Tube) -> u64| tube.as_deref().map_or(0, count);
        let mut yaml = Yaml::new();
        yaml.add("name", &name)
            .add("current-jobs-urgent", urgent)
            .add("current-jobs-ready", counts.ready)
            .add("current-jobs-reserved", counts.leased)
            .add("current-jobs-delayed", counts.scheduled)
            .add("current-jobs-buried", counts.dead)
            .add("total-jobs", queue.map_or(0, |queue| queue.books.accepted))
            .add("current-using", in_use(|tube| tube.using.load(Relaxed)))
            .add(
                "current-watching",
                in_use(|tube| tube.watching.load(Relaxed)),
            )
            .add("current-waiting", queue.map_or(0, |queue| queue.waiting))
            .add("cmd-delete", in_use(|tube| tube.deletes.load(Relaxed)))
            .add("cmd-pause-tube", in_use(|tube| tube.pauses.load(Relaxed)))
            .add(
                "pause",
                // Somebody else may have paused it, for longer.
                resumes.map_or(0, |_| {
                    in_use(|tube| tube.pause.load(Relaxed)).max(pause_left)
                }),
            )
            .add("pause-time-left", pause_left);
        Ok(yaml.reply())
    }

    pub(super) async fn queue(&self, name: &QueueName) -> Result<Option<QueueInfo>, Error> {
        let mut queues = self.app.service.queues(Some(vec![name.clone()])).await?;
        Ok(queues.pop())
    }

    /// How many ready jobs are urgent, up to a bound.
    async fn urgent(&self, queue: &QueueInfo, bound: u64) -> Result<u64, Error> {
        let mut query = Query {
            filter: Filter {
                queue: Some(queue.name.clone()),
                states: vec![State::Ready],
                ..Filter::default()
            },
            cursor: None,
            limit: self.app.service.limits().page,
        };
        let mut urgent = 0;
        while queue.counts.ready > 0 && urgent < bound {
            let page = self.app.service.list(query.clone()).await?;
            // The most urgent come first.
            let count = page
                .jobs
                .iter()
                .take_while(|job| job.priority < URGENT)
                .count();
            urgent += count as u64;
            match page.next {
                next @ Some(_) if count == page.jobs.len() => query.cursor = next,
                _ => break,
            }
        }
        Ok(urgent.min(bound))
    }

    /// Names all tubes: those that are in use, and those that have jobs.
    pub(super) async fn list_tubes(&self) -> Result<Reply, Error> {
        let queues = self.queues().await?;
        let names = self.tubes(&queues);
        Ok(Reply::Data(list(names.iter())))
    }

    async fn queues(&self) -> Result<Vec<QueueInfo>, Error> {
        let _alone = self.app.listing.lock().await;
        let reachable = self.app.service.reachable_queues().await?;
        Ok(reachable.queues)
    }

    fn tubes(&self, queues: &[QueueInfo]) -> Vec<QueueName> {
        let with_jobs = queues.iter().filter(|queue| has_jobs(queue));
        let mut names: Vec<QueueName> = with_jobs.map(|queue| queue.name.clone()).collect();
        names.extend(self.app.beanstalk.tubes.names());
        // The one that is always there is the first, as it was the first to be made.
        names.extend(QueueName::new(DEFAULT));
        names.sort_by(|a, b| (a.as_str() != DEFAULT, a).cmp(&(b.as_str() != DEFAULT, b)));
        names.dedup();
        names
    }

    /// Tells about the server.
    pub(super) async fn stats(&self) -> Result<Reply, Error> {
        let queues = self.queues().await?;
        let tubes = self.tubes(&queues).len();
        let mut urgent = 0;
        for queue in &queues {
            urgent += self.urgent(queue, COUNTED - urgent).await?;
        }
        let sum = |count: fn(&QueueInfo) -> u64| queues.iter().map(count).sum::<u64>();
        let app = &self.app;
        let counts = &app.beanstalk.counts;
        let mut yaml = Yaml::new();
        yaml.add("current-jobs-urgent", urgent)
            .add("current-jobs-ready", sum(|queue| queue.counts.ready))
            .add("current-jobs-reserved", sum(|queue| queue.counts.leased))
            .add("current-jobs-delayed", sum(|queue| queue.counts.scheduled))
            .add("current-jobs-buried", sum(|queue| queue.counts.dead));
        for (command, count) in counts.commands().take(TOLD) {
            yaml.add(format_args!("cmd-{command}"), count);
        }
        let now = app.service.now();
        let (user, system) = used();
        let host = rustix::system::uname();
        yaml.add("job-timeouts", counts.timeouts.load(Relaxed))
            .add("total-jobs", app.service.tally().pushed)
            .add("max-job-size", app.service.limits().payload)
            .add("current-tubes", tubes)
            .add("current-connections", counts.connections.load(Relaxed))
            .add("current-producers", counts.producers.load(Relaxed))
            .add("current-workers", counts.workers.load(Relaxed))
            .add("current-waiting", counts.waiting.load(Relaxed))
            .add("total-connections", counts.all_connections.load(Relaxed))
            .add("pid", std::process::id())
            .add("version", format_args!("{:?}", env!("CARGO_PKG_VERSION")))
            .add("rusage-utime", Seconds(user))
            .add("rusage-stime", Seconds(system))
            .add("uptime", now.since(app.started_at).as_secs())
            .add("binlog-oldest-index", 0)
            .add("binlog-current-index", 0)
            .add("binlog-records-migrated", 0)
            .add("binlog-records-written", 0)
            .add("binlog-max-size", 0)
            .add("draining", app.is_stopping())
            .add("id", &app.run)
            .add("hostname", host.nodename().to_string_lossy())
            .add("os", host.version().to_string_lossy())
            .add("platform", host.machine().to_string_lossy());
        Ok(yaml.reply())
    }
}

/// Whether a name is that of a tube: one that somebody has in use, or that has jobs.
pub fn is_tube(name: &QueueName, in_use: bool, queue: Option<&QueueInfo>) -> bool {
    in_use || name.as_str() == DEFAULT || queue.is_some_and(has_jobs)
}

fn has_jobs(queue: &QueueInfo) -> bool {
    queue.books.live + queue.counts.dead > 0
}

/// How many whole seconds are left. Times are whole milliseconds, and an end is rounded up: some of the first and of the last one
/// is always over, so that of a hundred seconds 99 are left.
fn left(end: Timestamp, now: Timestamp) -> u64 {
    let left = end.since(now);
    left.saturating_sub(Duration::from_millis(2)).as_secs()
}

fn state(state: State) -> &'static str {
    match state {
        State::Scheduled => "delayed",
        State::Ready => "ready",
        State::Leased => "reserved",
        State::Dead => "buried",
        State::Done | State::Cancelled => "invalid",
    }
}

/// The delay that the job was last given, as far as its due time still tells: a kick makes it due at once.
fn delay(job: &Job) -> Duration {
    let gives = |event| {
        use Event::*;
        matches!(
            event,
            Push | Release | Snooze | Retry | Reschedule | Replace
        )
    };
    let given = job.timeline.iter().rev().find(|seen| gives(seen.event));
    let at = given.map_or(job.created_at, |seen| seen.at);
    job.run_at.since(at)
}

/// Seconds with six digits behind the point.
struct Seconds(Duration);

impl Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:06}", self.0.as_secs(), self.0.subsec_micros())
    }
}

/// The time that this process has computed, for itself and inside the system. Zero where the system does not say.
fn used() -> (Duration, Duration) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The second field is the program's name, in parentheses and with any characters.
    let behind = stat.rsplit_once(')').map_or("", |(_, behind)| behind);
    let tick = |place| {
        let ticks: u64 = behind.split_whitespace().nth(place)?.parse().ok()?;
        Some(Duration::from_millis(ticks * 10))
    };
    (tick(11).unwrap_or_default(), tick(12).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_have_six_digits() {
        let shown = Seconds(Duration::from_millis(1050)).to_string();
        assert_eq!(shown, "1.050000");
    }

    #[test]
    fn what_the_process_has_computed_is_known() {
        let mut sum = 0_u64;
        while used().0 + used().1 == Duration::ZERO {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
    }
}
