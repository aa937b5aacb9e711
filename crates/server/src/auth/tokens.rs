//! Tokens, and the file that knows them.
//!
//! A token is `auxo_ID_SECRET`: the id is public and names the token in lists and logs, the secret is 200 random bits. Only the
//! SHA-256 of the secret is kept. A slow hash such as Argon2 is for passwords, which people choose and which can therefore be
//! guessed; nobody guesses 200 bits, however fast the hash is, and a slow one would have to be paid for with every request, also
//! for those of strangers.
//!
//! A token is looked up by its secret, and not by its id: by the first bytes of the hash, which nobody can choose, and what is found
//! is compared in constant time. The id is looked at last, when the secret is right, so that neither the answer nor its time tells
//! which ids there are.

mod file;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use auxo_core::text::one_line;
use auxo_core::{Error, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

pub use self::file::TokenFile;
use super::grant::{Grant, Grants};
use super::identity::Identity;

/// What every token begins with, so that a secret that leaked is recognised as one.
const PREFIX: &str = "auxo_";
/// How much is told of what is wrong with a file.
const LONGEST: usize = 500;
/// Bytes of an id: 40 bits, which is plenty to be unique among thousands.
const ID: usize = 5;
/// Bytes of a secret: 200 bits.
const SECRET: usize = 25;
/// Bytes of a token that are looked at. One has 54.
const MOST: usize = 200;
/// Grants of one token.
const MOST_GRANTS: usize = 100;

/// A token as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Its public part.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// What it allows.
    pub allow: Vec<Grant>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
    hash: [u8; 32],
}

/// The text of a new token. It is shown once, and never by accident.
pub struct Secret(String);

impl Secret {
    /// The text itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Token {
    /// A new token and its text, of which only the hash is kept.
    pub fn new(
        name: &str,
        allow: Vec<Grant>,
        created_at: Timestamp,
        expires_at: Option<Timestamp>,
    ) -> Result<(Token, Secret), Error> {
        let mut dice = [0; ID + SECRET];
        getrandom::fill(&mut dice).map_err(|error| {
            Error::new(
                auxo_core::Code::Internal,
                format!("no random bits: {error}"),
            )
        })?;
        let (id, secret) = (letters(&dice[..ID]), letters(&dice[ID..]));
        let token = Token {
            hash: hash(&secret),
            name: name.to_owned(),
            allow,
            created_at,
            expires_at,
            id,
        };
        token.check().map_err(Error::bad_request)?;
        let text = format!("{PREFIX}{}_{secret}", token.id);
        Ok((token, Secret(text)))
    }

    fn check(&self) -> Result<(), String> {
        let of_letters = |text: &str| text.bytes().all(|b| LETTERS.contains(&b));
        if self.id.is_empty() || self.id.len() > 32 || !of_letters(&self.id) {
            return Err("id: is not one that `auxo token new` gives".into());
        }
        if self.name.len() > 100 || self.name.chars().any(char::is_control) {
            return Err("name: write at most 100 characters on one line".into());
        }
        if self.allow.is_empty() {
            return Err("allow: names nothing that the token may do".into());
        }
        if self.allow.len() > MOST_GRANTS {
            return Err(format!("allow: has more than {MOST_GRANTS} grants"));
        }
        Ok(())
    }

    /// What logs call it.
    fn known_as(&self) -> &str {
        match &*self.name {
            "" => &self.id,
            name => name,
        }
    }
}

/// The alphabet of ids and secrets: 32 letters that no URL, shell or TOML minds, and of which no two look alike.
const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// Five bits a letter; the bytes must come in fives.
fn letters(bytes: &[u8]) -> String {
    let five = |five: &[u8]| {
        five.iter()
            .fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte))
    };
    let mut text = String::with_capacity(bytes.len() * 8 / 5);
    for bits in bytes.chunks_exact(5).map(five) {
        for place in (0..8).rev() {
            let letter = (bits >> (5 * place)) & 31;
            text.push(char::from(LETTERS[letter as usize]));
        }
    }
    text
}

fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

fn beginning(hash: &[u8; 32]) -> u64 {
    hash[..8]
        .iter()
        .fold(0, |bits, byte| bits << 8 | u64::from(*byte))
}

/// All tokens of a server.
#[derive(Clone, Debug, Default)]
pub struct Tokens {
    list: Vec<Token>,
    /// Who has the token in the same place of the list.
    identities: Vec<Arc<Identity>>,
    /// The places of ids.
    ids: HashMap<String, usize>,
    /// The places of secrets whose hash begins like that: one, unless somebody copied a secret by hand.
    secrets: HashMap<u64, Vec<usize>>,
}

impl Tokens {
    fn new(list: Vec<Token>) -> Tokens {
        let identity = |token: &Token| {
            Arc::new(Identity {
                id: Some(token.id.clone()),
                name: token.known_as().to_owned(),
                grants: Grants(token.allow.clone()),
                expires_at: token.expires_at,
            })
        };
        let (mut ids, mut secrets) = (HashMap::new(), HashMap::<_, Vec<usize>>::new());
        for (place, token) in list.iter().enumerate() {
            ids.insert(token.id.clone(), place);
            secrets
                .entry(beginning(&token.hash))
                .or_default()
                .push(place);
        }
        Tokens {
            identities: list.iter().map(identity).collect(),
            ids,
            secrets,
            list,
        }
    }

    /// Reads the text of a file.
    pub fn parse(text: &str) -> Result<Tokens, Error> {
        let wrong = |problem: String| Error::bad_request(problem);
        // What it says about a wrong value quotes it, and may be many lines; a name is quoted as it is.
        let file: File = toml::from_str(text).map_err(|error| {
            let mut problem = one_line(error.message());
            problem.truncate(problem.floor_char_boundary(LONGEST));
            wrong(problem)
        })?;
        let mut list: Vec<Token> = Vec::with_capacity(file.token.len());
        for entry in file.token {
            let id: String = entry.id.chars().take(40).collect();
            let token =
                Token::try_from(entry).map_err(|why| wrong(format!("token {id:?}: {why}")))?;
            if list.iter().any(|other| other.id == token.id) {
                return Err(wrong(format!("token {id:?} is there twice")));
            }
            list.push(token);
        }
        Ok(Tokens::new(list))
    }

    /// The text of a file.
    pub fn text(&self) -> Result<String, Error> {
        let token = self.list.iter().map(Entry::from).collect();
        let body = toml::to_string(&File { token })
            .map_err(|error| Error::new(auxo_core::Code::Internal, error.to_string()))?;
        Ok(format!("{HEADER}{body}"))
    }

    /// The tokens in the order in which they were made.
    pub fn list(&self) -> &[Token] {
        &self.list
    }

    /// The same tokens and one more.
    pub fn with(&self, token: Token) -> Tokens {
        let list = self.list.iter().cloned().chain([token]);
        Tokens::new(list.collect())
    }

    /// The same tokens without one, and that one.
    pub fn without(&self, id: &str) -> Option<(Tokens, Token)> {
        let place = self.list.iter().position(|token| token.id == id)?;
        let mut list = self.list.clone();
        let token = list.remove(place);
        Some((Tokens::new(list), token))
    }

    /// Who has this token, if it is right and its time is not over. The work is the same whatever is wrong with it.
    pub fn find(&self, presented: &str, now: Timestamp) -> Option<Arc<Identity>> {
        let presented = &presented[..presented.floor_char_boundary(MOST)];
        let parts = presented
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split_once('_'));
        let (id, secret) = parts.unwrap_or(("", presented));
        let hash = hash(secret);
        let alike = self.secrets.get(&beginning(&hash))?;
        let is_right = |token: &Token| bool::from(token.hash.ct_eq(&hash)) && token.id == id;
        let place = *alike.iter().find(|place| is_right(&self.list[**place]))?;
        let identity = &self.identities[place];
        identity.is_current(now).then(|| identity.clone())
    }

    /// Whether somebody who was let in before would be let in again with the same rights.
    pub fn still_know(&self, identity: &Identity, now: Timestamp) -> bool {
        let id = identity.id().unwrap_or_default();
        let known = self.ids.get(id).map(|place| &self.identities[*place]);
        known.is_some_and(|known| known.grants == identity.grants && known.is_current(now))
    }
}

