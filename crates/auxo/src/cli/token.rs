//! `auxo token`

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use auxo::{Code, Error, Timestamp};
use auxo_server::{Grant, Move, Token, TokenFile, Tokens, Trail, Who};
use serde_json::{Value, json};

use super::args;
use super::context::{AUDIT, Context, Missing, TOKENS, check};
use super::failure::Failure;
use super::output::{clean, distance};

const EXAMPLES: &str = "\
Examples:
  auxo token new --data ./auxo-data --name ops --allow 'admin:*'
  auxo token new --name mailer --allow 'push:mail.*' --allow 'lease:mail.*' --expires 30d
  auxo token list
  auxo token revoke k3f9w2xa

A grant is VERB:QUEUES. Verbs: push; lease (lease, settle, extend); read (jobs, queues, events, metrics);
operate (kick, cancel, delete, pause, purge, settings, schedules, topics); admin (everything).
In QUEUES * stands for any letters. A running server follows at once.";

/// Make, list and revoke the tokens of a server.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The file with the tokens; tokens.toml in the data directory unless said [env: AUXO_TOKENS].
    #[arg(long, global = true, value_name = "FILE")]
    tokens: Option<PathBuf>,
    /// Where to write down who did it; audit.jsonl in the data directory unless said [env: AUXO_AUDIT].
    #[arg(long, global = true, value_name = "FILE")]
    audit: Option<PathBuf>,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Make a token and print it, once: only its hash is kept.
    New(NewArgs),
    /// Show the tokens, without their secrets.
    List,
    /// Take a token out, at once.
    Revoke {
        /// Its id, the middle part of it.
        id: String,
    },
}

#[derive(clap::Args)]
struct NewArgs {
    /// What to call it in lists and logs.
    #[arg(long, default_value = "")]
    name: String,
    /// What it may do and where, such as push:mail.*; may be given several times.
    #[arg(long, required = true, value_name = "VERB:QUEUES", value_parser = grant)]
    allow: Vec<Grant>,
    /// How long it is good for, such as 30d; for ever if not given.
    #[arg(long, value_name = "TIME", value_parser = args::duration)]
    expires: Option<Duration>,
}

fn grant(input: &str) -> Result<Grant, String> {
    input
        .parse()
        .map_err(|error: Error| error.message().to_owned())
}

pub fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let place = Place::find(args.tokens, args.audit, context)?;
    match args.verb {
        Verb::New(args) => new(&place, args, context),
        Verb::List => list(&place, context),
        Verb::Revoke { id } => revoke(&place, &id, context),
    }
}

/// Where the tokens are.
struct Place {
    file: TokenFile,
    /// The data directory, if one was named.
    data: Option<PathBuf>,
    /// The audit log.
    audit: Audit,
}

/// Where it is written down who did it.
enum Audit {
    /// Here.
    At(PathBuf),
    /// Nowhere, and it was said so.
    Off,
    /// Nowhere, since nobody said where.
    Nowhere,
}

impl Place {
    fn find(
        tokens: Option<PathBuf>,
        audit: Option<PathBuf>,
        context: &Context,
    ) -> Result<Place, Failure> {
        let tokens = tokens.or_else(|| variable("AUXO_TOKENS"));
        let audit = audit.or_else(|| variable("AUXO_AUDIT"));
        let data = context.data().ok();
        let file = tokens.or_else(|| data.map(|data| data.join(TOKENS)));
        let Some(file) = file else {
            return Err(Failure::Usage(
                "tokens are in a file of the server: name its data directory with --data DIR, or the file with --tokens FILE"
                    .into(),
            ));
        };
        Ok(Place {
            file: TokenFile::new(file),
            audit: match audit.or_else(|| data.map(|data| data.join(AUDIT))) {
                Some(path) if path == Path::new("off") => Audit::Off,
                Some(path) => Audit::At(path),
                None => Audit::Nowhere,
            },
            data: data.map(Path::to_owned),
        })
    }
}

fn variable(name: &str) -> Option<PathBuf> {
    let value = std::env::var_os(name).filter(|path| !path.is_empty());
    value.map(PathBuf::from)
}

