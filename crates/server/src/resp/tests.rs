//! What commands cost the engine, and what its failures cost others.

use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use auxo_core::engine::{
    Ask, Audit, Catalog, Change, Engine, Extend, Extended, Message, Order, Page, Pushed, Query,
    Settle, Settled, Steered, Which,
};
use auxo_core::event::Notice;
use auxo_core::job::{Job, Leased, NewJob};
use auxo_core::queue::QueueInfo;
use auxo_core::{Limits, QueueName, Result, Service, SystemClock, Timestamp};
use auxo_embedded::{Embedded, Options};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::broadcast;

use super::*;
use crate::auth::{Auth, Handshake, Patience, Token, TokenFile};
use crate::settings::Settings;
use crate::trail::Trail;

/// An engine that notes what it is asked, and panics while it is told to.
struct Watched {
    engine: Embedded,
    calls: Mutex<Vec<(&'static str, usize)>>,
    is_broken: AtomicBool,
}

impl Watched {
    fn note(&self, call: &'static str, items: usize) {
        assert!(!self.is_broken.load(Relaxed), "a secret of the engine");
        self.calls.lock().unwrap().push((call, items));
    }
}

/// Writes out what `async_trait` makes of the calls of [`Engine`].
macro_rules! calls {
    ($($name:ident($($arg:ident: $kind:ty),*) -> $answer:ty, $count:expr;)*) => {$(
        fn $name<'s, 'a>(
            &'s self,
            $($arg: $kind),*
        ) -> Pin<Box<dyn Future<Output = Result<$answer>> + Send + 'a>>
        where
            's: 'a,
            Self: 'a,
        {
            Box::pin(async move {
                self.note(stringify!($name), $count);
                self.engine.$name($($arg),*).await
            })
        }
    )*};
}

impl Engine for Watched {
    calls! {
        push(jobs: Vec<NewJob>) -> Vec<Result<Pushed>>, jobs.len();
        lease(ask: Ask) -> Vec<Leased>, ask.max as usize;
        settle(items: Vec<Settle>) -> Vec<Result<Settled>>, items.len();
        extend(items: Vec<Extend>) -> Vec<Result<Extended>>, items.len();
        find(which: Which) -> Option<Job>, 1;
        list(query: Query) -> Page, 1;
        steer(order: Order) -> Steered, 1;
        queues(names: Option<Vec<QueueName>>) -> Vec<QueueInfo>, 1;
        change(change: Change) -> (), 1;
        catalog() -> Catalog, 1;
        publish(message: Message) -> Vec<Pushed>, 1;
        audit() -> Audit, 1;
        close() -> (), 1;
    }

    fn watch(&self) -> broadcast::Receiver<Notice> {
        self.engine.watch()
    }

    fn health(&self) -> Result<()> {
        self.engine.health()
    }
}

struct Bench {
    app: Arc<App>,
    engine: Arc<Watched>,
    _dir: tempfile::TempDir,
}

impl Bench {
    fn new() -> Bench {
        Bench::with(Settings::default())
    }

    fn with(settings: Settings) -> Bench {
        let dir = tempfile::tempdir().unwrap();
        let engine = Arc::new(Watched {
            engine: Embedded::open(dir.path(), Options::default()).unwrap(),
            calls: Mutex::default(),
            is_broken: AtomicBool::new(false),
        });
        let service = Service::new(engine.clone(), Limits::default());
        let app = App::new(Arc::new(service), settings).unwrap();
        Bench {
            app: Arc::new(app),
            engine,
            _dir: dir,
        }
    }

    fn connect(&self) -> DuplexStream {
        self.connect_through(1 << 20)
    }

    /// A connection that has room for so many bytes on their way.
    fn connect_through(&self, room: usize) -> DuplexStream {
        let (client, server) = tokio::io::duplex(room);
        let here = SocketAddr::from(([127, 0, 0, 1], 7711));
        let ends = Ends {
            peer: here,
            local: here,
            copies: 1,
            visitor: Visitor {
                from: here.ip(),
                stranger: self.app.auth.stranger(Handshake::None, here.ip()).into(),
            },
        };
        tokio::spawn(converse(server, ends, self.app.clone()));
        client
    }

