//! A cluster of primaries without replicas.

use super::{Client, Reply, Server, wait};

/// How many slots there are.
const SLOTS: u16 = 16384;

/// What is served does not depend on what is not.
const NODE: [&str; 8] = [
    "--cluster-enabled",
    "yes",
    "--cluster-node-timeout",
    "2000",
    "--cluster-require-full-coverage",
    "no",
    "--repl-diskless-sync-delay",
    "0",
];

/// The processes.
pub struct ClusterSet {
    /// The servers, each with as many slots as the others, in order.
    pub servers: Vec<Server>,
}

impl ClusterSet {
    /// Starts a cluster of so many primaries, and waits until it works.
    pub fn start(primaries: u16) -> ClusterSet {
        ClusterSet::start_with(primaries, &[])
    }

    /// The same with more arguments for each server.
    pub fn start_with(primaries: u16, args: &[&str]) -> ClusterSet {
        let mut all = NODE.to_vec();
        all.extend(args);
        let servers: Vec<Server> = (0..primaries).map(|_| Server::start(&all)).collect();
        let share = SLOTS / primaries;
        for (number, server) in (0..primaries).zip(&servers) {
            let first = number * share;
            let last = if number + 1 == primaries {
                SLOTS - 1
            } else {
                first + share - 1
            };
            let (first, last) = (first.to_string(), last.to_string());
            // Servers that begin with the same epoch raise it until all differ. A primary whose epoch rises while one of its slots moves
            // takes the slot back in the eyes of the others, and the servers never agree again.
            let epoch = (number + 1).to_string();
            server.ask(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch]);
            server.ask(&["CLUSTER", "ADDSLOTSRANGE", &first, &last]);
            let port = server.port().to_string();
            servers[0].ask(&["CLUSTER", "MEET", "127.0.0.1", &port]);
        }
        let set = ClusterSet { servers };
        set.wait_until_agreed();
        set
    }

    /// Starts a replica of one of the primaries, and waits until all know it and it follows. Answers with its index.
    pub fn add_replica(&mut self, of: usize) -> usize {
        let replica = Server::start(&NODE);
        let (primary, port) = (&self.servers[of], replica.port().to_string());
        primary.ask(&["CLUSTER", "MEET", "127.0.0.1", &port]);
        let id = id(primary);
        wait("the replica knows its primary", || {
            let follow = replica.client().try_ask(&["CLUSTER", "REPLICATE", &id]);
            matches!(follow, Ok(Reply::Text(_)))
        });
        primary.wait_for_replicas(1);
        self.servers.push(replica);
        self.wait_until_agreed();
        self.servers.len() - 1
    }

    /// Its store's URL, with options such as `?timeout=1s`.
    pub fn url(&self, options: &str) -> String {
        let seeds: Vec<String> = self.servers.iter().map(Server::address).collect();
        format!("redis+cluster://{}{options}", seeds.join(","))
    }

    /// The index of the server that has a slot, as the first says.
    pub fn owner(&self, slot: u16) -> usize {
        let port = owner(&mut self.servers[0].client(), slot).expect("an owner");
        let found = self.servers.iter().position(|server| server.port() == port);
        found.expect("a server that we started")
    }

    /// The slot of a key.
    pub fn slot(&self, key: &str) -> u16 {
        self.servers[0].ask(&["CLUSTER", "KEYSLOT", key]).int() as u16
    }

    /// Gives a slot with its keys to another server.
    pub fn move_slot(&self, slot: u16, from: usize, to: usize) {
        self.begin_move(slot, from, to);
        self.move_keys(slot, from, to);
        self.end_move(slot, to);
    }

    /// From here on, what is not in `from` is in `to`.
    pub fn begin_move(&self, slot: u16, from: usize, to: usize) {
        let (slot, from, to) = (slot.to_string(), &self.servers[from], &self.servers[to]);
        to.ask(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &id(from)]);
        from.ask(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &id(to)]);
    }

    /// Moves the keys of a slot.
    pub fn move_keys(&self, slot: u16, from: usize, to: usize) {
        let port = self.servers[to].port().to_string();
        let mut from = self.servers[from].client();
        let slot = slot.to_string();
        loop {
            let keys = from.ask(&["CLUSTER", "GETKEYSINSLOT", &slot, "100"]);
            let keys: Vec<&str> = keys.items().iter().map(Reply::text).collect();
            if keys.is_empty() {
                return;
            }
            let mut migrate = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
            migrate.extend(keys);
            from.ask(&migrate);
        }
    }

    /// Tells everybody that the slot is in `to`.
    pub fn end_move(&self, slot: u16, to: usize) {
        let (number, owner_id) = (slot.to_string(), id(&self.servers[to]));
        // The new owner first: it must know before the old one sends clients to it.
        let order = std::iter::once(&self.servers[to]).chain(&self.servers);
        for server in order {
            server.ask(&["CLUSTER", "SETSLOT", &number, "NODE", &owner_id]);
        }
        // Redis does not wait for this, and may then believe an old message more than a new owner, and drop the slot's keys.
        wait("all servers have heard of it", || self.views_are_equal());
    }

    fn views_are_equal(&self) -> bool {
        let mut views = self.servers.iter().map(view);
        let first = views.next();
        views.all(|view| Some(view) == first)
    }

    /// Waits until all servers say that all slots are served, by the same servers.
    fn wait_until_agreed(&self) {
        wait("the cluster works", || {
            self.servers.iter().all(|server| {
                let info = server.ask(&["CLUSTER", "INFO"]);
                let info = info.text();
                info.contains("cluster_state:ok")
                    && info.contains("cluster_slots_assigned:16384")
                    && info.contains(&format!("cluster_known_nodes:{}", self.servers.len()))
            }) && self.views_are_equal()
        });
    }
}

fn id(server: &Server) -> String {
    server.ask(&["CLUSTER", "MYID"]).text().to_owned()
}

/// Who has what since when, as a server believes.
fn view(server: &Server) -> Vec<String> {
    let nodes = server.ask(&["CLUSTER", "NODES"]);
    let lines = nodes.text().lines().map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let (id, epoch, slots) = (words[0], words[6], &words[8..]);
        format!("{id} {epoch} {slots:?}")
    });
    let mut lines: Vec<String> = lines.collect();
    lines.sort();
    lines
}

fn owner(client: &mut Client, slot: u16) -> Option<u16> {
    let ranges = client.ask(&["CLUSTER", "SLOTS"]);
    let slot = i64::from(slot);
    let range = ranges.items().iter().find(|range| {
        let range = range.items();
        (range[0].int()..=range[1].int()).contains(&slot)
    })?;
    let port = range.items()[2].items()[1].int();
    u16::try_from(port).ok()
}
