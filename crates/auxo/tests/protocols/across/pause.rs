//! Queues that take nothing in, or hand nothing out, in every way.

use auxo_proto::v1;
use serde_json::json;

use super::speaker::Speaker;

/// Does it to a queue.
pub type Switch = fn(&mut Speaker, &str);

/// No jobs in.
pub const CLOSES: [(&str, Switch); 3] = [
    ("PAUSE in", |speaker, queue| disque(speaker, queue, "in")),
    ("Pause", |speaker, queue| {
        let request = v1::PauseQueueRequest {
            queue: queue.to_owned(),
            side: v1::Side::In.into(),
            for_ms: None,
        };
        let grpc = &speaker.grpc;
        grpc.call(grpc.queues().pause(request)).unwrap();
    }),
    ("POST", |speaker, queue| {
        let path = format!("/v1/queues/{queue}/pause");
        speaker.http("POST", &path, &json!({ "what": "in" }));
    }),
];

/// No jobs out.
pub const HOLDS: [(&str, Switch); 4] = [
    ("pause-tube", |speaker, queue| {
        let paused = speaker.beanstalk.ask(format!("pause-tube {queue} 3600"));
        assert_eq!(paused, "PAUSED");
    }),
    ("PAUSE out", |speaker, queue| disque(speaker, queue, "out")),
    ("Pause", |speaker, queue| {
        let request = v1::PauseQueueRequest {
            queue: queue.to_owned(),
            side: v1::Side::Out.into(),
            for_ms: Some(3_600_000),
        };
        let grpc = &speaker.grpc;
        grpc.call(grpc.queues().pause(request)).unwrap();
    }),
    ("POST", |speaker, queue| {
        let path = format!("/v1/queues/{queue}/pause");
        speaker.http("POST", &path, &json!({ "for": "1h" }));
    }),
];

/// In and out again. beanstalkd's own word is for its own pauses, which are those that end by themselves.
pub const RESUMES: [(&str, Switch); 3] = [
    ("PAUSE none", |speaker, queue| {
        disque(speaker, queue, "none")
    }),
    ("Resume", |speaker, queue| {
        let request = v1::ResumeQueueRequest {
            queue: queue.to_owned(),
            side: v1::Side::Unspecified.into(),
        };
        let grpc = &speaker.grpc;
        grpc.call(grpc.queues().resume(request)).unwrap();
    }),
    ("POST", |speaker, queue| {
        let path = format!("/v1/queues/{queue}/resume");
        speaker.http("POST", &path, &json!(null));
    }),
];

fn disque(speaker: &mut Speaker, queue: &str, how: &str) {
    let words = [b"PAUSE", queue.as_bytes(), how.as_bytes()];
    let now: String = speaker.resp(&words).unwrap();
    assert_eq!(now, how, "{queue}");
}
