//! Cuts input into batches of jobs, one job a line, with bounded memory.

use std::io::{self, BufRead, BufReader, Read};
use std::time::Duration;

use auxo::core::job::{DEFAULT_KEY_WINDOW, Key, NewJob};
use auxo::core::json::read;
use auxo::{Code, Error, JobSpec, Limits, OnDuplicate, QueueName, Result};
use tokio::sync::mpsc;

/// A batch ends when its lines have this many bytes, so that a few batches of large lines fit into memory and into a request.
const BATCH_BYTES: usize = 512 << 10;

/// How long a key that nobody asked for is held after its job was done: much longer than a batch is tried for, and long enough
/// to repeat a command that gave up. Then it is forgotten, so that such keys do not pile up.
const OWN_WINDOW: Duration = Duration::from_secs(60 * 60);

/// How a line becomes a job.
pub enum Form {
    /// The line is the payload of a job like this one.
    Payload(Box<JobSpec>),
    /// The line is a job in JSON.
    Object,
}

/// Which key the job of a line gets, unless it has one.
#[derive(Clone)]
pub enum Keys {
    /// None.
    Without,
    /// `PREFIX:LINE`, as the user wished.
    Named(String),
    /// `PREFIX:LINE` with a prefix that nobody else has, so that a batch whose answer was lost can be pushed again.
    Own(String),
}

impl Keys {
    /// Keys for one run of the command.
    pub fn own() -> io::Result<Keys> {
        let run = getrandom::u64().map_err(io::Error::other)?;
        Ok(Keys::Own(format!("lines-{run:016x}")))
    }

    /// Whether this job has its key from here, without anybody's wish.
    pub fn is_own(&self, job: &NewJob) -> bool {
        let name = job.spec.key.as_ref().map(|key| key.name.as_str());
        let rest = |prefix: &String| name.and_then(|name| name.strip_prefix(prefix.as_str()));
        matches!(self, Keys::Own(prefix) if rest(prefix).is_some_and(|rest| rest.starts_with(':')))
    }

    fn of(&self, line: u64) -> Option<Key> {
        let (prefix, window) = match self {
            Keys::Without => return None,
            Keys::Named(prefix) => (prefix, DEFAULT_KEY_WINDOW),
            Keys::Own(prefix) => (prefix, OWN_WINDOW),
        };
        Some(Key {
            name: format!("{prefix}:{line}"),
            on_duplicate: OnDuplicate::Return,
            window,
        })
    }
}

/// Some lines with their numbers, each a job or what is wrong with it.
#[derive(Default)]
pub struct Batch {
    pub lines: Vec<u64>,
    pub jobs: Vec<Result<NewJob>>,
    /// How many bytes of the input this batch is.
    pub bytes: u64,
}

/// Where lines come from and what they become.
pub struct Lines {
    pub queue: QueueName,
    pub form: Form,
    pub keys: Keys,
    pub limits: Limits,
}

impl Lines {
    /// Reads to the end of the input, or until nobody takes the batches any more.
    pub fn read(&self, input: impl Read, batches: &mpsc::Sender<Batch>) -> io::Result<()> {
        let mut input = BufReader::with_capacity(256 << 10, input);
        let (mut batch, mut number) = (Batch::default(), 0);
        while let Some(line) = self.next(&mut input, &mut batch.bytes)? {
            number += 1;
            if let Some(job) = self.job(line, number) {
                batch.lines.push(number);
                batch.jobs.push(job);
            }
            let full = batch.jobs.len() >= self.limits.batch || batch.bytes >= BATCH_BYTES as u64;
            // Where the next line has to be waited for, those that are there need not wait for it.
            if (full || input.buffer().is_empty()) && !batch.jobs.is_empty() {
                let batch = std::mem::take(&mut batch);
                if batches.blocking_send(batch).is_err() {
                    return Ok(());
                }
            }
        }
        if !batch.jobs.is_empty() {
            // Nobody is there to take it only if the command has failed already.
            let _ = batches.blocking_send(batch);
        }
        Ok(())
    }

    /// The next line without its line break, or why it was not kept; `None` at the end.
    fn next(
        &self,
        input: &mut impl BufRead,
        bytes: &mut u64,
    ) -> io::Result<Option<Result<Vec<u8>>>> {
        let most = self.longest();
        let mut line = Vec::new();
        let read = input.take(most as u64 + 2).read_until(b'\n', &mut line)?;
        *bytes += read as u64;
        if read == 0 {
            return Ok(None);
        }
        if line.last() == Some(&b'\n') {
            line.pop();
            if line.last() == Some(&b'\r') {
                line.pop();
            }
        } else if line.len() > most {
            *bytes += input.skip_until(b'\n')? as u64;
        }
        if line.len() > most {
            let message = format!("the line has more than {most} bytes");
            return Ok(Some(Err(Error::new(Code::TooLarge, message))));
        }
        Ok(Some(Ok(line)))
    }

