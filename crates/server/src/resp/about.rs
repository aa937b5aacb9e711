//! Commands about the server and the connection: what clients of Disque and Redis want to know before they begin.

use std::fmt::Write as _;
use std::sync::atomic::Ordering::Relaxed;

use auxo_core::Result;
use auxo_wire::resp::{
    COMMANDS, ClientCommand, CommandQuestion, Hello, Muting, Reply, Spec, Version,
};

use super::session::Session;

const VERSION: &str = env!("CARGO_PKG_VERSION");

impl Session {
    /// Greets, in the way of Disque or of Redis.
    pub(super) async fn hello(&mut self, hello: Hello) -> Reply {
        let (version, auth, name) = match hello {
            Hello::Nodes => return self.nodes(),
            Hello::Speak {
                version,
                auth,
                name,
            } => (version, auth, name),
        };
        if let Some((user, password)) = auth {
            let answer = self.auth(Some(&user), &password).await;
            if answer != Reply::OK {
                return answer;
            }
        }
        if self.app.auth.is_required() && self.identity.is_none() {
            let text = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> \
                        option can be used to authenticate the client";
            return Reply::Error(text.into());
        }
        if let Some(name) = name {
            self.rename(name);
        }
        self.version = version;
        let proto = match version {
            Version::Two => 2,
            Version::Three => 3,
        };
        let fields = [
            ("server", Reply::text("auxo")),
            ("version", Reply::text(VERSION)),
            ("proto", Reply::Number(proto)),
            ("id", Reply::Number(self.number())),
            ("mode", Reply::text("standalone")),
            ("role", Reply::text("master")),
            ("modules", Reply::Array(Vec::new())),
        ];
        Reply::Map(
            fields
                .map(|(name, value)| (Reply::text(name), value))
                .into(),
        )
    }

    /// The nodes of a cluster of Disque: this one, which is well.
    fn nodes(&self) -> Reply {
        let here = self.ends.local;
        let node = [
            self.node(),
            here.ip().to_string(),
            here.port().to_string(),
            "1".to_owned(),
        ];
        Reply::Array(vec![
            Reply::Number(1),
            Reply::text(self.node()),
            Reply::Array(node.map(Reply::text).into()),
        ])
    }

    /// The name of this node. It begins as the ids of jobs do.
    pub(super) fn node(&self) -> String {
        format!("{:08}{:.32}", 0, self.app.run.repeat(2))
    }

    /// The name of this run of the server, as long as those of Redis.
    fn run(&self) -> String {
        format!("{:.40}", self.app.run.repeat(3))
    }

    fn number(&self) -> i64 {
        i64::try_from(self.id).unwrap_or(i64::MAX)
    }

    fn rename(&mut self, name: String) {
        self.worker = match name.is_empty() {
            true => format!("resp {}", self.ends.peer).into(),
            false => name.as_str().into(),
        };
        self.name = name;
    }

    /// Makes the connection as new.
    pub(super) fn reset(&mut self) -> Reply {
        self.rename(String::new());
        self.version = Version::default();
        self.muting = Muting::default();
        self.identity = None;
        Reply::Status("RESET")
    }

    /// Says or asks something about the connection. Some things are not answered.
    pub(super) fn client(&mut self, command: ClientCommand) -> Option<Reply> {
        Some(match command {
            ClientCommand::SetName(name) => {
                self.rename(name);
                Reply::OK
            }
            ClientCommand::GetName if self.name.is_empty() => Reply::Null,
            ClientCommand::GetName => Reply::text(self.name.as_str()),
            ClientCommand::Id => Reply::Number(self.number()),
            ClientCommand::Info => Reply::text(self.line()),
            ClientCommand::List => Reply::text(self.line() + "\n"),
            ClientCommand::Ignored => Reply::OK,
            ClientCommand::Reply(muting) => {
                self.muting = muting;
                return (muting == Muting::On).then_some(Reply::OK);
            }
        })
    }

    fn line(&self) -> String {
        let age = self.app.service.now().since(self.began).as_secs();
        let resp = match self.version {
            Version::Two => 2,
            Version::Three => 3,
        };
        let (id, name) = (self.id, &self.name);
        let (peer, local) = (self.ends.peer, self.ends.local);
        format!(
            "id={id} addr={peer} laddr={local} name={name} age={age} idle=0 flags=N db=0 resp={resp}"
        )
    }

    /// The time: seconds, and microseconds.
    pub(super) fn time(&self) -> Reply {
        let now = self.app.service.now().0;
        let parts = [now / 1000, now % 1000 * 1000];
        Reply::Array(parts.map(|part| Reply::text(part.to_string())).into())
    }

    /// Settings that clients ask for, whose names match one of these patterns.
    pub(super) fn config(&self, patterns: &[String]) -> Reply {
        let known = [
            ("appendonly", "yes".to_owned()),
            ("databases", "1".to_owned()),
            ("maxclients", self.app.settings.connections.to_string()),
            ("maxmemory", "0".to_owned()),
            ("maxmemory-policy", "noeviction".to_owned()),
            ("port", self.ends.local.port().to_string()),
            ("save", String::new()),
            ("timeout", "0".to_owned()),
        ];
        let asked = known.into_iter().filter(|(name, _)| {
            let fits = |pattern: &String| matches(pattern.as_bytes(), name.as_bytes());
            patterns.iter().any(fits)
        });
        let pair = |(name, value)| (Reply::text(name), Reply::text(value));
        Reply::Map(asked.map(pair).collect())
    }

