//! What a set-up of Redis can lose, looked at when a store is opened, and told in plain sentences.
//!
//! A Redis that may throw jobs away, or forgets them all when it is restarted, is refused unless `durability=none` says that
//! this is wanted. Settings that only `CONFIG GET` shows are not seen where a user may not call it, as on many hosted servers;
//! then the sentences say so, and nothing is refused for them.

use std::collections::HashMap;

use auxo_core::{Code, Error, Result};

use crate::keys::Keys;
use crate::link::{Call, Link};
use crate::script;
use crate::store::{bytes, items, text};
use crate::url::Durability;

/// The oldest Redis that the scripts run on.
const OLDEST: Version = (6, 2, 0);
/// Where the makers of Redis and Valkey fixed CVE-2025-49844. Newer lines than the last were never without the fix.
const REDIS_FIXES: &[Version] = &[(6, 2, 20), (7, 2, 11), (7, 4, 6), (8, 0, 4), (8, 2, 2)];
const VALKEY_FIXES: &[Version] = &[(7, 2, 11), (8, 0, 6), (8, 1, 4)];

type Version = (u32, u32, u32);

/// What a set-up can lose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setup {
    /// Plain sentences. One that is true for some servers of a cluster only begins with their addresses.
    pub lines: Vec<String>,
}

/// What is known about one primary.
#[derive(Clone, Debug)]
struct Facts {
    valkey: bool,
    version: Version,
    /// What it throws away when its memory is full.
    policy: Option<String>,
    aof: bool,
    replicas: u32,
    /// What only `CONFIG GET` shows: `None` where we may not ask.
    settings: Option<Settings>,
}

#[derive(Clone, Debug)]
struct Settings {
    /// When a snapshot is made, empty for never.
    save: String,
    appendfsync: String,
    /// How many replicas must follow, and how closely in seconds, or changes are refused.
    least: u32,
    lag: u32,
}

/// Looks at every primary that can be reached, and refuses a set-up that does not keep jobs. Of the others it is said that they could
/// not be looked at.
pub async fn look(link: &Link, durability: Durability) -> Result<Setup> {
    let (mut infos, mut told, mut away) = (Vec::new(), Vec::new(), Vec::new());
    for (address, info) in link.on_every_primary(&[b"INFO"], &[]).await {
        match info {
            Ok(info) => infos.push((address, info)),
            Err(error) => {
                told.push((address.clone(), vec![unseen(&error)]));
                away.push((address, error));
            }
        }
    }
    if let (true, Some((_, error))) = (infos.is_empty(), away.first()) {
        return Err(error.clone());
    }
    let away: Vec<String> = away.into_iter().map(|(address, _)| address).collect();
    let mut settings = settings(link, &away).await.unwrap_or_default();
    for (address, info) in infos {
        let text = String::from_utf8_lossy(&bytes(info)?).into_owned();
        let facts = facts(&text, settings.remove(&address));
        let lines = judge(&facts, durability)
            .map_err(|why| Error::new(Code::Conflict, format!("the redis at {address} {why}")))?;
        told.push((address, lines));
    }
    Ok(Setup { lines: merge(told) })
}

/// All commands that Auxo, or one of its scripts, calls.
const COMMANDS: &[&str] = &[
    "ping",
    "role",
    "info",
    "evalsha",
    "script",
    "blpop",
    "wait",
    "subscribe",
    "time",
    "get",
    "set",
    "exists",
    "pexpire",
    "publish",
    "rpush",
    "hget",
    "hset",
    "hsetnx",
    "hdel",
    "hmget",
    "hgetall",
    "hincrby",
    "hlen",
    "hstrlen",
    "hscan",
    "zadd",
    "zrem",
    "zscore",
    "zmscore",
    "zcard",
    "zcount",
    "zrange",
    "zrangebyscore",
    "zrangebylex",
    "zremrangebyrank",
    "zscan",
];

/// Refuses a Redis that lacks a command. Some are first called when something else has happened already: without BLPOP, jobs
/// would be taken, and no worker that waits would be told of them.
pub async fn commands(link: &Link, keys: &Keys) -> Result<()> {
    let mut call = Call::new(&script::KNOWN, keys.part(0, "META"));
    call.key(keys.part(0, "ABSENT")).arg("").arg("");
    for command in COMMANDS {
        call.arg(*command);
    }
    let unknown: Vec<String> = items(link.run(call).await?.confirmed()?)?
        .into_iter()
        .map(text)
        .collect::<Result<_>>()?;
    if unknown.is_empty() {
        return Ok(());
    }
    let unknown = unknown.join(", ").to_uppercase();
    let why = format!(
        "the redis lacks commands that Auxo needs: {unknown}; they were renamed or switched off (rename-command): give them back \
         their names"
    );
    Err(Error::new(Code::Conflict, why))
}

