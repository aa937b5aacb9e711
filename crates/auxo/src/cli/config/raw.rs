//! What file, environment and flags say, before anything of it is understood.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use auxo_redis::StoreUrl;

use super::super::failure::Failure;
use super::Flags;
pub use super::file::Key;
use super::file::{self, Entry};
use super::snippet::snippet;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Origin {
    Flag,
    Variable,
    File(Range<usize>),
    Default,
}

/// A value as it was written.
type Value = (String, Origin);

/// All settings as text.
pub struct Raw {
    values: BTreeMap<Key, Value>,
    file: Option<File>,
}

struct File {
    path: PathBuf,
    text: String,
}

impl File {
    /// Says what is wrong at a place in the file.
    fn wrong(&self, at: Range<usize>, message: &str) -> Failure {
        eprint!("{}", snippet(&self.path, &self.text, at, message));
        Failure::Said
    }
}

impl Raw {
    /// Takes each value from the flag, else the environment, else the file, else the default.
    pub fn gather(flags: &Flags, data: Option<PathBuf>) -> Result<Raw, Failure> {
        let file = open(flags.config.as_deref())?;
        let mut values: BTreeMap<Key, Value> = Key::ALL
            .map(|key| (key, (key.default().to_owned(), Origin::Default)))
            .into();
        if let Some(file) = &file {
            values.extend(read(file)?);
        }
        for key in Key::ALL {
            match std::env::var(key.variable()) {
                Ok(text) => {
                    values.insert(key, (text, Origin::Variable));
                }
                Err(std::env::VarError::NotPresent) => {}
                Err(error) => return Err(Failure::Usage(format!("{}: {error}", key.variable()))),
            }
        }
        for (key, text) in given(flags, data)? {
            // The parser of flags has read the variable for the directory, too.
            if values[&key] != (text.clone(), Origin::Variable) {
                values.insert(key, (text, Origin::Flag));
            }
        }
        Ok(Raw { values, file })
    }

    /// Understands one value; what is wrong with it is said where it was written.
    pub fn read<T>(
        &self,
        key: Key,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<T, Failure> {
        let (text, origin) = &self.values[&key];
        let text = shown(key, text);
        read(&self.values[&key].0).map_err(|problem| match (origin, &self.file) {
            (Origin::File(at), Some(file)) => {
                file.wrong(at.clone(), &format!("{}: {problem}", key.as_str()))
            }
            (Origin::Variable, _) => {
                Failure::Usage(format!("{}={text}: {problem}", key.variable()))
            }
            _ => Failure::Usage(format!("{} {text}: {problem}", key.flag())),
        })
    }

    /// Whether anybody said what it is to be.
    pub fn is_set(&self, key: Key) -> bool {
        self.values[&key].1 != Origin::Default
    }

    /// The file that was read.
    pub fn file(&self) -> Option<&PathBuf> {
        self.file.as_ref().map(|file| &file.path)
    }

    /// Every setting with its value and where it comes from.
    pub fn all(&self) -> impl Iterator<Item = (Key, String, String)> {
        self.values.iter().map(|(key, (text, origin))| {
            let from = match (origin, &self.file) {
                (Origin::Flag, _) => key.flag(),
                (Origin::Variable, _) => key.variable(),
                (Origin::File(at), Some(file)) => {
                    let line = file.text[..at.start].matches('\n').count() + 1;
                    format!("{}:{line}", file.path.display())
                }
                _ => "default".to_owned(),
            };
            (*key, shown(*key, text), from)
        })
    }
}

/// A value as it may be shown: a URL can have a password in it.
fn shown(key: Key, text: &str) -> String {
    match (key, text.parse::<StoreUrl>()) {
        (Key::Store, Ok(url)) => url.to_string(),
        (Key::Store, Err(_)) if !text.is_empty() => "…".to_owned(),
        _ => text.to_owned(),
    }
}

fn given(flags: &Flags, data: Option<PathBuf>) -> Result<Vec<(Key, String)>, Failure> {
    let data = match data.map(|path| path.into_os_string().into_string()) {
        Some(Ok(text)) => Some(text),
        Some(Err(_)) => return Err(Failure::Usage("--data: the path is not UTF-8".into())),
        None => None,
    };
    let insecure = flags.insecure.then(|| "true".to_owned());
    let all = [
        (Key::Data, data),
        (Key::Store, flags.store.clone()),
        (Key::Http, flags.http.clone()),
        (Key::Beanstalk, flags.beanstalk.clone()),
        (Key::Resp, flags.resp.clone()),
        (Key::Sync, flags.sync.clone()),
        (Key::Insecure, insecure),
        (Key::Hosts, flags.hosts.clone()),
        (Key::Tokens, flags.tokens.clone()),
        (Key::Audit, flags.audit.clone()),
        (Key::TlsCert, flags.tls_cert.clone()),
        (Key::TlsSecret, flags.tls_key.clone()),
        (Key::TlsClientCa, flags.tls_client_ca.clone()),
        (Key::Connections, flags.connections.clone()),
        (Key::Grace, flags.grace.clone()),
        (Key::Node, flags.node.clone()),
        (Key::Log, flags.log.clone()),
    ];
    let said = |(key, text): (Key, Option<String>)| text.map(|text| (key, text));
    Ok(all.into_iter().filter_map(said).collect())
}

/// The file that was named, which must be there, or else the usual one, which need not.
fn open(named: Option<&Path>) -> Result<Option<File>, Failure> {
    let path = named.unwrap_or(Path::new("auxo.toml"));
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(File {
            path: path.to_owned(),
            text,
        })),
        Err(error) if named.is_none() && error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::Usage(format!(
            "the settings in {} cannot be read: {error}",
            path.display()
        ))),
    }
}

