//! A new job, in every way.

use auxo_proto::v1;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;

use super::speaker::Speaker;

/// A job to be.
pub struct Draft {
    pub queue: String,
    pub payload: Vec<u8>,
    pub priority: u32,
    /// In seconds.
    pub delay: u32,
    /// In seconds.
    pub ttr: u32,
}

/// The priority of a job that nobody gave one.
pub const PLAIN: u32 = 1024;

impl Draft {
    pub fn new(queue: &str, payload: &[u8]) -> Draft {
        Draft {
            queue: queue.to_owned(),
            payload: payload.to_owned(),
            priority: PLAIN,
            delay: 0,
            ttr: 60,
        }
    }
}

/// Answers the id, or the words of the refusal.
pub type Push = fn(&mut Speaker, &Draft) -> Result<u64, String>;

pub const PUSHES: [(&str, Push); 6] = [
    ("put", put),
    ("ADDJOB", add),
    ("AUXO.PUSH", own),
    ("Push", grpc),
    ("PushStream", stream),
    ("POST", http),
];

pub fn put(speaker: &mut Speaker, job: &Draft) -> Result<u64, String> {
    let used = speaker.beanstalk.ask(format!("use {}", job.queue));
    assert_eq!(used, format!("USING {}", job.queue));
    let (priority, delay, ttr) = (job.priority, job.delay, job.ttr);
    let head = format!("put {priority} {delay} {ttr} {}\r\n", job.payload.len());
    let answer = speaker
        .beanstalk
        .ask([head.as_bytes(), &job.payload].concat());
    let id = answer.strip_prefix("INSERTED ").map(|id| id.parse());
    id.map(Result::unwrap).ok_or(answer)
}

/// Disque has no priorities: whatever is asked for, it is the plain one.
pub fn add(speaker: &mut Speaker, job: &Draft) -> Result<u64, String> {
    let (delay, ttr) = (job.delay.to_string(), job.ttr.to_string());
    let mut words: Vec<&[u8]> = vec![b"ADDJOB", job.queue.as_bytes(), &job.payload, b"0"];
    words.extend([b"RETRY", ttr.as_bytes()]);
    if job.delay > 0 {
        words.extend([b"DELAY", delay.as_bytes()]);
    }
    let id: String = speaker.resp(&words).map_err(word)?;
    Ok(number(&id))
}

/// What an error over RESP begins with.
fn word(error: redis::RedisError) -> String {
    error.code().unwrap_or_default().to_owned()
}

/// Our number of a job that Disque's clients know by a longer name.
pub fn number(id: &str) -> u64 {
    // The first 64 of the 72 bits in these digits.
    let bits = BASE64_STANDARD.decode(&id[11..23]).unwrap();
    u64::from_be_bytes(bits[..8].try_into().unwrap())
}

pub fn own(speaker: &mut Speaker, job: &Draft) -> Result<u64, String> {
    let fields = json!({
        "priority": job.priority,
        "delay": format!("{}s", job.delay),
        "ttr": format!("{}s", job.ttr),
    });
    let (queue, fields) = (job.queue.as_bytes(), fields.to_string());
    let words = [b"AUXO.PUSH", queue, &job.payload, fields.as_bytes()];
    let pushed = speaker.resp::<std::collections::HashMap<String, String>>(&words);
    let pushed = pushed.map_err(word)?;
    Ok(pushed["id"].parse().unwrap())
}

fn request(job: &Draft) -> v1::PushRequest {
    let spec = v1::JobSpec {
        payload: job.payload.clone().into(),
        priority: Some(job.priority),
        when: Some(v1::job_spec::When::DelayMs(u64::from(job.delay) * 1000)),
        ttr_ms: Some(u64::from(job.ttr) * 1000),
        ..v1::JobSpec::default()
    };
    let job = v1::NewJob {
        queue: job.queue.clone(),
        spec: Some(spec),
    };
    v1::PushRequest { jobs: vec![job] }
}

fn pushed(mut answer: v1::PushResponse) -> Result<u64, String> {
    match answer.results.remove(0).result.unwrap() {
        v1::push_result::Result::Ok(pushed) => Ok(pushed.id),
        v1::push_result::Result::Error(error) => Err(error.code),
    }
}

pub fn grpc(speaker: &mut Speaker, job: &Draft) -> Result<u64, String> {
    let grpc = &speaker.grpc;
    pushed(grpc.call(grpc.jobs().push(request(job))).unwrap())
}

pub fn stream(speaker: &mut Speaker, job: &Draft) -> Result<u64, String> {
    let grpc = &speaker.grpc;
    let jobs = futures_util::stream::iter([request(job)]);
    let mut answers = grpc.call(grpc.jobs().push_stream(jobs)).unwrap();
    pushed(grpc.wait(answers.message()).unwrap().unwrap())
}

pub fn http(speaker: &mut Speaker, job: &Draft) -> Result<u64, String> {
    let body = json!({
        "payload_base64": BASE64_STANDARD.encode(&job.payload),
        "priority": job.priority,
        "delay": format!("{}s", job.delay),
        "ttr": format!("{}s", job.ttr),
    });
    let path = format!("/v1/queues/{}/jobs", job.queue);
    let reply = speaker.http.post(&path, &body.to_string());
    match reply.json() {
        pushed if reply.status == 201 => Ok(pushed["id"].as_str().unwrap().parse().unwrap()),
        refused => Err(refused["code"].as_str().unwrap().to_owned()),
    }
}
