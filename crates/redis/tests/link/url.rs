//! What a URL can say, and what is said about one that is wrong.

use std::time::Duration;

use auxo_core::Code;

use crate::url::{Address, Durability, Kind, StoreUrl};

fn tcp(host: &str, port: u16) -> Address {
    Address::Tcp(host.to_owned(), port)
}

#[test]
fn a_url_says_where_the_store_is() {
    for (url, kind, db) in [
        ("redis://h", Kind::Single(tcp("h", 6379)), 0),
        ("redis://h:1/7", Kind::Single(tcp("h", 1)), 7),
        ("rediss://u:p@h", Kind::Single(tcp("h", 6379)), 0),
        ("redis://[::1]:1", Kind::Single(tcp("::1", 1)), 0),
        ("redis://[fe80::1]/2", Kind::Single(tcp("fe80::1", 6379)), 2),
        (
            "redis+unix:///run/redis%20a.sock?db=3",
            Kind::Single(Address::Unix("/run/redis a.sock".into())),
            3,
        ),
        (
            "redis+sentinel://a,b:1,[::2]/main/4",
            Kind::Sentinel {
                sentinels: vec![tcp("a", 26379), tcp("b", 1), tcp("::2", 26379)],
                primary: "main".to_owned(),
            },
            4,
        ),
        (
            "rediss+cluster://:p@a,b:1",
            Kind::Cluster {
                seeds: vec![tcp("a", 6379), tcp("b", 1)],
            },
            0,
        ),
    ] {
        let parsed: StoreUrl = url.parse().unwrap_or_else(|error| panic!("{url}: {error}"));
        assert_eq!((parsed.kind(), parsed.db()), (&kind, db), "{url}");
    }
}

#[test]
fn a_url_has_options_with_defaults() {
    let plain: StoreUrl = "redis://h".parse().unwrap();
    assert_eq!(plain.prefix(), "auxo");
    assert_eq!(plain.shards(), None);
    assert_eq!(plain.durability(), Durability::Async);
    assert_eq!(plain.timeout(), Duration::from_secs(5));

    let full = "redis://h?prefix=a.b:c_d-9&shards=16&durability=replicated&replicas=2&timeout=1.5s";
    let full: StoreUrl = full.parse().unwrap();
    assert_eq!(full.prefix(), "a.b:c_d-9");
    assert_eq!(full.shards(), Some(16));
    let durability = Durability::Replicated { replicas: Some(2) };
    assert_eq!(full.durability(), durability);
    assert_eq!(full.timeout(), Duration::from_millis(1500));
}

#[test]
fn a_wrong_url_says_what_is_wrong_with_it() {
    for (url, problem) in [
        ("http://h", "must begin with one of redis://"),
        ("redis://", "a host is missing"),
        ("redis://h:", "the port of \"h:\""),
        ("redis://h:0", "from 1 to 65535"),
        ("redis://h:70000", "from 1 to 65535"),
        ("redis://::1", "in brackets"),
        ("redis://[::1", "no closing bracket"),
        ("redis://[::1]x", "in brackets"),
        ("redis://a b", "that no host has"),
        ("redis://a,b", "several hosts"),
        ("redis://h/x", "database \"x\" is not a number"),
        ("redis://h/0/1", "database \"0/1\""),
        ("redis://user@h", "user:password"),
        ("redis://u:%zz@h", "the password has a %"),
        ("redis://u:%ff@h", "the password is not UTF-8"),
        ("redis+cluster://h/1", "only the database 0"),
        ("redis+sentinel://h", "the name of the primary is missing"),
        ("redis+unix://run/x", "absolute path"),
        (
            "redis://h?shards=0",
            "shards=0 is not a number from 1 to 128",
        ),
        (
            "redis://h?shards=129",
            "shards=129 is not a number from 1 to 128",
        ),
        ("redis://h?prefix=a{b}", "prefix="),
        ("redis://h?prefix=", "prefix="),
        (
            "redis://h?durability=always",
            "not one of async, replicated, none",
        ),
        ("redis://h?replicas=1", "needs durability=replicated"),
        ("redis://h?timeout=fast", "timeout"),
        ("redis://h?timeout=1ms", "from 10ms to 10m"),
        ("redis://h?ca=f", "begin with rediss"),
        ("rediss://h?cert=f", "need each other"),
        ("redis://h?sentinel_password=x", "for sentinels"),
        ("redis://h?shard=1", "option \"shard\" is not known"),
        ("redis://h?shards=1&shards=1", "twice"),
        ("redis://h?db=1", "option \"db\" is not known"),
        ("redis://h?prefix", "name=value"),
    ] {
        let error = url.parse::<StoreUrl>().expect_err(url);
        super::is(&error, Code::BadRequest, problem);
    }
}

#[test]
fn nobody_sees_a_password() {
    let secret = "s3cr3t";
    let url = format!(
        "rediss+sentinel://u%40:{secret}@a:1/m/2?sentinel_user=su&sentinel_password={secret}&ca=/c%26a&timeout=1s"
    );
    let parsed: StoreUrl = url.parse().unwrap();
    let shown = "rediss+sentinel://u%40:***@a:1/m/2?prefix=auxo&timeout=1s&ca=/c%26a&sentinel_user=su&sentinel_password=***";
    assert_eq!(parsed.to_string(), shown);
    assert_eq!(format!("{parsed:?}"), format!("StoreUrl({shown})"));
    for wrong in [
        format!("redis://u:{secret}@h?nope=1"),
        format!("redis://u:{secret}@h:x"),
        format!("redis://{secret}@h"),
        format!("redis+sentinel://h/m?sentinel_password={secret}&nope=1"),
        format!("redis+sentinel://h/m?sentinel_password={secret}%"),
    ] {
        let error = wrong.parse::<StoreUrl>().expect_err(&wrong);
        assert!(!error.to_string().contains(secret), "{error}");
    }
}

#[test]
fn what_is_shown_reads_back_as_the_same() {
    for url in [
        "redis://[::1]:1/7?shards=3&durability=none",
        "redis+unix:///a%3Fb?db=3",
        "redis+cluster://a,b:1?durability=replicated&replicas=3",
        "rediss://h?cert=/a&key=/b&timeout=250ms",
        "redis+sentinel://a/my%2Fname/1",
    ] {
        let parsed: StoreUrl = url.parse().unwrap();
        let shown = parsed.to_string();
        assert_eq!(shown.parse::<StoreUrl>().unwrap(), parsed, "{shown}");
    }
}
