//! A cluster whose slots move and whose servers go away.

use super::*;
use auxo_harness::redis::{ClusterSet, Reply, Single};

fn key(shard: u16) -> String {
    format!("auxo{{{shard}}}:meta")
}

#[tokio::test]
async fn a_call_goes_to_the_server_that_has_its_key() {
    let set = ClusterSet::start(3);
    let link = open(&set.url("")).await;
    let mut used = [false; 3];
    for shard in 0..30 {
        let key = key(shard);
        assert_eq!(bump(&link, &key).await.unwrap(), 1);
        let owner = set.owner(set.slot(&key));
        assert_eq!(set.servers[owner].ask(&["EXISTS", &key]).int(), 1);
        used[owner] = true;
    }
    assert_eq!(used, [true; 3]);
    assert_eq!(link.on_every_primary(&[b"DBSIZE"], &[]).await.len(), 3);
}

#[tokio::test]
async fn a_cluster_is_found_by_any_of_its_servers() {
    let set = ClusterSet::start(3);
    let gone = Single::start(&[]).address();
    let url = format!(
        "redis+cluster://{gone},{}?timeout=5s",
        set.servers[1].address()
    );
    let link = open(&url).await;
    for shard in 0..10 {
        assert_eq!(bump(&link, &key(shard)).await.unwrap(), 1);
    }
}

#[tokio::test]
async fn a_server_that_is_no_cluster_and_one_that_is_are_not_confused() {
    let single = Single::start(&[]);
    let url = format!("redis+cluster://{}", single.address());
    is(
        &refused(&url).await,
        Code::Unavailable,
        "is not of a cluster",
    );

    let set = ClusterSet::start(2);
    let link = open(&set.servers[0].url("")).await;
    let other = (0..100)
        .map(key)
        .find(|key| set.owner(set.slot(key)) == 1)
        .unwrap();
    let error = bump(&link, &other).await.unwrap_err();
    is(
        &error,
        Code::Unavailable,
        "must begin with redis+cluster://",
    );
}

#[tokio::test]
async fn calls_follow_a_slot_while_it_moves_and_after() {
    let set = ClusterSet::start(3);
    let link = open(&set.url("")).await;
    let (old, new) = (key(0), "auxo{0}:other");
    let slot = set.slot(&old);
    let from = set.owner(slot);
    let to = (from + 1) % 3;
    assert_eq!(bump(&link, &old).await.unwrap(), 1);

    set.begin_move(slot, from, to);
    // What is there is served there; what is not is asked for at the other, and only there.
    assert_eq!(bump(&link, &old).await.unwrap(), 2);
    assert_eq!(bump(&link, new).await.unwrap(), 1);
    assert_eq!(bump(&link, &old).await.unwrap(), 3);
    set.move_keys(slot, from, to);
    assert_eq!(bump(&link, &old).await.unwrap(), 4);

    set.end_move(slot, to);
    assert_eq!(bump(&link, &old).await.unwrap(), 5);
    // Once is enough to know where it went.
    let errors = set.servers[from].ask(&["INFO", "errorstats"]);
    assert!(
        errors.text().contains("errorstat_MOVED:count=1\r\n"),
        "{errors:?}"
    );
    assert_eq!(bump(&link, new).await.unwrap(), 2);
    assert_eq!(set.servers[to].ask(&["GET", &old]).text(), "5");
}

/// Names the key that is never there as well, as every script of the store does.
async fn bump_as_scripts_are_called(link: &Link, key: &str) -> Result<i64> {
    let mut call = Call::new(&BUMP, key.to_owned());
    call.key("auxo{0}:absent".to_owned());
    match link.run(call).await?.confirmed()? {
        Value::Int(number) => Ok(number),
        other => panic!("no number: {other:?}"),
    }
}

