//! Who is asking.

use std::sync::{Arc, LazyLock};

use auxo_core::{QueueName, Timestamp};

use super::grant::{Glob, Grant, Grants, Right};

/// Somebody who may do certain things.
#[derive(Debug)]
pub struct Identity {
    pub(super) id: Option<String>,
    pub(super) name: String,
    pub(super) grants: Grants,
    pub(super) expires_at: Option<Timestamp>,
}

static EVERYBODY: LazyLock<Arc<Identity>> = LazyLock::new(|| {
    let all = Glob::new("*").expect("a glob");
    Arc::new(Identity {
        id: None,
        name: "local".to_owned(),
        grants: Grants(vec![Grant {
            right: Right::Admin,
            queues: all,
        }]),
        expires_at: None,
    })
});

static NOBODY: LazyLock<Arc<Identity>> = LazyLock::new(|| {
    Arc::new(Identity {
        id: None,
        name: "nobody".to_owned(),
        grants: Grants(Vec::new()),
        expires_at: None,
    })
});

impl Identity {
    /// Whoever comes while there are no tokens: they may do everything.
    pub fn everybody() -> Arc<Identity> {
        EVERYBODY.clone()
    }

    /// Somebody who may do nothing.
    pub fn nobody() -> Arc<Identity> {
        NOBODY.clone()
    }

    /// The name of the token, or `local`. It is fit for logs.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The public part of the token, if there is one.
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Whether somebody means this one by a name: its own, or the token's public part.
    pub fn is_called(&self, name: &str) -> bool {
        name == self.name || Some(name) == self.id()
    }

    /// Whether this may be done in that queue.
    pub fn may(&self, right: Right, queue: &QueueName) -> bool {
        self.grants.allow(right, queue)
    }

    /// Whether this may be done in every queue, also in those that are not there yet. Calls that are not about certain queues
    /// need it.
    pub fn may_everywhere(&self, right: Right) -> bool {
        self.grants.allow_everywhere(right)
    }

    /// Whether this may be done in any queue at all.
    pub fn may_somewhere(&self, right: Right) -> bool {
        self.grants.allow_somewhere(right)
    }
}
