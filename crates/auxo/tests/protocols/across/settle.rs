//! The end of a lease, in every way that its right allows.

use auxo_proto::v1;
use auxo_proto::v1::settle::{Ack, Bury, Fail, Outcome, Release};
use redis::Value;
use serde_json::json;

use super::lease::{Leased, Right};
use super::speaker::Speaker;

/// How it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Ack,
    Fail,
    Release,
    Bury,
}

impl End {
    fn word(self) -> &'static str {
        match self {
            End::Ack => "ack",
            End::Fail => "fail",
            End::Release => "release",
            End::Bury => "bury",
        }
    }
}

pub type Settle = fn(&mut Speaker, &Leased, End);

/// Everybody who can say that a job is done.
pub fn settles(right: &Right) -> &'static [(&'static str, Settle)] {
    match right {
        Right::Connection => &[("delete", beanstalk)],
        Right::Delivery(_) => &[("ACKJOB", disque), ("AUXO.SETTLE", own)],
        Right::Token(_) => &[
            ("AUXO.SETTLE", own),
            ("Settle", grpc),
            ("Work", work),
            ("POST", http),
        ],
    }
}

pub fn beanstalk(speaker: &mut Speaker, leased: &Leased, end: End) {
    let id = leased.id;
    let (request, answer) = match end {
        End::Ack => (format!("delete {id}"), "DELETED"),
        End::Release => (format!("release {id} 1024 0"), "RELEASED"),
        End::Bury => (format!("bury {id} 1024"), "BURIED"),
        End::Fail => panic!("beanstalkd knows no failure"),
    };
    assert_eq!(speaker.beanstalk.ask(request), answer);
}

pub fn disque(speaker: &mut Speaker, leased: &Leased, end: End) {
    let Right::Delivery(id) = &leased.right else {
        panic!("{leased:?} is not from Disque's command");
    };
    let word: &[u8] = match end {
        End::Ack => b"ACKJOB",
        End::Fail => b"NACK",
        End::Release | End::Bury => panic!("Disque has no word for {end:?}"),
    };
    assert_eq!(speaker.resp::<u32>(&[word, id.as_bytes()]).unwrap(), 1);
}

pub fn own(speaker: &mut Speaker, leased: &Leased, end: End) {
    let token = match &leased.right {
        Right::Token(token) | Right::Delivery(token) => token,
        Right::Connection => panic!("{leased:?} has no token"),
    };
    let words = [b"AUXO.SETTLE", token.as_bytes(), end.word().as_bytes()];
    speaker.resp::<Value>(&words).unwrap();
}

fn token(leased: &Leased) -> String {
    match &leased.right {
        Right::Token(token) => token.clone(),
        other => panic!("{other:?} is no token"),
    }
}

fn item(leased: &Leased, end: End) -> v1::Settle {
    v1::Settle {
        token: token(leased),
        outcome: Some(match end {
            End::Ack => Outcome::Ack(Ack::default()),
            End::Fail => Outcome::Fail(Fail::default()),
            End::Release => Outcome::Release(Release::default()),
            End::Bury => Outcome::Bury(Bury::default()),
        }),
    }
}

fn settled(answers: Vec<v1::SettleResult>, leased: &Leased) {
    let [answer] = &answers[..] else {
        panic!("{answers:?}");
    };
    match answer.result.as_ref().unwrap() {
        v1::settle_result::Result::Ok(settled) => assert_eq!(settled.id, leased.id),
        v1::settle_result::Result::Error(error) => panic!("{error:?}"),
    }
}

pub fn grpc(speaker: &mut Speaker, leased: &Leased, end: End) {
    let grpc = &speaker.grpc;
    let items = vec![item(leased, end)];
    let answer = grpc.call(grpc.workers().settle(v1::SettleRequest { items }));
    settled(answer.unwrap().results, leased);
}

/// In the stream by which a job came last, or in one that gets none.
pub fn work(speaker: &mut Speaker, leased: &Leased, end: End) {
    let stream = speaker.grpc.work.take();
    let mut stream = stream.unwrap_or_else(|| speaker.grpc.begin("nothing", 0));
    let message = v1::WorkRequest {
        settle: vec![item(leased, end)],
        ..v1::WorkRequest::default()
    };
    let answers = speaker.grpc.wait(async {
        stream.say.send(message).await.unwrap();
        stream.next().await.settled
    });
    settled(answers, leased);
    speaker.grpc.work = Some(stream);
}

pub fn http(speaker: &mut Speaker, leased: &Leased, end: End) {
    let body = json!({ "token": token(leased), "outcome": end.word() });
    let reply = speaker.http("POST", "/v1/settle", &body).json();
    assert_eq!(reply["id"], leased.id.to_string());
}
