//! TLS, by rustls with ring. Files are read once, when the store is opened.

#[cfg(feature = "tls")]
pub(super) use with::Tls;
#[cfg(not(feature = "tls"))]
pub(super) use without::Tls;

#[cfg(feature = "tls")]
mod with {
    use std::io;
    use std::path::Path;
    use std::sync::Arc;

    use auxo_core::{Error, Result};
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
    use rustls::{ClientConfig, RootCertStore};
    use tokio::net::TcpStream;
    use tokio_rustls::TlsConnector;

    use crate::link::connection::Stream;
    use crate::url::TlsFiles;

    pub(in crate::link) struct Tls(TlsConnector);

    impl Tls {
        pub(in crate::link) fn new(files: &TlsFiles) -> Result<Tls> {
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let config = ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .map_err(|error| Error::bad_request(format!("TLS: {error}")))?
                .with_root_certificates(authorities(files.ca.as_deref())?);
            let config = match &files.identity {
                None => config.with_no_client_auth(),
                Some((cert, key)) => config
                    .with_client_auth_cert(certificates(cert)?, private_key(key)?)
                    .map_err(|error| wrong(cert, error))?,
            };
            Ok(Tls(TlsConnector::from(Arc::new(config))))
        }

        pub(in crate::link) async fn wrap(
            &self,
            host: &str,
            socket: TcpStream,
        ) -> io::Result<Stream> {
            let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
            Ok(Box::pin(self.0.connect(name, socket).await?))
        }

        /// Whether a handshake failed because what was answered is no TLS.
        pub(in crate::link) fn is_plain(error: &io::Error) -> bool {
            let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
            matches!(inner, Some(rustls::Error::InvalidMessage(_)))
        }
    }

    fn authorities(ca: Option<&Path>) -> Result<RootCertStore> {
        let mut store = RootCertStore::empty();
        let Some(ca) = ca else {
            // A system may have certificates that nobody can read; what counts is that there are others.
            store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if store.is_empty() {
                let none = "the system has no certificates of authorities; name a file with ca=";
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
}

#[cfg(not(feature = "tls"))]
mod without {
    use std::io;

    use auxo_core::{Error, Result};
    use tokio::net::TcpStream;

    use crate::link::connection::Stream;
    use crate::url::TlsFiles;

    /// There is none.
    pub(in crate::link) enum Tls {}

    impl Tls {
        pub(in crate::link) fn new(_: &TlsFiles) -> Result<Tls> {
            let none = "this build has no TLS; it needs the feature `tls` of auxo-redis";
            Err(Error::bad_request(none))
        }

        pub(in crate::link) async fn wrap(&self, _: &str, _: TcpStream) -> io::Result<Stream> {
            match *self {}
        }

        pub(in crate::link) fn is_plain(_: &io::Error) -> bool {
            false
        }
    }
}
