//! Grants: whatever is written into one, no name outside of it matches.

#![no_main]

use arbitrary::Arbitrary;
use auxo_core::QueueName;
use auxo_fuzz::files::auth::grant::{Grant, Grants, Right};
use auxo_fuzz::refusal;
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
enum Input {
    /// Of few letters, so that much matches nearly.
    Few {
        glob: Vec<u8>,
        name: Vec<u8>,
    },
    Any {
        grant: String,
        name: String,
    },
}

fn letters(places: &[u8], of: &[u8]) -> String {
    let letter = |place: &u8| char::from(of[usize::from(*place) % of.len()]);
    places.iter().map(letter).collect()
}

/// Matches in the plainest way: which beginnings of the name do the signs so far stand for?
fn plainly(glob: &str, name: &str) -> bool {
    let mut reach = vec![false; name.len() + 1];
    reach[0] = true;
    for sign in glob.bytes() {
        for end in (0..reach.len()).rev() {
            reach[end] = match sign {
                b'*' => reach[..=end].contains(&true),
                sign => end > 0 && reach[end - 1] && name.as_bytes()[end - 1] == sign,
            };
        }
    }
    reach[name.len()]
}

fuzz_target!(|input: Input| {
    let (grant, name) = match input {
        Input::Few { glob, name } => (
            format!("push:{}", letters(&glob, b"ab.*")),
            letters(&name, b"ab."),
        ),
        Input::Any { grant, name } => (grant, name),
    };
    let read: Grant = match grant.parse() {
        Ok(read) => read,
        Err(error) => return refusal::check(&error),
    };
    assert_eq!(read.to_string(), grant);
    let Ok(name) = QueueName::new(&name) else {
        return;
    };
    let (_, glob) = grant.split_once(':').expect("a colon");
    let fits = plainly(glob, name.as_str());
    assert_eq!(read.queues.matches(name.as_str()), fits);
    let (right, all) = (read.right, read.queues.is_all());
    let grants = Grants(vec![read]);
    for asked in Right::ALL {
        let given = asked == right || right == Right::Admin;
        assert_eq!(grants.allow(asked, &name), given && fits);
        assert_eq!(grants.allow_everywhere(asked), given && all);
    }
});
