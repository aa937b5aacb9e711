//! A server that cannot begin says why and leaves nothing behind.

use std::net::TcpListener;

use crate::shell::Shell;

#[test]
fn a_port_that_is_taken_is_named_and_no_store_is_made() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let shell = Shell::new();
    let data = shell.data().join("new");
    let ran = shell.run(&[
        "serve",
        "--http",
        &address,
        "--data",
        data.to_str().unwrap(),
    ]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains(&address), "{ran:?}");
    assert!(ran.err.contains("--http"), "{ran:?}");
    assert!(!data.exists(), "a store was made");
}

#[test]
fn a_directory_with_other_things_in_it_is_refused() {
    let shell = Shell::new();
    std::fs::write(shell.data().join("letter.txt"), "dear Ada").unwrap();
    let ran = shell.run(&["serve", "--http", "127.0.0.1:0"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("is not a data directory"), "{ran:?}");
}
