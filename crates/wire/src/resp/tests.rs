use std::time::Duration;

use auxo_core::engine::{Ask, Extend, Outcome, Pick, Retry, Settle, Which};
use auxo_core::job::{Key, OnDuplicate, Ttl};
use auxo_core::{JobId, JobSpec, NewJob, QueueName, State, Token, When};
use bytes::BytesMut;
use proptest::prelude::*;

use super::*;

const LARGEST: usize = 100;

/// Everything that comes out of these bytes, fed in pieces, and what ended it.
fn items<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Item>, Option<Broken>) {
    let (mut decoder, mut buf) = (Decoder::new(LARGEST, 1), BytesMut::new());
    let mut items = Vec::new();
    for piece in pieces {
        buf.extend_from_slice(piece);
        loop {
            match decoder.decode(&mut buf) {
                Ok(Some(item)) => items.push(item),
                Ok(None) => break,
                Err(broken) => return (items, Some(broken)),
            }
        }
        assert!(buf.len() <= 2 * (LARGEST + SLACK) + 2 * INLINE);
    }
    (items, None)
}

/// A request as clients write it.
fn request(words: &[&str]) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    array(&mut bytes, words.len());
    words
        .iter()
        .for_each(|word| bulk(&mut bytes, word.as_bytes()));
    bytes.to_vec()
}

fn one(line: &str) -> Item {
    // Typed as a line, and sent as an array, it means the same.
    let mut places = Vec::new();
    let words = inline::split(line.as_bytes(), &mut places).unwrap();
    let words: Vec<&str> = places
        .iter()
        .map(|(begin, end)| std::str::from_utf8(&words[*begin..*end]).unwrap())
        .collect();
    let (mut sent, broken) = items([&request(&words)[..]]);
    assert_eq!(broken, None, "{line}");
    assert_eq!(
        items([format!("{line}\r\n").as_bytes()]),
        (sent.clone(), None)
    );
    assert_eq!(sent.len(), 1, "{line}: {sent:?}");
    sent.remove(0)
}

fn asked(line: &str) -> Command {
    match one(line) {
        Item::Command(command) => command,
        wrong => panic!("{line}: {wrong:?}"),
    }
}

fn refused(line: &str) -> String {
    match one(line) {
        Item::Wrong(Reply::Error(text)) => text.into_owned(),
        other => panic!("{line}: {other:?}"),
    }
}

