//! Copying what is whole out of a damaged directory.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::shell::Shell;

#[test]
fn a_damaged_directory_is_refused_and_what_is_whole_can_be_salvaged() {
    let shell = Shell::new();
    let first = shell.push(&["mail", "the first payload"]);
    let second = shell.push(&["mail", "the second payload"]);
    damage(shell.data(), b"the first payload");
    let refused = shell.run(&["queues"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.err.contains("auxo salvage"), "{}", refused.err);

    let saved = Shell::new();
    let to = saved.data().to_str().unwrap().to_owned();
    let ran = shell.run(&["salvage", &to]);
    assert_eq!(ran.code, 1, "something was lost: {ran:?}");
    assert!(ran.err.contains("lost: "), "{}", ran.err);
    assert_eq!(
        saved.ok(&["job", &second, "--payload"]),
        "the second payload"
    );
    assert_eq!(saved.run(&["job", &first]).code, 1);
    assert_eq!(saved.json(&["audit"])[0]["ok"], true);
}

#[test]
fn salvaging_a_whole_directory_loses_nothing_and_spares_what_is_there() {
    let shell = Shell::new();
    let id = shell.push(&["mail", "x"]);
    let saved = Shell::new();
    let to = saved.data().to_str().unwrap().to_owned();
    let report = shell.json(&["salvage", &to]).remove(0);
    assert_eq!(report["copied"][0]["copied"], 1);
    assert_eq!(saved.ok(&["job", &id, "--payload"]), "x");
    let again = shell.run(&["salvage", &to]);
    assert_eq!(again.code, 1);
    assert!(again.err.contains("not empty"), "{}", again.err);
}

#[test]
fn salvage_refuses_what_is_no_store_and_a_copy_onto_itself() {
    let shell = Shell::new();
    let target = shell.data().join("saved");
    let to = target.to_str().unwrap().to_owned();
    let ran = shell.run(&["salvage", &to]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("code: not_found"), "{}", ran.err);
    let left = std::fs::read_dir(shell.data()).unwrap().count();
    assert_eq!(left, 0, "something was made");

    let shell = Shell::new();
    shell.push(&["mail", "x"]);
    let same = shell.data().to_str().unwrap().to_owned();
    let ran = shell.run(&["salvage", &same]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("copied to itself"), "{}", ran.err);
    assert_eq!(shell.json(&["jobs"]).len(), 1);
}

#[test]
fn salvage_says_that_jobs_may_repeat_when_anything_is_lost_and_promises_nothing_for_no_jobs() {
    let shell = Shell::new();
    shell.push(&["mail", "the only payload"]);
    damage(shell.data(), b"the only payload");
    let saved = Shell::new();
    let to = saved.data().to_str().unwrap().to_owned();
    let ran = shell.run(&["salvage", &to]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(!ran.err.contains("from now on"), "{}", ran.err);

    let saved = Shell::new();
    let to = saved.data().to_str().unwrap().to_owned();
    let ran = shell.run(&["salvage", &to, "--json"]);
    assert!(ran.out.contains("\"may_repeat\":true"), "{}", ran.out);
}

#[test]
fn salvage_leaves_the_directory_that_it_copies_as_it_is() {
    let shell = Shell::new();
    let id = shell.push(&["mail", "x"]);
    std::fs::remove_file(shell.data().join("lock")).unwrap();
    let protect = |dir, files| {
        for path in files_of(shell.data()) {
            std::fs::set_permissions(path, Permissions::from_mode(files)).unwrap();
        }
        std::fs::set_permissions(shell.data(), Permissions::from_mode(dir)).unwrap();
    };
    let before = files_of(shell.data());
    protect(0o500, 0o400);
    let saved = Shell::new();
    let ran = shell.run(&["salvage", saved.data().to_str().unwrap()]);
    protect(0o700, 0o600);
    assert_eq!(ran.code, 0, "{ran:?}");
    // A user who may write everywhere is not stopped by the permissions: nothing was made all the same.
    assert_eq!(files_of(shell.data()), before);
    assert_eq!(saved.ok(&["job", &id, "--payload"]), "x");
}

#[test]
fn salvage_waits_for_nobody_and_refuses_a_directory_in_use() {
    let shell = Shell::new();
    shell.push(&["mail", "x"]);
    let held = std::fs::File::open(shell.data()).unwrap();
    held.try_lock().unwrap();
    let saved = Shell::new();
    let ran = shell.run(&["salvage", saved.data().to_str().unwrap()]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("another process has it"), "{}", ran.err);
    assert_eq!(files_of(saved.data()).len(), 0);
}

/// What is done to the file of a segment.
type Cut = fn(&Path);

#[test]
fn salvage_names_the_loss_of_a_segment_that_was_cut_emptied_or_deleted() {
    let cuts: [(&str, Cut); 3] = [
        ("from byte", |path| {
            let used = std::fs::read(path).unwrap();
            let used = used.iter().rposition(|byte| *byte != 0).unwrap() as u64;
            let file = std::fs::File::options().write(true).open(path).unwrap();
            file.set_len(used / 2).unwrap();
        }),
        ("header is damaged", |path| {
            std::fs::write(path, "").unwrap()
        }),
        ("the file is missing", |path| {
            std::fs::remove_file(path).unwrap()
        }),
    ];
    for (words, cut) in cuts {
        let shell = Shell::new();
        for _ in 0..10 {
            shell.push(&["mail", "x"]);
        }
        cut(&shell.data().join("0000000001.log"));
        assert_eq!(shell.run(&["queues"]).code, 1, "{words}");
        let saved = Shell::new();
        let ran = shell.run(&["salvage", saved.data().to_str().unwrap()]);
        assert_eq!(ran.code, 1, "{ran:?}");
        let lost = ran.err.lines().find(|line| line.starts_with("lost: "));
        let lost = lost.expect("a loss");
        assert!(
            lost.contains("file 0000000001.log") && lost.contains(words),
            "{lost}"
        );
    }
}

#[test]
fn a_directory_without_its_mark_is_refused_and_can_be_salvaged() {
    let shell = Shell::new();
    let id = shell.push(&["mail", "x"]);
    std::fs::remove_file(shell.data().join("mark")).unwrap();
    let refused = shell.run(&["queues"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(
        refused.err.contains("file mark at byte 0"),
        "{}",
        refused.err
    );
    let saved = Shell::new();
    let ran = shell.run(&["salvage", saved.data().to_str().unwrap()]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("lost: file mark"), "{}", ran.err);
    assert_eq!(saved.ok(&["job", &id, "--payload"]), "x");
}

fn files_of(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Flips a bit of these bytes in whichever file has them.
fn damage(dir: &Path, bytes: &[u8]) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let mut content = std::fs::read(&path).unwrap();
        if let Some(at) = content
            .windows(bytes.len())
            .position(|window| window == bytes)
        {
            content[at] ^= 1;
            std::fs::write(&path, content).unwrap();
            return;
        }
    }
    panic!("no file has these bytes");
}