fn read(file: &File) -> Result<Vec<(Key, Value)>, Failure> {
    let entries = file::read(&file.text).map_err(|wrong| file.wrong(wrong.at, &wrong.message))?;
    let value = |entry: Entry| (entry.key, (entry.text, Origin::File(entry.at)));
    Ok(entries.into_iter().map(value).collect())
}

/// Tells of variables that look like settings and are none. Not an error: Kubernetes sets `AUXO_SERVICE_HOST` and the like
/// beside any service that is called auxo.
pub fn note_strangers() {
    let known = |name: &str| {
        super::super::credentials::VARIABLES.contains(&name)
            || matches!(name, "AUXO_CONFIG" | "AUXO_SERVER")
            || Key::ALL.iter().any(|k| k.variable() == name)
    };
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for name in names.filter(|name| name.starts_with("AUXO_") && !known(name)) {
        eprintln!("note: {name} is in the environment and is not a setting");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> File {
        File {
            path: "auxo.toml".into(),
            text: text.into(),
        }
    }

    #[test]
    fn a_file_gives_texts_numbers_and_flags() {
        let text = "sync = \"os\"\nconnections = 7\ninsecure = true\n";
        let Ok(values) = read(&file(text)) else {
            panic!("the file was refused");
        };
        let shown: Vec<(Key, &str)> = values
            .iter()
            .map(|(key, (text, _))| (*key, &**text))
            .collect();
        assert_eq!(
            shown,
            [
                (Key::Connections, "7"),
                (Key::Insecure, "true"),
                (Key::Sync, "os")
            ]
        );
        let (_, (_, origin)) = &values[2];
        assert_eq!(*origin, Origin::File(7..11));
    }

    #[test]
    fn an_unknown_setting_and_a_value_of_another_kind_are_refused() {
        for text in [
            "colour = 1",
            "[http]\nport = 1",
            "sync = [1]",
            "sync = 1.5",
            "sync",
            "data = \"a\"\ndata = \"b\"",
        ] {
            assert!(read(&file(text)).is_err(), "{text}");
        }
    }

    #[test]
    fn every_default_is_one_that_may_be_written() {
        let values = Key::ALL.map(|key| (key, (key.default().to_owned(), Origin::Default)));
        let raw = Raw {
            values: values.into(),
            file: None,
        };
        assert!(super::super::Config::try_from(&raw).is_ok());
    }
}
