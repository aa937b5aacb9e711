//! An operator's moves, in every way.

use auxo_proto::v1;
use auxo_proto::v1::steer_request::{Action, Delete, Ids, Kick, Target};
use redis::Value;
use serde_json::json;

use super::speaker::Speaker;

/// Moves a job of a queue.
pub type Steer = fn(&mut Speaker, &str, u64);

/// What makes a dead job ready.
pub const KICKS: [(&str, Steer); 6] = [
    ("kick", |speaker, queue, _| {
        speaker.beanstalk.ask(format!("use {queue}"));
        assert_eq!(speaker.beanstalk.ask("kick 10"), "KICKED 1");
    }),
    ("kick-job", |speaker, _, id| {
        assert_eq!(speaker.beanstalk.ask(format!("kick-job {id}")), "KICKED");
    }),
    ("ENQUEUE", |speaker, _, id| count(speaker, "ENQUEUE", id)),
    ("AUXO.KICK", |speaker, _, id| word(speaker, "AUXO.KICK", id)),
    ("Steer", |speaker, _, id| {
        steer(speaker, id, Action::Kick(Kick {}))
    }),
    ("POST", |speaker, _, id| {
        speaker.http("POST", &format!("/v1/jobs/{id}/kick"), &json!(null));
    }),
];

/// What removes a job, and what that is called.
pub const REMOVALS: [(&str, Steer, &str); 6] = [
    (
        "delete",
        |speaker, _, id| {
            assert_eq!(speaker.beanstalk.ask(format!("delete {id}")), "DELETED");
        },
        "delete",
    ),
    (
        "DELJOB",
        |speaker, _, id| count(speaker, "DELJOB", id),
        "delete",
    ),
    (
        "ACKJOB",
        |speaker, _, id| count(speaker, "ACKJOB", id),
        "cancel",
    ),
    (
        "AUXO.CANCEL",
        |speaker, _, id| word(speaker, "AUXO.CANCEL", id),
        "cancel",
    ),
    (
        "Steer",
        |speaker, _, id| steer(speaker, id, Action::Delete(Delete {})),
        "delete",
    ),
    (
        "DELETE",
        |speaker, _, id| {
            speaker.http("DELETE", &format!("/v1/jobs/{id}"), &json!(null));
        },
        "delete",
    ),
];

fn count(speaker: &mut Speaker, command: &str, id: u64) {
    let number = id.to_string();
    let words = [command.as_bytes(), number.as_bytes()];
    assert_eq!(speaker.resp::<u32>(&words).unwrap(), 1, "{command}");
}

fn word(speaker: &mut Speaker, command: &str, id: u64) {
    let number = id.to_string();
    let words = [command.as_bytes(), number.as_bytes()];
    speaker.resp::<Value>(&words).unwrap();
}

fn steer(speaker: &mut Speaker, id: u64, action: Action) {
    let request = v1::SteerRequest {
        target: Some(Target::Ids(Ids { ids: vec![id] })),
        action: Some(action),
        dry_run: false,
    };
    let grpc = &speaker.grpc;
    let steered = grpc.call(grpc.jobs().steer(request)).unwrap();
    assert_eq!(steered.moved, 1, "{steered:?}");
}
