//! The scripts: one file for each transition, and the parts that they share.

use std::fmt::Write as _;
use std::sync::OnceLock;

use crate::keys::NAMES;

/// A script as it is sent to Redis.
#[derive(Debug)]
pub struct Script {
    /// Its file's name.
    pub name: &'static str,
    /// Whether it changes anything. A call that only reads may be sent again when no answer came.
    pub writes: bool,
    parts: &'static [&'static str],
    source: OnceLock<String>,
    hash: OnceLock<String>,
}

impl Script {
    pub(crate) const fn new(
        name: &'static str,
        writes: bool,
        parts: &'static [&'static str],
    ) -> Script {
        Script {
            name,
            writes,
            parts,
            source: OnceLock::new(),
            hash: OnceLock::new(),
        }
    }

    /// The whole text.
    pub fn source(&self) -> &str {
        self.source.get_or_init(|| {
            let mut text = String::new();
            for (name, part) in NAMES {
                // A script that does not use a name does not pay for it.
                if self
                    .parts
                    .iter()
                    .any(|text| text.contains(&format!("K_{name}")))
                {
                    let _ = writeln!(text, "local K_{name} = root .. '{part}'");
                }
            }
            let root = "local root = string.sub(KEYS[1], 1, -5)\n".to_owned();
            root + &text + &self.parts.concat()
        })
    }

    /// The hash by which Redis knows it.
    pub fn hash(&self) -> &str {
        self.hash
            .get_or_init(|| redis::Script::new(self.source()).get_hash().to_owned())
    }
}
