//! What somebody may do, and in which queues.
//!
//! A grant is written `VERB:GLOB`. The glob is over the whole name of a queue, from its first letter to its last, and has one
//! sign of its own: `*` stands for any letters, also for none. Everything else stands for itself; dots are dots. There is no
//! other pattern language here, because every richer one has let somebody through who was not meant.

use std::fmt;
use std::str::FromStr;

use auxo_core::{Error, QueueName};

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Right {
    /// Put jobs in.
    Push,
    /// Take jobs out: lease, settle, extend.
    Lease,
    /// Look: jobs, queues, schedules, topics, events, metrics.
    Read,
    /// Move and set up: kick, cancel, reschedule, delete, pause, resume, purge, settings, schedules, topics.
    Operate,
    /// Everything, also what only administrators do: audits, and moving jobs between stores.
    Admin,
}

impl Right {
    /// Every right, the weakest first.
    pub const ALL: [Right; 5] = [
        Right::Push,
        Right::Lease,
        Right::Read,
        Right::Operate,
        Right::Admin,
    ];

    /// The verb of a grant.
    pub fn as_str(self) -> &'static str {
        match self {
            Right::Push => "push",
            Right::Lease => "lease",
            Right::Read => "read",
            Right::Operate => "operate",
            Right::Admin => "admin",
        }
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Right {
    type Err = Error;

    fn from_str(text: &str) -> Result<Right, Error> {
        let known = Right::ALL.into_iter().find(|right| right.as_str() == text);
        known.ok_or_else(|| {
            let verbs = Right::ALL.map(Right::as_str).join(", ");
            Error::bad_request(format!("unknown verb; known are {verbs}"))
        })
    }
}

/// Which queues, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob(String);

impl Glob {
    /// Checks a glob: the letters of a queue's name, and `*`.
    pub fn new(text: &str) -> Result<Glob, Error> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b"_.:;$()+/-*".contains(&b);
        let problem = if text.is_empty() {
            "names no queue; `*` means all"
        } else if text.len() > 200 {
            "is longer than 200 characters"
        } else if text.starts_with('-') {
            "starts with '-', as no queue does"
        } else if !text.bytes().all(allowed) {
            "has a character outside A-Z a-z 0-9 _ . : ; $ ( ) + / - and *"
        } else {
            return Ok(Glob(text.to_owned()));
        };
        Err(Error::bad_request(problem))
    }

    /// Whether the whole name fits.
    pub fn matches(&self, name: &str) -> bool {
        let (glob, name) = (self.0.as_bytes(), name.as_bytes());
        let (mut g, mut n) = (0, 0);
        // Where the last star stands, and up to where it reaches so far.
        let mut star = None;
        while n < name.len() {
            if glob.get(g) == Some(&b'*') {
                star = Some((g, n));
                g += 1;
            } else if glob.get(g) == Some(&name[n]) {
                (g, n) = (g + 1, n + 1);
            } else if let Some((at, reach)) = star {
                star = Some((at, reach + 1));
                (g, n) = (at + 1, reach + 1);
            } else {
                return false;
            }
        }
        glob[g..].iter().all(|sign| *sign == b'*')
    }

    /// Whether every name fits.
    pub fn is_all(&self) -> bool {
        self.0.bytes().all(|sign| sign == b'*')
    }
}

/// A right, and where it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// What may be done.
    pub right: Right,
    /// In which queues.
    pub queues: Glob,
}

impl Grant {
    /// Whether this grant is enough for that right somewhere: administrators may do everything.
    fn gives(&self, right: Right) -> bool {
        self.right == right || self.right == Right::Admin
    }
}

impl FromStr for Grant {
    type Err = Error;

    fn from_str(text: &str) -> Result<Grant, Error> {
        let wrong = |problem: &str| {
            let text: String = text.chars().take(60).collect();
            Error::bad_request(format!(
                "grant {text:?} {problem}; write it like push:mail.* or read:*"
            ))
        };
        let (verb, glob) = text
            .split_once(':')
            .ok_or_else(|| wrong("has no verb and no colon"))?;
        Ok(Grant {
            right: verb
                .parse()
                .map_err(|error: Error| wrong(&format!("has an {}", error.message())))?,
            queues: Glob::new(glob).map_err(|error| wrong(error.message()))?,
        })
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.right, self.queues.0)
    }
}

/// Some grants, asked together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants(pub Vec<Grant>);

impl Grants {
    /// Whether they give a right in a queue.
    pub fn allow(&self, right: Right, queue: &QueueName) -> bool {
        let mut grants = self.0.iter();
        grants.any(|grant| grant.gives(right) && grant.queues.matches(queue.as_str()))
    }

    /// Whether they give a right in every queue there can be. Several narrow ones together never do.
    pub fn allow_everywhere(&self, right: Right) -> bool {
        let mut grants = self.0.iter();
        grants.any(|grant| grant.gives(right) && grant.queues.is_all())
    }

