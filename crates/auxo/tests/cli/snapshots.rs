//! What the commands print, to the letter: help, tables, JSON and errors, the same on a data directory and on a server.
//!
//! A snapshot is a transcript in `snapshots/`: a command, its stdout, its stderr behind `!`, and its exit code unless that is
//! 0. What differs from run to run stands there as something of the same width. `BLESS=1 cargo test -p auxo snapshots`
//! writes them anew; `git diff` then shows what has changed.

use std::path::Path;

use crate::mask::Mask;
use crate::shell::{Shell, bare};

both! { tables, json, errors }

/// Commands that are run one after the other, and what they said.
struct Transcript<'s> {
    shell: &'s Shell,
    mask: Mask,
    text: String,
}

impl<'s> Transcript<'s> {
    fn new(shell: &'s Shell) -> Transcript<'s> {
        Transcript {
            shell,
            mask: Mask::default(),
            text: String::new(),
        }
    }

    /// Runs a line of words, `'quoted ones'` among them, and answers with what it printed.
    fn run(&mut self, line: &str) -> String {
        let ran = self.shell.run(&words(line));
        self.text += &format!("$ auxo {}\n", self.mask.apply(line));
        self.text += &self.mask.apply(&ran.out);
        for line in ran.err.lines() {
            self.text += &format!("! {}\n", self.mask.apply(line));
        }
        if ran.code != 0 {
            self.text += &format!("exit code {}\n", ran.code);
        }
        self.text.push('\n');
        ran.out.trim().to_owned()
    }

    fn compare(self, name: &str) {
        compare(name, &self.text);
    }
}

fn words(line: &str) -> Vec<&str> {
    let parts = line.split('\'').enumerate();
    parts
        .flat_map(|(place, part)| match place % 2 {
            0 => part.split_whitespace().collect(),
            _ => vec![part],
        })
        .collect()
}

#[track_caller]
fn compare(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/snapshots");
    let path = path.join(name).with_extension("txt");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = expected.lines().zip(text.lines()).find(|(a, b)| a != b);
    if let Some((expected, printed)) = differs {
        panic!("{name}: expected\n  {expected}\nand it is\n  {printed}\nin\n{text}");
    }
    assert_eq!(expected, text, "{name} has more or fewer lines");
}

/// A few jobs in every state. All times are far away and not round, so that they are told in hours
/// however long the test takes.
fn fill(transcript: &mut Transcript<'_>) -> [String; 3] {
    let ready = transcript
        .run("push mail '{\"to\":\"ada\"}' --kind welcome --key welcome:ada --ttr 10h30s");
    let later = transcript.run(
        "push mail 'a letter that is much longer than any line of a table should be on a terminal' \
         --delay 10d30s --priority 5 --header lang=en",
    );
    let dead = transcript.run("push a/b x --max-attempts 1 --retention 1h");
    let token = transcript.shell.lease("a/b");
    transcript
        .shell
        .ok(&["fail", &token, "--error", "no such host"]);
    [ready, later, dead]
}

fn tables(shell: &Shell) {
    let mut transcript = Transcript::new(shell);
    let [ready, later, dead] = fill(&mut transcript);
    for line in [
        "queues",
        "queues mail",
        "jobs",
        "jobs --state dead",
        "jobs --queue mail --limit 1 --state done",
        &format!("job {later}"),
        &format!("job {dead}"),
        &format!("explain {later}"),
        &format!("explain {dead}"),
        "lease mail --worker me",
        &format!("explain {ready}"),
        &format!("cancel {ready}"),
        "kick --queue a/b --state dead --dry-run",
        "kick --queue a/b --state dead",
        &format!("reschedule {dead} --delay 20d30s"),
        "queues set mail --max-jobs 100 --rate 50/1s --fair true",
        "pause mail --in",
        "queues",
        "resume mail",
        "topics",
        "topics subscribe orders billing bills --pattern 'order.*'",
        "topics publish orders 7 --routing-key order.7 --delay 10d30s",
        "topics publish orders 7 --routing-key parcel.7",
        "topics",
        "schedules",
        "schedules set never q --cron '0 0 30 2 *'",
        "schedules set pulse q --every 100d30s",
        "schedules",
        "schedules delete never",
        "purge bills --yes",
        &format!("delete {dead}"),
        "audit",
    ] {
        transcript.run(line);
    }
    transcript.compare("tables");
}

#[test]
fn narrow_tables() {
    let shell = Shell::new().columns("80");
    let mut transcript = Transcript::new(&shell);
    fill(&mut transcript);
    for line in ["queues", "jobs", "audit"] {
        transcript.run(line);
    }
    let widest = transcript
        .text
        .lines()
        .filter(|line| !line.starts_with(['$', '!']));
    assert!(widest.map(|line| line.chars().count()).max() <= Some(80));
    transcript.compare("narrow_tables");
}

fn json(shell: &Shell) {
    let mut transcript = Transcript::new(shell);
    let id = transcript.run("push mail '{\"to\":\"ada\"}' --kind welcome --key welcome:ada");
    let later = transcript.run("push mail 'no JSON' --delay 10d30s");
    transcript.run("push mail --delay 10d30s --json");
    for line in [
        "queues --json",
        "jobs --json",
        "jobs --queue nothing --json",
        &format!("job {id} --json"),
        &format!("explain {later} --json"),
        &format!("reschedule {id} --delay 20d30s --json"),
        "queues set mail --max-jobs 100 --json",
        "topics subscribe orders billing bills --json",
        "topics publish orders 7 --delay 10d30s --json",
        "topics --json",
        "schedules set never q --cron '0 0 30 2 *' --json",
        "schedules --json",
        "schedules delete never --json",
        "cancel --queue bills --json",
        "audit --json",
    ] {
        transcript.run(line);
    }
    // Whatever it is, it is one object a line.
    let printed = transcript
        .text
        .lines()
        .filter(|line| line.starts_with(['{', '[']));
    for line in printed {
        assert!(
            serde_json::from_str::<serde_json::Value>(line).is_ok(),
            "{line}"
        );
    }
    transcript.compare("json");
}

fn errors(shell: &Shell) {
    let mut transcript = Transcript::new(shell);
    let id = transcript.run("push mail x --key k --ttr 10h30s");
    for line in [
        "push mail x --key k",
        "push mail x --key k --json",
        "push mail x --key k --on-duplicate return",
        "job 7",
        "job 7 --json",
        "explain 7",
        "job --queue mail --key other",
        "lease mial",
        "lease mail other",
        "ack 7-1-0000000000000000",
        &format!("delete {id}"),
        "kick --state dead",
        "kick 7",
        "pause nowhere",
        "purge mail",
        "schedules delete nightly",
        "topics unsubscribe orders billing",
        "schedules set s q --cron '61 * * * *'",
        "schedules set s q --cron '* * * * *' --zone Mars/Base",
        "queues nowhere",
        "jobs --cursor abc",
        "push",
        "push 'two words' x",
        "push mail x --delay soon",
        "push mail x --backoff {",
        "pusch mail x",
        "jobs --state asleep",
    ] {
        transcript.run(line);
    }
    transcript.run("pause mail");
    transcript.run("push mail x");
    transcript.compare("errors");
}

#[test]
fn help() {
    let verbs = bare(&["--help"]).out;
    let verbs = verbs
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1);
    let verbs = verbs.take_while(|line| !line.is_empty());
    let verbs: Vec<&str> = verbs
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(verbs.len() > 25, "{verbs:?}");
    let mut text = String::new();
    for args in std::iter::once(vec!["--help"]).chain(
        verbs
            .iter()
            .filter(|verb| **verb != "help")
            .map(|verb| vec![*verb, "--help"]),
    ) {
        let ran = bare(&args);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{args:?}");
        text += &format!("$ auxo {}\n{}\n", args.join(" "), ran.out);
    }
    assert!(text.contains("Exit codes: 0 done, 1 refused or failed, 2 wrong usage."));
    assert!(!text.contains('\x1b'), "there are colours, and no terminal");
    compare("help", &text);
}
