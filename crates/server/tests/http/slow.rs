//! A thousand clients that keep the server waiting.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::bench::{Bench, read_reply, within};

/// How many there are of each sort.
const EACH: usize = 250;
/// How often one of them sends a byte.
const PACE: Duration = Duration::from_millis(300);
const HEAD: Duration = Duration::from_millis(1500);
const BODY: Duration = Duration::from_millis(2500);

/// What a slow client has sent before it begins to dawdle.
const SORTS: [&str; 4] = [
    // Not a word: the clock for idle connections is the longest.
    "",
    "G",
    "GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: ",
    "POST /v1/lease HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000\r\n\r\n{",
];

/// Sends a byte now and then until the server has had enough, and answers with what it said at last, and when.
async fn dawdle(
    mut stream: TcpStream,
    began: Instant,
    pace: Duration,
    sort: &str,
) -> (String, Duration) {
    stream.write_all(sort.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let mut bytes = [0; 1024];
    loop {
        match tokio::time::timeout(pace, stream.read(&mut bytes)).await {
            Ok(Ok(n)) if n > 0 => answer.extend_from_slice(&bytes[..n]),
            Ok(_) => break,
            // The server may be gone between the two; the next read tells.
            Err(_) if !sort.is_empty() => drop(stream.write_all(b"a").await),
            Err(_) => {}
        }
    }
    (String::from_utf8(answer).unwrap(), began.elapsed())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_slow_clients_are_let_go_on_time_and_disturb_nobody() {
    let bench = Bench::with(|settings| {
        settings.head_time = HEAD;
        settings.body_time = BODY;
        settings.idle_time = BODY;
    })
    .await;
    let mut slow = JoinSet::new();
    for i in 0..EACH * SORTS.len() {
        let (began, sort) = (Instant::now(), i % SORTS.len());
        let stream = bench.connect().await;
        slow.spawn(async move { (sort, dawdle(stream, began, PACE, SORTS[sort]).await) });
    }
    // All the while somebody works.
    let mut worker = bench.connect().await;
    let mut worked = 0;
    let mut slowest = Duration::ZERO;
    let mut gone = [0; SORTS.len()];
    while !slow.is_empty() {
        let began = Instant::now();
        let push =
            "POST /v1/queues/q/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{}";
        worker.write_all(push.as_bytes()).await.unwrap();
        assert_eq!(read_reply(&mut worker).await.status, 201);
        (worked, slowest) = (worked + 1, slowest.max(began.elapsed()));
        while let Some(ended) = slow.try_join_next() {
            let (sort, (answer, after)) = ended.unwrap();
            let (least, said) = match sort {
                0 => (BODY, ""),
                1 | 2 => (HEAD, ""),
                _ => (BODY, "HTTP/1.1 408 "),
            };
            assert!(after >= least, "{sort} was cut off after {after:?}");
            assert!(
                after < least + Duration::from_secs(10),
                "{sort} stayed for {after:?}"
            );
            assert!(answer.starts_with(said), "{sort}: {answer}");
            assert_eq!(answer.is_empty(), said.is_empty(), "{sort}: {answer}");
            gone[sort] += 1;
        }
    }
    println!("{worked} pushes beside them, the slowest took {slowest:?}");
    assert_eq!(gone, [EACH; SORTS.len()]);
    assert!(worked > 100, "only {worked} pushes went through");
    let text = within(bench.get("/metrics")).await.text;
    assert!(text.contains("auxo_http_connections 2\n"), "{text}");
}

#[tokio::test]
async fn bytes_that_trickle_do_not_give_a_request_more_time() {
    const TIME: Duration = Duration::from_millis(200);
    let bench = Bench::with(|settings| {
        settings.head_time = TIME;
        settings.body_time = TIME;
    })
    .await;
    for (begin, said) in [(SORTS[2], ""), (SORTS[3], "HTTP/1.1 408 ")] {
        let (began, pace) = (Instant::now(), Duration::from_millis(1));
        let (answer, after) = within(dawdle(bench.connect().await, began, pace, begin)).await;
        assert!(after >= TIME, "let go after {after:?}");
        // If each byte gave more time, the head would end after a minute, when it is too large, and the body after 17.
        assert!(after < Duration::from_secs(20), "let go after {after:?}");
        assert!(answer.starts_with(said), "{answer}");
        assert_eq!(answer.is_empty(), said.is_empty(), "{answer}");
    }
}
