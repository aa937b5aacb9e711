//! What this process shows to a server: a token, and a certificate. Secrets come from files or the environment, never from the
//! command line or a URL, which others on the machine can read.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use auxo::{Auxo, Connector};

use super::failure::Failure;

/// The variables that are read here.
pub const VARIABLES: [&str; 5] = [
    "AUXO_TOKEN",
    "AUXO_TOKEN_FILE",
    "AUXO_CA",
    "AUXO_CLIENT_CERT",
    "AUXO_CLIENT_KEY",
];

/// What flags say.
#[derive(Default)]
pub struct Named {
    pub token_file: Option<PathBuf>,
    pub ca: Option<PathBuf>,
    pub cert: Option<PathBuf>,
    pub key: Option<PathBuf>,
}

/// What is shown, and who is trusted.
#[derive(Default)]
pub struct Credentials {
    token: Option<Source>,
    ca: Option<PathBuf>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
}

/// Where a token comes from.
enum Source {
    File(PathBuf),
    Variable(OsString),
}

impl Credentials {
    /// A flag wins over the environment, and a file over the token itself.
    pub fn gather(named: Named, env: impl Fn(&str) -> Option<OsString>) -> Credentials {
        let set = |name| env(name).filter(|value| !value.is_empty());
        let path = |named: Option<PathBuf>, name| named.or_else(|| set(name).map(PathBuf::from));
        let token = match path(named.token_file, "AUXO_TOKEN_FILE") {
            Some(file) => Some(Source::File(file)),
            None => set("AUXO_TOKEN").map(Source::Variable),
        };
        Credentials {
            token,
            ca: path(named.ca, "AUXO_CA"),
            cert: path(named.cert, "AUXO_CLIENT_CERT"),
            key: path(named.key, "AUXO_CLIENT_KEY"),
        }
    }

    /// How to connect with them.
    pub fn connector(&self) -> Result<Connector, Failure> {
        let mut connector = Auxo::connector();
        if let Some(source) = &self.token {
            connector = connector.token(source.read()?);
        }
        if let Some(ca) = &self.ca {
            connector = connector.authority(ca);
        }
        match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => Ok(connector.certificate(cert, key)),
            (None, None) => Ok(connector),
            _ => Err(Failure::Usage(
                "--client-cert and --client-key go together; one of them is missing".into(),
            )),
        }
    }
}

impl Source {
    fn read(&self) -> Result<String, Failure> {
        let text = match self {
            Source::File(path) => read(path)?,
            Source::Variable(value) => value.to_string_lossy().into_owned(),
        };
        match text.trim() {
            "" => Err(Failure::Usage("the token is empty".into())),
            token => Ok(token.to_owned()),
        }
    }
}

fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path)
        .map_err(|error| Failure::Usage(format!("--token-file {}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(file: Option<PathBuf>, env: &[(&str, &str)]) -> Option<String> {
        let named = Named {
            token_file: file,
            ..Named::default()
        };
        let value = |name: &str| {
            let found = env.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        };
        let source = Credentials::gather(named, value).token;
        source.and_then(|source| source.read().ok())
    }

    #[test]
    fn a_flag_wins_over_the_environment_and_a_file_over_the_token_itself() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        std::fs::write(&a, "from-a\n").unwrap();
        std::fs::write(&b, "from-b").unwrap();
        let file = ("AUXO_TOKEN_FILE", b.to_str().unwrap());
        let itself = ("AUXO_TOKEN", "itself");
        assert_eq!(token(None, &[]), None);
        assert_eq!(token(None, &[itself]).as_deref(), Some("itself"));
        assert_eq!(token(None, &[itself, file]).as_deref(), Some("from-b"));
        assert_eq!(token(Some(a), &[itself, file]).as_deref(), Some("from-a"));
        assert_eq!(token(None, &[("AUXO_TOKEN", "")]), None);
        assert_eq!(token(Some(dir.path().join("absent")), &[]), None);
    }
}
