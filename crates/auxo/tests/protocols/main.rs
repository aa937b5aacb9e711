//! The protocols that clients already speak, on the real binary: golden transcripts, and one queue behind all of them.
//!
//! Each transcript is played to Auxo on a directory and on Redis. Those of beanstalkd's protocol are also played to beanstalkd: what is
//! written down is what that one answers, byte for byte. Those of Disque's commands follow its source, and were never played to a Disque.

mod across;
mod clients;
mod half_close;
mod hostile;
mod late;
mod servers;
mod transcript;

use auxo_harness::redis;
use servers::{Auxo, Beanstalkd};
use transcript::play;

/// Name and text of every transcript of a folder.
macro_rules! transcripts {
    ($folder:literal: $($name:literal),+ $(,)?) => {
        [$(($name, include_str!(concat!($folder, "/", $name, ".txt")))),+]
    };
}

const BEANSTALK: [(&str, &str); 23] = transcripts!("beanstalk":
    "put", "put_wrong", "reserve", "reserve_job", "deadline", "delete", "release", "bury", "touch", "tubes", "peek", "kick", "stats_job",
    "stats_tube", "stats", "list", "order", "watched", "gone", "half_close", "pause", "pipeline", "wrong",
);

#[test]
fn beanstalkd_itself_answers_as_it_is_written_down() {
    for (name, text) in BEANSTALK {
        let attempt = || {
            let server = Beanstalkd::start();
            play(name, text, server.address());
        };
        // When the time of a job is over, it sometimes does not notice until the worker speaks again. Auxo has one try.
        let agrees = (0..5).any(|_| std::panic::catch_unwind(attempt).is_ok());
        assert!(agrees, "{name}: see above");
    }
}

#[test]
fn auxo_on_a_directory_answers_as_beanstalkd_does() {
    for (name, text) in BEANSTALK {
        let server = Auxo::on_a_directory();
        play(name, text, server.beanstalk());
    }
}

#[test]
fn auxo_on_redis_answers_as_beanstalkd_does() {
    let redis = redis::Server::start(&["--appendonly", "yes"]);
    for (name, text) in BEANSTALK {
        let server = Auxo::on_redis(&redis.url(&format!("?prefix={name}")));
        play(name, text, server.beanstalk());
    }
}

/// No server of Disque is played to: there is no package of it. What is written down follows its source as we read it, and docs/DISQUE.md
/// says where we differ on purpose.
const DISQUE: [(&str, &str); 24] = transcripts!("disque":
    "addjob", "addjob_wrong", "getjob", "getjob_wrong", "ackjob", "fencing", "fastack", "nack", "working", "enqueue", "dequeue",
    "deljob", "half_close", "show", "qpeek", "qstat", "qscan", "jscan", "pause", "hello", "connection", "own", "pipeline", "wrong",
);

#[test]
fn auxo_on_a_directory_answers_disques_commands_as_it_is_written_down() {
    for (name, text) in DISQUE {
        let server = Auxo::on_a_directory();
        play(name, text, server.resp());
    }
}

#[test]
fn auxo_on_redis_answers_disques_commands_as_it_is_written_down() {
    let redis = redis::Server::start(&["--appendonly", "yes"]);
    for (name, text) in DISQUE {
        let server = Auxo::on_redis(&redis.url(&format!("?prefix={name}")));
        play(name, text, server.resp());
    }
}

const GUIDE: &str = include_str!("../../../../docs/BEANSTALKD.md");

/// The session of the guide as a transcript: who says a line can be told by its first letter, but for bodies, which belong to who
/// said the line before.
fn session() -> String {
    let session = GUIDE.split("```console\n").nth(1).unwrap();
    let session = session.split("```").next().unwrap();
    let (mut transcript, mut before, mut who) = (String::new(), "", '>');
    for line in session.lines().skip(1) {
        let is_body = before.starts_with("put ") || before.starts_with("RESERVED ");
        if !is_body {
            who = if line.starts_with(char::is_uppercase) {
                '<'
            } else {
                '>'
            };
        }
        let words = line.split(' ').map(|word| match word.parse::<u64>() {
            Ok(id) if id > 1 << 32 => "{job}",
            _ => word,
        });
        transcript += &format!("A{who} {}\n", words.collect::<Vec<_>>().join(" "));
        before = if is_body { "" } else { line };
    }
    transcript + "A< (closed)\n"
}

#[test]
fn the_session_in_beanstalkds_guide_happens_as_it_is_written() {
    let session = session();
    assert!(session.lines().count() > 10, "{session}");
    let server = Auxo::on_a_directory();
    play("BEANSTALKD.md", &session, server.beanstalk());
}
