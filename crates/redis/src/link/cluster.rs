//! A cluster: which server has which slots.
//!
//! Every call of ours has exactly one key, so a call goes to one server, and all that is needed is the map of slots.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::Value;
use tokio::time::Instant;

use super::dial::{Dialer, Want};
use super::fault::Fault;
use super::node::Node;
use super::table::Table;
use crate::url::Address;

const SLACK: Duration = Duration::from_millis(100);

pub(super) struct Cluster {
    seeds: Vec<Address>,
    dialer: Arc<Dialer>,
    nodes: Mutex<HashMap<Address, Arc<Node>>>,
}

impl Cluster {
    pub(super) fn new(seeds: &[Address], dialer: Arc<Dialer>) -> Cluster {
        Cluster {
            seeds: seeds.to_vec(),
            dialer,
            nodes: Mutex::default(),
        }
    }

    /// The server at an address, always the same one.
    pub(super) fn node(&self, at: &Address) -> Arc<Node> {
        let mut nodes = self.nodes();
        if let Some(node) = nodes.get(at) {
            return node.clone();
        }
        let node = Node::new(at.clone(), self.dialer.clone(), Want::Any);
        nodes.insert(at.clone(), node.clone());
        node
    }

    /// The map, as the first server tells that answers.
    pub(super) async fn look(&self, now: &Table) -> Result<Table, Fault> {
        let mut fault = None;
        for node in self.candidates(now) {
            match self.ask(&node).await {
                Ok(table) => {
                    self.forget_others(&table);
                    return Ok(table);
                }
                Err(why) => fault = Some(why),
            }
        }
        Err(fault.unwrap_or_else(|| Fault::Away("the cluster has no servers".to_owned())))
    }

    /// Servers with a connection first: the others may be the ones that are away.
    fn candidates(&self, now: &Table) -> Vec<Arc<Node>> {
        let mut nodes: Vec<Arc<Node>> = now.nodes().to_vec();
        for seed in &self.seeds {
            let node = self.node(seed);
            if !nodes.iter().any(|known| Arc::ptr_eq(known, &node)) {
                nodes.push(node);
            }
        }
        nodes.sort_by_key(|node| node.calls.now().is_none());
        nodes
    }

    async fn ask(&self, node: &Arc<Node>) -> Result<Table, Fault> {
        let address = node.address();
        let mut question = redis::cmd("CLUSTER");
        question.arg("SLOTS");
        // A try to connect ends a little earlier, and says why it failed.
        let until = Instant::now() + self.dialer.patience() + SLACK;
        let answer = node
            .ask(&question, until)
            .await
            .map_err(|fault| match fault {
                Fault::Refused(why) => {
                    Fault::Away(format!("redis at {address} is not of a cluster: {why}"))
                }
                Fault::Lost(why) => Fault::Away(format!("redis at {address}: {why}")),
                fault => fault,
            })?;
        let unclear = || Fault::Away(format!("redis at {address} has no map of its cluster"));
        let Value::Array(ranges) = answer else {
            return Err(unclear());
        };
        let mut table = Table::empty();
        for range in &ranges {
            let (first, last, owner) = slots(range, address).ok_or_else(unclear)?;
            table.give(first, last, self.node(&owner));
        }
        match table.nodes().is_empty() {
            true => Err(unclear()),
            false => Ok(table),
        }
    }

    /// Lets go of servers that have no slot, unless a call is on its way to them.
    fn forget_others(&self, table: &Table) {
        self.nodes().retain(|_, node| {
            let has_slots = table.nodes().iter().any(|one| Arc::ptr_eq(one, node));
            has_slots || Arc::strong_count(node) > 1
        });
    }

    fn nodes(&self) -> MutexGuard<'_, HashMap<Address, Arc<Node>>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `[first, last, [host, port, …], replicas…]`, where a host that is not known is the one that was asked.
fn slots(range: &Value, asked: &Address) -> Option<(u16, u16, Address)> {
    let Value::Array(parts) = range else {
        return None;
    };
    let [Value::Int(first), Value::Int(last), Value::Array(owner), ..] = parts.as_slice() else {
        return None;
    };
    let [host, Value::Int(port), ..] = owner.as_slice() else {
        return None;
    };
    let host = match host {
        Value::BulkString(host) if !host.is_empty() && host != b"?" => {
            String::from_utf8(host.clone()).ok()?
        }
        _ => match asked {
            Address::Tcp(host, _) => host.clone(),
            Address::Unix(_) => return None,
        },
    };
    let owner = Address::Tcp(host, u16::try_from(*port).ok()?);
    Some((
        u16::try_from(*first).ok()?,
        u16::try_from(*last).ok()?,
        owner,
    ))
}