impl Place {
    /// Changes the tokens between two lines of the audit log.
    fn change<T>(
        &self,
        what: Move,
        change: impl FnOnce(&Tokens) -> Result<(Tokens, T), Error>,
    ) -> Result<T, Error> {
        let trail = match &self.audit {
            Audit::At(path) => Trail::open_beside(path)?,
            Audit::Off | Audit::Nowhere => Trail::off(),
        };
        let who = Who {
            name: Some("local".to_owned()),
            token: None,
            from: format!("user {}", rustix::process::getuid().as_raw()),
            via: "command line",
        };
        let note = trail.begin(&who, what)?;
        let changed = self.file.change(change);
        note.end(changed.as_ref().map(|_| 1).map_err(Error::code));
        if let (Ok(_), Audit::Nowhere) = (&changed, &self.audit) {
            eprintln!(
                "note: this is not written down anywhere; --data DIR or --audit FILE names the audit log"
            );
        }
        changed
    }
}

/// Makes the directory of a store that is not there yet: its first token may come before its first job.
fn make(data: &Path) -> Result<(), Failure> {
    check(data, Missing::Create)?;
    Ok(DirBuilder::new().recursive(true).mode(0o700).create(data)?)
}

fn new(place: &Place, args: NewArgs, context: &mut Context) -> Result<(), Failure> {
    if let Some(data) = &place.data {
        make(data)?;
    }
    let now = Timestamp::from(SystemTime::now());
    let end = args.expires.map(|life| now.plus(life));
    let (token, secret) = Token::new(&args.name, args.allow, now, end)?;
    let allow: Vec<String> = token.allow.iter().map(Grant::to_string).collect();
    let what = Move::new("new_token")
        .with("id", &*token.id)
        .with("name", &*token.name)
        .with("allow", allow);
    let is_first = place.change(what, |tokens| {
        let is_first = tokens.list().is_empty();
        Ok((tokens.with(token.clone()), is_first))
    })?;
    if context.output.is_json() {
        let mut shown = show(&token);
        shown["token"] = secret.reveal().into();
        context.output.json(&shown)?;
    } else {
        context.output.line(secret.reveal())?;
        eprintln!("keep it: it is not shown again; {} is its id", token.id);
    }
    if is_first {
        eprintln!("from now on a server with these tokens wants one from everybody");
    }
    Ok(())
}

fn list(place: &Place, context: &mut Context) -> Result<(), Failure> {
    let tokens = place.file.read()?.unwrap_or_default();
    let output = &mut context.output;
    if output.is_json() {
        let mut lines = tokens.list().iter().map(show);
        return lines.try_for_each(|line| output.json(&line));
    }
    if tokens.list().is_empty() {
        eprintln!("no token in {}", place.file.path().display());
        return Ok(());
    }
    let row = |token: &Token| {
        let allow: Vec<String> = token.allow.iter().map(Grant::to_string).collect();
        [
            token.id.clone(),
            clean(&token.name, 100),
            distance(token.created_at),
            token.expires_at.map_or("never".into(), distance),
            allow.join(" "),
        ]
    };
    output.table(
        1,
        ["ID", "NAME", "MADE", "EXPIRES", "ALLOWS"],
        tokens.list().iter().map(row),
    )
}

fn revoke(place: &Place, id: &str, context: &mut Context) -> Result<(), Failure> {
    // Whoever has the whole token at hand means the same.
    let mut parts = id.split('_');
    let id = match (parts.next(), parts.next()) {
        (Some("auxo"), Some(id)) => id,
        _ => id,
    };
    let what = Move::new("revoke_token").with("id", clean(id, 60));
    let token = place.change(what, |tokens| {
        tokens.without(id).ok_or_else(|| {
            let id: String = id.chars().take(60).collect();
            Error::new(Code::NotFound, format!("there is no token {id:?}"))
        })
    })?;
    if context.output.is_json() {
        let mut shown = show(&token);
        shown["revoked"] = true.into();
        return context.output.json(&shown);
    }
    eprintln!("token {id} is revoked; a running server refuses it from now on");
    Ok(())
}

fn show(token: &Token) -> Value {
    let allow: Vec<String> = token.allow.iter().map(Grant::to_string).collect();
    json!({
        "id": token.id,
        "name": token.name,
        "allow": allow,
        "created_at": token.created_at.to_string(),
        "expires_at": token.expires_at.map(|at| at.to_string()),
    })
}
