//! The flags that say what a job is, the same for push, publish and schedules.

use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use auxo::core::When;
use auxo::core::job::{Backoff, DEFAULT_KEY_WINDOW, Key, OnDuplicate, Ttl};
use auxo::{Error, JobSpec, Timestamp};

use super::args;
use super::failure::Failure;

/// What a job is.
#[derive(clap::Args)]
pub struct SpecArgs {
    /// The payload, as it stands; empty if neither this nor --file is given.
    payload: Option<String>,
    /// Read the payload from a file, or from stdin with `-`.
    #[arg(long, value_name = "FILE", conflicts_with = "payload")]
    file: Option<PathBuf>,
    /// Selects the handler.
    #[arg(long, default_value = "", hide_default_value = true)]
    kind: String,
    /// 0 is most urgent.
    #[arg(long, allow_hyphen_values = true, default_value_t = auxo::core::job::DEFAULT_PRIORITY)]
    priority: u32,
    /// Lease length; 0 means delivered at most once.
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, default_value = "60s", value_parser = args::duration)]
    ttr: Duration,
    /// Dead if it has not run this long after the push.
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = args::duration, conflicts_with = "expires_at")]
    ttl: Option<Duration>,
    /// Dead if it has not run by then.
    #[arg(long, value_name = "TIME", value_parser = args::timestamp)]
    expires_at: Option<Timestamp>,
    /// How many failed or vanished leases make it dead.
    #[arg(long, value_name = "N", allow_hyphen_values = true, default_value_t = auxo::core::job::DEFAULT_MAX_ATTEMPTS)]
    max_attempts: u32,
    /// The waits between tries, for example '{"kind":"fixed","delay":"5s"}'.
    #[arg(long, value_name = "JSON", value_parser = args::backoff)]
    backoff: Option<Backoff>,
    /// Your own name for the job, unique in its queue.
    #[arg(long)]
    key: Option<String>,
    /// When the key is taken: reject, return the job that has it, or replace it while it waits.
    #[arg(long, value_name = "POLICY", value_parser = args::on_duplicate, requires = "key")]
    on_duplicate: Option<OnDuplicate>,
    /// How long the key stays taken after the job was done [default: 1d].
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = args::duration, requires = "key")]
    key_window: Option<Duration>,
    /// Groups take turns in a fair queue.
    #[arg(long)]
    group: Option<String>,
    /// How long it can be seen after it was done.
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, default_value = "0s", value_parser = args::duration)]
    retention: Duration,
    /// A text pair that travels with the job; may be given again.
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = args::pair)]
    headers: Vec<(String, String)>,
}

/// When a job may run.
#[derive(clap::Args)]
pub struct WhenArgs {
    /// Run after this long.
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = args::duration, conflicts_with = "run_at")]
    delay: Option<Duration>,
    /// Run at this time: RFC 3339 or Unix milliseconds.
    #[arg(long, value_name = "TIME", value_parser = args::timestamp)]
    run_at: Option<Timestamp>,
}

impl WhenArgs {
    /// The wish, if there is one.
    pub fn when(&self) -> Option<When> {
        let delay = self.delay.map(When::After);
        delay.or(self.run_at.map(When::At))
    }
}

impl SpecArgs {
    /// The job, its payload read.
    pub fn into_spec(self, when: When) -> Result<JobSpec, Failure> {
        let payload = match self.file {
            Some(file) => read(&file)?,
            None => self.payload.unwrap_or_default().into_bytes(),
        };
        let key = self.key.map(|name| Key {
            name,
            on_duplicate: self.on_duplicate.unwrap_or_default(),
            window: self.key_window.unwrap_or(DEFAULT_KEY_WINDOW),
        });
        let ttl = match (self.ttl, self.expires_at) {
            (Some(ttl), _) => Ttl::After(ttl),
            (None, Some(at)) => Ttl::At(at),
            (None, None) => Ttl::None,
        };
        Ok(JobSpec {
            kind: self.kind,
            payload: payload.into(),
            headers: self.headers.into_iter().collect(),
            priority: self.priority,
            when,
            ttr: self.ttr,
            ttl,
            max_attempts: self.max_attempts,
            backoff: self.backoff.unwrap_or_default(),
            key,
            group: self.group,
            retention: self.retention,
        })
    }
}

fn read(file: &PathBuf) -> Result<Vec<u8>, Failure> {
    if file.as_os_str() == "-" {
        let mut payload = Vec::new();
        std::io::stdin().read_to_end(&mut payload)?;
        return Ok(payload);
    }
    std::fs::read(file)
        .map_err(|error| Error::bad_request(format!("--file {}: {error}", file.display())).into())
}
