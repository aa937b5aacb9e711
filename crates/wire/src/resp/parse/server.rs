//! Commands about the server and the connection, most of them as Redis has them: its clients send some whenever they connect.

use super::{Args, Command, Reader, Reply, integer, shown, wrong_number};
use crate::resp::{ClientCommand, CommandQuestion, Hello, Muting, Version};

/// The most characters of a connection's name.
const NAME: usize = 200;

pub fn hello(_: &mut Reader, args: Args<'_>) -> Result<Command, Reply> {
    if args.len() == 1 {
        return Ok(Command::Hello(Hello::Nodes));
    }
    let version = match integer(args.get(1)) {
        Some(2) => Version::Two,
        Some(3) => Version::Three,
        Some(_) => return Err(Reply::Error("NOPROTO unsupported protocol version".into())),
        None => {
            return Err(Reply::wrong(
                "Protocol version is not an integer or out of range",
            ));
        }
    };
    let (mut auth, mut name) = (None, None);
    let mut at = 2;
    while at < args.len() {
        let more = args.len() - at - 1;
        if args.is(at, "auth") && more >= 2 {
            auth = Some((args.bytes(at + 1), args.bytes(at + 2)));
            at += 3;
        } else if args.is(at, "setname") && more >= 1 {
            name = Some(client_name(args.get(at + 1))?);
            at += 2;
        } else {
            return Err(Reply::wrong(format_args!(
                "Syntax error in HELLO option '{}'",
                shown(args.get(at))
            )));
        }
    }
    Ok(Command::Hello(Hello::Speak {
        version,
        auth,
        name,
    }))
}

/// A name that makes sense in a list of names.
fn client_name(name: &[u8]) -> Result<String, Reply> {
    let is_good = name.len() <= NAME && name.iter().all(u8::is_ascii_graphic);
    match (is_good, std::str::from_utf8(name)) {
        (true, Ok(name)) => Ok(name.to_owned()),
        _ => Err(Reply::wrong(
            "Client names cannot contain spaces, newlines or special characters.",
        )),
    }
}

pub fn info(_: &mut Reader, args: Args<'_>) -> Result<Command, Reply> {
    match args.len() {
        1 => Ok(Command::Info(None)),
        2 => Ok(Command::Info(Some(word(args.get(1))))),
        _ => Err(Reply::SYNTAX),
    }
}

/// An argument in small letters.
fn word(argument: &[u8]) -> String {
    String::from_utf8_lossy(argument).to_ascii_lowercase()
}

pub fn auth(_: &mut Reader, args: Args<'_>) -> Result<Command, Reply> {
    match args.len() {
        2 => Ok(Command::Auth {
            user: None,
            password: args.bytes(1),
        }),
        3 => Ok(Command::Auth {
            user: Some(args.bytes(1)),
            password: args.bytes(2),
        }),
        _ => Err(Reply::SYNTAX),
    }
}

pub fn ping(_: &mut Reader, args: Args<'_>) -> Result<Command, Reply> {
    match args.len() {
        1 => Ok(Command::Ping(None)),
        2 => Ok(Command::Ping(Some(args.bytes(1)))),
        _ => Err(wrong_number("ping")),
    }
}

pub fn echo(_: &mut Reader, args: Args<'_>) -> Result<Command, Reply> {
    Ok(Command::Echo(args.bytes(1)))
}

pub fn time(_: &mut Reader, _: Args<'_>) -> Result<Command, Reply> {
    Ok(Command::Time)
}

pub fn command(_: &mut Reader, args: Args<'_>) -> Result<Command, Reply> {
    let names = || args.from(2).map(word).collect();
    Ok(Command::Command(if args.len() == 1 {
        CommandQuestion::Info(None)
    } else if args.is(1, "info") {
        CommandQuestion::Info(Some(names()).filter(|names: &Vec<_>| !names.is_empty()))
    } else if args.is(1, "docs") {
        CommandQuestion::Docs(names())
    } else if args.is(1, "count") && args.len() == 2 {
        CommandQuestion::Count
    } else if args.is(1, "list") && args.len() == 2 {
        CommandQuestion::List
    } else {
        return Err(unknown_subcommand(args, "COMMAND"));
    }))
}

fn unknown_subcommand(args: Args<'_>, command: &str) -> Reply {
    Reply::wrong(format_args!(
        "unknown subcommand or wrong number of arguments for '{}' of {command}",
        shown(args.get(1))
    ))
}

pub fn client(_: &mut Reader, args: Args<'_>) -> Result<Command, Reply> {
    let alone = args.len() == 2;
    let with = |word| args.len() == 3 && args.is(1, word);
    Ok(Command::Client(if with("setname") {
        ClientCommand::SetName(client_name(args.get(2))?)
    } else if alone && args.is(1, "getname") {
        ClientCommand::GetName
    } else if alone && args.is(1, "id") {
        ClientCommand::Id
    } else if alone && args.is(1, "info") {
        ClientCommand::Info
    } else if args.is(1, "list") {
        ClientCommand::List
    } else if with("reply") && args.is(2, "on") {
        ClientCommand::Reply(Muting::On)
    } else if with("reply") && args.is(2, "off") {
        ClientCommand::Reply(Muting::Off)
    } else if with("reply") && args.is(2, "skip") {
        ClientCommand::Reply(Muting::Skip)
    } else if with("reply") {
        return Err(Reply::SYNTAX);
    } else if args.len() == 4 && args.is(1, "setinfo") || with("no-evict") || with("no-touch") {
        ClientCommand::Ignored
    } else {
        return Err(unknown_subcommand(args, "CLIENT"));
    }))
}

pub fn config(_: &mut Reader, args: Args<'_>) -> Result<Command, Reply> {
    match args.is(1, "get") && args.len() > 2 {
        true => Ok(Command::ConfigGet(args.from(2).map(word).collect())),
        false => Err(unknown_subcommand(args, "CONFIG")),
    }
}

pub fn select(_: &mut Reader, args: Args<'_>) -> Result<Command, Reply> {
    match integer(args.get(1)) {
        Some(0) => Ok(Command::Select),
        Some(_) => Err(Reply::wrong("DB index is out of range")),
        None => Err(Reply::wrong("invalid DB index")),
    }
}

pub fn quit(_: &mut Reader, _: Args<'_>) -> Result<Command, Reply> {
    Ok(Command::Quit)
}

pub fn reset(_: &mut Reader, _: Args<'_>) -> Result<Command, Reply> {
    Ok(Command::Reset)
}