/// Why a key was on both servers now and then, and could not be moved any more (BUSYKEY): a call that a move sent to the other server
/// arrives there in the middle of the move after the next one, and Redis takes it for one of that move's. A script that also names
/// a key that is never there is told to try again.
#[test]
fn a_call_that_arrives_two_moves_late_makes_no_second_key() {
    let set = ClusterSet::start(2);
    let (one, two) = ("auxo{0}:one", "auxo{0}:two");
    let slot = set.slot(one);
    let from = set.owner(slot);
    let to = 1 - from;
    for key in [one, two] {
        set.servers[from].ask(&["SET", key, "1"]);
    }
    set.begin_move(slot, from, to);
    let sent_away = set.servers[from]
        .client()
        .try_ask(&["GET", "auxo{0}:absent"]);
    let Ok(Reply::Error(sent_away)) = sent_away else {
        panic!("{sent_away:?}");
    };
    assert!(sent_away.starts_with("ASK "), "{sent_away}");
    set.move_keys(slot, from, to);
    set.end_move(slot, to);
    set.move_slot(slot, to, from);
    set.begin_move(slot, from, to);
    // Only now the calls arrive.
    let mut late = set.servers[to].client();
    let mut arrive = |keys: &[&str]| {
        late.ask(&["ASKING"]);
        let count = keys.len().to_string();
        let mut call = vec!["EVAL", "return redis.call('INCR', KEYS[1])", &count];
        call.extend(keys);
        late.try_ask(&call).expect("an answer")
    };
    let Reply::Error(told) = arrive(&[two, "auxo{0}:absent"]) else {
        panic!("a script ran on half a slot");
    };
    assert!(told.starts_with("TRYAGAIN "), "{told}");
    assert_eq!(arrive(&[one]), Reply::Int(1), "a key is there twice now");
    let port = set.servers[to].port().to_string();
    let migrate = |key| {
        let mut client = set.servers[from].client();
        let command = ["MIGRATE", "127.0.0.1", &port, key, "0", "5000"];
        client.try_ask(&command).expect("an answer")
    };
    let Reply::Error(told) = migrate(one) else {
        panic!("it replaced the key");
    };
    assert!(told.contains("BUSYKEY"), "{told}");
    assert_eq!(migrate(two), Reply::Text("OK".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_fails_while_a_slot_moves_back_and_forth() {
    let set = ClusterSet::start(2);
    let link = open(&set.url("")).await;
    let key = key(0);
    let slot = set.slot(&key);
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let bumping: Vec<_> = (0..8)
        .map(|_| {
            let (link, key, stopped) = (link.clone(), key.clone(), stopped.clone());
            tokio::spawn(async move {
                let mut done = 0;
                while !*stopped.borrow() {
                    bump_as_scripts_are_called(&link, &key).await.unwrap();
                    done += 1;
                }
                done
            })
        })
        .collect();
    tokio::task::spawn_blocking(move || {
        for _ in 0..20 {
            let from = set.owner(slot);
            set.move_slot(slot, from, 1 - from);
        }
        stop.send(true).unwrap();
        set
    })
    .await
    .map(|set| (set, bumping))
    .map(|(set, bumping)| async move {
        let mut done = 0;
        for task in bumping {
            done += task.await.unwrap();
        }
        assert!(done >= 100, "only {done} calls");
        let owner = set.owner(slot);
        assert_eq!(
            set.servers[owner].ask(&["GET", &key]).text(),
            done.to_string()
        );
    })
    .unwrap()
    .await;
}

#[tokio::test]
async fn a_server_that_is_away_takes_only_its_own_slots_with_it() {
    let mut set = ClusterSet::start(3);
    let link = open(&set.url("?timeout=5s")).await;
    let of = |server| {
        (0..100)
            .map(key)
            .find(|key| set.owner(set.slot(key)) == server)
            .unwrap()
    };
    let keys = [of(0), of(1), of(2)];
    for key in &keys {
        bump(&link, key).await.unwrap();
    }
    set.servers[1].kill();
    // The first may have left before we noticed.
    let _ = read(&link, &keys[1]).await;
    let error = bump(&link, &keys[1]).await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable, "{error}");
    assert_eq!(bump(&link, &keys[0]).await.unwrap(), 2);
    assert_eq!(bump(&link, &keys[2]).await.unwrap(), 2);
    set.servers[1].restart();
    let long = open(&set.url("?timeout=60s")).await;
    assert_eq!(bump(&long, &keys[1]).await.unwrap(), 1);
    // The one that saw it go needs no new link.
    assert_eq!(read(&link, &keys[1]).await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_work_again_by_themselves_when_a_replica_took_over() {
    let mut set = ClusterSet::start(3);
    let replica = set.add_replica(0);
    let link = open(&set.url("?timeout=60s")).await;
    let key = (0..100).map(key).find(|key| set.owner(set.slot(key)) == 0);
    let key = key.unwrap();
    assert_eq!(bump(&link, &key).await.unwrap(), 1);
    set.servers[0].wait_for_replicas(1);
    set.servers[0].kill();
    assert_eq!(read(&link, &key).await.unwrap(), 1);
    assert_eq!(bump(&link, &key).await.unwrap(), 2);
    assert_eq!(set.servers[replica].ask(&["GET", &key]).text(), "2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_for_a_list_follows_it_to_another_server() {
    let set = ClusterSet::start(2);
    let link = open(&set.url("")).await;
    let list = "auxo{0}:s:1";
    let slot = set.slot(list);
    let from = set.owner(slot);
    let waiting = tokio::spawn({
        let link = link.clone();
        async move { link.pop(list, 60 * SECOND, || {}).await }
    });
    let set = tokio::task::spawn_blocking(move || {
        auxo_harness::redis::wait("it waits", || {
            set.servers[from]
                .ask(&["CLIENT", "LIST"])
                .text()
                .contains("cmd=blpop")
        });
        set.move_slot(slot, from, 1 - from);
        auxo_harness::redis::wait("it waits there", || {
            set.servers[1 - from]
                .ask(&["CLIENT", "LIST"])
                .text()
                .contains("cmd=blpop")
        });
        set
    })
    .await
    .unwrap();
    set.servers[1 - from].ask(&["RPUSH", list, "a"]);
    assert_eq!(waiting.await.unwrap().unwrap().unwrap(), b"a");
}

#[tokio::test]
async fn messages_of_a_cluster_come_from_the_server_of_their_slot() {
    let set = ClusterSet::start(2);
    let link = open(&set.url("")).await;
    for shard in 0..8 {
        let channel = format!("auxo{{{shard}}}:events");
        let mut messages = link.subscribe(&channel).await.unwrap();
        let owner = &set.servers[set.owner(set.slot(&channel))];
        // It counts only those that listen at this very server.
        assert_eq!(
            owner.ask(&["PUBSUB", "NUMSUB", &channel]).items()[1].int(),
            1
        );
        owner.ask(&["PUBLISH", &channel, "hello"]);
        assert_eq!(heard(&mut messages).await.unwrap(), "hello");
    }
}