impl Identity {
    fn is_current(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|end| now < end)
    }
}

const HEADER: &str = "\
# The tokens of an Auxo server. `auxo token` changes this file, and a running server follows. Secrets are not in here.
";

#[derive(Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    token: Vec<Entry>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    id: String,
    #[serde(default)]
    name: String,
    sha256: String,
    allow: Vec<String>,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
}

impl From<&Token> for Entry {
    fn from(token: &Token) -> Entry {
        Entry {
            id: token.id.clone(),
            name: token.name.clone(),
            sha256: token
                .hash
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect(),
            allow: token.allow.iter().map(Grant::to_string).collect(),
            created_at: token.created_at.to_string(),
            expires_at: token.expires_at.map(|at| at.to_string()),
        }
    }
}

impl TryFrom<Entry> for Token {
    type Error = String;

    fn try_from(entry: Entry) -> Result<Token, String> {
        let time = |field: &str, text: &str| {
            let time = text.parse::<Timestamp>();
            time.map_err(|error| format!("{field}: {}", error.message()))
        };
        let grants = entry.allow.iter().map(|text| text.parse::<Grant>());
        let token = Token {
            hash: bytes(&entry.sha256).ok_or("sha256: is not 64 hexadecimal digits")?,
            allow: grants
                .collect::<Result<_, _>>()
                .map_err(|error| format!("allow: {}", error.message()))?,
            created_at: time("created_at", &entry.created_at)?,
            expires_at: match &entry.expires_at {
                Some(text) => Some(time("expires_at", text)?),
                None => None,
            },
            id: entry.id,
            name: entry.name,
        };
        token.check()?;
        Ok(token)
    }
}

