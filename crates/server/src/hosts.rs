//! By which names a server answers that asks nobody who they are.
//!
//! On a loopback address without tokens, whoever is on this machine may do everything, and a browser is. A page of another site
//! can have the name of that site lead to 127.0.0.1; from then on the browser takes this server for a part of the site, and the
//! page may read and write here. The one thing that it cannot change is the name, which the browser sends along: so only names
//! that mean this machine for everybody are answered, and those that were said to be its own.

use std::net::{IpAddr, SocketAddr};

use auxo_core::{Code, Error};
use axum::http::Request;
use axum::http::header::HOST;

use crate::app::App;

/// The longest name that there is.
const LONGEST: usize = 253;

/// Whether a server at this address is for this machine alone.
pub fn is_local(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// Refuses a request to a name that may be another's.
pub fn check<B>(app: &App, request: &Request<B>) -> Result<(), Error> {
    if !app.is_local || app.auth.is_required() {
        return Ok(());
    }
    let named = request.headers().get_all(HOST).iter();
    // What is no text is no name that anybody gave it.
    let named = named.map(|host| host.to_str().unwrap_or("?"));
    let asked = request.uri().authority().map(|host| host.as_str());
    match named.chain(asked).find(|host| !is_own(app, host)) {
        None => Ok(()),
        Some(host) => Err(misdirected(host)),
    }
}

fn is_own(app: &App, host: &str) -> bool {
    let name = name(host);
    let is = |own: &str| own.eq_ignore_ascii_case(name);
    // An old client, or one at a socket in the file system, has none.
    host.is_empty() || is_this_machine(name) || app.settings.hosts.iter().any(|own| is(own))
}

/// A host without its port.
fn name(host: &str) -> &str {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    name.strip_suffix('.').unwrap_or(name)
}

/// Whether a name means the machine that it is said on, whatever anybody does with names.
fn is_this_machine(name: &str) -> bool {
    let address = name.strip_prefix('[').and_then(|v6| v6.strip_suffix(']'));
    let address: Option<IpAddr> = address.unwrap_or(name).parse().ok();
    if let Some(address) = address {
        return address.to_canonical().is_loopback();
    }
    let last = name.rsplit('.').next().unwrap_or_default();
    last.eq_ignore_ascii_case("localhost") && name.bytes().all(is_in_names)
}

/// Whether there may be such a letter in the name of a host.
fn is_in_names(letter: u8) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, b'.' | b'-' | b'_')
}

/// Checks the name of a host that is to be answered.
pub fn is_name(name: &str) -> bool {
    (1..=LONGEST).contains(&name.len()) && name.bytes().all(is_in_names)
}

fn misdirected(host: &str) -> Error {
    let name = name(host);
    let own = match is_name(name) {
        true => name,
        false => "NAME",
    };
    let message = format!(
        "without tokens this server answers to localhost and to addresses of this machine only; if it is meant by another name, \
         start it with --hosts {own}, or make a token"
    );
    Error::new(Code::Forbidden, message)
}
