//! Commands that another user runs than the server. Only root can try that, and only root does it.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::server::Site;
use auxo_harness::command::{finish, plain};

/// The user of a server, and another one.
const SERVER: u32 = 4001;
const OTHER: u32 = 4002;

fn open_to(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// A site whose data directory belongs to the server's user.
fn site() -> Site {
    let site = Site::new();
    std::fs::create_dir(site.path("data")).unwrap();
    chown(site.path("data"), Some(SERVER), Some(SERVER)).unwrap();
    site
}

#[test]
#[ignore = "only root can give a directory to another user"]
fn what_root_makes_and_changes_belongs_to_the_server() {
    let site = site();
    let token = site.token(&["admin:*"]);
    let id = token.split('_').nth(1).unwrap();
    site.token(&["read:*"]);
    assert_eq!(site.local(&["token", "revoke", id]).code, 0);
    assert_eq!(site.local(&["token", "list"]).code, 0);
    for name in ["data/tokens.toml", "data/audit.jsonl"] {
        let about = site.path(name).metadata().unwrap();
        assert_eq!((about.uid(), about.gid()), (SERVER, SERVER), "{name}");
        assert_eq!(about.mode() & 0o777, 0o600, "{name}");
    }
}

#[test]
#[ignore = "only root can give a directory to another user"]
fn who_cannot_leave_the_tokens_to_the_server_is_told_as_whom_to_do_it() {
    let site = site();
    site.token(&["admin:*"]);
    let file = site.path("data/tokens.toml");
    let before = std::fs::read_to_string(&file).unwrap();
    // Whoever may write to the directory could put a file of their own there.
    open_to(&site.path(""), 0o711);
    open_to(&site.path("data"), 0o777);
    open_to(&file, 0o644);
    let program = site.path("auxo");
    std::fs::copy(env!("CARGO_BIN_EXE_auxo"), &program).unwrap();
    open_to(&program, 0o755);
    let run = |audit: &str| {
        let mut command = plain(Command::new(&program));
        command
            .args(["token", "new", "--allow", "admin:*", "--data", &site.data()])
            .args(["--audit", audit])
            .uid(OTHER)
            .gid(OTHER);
        finish(command, b"")
    };
    for audit in ["off".to_owned(), site.text("data/another.jsonl")] {
        let ran = run(&audit);
        assert_eq!(ran.code, 1, "{ran:?}");
        assert!(ran.out.is_empty(), "{ran:?}");
        for word in ["user 4001", "user 4002", "sudo -u '#4001'"] {
            assert!(ran.err.contains(word), "{word}: {ran:?}");
        }
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before);
    assert_eq!(file.metadata().unwrap().uid(), SERVER);
    assert!(!site.path("data/tokens.toml.new").exists());
    assert!(!site.path("data/another.jsonl").exists());
}

#[test]
fn a_directory_where_everybody_can_replace_files_is_warned_of() {
    let site = Site::new();
    site.token(&["admin:*"]);
    let local = [
        "--http",
        "127.0.0.1:0",
        "--beanstalk",
        "off",
        "--resp",
        "off",
    ];
    let warning = "everybody can replace files in this directory";
    for (mode, warned) in [(0o755, 0), (0o1777, 0), (0o777, 2)] {
        open_to(&site.path("data"), mode);
        let log = site.serve(&local).stop();
        // Of the tokens, and of the audit log.
        assert_eq!(log.matches(warning).count(), warned, "{mode:o}: {log}");
    }
}