    /// What the engine was asked since the last time.
    fn calls(&self) -> Vec<(&'static str, usize)> {
        std::mem::take(&mut *self.engine.calls.lock().unwrap())
    }
}

/// Sends all of it at once, and reads so many lines.
async fn lines(client: &mut DuplexStream, sent: &str, count: usize) -> Vec<String> {
    client.write_all(sent.as_bytes()).await.unwrap();
    let mut lines = Vec::new();
    let mut line = Vec::new();
    while lines.len() < count {
        line.push(client.read_u8().await.unwrap());
        if line.ends_with(b"\r\n") {
            let text = String::from_utf8(std::mem::take(&mut line)).unwrap();
            lines.push(text.trim_end().to_owned());
        }
    }
    lines
}

#[tokio::test]
async fn a_row_of_commands_is_one_call_of_each_kind() {
    let bench = Bench::new();
    let mut client = bench.connect();
    let added = lines(&mut client, &"ADDJOB q x 0\r\n".repeat(100), 100).await;
    assert!(added.iter().all(|line| line.starts_with("+D-")));
    assert_eq!(bench.calls(), [("push", 100)]);
    // An array of one array of three, each with its length before it.
    let got = lines(&mut client, &"GETJOB FROM q\r\n".repeat(100), 800).await;
    assert_eq!(bench.calls(), [("lease", 100)]);
    let ids = got.iter().skip(5).step_by(8);
    let acks: String = ids.map(|id| format!("ACKJOB {id}\r\n")).collect();
    let acked = lines(&mut client, &acks, 100).await;
    assert_eq!(acked, vec![":1"; 100]);
    assert_eq!(bench.calls(), [("settle", 100)]);
}

#[tokio::test]
async fn more_than_a_call_may_have_is_several_calls() {
    let bench = Bench::new();
    let mut client = bench.connect();
    lines(&mut client, &"ADDJOB q x 0\r\n".repeat(1500), 1500).await;
    let calls = bench.calls();
    assert!(
        calls
            .iter()
            .all(|(call, items)| *call == "push" && *items <= 1000)
    );
    assert_eq!(calls.iter().map(|(_, items)| items).sum::<usize>(), 1500);
    // A command with more ids than a call may have.
    let strangers = " D-00000001-AAAAAAAAAAEAAAAAAAAAAAAA-05a1".repeat(1400);
    let counted = lines(&mut client, &format!("ACKJOB{strangers}\r\n"), 1).await;
    assert_eq!(counted, [":0"]);
    assert_eq!(bench.calls(), [("settle", 1000), ("settle", 400)]);
}

#[tokio::test]
async fn a_panic_ends_one_connection_and_no_other() {
    let bench = Bench::new();
    let (mut one, mut other) = (bench.connect(), bench.connect());
    assert_eq!(lines(&mut one, "PING\r\n", 1).await, ["+PONG"]);
    bench.engine.is_broken.store(true, Relaxed);
    one.write_all(b"ADDJOB q x 0\r\n").await.unwrap();
    let mut rest = Vec::new();
    one.read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest, b"");
    bench.engine.is_broken.store(false, Relaxed);
    assert_eq!(lines(&mut other, "QLEN q\r\n", 1).await, [":0"]);
    assert_eq!(bench.app.resp.open.load(Relaxed), 1);
}

#[tokio::test]
async fn who_waits_for_a_job_is_told_when_the_server_stops() {
    let bench = Bench::new();
    let mut client = bench.connect();
    client
        .write_all(b"PING\r\nGETJOB FROM q\r\n")
        .await
        .unwrap();
    // It is answered before the wait begins.
    assert_eq!(lines(&mut client, "", 1).await, ["+PONG"]);
    bench.app.stop();
    let told = lines(&mut client, "", 1).await;
    assert_eq!(told, ["-LEAVING the server stops"]);
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest, b"");
}

const MOMENT: Duration = Duration::from_millis(50);