    /// Whether they give a right in any queue.
    pub fn allow_somewhere(&self, right: Right) -> bool {
        self.0.iter().any(|grant| grant.gives(right))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(glob: &str, name: &str) -> bool {
        Glob::new(glob).unwrap().matches(name)
    }

    #[test]
    fn a_glob_is_matched_from_the_first_letter_to_the_last() {
        for (glob, name, fits) in [
            ("mail", "mail", true),
            ("mail", "mail2", false),
            ("mail", "amail", false),
            ("mail", "Mail", false),
            ("mail.*", "mail.in", true),
            ("mail.*", "mail.", true),
            ("mail.*", "mail", false),
            // A dot is a dot.
            ("mail.*", "mailxin", false),
            ("mail.*", "x.mail.in", false),
            ("*", "anything/at:all", true),
            ("**", "mail", true),
            ("*.in", "mail.in", true),
            ("*.in", "mail.in.", false),
            ("a*b*c", "abc", true),
            ("a*b*c", "a.b.b.c", true),
            ("a*b*c", "acb", false),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("$(x)+", "$(x)+", true),
            ("(a*)+", "aaa", false),
        ] {
            assert_eq!(matches(glob, name), fits, "{glob} {name}");
        }
    }

    #[test]
    fn a_glob_of_many_stars_is_answered_at_once() {
        let glob = Glob::new(&"*a".repeat(100)).unwrap();
        assert!(!glob.matches(&format!("{}b", "a".repeat(199))));
    }

    #[test]
    fn a_grant_is_read_as_it_is_written() {
        for text in ["push:mail.*", "lease:*", "read:a:b", "operate:x", "admin:*"] {
            assert_eq!(text.parse::<Grant>().unwrap().to_string(), text);
        }
        for wrong in [
            "",
            "push",
            "push:",
            ":mail",
            "pull:mail",
            "push:ma il",
            "push:mail?",
            "push:[a-z]",
            "push:-x",
            "PUSH:mail",
            "push :mail",
            "push:m\nail",
        ] {
            let error = wrong.parse::<Grant>().unwrap_err();
            assert!(error.message().contains("push:mail.*"), "{wrong}: {error}");
        }
    }

    #[test]
    fn administrators_may_do_everything_where_they_are_and_others_only_their_part() {
        let grants = |texts: &[&str]| Grants(texts.iter().map(|t| t.parse().unwrap()).collect());
        let mail = QueueName::new("mail").unwrap();
        let bills = QueueName::new("bills").unwrap();
        for right in Right::ALL {
            assert!(grants(&["admin:mail"]).allow(right, &mail));
            assert!(!grants(&["admin:mail"]).allow(right, &bills));
            assert!(!grants(&[]).allow(right, &mail));
            let others = Right::ALL
                .into_iter()
                .filter(|other| *other != Right::Admin);
            for other in others.filter(|other| *other != right) {
                assert!(!grants(&[&format!("{other}:*")]).allow(right, &mail));
            }
        }
        let narrow = grants(&["read:a*", "read:mail"]);
        assert!(narrow.allow_somewhere(Right::Read) && !narrow.allow_everywhere(Right::Read));
        assert!(grants(&["read:x", "admin:*"]).allow_everywhere(Right::Read));
    }

    /// The plainest way to match: every place where a star could end is tried.
    fn plainly(glob: &[u8], name: &[u8]) -> bool {
        match glob.split_first() {
            None => name.is_empty(),
            Some((b'*', rest)) => (0..=name.len()).any(|n| plainly(rest, &name[n..])),
            Some((sign, rest)) => name
                .split_first()
                .is_some_and(|(first, others)| first == sign && plainly(rest, others)),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_name_outside_of_a_grant_ever_matches(glob in "[ab.*]{1,8}", name in "[ab.]{1,10}") {
            prop_assert_eq!(matches(&glob, &name), plainly(glob.as_bytes(), name.as_bytes()));
        }

        #[test]
        fn what_matches_has_the_letters_of_the_glob_in_their_order_at_both_ends(
            glob in "[A-Za-z0-9_.:;$()+/][A-Za-z0-9_.:;$()+/*-]{0,30}",
            name in "[A-Za-z0-9_.:;$()+/][A-Za-z0-9_.:;$()+/-]{0,40}",
        ) {
            let (first, last) = (glob.split('*').next().unwrap(), glob.rsplit('*').next().unwrap());
            if matches(&glob, &name) {
                prop_assert!(name.starts_with(first) && name.ends_with(last));
                prop_assert!(glob.contains('*') || glob == name);
            }
            // Filled in with anything, it matches.
            prop_assert!(matches(&glob, &glob.replace('*', &name)));
        }
    }
}
