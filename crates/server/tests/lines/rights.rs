//! Who may send which command of Disque's port. The table has every command that the server says it knows.

use std::sync::Arc;

use auxo_core::{SystemClock, Timestamp};
use auxo_server::{Auth, Patience, Settings, Token, TokenFile, Trail};
use tempfile::TempDir;

use super::bench::{Bench, Caller, Port};

/// What a command needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// Nothing: it says who is asking, or leaves.
    Nothing,
    /// Any token.
    Token,
    /// This right in the queue `mail`.
    In(&'static str),
    /// This right in every queue.
    Everywhere(&'static str),
}

use Need::{Everywhere, In, Nothing};

/// `{id}` is a job in `mail` that is ready, `{token}` the lease of one.
const COMMANDS: &[(&str, Need)] = &[
    ("ADDJOB mail x 0", In("push")),
    ("AUXO.PUSH mail x", In("push")),
    ("GETJOB NOHANG FROM mail", In("lease")),
    ("ACKJOB {id}", In("lease")),
    ("FASTACK {id}", In("lease")),
    ("NACK {id}", In("lease")),
    ("WORKING {id}", In("lease")),
    ("AUXO.LEASE FROM mail", In("lease")),
    ("AUXO.LEASE JOB {id}", In("lease")),
    ("AUXO.SETTLE {token} ack", In("lease")),
    ("AUXO.EXTEND {token}", In("lease")),
    ("ENQUEUE {id}", In("operate")),
    ("DEQUEUE {id}", In("operate")),
    ("DELJOB {id}", In("operate")),
    ("PAUSE mail none", In("operate")),
    ("AUXO.KICK {id}", In("operate")),
    ("AUXO.CANCEL {id}", In("operate")),
    ("PAUSE mail state", In("read")),
    ("SHOW {id}", In("read")),
    ("QLEN mail", In("read")),
    ("QPEEK mail 1", In("read")),
    ("QSTAT mail", In("read")),
    ("JSCAN QUEUE mail", In("read")),
    ("AUXO.JOB {id}", In("read")),
    ("AUXO.JOB mail key", In("read")),
    ("AUXO.EXPLAIN {id}", In("read")),
    ("AUXO.EXPLAIN mail key", In("read")),
    ("AUXO.QUEUES mail", In("read")),
    ("JSCAN", Everywhere("read")),
    ("QSCAN", Everywhere("read")),
    ("AUXO.QUEUES", Everywhere("read")),
    ("INFO", Everywhere("read")),
    ("HELLO", Need::Token),
    ("PING", Need::Token),
    ("ECHO x", Need::Token),
    ("TIME", Need::Token),
    ("COMMAND COUNT", Need::Token),
    ("CLIENT ID", Need::Token),
    ("CONFIG GET save", Need::Token),
    ("SELECT 0", Need::Token),
    ("AUTH x", Nothing),
    ("RESET", Nothing),
    ("QUIT", Nothing),
];

const RIGHTS: [&str; 5] = ["push", "lease", "read", "operate", "admin"];

/// A server that wants tokens, and the tokens for some grants.
async fn guarded(grants: &[String]) -> (Bench, Vec<String>, TempDir) {
    guarded_with(grants, |_| ()).await
}

async fn guarded_with(
    grants: &[String],
    adjust: impl FnOnce(&mut Settings),
) -> (Bench, Vec<String>, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let file = TokenFile::new(dir.path().join("tokens.toml"));
    let mut secrets = Vec::new();
    for grant in grants {
        let allow = vec![grant.parse().unwrap()];
        let (token, secret) = Token::new("t", allow, Timestamp(0), None).unwrap();
        file.change(|tokens| Ok((tokens.with(token), ()))).unwrap();
        secrets.push(secret.reveal().to_owned());
    }
    let clock = Arc::new(SystemClock::new(Timestamp(0)));
    let patience = Patience {
        delay: std::time::Duration::ZERO,
        ..Patience::default()
    };
    let auth = Auth::open(file, clock, patience).unwrap();
    let trail = Trail::open(dir.path().join("audit.jsonl")).unwrap();
    let bench = Bench::with(|settings| {
        settings.auth = auth;
        settings.trail = trail;
        adjust(settings);
    })
    .await;
    (bench, secrets, dir)
}

fn known(bench: &Bench, secret: &str) -> Caller {
    let mut caller = bench.connect(Port::Resp);
    assert_eq!(caller.ask(format!("AUTH {secret}")), "+OK");
    caller
}

/// The command, with a job to be about, and that job.
fn about_a_job(command: &str, admin: &mut Caller) -> (String, String) {
    let pushed = admin.ask("AUXO.PUSH mail x");
    let (_, id) = pushed.split_once("'id' '").unwrap();
    let id = id.split('\'').next().unwrap();
    let mut command = command.replace("{id}", id);
    if command.contains("{token}") {
        let leased = admin.ask(format!("AUXO.LEASE JOB {id}"));
        let (_, token) = leased.split_once("'token' '").unwrap();
        command = command.replace("{token}", token.split('\'').next().unwrap());
    }
    (command, id.to_owned())
}

/// Everything about a job but for times, which are told by two clocks and not always by the same millisecond.
fn shown(admin: &mut Caller, id: &str) -> String {
    let shown = admin.ask(format!("AUXO.JOB {id}"));
    let words = shown.split(' ').filter(|word| !word.starts_with("'20"));
    words.collect::<Vec<_>>().join(" ")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_command_is_in_the_table_and_closed_to_who_shows_no_right_token() {
    let (bench, secrets, _dir) = guarded(&["admin:*".to_owned()]).await;
    let mut admin = known(&bench, &secrets[0]);
    let names = admin.ask("COMMAND LIST");
    for name in names.trim_matches(['[', ']']).split(' ') {
        let name = name.trim_matches('\'').to_uppercase();
        let here = |(command, _): &(&str, Need)| command.split(' ').next() == Some(&name);
        assert!(COMMANDS.iter().any(here), "{name} is not in the table");
    }
    let wrong = format!("{}x", secrets[0]);
    let (id, _) = secrets[0].rsplit_once('_').unwrap();
    let unknown = "auxo_aaaaaaaa_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa".to_owned();
    let shown = [None, Some(wrong), Some(format!("{id}_")), Some(unknown)];
    for secret in shown {
        for (command, need) in COMMANDS {
            let (command, _) = about_a_job(command, &mut admin);
            let mut stranger = bench.connect(Port::Resp);
            if let Some(secret) = &secret {
                // Past five within a minute it is another word.
                let refused = stranger.ask(format!("AUTH {secret}"));
                let words = ["-WRONGPASS ", "-RATE_LIMITED "];
                assert!(words.iter().any(|w| refused.starts_with(w)), "{refused}");
            }
            let answer = stranger.ask(&command);
            assert_eq!(
                answer.starts_with("-NOAUTH "),
                *need != Nothing,
                "{command}: {answer}"
            );
        }
    }
    admin.ask("QLEN mail");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_opens_the_commands_of_its_right_in_its_queues_and_no_others() {
    let scopes = ["mail", "m*", "other", "mai", "mail.*", "*"];
    let grants: Vec<String> = RIGHTS
        .iter()
        .flat_map(|right| scopes.map(|scope| format!("{right}:{scope}")))
        .chain(["admin:*".to_owned()])
        .collect();
    let (bench, secrets, _dir) = guarded(&grants).await;
    let mut admin = known(&bench, secrets.last().unwrap());
    for (grant, secret) in grants.iter().zip(&secrets) {
        let (has, scope) = grant.split_once(':').unwrap();
        for (command, need) in COMMANDS {
            let (command, id) = about_a_job(command, &mut admin);
            let is_right = |right: &str| has == right || has == "admin";
            let allowed = match need {
                Nothing | Need::Token => true,
                In(right) => is_right(right) && ["mail", "m*", "*"].contains(&scope),
                Everywhere(right) => is_right(right) && scope == "*",
            };
            let before = shown(&mut admin, &id);
            let answer = known(&bench, secret).ask(&command);
            let has_it_elsewhere = matches!(need, In(right) if is_right(right)) && !allowed;
            if has_it_elsewhere && command.contains(&id) {
                // Nobody learns of a job by trying its id.
                let of_none = command.replace(&id, "7");
                let of_none = known(&bench, secret).ask(&of_none);
                assert_eq!(answer.replace(&id, "7"), of_none, "{grant}: {command}");
            } else {
                assert_eq!(
                    !answer.starts_with("-NOPERM "),
                    allowed,
                    "{grant}: {command}: {answer}"
                );
            }
            assert!(
                !answer.starts_with("-NOAUTH"),
                "{grant}: {command}: {answer}"
            );
            if !allowed {
                let after = shown(&mut admin, &id);
                assert_eq!(after, before, "{grant}: {command} changed something");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_follows_a_right_token_in_the_same_packet_may_be_long() {
    let (bench, secrets, _dir) = guarded(&["admin:*".to_owned()]).await;
    for length in [3000, 6000, 100_000] {
        let mut caller = bench.connect(Port::Resp);
        let job = "x".repeat(length);
        caller.send(format!(
            "AUTH {}\r\n*4\r\n$6\r\nADDJOB\r\n$4\r\nmail\r\n${length}\r\n{job}\r\n$1\r\n0\r\n",
            secrets[0]
        ));
        assert_eq!(caller.reply(), "+OK", "{length}");
        let added = caller.reply();
        assert!(added.starts_with("+D-"), "{added}");
    }
    // A stranger is heard as far as its four kilobytes go, and no further.
    let mut stranger = bench.connect(Port::Resp);
    stranger.send("PING\r\n".repeat(2000));
    let heard = String::from_utf8(stranger.rest()).unwrap();
    let answers = heard.matches("-NOAUTH").count();
    assert!(answers <= 700, "{answers}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_connections_do_not_lock_out_a_right_token() {
    let (bench, secrets, _dir) = guarded(&["admin:*".to_owned()]).await;
    let most = Patience::default().each;
    let mut silent: Vec<_> = (0..most).map(|_| bench.connect(Port::Resp)).collect();
    for _ in 0..3 {
        known(&bench, &secrets[0]).greet();
    }
    assert_eq!(silent[0].rest(), b"");
}

/// What was leased by an id, in the order of the audit log: by way of what, and how much.
fn audited_leases(dir: &TempDir) -> Vec<(String, u64)> {
    let text = std::fs::read_to_string(dir.path().join("audit.jsonl")).unwrap();
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let begun = lines.iter().filter(|line| line["what"] == "lease");
    let ended = |begun: &serde_json::Value| {
        let mut same = lines.iter().filter(|line| line["move"] == begun["move"]);
        same.nth(1).unwrap()["moved"].as_u64().unwrap()
    };
    begun
        .map(|line| (line["via"].as_str().unwrap().to_owned(), ended(line)))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_by_id_of_what_is_held_back_needs_operate_and_is_written_down() {
    let grants = ["lease:mail".to_owned(), "admin:*".to_owned()];
    let (bench, secrets, dir) = guarded(&grants).await;
    let (mut worker, mut admin) = (known(&bench, &secrets[0]), known(&bench, &secrets[1]));
    let id = |pushed: String| {
        let (_, id) = pushed.split_once("'id' '").unwrap();
        id.split('\'').next().unwrap().to_owned()
    };
    let scheduled = id(admin.ask("AUXO.PUSH mail x delay 1h"));
    let ready = id(admin.ask("AUXO.PUSH mail x"));
    let paused = id(admin.ask("AUXO.PUSH mail x"));
    let leased = worker.ask(format!("AUXO.LEASE JOB {ready}"));
    assert!(leased.contains(&ready), "{leased}");
    admin.ask("PAUSE mail out");
    for held in [&scheduled, &paused] {
        let before = shown(&mut admin, held);
        let refused = worker.ask(format!("AUXO.LEASE JOB {held}"));
        assert!(refused.starts_with("-NOPERM "), "{refused}");
        assert!(refused.contains("operate:mail"), "{refused}");
        assert_eq!(shown(&mut admin, held), before);
    }
    assert_eq!(audited_leases(&dir), []);
    let leased = admin.ask(format!("AUXO.LEASE JOB {scheduled}"));
    assert!(leased.contains(&scheduled), "{leased}");
    // In beanstalkd's protocol whoever may connect may do everything, but it is written down.
    let mut beanstalk = bench.connect(Port::Beanstalk);
    let reserved = beanstalk.ask(format!("reserve-job {paused}"));
    assert!(reserved.starts_with("RESERVED "), "{reserved}");
    let expected = [("resp".to_owned(), 1), ("beanstalk".to_owned(), 1)];
    assert_eq!(audited_leases(&dir), expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_for_some_queues_makes_no_more_of_them_than_its_share() {
    let share = |settings: &mut Settings| settings.queue_share = 2;
    let grants = ["push:a.*".to_owned(), "operate:a.*".to_owned()];
    let (bench, secrets, _dir) = guarded_with(&grants, share).await;
    let mut caller = known(&bench, &secrets[0]);
    // By itself, among others, and with a limit on the queue's length.
    assert!(!caller.ask("ADDJOB a.1 x 0").starts_with('-'));
    assert!(caller.ask("AUXO.PUSH a.2 x").contains("'id'"));
    for refused in [
        "ADDJOB a.3 x 0",
        "AUXO.PUSH a.3 x",
        "ADDJOB a.3 x 0 MAXLEN 9",
    ] {
        let answer = caller.ask(refused);
        assert!(answer.contains("share of 2 queues"), "{refused}: {answer}");
    }
    assert!(!caller.ask("ADDJOB a.2 x 0").starts_with('-'));
    // Settings make queues, too.
    let mut operator = known(&bench, &secrets[1]);
    for queue in ["b.1", "b.2", "b.3"] {
        let queue = queue.replace('b', "a.b");
        let answer = operator.ask(format!("PAUSE {queue} in"));
        let is_over = answer.contains("share of 2 queues");
        assert_eq!(is_over, queue == "a.b.3", "{queue}: {answer}");
    }
}
