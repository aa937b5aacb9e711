//! One server that behaves.

use super::*;
use auxo_harness::redis::Single;

#[tokio::test]
async fn a_script_that_redis_forgot_is_loaded_again() {
    let server = Single::start(&[]);
    let link = open(&server.url("")).await;
    assert_eq!(bump(&link, KEY).await.unwrap(), 1);
    server.ask(&["SCRIPT", "FLUSH"]);
    assert_eq!(bump(&link, KEY).await.unwrap(), 2);
}

#[tokio::test]
async fn a_store_is_in_the_database_that_its_url_says() {
    let server = Single::start(&[]);
    let link = open(&server.url("/3")).await;
    bump(&link, KEY).await.unwrap();
    let mut client = server.client();
    assert_eq!(client.ask(&["EXISTS", KEY]).int(), 0);
    client.ask(&["SELECT", "3"]);
    assert_eq!(client.ask(&["EXISTS", KEY]).int(), 1);
}

#[tokio::test]
async fn a_store_is_reached_over_a_socket_of_the_file_system() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("redis.sock");
    let path = path.to_str().unwrap();
    let _server = Single::start(&["--unixsocket", path]);
    let link = open(&format!("redis+unix://{path}")).await;
    assert_eq!(bump(&link, KEY).await.unwrap(), 1);
}

#[tokio::test]
async fn a_thousand_calls_go_over_one_connection() {
    let server = Single::start(&[]);
    let link = open(&server.url("")).await;
    let calls: Vec<_> = (0..1000)
        .map(|_| {
            let link = link.clone();
            tokio::spawn(async move { bump(&link, KEY).await.unwrap() })
        })
        .collect();
    let mut seen = Vec::new();
    for call in calls {
        seen.push(call.await.unwrap());
    }
    seen.sort_unstable();
    assert_eq!(seen, (1..=1000).collect::<Vec<_>>());
    let clients = server.ask(&["CLIENT", "LIST", "TYPE", "normal"]);
    // Ours, and the one that asks.
    assert_eq!(clients.text().trim().lines().count(), 2, "{clients:?}");
}

#[tokio::test]
async fn a_command_goes_to_every_primary() {
    let server = Single::start(&[]);
    let link = open(&server.url("")).await;
    let answers = link.on_every_primary(&[b"ECHO", b"hello"], &[]).await;
    let hello = Value::BulkString(b"hello".to_vec());
    assert_eq!(answers, [(server.address(), Ok(hello))]);
    let answer = link.command(Some(KEY), &[b"EXISTS", KEY.as_bytes()]).await;
    assert_eq!(answer.unwrap(), Value::Int(0));
}

#[tokio::test]
async fn a_script_that_fails_is_named() {
    let server = Single::start(&[]);
    let link = open(&server.url("")).await;
    let error = run(&link, &BROKEN, KEY).await.unwrap_err();
    is(&error, Code::Internal, "broken failed in redis: ");
    is(&error, Code::Internal, "Wrong number of args");
}

#[tokio::test]
async fn a_redis_without_memory_is_full() {
    let server = Single::start(&["--maxmemory", "1"]);
    let link = open(&server.url("")).await;
    let error = bump(&link, KEY).await.unwrap_err();
    is(&error, Code::QueueFull, "redis has no memory left for bump");
    server.ask(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(bump(&link, KEY).await.unwrap(), 1);
}

#[tokio::test]
async fn a_password_is_needed_and_must_be_right() {
    let server = Single::start(&["--requirepass", "right"]);
    let url = |login: &str| format!("redis://{login}{}", server.address());
    is(&refused(&url("")).await, Code::Unavailable, "NOAUTH");
    let error = refused(&url(":wrong-one@")).await;
    is(&error, Code::Unavailable, "WRONGPASS");
    assert!(!error.to_string().contains("wrong-one"), "{error}");
    let link = open(&url(":right@")).await;
    assert_eq!(bump(&link, KEY).await.unwrap(), 1);
}

#[tokio::test]
async fn a_user_may_do_what_redis_allows() {
    let server = Single::start(&[]);
    let mut client = server.client();
    client.ask(&[
        "ACL", "SETUSER", "worker", "on", ">pw", "~auxo*", "&auxo*", "+@all",
    ]);
    client.ask(&["ACL", "SETUSER", "reader", "on", ">pw", "~auxo*", "+@read"]);
    client.ask(&["ACL", "SETUSER", "default", "off"]);
    let url = |login: &str| format!("redis://{login}@{}", server.address());
    is(
        &refused(&url("worker:no")).await,
        Code::Unavailable,
        "WRONGPASS",
    );

    let link = open(&url("worker:pw")).await;
    assert_eq!(bump(&link, KEY).await.unwrap(), 1);
    let mut messages = link.subscribe("auxo{0}:events").await.unwrap();
    link.command(None, &[b"PUBLISH", b"auxo{0}:events", b"hello"])
        .await
        .unwrap();
    assert_eq!(heard(&mut messages).await.unwrap(), "hello");
    let error = bump(&link, "other{0}:meta").await.unwrap_err();
    is(
        &error,
        Code::Unavailable,
        "redis does not allow bump: NOPERM",
    );
    let error = link.subscribe("other").await.unwrap_err();
    is(&error, Code::Unavailable, "redis does not allow");

    // Not even to be asked whether it is there is reason enough to stay away.
    is(
        &refused(&url("reader:pw")).await,
        Code::Unavailable,
        "NOPERM",
    );
}

#[tokio::test]
async fn a_store_that_is_not_there_is_said_to_be_so_at_once() {
    let mut server = Single::start(&[]);
    let url = server.url("?timeout=30s");
    server.kill();
    let began = Instant::now();
    let error = refused(&url).await;
    is(&error, Code::Unavailable, "Connection refused");
    is(&error, Code::Unavailable, &server.address());
    within(20 * SECOND, began);
}