#[tokio::test]
async fn who_does_not_go_on_with_a_command_is_closed() {
    let bench = Bench::with(Settings {
        body_time: MOMENT,
        ..Settings::default()
    });
    for begun in ["*2\r\n$4\r\nECHO\r\n$10\r\nx", "*2\r\n", "PIN"] {
        let mut client = bench.connect();
        client.write_all(begun.as_bytes()).await.unwrap();
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, b"", "{begun:?}");
    }
}

#[tokio::test]
async fn who_does_not_take_answers_is_closed() {
    let bench = Bench::with(Settings {
        stall_time: MOMENT,
        ..Settings::default()
    });
    let mut deaf = bench.connect_through(1000);
    let mut sent = 0;
    while deaf.write_all(&b"PING\r\n".repeat(100)).await.is_ok() {
        sent += 600;
        assert!(sent < 1 << 20, "it takes commands without end");
    }
    assert_eq!(lines(&mut bench.connect(), "PING\r\n", 1).await, ["+PONG"]);
}

#[tokio::test]
async fn a_command_that_ends_anywhere_is_not_obeyed() {
    let bench = Bench::new();
    let whole = b"*4\r\n$6\r\nADDJOB\r\n$1\r\nq\r\n$1\r\nx\r\n$1\r\n0\r\n";
    for end in 0..whole.len() {
        let mut client = bench.connect();
        client.write_all(&whole[..end]).await.unwrap();
        client.shutdown().await.unwrap();
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, b"", "{end}");
    }
    assert_eq!(bench.calls(), []);
}

/// A server that wants tokens, and a token for each list of grants.
fn guarded(grants: &[&[&str]]) -> (Bench, Vec<String>, TokenFile, tempfile::TempDir) {
    let (settings, secrets, file, dir) = guarded_settings(grants);
    (Bench::with(settings), secrets, file, dir)
}

fn guarded_settings(grants: &[&[&str]]) -> (Settings, Vec<String>, TokenFile, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let file = TokenFile::new(dir.path().join("tokens.toml"));
    let mut secrets = Vec::new();
    for allow in grants {
        let allow = allow.iter().map(|grant| grant.parse().unwrap()).collect();
        let (token, secret) = Token::new("t", allow, Timestamp(0), None).unwrap();
        file.change(|tokens| Ok((tokens.with(token), ()))).unwrap();
        secrets.push(secret.reveal().to_owned());
    }
    let clock = Arc::new(SystemClock::new(Timestamp(0)));
    let patience = Patience {
        delay: Duration::from_millis(1),
        ..Patience::default()
    };
    let auth = Auth::open(file.clone(), clock, patience).unwrap();
    let settings = Settings {
        auth,
        ..Settings::default()
    };
    (settings, secrets, file, dir)
}

const ID: &str = "D-00000000-AAAAAAAAAAEAAAAAAAAAAAAA-0001";

#[tokio::test]
async fn without_a_token_nothing_is_done_but_saying_who_one_is() {
    let (bench, _, _, _dir) = guarded(&[&["admin:*"]]);
    let mut client = bench.connect();
    let id = ID;
    let all = [
        "ADDJOB q x 0".to_owned(),
        "GETJOB FROM q".to_owned(),
        format!("ACKJOB {id}"),
        format!("FASTACK {id}"),
        format!("NACK {id}"),
        format!("WORKING {id}"),
        format!("ENQUEUE {id}"),
        format!("DEQUEUE {id}"),
        format!("DELJOB {id}"),
        format!("SHOW {id}"),
        "QLEN q".to_owned(),
        "QPEEK q 1".to_owned(),
        "QSTAT q".to_owned(),
        "QSCAN".to_owned(),
        "JSCAN".to_owned(),
        "PAUSE q all".to_owned(),
        "HELLO".to_owned(),
        "HELLO 3".to_owned(),
        "INFO".to_owned(),
        "PING".to_owned(),
        "ECHO x".to_owned(),
        "TIME".to_owned(),
        "COMMAND COUNT".to_owned(),
        "CLIENT ID".to_owned(),
        "CONFIG GET save".to_owned(),
        "SELECT 0".to_owned(),
        "AUXO.PUSH q x".to_owned(),
        "AUXO.LEASE FROM q".to_owned(),
        "AUXO.SETTLE 7-9-0000000000000abc ack".to_owned(),
        "AUXO.EXTEND 7-9-0000000000000abc".to_owned(),
        "AUXO.EXPLAIN 7".to_owned(),
        "AUXO.JOB 7".to_owned(),
        "AUXO.QUEUES".to_owned(),
        "AUXO.KICK 7".to_owned(),
        "AUXO.CANCEL 7".to_owned(),
    ];
    for command in all {
        let answer = lines(&mut client, &format!("{command}\r\n"), 1).await;
        assert!(answer[0].starts_with("-NOAUTH "), "{command}: {answer:?}");
    }
    assert_eq!(bench.calls(), []);
    let wrong = lines(&mut client, "AUTH auxo_aaaaaaaa_bbbb\r\n", 1).await;
    assert!(wrong[0].starts_with("-WRONGPASS "), "{wrong:?}");
}

