//! What to run, as the command line says it.

use std::path::PathBuf;
use std::time::Duration;

use crate::redis::Persistence;

/// How the command is used.
pub const USAGE: &str = "\
usage: bench [QUESTION…] [OPTION…]

questions (all of them if none is named):
  raw       mixed work against appending the same bytes to a log
  synced    the same, with each answer given after the disk has it
  callers   the same, with many callers that have one job each
  store     mixed work against redb
  backlog   memory, restart and speed with many waiting jobs
  timers    punctuality, and rest while nothing is due
  many      many queues, and many groups of a fair queue
  http      the server against bytes that only go there and back
  waiting   how soon leases that wait at the server are answered
  grpc      the worker's stream against bytes that only go there and back, and how soon its jobs come
  beanstalk beanstalkd's protocol beside beanstalkd
  resp      Disque's words beside Redis lists
  redis-push, redis-consume
            the queue on Redis beside Redis commands and other queues; starts a redis-server of its own
  redis-far the same queue with many jobs that wait, or fell due at once; and what a job takes of memory
  redis-waiting
            how soon they handle what is pushed or falls due
  redis-idle
            what a process that waits for jobs asks of Redis
  redis-neighbour
            how long another client of the same Redis waits for a PING while many jobs are pushed and worked off, in calls of a
            thousand; and the longest script

options:
  --dir DIR         where to put the data; a temporary directory below it is used and removed (default .)
  --rounds N        how often both sides are measured, the median counts (default 3)
  --seconds S       how long a side is measured in each round (default 2)
  --in-flight N     how many batches are under way at once (default 4)
  --backlog N       how many jobs wait in `backlog` (default 10000000)
  --far N           how many jobs are due far in the future in `timers` (default 1000000); how many wait in
                    `redis-far`, or go through in `redis-neighbour`
  --due N           how many jobs fall due within ten seconds (default 10000)
  --idle S          how long to watch the idle engine in `timers` (default 10)
  --auxo PROGRAM    the server for `http`, `waiting`, `grpc`, `beanstalk` and `resp` (default: the program auxo beside this one)
  --before PROGRAM  another build of it, measured in turn with the others in `beanstalk` and `resp`
  --only TEXT       of `beanstalk` and `resp`, only what has this in its heading
  --peers DIR       where other queues are for the questions about Redis (default benches/peers)
  --aof WHEN        whether that Redis has an append-only file: no, everysec, or both in turn (default both)
  --segment MIB     the size of the engine's segments (default 64)";

const QUESTIONS: &[&str] = &[
    "raw",
    "synced",
    "callers",
    #[cfg(feature = "redb")]
    "store",
    "backlog",
    "timers",
    "many",
    "http",
    "waiting",
    "grpc",
    "beanstalk",
    "resp",
    "redis-push",
    "redis-consume",
    "redis-far",
    "redis-waiting",
    "redis-idle",
    "redis-neighbour",
];

/// The settings of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The questions to answer, in this order.
    pub questions: Vec<String>,
    /// Where the data goes.
    pub dir: PathBuf,
    /// How often both sides are measured.
    pub rounds: usize,
    /// How long a side is measured in each round.
    pub span: Duration,
    /// How many batches are under way at once.
    pub in_flight: usize,
    /// How many jobs wait in the backlog.
    pub backlog: u64,
    /// How many jobs are due far in the future.
    pub far: u64,
    /// How many jobs fall due while we watch.
    pub due: u64,
    /// How long to watch the idle engine.
    pub idle: Duration,
    /// The size of a segment in bytes.
    pub segment: u64,
    /// The server's program.
    pub auxo: Option<PathBuf>,
    /// Another build of it, to compare with.
    pub before: Option<PathBuf>,
    /// What the heading of a comparison must have in it.
    pub only: String,
    /// Where other queues are.
    pub peers: PathBuf,
    /// What the Redis under test writes to the disk; one run for each.
    pub aof: Vec<Persistence>,
    /// The part of a question that this process was started for.
    pub part: Option<String>,
    /// What leads a new process of this program back here.
    pub again: Vec<String>,
}