fn name(text: &str) -> QueueName {
    QueueName::new(text).unwrap()
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn job() -> AddJob {
    AddJob {
        queue: name("q"),
        body: "body".into(),
        delay: Duration::ZERO,
        retry: seconds(300),
        ttl: seconds(86_400),
        maxlen: None,
    }
}

fn get(queues: &[&str]) -> GetJob {
    GetJob {
        queues: queues.iter().map(|queue| name(queue)).collect(),
        count: 1,
        wait: None,
        counters: false,
    }
}

#[test]
fn jobs_are_added_with_the_defaults_of_disque() {
    assert_eq!(asked("ADDJOB q body 0"), Command::AddJob(job()));
    let all = "addjob q body 100 replicate 1 delay 2 retry 3 ttl 4 maxlen 5 async";
    let expected = AddJob {
        delay: seconds(2),
        retry: seconds(3),
        ttl: seconds(4),
        maxlen: Some(5),
        ..job()
    };
    assert_eq!(asked(all), Command::AddJob(expected));
    for (ttl, retry) in [(1, 1), (19, 1), (20, 2), (3000, 300), (100_000, 300)] {
        let expected = AddJob {
            retry: seconds(retry),
            ttl: seconds(ttl),
            ..job()
        };
        let line = format!("ADDJOB q body 0 TTL {ttl}");
        assert_eq!(asked(&line), Command::AddJob(expected));
    }
    let once = AddJob {
        retry: Duration::ZERO,
        ..job()
    };
    assert_eq!(asked("ADDJOB q body 0 RETRY 0"), Command::AddJob(once));
}

#[test]
fn a_job_is_replicated_as_far_as_the_store_does() {
    let item = |copies, words: &[&str]| {
        let mut bytes = BytesMut::from(&request(words)[..]);
        let item = Decoder::new(LARGEST, copies).decode(&mut bytes);
        match item.unwrap().unwrap() {
            Item::Command(_) => "OK".to_owned(),
            Item::Wrong(Reply::Error(text)) => text.into_owned(),
            other => panic!("{other:?}"),
        }
    };
    let norepl = "NOREPL Not enough reachable nodes for the requested replication level";
    let add = |copies, n| item(copies, &["ADDJOB", "q", "x", "0", "REPLICATE", n]);
    assert_eq!(add(1, "1"), "OK");
    assert_eq!(add(1, "2"), norepl);
    assert_eq!(add(2, "2"), "OK");
    assert_eq!(add(2, "3"), norepl);
    assert_eq!(item(5, &["ADDJOB", "q", "x", "0"]), "OK");
    let once = ["ADDJOB", "q", "x", "0", "RETRY", "0"];
    assert_eq!(item(1, &once), "OK");
    assert_eq!(
        item(2, &once),
        "ERR With RETRY set to 0 please explicitly set  REPLICATE to 1 (at-most-once delivery)"
    );
    let once = ["ADDJOB", "q", "x", "0", "RETRY", "0", "REPLICATE", "1"];
    assert_eq!(item(2, &once), "OK");
}

#[test]
fn jobs_are_asked_for_in_every_way() {
    let zero = Some(Duration::ZERO);
    for (line, expected) in [
        ("GETJOB FROM a", get(&["a"])),
        ("getjob from a b a", get(&["a", "b", "a"])),
        ("GETJOB FROM from count", get(&["from", "count"])),
        (
            "GETJOB NOHANG TIMEOUT 5 FROM a",
            GetJob {
                wait: zero,
                ..get(&["a"])
            },
        ),
        (
            "GETJOB TIMEOUT 0 FROM a",
            GetJob {
                wait: None,
                ..get(&["a"])
            },
        ),
        (
            "GETJOB TIMEOUT 1500 COUNT 7 WITHCOUNTERS FROM a",
            GetJob {
                wait: Some(Duration::from_millis(1500)),
                count: 7,
                counters: true,
                ..get(&["a"])
            },
        ),
        (
            "GETJOB COUNT 9223372036854775807 FROM a",
            GetJob {
                count: u32::MAX,
                ..get(&["a"])
            },
        ),
    ] {
        assert_eq!(asked(line), Command::GetJob(expected), "{line}");
    }
}

#[test]
fn the_other_commands_of_disque_are_understood() {
    let (seven, token) = (Id::Job(JobId(7)), token());
    let delivery = Id::of_delivery(token, Life::new(None, seconds(1))).unwrap();
    let delivery = std::str::from_utf8(&delivery).unwrap();
    let both = vec![seven, Id::Delivery(token)];
    let qscan = QScan {
        cursor: 0,
        count: 100,
        all: false,
        minlen: None,
        maxlen: None,
        importrate: None,
    };
    let jscan = JScan {
        cursor: 0,
        count: 100,
        all: false,
        queue: None,
        states: None,
        whole: false,
    };
    let pause = |set| {
        Command::Pause(Pause {
            queue: name("q"),
            set,
        })
    };
    for (line, command) in [
        (
            &format!("ACKJOB 7 {delivery}") as &str,
            Command::AckJob(both.clone()),
        ),
        ("ACKJOB", Command::AckJob(vec![])),
        (
            &format!("FASTACK 7 {delivery}"),
            Command::FastAck(both.clone()),
        ),
        (&format!("NACK 7 {delivery}"), Command::Nack(both.clone())),
        (
            &format!("ENQUEUE 7 {delivery}"),
            Command::Enqueue(both.clone()),
        ),
        (
            &format!("DEQUEUE 7 {delivery}"),
            Command::Dequeue(both.clone()),
        ),
        (&format!("DELJOB 7 {delivery}"), Command::DelJob(both)),
        ("WORKING 7", Command::Working(seven)),
        ("SHOW 7", Command::Show(seven)),
        ("QLEN q", Command::QLen(name("q"))),
        ("QPEEK q -5", Command::QPeek(name("q"), -5)),
        ("QSTAT q", Command::QStat(name("q"))),
        ("QSCAN", Command::QScan(qscan)),
        (
            "QSCAN COUNT 5 17 BUSYLOOP MINLEN 1 MAXLEN 2 IMPORTRATE 3",
            Command::QScan(QScan {
                cursor: 17,
                count: 5,
                all: true,
                minlen: Some(1),
                maxlen: Some(2),
                importrate: Some(3),
            }),
        ),
        ("JSCAN", Command::JScan(jscan.clone())),
        (
            "JSCAN 17 COUNT -1 BUSYLOOP QUEUE q STATE queued STATE ACTIVE REPLY all",
            Command::JScan(JScan {
                cursor: 17,
                count: 1,
                all: true,
                queue: Some(name("q")),
                states: Some(vec![State::Ready, State::Scheduled, State::Leased]),
                whole: true,
            }),
        ),
        (
            "JSCAN STATE wait-repl REPLY id",
            Command::JScan(JScan {
                states: Some(vec![]),
                ..jscan
            }),
        ),
        ("PAUSE q in", pause(Some((true, false)))),
        ("PAUSE q out bcast", pause(Some((false, true)))),
        ("PAUSE q in out", pause(Some((true, true)))),
        ("PAUSE q all", pause(Some((true, true)))),
        ("PAUSE q all none", pause(Some((false, false)))),
        ("PAUSE q state", pause(None)),
        ("HELLO", Command::Hello(Hello::Nodes)),
    ] {
        assert_eq!(asked(line), command, "{line}");
    }
}

#[test]
fn what_clients_of_redis_send_is_understood() {
    let speak = |version, auth: Option<(&str, &str)>, name: Option<&str>| {
        Command::Hello(Hello::Speak {
            version,
            auth: auth.map(|(user, password)| (user.to_owned().into(), password.to_owned().into())),
            name: name.map(str::to_owned),
        })
    };
    let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    for (line, command) in [
        ("HELLO 2", speak(Version::Two, None, None)),
        (
            "HELLO 3 AUTH a b SETNAME c",
            speak(Version::Three, Some(("a", "b")), Some("c")),
        ),
        ("INFO", Command::Info(None)),
        ("INFO Server", Command::Info(Some("server".into()))),
        (
            "AUTH x",
            Command::Auth {
                user: None,
                password: "x".into(),
            },
        ),
        (
            "AUTH u x",
            Command::Auth {
                user: Some("u".into()),
                password: "x".into(),
            },
        ),
        ("PING", Command::Ping(None)),
        ("PING hi", Command::Ping(Some("hi".into()))),
        ("ECHO hi", Command::Echo("hi".into())),
        ("TIME", Command::Time),
        ("COMMAND", Command::Command(CommandQuestion::Info(None))),
        (
            "COMMAND INFO GetJob",
            Command::Command(CommandQuestion::Info(Some(names(&["getjob"])))),
        ),
        ("COMMAND COUNT", Command::Command(CommandQuestion::Count)),
        ("COMMAND LIST", Command::Command(CommandQuestion::List)),
        (
            "COMMAND DOCS",
            Command::Command(CommandQuestion::Docs(vec![])),
        ),
        (
            "CLIENT SETNAME me",
            Command::Client(ClientCommand::SetName("me".into())),
        ),
        (
            "CLIENT SETNAME \"\"",
            Command::Client(ClientCommand::SetName(String::new())),
        ),
        ("CLIENT GETNAME", Command::Client(ClientCommand::GetName)),
        (
            "CLIENT SETINFO LIB-NAME x",
            Command::Client(ClientCommand::Ignored),
        ),
        ("CLIENT ID", Command::Client(ClientCommand::Id)),
        ("CLIENT INFO", Command::Client(ClientCommand::Info)),
        ("CLIENT LIST", Command::Client(ClientCommand::List)),
        (
            "CLIENT REPLY SKIP",
            Command::Client(ClientCommand::Reply(Muting::Skip)),
        ),
        (
            "CONFIG GET Save maxclients",
            Command::ConfigGet(names(&["save", "maxclients"])),
        ),
        ("SELECT 0", Command::Select),
        ("QUIT", Command::Quit),
        ("RESET", Command::Reset),
    ] {
        assert_eq!(asked(line), command, "{line}");
    }
}

fn token() -> Token {
    Token {
        job: JobId(7),
        counter: 9,
        nonce: 0xabc,
    }
}

#[test]
fn our_own_commands_take_every_field() {
    let spec = JobSpec {
        payload: "{}".into(),
        kind: "mail".into(),
        headers: [("a".to_owned(), "b".to_owned())].into(),
        priority: 5,
        when: When::After(seconds(10)),
        ttr: Duration::from_millis(1500),
        ttl: Ttl::After(seconds(3600)),
        max_attempts: 3,
        key: Some(Key {
            name: "17".into(),
            on_duplicate: OnDuplicate::Return,
            window: seconds(60),
        }),
        group: Some("g".into()),
        retention: seconds(1),
        ..JobSpec::default()
    };
    let push = Command::Push(Box::new(NewJob {
        queue: name("q"),
        spec,
    }));
    let pairs = "AUXO.PUSH q {} kind mail headers '{\"a\":\"b\"}' PRIORITY 5 delay 10s ttr 1500 ttl 1h max_attempts 3 \
                 key 17 on_duplicate return key_window 1m group g retention 1s";
    assert_eq!(asked(pairs), push);
    let document = "AUXO.PUSH q {} '{\"kind\":\"mail\",\"headers\":{\"a\":\"b\"},\"priority\":5,\"delay\":\"10s\",\
                    \"ttr\":1500,\"ttl\":\"1h\",\"max_attempts\":3,\"key\":\"17\",\"on_duplicate\":\"return\",\
                    \"key_window\":\"1m\",\"group\":\"g\",\"retention\":\"1s\"}'";
    assert_eq!(asked(document), push);
    let bare = Command::Push(Box::new(NewJob {
        queue: name("q"),
        spec: JobSpec {
            payload: "x".into(),
            ..JobSpec::default()
        },
    }));
    assert_eq!(asked("auxo.push q x"), bare);
}

#[test]
fn our_own_commands_are_understood() {
    let token = token();
    let delivery = Id::of_delivery(token, Life::new(None, seconds(1))).unwrap();
    let delivery = std::str::from_utf8(&delivery).unwrap();
    let settle = |outcome| Command::Settle(Box::new(Settle { token, outcome }));
    let extend = |ttr, progress: Option<&str>| {
        Command::Extend(Box::new(Extend {
            token,
            ttr,
            progress: progress.map(|text| text.to_owned().into()),
        }))
    };
    let ask = |pick, max, wait, ttr, worker: &str| {
        Command::Lease(Box::new(Ask {
            queues: vec![name("a"), name("b")],
            job: None,
            pick,
            max,
            wait,
            ttr,
            worker: worker.into(),
        }))
    };
    let fail = Outcome::Fail {
        error: "no such address".into(),
        delay: Some(seconds(10)),
        retry: Retry::Never,
    };
    for (line, command) in [
        (
            "AUXO.LEASE FROM a b" as &str,
            ask(Pick::First, 1, Duration::ZERO, None, ""),
        ),
        (
            "AUXO.LEASE PICK most_urgent FROM a b",
            ask(Pick::MostUrgent, 1, Duration::ZERO, None, ""),
        ),
        (
            "auxo.lease pick FIRST from a b",
            ask(Pick::First, 1, Duration::ZERO, None, ""),
        ),
        (
            "AUXO.LEASE MAX 5 WAIT 5s TTR 1m WORKER me FROM a b",
            ask(Pick::First, 5, seconds(5), Some(seconds(60)), "me"),
        ),
        (
            &format!("AUXO.SETTLE {token} ack"),
            settle(Outcome::Ack { result: None }),
        ),
        (
            &format!("AUXO.SETTLE {delivery} ACK RESULT done"),
            settle(Outcome::Ack {
                result: Some("done".into()),
            }),
        ),
        (
            &format!("AUXO.SETTLE {token} fail error \"no such address\" delay 10s retry false"),
            settle(fail),
        ),
        (
            &format!("AUXO.SETTLE {token} snooze delay 1m"),
            settle(Outcome::Snooze { delay: seconds(60) }),
        ),
        (&format!("AUXO.EXTEND {token}"), extend(None, None)),
        (
            &format!("AUXO.EXTEND {delivery} ttr 5s progress half"),
            extend(Some(seconds(5)), Some("half")),
        ),
        ("AUXO.EXPLAIN 7", Command::Explain(Which::Id(JobId(7)))),
        (
            &format!("AUXO.JOB {delivery}"),
            Command::Job(Which::Id(JobId(7))),
        ),
        (
            "AUXO.JOB q k",
            Command::Job(Which::Key(name("q"), "k".into())),
        ),
        ("AUXO.QUEUES", Command::Queues(vec![])),
        (
            "AUXO.QUEUES a b",
            Command::Queues(vec![name("a"), name("b")]),
        ),
        ("AUXO.KICK 7", Command::Kick(JobId(7))),
        ("AUXO.CANCEL 7", Command::Cancel(JobId(7))),
    ] {
        assert_eq!(asked(line), command, "{line}");
    }
}

#[test]
fn what_is_wrong_is_answered_in_the_words_of_disque() {
    for (line, error) in [
        ("FOO bar", "ERR unknown command 'FOO'"),
        (
            "ADDJOB q body",
            "ERR wrong number of arguments for 'addjob' command",
        ),
        ("SHOW", "ERR wrong number of arguments for 'show' command"),
        (
            "qlen a b",
            "ERR wrong number of arguments for 'qlen' command",
        ),
        (
            "GETJOB",
            "ERR wrong number of arguments for 'getjob' command",
        ),
        (
            "PING a b",
            "ERR wrong number of arguments for 'ping' command",
        ),
        (
            "ADDJOB q body x",
            "ERR timeout is not an integer or out of range",
        ),
        ("ADDJOB q body -1", "ERR timeout is negative"),
        ("ADDJOB q body 0 FOO", "ERR syntax error"),
        ("ADDJOB q body 0 TTL", "ERR syntax error"),
        ("ADDJOB q body 0 TTL 0", "ERR TTL must be a number > 0"),
        ("ADDJOB q body 0 TTL x", "ERR TTL must be a number > 0"),
        (
            "ADDJOB q body 0 RETRY -1",
            "ERR RETRY time must be a non negative number",
        ),
        (
            "ADDJOB q body 0 DELAY -1",
            "ERR DELAY time must be a non negative number",
        ),
        (
            "ADDJOB q body 0 MAXLEN 0",
            "ERR MAXLEN must be a positive number",
        ),
        (
            "ADDJOB q body 0 REPLICATE 0",
            "ERR REPLICATE must be between 1 and 65535",
        ),
        (
            "ADDJOB q body 0 REPLICATE 65536",
            "ERR REPLICATE must be between 1 and 65535",
        ),
        (
            "ADDJOB q body 0 DELAY 60 TTL 60",
            "ERR The specified DELAY is greater than TTL. Job refused since would never be delivered",
        ),
        (
            "ADDJOB q body 0 REPLICATE 2",
            "NOREPL Not enough reachable nodes for the requested replication level",
        ),
        ("ADDJOB -q body 0", "ERR queue name \"-q\" starts with '-'"),
        ("GETJOB FROM", "ERR syntax error"),
        ("GETJOB NOHANG", "ERR syntax error"),
        ("GETJOB a b", "ERR syntax error"),
        (
            "GETJOB COUNT 0 FROM a",
            "ERR COUNT must be a number greater than zero",
        ),
        (
            "GETJOB COUNT x FROM a",
            "ERR COUNT must be a number greater than zero",
        ),
        (
            "GETJOB TIMEOUT x FROM a",
            "ERR timeout is not an integer or out of range",
        ),
        ("GETJOB TIMEOUT -1 FROM a", "ERR timeout is negative"),
        ("ACKJOB 7 foo", "BADID Invalid Job ID format."),
        ("SHOW D-", "BADID Invalid Job ID format."),
        ("QPEEK q x", "ERR value is not an integer or out of range"),
        ("QSCAN x", "ERR invalid cursor"),
        ("QSCAN 1 2", "ERR syntax error"),
        (
            "QSCAN COUNT x",
            "ERR value is not an integer or out of range",
        ),
        ("JSCAN STATE foo", "ERR Invalid job state name"),
        ("JSCAN REPLY foo", "ERR Invalid REPLY type, try ID or ALL"),
        ("JSCAN -1", "ERR invalid cursor"),
        ("PAUSE q foo", "ERR syntax error"),
        (
            "PAUSE q",
            "ERR wrong number of arguments for 'pause' command",
        ),
        (
            "HELLO x",
            "ERR Protocol version is not an integer or out of range",
        ),
        ("HELLO 4", "NOPROTO unsupported protocol version"),
        ("HELLO 3 AUTH a", "ERR Syntax error in HELLO option 'AUTH'"),
        (
            "CLIENT SETNAME \"a b\"",
            "ERR Client names cannot contain spaces, newlines or special characters.",
        ),
        (
            "CLIENT KILL x",
            "ERR unknown subcommand or wrong number of arguments for 'KILL' of CLIENT",
        ),
        (
            "CONFIG SET a b",
            "ERR unknown subcommand or wrong number of arguments for 'SET' of CONFIG",
        ),
        ("SELECT 1", "ERR DB index is out of range"),
        ("SELECT x", "ERR invalid DB index"),
        ("AUXO.PUSH q x kind", "BAD_REQUEST kind: has no value"),
        (
            "AUXO.PUSH q x key a KEY b",
            "BAD_REQUEST key: is there twice",
        ),
        (
            "AUXO.PUSH q x payload y",
            "BAD_REQUEST payload: stands behind the queue already",
        ),
        (
            "AUXO.LEASE a b",
            "BAD_REQUEST a: is unknown; known are max, wait, ttr, worker, pick, job, from",
        ),
        (
            "AUXO.LEASE PICK oldest FROM a",
            "BAD_REQUEST pick: expected one of first, most_urgent, not \"oldest\"",
        ),
        ("AUXO.LEASE MAX 1 FROM", "BAD_REQUEST from: names no queue"),
        (
            "AUXO.SETTLE 7-9-0000000000000abc fail result x",
            "BAD_REQUEST result: goes with outcome ack only",
        ),
        (
            "AUXO.SETTLE x ack",
            "BAD_REQUEST token \"x\" is not one that a lease gave out",
        ),
        (
            "AUXO.KICK D-0000000g-AAAAAAAAAAEAAAAAAAAAAAAA-05a1",
            "NOT_FOUND there is no job with such an id",
        ),
        (
            "AUXO.KICK x",
            "BAD_REQUEST job id \"x\" is not a decimal number of 64 bits",
        ),
    ] {
        assert_eq!(refused(line), error, "{line}");
    }
}

#[test]
fn every_command_is_in_the_table_once_and_in_small_letters() {
    for (place, spec) in COMMANDS.iter().enumerate() {
        let same = |other: &Spec| other.name == spec.name;
        assert_eq!(COMMANDS.iter().position(same), Some(place), "{}", spec.name);
        assert_eq!(spec.name, spec.name.to_ascii_lowercase());
        assert!(!spec.summary.is_empty());
    }
}

#[test]
fn wrong_framing_is_told_and_ends_it() {
    let long = format!("*{}", "0".repeat(40));
    let endless = "x".repeat(INLINE + 1);
    for (text, what) in [
        ("*x\r\n", "invalid multibulk length"),
        ("*\r\n", "invalid multibulk length"),
        ("*1\rx", "invalid multibulk length"),
        ("*10001\r\n", "invalid multibulk length"),
        ("*99999999999999999999\r\n", "invalid multibulk length"),
        (&long, "too big mbulk count string"),
        ("*1\r\nPING\r\n", "expected '$', got 'P'"),
        ("*1\r\n\x01", "expected '$', got '?'"),
        ("*1\r\n$x\r\n", "invalid bulk length"),
        ("*1\r\n$-1\r\n", "invalid bulk length"),
        ("*1\r\n$4294967296\r\n", "invalid bulk length"),
        ("*1\r\n$9223372036854775807\r\n", "invalid bulk length"),
        ("*1\r\n$5000\r\n", "invalid bulk length"),
        ("*1\r\n$4\r\nPINGxx", "expected CRLF behind an argument"),
        ("PING \"x\r\n", "unbalanced quotes in request"),
        (&endless, "too big inline request"),
    ] {
        let broken = Broken::Protocol(what.to_owned());
        let reply = Reply::wrong(format_args!("Protocol error: {what}"));
        assert_eq!(broken.reply(), Some(reply));
        assert_eq!(items([text.as_bytes()]), (vec![], Some(broken)), "{text:?}");
    }
}

#[test]
fn what_came_before_wrong_framing_is_answered() {
    let (items, broken) = items([&b"*1\r\n$4\r\nTIME\r\n*1\r\n+"[..]]);
    assert_eq!(items, [Item::Command(Command::Time)]);
    assert_eq!(
        broken,
        Some(Broken::Protocol("expected '$', got '+'".into()))
    );
}

#[test]
fn empty_requests_are_passed_over() {
    let (items, broken) = items([&b"\r\n\n*0\r\n*-1\r\n  \r\nTIME\n"[..]]);
    assert_eq!((items, broken), (vec![Item::Command(Command::Time)], None));
}

#[test]
fn a_body_is_not_copied() {
    let mut buf = BytesMut::from(&request(&["ADDJOB", "q", "hello", "0"])[..]);
    let before = buf.as_ptr() as usize..buf.as_ptr() as usize + buf.len();
    let item = Decoder::new(LARGEST, 1).decode(&mut buf).unwrap();
    let Some(Item::Command(Command::AddJob(add))) = item else {
        panic!("{item:?}");
    };
    assert_eq!(add.body, "hello");
    assert!(before.contains(&(add.body.as_ptr() as usize)));
}

#[test]
fn how_much_of_an_argument_is_missing_is_known() {
    let mut decoder = Decoder::new(LARGEST, 1);
    let mut buf = BytesMut::from("*2\r\n$4\r\nECHO\r\n$10\r\nabc");
    assert_eq!(decoder.decode(&mut buf), Ok(None));
    assert_eq!(decoder.missing(), 9);
    buf.extend_from_slice(b"defghij\r\n");
    assert!(decoder.decode(&mut buf).unwrap().is_some());
    assert_eq!(decoder.missing(), 0);
}

#[test]
fn many_large_arguments_take_no_room() {
    let mut decoder = Decoder::new(1000, 1);
    let mut buf = BytesMut::from("*10000\r\n");
    let argument = format!("$1000\r\n{}\r\n", "x".repeat(1000));
    let refused = (0..10_000).find_map(|_| {
        buf.extend_from_slice(argument.as_bytes());
        decoder.decode(&mut buf).err()
    });
    let broken = Broken::Protocol("invalid bulk length".into());
    assert_eq!(refused, Some(broken));
    assert!(buf.len() < 2 * (1000 + SLACK) + INLINE + 2000);
}

#[test]
fn a_browser_is_recognised() {
    let long = format!("POST /{} HTTP/1.1\r\n", "x".repeat(INLINE));
    for text in [
        "POST / HTTP/1.1\r\n",
        "GET / HTTP/1.1\r\n",
        "PUT / HTTP/1.1\r\n",
        "PRI * HTTP/2.0\r\n",
        "Host: localhost:7711\r\n",
        "hOST: localhost:7711\r\n",
        &long,
    ] {
        let (items, broken) = items([text.as_bytes()]);
        assert_eq!((items, broken), (vec![], Some(Broken::Http)), "{text:?}");
    }
    assert_eq!(Broken::Http.reply(), None);
    // Inside of an argument it is just that.
    let body = request(&["ECHO", "GET / HTTP/1.1\r\n"]);
    assert_eq!(items([&body[..]]).1, None);
}

#[test]
fn a_browser_is_recognised_by_a_long_line_however_it_is_cut() {
    let text = format!("PUT /{} HTTP/1.1\r\n", "x".repeat(INLINE));
    let http = (vec![], Some(Broken::Http));
    assert_eq!(items([text.as_bytes()]), http);
    assert_eq!(items(text.as_bytes().chunks(INLINE + 1)), http);
}

/// Bytes that are likely to mean something.
fn talk() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"\r\n".to_vec()),
        Just(b"\r".to_vec()),
        Just(b"*2\r\n".to_vec()),
        Just(b"$4\r\n".to_vec()),
        Just(b"PING\r\n".to_vec()),
        Just(request(&["ADDJOB", "q", "body", "0", "TTL", "5"])),
        Just(request(&["ACKJOB", "7", "8"])),
        Just(request(&["GETJOB", "FROM", "q"])),
        Just(b"SHOW '7".to_vec()),
        proptest::collection::vec(any::<u8>(), 0..8),
    ];
    proptest::collection::vec(piece, 0..20).prop_map(|pieces| pieces.concat())
}