#[tokio::test]
async fn a_token_opens_the_queues_that_it_names_and_no_others() {
    let (bench, secrets, file, _dir) = guarded(&[&["push:mail.*", "lease:mail.*"], &["admin:*"]]);
    let mut client = bench.connect();
    // What stands behind it is looked at when it is known who is asking.
    let row = format!(
        "AUTH {}\r\nADDJOB mail.a x 0\r\nADDJOB other x 0\r\n",
        secrets[0]
    );
    let answers = lines(&mut client, &row, 3).await;
    assert_eq!(answers[0], "+OK");
    assert!(answers[1].starts_with("+D-"), "{answers:?}");
    assert!(answers[2].starts_with("-NOPERM "), "{answers:?}");
    for refused in [
        "GETJOB FROM mail.a other",
        "QLEN mail.a",
        "PAUSE mail.a all",
        "INFO",
        "JSCAN",
    ] {
        let answer = lines(&mut client, &format!("{refused}\r\n"), 1).await;
        assert!(answer[0].starts_with("-NOPERM "), "{refused}: {answer:?}");
    }
    let got = lines(&mut client, "GETJOB FROM mail.a\r\n", 8).await;
    let acked = lines(&mut client, &format!("ACKJOB {}\r\n", got[5]), 1).await;
    assert_eq!(acked, [":1"]);
    // The jobs of another queue are not its business, whatever they are called.
    let mut admin = bench.connect();
    let row = format!("HELLO 2 AUTH default {}\r\n", secrets[1]);
    lines(&mut admin, &row, 26).await;
    lines(&mut admin, "ADDJOB other x 0\r\n", 1).await;
    let got = lines(&mut admin, "GETJOB FROM other\r\n", 8).await;
    let stolen = lines(&mut client, &format!("ACKJOB {}\r\n", got[5]), 1).await;
    assert_eq!(stolen, [":0"]);
    let kept = lines(&mut admin, &format!("ACKJOB {}\r\n", got[5]), 1).await;
    assert_eq!(kept, [":1"]);
    // A token that is revoked is worth nothing on connections that it opened, either.
    file.change(|tokens| {
        let id = tokens.list()[0].id.clone();
        Ok(tokens.without(&id).unwrap())
    })
    .unwrap();
    bench.app.auth.reload();
    let gone = lines(&mut client, "PING\r\n", 1).await;
    assert!(gone[0].starts_with("-NOAUTH "), "{gone:?}");
}

