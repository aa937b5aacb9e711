//! `auxo migrate` between directories, servers and a Redis.

use std::path::Path;

use auxo::core::engine::Change;
use auxo::core::passage::{Adoption, Departure, Step};
use auxo::{Auxo, QueueName};

use crate::shell::{Shell, bare};
use auxo_harness::command::{Ran, auxo, finish};
use auxo_harness::redis::Single;

fn migrate(from: &str, to: &str, more: &[&str]) -> Ran {
    let mut command = auxo();
    command
        .args(["migrate", "--from", from, "--to", to])
        .args(more);
    finish(command, b"")
}

fn redis() -> (Single, String) {
    let redis = Single::start(&[]);
    let url = redis.url("?durability=none");
    (redis, url)
}

/// A job of each kind, in two queues.
fn populate(shell: &Shell) {
    shell.push(&["mail", "ready", "--key", "r", "--header", "a=b"]);
    shell.push(&["mail", "later", "--delay", "10h", "--priority", "3"]);
    shell.push(&["mail", "kept", "--retention", "10h", "--priority", "1"]);
    shell.ok(&["ack", &shell.lease("mail"), "--result", "{\"r\":1}"]);
    shell.push(&["mail", "held", "--key", "h", "--priority", "1"]);
    shell.ok(&["ack", &shell.lease("mail")]);
    shell.push(&["bills", "dead", "--max-attempts", "1"]);
    shell.ok(&["fail", &shell.lease("bills"), "--error", "no"]);
    shell.ok(&[
        "queues",
        "set",
        "bills",
        "--max-jobs",
        "1",
        "--fair",
        "true",
    ]);
    shell.ok(&["topics", "subscribe", "orders", "billing", "bills"]);
    shell.ok(&["schedules", "set", "pulse", "mail", "--every", "100d"]);
}

fn audit(place: &[&str]) -> String {
    let ran = bare(&[&["audit"], place].concat());
    assert_eq!(ran.code, 0, "{ran:?}");
    ran.out
}

