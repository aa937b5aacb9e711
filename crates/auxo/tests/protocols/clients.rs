//! Clients that others have written: `redis-cli`, and the crate `redis`.

use std::collections::HashMap;
use std::process::{Command, Stdio};

use ::redis::{Client, Commands as _, Connection, Value, cmd, pipe};

use crate::servers::Auxo;

const GUIDE: &str = include_str!("../../../../docs/DISQUE.md");

/// What `redis-cli` prints for a person.
fn redis_cli(server: &Auxo, words: &[String]) -> String {
    let output = Command::new("redis-cli")
        .args(["--no-raw", "-p", &server.resp().port().to_string()])
        .args(words)
        .stdin(Stdio::null())
        .output();
    let output = output.unwrap_or_else(|error| {
        panic!("cannot start redis-cli: {error}. Install the package redis-tools")
    });
    String::from_utf8(output.stdout).unwrap()
}

/// The words of a line, as a shell has them.
fn words(line: &str) -> Vec<String> {
    let parts = line.split('\'').enumerate();
    let words = parts.flat_map(|(place, part)| match place % 2 {
        0 => part.split_whitespace().map(str::to_owned).collect(),
        _ => vec![part.to_owned()],
    });
    words.collect()
}

/// Ids, which are others each time, as numbers in the order in which they are seen.
#[derive(Default)]
struct Ids(HashMap<String, usize>);

impl Ids {
    fn mask(&mut self, text: &str) -> String {
        let mut masked = String::new();
        let mut rest = text;
        while let Some(begin) = rest.find("D-") {
            let (before, id) = rest.split_at(begin);
            let (id, behind) = id.split_at(40);
            let next = self.0.len();
            let number = *self.0.entry(id.to_owned()).or_insert(next);
            masked += &format!("{before}<{number}>");
            rest = behind;
        }
        masked + rest
    }

    /// Our id that is seen in the place of theirs.
    fn swap(&self, text: &str, theirs: &Ids) -> String {
        let mut swapped = text.to_owned();
        for (id, number) in &self.0 {
            if let Some((other, _)) = theirs.0.iter().find(|(_, n)| *n == number) {
                swapped = swapped.replace(id, other);
            }
        }
        swapped
    }
}

#[test]
fn the_session_in_the_guide_happens_as_it_is_written() {
    let server = Auxo::on_a_directory();
    let session = GUIDE.split("```console\n").nth(1).unwrap();
    let session = session.split("```").next().unwrap();
    let (mut written, mut seen) = (Ids::default(), Ids::default());
    let mut commands = 0;
    for step in session.split("$ redis-cli -p 7711 ").skip(1) {
        let (line, expected) = step.split_once('\n').unwrap();
        written.mask(line);
        let got = redis_cli(&server, &words(&written.swap(line, &seen)));
        assert_eq!(seen.mask(&got), written.mask(expected), "{line}");
        commands += 1;
    }
    assert!(commands > 5);
}

fn connect(server: &Auxo, options: &str) -> Connection {
    let url = format!("redis://{}/{options}", server.resp());
    Client::open(url).unwrap().get_connection().unwrap()
}

/// A job as `GETJOB` hands it out.
type Delivery = (String, String, String);

fn cycle(mut connection: Connection) {
    let id: String = cmd("ADDJOB")
        .arg("mail")
        .arg("hello")
        .arg(0)
        .query(&mut connection)
        .unwrap();
    assert_eq!((id.len(), &id[..2]), (40, "D-"));
    let get = cmd("GETJOB").arg("FROM").arg("mail").to_owned();
    let jobs: Vec<Delivery> = get.query(&mut connection).unwrap();
    let [(queue, delivery, body)] = &jobs[..] else {
        panic!("{jobs:?}");
    };
    assert_eq!((&**queue, &**body), ("mail", "hello"));
    let shown: HashMap<String, Value> = cmd("SHOW").arg(&id).query(&mut connection).unwrap();
    assert_eq!(shown["queue"], Value::BulkString("mail".into()));
    let acked: u32 = cmd("ACKJOB").arg(delivery).query(&mut connection).unwrap();
    assert_eq!(acked, 1);
    let none: Option<Vec<Delivery>> = cmd("GETJOB")
        .arg("NOHANG")
        .arg("FROM")
        .arg("mail")
        .query(&mut connection)
        .unwrap();
    assert_eq!(none, None);
    let wrong = cmd("ADDJOB").arg("mail").query::<Value>(&mut connection);
    let wrong = wrong.unwrap_err();
    assert_eq!(
        wrong.detail(),
        Some("wrong number of arguments for 'addjob' command")
    );
    let pong: String = connection.ping().unwrap();
    assert_eq!(pong, "PONG");
}

#[test]
fn the_crate_redis_works_with_both_versions_of_the_protocol() {
    let server = Auxo::on_a_directory();
    cycle(connect(&server, ""));
    cycle(connect(&server, "?protocol=resp3"));
}

#[test]
fn a_pipeline_of_the_crate_redis_is_answered_in_its_order() {
    const JOBS: usize = 1000;
    let server = Auxo::on_a_directory();
    let mut connection = connect(&server, "");
    let mut adds = pipe();
    for i in 0..JOBS {
        adds.cmd("ADDJOB").arg("q").arg(i).arg(0);
    }
    let ids: Vec<String> = adds.query(&mut connection).unwrap();
    assert_eq!(ids.len(), JOBS);
    let mut gets = pipe();
    (0..JOBS).for_each(|_| {
        gets.cmd("GETJOB").arg("FROM").arg("q");
    });
    let jobs: Vec<Vec<Delivery>> = gets.query(&mut connection).unwrap();
    let bodies: Vec<usize> = jobs.iter().map(|jobs| jobs[0].2.parse().unwrap()).collect();
    assert_eq!(bodies, (0..JOBS).collect::<Vec<_>>());
    let mut acks = pipe();
    jobs.iter().for_each(|jobs| {
        acks.cmd("ACKJOB").arg(&jobs[0].1);
    });
    let acked: Vec<usize> = acks.query(&mut connection).unwrap();
    assert_eq!(acked, [1; JOBS]);
}
