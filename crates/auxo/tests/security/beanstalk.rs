//! The protocol that has no word for who one is.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use crate::server::Site;

#[test]
fn on_another_address_it_needs_client_certificates() {
    let site = Site::new();
    site.token(&["admin:*"]);
    let tls = site.tls();
    let (ca, client) = (
        site.text("ca.pem"),
        (site.text("client.pem"), site.text("client.key")),
    );
    let mut flags = vec!["--http", "127.0.0.1:0", "--beanstalk", "0.0.0.0:0"];
    let ran = site.refused(&flags);
    assert!(ran.err.contains("--tls-client-ca"), "{ran:?}");
    flags.extend(tls.iter().map(String::as_str));
    let ran = site.refused(&flags);
    assert!(ran.err.contains("client certificates"), "{ran:?}");
    flags.extend(["--tls-client-ca", &ca]);
    let server = site.serve(&flags);
    let log = server.says("beanstalk  ");
    let port = log.split("beanstalk  0.0.0.0:").nth(1).unwrap();
    let port = port.lines().next().unwrap();
    let talk = |own: &[&str]| {
        let mut client = Command::new("openssl")
            .args(["s_client", "-quiet", "-CAfile", &ca, "-verify_return_error"])
            .args(["-connect", &format!("127.0.0.1:{port}")])
            .args(own)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("openssl is not installed");
        let mut stdin = client.stdin.take().unwrap();
        // Whoever is refused may be gone already.
        let _ = stdin.write_all(b"list-tube-used\r\nquit\r\n");
        let output = client.wait_with_output().unwrap();
        drop(stdin);
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let known = talk(&["-cert", &client.0, "-key", &client.1]);
    assert_eq!(known, "USING default\r\n");
    assert_eq!(talk(&[]), "");
}

#[test]
fn a_socket_in_the_file_system_is_for_its_owner_and_goes_with_the_server() {
    let site = Site::new();
    site.token(&["admin:*"]);
    let socket = site.path("socket");
    let flag = format!("unix:{}", socket.display());
    let server = site.serve(&["--http", "127.0.0.1:0", "--beanstalk", &flag]);
    let mode = socket.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut stream = UnixStream::connect(&socket).unwrap();
    stream.write_all(b"list-tube-used\r\nquit\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "USING default\r\n");
    let second = Site::new();
    let ran = second.refused(&["--http", "127.0.0.1:0", "--beanstalk", &flag]);
    assert!(ran.err.contains("another program listens there"), "{ran:?}");
    server.stop();
    assert!(!socket.exists());
}
