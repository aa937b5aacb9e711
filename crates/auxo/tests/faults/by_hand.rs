//! The half of a load that speaks HTTP by hand, and what it writes down.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use auxo::core::engine::Accepted;
use auxo::core::json::parse;
use auxo::{State, Token};
use auxo_conformance::history::{Event, Op, Phase, Recorder, hash};
use serde_json::{Value, json};

use crate::load::{Floor, TTR, payload, pushing, rest};
use crate::raw::{Said, Wire};

pub async fn produce(floor: Arc<Floor>, address: SocketAddr, process: u32) {
    let mut wire = Wire::new(address);
    let mut number = 0;
    while !floor.enough.load(Relaxed) {
        floor.room.acquire().await.unwrap().forget();
        number += 1;
        let key = format!("{process}-{number}");
        while !push(&floor.recorder, &mut wire, process, &key).await {
            rest().await;
        }
        floor.note();
    }
}

/// Whether the push was answered.
async fn push(recorder: &Recorder, wire: &mut Wire, process: u32, key: &str) -> bool {
    let event = |call| Event {
        process,
        call,
        op: Op::Push,
        ..Event::default()
    };
    let call = recorder.invoke(pushing(process, key));
    let body = format!(r#"{{"payload":{},"ttr":"1s"}}"#, payload(key));
    let header = format!("idempotency-key: {key}");
    let said = wire.post("/v1/queues/q/jobs", &[&header], &body).await;
    let Said::Answer(status, body) = said else {
        let phase = phase(&said);
        recorder.answer(Event {
            phase,
            ..event(call)
        });
        return false;
    };
    let how = match status {
        201 => Accepted::New,
        200 => Accepted::Existing,
        503 => {
            recorder.answer(Event {
                phase: Phase::Fail,
                ..event(call)
            });
            return false;
        }
        other => panic!("{other}: {}", String::from_utf8_lossy(&body)),
    };
    let body: Value = serde_json::from_slice(&body).unwrap();
    recorder.answer(Event {
        id: Some(body["id"].as_str().unwrap().parse().unwrap()),
        how: Some(how),
        ..event(call)
    });
    true
}

fn phase(said: &Said) -> Phase {
    match said {
        Said::Unsent => Phase::Fail,
        Said::Answer(..) | Said::Unknown => Phase::Unknown,
    }
}

pub async fn work(floor: Arc<Floor>, address: SocketAddr, process: u32) {
    let mut wire = Wire::new(address);
    while !floor.over.load(Relaxed) {
        let tokens = lease(&floor.recorder, &mut wire, process).await;
        if tokens.is_none() {
            rest().await;
        }
        for token in tokens.into_iter().flatten() {
            ack(&floor.recorder, &mut wire, process, token).await;
            floor.room.add_permits(1);
            floor.note();
        }
    }
}

/// The tokens of the jobs that it got; `None` without an answer.
async fn lease(recorder: &Recorder, wire: &mut Wire, process: u32) -> Option<Vec<Token>> {
    let event = |call| Event {
        process,
        call,
        op: Op::Lease,
        ..Event::default()
    };
    let limit = Some(4);
    let call = recorder.invoke(Event { limit, ..event(0) });
    let body = r#"{"queues":["q"],"max":4,"wait":"100ms","worker":"hand"}"#;
    let said = wire.post("/v1/lease", &[], body).await;
    let Said::Answer(200, body) = said else {
        let phase = match &said {
            Said::Answer(503, _) => Phase::Fail,
            Said::Answer(status, body) => panic!("{status}: {}", String::from_utf8_lossy(body)),
            other => phase(other),
        };
        recorder.answer(Event {
            phase,
            ..event(call)
        });
        return None;
    };
    let leased = parse::leases(&body).unwrap();
    let limit = Some(leased.len() as u32);
    if leased.is_empty() {
        recorder.answer(Event {
            limit,
            ..event(call)
        });
    }
    for one in &leased {
        recorder.answer(Event {
            engine: Some(one.deadline.minus(TTR).0),
            id: Some(one.job.id),
            token: Some(one.token),
            attempt: Some(one.job.attempt),
            deadline: Some(one.deadline.0),
            due: Some(one.job.run_at.0),
            hash: Some(hash(&one.job.payload)),
            limit,
            ..event(call)
        });
    }
    Some(leased.iter().map(|one| one.token).collect())
}

async fn ack(recorder: &Recorder, wire: &mut Wire, process: u32, token: Token) {
    let event = |call| Event {
        process,
        call,
        op: Op::Ack,
        token: Some(token),
        ..Event::default()
    };
    let call = recorder.invoke(event(0));
    let body = json!({ "token": token.to_string(), "outcome": "ack" }).to_string();
    let said = wire.post("/v1/settle", &[], &body).await;
    let phase = match &said {
        Said::Answer(200, _) => Phase::Ok,
        Said::Answer(409 | 503, _) => Phase::Fail,
        Said::Answer(status, body) => panic!("{status}: {}", String::from_utf8_lossy(body)),
        other => phase(other),
    };
    if let Said::Answer(200, body) = &said {
        let body: Value = serde_json::from_slice(body).unwrap();
        let id = token.job.to_string();
        assert_eq!(body["id"], id, "an answer to another call");
    }
    recorder.answer(Event {
        phase,
        id: Some(token.job),
        state: (phase == Phase::Ok).then_some(State::Done),
        ..event(call)
    });
}