#[test]
fn everything_goes_to_redis_and_back_as_it_was() {
    let (shell, back) = (Shell::new(), Shell::new());
    populate(&shell);
    let data = shell.data().to_str().unwrap();
    let to = back.data().join("new");
    let to = to.to_str().unwrap();
    let (_redis, url) = redis();
    let there = ["--server", &url];
    let data_flag = ["--data", data];
    let jobs = |place: &[&str]| bare(&[&["jobs", "--json"], place].concat()).out;
    let (books, before) = (audit(&data_flag), jobs(&data_flag));

    let ran = migrate(data, &url, &[]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let printed = "\
bills: 1 moved (1 dead); verified: the source is empty, the target has them
mail: 4 moved (1 ready, 1 scheduled, 1 done, 1 keys); verified: the source is empty, the target has them
";
    assert_eq!(ran.out, printed);
    assert!(ran.err.contains("2 queues, 5 jobs moved in "), "{ran:?}");
    assert_eq!(audit(&there), books);
    let subscriptions = bare(&[&["topics", "--json"], &there[..]].concat()).out;
    assert!(subscriptions.contains("billing"), "{subscriptions}");
    let schedules = bare(&[&["schedules", "--json"], &there[..]].concat()).out;
    assert!(
        schedules.contains("pulse") && schedules.contains("next"),
        "{schedules}"
    );
    assert_eq!(shell.ok(&["schedules", "--json"]), "");
    // Who comes late is told so.
    let late = shell.run(&["push", "mail", "x"]);
    assert!(late.err.contains("queue_paused"), "{late:?}");
    let held = bare(&["push", "mail", "x", "--key", "h", "--server", &url]);
    assert!(held.err.contains("duplicate_key"), "{held:?}");

    let ran = migrate(&url, to, &[]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let home = ["--data", to];
    assert_eq!(audit(&home), books);
    let same = |text: &str| {
        let jobs = text.lines().map(|line| serde_json::from_str(line).unwrap());
        let mut jobs: Vec<serde_json::Value> = jobs.collect();
        jobs.sort_by_key(|job| job["id"].to_string());
        // Told by a clock that began anew, to the millisecond.
        jobs.iter_mut().for_each(|job| drop(job["run_at"].take()));
        jobs
    };
    assert_eq!(same(&jobs(&home)), same(&before));
    let queues = bare(&[&["queues", "--json"], &home[..]].concat()).out;
    assert!(
        queues.contains("\"max_jobs\":1") && queues.contains("\"fair\":true"),
        "{queues}"
    );
    assert!(!queues.contains("\"paused_in\":true"), "{queues}");
}

#[test]
fn a_second_move_finds_nothing_to_do_and_leaves_the_target_alone() {
    let (shell, other) = (Shell::new(), Shell::new());
    populate(&shell);
    let (from, to) = (
        shell.data().to_str().unwrap(),
        other.data().to_str().unwrap(),
    );
    assert_eq!(migrate(from, to, &[]).code, 0);
    let ran = migrate(from, to, &["--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(
        ran.out.lines().all(|line| line.contains("\"moved\":0")),
        "{ran:?}"
    );
    let queues = other.ok(&["queues", "--json"]);
    assert!(!queues.contains("\"paused_out\":true"), "{queues}");
}

#[test]
fn a_queue_of_a_running_server_moves_alone_and_waits_for_its_workers() {
    let (shell, other) = (Shell::on_server(), Shell::new());
    shell.push(&["mail", "1", "--ttr", "10h"]);
    shell.push(&["mail", "2"]);
    shell.push(&["bills", "3"]);
    let token = shell.lease("mail");
    let to = other.data().to_str().unwrap();
    let mut running = {
        let mut command = auxo();
        command.args(["migrate", "--from", shell.url(), "--to", to]);
        command.args(["--queue", "mail"]);
        auxo_harness::started::Started::new(command)
    };
    running.says("mail: waiting for the end of 1 lease at the source");
    let refused = shell.run(&["lease", "mail"]);
    assert!(refused.code == 1, "{refused:?}");
    shell.push(&["mail", "still taken"]);
    shell.ok(&["release", &token]);
    assert!(running.line().contains("mail: 3 moved"));
    assert_eq!(running.finish().code, 0);
    let jobs = other.ok(&["jobs", "--json"]);
    assert_eq!(jobs.lines().count(), 3);
    let left = shell.ok(&["jobs", "--json"]);
    assert!(
        left.contains("bills") && left.lines().count() == 1,
        "{left}"
    );
}

#[test]
fn a_job_whose_key_is_taken_at_the_target_stays_and_is_named() {
    let (shell, other) = (Shell::new(), Shell::new());
    let id = shell.push(&["mail", "1", "--key", "k"]);
    shell.push(&["mail", "2"]);
    let holder = other.push(&["mail", "3", "--key", "k"]);
    let (from, to) = (
        shell.data().to_str().unwrap(),
        other.data().to_str().unwrap(),
    );
    for moved in ["1 moved (1 ready), 1 left", "nothing to move, 1 left"] {
        let ran = migrate(from, to, &[]);
        assert_eq!(ran.code, 1, "{ran:?}");
        assert!(ran.out.contains(moved), "{ran:?}");
        for part in [&id, &holder, "\"k\"", "1 job had to stay"] {
            assert!(ran.err.contains(part), "{part}: {ran:?}");
        }
    }
    assert!(shell.job(&id)["state"] == "ready");
    other.ok(&["delete", &holder]);
    let ran = migrate(from, to, &[]);
    assert_eq!(
        (ran.code, ran.out.contains("1 moved")),
        (0, true),
        "{ran:?}"
    );
    assert_eq!(other.ok(&["jobs", "--json"]).lines().count(), 2);
}

/// As a move that is killed when its first job has left.
async fn break_off(from: &Path, to: &Path) {
    let (from, to) = (Auxo::open(from).await, Auxo::open(to).await);
    let (from, to) = (from.unwrap(), to.unwrap());
    let queue = QueueName::new("mail").unwrap();
    let passages = async |auxo: &Auxo| {
        let departure = Departure {
            queue: queue.clone(),
            cursor: None,
            limit: 1,
        };
        auxo.service().passages(departure).await.unwrap()
    };
    let (here, there) = (passages(&from).await, passages(&to).await.store);
    let part = |store: &str, step| Adoption {
        queue: queue.clone(),
        store: store.to_owned(),
        run: 1,
        step,
    };
    let leaving = vec![here.jobs[0].leaving()];
    from.service()
        .adopt(part(&there, Step::Leave))
        .await
        .unwrap();
    for step in [Step::Begin, Step::Jobs(here.jobs)] {
        to.service().adopt(part(&here.store, step)).await.unwrap();
    }
    let departed = from.service().depart(queue.clone(), leaving).await;
    departed.unwrap().remove(0).unwrap();
    from.close().await.unwrap();
    to.close().await.unwrap();
}

#[tokio::test]
async fn a_move_that_was_broken_off_is_finished_before_its_jobs_come_back() {
    let shells = [Shell::new(), Shell::new(), Shell::new()];
    let [a, b, c] = shells
        .each_ref()
        .map(|shell| shell.data().to_str().unwrap());
    let far = shells[0].push(&["mail", "first"]);
    shells[0].push(&["mail", "second"]);
    break_off(shells[0].data(), shells[1].data()).await;

    let ran = migrate(b, c, &[]);
    assert!(ran.out.contains("mail: 1 moved"), "{ran:?}");
    // Else the end of the first move would take it for one that is at its target.
    for (from, to) in [(c, a), (a, c)] {
        let ran = migrate(from, to, &[]);
        let says = ran
            .err
            .contains("a move of queue mail to the store known as");
        assert_eq!((ran.code, says), (1, true), "{ran:?}");
    }
    assert_eq!(shells[2].job(&far)["state"], "ready");
    let ran = migrate(a, b, &[]);
    assert!(ran.out.contains("mail: 1 moved"), "{ran:?}");
    let ran = migrate(c, a, &[]);
    assert!(ran.out.contains("mail: 1 moved"), "{ran:?}");
    let ran = migrate(a, b, &[]);
    assert!(ran.out.contains("mail: 1 moved"), "{ran:?}");
    assert_eq!(shells[1].ok(&["jobs", "--json"]).lines().count(), 2);
    assert_eq!(shells[1].job(&far)["state"], "ready");
}

#[tokio::test]
async fn a_move_that_nobody_will_finish_can_be_given_up() {
    let shells = [Shell::new(), Shell::new(), Shell::new()];
    let [a, b, c] = shells
        .each_ref()
        .map(|shell| shell.data().to_str().unwrap());
    shells[0].push(&["mail", "first"]);
    shells[0].push(&["mail", "second"]);
    break_off(shells[0].data(), shells[1].data()).await;
    let ran = migrate(a, c, &[]);
    assert!(ran.err.contains("auxo migrate --abandon"), "{ran:?}");
    let ran = migrate(a, c, &["--abandon"]);
    assert!(ran.out.contains("mail: 1 moved"), "{ran:?}");
    let ran = migrate(b, c, &[]);
    assert!(ran.out.contains("mail: 1 moved"), "{ran:?}");
    assert_eq!(shells[2].ok(&["jobs", "--json"]).lines().count(), 2);
}

#[test]
fn a_schedule_that_had_to_stay_moves_when_its_name_is_free() {
    let (shell, other) = (Shell::new(), Shell::new());
    let (from, to) = (
        shell.data().to_str().unwrap(),
        other.data().to_str().unwrap(),
    );
    shell.push(&["mail", "1"]);
    for place in [&shell, &other] {
        place.ok(&["schedules", "set", "pulse", "mail", "--every", "100d"]);
    }
    let ran = migrate(from, to, &[]);
    assert!(
        ran.code == 1 && ran.err.contains("1 schedule had to stay"),
        "{ran:?}"
    );
    other.ok(&["schedules", "delete", "pulse"]);
    let ran = migrate(from, to, &[]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(shell.ok(&["schedules", "--json"]), "");
    assert!(other.ok(&["schedules", "--json"]).contains("pulse"));
}

/// A move that is killed leaves a schedule without a next tick at the target, with or without the one at the source.
#[tokio::test]
async fn a_schedule_that_was_on_its_way_ticks_again_after_the_next_run() {
    for at_the_source_too in [false, true] {
        let (shell, other) = (Shell::new(), Shell::new());
        let (from, to) = (
            shell.data().to_str().unwrap(),
            other.data().to_str().unwrap(),
        );
        shell.push(&["mail", "1"]);
        assert_eq!(migrate(from, to, &[]).code, 0);
        other.ok(&["schedules", "set", "pulse", "mail", "--every", "100d"]);
        if at_the_source_too {
            shell.ok(&["schedules", "set", "pulse", "mail", "--every", "100d"]);
        }
        let target = Auxo::open(to).await.unwrap();
        let mut parked = target
            .service()
            .catalog()
            .await
            .unwrap()
            .schedules
            .remove(0);
        parked.next = None;
        target.service().change(Change::Arm(parked)).await.unwrap();
        target.close().await.unwrap();
        let before = other.ok(&["schedules", "--json"]);
        assert!(!before.contains("next"), "{before}");

        let ran = migrate(from, to, &[]);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert_eq!(shell.ok(&["schedules", "--json"]), "");
        let after = other.ok(&["schedules", "--json"]);
        assert!(after.contains("next"), "{after}");
    }
}

#[test]
fn a_move_to_a_queue_that_is_spread_changes_nothing() {
    let shell = Shell::new();
    shell.push(&["mail", "1"]);
    let redis = Single::start(&[]);
    let url = redis.url("?durability=none&shards=4");
    let there = ["--server", &url];
    let set = ["queues", "set", "mail", "--create", "--max-leased", "7"];
    let ran = bare(&[&set[..], &["--shards", "4"], &there].concat());
    assert_eq!(ran.code, 0, "{ran:?}");
    let queues = |place: &[&str]| bare(&[&["queues", "--json"], place].concat()).out;
    let data = ["--data", shell.data().to_str().unwrap()];
    let before = (queues(&data), queues(&there));
    let ran = migrate(data[1], &url, &[]);
    assert!(
        ran.code == 1 && ran.err.contains("is spread over several shards"),
        "{ran:?}"
    );
    assert!(ran.err.contains("nothing was changed"), "{ran:?}");
    assert_eq!((queues(&data), queues(&there)), before);
}

#[test]
fn what_cannot_be_moved_is_said() {
    let (shell, server) = (Shell::new(), Shell::on_server());
    shell.push(&["mail", "1"]);
    let from = shell.data().to_str().unwrap();
    let table = [
        (from, from, 2, "the same store"),
        (from, "http://127.0.0.1:1", 1, "cannot reach"),
        ("./no-such-directory", from, 1, "there is no data directory"),
        (from, "ftp://x", 2, "ftp"),
    ];
    for (from, to, code, says) in table {
        let ran = migrate(from, to, &["--patience", "0s"]);
        assert_eq!(
            (ran.code, ran.err.contains(says)),
            (code, true),
            "{to}: {ran:?}"
        );
    }
    let ran = migrate(from, server.url(), &["--queue", "mial"]);
    assert!(
        ran.code == 1 && ran.err.contains("no queue mial at the source"),
        "{ran:?}"
    );
    let new = shell.data().join("new");
    let ran = migrate(
        "http://127.0.0.1:1",
        new.to_str().unwrap(),
        &["--patience", "0s"],
    );
    assert!(ran.code == 1 && !new.exists(), "{ran:?}");
    let ran = migrate(server.data_of_server(), from, &[]);
    assert!(
        ran.code == 1 && ran.err.contains("the server's URL instead"),
        "{ran:?}"
    );
    let url = server.url();
    let ran = migrate(url, &format!("{url}/"), &[]);
    assert_eq!(ran.code, 2, "{ran:?}");
}

#[test]
fn a_store_that_is_named_in_two_ways_is_one_store() {
    let shell = Shell::new();
    let data = shell.data().join("d");
    std::fs::create_dir(shell.data().join("x")).unwrap();
    std::os::unix::fs::symlink(&data, shell.data().join("x/link")).unwrap();
    let from = data.to_str().unwrap();
    bare(&["push", "mail", "1", "--data", from]);
    for other in ["missing/../d", "x/../d", "./d/.", "x/link", "x/link/../d"] {
        let other = shell.data().join(other);
        let other = other.to_str().unwrap();
        for (from, to) in [(from, other), (other, from)] {
            let ran = migrate(from, to, &[]);
            let parts = [
                ran.err.contains("name the same store"),
                !ran.err.contains("open"),
            ];
            assert_eq!((ran.code, parts), (2, [true; 2]), "{from} {to}: {ran:?}");
        }
    }
    assert!(!shell.data().join("missing").exists());
    let new = shell.data().join("x/d");
    assert_eq!(migrate(from, new.to_str().unwrap(), &[]).code, 0);

    let redis = Single::start(&[]);
    let url = redis.url("?durability=none");
    let same = format!(
        "redis://localhost:{}/0?prefix=auxo&durability=none",
        redis.port()
    );
    let ran = migrate(&url, &same, &[]);
    assert!(
        ran.code == 1 && ran.err.contains("lead to the same store"),
        "{ran:?}"
    );
    let other = redis.url("/1?durability=none");
    assert_eq!(migrate(&url, &other, &[]).code, 0);
}