fn unseen(error: &Error) -> String {
    format!(
        "It could not be seen what this server can lose, for it does not answer: {}",
        error.message()
    )
}

/// The settings of each server but those that are away, by its address. Nothing if we may not see them.
async fn settings(link: &Link, away: &[String]) -> Option<HashMap<String, Settings>> {
    let mut all: HashMap<String, HashMap<String, String>> = HashMap::new();
    // Before Redis 7 they must be asked for one by one.
    for name in [
        "save",
        "appendfsync",
        "min-replicas-to-write",
        "min-replicas-max-lag",
    ] {
        let parts: [&[u8]; 3] = [b"CONFIG", b"GET", name.as_bytes()];
        for (address, answer) in link.on_every_primary(&parts, away).await {
            let value = items(answer.ok()?).ok()?.into_iter().nth(1)?;
            let value = String::from_utf8(bytes(value).ok()?.to_vec()).ok()?;
            all.entry(address)
                .or_default()
                .insert(name.to_owned(), value);
        }
    }
    let read = |(address, mut values): (String, HashMap<String, String>)| {
        let settings = Settings {
            save: values.remove("save")?,
            appendfsync: values.remove("appendfsync")?,
            least: values.remove("min-replicas-to-write")?.parse().ok()?,
            lag: values.remove("min-replicas-max-lag")?.parse().ok()?,
        };
        Some((address, settings))
    };
    all.into_iter().map(read).collect()
}

fn facts(info: &str, settings: Option<Settings>) -> Facts {
    let value = |name: &str| {
        let mut lines = info.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
    };
    let number = |name: &str| value(name).and_then(|text| text.parse().ok());
    Facts {
        valkey: value("valkey_version").is_some(),
        version: version(
            value("valkey_version")
                .or(value("redis_version"))
                .unwrap_or(""),
        ),
        policy: value("maxmemory_policy").map(str::to_owned),
        aof: number("aof_enabled") == Some(1),
        replicas: number("connected_slaves").unwrap_or(0),
        settings,
    }
}

fn version(text: &str) -> Version {
    let mut parts = text.split('.').map(|part| part.parse().unwrap_or(0));
    let mut next = || parts.next().unwrap_or(0);
    (next(), next(), next())
}

/// What this server can lose; an error is why it is not used.
fn judge(facts: &Facts, durability: Durability) -> Result<Vec<String>, String> {
    let mut lines = Vec::new();
    age(facts, &mut lines)?;
    evicting(facts, durability, &mut lines)?;
    persistence(facts, durability, &mut lines)?;
    replicas(facts, durability, &mut lines);
    Ok(lines)
}

fn age(facts: &Facts, lines: &mut Vec<String>) -> Result<(), String> {
    let (major, minor, patch) = facts.version;
    let (maker, fixes) = match facts.valkey {
        true => ("Valkey", VALKEY_FIXES),
        false => ("Redis", REDIS_FIXES),
    };
    let name = format!("{maker} {major}.{minor}.{patch}");
    if facts.version < OLDEST {
        return Err(format!("is {name}; the oldest that will do is Redis 6.2"));
    }
    let danger = "CVE-2025-49844, by which whoever may run scripts can run code on its machine";
    let fixed = fixes.iter().find(|fix| (fix.0, fix.1) == (major, minor));
    let newest = fixes.last().expect("a list that is not empty");
    match fixed {
        Some(fix) if facts.version < *fix => lines.push(format!(
            "{name} lacks the fix of {danger}: update it to {}.{}.{} or newer",
            fix.0, fix.1, fix.2
        )),
        None if facts.version < *newest => lines.push(format!(
            "{name} has the fix of {danger}, only if its distributor added it: its makers fixed later versions"
        )),
        _ => {}
    }
    Ok(())
}

fn evicting(facts: &Facts, durability: Durability, lines: &mut Vec<String>) -> Result<(), String> {
    let Some(policy) = &facts.policy else {
        lines.push(
            "It could not be seen whether Redis throws away jobs when its memory is full: maxmemory-policy must be noeviction"
                .to_owned(),
        );
        return Ok(());
    };
    match (policy.as_str(), durability) {
        ("noeviction", _) => Ok(()),
        (policy, Durability::None) => {
            lines.push(format!(
                "maxmemory-policy is {policy}: when its memory is full, Redis throws away jobs"
            ));
            Ok(())
        }
        (policy, _) => Err(format!(
            "throws away jobs when its memory is full (maxmemory-policy {policy}): set it to noeviction, or open the store \
             with durability=none if it may lose them"
        )),
    }
}

