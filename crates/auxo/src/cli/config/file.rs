//! The text of a settings file, before anything of it is understood. Nothing here reads a file or says anything: so it can be
//! tried with any text.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Data,
    Store,
    Http,
    Beanstalk,
    Resp,
    Sync,
    Insecure,
    Hosts,
    Tokens,
    Audit,
    TlsCert,
    TlsSecret,
    TlsClientCa,
    Connections,
    Grace,
    Node,
    Log,
}

impl Key {
    pub const ALL: [Key; 17] = [
        Key::Data,
        Key::Store,
        Key::Http,
        Key::Beanstalk,
        Key::Resp,
        Key::Sync,
        Key::Insecure,
        Key::Hosts,
        Key::Tokens,
        Key::Audit,
        Key::TlsCert,
        Key::TlsSecret,
        Key::TlsClientCa,
        Key::Connections,
        Key::Grace,
        Key::Node,
        Key::Log,
    ];

    /// Its name in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Key::Data => "data",
            Key::Store => "store",
            Key::Http => "http",
            Key::Beanstalk => "beanstalk",
            Key::Resp => "resp",
            Key::Sync => "sync",
            Key::Insecure => "insecure",
            Key::Hosts => "hosts",
            Key::Tokens => "tokens",
            Key::Audit => "audit",
            Key::TlsCert => "tls_cert",
            Key::TlsSecret => "tls_key",
            Key::TlsClientCa => "tls_client_ca",
            Key::Connections => "connections",
            Key::Grace => "grace",
            Key::Node => "node",
            Key::Log => "log",
        }
    }

    /// Its flag.
    pub fn flag(self) -> String {
        format!("--{}", self.as_str().replace('_', "-"))
    }

    /// Its name in the environment.
    pub fn variable(self) -> String {
        format!("AUXO_{}", self.as_str().to_uppercase())
    }

    /// What it is unless somebody says otherwise.
    pub fn default(self) -> &'static str {
        match self {
            Key::Data => "./auxo-data",
            Key::Store
            | Key::Hosts
            | Key::Tokens
            | Key::Audit
            | Key::TlsCert
            | Key::TlsSecret
            | Key::TlsClientCa => "",
            Key::Http => "127.0.0.1:8000",
            Key::Beanstalk => "127.0.0.1:11300",
            Key::Resp => "127.0.0.1:7711",
            Key::Sync => "always",
            Key::Insecure => "false",
            Key::Connections => "10000",
            Key::Grace => "30s",
            Key::Node => "",
            Key::Log => "info",
        }
    }
}

/// A setting as it stands in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Which.
    pub key: Key,
    /// Its value as text.
    pub text: String,
    /// Where the value stands.
    pub at: Range<usize>,
}

/// What is wrong with a file, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Where.
    pub at: Range<usize>,
    /// What.
    pub message: String,
}

/// The settings in a text.
pub fn read(text: &str) -> Result<Vec<Entry>, Wrong> {
    let table = DeTable::parse(text).map_err(|error| Wrong {
        at: error.span().unwrap_or(0..0),
        message: error.message().to_owned(),
    })?;
    let entries = table.get_ref().iter();
    entries.map(|(name, value)| entry(name, value)).collect()
}

fn entry(name: &Spanned<impl AsRef<str>>, value: &Spanned<DeValue<'_>>) -> Result<Entry, Wrong> {
    let wrong = |at, message| Err(Wrong { at, message });
    let word = name.get_ref().as_ref();
    let Some(key) = Key::ALL.into_iter().find(|key| key.as_str() == word) else {
        let known = Key::ALL.map(Key::as_str).join(", ");
        return wrong(name.span(), format!("unknown setting; known are {known}"));
    };
    let text = match value.get_ref() {
        DeValue::String(text) => text.to_string(),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::Integer(number) => number.as_str().to_owned(),
        other => {
            let kind = other.type_str();
            let message = format!("{word}: expected a text, not a value of type {kind}");
            return wrong(value.span(), message);
        }
    };
    let at = value.span();
    Ok(Entry { key, text, at })
}
