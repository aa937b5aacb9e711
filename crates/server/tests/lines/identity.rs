//! What a run of the server is known by.

use super::bench::{Bench, Caller, Port};

/// What a field of `stats` or INFO says.
fn field(caller: &mut Caller, port: Port) -> String {
    let (text, name) = match port {
        Port::Resp => (caller.ask("INFO server"), "run_id:"),
        Port::Beanstalk => {
            let length = caller.ask("stats");
            let length: usize = length.strip_prefix("OK ").unwrap().parse().unwrap();
            let mut text = String::new();
            while text.len() < length {
                text += &format!("{}\n", caller.line());
            }
            assert_eq!(caller.line(), "");
            (text, "\nid: ")
        }
    };
    let (_, value) = text.split_once(name).unwrap();
    value.lines().next().unwrap().trim().to_owned()
}

/// A client that reads YAML makes a number of digits, and fails where it wants a text.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_known_by_random_digits_behind_a_letter() {
    let mut seen = Vec::new();
    for _ in 0..3 {
        let bench = Bench::start().await;
        let ids = [Port::Beanstalk, Port::Resp].map(|port| field(&mut bench.connect(port), port));
        for id in &ids {
            assert!(
                id.starts_with(|first: char| first.is_ascii_alphabetic()),
                "{id}"
            );
            assert!(
                id.len() >= 17 && id.bytes().all(|b| b.is_ascii_hexdigit()),
                "{id}"
            );
        }
        // 64 bits of it are random.
        assert_eq!(ids[0], ids[1][..17]);
        seen.push(ids[0].clone());
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 3);
}