fn persistence(
    facts: &Facts,
    durability: Durability,
    lines: &mut Vec<String>,
) -> Result<(), String> {
    let settings = facts.settings.as_ref();
    let line = match (facts.aof, settings) {
        (true, Some(settings)) => match settings.appendfsync.as_str() {
            "always" => {
                "AOF is synced before each answer: what was answered is kept when Redis is killed, and when its machine loses power"
                    .to_owned()
            }
            "everysec" => {
                "AOF is synced every second: if Redis is killed, with its machine or alone, up to about two seconds of answered \
                 calls can be lost"
                    .to_owned()
            }
            _ => {
                "AOF is synced when the system likes (appendfsync no): if Redis is killed with its machine, half a minute of \
                 answered calls or more can be lost"
                    .to_owned()
            }
        },
        (true, None) => {
            "AOF is on, but CONFIG GET is not allowed, so it could not be seen how often it is synced: if Redis is killed, with \
             its machine or alone, about two seconds of answered calls can be lost, or more with appendfsync no"
                .to_owned()
        }
        (false, None) => {
            "AOF is off, and CONFIG GET is not allowed, so it could not be seen whether Redis saves snapshots: a restart can \
             lose everything since the last one, or all"
                .to_owned()
        }
        (false, Some(settings)) if !settings.save.is_empty() => format!(
            "Redis saves snapshots only (save {}), and has no AOF: a restart that was not planned loses all since the last \
             snapshot; set appendonly to yes",
            settings.save
        ),
        (false, Some(_)) if durability == Durability::None => {
            "Redis keeps nothing on the disk: a restart loses all jobs".to_owned()
        }
        (false, Some(_)) if facts.replicas > 0 => {
            "Redis keeps nothing on the disk, only its replicas have a copy: a primary that is restarted before one of them \
             took over is empty, and empties them; set appendonly to yes"
                .to_owned()
        }
        (false, Some(_)) => {
            return Err(
                "keeps nothing on the disk and has no replica, so a restart loses all jobs: set appendonly to yes, or open \
                 the store with durability=none if it may lose them"
                    .to_owned(),
            );
        }
    };
    lines.push(line);
    Ok(())
}

fn replicas(facts: &Facts, durability: Durability, lines: &mut Vec<String>) {
    let count = match facts.replicas {
        0 => "No replica is connected".to_owned(),
        1 => "1 replica".to_owned(),
        n => format!("{n} replicas"),
    };
    lines.push(match (facts.replicas, durability) {
        (0, Durability::Replicated { .. }) => format!(
            "{count}, but durability=replicated waits for some: until then no lease is given, and every other change is answered with \
             unknown_outcome, though it was made"
        ),
        (0, _) => format!("{count}: if the server is lost, so is what it has not on the disk"),
        (_, Durability::Replicated { replicas: None }) => format!(
            "{count}: a call is answered when all that are connected have it, so a failover loses no answered call"
        ),
        (n, Durability::Replicated { replicas: Some(asked) }) if asked > n => format!(
            "{count}, but replicas={asked} in the store's URL waits for {asked}: until so many are connected no lease is \
             given, and every other change is answered with unknown_outcome, though it was made; connect more, or lower replicas"
        ),
        (n, Durability::Replicated { replicas: Some(asked) }) if asked < n => format!(
            "{count}: a call is answered when {asked} of them have it, so a failover to another one loses answered calls"
        ),
        (_, Durability::Replicated { replicas: Some(asked) }) => format!(
            "{count}: a call is answered when {asked} of them have it, so a failover loses no answered call"
        ),
        (_, Durability::Async | Durability::None) => format!(
            "{count}: calls that a replica had not received are lost when it takes over; durability=replicated waits for it"
        ),
    });
    if facts.replicas == 0 {
        return;
    }
    match &facts.settings {
        Some(Settings { least: 0, .. }) => lines.push(
            "min-replicas-to-write is 0: a primary that is cut off from its replicas goes on, and all that it takes until it \
             notices is lost; set it to 1"
                .to_owned(),
        ),
        Some(Settings { least, lag, .. }) => lines.push(format!(
            "min-replicas-to-write is {least}: a primary that is cut off from its replicas stops taking changes after {lag} s"
        )),
        None => {}
    }
}

