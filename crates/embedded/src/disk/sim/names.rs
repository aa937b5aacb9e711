//! The directory of the simulated disk: which name leads to which file, now and after a power cut.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use super::node::Node;
use super::rng::Survival;

#[derive(Debug, Default)]
pub(super) struct Names {
    now: Table,
    safe: Table,
    unsynced: Vec<Change>,
}

type Table = BTreeMap<String, Arc<Node>>;

/// A change is about a file rather than about a name: a file has one name or none in every combination of survivors.
#[derive(Clone, Debug)]
struct Change {
    node: Arc<Node>,
    name: Option<String>,
}

impl Names {
    pub fn copy(&self) -> Names {
        let mut copies = BTreeMap::new();
        let mut copy = |node: &Arc<Node>| -> Arc<Node> {
            let copied = copies.entry(Arc::as_ptr(node));
            copied.or_insert_with(|| Arc::new(node.copy())).clone()
        };
        let mut copy_table = |table: &Table| -> Table {
            let names = table.iter();
            names
                .map(|(name, node)| (name.clone(), copy(node)))
                .collect()
        };
        let (now, safe) = (copy_table(&self.now), copy_table(&self.safe));
        let changes = self.unsynced.iter();
        let unsynced = changes
            .map(|change| Change {
                node: copy(&change.node),
                name: change.name.clone(),
            })
            .collect();
        Names {
            now,
            safe,
            unsynced,
        }
    }

    pub fn after_power_cut(&self, survival: &mut Survival) -> Names {
        let mut table = self.safe.clone();
        for change in &self.unsynced {
            if survival.survives() {
                change.apply(&mut table);
            }
        }
        for node in table.values_mut() {
            *node = Arc::new(node.after_power_cut(survival));
        }
        Names {
            now: table.clone(),
            safe: table,
            unsynced: Vec::new(),
        }
    }

    pub fn list(&self) -> Vec<String> {
        self.now.keys().cloned().collect()
    }

    pub fn used(&self) -> u64 {
        self.now.values().map(|node| node.len()).sum()
    }

    pub fn get(&self, name: &str) -> io::Result<&Arc<Node>> {
        self.now
            .get(name)
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Replacing takes two steps, as on the real disk: between them a crash leaves neither the old file nor the new.
    pub fn create(&mut self, name: &str) -> Arc<Node> {
        if let Some(old) = self.now.get(name).cloned() {
            self.change(old, None);
        }
        let node = Arc::new(Node::default());
        self.change(node.clone(), Some(name));
        node
    }

    pub fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let node = self.get(from)?.clone();
        self.change(node, Some(to));
        Ok(())
    }

    pub fn remove(&mut self, name: &str) -> io::Result<()> {
        let node = self.get(name)?.clone();
        self.change(node, None);
        Ok(())
    }

    pub fn sync(&mut self) {
        for change in self.unsynced.drain(..) {
            change.apply(&mut self.safe);
        }
    }

    pub fn delete(&mut self, name: &str) -> io::Result<()> {
        let node = self.get(name)?.clone();
        self.unsynced.retain(|c| !Arc::ptr_eq(&c.node, &node));
        let gone = Change { node, name: None };
        gone.apply(&mut self.now);
        gone.apply(&mut self.safe);
        Ok(())
    }

    fn change(&mut self, node: Arc<Node>, name: Option<&str>) {
        let name = name.map(str::to_owned);
        let change = Change { node, name };
        change.apply(&mut self.now);
        self.unsynced.push(change);
    }
}

impl Change {
    fn apply(&self, table: &mut Table) {
        table.retain(|_, node| !Arc::ptr_eq(node, &self.node));
        if let Some(name) = &self.name {
            table.insert(name.clone(), self.node.clone());
        }
    }
}
