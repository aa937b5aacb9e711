//! A primary with two replicas, watched by three sentinels.

use super::{Reply, Server, wait};

/// The name by which the sentinels know the primary.
const NAME: &str = "main";

/// The six processes.
pub struct SentinelSet {
    /// The servers; the first was started as the primary.
    pub servers: Vec<Server>,
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
        let primary = Server::start(&fast);
        let port = primary.port().to_string();
        let replica = || {
            let mut args = fast.clone();
            args.extend(["--replicaof", "127.0.0.1", &port]);
            Server::start(&args)
        };
        let servers = vec![primary, replica(), replica()];
        servers[0].wait_for_replicas(2);
        let sentinels = (0..3).map(|_| sentinel(&port)).collect();
        let set = SentinelSet { servers, sentinels };
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
        let found = self.servers.iter().position(|server| server.port() == port);
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
            self.sentinels
                .iter()
                .all(|sentinel| primary(sentinel) != before)
        });
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