/// Words that are likely to mean something.
fn words() -> impl Strategy<Value = Vec<String>> {
    let command = proptest::sample::select(COMMANDS).prop_map(|spec| spec.name.to_owned());
    let known = [
        "7",
        "-1",
        "0",
        "from",
        "count",
        "ttl",
        "q",
        "timeout",
        "ack",
        "{}",
        "result",
        "get",
        "reply",
        "7-9-0000000000000abc",
        "3",
        "auth",
        "state",
        "D-00000000-AAAAAAAAAAEAAAAAAAAAAAAA-05a1",
    ];
    let word = prop_oneof![
        proptest::sample::select(known.to_vec()).prop_map(str::to_owned),
        "\\PC{0,5}",
    ];
    (command, proptest::collection::vec(word, 0..8))
        .prop_map(|(command, words)| [vec![command], words].concat())
}

proptest! {
    #[test]
    fn however_bytes_are_cut_the_same_comes_out(bytes in talk(), cuts in proptest::collection::vec(1usize..40, 1..20)) {
        let whole = items([&bytes[..]]);
        let mut rest = &bytes[..];
        let mut pieces = Vec::new();
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, behind) = rest.split_at(rest.len().min(*cut));
            pieces.push(piece);
            rest = behind;
        }
        prop_assert_eq!(whole, items(pieces));
    }

    #[test]
    fn whatever_a_command_is_given_it_is_understood_or_refused(words in words()) {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (items, broken) = items([&request(&words)[..]]);
        prop_assert_eq!((items.len(), broken), (1, None));
    }
}