#[tokio::test]
async fn a_job_of_another_queue_is_answered_like_one_that_never_was() {
    let grants: [&[&str]; 2] = [&["lease:mine", "read:mine", "operate:mine"], &["admin:*"]];
    let (bench, secrets, _, _dir) = guarded(&grants);
    let (mut client, mut admin) = (bench.connect(), bench.connect());
    lines(&mut client, &format!("AUTH {}\r\n", secrets[0]), 1).await;
    lines(&mut admin, &format!("AUTH {}\r\n", secrets[1]), 1).await;
    let added = lines(&mut admin, "ADDJOB other x 0 DELAY 100\r\n", 1).await;
    let theirs = added[0][1..].to_owned();
    let got = {
        lines(&mut admin, "ADDJOB other y 0\r\n", 1).await;
        lines(&mut admin, "GETJOB FROM other\r\n", 8).await
    };
    // The same, but for the time that is in an id.
    let never = format!("{}AAAAAAAA{}", &theirs[..11], &theirs[19..]);
    let nobodys = format!("{}AAAAAAAA{}", &got[5][..11], &got[5][19..]);
    for command in [
        "ACKJOB", "FASTACK", "NACK", "WORKING", "ENQUEUE", "DEQUEUE", "DELJOB", "SHOW",
    ] {
        for (theirs, never) in [(&theirs, &never), (&got[5], &nobodys)] {
            let foreign = lines(&mut client, &format!("{command} {theirs}\r\n"), 1).await;
            let unknown = lines(&mut client, &format!("{command} {never}\r\n"), 1).await;
            assert_eq!(foreign, unknown, "{command}");
        }
    }
    let leased = lines(&mut client, &format!("AUXO.LEASE JOB {theirs}\r\n"), 1).await;
    assert_eq!(leased, ["*0"]);
    for command in ["AUXO.JOB", "AUXO.KICK", "AUXO.CANCEL"] {
        let foreign = lines(&mut client, &format!("{command} {theirs}\r\n"), 1).await;
        assert!(foreign[0].starts_with("-NOT_FOUND "), "{foreign:?}");
    }
    // And nothing happened to them.
    let row = format!("AUXO.CANCEL {theirs}\r\nACKJOB {}\r\n", got[5]);
    assert_eq!(lines(&mut admin, &row, 2).await, ["+cancelled", ":1"]);
}

