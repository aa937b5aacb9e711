//! HTTP/2 as it is abused: frames written by hand.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::bench::{Bench, within};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GO_AWAY: u8 = 7;
const CONTINUATION: u8 = 9;

const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// `:method GET`, `:scheme http`, `:path /healthz`, `:authority x`, as HPACK without a table.
const REQUEST: &[u8] = b"\x82\x86\x04\x08/healthz\x01\x01x";

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

async fn open(bench: &Bench) -> TcpStream {
    let mut stream = bench.connect().await;
    stream.write_all(PREFACE).await.unwrap();
    stream.write_all(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
    stream
}

/// Sends until the server has closed or everything is sent, and answers with the frames that came back: kind and payload.
async fn flood(mut stream: TcpStream, frames: impl Iterator<Item = Vec<u8>>) -> Vec<(u8, Vec<u8>)> {
    let (mut reading, mut writing) = stream.split();
    let send = async {
        for frame in frames {
            if writing.write_all(&frame).await.is_err() {
                return;
            }
        }
        let _ = writing.shutdown().await;
    };
    let receive = async {
        let mut bytes = Vec::new();
        let _ = reading.read_to_end(&mut bytes).await;
        bytes
    };
    let ((), bytes) = within(async { tokio::join!(send, receive) }).await;
    let mut rest = &bytes[..];
    let mut frames = Vec::new();
    while let Some((head, more)) = rest.split_at_checked(9) {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let Some((payload, more)) = more.split_at_checked(length) else {
            break;
        };
        frames.push((head[3], payload.to_vec()));
        rest = more;
    }
    frames
}

/// The code with which the server gave the connection up.
fn gave_up(frames: &[(u8, Vec<u8>)]) -> Option<u8> {
    let mut ends = frames.iter().filter(|(kind, _)| *kind == GO_AWAY);
    ends.next_back().map(|(_, payload)| payload[7])
}

/// A connection of a well-behaved client on the same server.
async fn healthy(bench: &Bench) {
    let io = TokioIo::new(bench.connect().await);
    let (mut sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io)
        .await
        .unwrap();
    tokio::spawn(connection);
    let request = hyper::Request::builder()
        .uri(format!("http://{}/healthz", bench.address))
        .body(Full::new(Bytes::new()))
        .unwrap();
    let reply = within(sender.send_request(request)).await.unwrap();
    assert_eq!(reply.status(), 200);
    reply.into_body().collect().await.unwrap();
}

const PROTOCOL_ERROR: u8 = 1;
const ENHANCE_YOUR_CALM: u8 = 11;

#[tokio::test]
async fn a_client_that_takes_back_what_it_asked_for_over_and_over_is_cut_off() {
    let bench = Bench::start().await;
    let stream = open(&bench).await;
    let frames = (0..100_000).map(|i| {
        let id = 2 * i + 1;
        let mut both = frame(HEADERS, END_STREAM | END_HEADERS, id, REQUEST);
        both.extend(frame(RESET, 0, id, &8u32.to_be_bytes()));
        both
    });
    let answer = flood(stream, frames).await;
    let answered = answer.iter().filter(|(kind, _)| *kind == HEADERS).count();
    println!(
        "{answered} of 100,000 were answered; given up with {:?}",
        gave_up(&answer)
    );
    assert_eq!(gave_up(&answer), Some(ENHANCE_YOUR_CALM));
    assert!(answered < 10_000, "{answered}");
    healthy(&bench).await;
}

#[tokio::test]
async fn a_head_that_goes_on_in_frame_after_frame_is_cut_off() {
    let bench = Bench::start().await;
    // A field of ten thousand bytes in each frame, and the head never ends.
    let field = [b"\x00\x01a\x7f\x91\x4d".as_slice(), &[b'b'; 10_000]].concat();
    let stream = open(&bench).await;
    let begin = frame(HEADERS, END_STREAM, 1, REQUEST);
    let more = std::iter::repeat_n(frame(CONTINUATION, 0, 1, &field), 10_000);
    let answer = flood(stream, std::iter::once(begin).chain(more)).await;
    assert!(gave_up(&answer).is_some(), "{answer:?}");
    // The same without a byte in them.
    let stream = open(&bench).await;
    let begin = frame(HEADERS, END_STREAM, 1, REQUEST);
    let more = std::iter::repeat_n(frame(CONTINUATION, 0, 1, &[]), 100_000);
    let answer = flood(stream, std::iter::once(begin).chain(more)).await;
    assert!(gave_up(&answer).is_some(), "{answer:?}");
    healthy(&bench).await;
}

#[tokio::test]
async fn a_head_over_the_limit_is_431_and_the_connection_goes_on() {
    let bench = Bench::start().await;
    let io = TokioIo::new(bench.connect().await);
    let (mut sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io)
        .await
        .unwrap();
    tokio::spawn(connection);
    for (lines, status) in [(10, 200), (3000, 431), (10, 200)] {
        let mut request =
            hyper::Request::builder().uri(format!("http://{}/healthz", bench.address));
        for i in 0..lines {
            request = request.header(format!("x-{i}"), "y");
        }
        let request = request.body(Full::new(Bytes::new())).unwrap();
        let reply = within(sender.send_request(request)).await.unwrap();
        assert_eq!(reply.status(), status);
        reply.into_body().collect().await.unwrap();
    }
}

#[tokio::test]
async fn streams_past_the_limit_are_refused_and_then_the_connection() {
    let bench = Bench::start().await;
    let stream = open(&bench).await;
    // Bodies that are announced and never come: each stream stays open.
    let post = b"\x83\x86\x04\x09/v1/lease\x01\x01x";
    let frames = (0..1000).map(|i| frame(HEADERS, END_HEADERS, 2 * i + 1, post));
    let answer = flood(stream, frames).await;
    let refused = answer.iter().filter(|(kind, _)| *kind == RESET).count();
    let gave_up = gave_up(&answer);
    println!("{refused} streams were refused; given up with {gave_up:?}");
    assert!(refused > 0, "none was refused");
    assert_eq!(gave_up, Some(ENHANCE_YOUR_CALM));
    healthy(&bench).await;
}

/// How a connection stands after a flood.
#[derive(Debug, PartialEq, Eq)]
enum After {
    /// The request behind the flood is answered, and so many of the frames were acknowledged.
    Answered(usize),
    /// The server gave up with this code.
    GaveUp(u8),
}

/// Sends a frame over and over, then a request, and reads until the server answers that or gives up.
async fn ask_behind(mut stream: TcpStream, small: &[u8], count: usize) -> After {
    let (reading, mut writing) = stream.split();
    let mut reading = BufReader::new(reading);
    let send = async {
        for _ in 0..count {
            writing.write_all(small).await?;
        }
        let request = frame(HEADERS, END_STREAM | END_HEADERS, 1, REQUEST);
        writing.write_all(&request).await
    };
    let receive = async {
        let mut acknowledged = 0;
        loop {
            let mut head = [0; 9];
            reading.read_exact(&mut head).await.unwrap();
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let mut payload = vec![0; length];
            reading.read_exact(&mut payload).await.unwrap();
            match head[3] {
                HEADERS => return After::Answered(acknowledged),
                GO_AWAY => return After::GaveUp(payload[7]),
                kind if kind == small[3] && head[4] == ACK => acknowledged += 1,
                _ => {}
            }
        }
    };
    // The server may close while it is sent to, and what it said before tells why.
    let (_, after) = within(async { tokio::join!(send, receive) }).await;
    after
}

#[tokio::test]
async fn small_frames_are_answered_each_or_end_that_connection() {
    const COUNT: usize = 50_000;
    let bench = Bench::start().await;
    for (small, after) in [
        // One more is in the greeting.
        (frame(SETTINGS, 0, 0, &[]), After::Answered(COUNT + 1)),
        (frame(PING, 0, 0, &[0; 8]), After::Answered(COUNT)),
        (frame(DATA, 0, 1, &[]), After::GaveUp(PROTOCOL_ERROR)),
        (frame(8, 0, 0, &1u32.to_be_bytes()), After::Answered(0)),
        (
            frame(0x5a, 0, 0, b"nobody knows this frame"),
            After::Answered(0),
        ),
    ] {
        let stream = open(&bench).await;
        assert_eq!(ask_behind(stream, &small, COUNT).await, after, "{small:?}");
        healthy(&bench).await;
    }
}
