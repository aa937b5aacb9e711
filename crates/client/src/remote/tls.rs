//! TLS to a server, by rustls with ring. Files are read once, when the handle is made.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use auxo_core::{Error, Result};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{AlertDescription, CertificateError, ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::address::Address;
use super::socket::Socket;

/// Who is trusted, and what is shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Files {
    /// The authority of the server; those of the system if there is none.
    pub ca: Option<PathBuf>,
    /// Our own certificate and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// Why TLS ended a connection, if it did.
pub(crate) type Ending = Arc<OnceLock<String>>;

/// A connection with TLS. Whatever ends it is told with what to do about it: a server of TLS 1.3 refuses a client's certificate only
/// after the handshake. It is the reader that hears of the end, for the socket below reports no failed write.
pub(super) struct Secured {
    stream: TlsStream<Socket>,
    pub ending: Ending,
}

/// How TLS is begun.
#[derive(Clone)]
pub(super) struct Tls(TlsConnector);

impl Tls {
    /// Reads the files. `inside` is what is spoken within TLS.
    pub fn new(files: &Files, inside: &str) -> Result<Tls> {
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
        config.alpn_protocols = vec![inside.as_bytes().to_vec()];
        Ok(Tls(TlsConnector::from(Arc::new(config))))
    }

    /// Begins TLS with the server of that name, or says why not and what to do about it.
    pub async fn wrap(&self, address: &Address, socket: Socket) -> io::Result<Secured> {
        let name = ServerName::try_from(address.host.clone()).map_err(io::Error::other)?;
        let stream = self.0.connect(name, socket).await;
        let secured = |stream| Secured {
            stream,
            ending: Ending::default(),
        };
        stream.map(secured).map_err(advised)
    }
}

impl AsyncRead for Secured {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        read.map_err(|error| self.ended(error))
    }
}

impl Secured {
    /// Notes why the connection ended.
    fn ended(&self, error: io::Error) -> io::Error {
        let error = advised(error);
        // The first one is the reason of the others.
        let _ = self.ending.set(error.to_string());
        error
    }
}

impl AsyncWrite for Secured {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// The same error with what to do about it, if that is known. As text, since that is what protocols above keep of it.
fn advised(error: io::Error) -> io::Error {
    match tls(&error).and_then(advice) {
        Some(advice) => io::Error::new(error.kind(), format!("{error}; {advice}")),
        None => error,
    }
}

/// What TLS says in an error, if it is that.
fn tls(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref().and_then(|inner| inner.downcast_ref())
}

/// What to do about an error of TLS.
fn advice(error: &rustls::Error) -> Option<&'static str> {
    use rustls::Error as Tls;
    let wants_certificate = "the server wants a certificate of its clients: name one of an authority that it trusts with \
                             --client-cert and --client-key, or `Connector::certificate`";
    let advice = match error {
        Tls::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "if the server is the right one, name the authority of its certificate with --ca FILE, AUXO_CA or \
             `Connector::authority`"
        }
        Tls::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => "call the server by a name that its certificate is for",
        Tls::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        ) => "the server needs a new certificate; is the clock of this machine right?",
        Tls::InvalidMessage(_) => {
            "does the server speak TLS there? if not, its URL begins with http:// or grpc://"
        }
        Tls::AlertReceived(
            AlertDescription::CertificateRequired
            | AlertDescription::BadCertificate
            | AlertDescription::UnknownCA
            | AlertDescription::CertificateUnknown
            | AlertDescription::AccessDenied,
        ) => wants_certificate,
        Tls::AlertReceived(AlertDescription::NoApplicationProtocol) => {
            "the server, or what stands before it, does not speak this protocol there"
        }
        _ => return None,
    };
    Some(advice)
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

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use rcgen::{CertificateParams, KeyPair};
    use rustls::ServerConfig;
    use rustls::server::WebPkiClientVerifier;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    /// A server that wants a certificate of its clients, and the file of its authority, which is itself.
    fn strict(dir: &Path) -> (Arc<ServerConfig>, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let ca = dir.join("ca.pem");
        std::fs::write(&ca, certificate.pem()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let roots = Arc::new(authorities(Some(&ca)).unwrap());
        let clients = WebPkiClientVerifier::builder_with_provider(roots, provider.clone());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(clients.build().unwrap())
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            );
        (Arc::new(config.unwrap()), ca)
    }

    /// A client that has its own connection with TLS, and a server that has told it to show a certificate and hung up. The client has
    /// not yet looked at what came, and whatever it writes fails.
    async fn refused(dir: &Path) -> Secured {
        let (config, ca) = strict(dir);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (wrote, written) = std::sync::mpsc::channel();
        // A thread with blocking calls, so that the client is where it is when the server hangs up.
        let server = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let mut tls = rustls::ServerConnection::new(config).unwrap();
            while tls.is_handshaking() {
                if let Err(error) = tls.complete_io(&mut socket) {
                    assert!(
                        error.to_string().contains("sent no certificates"),
                        "{error}"
                    );
                    break;
                }
            }
            // Something that nobody read makes the hanging up a reset.
            written.recv().unwrap();
        });
        let files = Files {
            ca: Some(ca),
            identity: None,
        };
        let address = Address::parse(&format!("https://localhost:{port}")).unwrap();
        let socket = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let tls = Tls::new(&files, "h2").unwrap();
        let mut secured = tls.wrap(&address, Socket::new(socket)).await.unwrap();
        secured.write_all(b"dear ada").await.unwrap();
        wrote.send(()).unwrap();
        server.join().unwrap();
        secured
    }

    #[tokio::test]
    async fn a_client_that_is_refused_while_it_sends_is_told_why() {
        let dir = tempfile::tempdir().unwrap();
        let mut secured = refused(dir.path()).await;
        let mut answer = Vec::new();
        let exchange = async {
            secured.write_all(b"are you there?").await?;
            secured.read_to_end(&mut answer).await
        };
        let error = exchange.await.unwrap_err();
        assert!(error.to_string().contains("--client-cert"), "{error}");
        let told = secured.ending.get().unwrap();
        assert!(told.contains("--client-cert"), "{told}");
    }
}
