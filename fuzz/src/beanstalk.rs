//! beanstalkd's requests.

use auxo_wire::beanstalk::{Decoder, Http, Item, LINE, Request};
use bytes::BytesMut;

use crate::pieces::pieces;
use crate::room;

/// Feeds these bytes in one go and in pieces; both must say the same, and take no more room than there may be.
pub fn check(bytes: &[u8], cuts: &[u8], largest: usize) {
    let room = 300 * bytes.len() + 4 * largest + (64 << 10);
    let whole = room::within(room, || listen(&[bytes], largest));
    let cut = room::within(room, || listen(&pieces(bytes, cuts), largest));
    assert_eq!(whole, cut);
    for item in whole.0 {
        if let Item::Request(request) = item {
            let again = listen(&[&written(&request)], largest);
            assert_eq!(again, (vec![Item::Request(request)], None));
        }
    }
}

/// Everything that comes out, and whether it ended early.
fn listen(pieces: &[&[u8]], largest: usize) -> (Vec<Item>, Option<Http>) {
    let (mut decoder, mut buf) = (Decoder::new(largest), BytesMut::new());
    let mut items = Vec::new();
    for piece in pieces {
        buf.extend_from_slice(piece);
        loop {
            match decoder.decode(&mut buf) {
                Ok(Some(item)) => items.push(item),
                Ok(None) => break,
                Err(http) => return (items, Some(http)),
            }
        }
        // What is kept is a line that has no end yet, or a body.
        let missing = decoder.missing(&buf);
        assert!(missing <= largest + 2, "{missing} bytes are waited for");
        match missing {
            0 => assert!(buf.len() < LINE, "{} bytes are kept", buf.len()),
            _ => assert!(buf.len() + missing <= largest + 2),
        }
    }
    (items, None)
}

/// A request as a client would write it.
pub fn written(request: &Request) -> Vec<u8> {
    let line = match request {
        Request::Put {
            priority,
            delay,
            ttr,
            body,
        } => {
            let head = format!("put {priority} {delay} {ttr} {}\r\n", body.len());
            return [head.as_bytes(), body, b"\r\n"].concat();
        }
        Request::Reserve => "reserve".into(),
        Request::ReserveWithTimeout(Some(seconds)) => format!("reserve-with-timeout {seconds}"),
        Request::ReserveWithTimeout(None) => "reserve-with-timeout -1".into(),
        Request::ReserveJob(id) => format!("reserve-job {id}"),
        Request::Delete(id) => format!("delete {id}"),
        Request::Release {
            id,
            priority,
            delay,
        } => format!("release {id} {priority} {delay}"),
        Request::Bury { id, priority } => format!("bury {id} {priority}"),
        Request::Touch(id) => format!("touch {id}"),
        Request::Use(tube) => format!("use {tube}"),
        Request::Watch(tube) => format!("watch {tube}"),
        Request::Ignore(tube) => format!("ignore {tube}"),
        Request::Peek(id) => format!("peek {id}"),
        Request::PeekReady => "peek-ready".into(),
        Request::PeekDelayed => "peek-delayed".into(),
        Request::PeekBuried => "peek-buried".into(),
        Request::Kick(count) => format!("kick {count}"),
        Request::KickJob(id) => format!("kick-job {id}"),
        Request::StatsJob(id) => format!("stats-job {id}"),
        Request::StatsTube(tube) => format!("stats-tube {tube}"),
        Request::Stats => "stats".into(),
        Request::ListTubes => "list-tubes".into(),
        Request::ListTubeUsed => "list-tube-used".into(),
        Request::ListTubesWatched => "list-tubes-watched".into(),
        Request::PauseTube(tube, seconds) => format!("pause-tube {tube} {seconds}"),
        Request::Quit => "quit".into(),
    };
    format!("{line}\r\n").into_bytes()
}
