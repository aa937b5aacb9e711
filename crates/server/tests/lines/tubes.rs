//! Names of tubes by the hundred thousand.

use super::bench::{Bench, Caller, Port};

/// As many names as one connection may watch, each as long as there may be.
fn watch_many(bench: &Bench, number: usize) -> (Caller, String) {
    let mut caller = bench.connect(Port::Beanstalk);
    let watches = (1..1000).map(|i| format!("watch {}-{number:05}-{i:05}\r\n", "n".repeat(180)));
    caller.send(watches.collect::<String>());
    let mut last = String::new();
    (1..1000).for_each(|_| last = caller.reply());
    (caller, last)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_is_an_end_to_the_names_that_are_in_use_and_room_again_when_they_are_not() {
    let bench = Bench::with(|settings| settings.names = 5000).await;
    let mut full = Vec::new();
    for number in 0..5 {
        let (caller, last) = watch_many(&bench, number);
        assert_eq!(last, "WATCHING 1000", "{number}");
        full.push(caller);
    }
    // Every connection begins with one, whatever there is of others.
    let (mut late, last) = watch_many(&bench, 5);
    assert_eq!(last, "OUT_OF_MEMORY");
    assert_eq!(late.ask("use other"), "OUT_OF_MEMORY");
    assert_eq!(late.ask("list-tube-used"), "USING default");
    let put = late.ask("put 0 0 60 1\r\nx");
    assert!(put.starts_with("INSERTED "), "{put}");
    // What is in use already is no more for one who uses it, too.
    let known = format!("{}-00003-00007", "n".repeat(180));
    assert_eq!(late.ask(format!("use {known}")), format!("USING {known}"));
    full.pop();
    let mut next = bench.connect(Port::Beanstalk);
    let began = std::time::Instant::now();
    while next.ask("use other") != "USING other" {
        assert!(began.elapsed() < super::bench::PATIENCE, "there is no room");
    }
}