impl Plan {
    /// Reads a command line; `None` when it asks for help.
    pub fn parse(args: Vec<String>, again: &[&str]) -> Result<Option<Plan>, String> {
        let mut plan = Plan {
            questions: Vec::new(),
            dir: PathBuf::from("."),
            rounds: 3,
            span: Duration::from_secs(2),
            in_flight: 4,
            backlog: 10_000_000,
            far: 1_000_000,
            due: 10_000,
            idle: Duration::from_secs(10),
            segment: 64 << 20,
            auxo: None,
            before: None,
            only: String::new(),
            peers: PathBuf::from("benches/peers"),
            aof: vec![Persistence::Off, Persistence::EverySecond],
            part: None,
            again: again.iter().map(|arg| (*arg).to_owned()).collect(),
        };
        let mut args = args.into_iter();
        while let Some(arg) = args.next() {
            if matches!(arg.as_str(), "-h" | "--help") {
                return Ok(None);
            }
            if !arg.starts_with("--") {
                if !QUESTIONS.contains(&arg.as_str()) {
                    return Err(format!("there is no question {arg:?}"));
                }
                plan.questions.push(arg);
                continue;
            }
            let value = args.next().ok_or(format!("{arg} needs a value"))?;
            match arg.as_str() {
                "--dir" => plan.dir = value.into(),
                "--rounds" => plan.rounds = number(&arg, &value)?,
                "--seconds" => plan.span = span(&arg, &value)?,
                "--in-flight" => plan.in_flight = number(&arg, &value)?,
                "--backlog" => plan.backlog = number(&arg, &value)?,
                "--far" => plan.far = number(&arg, &value)?,
                "--due" => plan.due = number(&arg, &value)?,
                "--idle" => plan.idle = span(&arg, &value)?,
                "--segment" => plan.segment = number::<u64>(&arg, &value)? << 20,
                "--auxo" => plan.auxo = Some(value.into()),
                "--before" => plan.before = Some(value.into()),
                "--only" => plan.only = value,
                "--peers" => plan.peers = value.into(),
                "--aof" => plan.aof = aof(&value)?,
                "--part" => plan.part = Some(value),
                _ => return Err(format!("there is no option {arg}")),
            }
        }
        if plan.questions.is_empty() {
            plan.questions = QUESTIONS.iter().map(|name| (*name).to_owned()).collect();
        }
        Ok(Some(plan))
    }

    /// The server's program: as told, or the one that was built with this.
    pub fn auxo(&self) -> crate::Result<PathBuf> {
        let path = match &self.auxo {
            Some(path) => path.clone(),
            None => std::env::current_exe()?.with_file_name("auxo"),
        };
        match path.exists() {
            true => Ok(path),
            false => Err(format!(
                "{} is not there: `cargo build --release -p auxo` makes it, or --auxo names another",
                path.display()
            )
            .into()),
        }
    }

    /// The arguments with which another process does one part of a question on a directory.
    pub fn child(&self, part: &str, dir: &std::path::Path) -> Vec<String> {
        let mut args = self.again.clone();
        let options = [
            ("--part", part.to_owned()),
            ("--dir", dir.display().to_string()),
            ("--rounds", self.rounds.to_string()),
            ("--seconds", self.span.as_secs_f64().to_string()),
            ("--in-flight", self.in_flight.to_string()),
            ("--backlog", self.backlog.to_string()),
            ("--far", self.far.to_string()),
            ("--due", self.due.to_string()),
            ("--idle", self.idle.as_secs_f64().to_string()),
            ("--segment", (self.segment >> 20).to_string()),
        ];
        for (name, value) in options {
            args.extend([name.to_owned(), value]);
        }
        args
    }
}

fn number<T: std::str::FromStr + PartialOrd + From<u8>>(
    name: &str,
    value: &str,
) -> Result<T, String> {
    match value.parse() {
        Ok(number) if number >= T::from(1) => Ok(number),
        _ => Err(format!(
            "{name} must be a whole number from 1 on, not {value:?}"
        )),
    }
}

fn aof(value: &str) -> Result<Vec<Persistence>, String> {
    match value {
        "no" => Ok(vec![Persistence::Off]),
        "everysec" => Ok(vec![Persistence::EverySecond]),
        "both" => Ok(vec![Persistence::Off, Persistence::EverySecond]),
        _ => Err(format!("--aof is no, everysec or both, not {value:?}")),
    }
}

fn span(name: &str, value: &str) -> Result<Duration, String> {
    match value.parse() {
        Ok(seconds) if (0.01..=3600.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(format!(
            "{name} must be from 0.01 to 3600 seconds, not {value:?}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Option<Plan>, String> {
        Plan::parse(
            line.split_whitespace().map(String::from).collect(),
            &["bench"],
        )
    }

    #[test]
    fn without_words_every_question_is_asked() {
        assert_eq!(parse("").unwrap().unwrap().questions, QUESTIONS);
        assert_eq!(
            parse("many raw").unwrap().unwrap().questions,
            ["many", "raw"]
        );
        assert!(parse("--help").unwrap().is_none());
    }

    #[test]
    fn a_wrong_word_or_value_is_named() {
        for (line, part) in [
            ("raww", "\"raww\""),
            ("--rounds", "--rounds needs a value"),
            ("--rounds 0", "--rounds must be"),
            ("--seconds x", "--seconds must be"),
            ("--speed 9", "no option --speed"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(part), "{line}: {error}");
        }
    }

    #[test]
    fn a_child_gets_the_same_settings() {
        let plan = parse("raw --rounds 5 --seconds 0.5 --backlog 7 --segment 8")
            .unwrap()
            .unwrap();
        let args = plan.child("hold", std::path::Path::new("data"));
        assert_eq!(args[0], "bench");
        let child = Plan::parse(args[1..].to_vec(), &["bench"])
            .unwrap()
            .unwrap();
        assert_eq!(child.part.as_deref(), Some("hold"));
        assert_eq!(
            (child.rounds, child.span, child.backlog, child.segment),
            (5, Duration::from_millis(500), 7, 8 << 20)
        );
    }
}
