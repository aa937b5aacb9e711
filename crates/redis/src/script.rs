//! The scripts: one file for each transition, and the parts that they share.

use std::fmt::Write as _;
use std::sync::OnceLock;

use crate::keys::NAMES;

mod constants;

use constants::written_out;

/// What a script does to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing: it may be sent again when no answer came.
    Reads,
    /// Something that a Redis without memory must do all the same, so that jobs are worked off and it has some again.
    Writes,
    /// Only what time brings in any case. It may be sent again, and a Redis without memory must do it, too.
    Overdue,
    /// It brings jobs in. A Redis without memory refuses that.
    Grows,
}

/// A Redis without memory refuses a script whose first change is a command that may need more, and lets it do what it likes
/// after any other change. So what must always be done begins with one that changes nothing. Where Redis allows no changes
/// at all (a primary without its replicas) it is not this one that fails: what finds nothing to change is to go on.
const AT_ANY_RATE: &str = "redis.pcall('ZREM', KEYS[2], '')\nlocal grows = false\n";

/// A script as it is sent to Redis.
#[derive(Debug)]
pub struct Script {
    /// Its file's name.
    pub name: &'static str,
    /// What it does to the store.
    pub effect: Effect,
    parts: &'static [&'static str],
    source: OnceLock<String>,
    hash: OnceLock<String>,
}

impl Script {
    pub(crate) const fn new(
        name: &'static str,
        effect: Effect,
        parts: &'static [&'static str],
    ) -> Script {
        Script {
            name,
            effect,
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
            let root = "local root = string.sub(KEYS[1], 1, -5)\n";
            let first = match self.effect {
                Effect::Reads => "",
                Effect::Writes | Effect::Overdue => AT_ANY_RATE,
                Effect::Grows => "local grows = true\n",
            };
            written_out(&format!("{root}{first}{text}{}", self.parts.concat()))
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
const LEND: &str = include_str!("scripts/part_lend.lua");
const LIFT: &str = include_str!("scripts/part_lift.lua");
const PUSHES: &str = include_str!("scripts/part_push.lua");
const PLACES: &str = include_str!("scripts/part_places.lua");
const PAGES: &str = include_str!("scripts/part_pages.lua");

macro_rules! scripts {
    ($($name:ident $file:literal $effect:ident [$($part:ident)*];)*) => {
        $(pub static $name: Script = Script::new(
            $file,
            Effect::$effect,
            &[TIME, $($part,)* include_str!(concat!("scripts/", $file, ".lua"))],
        );)*

        /// Every script.
        #[cfg(test)]
        static ALL: &[&Script] = &[$(&$name),*];
    };
}

scripts! {
    PUSH "push" Grows [RECORDS NOTICES QUEUES_PART MOVES PUSHES];
    LEASE "lease" Writes [RECORDS NOTICES QUEUES_PART MOVES LEND];
    UPKEEP "upkeep" Overdue [RECORDS NOTICES QUEUES_PART MOVES];
    LEASE_JOB "lease_job" Writes [RECORDS NOTICES QUEUES_PART MOVES LIFT LEND];
    CONFIRM "confirm" Writes [RECORDS NOTICES QUEUES_PART MOVES];
    SETTLE "settle" Writes [RECORDS NOTICES QUEUES_PART MOVES];
    EXTEND "extend" Writes [RECORDS NOTICES QUEUES_PART MOVES];
    STEER "steer" Writes [RECORDS NOTICES QUEUES_PART MOVES LIFT];
    CONFIGURE "configure" Writes [RECORDS NOTICES QUEUES_PART MOVES SETTINGS];
    FREEZE "freeze" Writes [STORE RECORDS QUEUES_PART];
    DECIDE "decide" Writes [STORE RECORDS QUEUES_PART];
    THAW "thaw" Writes [RECORDS NOTICES QUEUES_PART MOVES SETTINGS];
    ROOM "room" Writes [STORE RECORDS QUEUES_PART];
    TOKENS "tokens" Writes [STORE RECORDS QUEUES_PART];
    PUBLISH "publish" Grows [RECORDS NOTICES QUEUES_PART MOVES PUSHES];
    TICK "tick" Grows [RECORDS NOTICES QUEUES_PART MOVES PUSHES];
    PASSAGES "passages" Reads [RECORDS QUEUES_PART PAGES];
    DEPART "depart" Writes [RECORDS NOTICES QUEUES_PART MOVES];
    ADOPT "adopt" Grows [RECORDS NOTICES QUEUES_PART MOVES PUSHES];
    REGROUP "regroup" Writes [RECORDS QUEUES_PART PAGES];
    WAIT "wait" Writes [RECORDS QUEUES_PART];
    CATALOG "catalog" Writes [STORE];
    MAKE "make" Writes [];
    KNOWN "known" Reads [];
    WATCH "watch" Writes [STORE];
    ASKED "asked" Writes [STORE];
    SPREAD "spread" Reads [STORE RECORDS QUEUES_PART];
    HELD "held" Reads [STORE];
    FIND "find" Reads [RECORDS QUEUES_PART];
    LIST "list" Reads [RECORDS QUEUES_PART PAGES];
    QUEUES "queues" Reads [RECORDS QUEUES_PART];
    AUDIT "audit" Reads [STORE RECORDS QUEUES_PART PLACES];
    STRAYS "strays" Reads [STORE RECORDS QUEUES_PART PLACES];
    REPAIR "repair" Writes [STORE RECORDS QUEUES_PART PLACES];
    BALANCE "balance" Writes [STORE RECORDS QUEUES_PART];
    CLAIM "claim" Writes [STORE RECORDS QUEUES_PART];
    FORGET "forget" Writes [STORE RECORDS QUEUES_PART];
    FORGOTTEN "forgotten" Reads [STORE];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_of_a_number_means_two_numbers_in_one_script() {
        for script in ALL {
            let text = script.parts.concat();
            let mut names: Vec<&str> = constants::all(&text).map(|(name, _)| name).collect();
            let all = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), all, "{}", script.name);
        }
    }

    #[test]
    fn scripts_and_those_who_call_them_have_one_budget() {
        let known = |name| constants::all(MOVES).find(|(known, _)| *known == name);
        let (_, budget) = known("BUDGET").expect("a budget");
        assert_eq!(budget, crate::parts::BUDGET.to_string());
    }

    #[test]
    fn a_redis_without_memory_refuses_the_scripts_that_make_jobs_and_no_others() {
        for script in ALL {
            let makes_jobs = script.parts.contains(&PUSHES);
            let name = script.name;
            assert_eq!(script.effect == Effect::Grows, makes_jobs, "{name}");
        }
    }

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
