//! A primary with two replicas, watched by three sentinels.

use super::{Reply, Server, wait};

/// The name by which the sentinels know the primary.
const NAME: &str = "main";

/// The six processes.
pub struct SentinelSet {
    /// The servers; the first was started as the primary.
    pub servers: Vec<Server>,
    ports: Vec<u16>,
    /// The sentinels.
    pub sentinels: Vec<Server>,
}

impl SentinelSet {
    /// Starts all of it, and waits until everybody knows everybody.
    pub fn start() -> SentinelSet {
        SentinelSet::start_with(&[])
    }

    /// The same with more arguments for each server.
    pub fn start_with(args: &[&str]) -> SentinelSet {
        let mut fast = vec![
            "--repl-diskless-sync-delay",
            "0",
            "--repl-ping-replica-period",
            "1",
        ];
        fast.extend(args);
        let servers: Vec<Server> = (0..3).map(|_| Server::start(&fast)).collect();
        let ports = servers.iter().map(Server::port).collect();
        SentinelSet::around(servers, ports)
    }

    /// Makes the first of these servers the primary of the others, and watches all. The ports are those by which they know
    /// each other, and clients them.
    pub fn around(servers: Vec<Server>, ports: Vec<u16>) -> SentinelSet {
        let primary = ports[0].to_string();
        for (server, port) in servers.iter().zip(&ports) {
            let port = port.to_string();
            server.ask(&["CONFIG", "SET", "replica-announce-port", &port]);
        }
        for replica in &servers[1..] {
            replica.ask(&["REPLICAOF", "127.0.0.1", &primary]);
        }
        servers[0].wait_for_replicas(servers.len() - 1);
        let sentinels = (0..3).map(|_| sentinel(&primary)).collect();
        let set = SentinelSet {
            servers,
            ports,
            sentinels,
        };
        set.wait_until_complete();
        set
    }

    /// Its store's URL, with options such as `?timeout=1s`.
    pub fn url(&self, options: &str) -> String {
        let sentinels: Vec<String> = self.sentinels.iter().map(Server::address).collect();
        format!("redis+sentinel://{}/{NAME}{options}", sentinels.join(","))
    }

    /// The port of the primary, as a sentinel says.
    pub fn primary(&self) -> u16 {
        primary(&self.sentinels[0])
    }

    /// The index of the server that is the primary.
    pub fn primary_index(&self) -> usize {
        let port = self.primary();
        let found = self.ports.iter().position(|known| *known == port);
        found.expect("a server that we started")
    }

    /// Makes the sentinels choose another primary, and waits until they have. For some seconds more, the old one does not
    /// know, and takes what it is told.
    pub fn failover(&self) {
        let before = self.primary();
        wait("a sentinel begins a failover", || {
            let asked = self.sentinels[0]
                .client()
                .try_ask(&["SENTINEL", "FAILOVER", NAME]);
            matches!(asked, Ok(Reply::Text(_)))
        });
        self.wait_for_another_primary(before);
    }

    /// Waits until all sentinels name another primary than this one.
    pub fn wait_for_another_primary(&self, before: u16) {
        wait("there is another primary", || {
            self.has_another_primary(before)
        });
    }

    /// Whether all sentinels name another primary than this one.
    pub fn has_another_primary(&self, before: u16) -> bool {
        let mut sentinels = self.sentinels.iter();
        sentinels.all(|sentinel| primary(sentinel) != before)
    }

    /// Lets the sentinels take a primary for dead after five seconds without an answer, not after one. One that got no time to
    /// run for two seconds does nothing for half a minute, and after that chooses no replica that was cut off from its primary
    /// for more than ten times as long: with a second, that is the end of all failovers.
    pub fn be_patient(&self) {
        for sentinel in &self.sentinels {
            sentinel.ask(&["SENTINEL", "SET", NAME, "down-after-milliseconds", "5000"]);
        }
    }

    /// Whether whom the sentinels name is the primary, and both others follow it. On a busy machine it may be replaced meanwhile.
    pub fn is_whole(&self) -> bool {
        let mut primary = self.servers[self.primary_index()].client();
        let mut ask = |command: &[&str]| primary.try_ask(command).ok();
        let Some(Reply::Array(role)) = ask(&["ROLE"]) else {
            return false;
        };
        let followed = matches!(role.get(2), Some(Reply::Array(replicas)) if replicas.len() == 2);
        // One that is only just connected does not confirm at once.
        followed
            && ask(&["SET", "a change", "for all"]).is_some()
            && ask(&["WAIT", "2", "1000"]) == Some(Reply::Int(2))
    }

    fn wait_until_complete(&self) {
        wait("every sentinel knows the others and both replicas", || {
            self.sentinels.iter().all(|sentinel| {
                let count = |what| match sentinel.client().try_ask(&["SENTINEL", what, NAME]) {
                    Ok(Reply::Array(items)) => items.len(),
                    _ => 0,
                };
                count("SENTINELS") == 2 && count("REPLICAS") == 2
            })
        });
    }
}

fn primary(sentinel: &Server) -> u16 {
    let address = sentinel.ask(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME]);
    address.items()[1].text().parse().expect("a port")
}

/// A sentinel writes into its file of settings, so each has one of its own.
fn sentinel(primary: &str) -> Server {
    let mut server = Server::new(&[]);
    let settings = format!(
        "port {}\nbind 127.0.0.1\ndir {}\nsentinel monitor {NAME} 127.0.0.1 {primary} 2\n\
         sentinel down-after-milliseconds {NAME} 1000\nsentinel failover-timeout {NAME} 5000\n",
        server.port,
        server.dir.path().display()
    );
    let file = server.file("sentinel.conf");
    std::fs::write(&file, settings).expect("a file of settings");
    let file = file.to_str().expect("a path of plain text");
    server.args = vec![file.to_owned(), "--sentinel".to_owned()];
    server.spawn();
    server.wait_until_ready();
    server
}
