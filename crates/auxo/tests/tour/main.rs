//! The tour in README.md, command by command, on a fresh server: what is printed there is what a reader gets.
//!
//! Ids, tokens, times and lengths of time differ from run to run. An id or a token in the README stands for any other, but for
//! the same one from its first mention to its last, in commands too. How wide the columns of a table are is not compared.

mod compare;

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use auxo_harness::redis;
use auxo_harness::server::Server;
use compare::Names;

const README: &str = include_str!("../../../../README.md");

/// A command and what it printed.
#[derive(Debug, PartialEq)]
struct Step {
    command: String,
    printed: Vec<String>,
}

/// The commands in blocks of the kind `console`.
fn steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut is_inside = false;
    for line in text.lines() {
        if line.starts_with("```") {
            is_inside = line == "```console";
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| is_inside) {
            steps.push(Step {
                command: command.to_owned(),
                printed: Vec::new(),
            });
        } else if let Some(step) = steps.last_mut().filter(|_| is_inside) {
            step.printed.push(line.to_owned());
        }
    }
    steps
}

/// Runs a line as a reader would who has the program in the PATH, and answers with all it said.
fn run(line: &str, server: &Server) -> Vec<String> {
    let output = Command::new("sh")
        .args(["-c", &format!("exec 2>&1\n{line}")])
        .env("PATH", path())
        .env("AUXO_SERVER", server.url())
        .env_remove("AUXO_DATA")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// A PATH in which `auxo` is the binary under test.
fn path() -> OsString {
    let binary = Path::new(env!("CARGO_BIN_EXE_auxo")).parent().unwrap();
    let mut path = binary.as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    path
}

#[test]
fn the_tour_prints_what_the_readme_says() {
    tour(&Server::start());
}

#[test]
fn the_tour_prints_the_same_on_redis() {
    let redis = redis::Single::start(&[]);
    let store = redis.url("?durability=none");
    let dir = tempfile::tempdir().unwrap();
    tour(&Server::start_on("--store".as_ref(), store.as_ref(), dir));
}

fn tour(server: &Server) {
    let steps = steps(README);
    assert!(steps.len() > 10, "where is the tour? {steps:?}");
    let mut names = Names::default();
    for step in steps {
        let printed = run(&names.in_command(&step.command), server);
        if let Err(wrong) = names.compare(&step.printed, &printed) {
            panic!(
                "$ {}\nREADME.md says\n  {}\nand it is\n  {}\n{wrong}",
                step.command,
                step.printed.join("\n  "),
                printed.join("\n  "),
            );
        }
    }
}

#[test]
fn only_console_blocks_are_commands() {
    let text = "$ no\n```sh\n$ no\n```\n```console\n$ a b\none\n\ntwo\n$ c\n```\nafter\n";
    let step = |command: &str, printed: &[&str]| Step {
        command: command.to_owned(),
        printed: printed.iter().map(|line| (*line).to_owned()).collect(),
    };
    assert_eq!(
        steps(text),
        [step("a b", &["one", "", "two"]), step("c", &[])]
    );
}