/// Returns when somebody waits for a job.
async fn until_waiting(bench: &Bench) {
    while bench.app.resp.waiting.load(Relaxed) == 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn who_waits_with_a_token_that_is_revoked_is_told_and_gets_nothing() {
    for wait in ["GETJOB FROM mail", "AUXO.LEASE WAIT 60s FROM mail"] {
        let (bench, secrets, file, _dir) = guarded(&[&["lease:mail"], &["admin:*"]]);
        let (mut client, mut admin) = (bench.connect(), bench.connect());
        lines(&mut client, &format!("AUTH {}\r\n", secrets[0]), 1).await;
        lines(&mut admin, &format!("AUTH {}\r\n", secrets[1]), 1).await;
        let row = format!("{wait}\r\n").repeat(3) + "PING\r\n";
        client.write_all(row.as_bytes()).await.unwrap();
        until_waiting(&bench).await;
        file.change(|tokens| {
            let id = tokens.list()[0].id.clone();
            Ok(tokens.without(&id).unwrap())
        })
        .unwrap();
        bench.app.auth.reload();
        let answers = lines(&mut client, "", 4).await;
        assert!(
            answers.iter().all(|answer| answer.starts_with("-NOAUTH ")),
            "{answers:?}"
        );
        lines(&mut admin, "ADDJOB mail x 0\r\n", 1).await;
        assert_eq!(lines(&mut admin, "QLEN mail\r\n", 1).await, [":1"]);
    }
}

#[tokio::test]
async fn one_getjob_takes_no_more_than_an_answer_has_room_for() {
    let bench = Bench::new();
    let body = bytes::Bytes::from(vec![b'x'; 500_000]);
    for queue in ["a", "b"] {
        let spec = auxo_core::JobSpec {
            payload: body.clone(),
            ..auxo_core::JobSpec::default()
        };
        let queue = QueueName::new(queue).unwrap();
        let jobs = vec![NewJob { queue, spec }; 50];
        bench.app.service.push(jobs).await.unwrap();
    }
    let mut client = bench.connect();
    let got = lines(&mut client, "GETJOB NOHANG COUNT 1000 FROM a a b\r\n", 1).await;
    let count: usize = got[0][1..].parse().unwrap();
    assert!((1..=40).contains(&count), "{count}");
}

#[tokio::test]
async fn to_call_off_a_job_that_one_was_not_given_is_an_operators_move() {
    let grants: [&[&str]; 2] = [&["push:q", "lease:q"], &["admin:*"]];
    let (mut settings, secrets, _, dir) = guarded_settings(&grants);
    settings.trail = Trail::open(dir.path().join("audit.jsonl")).unwrap();
    let bench = Bench::with(settings);
    let (mut worker, mut admin) = (bench.connect(), bench.connect());
    lines(&mut worker, &format!("AUTH {}\r\n", secrets[0]), 1).await;
    lines(&mut admin, &format!("AUTH {}\r\n", secrets[1]), 1).await;
    let added = lines(&mut worker, "ADDJOB q x 0 DELAY 100\r\n", 1).await;
    let ack = format!("ACKJOB {}\r\n", &added[0][1..]);
    assert_eq!(lines(&mut worker, &ack, 1).await, [":0"]);
    assert!(audited(&dir).is_empty());
    assert_eq!(lines(&mut admin, &ack, 1).await, [":1"]);
    assert_eq!(audited(&dir)[0]["what"], "cancel");
    // So is to send one back that somebody else has, also by the id of its delivery.
    lines(&mut worker, "ADDJOB q y 0\r\n", 1).await;
    let got = lines(&mut worker, "GETJOB FROM q\r\n", 8).await;
    let enqueue = format!("ENQUEUE {}\r\n", got[5]);
    let refused = lines(&mut worker, &enqueue, 1).await;
    assert!(refused[0].starts_with("-NOPERM "), "{refused:?}");
    assert_eq!(lines(&mut admin, &enqueue, 1).await, [":1"]);
    assert_eq!(audited(&dir)[2]["what"], "kick");
}

#[tokio::test(start_paused = true)]
async fn a_stranger_gets_little_and_not_for_long() {
    let (bench, _, _, _dir) = guarded(&[&["admin:*"]]);
    let mut client = bench.connect();
    client.write_all(&[b'x'; 64 << 10]).await.unwrap();
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).await.unwrap();
    assert!(rest.len() < 4 << 10, "{}", rest.len());
    let mut silent = bench.connect();
    silent.read_to_end(&mut rest).await.unwrap();
}

/// The lines of an audit log.
fn audited(dir: &tempfile::TempDir) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(dir.path().join("audit.jsonl")).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    lines.collect()
}

