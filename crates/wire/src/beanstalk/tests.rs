use auxo_core::QueueName;
use bytes::BytesMut;
use proptest::prelude::*;

use super::*;

/// Everything that comes out of these bytes, fed in pieces.
fn items<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<Item>, Http> {
    let (mut decoder, mut buf) = (Decoder::new(100), BytesMut::new());
    let mut items = Vec::new();
    for piece in pieces {
        buf.extend_from_slice(piece);
        while let Some(item) = decoder.decode(&mut buf)? {
            items.push(item);
        }
    }
    Ok(items)
}

fn one(text: &str) -> Item {
    let mut all = items([text.as_bytes()]).unwrap();
    assert_eq!(all.len(), 1, "{text:?}: {all:?}");
    all.remove(0)
}

fn asked(text: &str) -> Request {
    match one(text) {
        Item::Request(request) => request,
        wrong => panic!("{text:?}: {wrong:?}"),
    }
}

fn refused(text: &str) -> Reply {
    match one(text) {
        Item::Wrong(reply) => reply,
        request => panic!("{text:?}: {request:?}"),
    }
}

fn name(text: &str) -> QueueName {
    QueueName::new(text).unwrap()
}

#[test]
fn every_command_is_understood() {
    let put = Request::Put {
        priority: 1,
        delay: 2,
        ttr: 3,
        body: "hello".into(),
    };
    let release = Request::Release {
        id: 7,
        priority: 8,
        delay: 9,
    };
    let bury = Request::Bury { id: 7, priority: 8 };
    for (text, request) in [
        ("put 1 2 3 5\r\nhello\r\n", put),
        ("reserve\r\n", Request::Reserve),
        (
            "reserve-with-timeout 5\r\n",
            Request::ReserveWithTimeout(Some(5)),
        ),
        ("reserve-job 7\r\n", Request::ReserveJob(7)),
        ("delete 7\r\n", Request::Delete(7)),
        ("release 7 8 9\r\n", release),
        ("bury 7 8\r\n", bury),
        ("touch 7\r\n", Request::Touch(7)),
        ("use a\r\n", Request::Use(name("a"))),
        ("use a:b\r\n", Request::Use(name("a:b"))),
        ("watch a\r\n", Request::Watch(name("a"))),
        ("ignore a\r\n", Request::Ignore(name("a"))),
        ("peek 7\r\n", Request::Peek(7)),
        ("peek-ready\r\n", Request::PeekReady),
        ("peek-delayed\r\n", Request::PeekDelayed),
        ("peek-buried\r\n", Request::PeekBuried),
        ("kick 7\r\n", Request::Kick(7)),
        ("kick-job 7\r\n", Request::KickJob(7)),
        ("stats-job 7\r\n", Request::StatsJob(7)),
        ("stats-tube a\r\n", Request::StatsTube(name("a"))),
        ("stats\r\n", Request::Stats),
        ("list-tubes\r\n", Request::ListTubes),
        ("list-tube-used\r\n", Request::ListTubeUsed),
        ("list-tubes-watched\r\n", Request::ListTubesWatched),
        ("pause-tube a 5\r\n", Request::PauseTube(name("a"), 5)),
        ("quit\r\n", Request::Quit),
    ] {
        assert_eq!(asked(text), request);
    }
}

#[test]
fn numbers_are_read_as_the_c_library_reads_them() {
    let wait = |seconds| Request::ReserveWithTimeout(seconds);
    for (text, request) in [
        ("reserve-with-timeout abc\r\n", wait(Some(0))),
        ("reserve-with-timeout \r\n", wait(Some(0))),
        ("reserve-with-timeout  3x\r\n", wait(Some(3))),
        ("reserve-with-timeout -1\r\n", wait(None)),
        ("reserve-with-timeout 4294967296\r\n", wait(Some(0))),
        ("reserve-with-timeout 4294967295\r\n", wait(None)),
        ("kick 5abc\r\n", Request::Kick(5)),
        ("kick +5\r\n", Request::Kick(5)),
        ("kick -1\r\n", Request::Kick(u32::MAX)),
        ("delete   7\r\n", Request::Delete(7)),
        ("pause-tubea 5\r\n", Request::PauseTube(name("a"), 5)),
        ("quit and go\r\n", Request::Quit),
    ] {
        assert_eq!(asked(text), request, "{text:?}");
    }
}

#[test]
fn a_time_to_run_of_zero_is_a_second() {
    let Request::Put { ttr, .. } = asked("put 0 0 0 0\r\n\r\n") else {
        panic!("not a put");
    };
    assert_eq!(ttr, 1);
}

