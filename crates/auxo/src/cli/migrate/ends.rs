//! The two stores of a move.

use std::path::{Component, Path, PathBuf};

use auxo::core::passage::Departure;
use auxo::{Auxo, Code, Error, Limits, QueueName};

use super::super::context::{Missing, check};
use super::super::credentials::Credentials;
use super::super::failure::Failure;

/// Both, open.
pub struct Ends {
    pub from: Auxo,
    pub to: Auxo,
}

/// What the two are known by.
pub struct Names {
    pub from: String,
    pub to: String,
}

impl Ends {
    pub async fn open(from: &str, to: &str, shown: &Credentials) -> Result<Ends, Failure> {
        if whole(from) == whole(to) {
            return Err(Failure::Usage(
                "--from and --to name the same store; name another one to move to".into(),
            ));
        }
        let from = open(from, Missing::Refuse, shown).await?;
        // A server is first asked something here: one that is away is no reason to make a directory.
        let opened = match name(&from).await {
            Ok(_) => open(to, Missing::Create, shown).await,
            Err(error) => Err(error.into()),
        };
        match opened {
            Ok(to) => Ok(Ends { from, to }),
            Err(error) => {
                from.close().await?;
                Err(error)
            }
        }
    }

    /// Makes sure that these are two stores, and says what they are known by.
    pub async fn check(&self) -> Result<Names, Error> {
        let (from, to) = (name(&self.from).await?, name(&self.to).await?);
        match from == to {
            false => Ok(Names { from, to }),
            true => Err(Error::new(
                Code::Conflict,
                "--from and --to lead to the same store; nothing was moved",
            )),
        }
    }

    pub async fn close(self) -> Result<(), Failure> {
        let closed = self.from.close().await;
        self.to.close().await.and(closed).map_err(Failure::from)
    }
}

/// A place as it is spelt in one way only: a URL without the last slash, a directory without links and `..`. What is missing of a
/// directory would be made, without links.
fn whole(place: &str) -> PathBuf {
    if place.contains("://") {
        return PathBuf::from(place.trim_end_matches('/'));
    }
    let path = std::path::absolute(place).unwrap_or_else(|_| PathBuf::from(place));
    let mut whole = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(whole.pop()),
            part => whole.push(part),
        }
        whole = whole.canonicalize().unwrap_or(whole);
    }
    whole
}

/// What a store is known by.
async fn name(auxo: &Auxo) -> Result<String, Error> {
    let departure = Departure {
        queue: QueueName::new("auxo.migrate")?,
        cursor: None,
        limit: 1,
    };
    Ok(auxo.service().passages(departure).await?.store)
}

async fn open(place: &str, missing: Missing, shown: &Credentials) -> Result<Auxo, Failure> {
    // What a store took in before is not to be refused now; one on a server has the server's limits.
    let limits = Limits {
        payload: usize::MAX,
        header: usize::MAX,
        headers: usize::MAX,
        result: usize::MAX,
        progress: usize::MAX,
        ..Limits::default()
    };
    if place.contains("://") {
        let connected = shown.connector()?.limits(limits).connect(place).await;
        return connected.map_err(|error| match error.code() {
            Code::BadRequest => Failure::Usage(error.message().to_owned()),
            _ => error.into(),
        });
    }
    let path = Path::new(place);
    check(path, missing)?;
    let opened = Auxo::builder().limits(limits).open(path).await;
    opened.map_err(|error| {
        let busy = error.code() == Code::Unavailable && error.message().contains("another process");
        let text = match busy {
            true => format!(
                "{}; if that is a server, give the server's URL instead of the directory",
                error.message()
            ),
            false => error.message().to_owned(),
        };
        Error::new(error.code(), text).into()
    })
}
