//! TLS to a server, by rustls with ring. Files are read once, when the handle is made.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use auxo_core::{Error, Result};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Who is trusted, and what is shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Files {
    /// The authority of the server; those of the system if there is none.
    pub ca: Option<PathBuf>,
    /// Our own certificate and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// How TLS is begun.
#[derive(Clone)]
pub(super) struct Tls(TlsConnector);

impl Tls {
    /// Reads the files.
    pub fn new(files: &Files) -> Result<Tls> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::bad_request(format!("TLS: {error}")))?
            .with_root_certificates(authorities(files.ca.as_deref())?);
        let mut config = match &files.identity {
            None => config.with_no_client_auth(),
            Some((cert, key)) => config
                .with_client_auth_cert(certificates(cert)?, private_key(key)?)
                .map_err(|error| wrong(cert, error))?,
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Tls(TlsConnector::from(Arc::new(config))))
    }

    /// Begins TLS with the server of that name.
    pub async fn wrap(&self, host: &str, socket: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        self.0.connect(name, socket).await
    }
}

fn authorities(ca: Option<&Path>) -> Result<RootCertStore> {
    let mut store = RootCertStore::empty();
    let Some(ca) = ca else {
        // A system may have certificates that nobody can read; what counts is that there are others.
        store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if store.is_empty() {
            let none = "the system has no certificates of authorities; name a file with one";
            return Err(Error::bad_request(none));
        }
        return Ok(store);
    };
    for certificate in certificates(ca)? {
        store.add(certificate).map_err(|error| wrong(ca, error))?;
    }
    Ok(store)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let read: Vec<_> = read.map_err(|error| wrong(path, error))?;
    match read.is_empty() {
        true => Err(wrong(path, "there is no certificate in it")),
        false => Ok(read),
    }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| wrong(path, error))
}

fn wrong(path: &Path, why: impl std::fmt::Display) -> Error {
    Error::bad_request(format!("TLS file {}: {why}", path.display()))
}
