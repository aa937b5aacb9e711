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

const TIME: &str = include_str!("scripts/part_time.lua");
const STORE: &str = include_str!("scripts/part_store.lua");
const RECORDS: &str = include_str!("scripts/part_records.lua");
const NOTICES: &str = include_str!("scripts/part_notices.lua");
const QUEUES_PART: &str = include_str!("scripts/part_queues.lua");
const SETTINGS: &str = include_str!("scripts/part_settings.lua");
const MOVES: &str = include_str!("scripts/part_moves.lua");
const PUSHES: &str = include_str!("scripts/part_push.lua");
const PLACES: &str = include_str!("scripts/part_places.lua");
const PAGES: &str = include_str!("scripts/part_pages.lua");

macro_rules! scripts {
    ($($name:ident $file:literal $writes:literal [$($part:ident)*];)*) => {
        $(pub static $name: Script = Script::new(
            $file,
            $writes,
            &[TIME, $($part,)* include_str!(concat!("scripts/", $file, ".lua"))],
        );)*

        /// Every script.
        #[cfg(test)]
        static ALL: &[&Script] = &[$(&$name),*];
    };
}

scripts! {
    PUSH "push" true [RECORDS NOTICES QUEUES_PART MOVES PUSHES];
    LEASE "lease" true [RECORDS NOTICES QUEUES_PART MOVES];
    SETTLE "settle" true [RECORDS NOTICES QUEUES_PART MOVES];
    EXTEND "extend" true [RECORDS NOTICES QUEUES_PART MOVES];
    STEER "steer" true [RECORDS NOTICES QUEUES_PART MOVES];
    CONFIGURE "configure" true [RECORDS NOTICES QUEUES_PART MOVES SETTINGS];
    FREEZE "freeze" true [STORE RECORDS QUEUES_PART];
    DECIDE "decide" true [STORE RECORDS QUEUES_PART];
    THAW "thaw" true [RECORDS NOTICES QUEUES_PART MOVES SETTINGS];
    ROOM "room" true [STORE RECORDS QUEUES_PART];
    TOKENS "tokens" true [STORE RECORDS QUEUES_PART];
    PUBLISH "publish" true [RECORDS NOTICES QUEUES_PART MOVES PUSHES];
    TICK "tick" true [RECORDS NOTICES QUEUES_PART MOVES PUSHES];
    PASSAGES "passages" false [RECORDS QUEUES_PART PAGES];
    DEPART "depart" true [RECORDS NOTICES QUEUES_PART MOVES];
    ADOPT "adopt" true [RECORDS NOTICES QUEUES_PART MOVES PUSHES];
    REGROUP "regroup" true [RECORDS QUEUES_PART PAGES];
    WAIT "wait" true [RECORDS QUEUES_PART];
    CATALOG "catalog" true [STORE];
    MAKE "make" true [];
    WATCH "watch" true [STORE];
    ASKED "asked" true [STORE];
    SPREAD "spread" false [STORE RECORDS QUEUES_PART];
    HELD "held" false [STORE];
    FIND "find" false [RECORDS QUEUES_PART];
    LIST "list" false [RECORDS QUEUES_PART PAGES];
    QUEUES "queues" false [RECORDS QUEUES_PART];
    AUDIT "audit" false [STORE RECORDS QUEUES_PART PLACES];
    STRAYS "strays" false [STORE RECORDS QUEUES_PART PLACES];
    REPAIR "repair" true [STORE RECORDS QUEUES_PART PLACES];
    BALANCE "balance" true [STORE RECORDS QUEUES_PART];
    CLAIM "claim" true [STORE RECORDS QUEUES_PART];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_says_what_it_gets_and_what_it_answers() {
        for script in ALL {
            let file = script.parts.last().expect("its own part is the last");
            for word in ["\n-- KEYS  1 ", "\n-- ARGV  1 ", "\n-- ->    "] {
                assert!(file.contains(word), "{} lacks{word}", script.name);
            }
        }
    }
}
