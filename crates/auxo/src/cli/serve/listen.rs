//! Taking the addresses that a server listens on.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use auxo::{Code, Error};
use auxo_server::Server;
use tokio::net::TcpListener;

use super::super::config::Port;
use super::super::failure::Failure;

/// What became of the port of another protocol.
pub enum Spoken {
    /// It is spoken here.
    At(TcpListener),
    /// It is not, for this reason.
    Not(String),
    /// It is not, as was asked for.
    Off,
}

/// Takes the address that a flag names.
pub fn listen(flag: &str, address: SocketAddr) -> Result<TcpListener, Failure> {
    Server::listen(address).map_err(|error| cannot_listen(flag, address, &error))
}

/// Takes the address of another protocol. A second server on a machine is not refused for a port that nobody asked for.
pub fn speak(flag: &str, port: Port) -> Result<Spoken, Failure> {
    match port {
        Port::Off => Ok(Spoken::Off),
        Port::Asked(address) => listen(flag, address).map(Spoken::At),
        Port::Default(address) => Ok(match Server::listen(address) {
            Ok(listener) => Spoken::At(listener),
            Err(error) => Spoken::Not(format!("not spoken: {}", reason(flag, address, &error))),
        }),
    }
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
