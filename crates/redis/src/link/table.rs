//! Who has which slot.
//!
//! A single server, and the primary that sentinels name, have all of them.

use std::sync::Arc;

use super::node::Node;
use super::slot::SLOTS;

const NOBODY: u16 = u16::MAX;

#[derive(Clone)]
pub(super) struct Table {
    owners: Vec<u16>,
    nodes: Vec<Arc<Node>>,
}

impl Table {
    /// Nobody has anything.
    pub(super) fn empty() -> Table {
        Table {
            owners: vec![NOBODY; SLOTS],
            nodes: Vec::new(),
        }
    }

    /// One has everything.
    pub(super) fn of(node: Arc<Node>) -> Table {
        Table {
            owners: vec![0; SLOTS],
            nodes: vec![node],
        }
    }

    /// From now on, this node has these slots.
    pub(super) fn give(&mut self, first: u16, last: u16, node: Arc<Node>) {
        let known = self.nodes.iter().position(|one| Arc::ptr_eq(one, &node));
        let index = known.unwrap_or_else(|| {
            self.nodes.push(node);
            self.nodes.len() - 1
        });
        let (first, last) = (usize::from(first), usize::from(last));
        if let Some(owners) = self.owners.get_mut(first..=last) {
            owners.fill(index as u16);
        }
    }

    pub(super) fn owner(&self, slot: u16) -> Option<&Arc<Node>> {
        self.nodes.get(usize::from(self.owners[usize::from(slot)]))
    }

    /// All that have, or had, a slot.
    pub(super) fn nodes(&self) -> &[Arc<Node>] {
        &self.nodes
    }

    /// Whether every slot is with the same node as in the other table.
    pub(super) fn same(&self, other: &Table) -> bool {
        let owner = |table: &Table, slot: usize| {
            let node = table.owner(slot as u16);
            node.map(|node| Arc::as_ptr(node).addr())
        };
        (0..SLOTS).all(|slot| owner(self, slot) == owner(other, slot))
    }
}