/// The lines of all servers, each once.
fn merge(told: Vec<(String, Vec<String>)>) -> Vec<String> {
    let servers = told.len();
    let mut lines: Vec<(String, Vec<String>)> = Vec::new();
    for (address, said) in told {
        for line in said {
            match lines.iter_mut().find(|(known, _)| *known == line) {
                Some((_, addresses)) => addresses.push(address.clone()),
                None => lines.push((line, vec![address.clone()])),
            }
        }
    }
    let show = |(line, addresses): (String, Vec<String>)| match addresses.len() == servers {
        true => line,
        false => format!("{}: {line}", addresses.join(", ")),
    };
    lines.into_iter().map(show).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Facts {
        Facts {
            valkey: false,
            version: (8, 2, 2),
            policy: Some("noeviction".to_owned()),
            aof: true,
            replicas: 0,
            settings: Some(Settings {
                save: String::new(),
                appendfsync: "everysec".to_owned(),
                least: 0,
                lag: 10,
            }),
        }
    }

    #[test]
    fn a_version_without_the_fix_is_told_and_one_that_is_too_old_refused() {
        let of = |valkey, version: Version| {
            let facts = Facts {
                valkey,
                version,
                ..good()
            };
            let lines = judge(&facts, Durability::Async)?;
            let said = lines
                .into_iter()
                .find(|line| line.contains("CVE-2025-49844"));
            Ok::<_, String>(said.unwrap_or_default())
        };
        for (valkey, version, word) in [
            (false, (6, 2, 19), "update it to 6.2.20"),
            (false, (7, 0, 15), "only if its distributor"),
            (false, (7, 2, 4), "update it to 7.2.11"),
            (false, (7, 4, 5), "update it to 7.4.6"),
            (false, (8, 0, 3), "update it to 8.0.4"),
            (false, (8, 1, 0), "only if its distributor"),
            (false, (8, 2, 1), "update it to 8.2.2"),
            (true, (8, 0, 5), "update it to 8.0.6"),
            (true, (8, 1, 3), "Valkey 8.1.3"),
        ] {
            let said = of(valkey, version).unwrap();
            assert!(said.contains(word), "{version:?}: {said:?}");
        }
        for (valkey, version) in [
            (false, (6, 2, 20)),
            (false, (7, 2, 11)),
            (false, (8, 2, 2)),
            (false, (8, 4, 0)),
            (false, (255, 255, 255)),
            (true, (8, 1, 4)),
            (true, (9, 0, 0)),
        ] {
            assert_eq!(of(valkey, version).unwrap(), "", "{version:?}");
        }
        let old = of(false, (6, 0, 16)).unwrap_err();
        assert!(old.contains("Redis 6.0.16"), "{old}");
        assert!(of(false, version("nonsense")).is_err());
    }

    #[test]
    fn the_commands_are_those_that_the_documented_user_may_call() {
        let words = auxo_harness::redis::user::documented("auxo");
        let allowed = words.iter().filter_map(|word| word.strip_prefix('+'));
        let mut allowed: Vec<&str> = allowed
            .map(|word| word.split('|').next().unwrap())
            .collect();
        let mut called = COMMANDS.to_vec();
        allowed.sort_unstable();
        called.sort_unstable();
        assert_eq!(called, allowed);
    }

    #[test]
    fn a_line_of_some_servers_names_them() {
        let told = vec![
            ("a".to_owned(), vec!["x".to_owned(), "y".to_owned()]),
            ("b".to_owned(), vec!["x".to_owned()]),
            ("c".to_owned(), vec!["x".to_owned(), "y".to_owned()]),
        ];
        assert_eq!(merge(told), ["x", "a, c: y"]);
    }

    #[test]
    fn replicas_are_told_by_how_they_are_waited_for() {
        let of = |replicas, durability| {
            let facts = Facts { replicas, ..good() };
            judge(&facts, durability).unwrap().join("\n")
        };
        let waiting = |replicas| Durability::Replicated { replicas };
        for (replicas, durability, word) in [
            (0, Durability::Async, "No replica is connected: if"),
            (0, waiting(None), "unknown_outcome"),
            (
                1,
                Durability::Async,
                "1 replica: calls that a replica had not",
            ),
            (2, waiting(None), "2 replicas: a call is answered when all"),
            (2, waiting(Some(1)), "a failover to another one loses"),
            (2, waiting(Some(2)), "a failover loses no answered call"),
            (
                2,
                waiting(Some(5)),
                "replicas=5 in the store's URL waits for 5",
            ),
            (1, Durability::Async, "min-replicas-to-write is 0"),
        ] {
            let said = of(replicas, durability);
            assert!(said.contains(word), "{said}");
        }
    }

    #[test]
    fn what_could_not_be_seen_is_said_and_refuses_nothing() {
        for (aof, word) in [
            (true, "how often it is synced"),
            (false, "whether Redis saves"),
        ] {
            let facts = Facts {
                aof,
                policy: None,
                settings: None,
                ..good()
            };
            let said = judge(&facts, Durability::Async).unwrap().join("\n");
            assert!(said.contains(word), "{said}");
            assert!(
                said.contains("maxmemory-policy must be noeviction"),
                "{said}"
            );
        }
    }
}
