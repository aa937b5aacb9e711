//! Taking the addresses that a server listens on.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::Path;

use auxo::{Code, Error};
use auxo_server::{Listener, Server, Tls};

use super::super::config::Port;
use super::super::failure::Failure;

/// What became of the port of another protocol.
pub enum Spoken {
    /// It is spoken here.
    At(Listener),
    /// It is not, for this reason.
    Not(String),
    /// It is not, as was asked for.
    Off,
}

/// Takes the address that a flag names.
pub fn listen(flag: &str, address: SocketAddr, tls: Option<&Tls>) -> Result<Listener, Failure> {
    let listener = Server::listen(address).map_err(|error| cannot_listen(flag, address, &error))?;
    Ok(wrapped(listener.into(), tls))
}

fn wrapped(listener: Listener, tls: Option<&Tls>) -> Listener {
    match tls {
        Some(tls) => listener.with_tls(tls.clone()),
        None => listener,
    }
}

/// Takes the address of another protocol. A second server on a machine is not refused for a port that nobody asked for.
pub fn speak(flag: &str, port: &Port, tls: Option<&Tls>) -> Result<Spoken, Failure> {
    match port {
        Port::Off => Ok(Spoken::Off),
        Port::Asked(address) => listen(flag, *address, tls).map(Spoken::At),
        Port::Default(address) => Ok(match Server::listen(*address) {
            Ok(listener) => Spoken::At(wrapped(listener.into(), tls)),
            Err(error) => Spoken::Not(format!("not spoken: {}", reason(flag, *address, &error))),
        }),
        Port::Unix(path) => match Listener::unix(path) {
            Ok(listener) => Ok(Spoken::At(listener)),
            Err(error) => Err(cannot_make(flag, path, &error)),
        },
    }
}

fn cannot_make(flag: &str, path: &Path, error: &io::Error) -> Failure {
    let reason = match error.kind() {
        ErrorKind::AddrInUse => format!("another program listens there; --{flag} names another"),
        _ => error.to_string(),
    };
    let message = format!("cannot listen at {}: {reason}", path.display());
    Error::new(Code::Unavailable, message).into()
}

fn cannot_listen(flag: &str, address: SocketAddr, error: &io::Error) -> Failure {
    Error::new(Code::Unavailable, reason(flag, address, error)).into()
}

fn reason(flag: &str, address: SocketAddr, error: &io::Error) -> String {
    let reason = match error.kind() {
        ErrorKind::AddrInUse => {
            format!("another program listens there; stop it, or choose another port with --{flag}")
        }
        ErrorKind::AddrNotAvailable => {
            format!("this machine does not have that address; --{flag} names another")
        }
        ErrorKind::PermissionDenied => {
            format!("the system does not allow it; choose a port from 1024 on with --{flag}")
        }
        _ => error.to_string(),
    };
    format!("cannot listen on {address}: {reason}")
}