#[tokio::test]
async fn what_operators_do_is_written_down_and_what_workers_do_is_not() {
    let (mut settings, secrets, _, dir) = guarded_settings(&[&["admin:*"]]);
    settings.trail = Trail::open(dir.path().join("audit.jsonl")).unwrap();
    let trail = settings.trail.clone();
    let bench = Bench::with(settings);
    let mut client = bench.connect();
    lines(&mut client, &format!("AUTH {}\r\n", secrets[0]), 1).await;
    bench.calls();
    // A worker's day, and not a call more than it took before there was an audit log.
    let row = "ADDJOB q x 0\r\nADDJOB q y 0\r\nADDJOB q z 0 DELAY 100\r\n";
    let added = lines(&mut client, row, 3).await;
    let got = lines(&mut client, "GETJOB COUNT 2 FROM q\r\n", 15).await;
    let row = format!("ACKJOB {}\r\nACKJOB {}\r\n", got[5], got[12]);
    assert_eq!(lines(&mut client, &row, 2).await, [":1", ":1"]);
    assert_eq!(bench.calls(), [("push", 3), ("lease", 2), ("settle", 2)]);
    assert!(audited(&dir).is_empty());

    let late = added[2][1..].to_owned();
    let moves = [
        (format!("ENQUEUE {late}"), ":1", "kick", 1),
        (format!("DEQUEUE {late}"), ":1", "reschedule", 1),
        ("PAUSE q all".to_owned(), "+all", "pause", 1),
        ("PAUSE q none".to_owned(), "+none", "resume", 1),
        (format!("AUXO.KICK {late}"), "+ready", "kick", 1),
        (format!("AUXO.CANCEL {late}"), "+cancelled", "cancel", 1),
        (format!("DELJOB {late}"), ":0", "delete", 0),
    ];
    for (command, answer, what, moved) in &moves {
        let before = audited(&dir).len();
        let answers = lines(&mut client, &format!("{command}\r\n"), 1).await;
        assert_eq!(answers, [*answer], "{command}");
        let new = audited(&dir).split_off(before);
        let [asked, ended] = &new[..] else {
            panic!("{command}: {new:?}");
        };
        assert_eq!(asked["what"], *what, "{asked}");
        assert_eq!(
            (&asked["via"], &asked["who"]),
            (&"resp".into(), &"t".into())
        );
        assert_eq!(asked["from"], "127.0.0.1");
        let token = secrets[0].split('_').nth(1).unwrap();
        assert_eq!(asked["token"], token);
        assert_eq!(
            (&ended["outcome"], &ended["moved"]),
            (&"done".into(), &(*moved).into())
        );
        assert_eq!(asked["move"], ended["move"]);
    }
    // To look changes nothing, and nor does what is so already.
    let before = audited(&dir).len();
    let looks = lines(
        &mut client,
        "PAUSE q state\r\nPAUSE q none\r\nQLEN q\r\n",
        3,
    )
    .await;
    assert_eq!(looks[..2], ["+none", "+none"]);
    assert_eq!(audited(&dir).len(), before);

    // Where it cannot be written down, it is not done.
    trail.fill_up();
    let added = lines(&mut client, "ADDJOB q x 0 DELAY 100\r\n", 1).await;
    bench.calls();
    let late = &added[0][1..];
    for command in ["ENQUEUE", "DEQUEUE", "DELJOB", "AUXO.KICK", "AUXO.CANCEL"] {
        let refused = lines(&mut client, &format!("{command} {late}\r\n"), 1).await;
        assert!(
            refused[0].starts_with("-UNAVAILABLE the audit log"),
            "{refused:?}"
        );
    }
    let refused = lines(&mut client, "PAUSE q in\r\n", 1).await;
    assert!(
        refused[0].starts_with("-UNAVAILABLE the audit log"),
        "{refused:?}"
    );
    assert_eq!(bench.calls(), [("queues", 1)]);
}

#[tokio::test]
async fn a_user_is_the_token_by_its_name_or_id_and_any_other_is_a_wrong_password() {
    let (bench, secrets, _, _dir) = guarded(&[&["admin:*"]]);
    let secret = &secrets[0];
    let id = secret.split('_').nth(1).unwrap();
    let mut client = bench.connect();
    let row = format!("AUTH default auxo_{id}_wrong\r\n");
    let wrong = lines(&mut client, &row, 1).await;
    for user in ["default", "t", id] {
        let row = format!("AUTH {user} {secret}\r\nPING\r\n");
        assert_eq!(
            lines(&mut client, &row, 2).await,
            ["+OK", "+PONG"],
            "{user}"
        );
        let row = format!("HELLO 2 AUTH {user} {secret}\r\n");
        assert_eq!(lines(&mut client, &row, 26).await[0], "*14", "{user}");
    }
    // A right token under a wrong name is told, and counted, like a wrong one.
    let mut stranger = bench.connect();
    for user in ["T", "ops", "Default"] {
        let row = format!("AUTH {user} {secret}\r\nPING\r\n");
        let refused = lines(&mut stranger, &row, 2).await;
        assert_eq!(refused[0], wrong[0], "{user}");
        assert!(refused[1].starts_with("-NOAUTH "), "{user}: {refused:?}");
    }
    let row = format!("HELLO 3 AUTH ops {secret}\r\n");
    assert_eq!(lines(&mut stranger, &row, 1).await, wrong);
    let many = lines(&mut stranger, &format!("AUTH ops {secret}\r\n"), 1).await;
    assert!(many[0].starts_with("-RATE_LIMITED "), "{many:?}");
}