fn bytes(hex: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if hex.len() != 64 || !hex.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, digits) in bytes.iter_mut().zip(hex.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const NOW: Timestamp = Timestamp(1_700_000_000_000);

    fn token(allow: &str, expires_at: Option<Timestamp>) -> (Token, Secret) {
        Token::new("mailer", vec![allow.parse().unwrap()], NOW, expires_at).unwrap()
    }

    #[test]
    fn what_is_wrong_with_a_file_is_told_in_short() {
        let long = format!("\"{}\" = 1", "\u{fffd}".repeat(10_000));
        let error = Tokens::parse(&long).unwrap_err();
        assert!(error.message().len() <= LONGEST, "{error}");
    }

    #[test]
    fn a_token_is_known_by_its_whole_text_and_by_nothing_less() {
        let (one, secret) = token("push:mail", None);
        let (two, other) = token("read:*", None);
        let tokens = Tokens::default().with(one.clone()).with(two.clone());
        assert_eq!(
            tokens.find(secret.reveal(), NOW).unwrap().id(),
            Some(&*one.id)
        );
        assert_eq!(
            tokens.find(other.reveal(), NOW).unwrap().id(),
            Some(&*two.id)
        );
        let text = secret.reveal();
        let crossed = format!("auxo_{}_{}", two.id, text.rsplit('_').next().unwrap());
        for wrong in [
            "",
            "auxo_",
            "auxo__",
            &text[..text.len() - 1],
            &format!("{text}a"),
            &text[5..],
            &text.to_uppercase(),
            &crossed,
            &format!("auxo_{}_", one.id),
            &one.id,
            &"x".repeat(10_000),
            "auxo_ä_ä",
        ] {
            assert!(tokens.find(wrong, NOW).is_none(), "{wrong}");
        }
        assert!(Tokens::default().find(text, NOW).is_none());
        // Somebody copied a secret by hand: each id is known with it.
        let copy = Token {
            id: two.id.clone(),
            ..one.clone()
        };
        let copied = Tokens::default().with(one.clone()).with(copy);
        assert_eq!(copied.find(text, NOW).unwrap().id(), Some(&*one.id));
        assert_eq!(copied.find(&crossed, NOW).unwrap().id(), Some(&*two.id));
    }

    #[test]
    fn a_token_ends_with_its_time_and_with_its_place_in_the_list() {
        let end = Timestamp(NOW.0 + 1000);
        let (token, secret) = token("push:mail", Some(end));
        let tokens = Tokens::default().with(token.clone());
        let identity = tokens.find(secret.reveal(), NOW).unwrap();
        assert!(tokens.find(secret.reveal(), Timestamp(end.0 - 1)).is_some());
        assert!(tokens.find(secret.reveal(), end).is_none());
        assert!(tokens.still_know(&identity, NOW));
        assert!(!tokens.still_know(&identity, end));
        let (rest, gone) = tokens.without(&token.id).unwrap();
        assert_eq!(gone, token);
        assert!(rest.find(secret.reveal(), NOW).is_none());
        assert!(!rest.still_know(&identity, NOW));
        assert!(rest.without(&token.id).is_none());
    }

    #[test]
    fn the_file_has_everything_but_the_secret() {
        let (token, secret) = token("push:mail.*", Some(NOW));
        let tokens = Tokens::default().with(token.clone());
        let text = tokens.text().unwrap();
        let kept = secret.reveal().rsplit('_').next().unwrap();
        assert!(!text.contains(kept), "{text}");
        assert!(!format!("{secret:?}").contains(kept));
        assert_eq!(Tokens::parse(&text).unwrap().list(), [token]);
    }

    #[test]
    fn a_file_that_is_wrong_is_refused_with_the_reason() {
        let (token, _) = token("push:mail.*", None);
        let right = Tokens::default().with(token.clone()).text().unwrap();
        assert!(Tokens::parse(&right).is_ok());
        assert_eq!(Tokens::parse("").unwrap().list(), []);
        let id = &token.id;
        for (from, to, why) in [
            ("push:mail.*", "pull:mail", "unknown verb"),
            ("[[token]]", "[[tokens]]", "unknown field"),
            ("name = ", "nome = ", "unknown field"),
            ("sha256 = \"", "sha256 = \"0", "64 hexadecimal"),
            ("created_at = \"2", "created_at = \"x", "created_at"),
            ("allow = [\"push:mail.*\"]", "allow = []", "allow"),
            (id, "../../etc", "id"),
        ] {
            let text = right.replace(from, to);
            assert_ne!(text, right, "{from}");
            let error = Tokens::parse(&text).unwrap_err();
            assert!(error.message().contains(why), "{to}: {error}");
        }
        let error = Tokens::parse("\"\\u001b[2J\" = 1").unwrap_err();
        assert!(!error.message().contains('\u{1b}'), "{error:?}");
        let twice = Tokens::default().with(token.clone()).with(token);
        let error = Tokens::parse(&twice.text().unwrap()).unwrap_err();
        assert!(error.message().contains("twice"), "{error}");
    }

    #[test]
    fn tokens_are_all_different_and_long_enough() {
        let made: HashSet<String> = (0..1000).map(|_| token("read:*", None).1.0).collect();
        assert_eq!(made.len(), 1000);
        for text in made {
            let (id, secret) = text.strip_prefix("auxo_").unwrap().split_once('_').unwrap();
            assert_eq!((id.len(), secret.len()), (8, 40));
            assert!(secret.bytes().all(|b| LETTERS.contains(&b)), "{text}");
        }
        assert_eq!(letters(&[0xff; 5]), "99999999");
        assert_eq!(letters(&[0, 0, 0, 0, 1]), "aaaaaaab");
        assert_eq!(LETTERS.iter().collect::<HashSet<_>>().len(), 32);
    }
}
