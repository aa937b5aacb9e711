//! A store on Redis that cannot be opened: what is wrong, and what to do next.

use crate::shell::bare;
use auxo_harness::command::Ran;
use auxo_harness::redis::Single;
use auxo_harness::redis::tls::Certificates;

fn serve(url: &str) -> Ran {
    bare(&["serve", "--http", "127.0.0.1:0", "--store", url])
}

/// Whether it failed, and said all of this but not to clear something away.
#[track_caller]
fn says(ran: &Ran, parts: &[&str]) {
    assert_eq!(ran.code, 1, "{ran:?}");
    for part in parts {
        assert!(ran.err.contains(part), "{part}: {ran:?}");
    }
    assert!(!ran.err.contains("clear away"), "{ran:?}");
}

#[test]
fn a_url_that_is_wrong_about_tls_is_told_which_one_is_right() {
    let certificates = Certificates::make();
    let (plain, port) = certificates.serve("no");
    let ca = certificates.file("ca.pem");
    let url = format!("rediss://{}?ca={}", plain.address(), ca.to_str().unwrap());
    let parts = [
        "does not answer with TLS",
        "must begin with redis, not rediss",
        "correct the store's URL",
    ];
    says(&serve(&url), &parts);
    let parts = ["must begin with rediss", "correct the store's URL"];
    says(&serve(&format!("redis://127.0.0.1:{port}")), &parts);
    let other = Certificates::make();
    let ca = other.file("ca.pem");
    let url = format!("rediss://127.0.0.1:{port}?ca={}", ca.to_str().unwrap());
    says(&serve(&url), &["invalid peer certificate", "ca=FILE"]);
}

#[test]
fn who_has_no_right_password_is_told_where_to_put_it() {
    let redis = Single::start(&["--requirepass", "right"]);
    let url = |login: &str| format!("redis://{login}{}", redis.address());
    let parts = ["redis://USER:PASSWORD@", "--store", "AUXO_STORE"];
    for (login, code) in [("", "NOAUTH"), (":no@", "WRONGPASS"), ("a:b@", "WRONGPASS")] {
        let ran = serve(&url(login));
        says(&ran, &parts);
        says(&ran, &[code, &redis.address()]);
    }
    let ran = bare(&["queues", "--server", &url("")]);
    says(&ran, &["NOAUTH", "redis://USER:PASSWORD@", "--server"]);

    let open = Single::start(&[]);
    let ran = serve(&format!("redis://:right@{}", open.address()));
    says(&ran, &["leave user and password out"]);
    open.ask(&["ACL", "SETUSER", "reader", "on", ">pw", "~auxo*", "+@read"]);
    let ran = serve(&format!("redis://reader:pw@{}", open.address()));
    says(&ran, &["NOPERM", "docs/REDIS.md"]);
}

#[test]
fn a_sentinel_has_a_password_of_its_own() {
    let sentinel = Single::start(&["--requirepass", "right"]);
    let ran = serve(&format!("redis+sentinel://{}/main", sentinel.address()));
    says(&ran, &["NOAUTH", "sentinel_user", "sentinel_password"]);
}

#[test]
fn a_redis_that_is_not_there_is_named() {
    let ran = serve("redis://127.0.0.1:1");
    says(&ran, &["127.0.0.1:1", "is Redis running there"]);
}