    /// Tells about the server, all or one section.
    pub(super) async fn info(&self, section: Option<String>) -> Result<Reply> {
        let queues = {
            let _alone = self.app.listing.lock().await;
            self.app.service.reachable_queues().await?.queues
        };
        let (app, tally) = (&self.app, self.app.service.tally());
        let uptime = app.service.now().since(app.started_at).as_secs();
        let jobs: u64 = queues
            .iter()
            .map(|queue| queue.books.live + queue.counts.dead)
            .sum();
        let count = |count: &std::sync::atomic::AtomicU64| count.load(Relaxed).to_string();
        let sections = [
            (
                "Server",
                vec![
                    ("disque_version", "1.0".to_owned()),
                    ("auxo_version", VERSION.to_owned()),
                    ("process_id", std::process::id().to_string()),
                    ("run_id", self.run()),
                    ("tcp_port", self.ends.local.port().to_string()),
                    ("uptime_in_seconds", uptime.to_string()),
                    ("uptime_in_days", (uptime / 86_400).to_string()),
                ],
            ),
            (
                "Clients",
                vec![
                    ("connected_clients", count(&app.resp.open)),
                    ("blocked_clients", count(&app.resp.waiting)),
                ],
            ),
            ("Jobs", vec![("registered_jobs", jobs.to_string())]),
            (
                "Queues",
                vec![("registered_queues", queues.len().to_string())],
            ),
            (
                "Persistence",
                vec![("sync", app.settings.about.sync.clone())],
            ),
            (
                "Stats",
                vec![
                    ("total_connections_received", count(&app.resp.connections)),
                    ("total_commands_processed", count(&app.resp.commands)),
                    ("jobs_pushed", tally.pushed.to_string()),
                    ("jobs_leased", tally.leased.to_string()),
                ],
            ),
        ];
        let mut text = String::new();
        for (name, fields) in sections {
            let all = ["all", "default", "everything"];
            let asked = section.as_deref();
            if asked.is_none_or(|asked| all.contains(&asked) || asked.eq_ignore_ascii_case(name)) {
                section_text(&mut text, name, &fields);
            }
        }
        Ok(Reply::text(text))
    }
}

fn section_text(text: &mut String, name: &str, fields: &[(&str, String)]) {
    if !text.is_empty() {
        text.push_str("\r\n");
    }
    // Writing to a string cannot fail.
    let _ = write!(text, "# {name}\r\n");
    for (name, value) in fields {
        let _ = write!(text, "{name}:{value}\r\n");
    }
}

/// The longest pattern that is looked at. No name is half as long.
const PATTERN: usize = 64;

/// Whether a name fits a pattern in which `*` stands for anything.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    if pattern.len() > PATTERN {
        return false;
    }
    let (mut at, mut rest) = (0, name);
    // Behind the last star, and what was there when it was met: it may stand for one byte more.
    let mut star: Option<(usize, &[u8])> = None;
    loop {
        match (pattern.get(at), rest.split_first()) {
            (Some(b'*'), _) => {
                at += 1;
                star = Some((at, rest));
            }
            (Some(byte), Some((first, behind))) if byte == first => {
                at += 1;
                rest = behind;
            }
            (None, None) => return true,
            _ => match star {
                Some((behind_star, [_, more @ ..])) => {
                    (at, rest) = (behind_star, more);
                    star = Some((behind_star, more));
                }
                _ => return false,
            },
        }
    }
}

/// Tells about commands.
pub(super) fn commands(question: CommandQuestion) -> Reply {
    let find = |name: &String| COMMANDS.iter().find(|spec| spec.name == *name);
    match question {
        CommandQuestion::Count => Reply::Number(COMMANDS.len() as i64),
        CommandQuestion::List => {
            let names = COMMANDS.iter().map(|spec| Reply::text(spec.name));
            Reply::Array(names.collect())
        }
        CommandQuestion::Info(None) => Reply::Array(COMMANDS.iter().map(about).collect()),
        CommandQuestion::Info(Some(names)) => {
            let about = |name| find(name).map_or(Reply::NullArray, about);
            Reply::Array(names.iter().map(about).collect())
        }
        CommandQuestion::Docs(names) => {
            let asked = |spec: &&Spec| names.is_empty() || names.iter().any(|n| n == spec.name);
            let known = COMMANDS.iter().filter(asked);
            Reply::Map(
                known
                    .map(|spec| (Reply::text(spec.name), docs(spec)))
                    .collect(),
            )
        }
    }
}

/// Name, arity, flags, and where its keys are: it has none.
fn about(spec: &Spec) -> Reply {
    Reply::Array(vec![
        Reply::text(spec.name),
        Reply::Number(spec.arity),
        Reply::Array(vec![Reply::Status(spec.flag)]),
        Reply::Number(0),
        Reply::Number(0),
        Reply::Number(0),
    ])
}

fn docs(spec: &Spec) -> Reply {
    let fields = [
        ("summary", spec.summary),
        ("since", VERSION),
        ("group", "server"),
    ];
    Reply::Map(
        fields
            .map(|(name, text)| (Reply::text(name), Reply::text(text)))
            .into(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, name, fits) in [
            ("save", "save", true),
            ("save", "saved", false),
            ("*", "save", true),
            ("max*", "maxclients", true),
            ("*max*", "maxclients", true),
            ("max*y", "maxclients", false),
            ("*t*s", "maxclients", true),
            ("*nts", "maxclients", true),
            ("*nt", "maxclients", false),
            ("**", "", true),
            ("a*", "", false),
            (&"*".repeat(100_000), "save", false),
            (&"*a".repeat(32), "aaaaaaaaaaaaaaaa", false),
            ("", "", true),
        ] {
            assert_eq!(
                matches(pattern.as_bytes(), name.as_bytes()),
                fits,
                "{pattern}"
            );
        }
    }
}