#[test]
fn what_is_wrong_is_answered_as_beanstalkd_does() {
    let long = "x".repeat(LINE);
    let longest_name = format!("use {}\r\n", "x".repeat(201));
    for (text, reply) in [
        ("reservex\r\n", Reply::BadFormat),
        ("reserve \r\n", Reply::BadFormat),
        ("statsx\r\n", Reply::BadFormat),
        ("list-tubesx\r\n", Reply::BadFormat),
        ("peek-readyx\r\n", Reply::BadFormat),
        ("kick \r\n", Reply::BadFormat),
        ("kick abc\r\n", Reply::BadFormat),
        ("kick 18446744073709551616\r\n", Reply::BadFormat),
        (
            "reserve-with-timeout 99999999999999999999\r\n",
            Reply::BadFormat,
        ),
        ("delete 7 \r\n", Reply::BadFormat),
        ("delete x\r\n", Reply::BadFormat),
        ("delete -7\r\n", Reply::BadFormat),
        ("delete 18446744073709551616\r\n", Reply::BadFormat),
        ("release 1 0\r\n", Reply::BadFormat),
        ("release 1 4294967296 0\r\n", Reply::BadFormat),
        ("bury 1\r\n", Reply::BadFormat),
        ("put 1 2 3\r\n", Reply::BadFormat),
        ("put 4294967296 2 3 4\r\n", Reply::BadFormat),
        ("put 1 2 3 4 \r\n", Reply::BadFormat),
        ("use -a\r\n", Reply::BadFormat),
        ("use a b\r\n", Reply::BadFormat),
        ("use \r\n", Reply::BadFormat),
        ("use \u{e4}\r\n", Reply::BadFormat),
        (&longest_name, Reply::BadFormat),
        ("pause-tube a\r\n", Reply::BadFormat),
        ("pause-tube a 1 \r\n", Reply::BadFormat),
        ("pause-tube -a 1\r\n", Reply::BadFormat),
        ("pause-tube 5\r\n", Reply::BadFormat),
        ("a\0b\r\n", Reply::BadFormat),
        (&format!("{long}\r\n"), Reply::BadFormat),
        ("\r\n", Reply::UnknownCommand),
        ("kick\r\n", Reply::UnknownCommand),
        ("touch\r\n", Reply::UnknownCommand),
        ("PUT 0 0 0 0\r\n", Reply::UnknownCommand),
        ("a\rb\r\n", Reply::UnknownCommand),
        ("put 0 0 0 3\r\nabcde", Reply::ExpectedCrlf),
    ] {
        assert_eq!(refused(text), reply, "{text:?}");
    }
}

#[test]
fn a_job_that_is_too_big_is_passed_over_and_the_next_request_is_understood() {
    let text = format!("put 0 0 0 101 x\r\n{}\r\nquit\r\n", "a".repeat(101));
    let expected = [Item::Wrong(Reply::JobTooBig), Item::Request(Request::Quit)];
    assert_eq!(items([text.as_bytes()]).unwrap(), expected);
}

#[test]
fn an_endless_line_takes_no_room() {
    let (mut decoder, mut buf) = (Decoder::new(100), BytesMut::new());
    for _ in 0..1000 {
        buf.extend_from_slice(&[b'x'; 100]);
        assert_eq!(decoder.decode(&mut buf), Ok(None));
        assert!(buf.len() < LINE, "{} bytes are kept", buf.len());
    }
    buf.extend_from_slice(b"\r\nquit\r\n");
    let bad = Item::Wrong(Reply::BadFormat);
    assert_eq!(decoder.decode(&mut buf), Ok(Some(bad)));
    let quit = Item::Request(Request::Quit);
    assert_eq!(decoder.decode(&mut buf), Ok(Some(quit)));
}

#[test]
fn how_much_of_a_body_is_missing_is_known() {
    let (mut decoder, mut buf) = (Decoder::new(100), BytesMut::from("put 0 0 0 10\r\nabc"));
    assert_eq!(decoder.decode(&mut buf), Ok(None));
    assert_eq!(decoder.missing(&buf), 9);
    buf.extend_from_slice(b"defghij\r\n");
    assert!(decoder.decode(&mut buf).unwrap().is_some());
    assert_eq!(decoder.missing(&buf), 0);
}

#[test]
fn a_browser_is_recognised() {
    let long = format!("POST /{} HTTP/1.1\r\n", "x".repeat(1000));
    for text in [
        "POST / HTTP/1.1\r\n",
        "GET / HTTP/1.1\r\n",
        "PUT / HTTP/1.1\r\n",
        "PRI * HTTP/2.0\r\n",
        "Host: localhost:11300\r\n",
        "hOST: localhost:11300\r\n",
        &long,
    ] {
        assert_eq!(items([text.as_bytes()]), Err(Http), "{text:?}");
    }
    // A line inside of a body is just that.
    let body = "put 0 0 1 16\r\nGET / HTTP/1.1\r\n\r\n";
    assert!(items([body.as_bytes()]).is_ok());
}

#[test]
fn a_browser_is_recognised_by_a_long_line_however_it_is_cut() {
    for method in ["POST", "PUT", "OPTIONS"] {
        let text = format!("{method} /{} HTTP/1.1\r\nquit\r\n", "x".repeat(300));
        assert_eq!(items([text.as_bytes()]), Err(Http), "{method}");
        assert_eq!(items(text.as_bytes().chunks(230)), Err(Http), "{method}");
    }
}

/// Bytes that are likely to mean something.
fn talk() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"\r\n".to_vec()),
        Just(b"\r".to_vec()),
        Just(b"put 1 2 3 4\r\nabcd\r\n".to_vec()),
        Just(b"put 1 2 3 120\r\n".to_vec()),
        Just(b"reserve\r\n".to_vec()),
        Just(b"delete 12\r\n".to_vec()),
        Just(vec![b'y'; 130]),
        proptest::collection::vec(any::<u8>(), 0..8),
    ];
    proptest::collection::vec(piece, 0..20).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn however_bytes_are_cut_the_same_comes_out(bytes in talk(), cuts in proptest::collection::vec(1usize..40, 1..20)) {
        let whole = items([&bytes[..]]);
        let mut rest = &bytes[..];
        let mut pieces = Vec::new();
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, behind) = rest.split_at(rest.len().min(*cut));
            pieces.push(piece);
            rest = behind;
        }
        match (whole, items(pieces)) {
            (Ok(whole), Ok(cut)) => prop_assert_eq!(whole, cut),
            (Err(_), Err(_)) => {}
            (whole, cut) => prop_assert!(false, "{whole:?} and {cut:?}"),
        }
    }

    #[test]
    fn every_number_is_written_as_it_is(value: u64) {
        let mut buf = BytesMut::new();
        Reply::Inserted(value).encode(&mut buf);
        prop_assert_eq!(buf, format!("INSERTED {value}\r\n"));
    }
}
