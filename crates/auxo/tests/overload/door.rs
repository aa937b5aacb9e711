//! Who can reach the server, and who can read its files.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::server::Server;
use auxo_harness::command::{auxo, finish};

#[test]
fn unless_it_is_meant_only_this_machine_can_reach_it() {
    let dir = TempDir::new().unwrap();
    let run = |args: &[&str]| {
        let mut command = auxo();
        command.args(args);
        finish(command, b"")
    };
    let shown = run(&["config", "show", "--json"]).out;
    let shown: Vec<serde_json::Value> = shown
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let http = shown
        .iter()
        .find(|setting| setting["key"] == "http")
        .unwrap();
    assert_eq!(http["value"], "127.0.0.1:8000");
    let data = dir.path().join("new");
    for address in [
        "0.0.0.0:0",
        "[::]:0",
        "192.0.2.7:8000",
        "[2001:db8::1]:8000",
        "[::ffff:0.0.0.0]:0",
    ] {
        let ran = run(&["serve", "--http", address, "--data", data.to_str().unwrap()]);
        assert_ne!(ran.code, 0, "{address}: {ran:?}");
        assert!(ran.err.contains("--insecure"), "{address}: {ran:?}");
        assert!(ran.err.contains("127.0.0.1"), "{address}: {ran:?}");
        assert!(!data.exists(), "{address} made a store");
    }
    // The same from a file.
    let file = dir.path().join("auxo.toml");
    std::fs::write(&file, "http = \"0.0.0.0:0\"\n").unwrap();
    let ran = run(&[
        "serve",
        "--config",
        file.to_str().unwrap(),
        "--data",
        data.to_str().unwrap(),
    ]);
    assert_ne!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("--insecure"), "{ran:?}");
}

#[test]
fn an_open_door_is_said_aloud() {
    let mut command = auxo();
    command.args(["serve", "--http", "0.0.0.0:0", "--insecure"]);
    let server = Server::spawn(command, TempDir::new().unwrap());
    let log = server.log();
    assert!(log.contains("insecure: whoever can reach"), "{log}");
}

#[test]
fn files_are_for_their_owner_whatever_the_umask() {
    let mut command = Command::new("sh");
    command
        .args(["-c", "umask 0 && exec \"$0\" \"$@\""])
        .arg(auxo().get_program())
        .args(["serve", "--http", "127.0.0.1:0"])
        .stderr(Stdio::piped());
    let server = Server::spawn(command, TempDir::new().unwrap());
    assert_eq!(server.client().post("/v1/queues/q/jobs", "{}").status, 201);
    let mode =
        |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&server.data()), 0o700);
    let mut files = 0;
    for file in std::fs::read_dir(server.data()).unwrap() {
        let path = file.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
        files += 1;
    }
    assert!(files >= 2, "{files} files");
}