    /// The longest line that can be a job. In an object a byte of the payload may be written with up to six.
    fn longest(&self) -> usize {
        match self.form {
            Form::Payload(_) => self.limits.payload,
            Form::Object => self.limits.payload * 6 + (64 << 10),
        }
    }

    /// The job of a line; `None` for a line without an object.
    fn job(&self, line: Result<Vec<u8>>, number: u64) -> Option<Result<NewJob>> {
        let spec = match (line, &self.form) {
            (Err(error), _) => Err(error),
            (Ok(line), Form::Payload(like)) => Ok(JobSpec {
                payload: line.into(),
                ..JobSpec::clone(like)
            }),
            (Ok(line), Form::Object) if line.trim_ascii().is_empty() => return None,
            (Ok(line), Form::Object) => read::push(&line),
        };
        let queue = self.queue.clone();
        Some(spec.map(|mut spec| {
            spec.key = spec.key.or_else(|| self.keys.of(number));
            NewJob { queue, spec }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(form: Form) -> Lines {
        Lines {
            queue: QueueName::new("q").unwrap(),
            form,
            keys: Keys::Without,
            limits: Limits {
                payload: 5,
                batch: 2,
                ..Limits::default()
            },
        }
    }

    /// The numbers of the lines and the payloads, batch by batch.
    fn read_all(lines: &Lines, input: &[u8]) -> Vec<Vec<(u64, String)>> {
        let (sender, mut batches) = mpsc::channel(100);
        lines.read(input, &sender).unwrap();
        drop(sender);
        let shown = |job: &Result<NewJob>| match job {
            Ok(job) => String::from_utf8(job.spec.payload.to_vec()).unwrap(),
            Err(error) => error.code().to_string(),
        };
        let mut all = Vec::new();
        while let Some(batch) = batches.blocking_recv() {
            let texts = batch.jobs.iter().map(shown);
            all.push(batch.lines.iter().copied().zip(texts).collect());
        }
        all
    }

    #[test]
    fn each_line_is_a_job_and_one_that_is_too_long_is_an_error_of_its_own() {
        let plain = lines(Form::Payload(Box::default()));
        let all = read_all(&plain, b"one\ntwo\r\n\n12345\r\n123456\n1234567890\nend");
        let text = |number, text: &str| (number, text.to_owned());
        assert_eq!(
            all,
            [
                vec![text(1, "one"), text(2, "two")],
                vec![text(3, ""), text(4, "12345")],
                vec![text(5, "too_large"), text(6, "too_large")],
                vec![text(7, "end")],
            ]
        );
        assert!(read_all(&plain, b"").is_empty());
    }

    #[test]
    fn an_object_is_a_whole_job_and_an_empty_line_is_none() {
        let objects = lines(Form::Object);
        let all = read_all(
            &objects,
            b"{\"payload\":1}\n\n{\"payload\":\"a\",\"x\":1}\n",
        );
        let text = |number, text: &str| (number, text.to_owned());
        assert_eq!(all, [vec![text(1, "1"), text(3, "bad_request")]]);
    }

    #[test]
    fn keys_are_made_of_the_prefix_and_the_number_of_the_line() {
        let mut keyed = lines(Form::Payload(Box::default()));
        keyed.keys = Keys::Named("import".into());
        let job = keyed.job(Ok(b"x".to_vec()), 7).unwrap().unwrap();
        assert!(!keyed.keys.is_own(&job));
        let key = job.spec.key.unwrap();
        assert_eq!(key.name, "import:7");
        assert_eq!(key.on_duplicate, OnDuplicate::Return);
    }

    #[test]
    fn keys_that_nobody_asked_for_leave_those_of_the_objects_alone() {
        let mut objects = lines(Form::Object);
        objects.keys = Keys::own().unwrap();
        let job = |text: &str| objects.job(Ok(text.into()), 7).unwrap().unwrap();
        let (plain, keyed) = (job("{}"), job(r#"{"key":"mine"}"#));
        assert!(objects.keys.is_own(&plain));
        assert!(!objects.keys.is_own(&keyed));
        assert_eq!(keyed.spec.key.unwrap().name, "mine");
        let other = Keys::own().unwrap();
        assert!(!other.is_own(&plain), "two runs have the same keys");
    }

    /// Gives out one line at a time, as a slow producer does.
    struct Slow<'a>(&'a mut dyn Iterator<Item = &'static [u8]>);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let part = self.0.next().unwrap_or_default();
            buffer[..part.len()].copy_from_slice(part);
            Ok(part.len())
        }
    }

    #[test]
    fn a_line_does_not_wait_for_those_that_are_not_written_yet() {
        let (sender, mut batches) = mpsc::channel(100);
        let plain = lines(Form::Payload(Box::default()));
        let parts: [&'static [u8]; 2] = [b"one\n", b"two\n"];
        plain.read(Slow(&mut parts.into_iter()), &sender).unwrap();
        drop(sender);
        assert_eq!(batches.blocking_recv().unwrap().lines, [1]);
        assert_eq!(batches.blocking_recv().unwrap().lines, [2]);
    }
}
