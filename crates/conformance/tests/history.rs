//! A history survives being written, read and cut short.

use std::fs;
use std::path::PathBuf;

use auxo_conformance::history::{Event, History, Op, Phase, Recorder};
use auxo_core::engine::Accepted;
use auxo_core::{Code, JobId, State, Token};

/// A file that is gone when the test is over.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let name = format!("auxo-history-{}-{name}", std::process::id());
        Scratch(std::env::temp_dir().join(name))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn full() -> Event {
    Event {
        at: 1,
        process: 2,
        call: 3,
        op: Op::Lease,
        phase: Phase::Unknown,
        engine: Some(4),
        id: Some(JobId(5)),
        token: Some(Token {
            job: JobId(5),
            counter: 6,
            nonce: u64::MAX,
        }),
        attempt: Some(7),
        deadline: Some(8),
        due: Some(9),
        hash: Some(10),
        queue: Some("a queue".to_owned()),
        priority: Some(7),
        key: Some("q/100% of\nall %20".to_owned()),
        window: Some(11),
        limit: Some(12),
        state: Some(State::Cancelled),
        how: Some(Accepted::Replaced),
        code: Some(Code::LeaseLost),
    }
}

#[test]
fn an_event_survives_being_written_and_read() {
    for event in [full(), Event::default()] {
        let line = event.to_string();
        assert!(!line.contains('\n'));
        assert_eq!(line.parse::<Event>(), Ok(event));
    }
}

#[test]
fn every_operation_and_phase_has_a_word_of_its_own() {
    for op in Op::ALL {
        for phase in Phase::ALL {
            let event = Event {
                op,
                phase,
                ..Event::default()
            };
            assert_eq!(event.to_string().parse::<Event>(), Ok(event));
        }
    }
}

#[test]
fn a_torn_last_line_is_ignored() {
    let text = format!("{}\n{}", full(), full());
    assert_eq!(History::parse(text.as_bytes()).unwrap().events, [full()]);
    assert_eq!(History::parse(b"1 2 3 pu").unwrap().events, []);
}

#[test]
fn a_damaged_line_is_an_error_that_names_it() {
    let text = format!("{}\n1 2 3 pull ok\n{}\n", full(), full());
    let error = History::parse(text.as_bytes()).unwrap_err().to_string();
    assert_eq!(error, "line 2: operation \"pull\"");
}

#[test]
fn a_recorder_goes_on_behind_a_torn_line_with_new_numbers_and_later_times() {
    let scratch = Scratch::new("goes-on");
    let first = Recorder::append_to(&scratch.0).unwrap();
    let call = first.invoke(full());
    drop(first);
    let mut torn = fs::read(&scratch.0).unwrap();
    torn.extend_from_slice(b"99 1 1 pus");
    fs::write(&scratch.0, torn).unwrap();
    let second = Recorder::append_to(&scratch.0).unwrap();
    let next = second.invoke(full());
    second.mark(Op::Killed);
    assert!(next > call);
    let events = History::read(&scratch.0).unwrap().events;
    let ops: Vec<Op> = events.iter().map(|event| event.op).collect();
    assert_eq!(ops, [Op::Lease, Op::Lease, Op::Killed]);
    assert!(events.is_sorted_by(|a, b| a.at <= b.at && a.call < b.call));
    assert_eq!(second.history().unwrap().events, events);
}

#[test]
fn threads_that_share_a_recorder_write_whole_lines_in_order() {
    let scratch = Scratch::new("threads");
    let recorder = Recorder::append_to(&scratch.0).unwrap();
    std::thread::scope(|scope| {
        for process in 1..=4 {
            let recorder = &recorder;
            scope.spawn(move || {
                for _ in 0..200 {
                    recorder.invoke(Event { process, ..full() });
                }
            });
        }
    });
    let events = recorder.history().unwrap().events;
    assert_eq!(events.len(), 800);
    assert!(events.is_sorted_by(|a, b| a.at <= b.at && a.call < b.call));
}
