//! A server that is away, or gone in the middle.

use std::time::Duration;

use auxo_client::Auxo;
use auxo_core::engine::{Outcome, Settle, Which};
use auxo_core::{Code, JobId, Token};

use crate::road::{Fate, Served, road};

#[tokio::test]
async fn a_server_that_is_away_is_named_with_what_to_do() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("grpc://{}", listener.local_addr().unwrap());
    drop(listener);
    let auxo = Auxo::connect(&url).await.unwrap();
    assert_eq!(auxo.service().health(), Ok(()));
    for error in [
        auxo.queues().await.unwrap_err(),
        auxo.queue("q").unwrap().push("x").await.unwrap_err(),
        auxo.lease(["q"]).one().await.err().unwrap(),
    ] {
        assert_eq!(error.code(), Code::Unavailable);
        let start = format!("cannot reach Auxo at {url}: ");
        assert!(error.message().starts_with(&start), "{error}");
        assert_eq!(auxo.service().health(), Err(error));
    }
}

#[tokio::test]
async fn a_url_that_cannot_be_used_is_refused_at_once() {
    for (url, reason) in [
        ("grpc://127.0.0.1:8000/queues", "path"),
        ("grpcx://127.0.0.1:8000", "is not a grpc URL"),
        ("grpc://ada:secret@queue.example", "user name"),
        ("grpc:8000", "does not begin with grpc://"),
    ] {
        let error = Auxo::connect(url).await.err().unwrap();
        assert_eq!(error.code(), Code::BadRequest);
        assert!(error.message().contains(reason), "{url}: {error}");
    }
}

#[tokio::test]
async fn a_push_without_a_key_is_sent_once_and_its_outcome_is_unknown() {
    let served = Served::start().await;
    let (url, cut) = road(served.address, vec![Fate::CutAt("a marked payload")]).await;
    let auxo = Auxo::connect(&url).await.unwrap();
    let queue = auxo.queue("q").unwrap();
    let error = queue.push("a marked payload").await.unwrap_err();
    assert_eq!(error.code(), Code::UnknownOutcome);
    assert!(error.message().contains("may have been done"), "{error}");
    assert_eq!(*cut.lock().unwrap(), 1);
    assert_eq!(auxo.service().health(), Err(error));
    // The next call finds a new connection.
    queue.push("another").await.unwrap();
    assert_eq!(auxo.service().health(), Ok(()));
    assert_eq!(auxo.queues().await.unwrap()[0].counts.ready, 1);
}

#[tokio::test]
async fn a_push_with_a_key_is_sent_again_until_it_is_answered() {
    let served = Served::start().await;
    let fates = vec![
        Fate::CutAt("a marked payload"),
        Fate::CutAt("a marked payload"),
    ];
    let (url, cut) = road(served.address, fates).await;
    let auxo = Auxo::connect(&url).await.unwrap();
    let draft = auxo.queue("q").unwrap().job("a marked payload").unwrap();
    draft.key("k").push().await.unwrap();
    assert_eq!(*cut.lock().unwrap(), 2);
    assert_eq!(auxo.queues().await.unwrap()[0].counts.ready, 1);
}

#[tokio::test]
async fn a_settle_is_sent_once_and_a_look_again() {
    let served = Served::start().await;
    let fates = vec![
        Fate::CutAt("7-1-0000000000000002"),
        Fate::CutAt("a marked key"),
    ];
    let (url, cut) = road(served.address, fates).await;
    let auxo = Auxo::connect(&url).await.unwrap();
    let item = Settle {
        token: Token {
            job: JobId(7),
            counter: 1,
            nonce: 2,
        },
        outcome: Outcome::Ack { result: None },
    };
    let error = auxo.service().settle(vec![item]).await.unwrap_err();
    assert_eq!(error.code(), Code::UnknownOutcome);
    assert_eq!(*cut.lock().unwrap(), 1);
    let which = Which::Key("q".parse().unwrap(), "a marked key".to_owned());
    assert_eq!(auxo.service().find(which).await.unwrap(), None);
    assert_eq!(*cut.lock().unwrap(), 2);
}

#[tokio::test]
async fn a_handle_goes_on_after_the_server_was_restarted() {
    let served = Served::start().await;
    let auxo = served.connect().await;
    let queue = auxo.queue("q").unwrap();
    queue.push("before").await.unwrap();
    let mut watch = auxo.service().watch();
    let served = served.restart().await;
    // The connection has ended well, so nothing is in doubt.
    queue.push("after").await.unwrap();
    assert_eq!(served.service.tally().pushed, 2);
    // The stream of events comes back as well, and tells of what follows.
    let told = async {
        loop {
            queue.push("later").await.unwrap();
            let next = tokio::time::timeout(Duration::from_millis(200), watch.recv());
            if let Ok(notice) = next.await {
                return notice.unwrap();
            }
        }
    };
    let notice = tokio::time::timeout(Duration::from_secs(100), told).await;
    assert_eq!(notice.unwrap().queue.as_str(), "q");
}
