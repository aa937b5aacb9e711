//! One job, as each protocol shows it.

use std::collections::HashMap;

use auxo::core::Timestamp;
use auxo_proto::v1;
use redis::{FromRedisValue, Value, from_redis_value};
use tonic::Code;

use super::speaker::Speaker;

/// What is shown of a job; `None` where the protocol has no word for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    pub queue: String,
    pub state: Option<String>,
    pub priority: Option<u32>,
    /// In seconds.
    pub delay: u64,
    /// In seconds.
    pub ttr: u64,
    pub failures: Option<u64>,
}

impl View {
    /// The same, as far as another protocol can say it.
    pub fn as_seen_by(&self, other: &View) -> View {
        View {
            state: self.state.clone().filter(|_| other.state.is_some()),
            priority: self.priority.filter(|_| other.priority.is_some()),
            failures: self.failures.filter(|_| other.failures.is_some()),
            ..self.clone()
        }
    }
}

/// Answers nothing if there is no such job.
pub type Look = fn(&mut Speaker, u64) -> Option<View>;

pub const LOOKS: [(&str, Look); 5] = [
    ("stats-job", stats),
    ("SHOW", show),
    ("AUXO.JOB", own),
    ("Get", grpc),
    ("GET", http),
];

fn stats(speaker: &mut Speaker, id: u64) -> Option<View> {
    let answer = speaker.beanstalk.fetch(&format!("stats-job {id}"), "OK ");
    let (_, text) = answer.map_err(|word| assert_eq!(word, "NOT_FOUND")).ok()?;
    let text = String::from_utf8(text).unwrap();
    let fields: HashMap<&str, &str> = text.lines().filter_map(|l| l.split_once(": ")).collect();
    let state = match fields["state"] {
        "delayed" => "scheduled",
        "reserved" => "leased",
        "buried" => "dead",
        other => other,
    };
    Some(View {
        queue: fields["tube"].to_owned(),
        state: Some(state.to_owned()),
        priority: Some(fields["pri"].parse().unwrap()),
        delay: fields["delay"].parse().unwrap(),
        ttr: fields["ttr"].parse().unwrap(),
        failures: None,
    })
}

fn field<T: FromRedisValue>(fields: &mut HashMap<String, Value>, name: &str) -> T {
    from_redis_value(fields.remove(name).unwrap_or(Value::Nil)).unwrap()
}

fn show(speaker: &mut Speaker, id: u64) -> Option<View> {
    let number = id.to_string();
    let words: [&[u8]; 2] = [b"SHOW", number.as_bytes()];
    let shown: Option<HashMap<String, Value>> = speaker.resp(&words).unwrap();
    let mut shown = shown?;
    let state: String = field(&mut shown, "state");
    Some(View {
        queue: field(&mut shown, "queue"),
        state: match &*state {
            "queued" => Some("ready".to_owned()),
            // Scheduled, or with a worker.
            "active" => None,
            _ => Some(state),
        },
        priority: None,
        delay: field(&mut shown, "delay"),
        ttr: field(&mut shown, "retry"),
        failures: Some(field(&mut shown, "nacks")),
    })
}

/// Between two times, in seconds.
fn between(from: &str, to: &str) -> u64 {
    let time = |text: &str| text.parse::<Timestamp>().unwrap();
    time(to).since(time(from)).as_secs()
}

fn span(text: &str) -> u64 {
    auxo::core::text::parse_duration(text).unwrap().as_secs()
}

fn own(speaker: &mut Speaker, id: u64) -> Option<View> {
    let number = id.to_string();
    let words: [&[u8]; 2] = [b"AUXO.JOB", number.as_bytes()];
    let mut shown: HashMap<String, Value> = match speaker.resp(&words) {
        Err(error) if error.code() == Some("NOT_FOUND") => return None,
        shown => shown.unwrap(),
    };
    let mut text = |name| field::<String>(&mut shown, name);
    let (created, due, ttr) = (text("created_at"), text("run_at"), text("ttr"));
    Some(View {
        queue: text("queue"),
        state: Some(text("state")),
        priority: Some(field(&mut shown, "priority")),
        delay: between(&created, &due),
        ttr: span(&ttr),
        failures: Some(field::<Option<u64>>(&mut shown, "failures").unwrap_or(0)),
    })
}

fn grpc(speaker: &mut Speaker, id: u64) -> Option<View> {
    let which = Some(v1::Which {
        which: Some(v1::which::Which::Id(id)),
    });
    let grpc = &speaker.grpc;
    let job = match grpc.call(grpc.jobs().get(v1::GetJobRequest { which })) {
        Err(status) if status.code() == Code::NotFound => return None,
        job => job.unwrap(),
    };
    let state = job.state().as_str_name().to_lowercase();
    Some(View {
        state: Some(state.trim_start_matches("state_").to_owned()),
        queue: job.queue,
        priority: Some(job.priority),
        // Two clocks: one that is due at once can be so a millisecond before.
        delay: job.run_at_ms.saturating_sub(job.created_at_ms) / 1000,
        ttr: job.ttr_ms / 1000,
        failures: Some(job.failures.into()),
    })
}

fn http(speaker: &mut Speaker, id: u64) -> Option<View> {
    let reply = speaker.http.get(&format!("/v1/jobs/{id}"));
    if reply.status == 404 {
        return None;
    }
    assert_eq!(reply.status, 200, "{reply:?}");
    let job = reply.json();
    let text = |name: &str| job[name].as_str().unwrap();
    Some(View {
        queue: text("queue").to_owned(),
        state: Some(text("state").to_owned()),
        priority: Some(job["priority"].as_u64().unwrap().try_into().unwrap()),
        delay: between(text("created_at"), text("run_at")),
        ttr: span(text("ttr")),
        failures: Some(job["failures"].as_u64().unwrap_or(0)),
    })
}

/// Checks that everybody sees the same.
#[track_caller]
pub fn all_see(speaker: &mut Speaker, id: u64, expected: Option<&View>, what: &str) {
    for (name, look) in LOOKS {
        let seen = look(speaker, id);
        let expected = match (&seen, expected) {
            (Some(seen), Some(expected)) => Some(expected.as_seen_by(seen)),
            (_, expected) => expected.cloned(),
        };
        assert_eq!(seen, expected, "{what}, shown by {name}");
    }
}
