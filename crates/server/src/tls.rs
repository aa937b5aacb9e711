//! TLS for every protocol, by rustls with ring: versions 1.2 and 1.3.
//!
//! Certificates are read again when they change; connections that are open go on with what they began with. Files that are wrong
//! change nothing.

use std::fmt;
use std::fs::Metadata;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::SystemTime;

use arc_swap::ArcSwap;
use auxo_core::{Code, Error, Timestamp};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ServerConfig, WebPkiClientVerifier};
use rustls::{RootCertStore, crypto};
use sha2::{Digest, Sha256};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::subject::validity;
use crate::watch::directory;

/// Where the certificates are, all in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's own, followed by those that lead to its authority.
    pub cert: PathBuf,
    /// The key of the first of them.
    pub key: PathBuf,
    /// The authorities of clients. If it is there, a client without a certificate of theirs is refused.
    pub client_ca: Option<PathBuf>,
}

/// The certificates of a server, as they are now. Clones share them.
#[derive(Clone)]
pub struct Tls(Arc<Shared>);

struct Shared {
    files: TlsFiles,
    current: ArcSwap<Current>,
    unreadable: AtomicU64,
}

struct Current {
    /// When the server's certificate is good, if it says so.
    validity: Option<Range<Timestamp>>,
    /// The hash of all files, to see whether they have changed.
    hash: [u8; 32],
    http: TlsAcceptor,
    other: TlsAcceptor,
}

/// What is spoken inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inside {
    /// HTTP/1.1 or HTTP/2, by choice of the client.
    Http,
    /// Something that has no name here.
    Other,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.files.fmt(f)
    }
}

impl Tls {
    /// Reads the files.
    pub fn open(files: TlsFiles) -> Result<Tls, Error> {
        let current = Current::read(&files)?;
        Ok(Tls(Arc::new(Shared {
            files,
            current: ArcSwap::from_pointee(current),
            unreadable: AtomicU64::new(0),
        })))
    }

    /// Says in the log what is wrong with files that can be used all the same: the server's certificate is not good now, or everybody can
    /// read its key.
    pub fn warn(&self) {
        let TlsFiles { cert, key, .. } = &self.0.files;
        let now = Timestamp::from(SystemTime::now());
        if let Some(validity) = &self.0.current.load().validity {
            let file = cert.display();
            if now >= validity.end {
                let end = validity.end;
                tracing::warn!(%file, %end, "the server's certificate has expired: clients will refuse it; put a new one in its place");
            } else if now < validity.start {
                let start = validity.start;
                tracing::warn!(%file, %start, "the server's certificate is not good yet: clients will refuse it");
            }
        }
        let everybody_reads = |about: Metadata| about.mode() & 0o004 != 0;
        if key.metadata().is_ok_and(everybody_reads) {
            let file = key.display();
            tracing::warn!(%file, "everybody on this machine can read the server's private key; `chmod 600` it");
        }
    }

    /// Whether clients must have a certificate.
    pub fn wants_clients(&self) -> bool {
        self.0.files.client_ca.is_some()
    }

    /// Begins TLS on a new connection.
    pub async fn accept(
        &self,
        inside: Inside,
        stream: TcpStream,
    ) -> io::Result<TlsStream<TcpStream>> {
        let current = self.0.current.load_full();
        let acceptor = match inside {
            Inside::Http => &current.http,
            Inside::Other => &current.other,
        };
        acceptor.accept(stream).await
    }

    /// Reads the files again. If they are wrong nothing changes; that is logged and counted.
    pub fn reload(&self) {
        match Current::read(&self.0.files) {
            Ok(new) if new.hash == self.0.current.load().hash => {}
            Ok(new) => {
                tracing::info!("read the certificates anew");
                self.0.current.store(Arc::new(new));
                self.warn();
            }
            Err(error) => {
                self.0.unreadable.fetch_add(1, Relaxed);
                tracing::error!(why = error.message(), "the certificates stay as they were");
            }
        }
    }

    /// How often they could not be read again.
    pub fn unreadable(&self) -> u64 {
        self.0.unreadable.load(Relaxed)
    }

    /// The directories of the files.
    pub fn directories(&self) -> impl Iterator<Item = PathBuf> {
        let TlsFiles {
            cert,
            key,
            client_ca,
        } = &self.0.files;
        let files = [Some(cert), Some(key), client_ca.as_ref()];
        files.into_iter().flatten().map(|file| directory(file))
    }
}

impl Current {
    fn read(files: &TlsFiles) -> Result<Current, Error> {
        let mut hash = Sha256::new();
        let mut bytes = |path: &Path| {
            let bytes = std::fs::read(path).map_err(|error| wrong(path, error))?;
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(&bytes);
            Ok::<_, Error>(bytes)
        };
        let (cert, key) = (bytes(&files.cert)?, bytes(&files.key)?);
        let client_ca = match &files.client_ca {
            Some(path) => Some((path, bytes(path)?)),
            None => None,
        };
        let chain = certificates(&files.cert, &cert)?;
        let validity = chain.first().and_then(|own| validity(own));
        let key = PrivateKeyDer::from_pem_slice(&key).map_err(|error| {
            wrong(
                &files.key,
                format!("there is no private key in it: {error}"),
            )
        })?;
        let provider = Arc::new(crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong(&files.cert, error))?;
        let builder = match client_ca {
            None => builder.with_no_client_auth(),
            Some((path, ca)) => {
                let mut roots = RootCertStore::empty();
                for authority in certificates(path, &ca)? {
                    roots.add(authority).map_err(|error| wrong(path, error))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
                let verifier = verifier.build().map_err(|error| wrong(path, error))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let other = builder
            .with_single_cert(chain, key)
            .map_err(|error| wrong(&files.cert, error))?;
        let mut http = other.clone();
        http.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Current {
            hash: hash.finalize().into(),
            validity,
            http: TlsAcceptor::from(Arc::new(http)),
            other: TlsAcceptor::from(Arc::new(other)),
        })
    }
}

fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let read = read.map_err(|error| wrong(path, error))?;
    match read.is_empty() {
        true => Err(wrong(path, "there is no certificate in it")),
        false => Ok(read),
    }
}

fn wrong(path: &Path, why: impl fmt::Display) -> Error {
    let message = format!("TLS file {}: {why}", path.display());
    Error::new(Code::Unavailable, message)
}
