//! Names that are meant to be something else.

use super::bench::{Bench, Port, framed};

/// What no queue may be called.
const BAD: [&[u8]; 12] = [
    b"",
    b"-q",
    b"a b",
    b"a\rb",
    b"a\nb",
    b"a\r\nQUIT",
    b"a\0b",
    b"a\xffb",
    b"caf\xc3\xa9",
    b"{q}",
    b"q*",
    b"q'\"`\\",
];

/// What one may be called, though it looks like a way out.
const ODD: [&str; 5] = ["..", "../../etc/passwd", "/etc/passwd", "a//b", "$(id);x"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_with_anything_in_it_that_ends_a_line_or_a_text_is_refused_and_makes_nothing() {
    let bench = Bench::start().await;
    let mut resp = bench.connect(Port::Resp);
    let long = vec![b'q'; 201];
    for name in BAD.into_iter().chain([&*long]) {
        for words in [
            &[b"ADDJOB", name, b"x", b"0"][..],
            &[b"GETJOB", b"NOHANG", b"FROM", name],
            &[b"QLEN", name],
            &[b"QPEEK", name, b"1"],
            &[b"QSTAT", name],
            &[b"PAUSE", name, b"all"],
            &[b"AUXO.PUSH", name, b"x"],
            &[b"AUXO.LEASE", b"FROM", name],
            &[b"AUXO.QUEUES", name],
            &[b"AUXO.JOB", name, b"key"],
        ] {
            let reply = resp.words(words);
            let shown = String::from_utf8_lossy(name);
            // One line, and no byte in it that a terminal would obey.
            assert!(reply.starts_with('-'), "{shown:?}: {reply:?}");
            assert!(!reply.contains(char::is_control), "{shown:?}: {reply:?}");
            assert!(reply.len() < 1000, "{shown:?}: {reply}");
        }
    }
    let mut beanstalk = bench.connect(Port::Beanstalk);
    for name in BAD.into_iter().chain([&*long]) {
        // An end of a line ends the request, which is then another one.
        if name.windows(2).any(|two| two == b"\r\n") {
            continue;
        }
        for word in ["use ", "watch ", "ignore ", "stats-tube "] {
            let reply = beanstalk.ask([word.as_bytes(), name].concat());
            let shown = String::from_utf8_lossy(name);
            assert_eq!(reply, "BAD_FORMAT", "{word}{shown:?}");
        }
        let pause = [b"pause-tube ".as_slice(), name, b" 1"].concat();
        assert_eq!(beanstalk.ask(pause), "BAD_FORMAT");
    }
    for caller in [&mut resp, &mut beanstalk] {
        caller.greet();
    }
    assert!(bench.service.queues(None).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_looks_like_a_path_is_a_name_and_leads_nowhere() {
    let bench = Bench::start().await;
    let (mut resp, mut beanstalk) = (bench.connect(Port::Resp), bench.connect(Port::Beanstalk));
    for name in ODD {
        let added = resp.words(&[b"ADDJOB", name.as_bytes(), b"x", b"0"]);
        assert!(added.starts_with("+D-"), "{name}: {added}");
        assert_eq!(
            beanstalk.ask(format!("use {name}")),
            format!("USING {name}")
        );
        let put = beanstalk.ask("put 0 0 60 1\r\nx");
        assert!(put.starts_with("INSERTED "), "{name}: {put}");
        assert_eq!(resp.words(&[b"QLEN", name.as_bytes()]), ":2");
    }
    let queues = bench.service.queues(None).await.unwrap();
    assert_eq!(queues.len(), ODD.len());
    // Nothing is called after them on the disk.
    let top: Vec<_> = std::fs::read_dir(bench.dir()).unwrap().collect();
    assert_eq!(top.len(), 1);
    for file in std::fs::read_dir(bench.dir().join("data")).unwrap() {
        let file = file.unwrap();
        assert!(file.file_type().unwrap().is_file(), "{file:?}");
        let name = file.file_name().into_string().unwrap();
        assert!(!name.contains("passwd") && !name.contains("id"), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_stands_within_an_argument_is_never_a_command() {
    let bench = Bench::start().await;
    let mut resp = bench.connect(Port::Resp);
    let evil = framed(&[b"ADDJOB", b"evil", b"x", b"0"]);
    let line = b"x\r\nADDJOB evil x 0\r\nput 0 0 60 1\r\nx\r\n";
    let errors = [
        resp.words(&[&evil]),
        resp.words(&[line]),
        resp.words(&[b"SHOW", line]),
        resp.words(&[b"ADDJOB", b"q", b"x", b"0", &evil, line]),
        resp.words(&[b"AUXO.PUSH", b"q", b"x", &evil, line]),
        resp.words(&[b"CONFIG", &evil]),
        resp.words(&[b"CLIENT", b"SETNAME", line]),
        resp.words(&[b"AUXO.SETTLE", line, b"ack"]),
    ];
    for error in errors {
        assert!(error.starts_with('-'), "{error:?}");
        assert!(!error.contains(char::is_control), "{error:?}");
    }
    assert!(resp.words(&[b"ECHO", &evil]).contains("evil"));
    assert!(
        resp.words(&[b"ADDJOB", b"q", &evil, b"0"])
            .starts_with("+D-")
    );
    // In a line that is typed, a quoted end of a line is a part of the word.
    let typed = resp.ask(r#"ADDJOB q "x\r\nADDJOB evil x 0\r\n" 0"#);
    assert!(typed.starts_with("+D-"), "{typed}");
    let mut beanstalk = bench.connect(Port::Beanstalk);
    let put = format!("put 0 0 60 {}\r\n", line.len());
    let put = beanstalk.ask([put.as_bytes(), line].concat());
    assert!(put.starts_with("INSERTED "), "{put}");
    beanstalk.greet();
    resp.greet();
    let queues = bench.service.queues(None).await.unwrap();
    let names: Vec<&str> = queues.iter().map(|queue| queue.name.as_str()).collect();
    assert_eq!(names, ["default", "q"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_take_room_only_while_a_call_waits_and_nobody_has_it_all() {
    let bench = Bench::with(|settings| settings.names = 400).await;
    let mut resp = bench.connect(Port::Resp);
    let names = |count| (0..count).map(|i| format!(" q{i}")).collect::<String>();
    let none = resp.ask(format!("GETJOB NOHANG FROM{}", names(500)));
    assert!(!none.starts_with('-'), "{none}");
    resp.ask("ADDJOB q0 x 0");
    let refused = resp.ask(format!("GETJOB FROM{}", names(101)));
    assert!(refused.starts_with('-'), "{refused}");
    let taken = resp.ask(format!("GETJOB FROM{}", names(100)));
    assert!(taken.contains("q0"), "{taken}");
}
