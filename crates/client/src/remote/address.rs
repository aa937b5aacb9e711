//! Where a server is: the URL, taken apart once.

use std::fmt;

use auxo_core::{Error, Result};
use hyper::Uri;
use hyper::header::HeaderValue;

/// The checked URL of a server.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    url: String,
    /// What is resolved and dialled.
    pub host: String,
    pub port: u16,
    /// Whether it speaks TLS.
    pub tls: bool,
    /// What the server is told that it was called.
    pub authority: HeaderValue,
    /// What stands before every path, without a slash at its end.
    prefix: String,
}

impl Address {
    /// Checks a URL such as `http://127.0.0.1:8000`.
    pub fn parse(url: &str) -> Result<Address> {
        Address::with_scheme("http", url)
    }

    /// Checks a URL such as `grpc://127.0.0.1:8000` or `grpcs://queue.example`. A path has no place in it: the services have theirs.
    #[cfg(feature = "grpc")]
    pub fn parse_grpc(url: &str) -> Result<Address> {
        let address = Address::with_scheme("grpc", url)?;
        match address.prefix.is_empty() {
            true => Ok(address),
            false => Err(Error::bad_request(format!(
                "server {:?} has a path in it, which gRPC does not have; write it like grpc://127.0.0.1:8000",
                address.url
            ))),
        }
    }

    /// The address as a request begins with it.
    #[cfg(feature = "grpc")]
    pub fn origin(&self) -> Result<Uri> {
        let authority = self.authority.to_str().unwrap_or_default();
        let scheme = if self.tls { "https" } else { "http" };
        let origin = Uri::builder().scheme(scheme).authority(authority);
        let wrong = |_| Error::bad_request(format!("server {:?} names no good host", self.url));
        origin.path_and_query("/").build().map_err(wrong)
    }

    fn with_scheme(scheme: &str, url: &str) -> Result<Address> {
        let wrong = |problem: &str| {
            let shown = match url.contains('@') {
                // What stands before it may be a secret.
                true => "…".to_owned(),
                false => url.chars().take(200).collect(),
            };
            Error::bad_request(format!(
                "server {shown:?} {problem}; write it like {scheme}://127.0.0.1:8000"
            ))
        };
        let uri: Uri = url.parse().map_err(|_| wrong("is not a URL"))?;
        match uri.scheme_str() {
            Some(named) if named == scheme => {}
            Some("https") if scheme == "http" => {}
            Some("grpcs") if scheme == "grpc" => {}
            Some(_) if scheme == "grpc" => return Err(wrong("is not a grpc URL")),
            Some(_) => return Err(wrong("is not an http URL")),
            None => {
                let problem = format!("does not begin with {scheme}:// or {scheme}s://");
                return Err(wrong(&problem));
            }
        }
        let tls = uri.scheme_str() != Some(scheme);
        let authority = uri.authority().ok_or_else(|| wrong("names no host"))?;
        if authority.as_str().contains('@') {
            return Err(wrong(
                "has a user name in it; a token is shown in another way, since URLs end up in logs",
            ));
        }
        if uri.query().is_some() {
            return Err(wrong("has a query in it"));
        }
        let host = authority.host();
        if host.is_empty() {
            return Err(wrong("names no host"));
        }
        let port = match authority.as_str().len() > host.len() {
            false if tls => 443,
            false => 80,
            true => authority
                .port_u16()
                .ok_or_else(|| wrong("has no good port"))?,
        };
        Ok(Address {
            url: format!(
                "{scheme}{}://{authority}{}",
                if tls { "s" } else { "" },
                uri.path().trim_end_matches('/')
            ),
            host: host.trim_matches(['[', ']']).to_owned(),
            port,
            tls,
            authority: HeaderValue::from_str(authority.as_str())
                .map_err(|_| wrong("names no good host"))?,
            prefix: uri.path().trim_end_matches('/').to_owned(),
        })
    }

    /// A path on this server.
    pub fn path(&self, path: &str) -> Result<Uri> {
        let whole = format!("{}{path}", self.prefix);
        whole
            .parse()
            .map_err(|_| Error::bad_request("the request is too long for a URL"))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

/// A text as one segment of a path, or as a part of a query.
pub(crate) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            other => out += &format!("%{other:02X}"),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_taken_apart() {
        for (url, shown, host, port, path) in [
            (
                "http://127.0.0.1:8000",
                "http://127.0.0.1:8000",
                "127.0.0.1",
                8000,
                "/v1/x",
            ),
            (
                "http://queue.example/",
                "http://queue.example",
                "queue.example",
                80,
                "/v1/x",
            ),
            (
                "https://queue.example/",
                "https://queue.example",
                "queue.example",
                443,
                "/v1/x",
            ),
            (
                "http://[::1]:9/a/b/",
                "http://[::1]:9/a/b",
                "::1",
                9,
                "/a/b/v1/x",
            ),
        ] {
            let address = Address::parse(url).unwrap();
            assert_eq!(address.to_string(), shown);
            assert_eq!((&*address.host, address.port), (host, port));
            assert_eq!(address.path("/v1/x").unwrap().to_string(), path);
        }
    }

    #[test]
    fn a_url_that_cannot_be_used_is_refused_with_the_reason() {
        for (url, reason) in [
            ("", "is not a URL"),
            ("127.0.0.1:8000", "http://"),
            ("localhost", "does not begin with http://"),
            ("/data", "does not begin with http://"),
            ("redis://localhost", "is not an http URL"),
            ("http://ada:secret@queue.example", "user name"),
            ("http://queue.example?x=1", "query"),
            ("http://queue.example:99999", "port"),
            ("http://queue.example:", "port"),
            ("http://", "is not a URL"),
        ] {
            let error = Address::parse(url).unwrap_err();
            assert!(error.message().contains(reason), "{url}: {error}");
            assert!(error.message().contains("http://127.0.0.1:8000"), "{error}");
            assert!(!error.message().contains("secret"), "{error}");
        }
    }

    #[cfg(feature = "grpc")]
    #[test]
    fn over_grpc_the_scheme_says_whether_tls_is_spoken() {
        for (url, tls, port, origin) in [
            (
                "grpc://127.0.0.1:8000",
                false,
                8000,
                "http://127.0.0.1:8000/",
            ),
            ("grpc://queue.example", false, 80, "http://queue.example/"),
            (
                "grpcs://queue.example:8000",
                true,
                8000,
                "https://queue.example:8000/",
            ),
            ("grpcs://queue.example", true, 443, "https://queue.example/"),
        ] {
            let address = Address::parse_grpc(url).unwrap();
            assert_eq!(address.to_string(), url);
            assert_eq!((address.tls, address.port), (tls, port), "{url}");
            assert_eq!(address.origin().unwrap().to_string(), origin);
        }
        for (url, reason) in [
            ("https://queue.example", "is not a grpc URL"),
            ("queue.example", "does not begin with grpc:// or grpcs://"),
            ("grpcs://queue.example/a", "has a path in it"),
        ] {
            let error = Address::parse_grpc(url).unwrap_err();
            assert!(error.message().contains(reason), "{url}: {error}");
        }
    }

    #[test]
    fn whatever_a_name_holds_is_one_segment() {
        assert_eq!(encoded("mail.in_1-~"), "mail.in_1-~");
        assert_eq!(encoded("a/b c+d?e#f%"), "a%2Fb%20c%2Bd%3Fe%23f%25");
        assert_eq!(encoded("ä"), "%C3%A4");
    }
}
