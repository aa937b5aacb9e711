//! Events: told as they come, and gone on with after the stream broke.

use auxo_core::JobId;
use auxo_core::life::Event;
use serde_json::json;

use crate::stub::{Heard, Step, Stub, pushed};

fn event(sequence: u64, word: &str) -> String {
    let notice = json!({"sequence": sequence, "at": 0, "queue": "q", "id": "7", "event": word});
    format!("id: run-{sequence}\nevent: {word}\ndata: {notice}\n\n")
}

#[tokio::test]
async fn a_watcher_hears_what_happens_and_goes_on_where_the_stream_broke() {
    let first = format!(": hello\n\n{}{}", event(1, "push"), event(2, "lease"));
    let missed = "id: run-4\nevent: missed\ndata: {\"missed\":2}\n\n";
    let second = format!("{missed}{}", event(5, "ack"));
    let mut stub = Stub::new([Step::Events(first), Step::Drop, Step::Events(second)]).await;
    let auxo = stub.connect().await;
    let mut watch = auxo.service().watch();
    for (sequence, event) in [(1, Event::Push), (2, Event::Lease), (5, Event::Ack)] {
        let notice = watch.recv().await.unwrap();
        assert_eq!((notice.sequence, notice.event), (sequence, event));
        assert_eq!(notice.job, JobId(7));
    }
    assert_eq!(stub.heard().await, Heard::Resumed(None));
    assert_eq!(stub.request().await.0, "GET /v1/events");
    assert_eq!(stub.heard().await, Heard::Resumed(Some("run-2".into())));
}

#[tokio::test]
async fn a_call_waits_until_the_watcher_is_there() {
    let mut stub = Stub::new([Step::Events(event(1, "push")), pushed(7..8)]).await;
    let auxo = stub.connect().await;
    let mut watch = auxo.service().watch();
    auxo.queue("q").unwrap().push("x").await.unwrap();
    assert_eq!(stub.heard().await, Heard::Resumed(None));
    assert_eq!(watch.recv().await.unwrap().event, Event::Push);
}
