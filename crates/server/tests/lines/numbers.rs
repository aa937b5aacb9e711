//! Numbers that are none, or past every bound, wherever a number may stand.

use super::bench::{Bench, Port, framed};

/// What is no number, or none that can be meant.
fn bad() -> Vec<String> {
    let fixed = [
        "-1",
        "-9223372036854775808",
        "18446744073709551615",
        "18446744073709551616",
        "99999999999999999999999999",
        "NaN",
        "inf",
        "1e400",
        "0x10",
        "1.5",
        "+",
        "-",
        "\u{661}",
    ];
    let mut bad: Vec<String> = fixed.iter().map(|text| (*text).to_owned()).collect();
    bad.push("9".repeat(60_000));
    bad
}

/// What is answered all the same: ids of 64 bits that no job has, and bounds for what is shown.
const ANSWERED: &[&str] = &[
    "QPEEK q -1",
    "QSCAN COUNT -1",
    "QSCAN MINLEN -1",
    "QSCAN IMPORTRATE -1",
    "JSCAN COUNT -1",
    "QPEEK q -9223372036854775808",
    "QSCAN COUNT -9223372036854775808",
    "QSCAN MINLEN -9223372036854775808",
    "QSCAN IMPORTRATE -9223372036854775808",
    "JSCAN COUNT -9223372036854775808",
    "ACKJOB 18446744073709551615",
    "NACK 18446744073709551615",
    "SHOW 18446744073709551615",
    "QSCAN 18446744073709551615",
    "AUXO.LEASE JOB 18446744073709551615",
    "AUXO.EXPLAIN 18446744073709551615",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_number_over_disques_port_is_refused_in_few_words() {
    let bench = Bench::start().await;
    let mut caller = bench.connect(Port::Resp);
    let mut answered: Vec<String> = Vec::new();
    for number in bad() {
        for command in [
            "ADDJOB q x {}",
            "ADDJOB q x 0 REPLICATE {}",
            "ADDJOB q x 0 DELAY {}",
            "ADDJOB q x 0 RETRY {}",
            "ADDJOB q x 0 TTL {}",
            "ADDJOB q x 0 MAXLEN {}",
            "GETJOB NOHANG TIMEOUT {} FROM q",
            "GETJOB NOHANG COUNT {} FROM q",
            "ACKJOB {}",
            "NACK {}",
            "SHOW {}",
            "QPEEK q {}",
            "QSCAN {}",
            "QSCAN COUNT {}",
            "QSCAN MINLEN {}",
            "QSCAN IMPORTRATE {}",
            "JSCAN {}",
            "JSCAN COUNT {}",
            "SELECT {}",
            "HELLO {}",
            "AUXO.PUSH q x priority {}",
            "AUXO.PUSH q x delay {}",
            "AUXO.PUSH q x ttr {}",
            "AUXO.PUSH q x ttl {}",
            "AUXO.PUSH q x run_at {}",
            "AUXO.PUSH q x expires_at {}",
            "AUXO.PUSH q x max_attempts {}",
            "AUXO.PUSH q x retention {}",
            "AUXO.PUSH q x key k key_window {}",
            "AUXO.LEASE MAX {} FROM q",
            "AUXO.LEASE WAIT {} FROM q",
            "AUXO.LEASE TTR {} FROM q",
            "AUXO.LEASE JOB {}",
            "AUXO.SETTLE {} ack",
            "AUXO.SETTLE 7-9-0000000000000abc snooze delay {}",
            "AUXO.SETTLE 7-9-0000000000000abc release priority {}",
            "AUXO.EXTEND 7-9-0000000000000abc TTR {}",
            "AUXO.JOB {}",
            "AUXO.EXPLAIN {}",
            "AUXO.KICK {}",
            "AUXO.CANCEL {}",
        ] {
            let words: Vec<String> = command
                .split(' ')
                .map(|w| w.replace("{}", &number))
                .collect();
            let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            let request = framed(&words);
            caller.send(&request);
            let reply = caller.reply();
            let request = command.replace("{}", &number);
            assert!(reply.len() < 1000, "{request:.100}: {} bytes", reply.len());
            assert!(!reply.contains(char::is_control), "{request:.100}: {reply}");
            if !reply.starts_with('-') {
                answered.push(request);
            }
            caller.greet();
        }
    }
    assert_eq!(answered, ANSWERED);
    assert!(bench.service.queues(None).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_number_over_beanstalkds_port_is_refused_with_its_word() {
    let bench = Bench::start().await;
    let mut caller = bench.connect(Port::Beanstalk);
    for number in bad().into_iter().chain(["4294967296".to_owned()]) {
        for command in [
            "put {} 0 60 1",
            "put 0 {} 60 1",
            "put 0 0 {} 1",
            "put 0 0 60 {}",
            // Not `reserve-with-timeout`: below zero is for ever, and what is no number is zero.
            "reserve-job {}",
            "delete {}",
            "release {} 0 0",
            "release 1 {} 0",
            "release 1 0 {}",
            "bury {} 0",
            "bury 1 {}",
            "touch {}",
            "peek {}",
            "kick {}",
            "kick-job {}",
            "stats-job {}",
            "pause-tube default {}",
        ] {
            let reply = caller.ask(command.replace("{}", &number));
            // What is read as the number before it goes wrong is as beanstalkd reads it: see the transcripts.
            let words = ["BAD_FORMAT", "NOT_FOUND", "TIMED_OUT", "KICKED 0", "PAUSED"];
            assert!(words.contains(&&*reply), "{command} {number:.30}: {reply}");
            let is_put = command.starts_with("put");
            assert!(
                !is_put || reply == "BAD_FORMAT",
                "{command} {number:.30}: {reply}"
            );
            caller.greet();
        }
    }
    for queue in bench.service.queues(None).await.unwrap() {
        assert_eq!(queue.books.accepted, 0, "{queue:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_megabytes_in_place_of_a_number_are_refused_in_few_words() {
    let bench = Bench::start().await;
    let long = "9".repeat(10 << 20);
    let typed = format!("ADDJOB q x {long}\r\n").into_bytes();
    let sent = framed(&[b"ADDJOB", b"q", b"x", long.as_bytes()]);
    for request in [typed, sent] {
        let mut caller = bench.connect(Port::Resp);
        caller.send(&request);
        let said = caller.rest();
        // Who is still sending when it is closed may not hear why.
        let heard = said.is_empty() || said.starts_with(b"-ERR Protocol error: ");
        assert!(heard && said.len() < 100, "{} bytes", said.len());
        bench.connect(Port::Resp).greet();
    }
    let mut caller = bench.connect(Port::Beanstalk);
    for request in [
        format!("put 0 0 60 {long}"),
        format!("delete {long}"),
        format!("use {long}"),
    ] {
        assert_eq!(caller.ask(request), "BAD_FORMAT");
        caller.greet();
    }
    assert!(bench.service.queues(None).await.unwrap().is_empty());
}
