//! TLS: who is let in, and how certificates change under a running server.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use auxo_server::{Listener, Patience, Settings, Tls, TlsFiles};
use rcgen::{BasicConstraints, CertificateParams, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::bench::{Bench, within};

/// Somebody who signs certificates.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// A certificate and its key, in PEM.
struct Signed {
    cert: String,
    key: String,
}

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        Authority { issuer, pem }
    }

    fn sign(&self, name: &str) -> Signed {
        self.sign_with(name, |_| ())
    }

    fn sign_with(&self, name: &str, adjust: impl FnOnce(&mut CertificateParams)) -> Signed {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        adjust(&mut params);
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap().pem();
        let key = key.serialize_pem();
        Signed { cert, key }
    }

    /// A client that trusts this authority, and may have a certificate of its own.
    fn client(&self, own: Option<&Signed>) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(self.pem.as_bytes()).unwrap())
            .unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        match own {
            None => builder.with_no_client_auth(),
            Some(own) => {
                let cert = CertificateDer::from_pem_slice(own.cert.as_bytes()).unwrap();
                let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).unwrap();
                builder.with_client_auth_cert(vec![cert], key).unwrap()
            }
        }
    }
}

fn write(dir: &Path, signed: &Signed) {
    std::fs::write(dir.join("cert.pem"), &signed.cert).unwrap();
    std::fs::write(dir.join("key.pem"), &signed.key).unwrap();
}

fn files(dir: &Path, client_ca: bool) -> TlsFiles {
    TlsFiles {
        cert: dir.join("cert.pem"),
        key: dir.join("key.pem"),
        client_ca: client_ca.then(|| dir.join("ca.pem")),
    }
}

/// A server with a certificate for `localhost`.
async fn start(signed: &Signed, clients: Option<&Authority>) -> (Bench, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), signed);
    if let Some(clients) = clients {
        std::fs::write(dir.path().join("ca.pem"), &clients.pem).unwrap();
    }
    let tls = Tls::open(files(dir.path(), clients.is_some())).unwrap();
    let bench = Bench::listening(|listener| Listener::from(listener).with_tls(tls)).await;
    (bench, dir)
}

async fn connect(
    bench: &Bench,
    client: ClientConfig,
    name: &'static str,
) -> std::io::Result<TlsStream<TcpStream>> {
    let connector = TlsConnector::from(Arc::new(client));
    let name = ServerName::try_from(name).unwrap();
    within(connector.connect(name, bench.connect().await)).await
}

/// Whether a request is answered. In TLS 1.3 a client learns only after the handshake that its certificate was refused.
async fn answers(
    bench: &Bench,
    client: ClientConfig,
    name: &'static str,
) -> Result<String, std::io::Error> {
    let mut stream = connect(bench, client, name).await?;
    stream
        .write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        .await?;
    let mut answer = String::new();
    within(stream.read_to_string(&mut answer)).await?;
    Ok(answer)
}

#[tokio::test]
async fn a_client_that_trusts_the_authority_is_answered_and_others_are_not() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let (bench, _dir) = start(&ours.sign("localhost"), None).await;
    let answer = answers(&bench, ours.client(None), "localhost")
        .await
        .unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    for (client, name, why) in [
        (theirs.client(None), "localhost", "InvalidCertificate"),
        (ours.client(None), "elsewhere", "NotValidForName"),
    ] {
        let error = answers(&bench, client, name).await.unwrap_err();
        let error = format!("{error:?}");
        assert!(error.contains(why), "{error}");
    }
    let old = ours.sign_with("localhost", |params| {
        params.not_after = rcgen::date_time_ymd(2020, 1, 1)
    });
    let (bench, _dir) = start(&old, None).await;
    let error = answers(&bench, ours.client(None), "localhost")
        .await
        .unwrap_err();
    assert!(format!("{error:?}").contains("Expired"), "{error:?}");
}

#[tokio::test]
async fn both_versions_of_http_are_offered() {
    let ours = Authority::new();
    let (bench, _dir) = start(&ours.sign("localhost"), None).await;
    for (offer, chosen) in [
        (&[&b"h2"[..], b"http/1.1"][..], Some(&b"h2"[..])),
        (&[b"http/1.1"], Some(b"http/1.1")),
        (&[], None),
    ] {
        let mut client = ours.client(None);
        client.alpn_protocols = offer.iter().map(|name| name.to_vec()).collect();
        let stream = connect(&bench, client, "localhost").await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), chosen);
    }
}

#[tokio::test]
async fn old_versions_and_what_is_no_tls_are_refused() {
    let ours = Authority::new();
    let (bench, _dir) = start(&ours.sign("localhost"), None).await;
    // A hello of TLS 1.1, as it was sent for years: version 3.2 and one suite of that time.
    let mut hello = vec![0x16, 3, 1, 0, 45, 1, 0, 0, 41, 3, 2];
    hello.extend([7; 32]);
    hello.extend([0, 0, 2, 0, 0x2f, 1, 0]);
    for said in [&hello[..], b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"] {
        let mut stream = bench.connect().await;
        stream.write_all(said).await.unwrap();
        let mut answer = Vec::new();
        let _ = within(stream.read_to_end(&mut answer)).await;
        // An alert, or nothing; no handshake.
        assert!(answer.is_empty() || answer[0] == 0x15, "{answer:?}");
    }
    for version in ["-tls1_1", "-tls1"] {
        let mut command = Command::new("openssl");
        command
            .args(["s_client", "-connect", &bench.address.to_string(), version])
            .args(["-cipher", "ALL:@SECLEVEL=0"])
            .stdin(Stdio::null());
        let ran = tokio::task::spawn_blocking(move || command.output());
        let ran = within(ran)
            .await
            .unwrap()
            .expect("openssl is not installed");
        assert!(!ran.status.success(), "{version}");
    }
    let well = answers(&bench, ours.client(None), "localhost")
        .await
        .unwrap();
    assert!(well.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn where_clients_need_certificates_those_without_one_are_refused() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let (bench, _dir) = start(&ours.sign("localhost"), Some(&ours)).await;
    let known = ours.client(Some(&ours.sign("ada")));
    let answer = answers(&bench, known, "localhost").await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let stranger = ours.client(Some(&theirs.sign("ada")));
    for refused in [ours.client(None), stranger] {
        assert!(answers(&bench, refused, "localhost").await.is_err());
    }
    let old = ours.sign_with("ada", |params| {
        params.not_after = rcgen::date_time_ymd(2020, 1, 1)
    });
    assert!(
        answers(&bench, ours.client(Some(&old)), "localhost")
            .await
            .is_err()
    );
}

#[tokio::test]
async fn certificates_that_are_replaced_are_used_at_once_and_open_connections_go_on() {
    let (old, new) = (Authority::new(), Authority::new());
    let (bench, dir) = start(&old.sign("localhost"), None).await;
    let mut open = connect(&bench, old.client(None), "localhost")
        .await
        .unwrap();
    // What is wrong changes nothing.
    std::fs::write(dir.path().join("cert.pem"), "nonsense").unwrap();
    let answer = answers(&bench, old.client(None), "localhost")
        .await
        .unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"));
    write(dir.path(), &new.sign("localhost"));
    within(async {
        while answers(&bench, new.client(None), "localhost")
            .await
            .is_err()
        {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(
        answers(&bench, old.client(None), "localhost")
            .await
            .is_err()
    );
    open.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut answer = String::new();
    within(open.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test]
async fn files_that_cannot_be_used_are_refused_with_the_reason() {
    let (ours, dir) = (Authority::new(), tempfile::tempdir().unwrap());
    let (one, two) = (ours.sign("localhost"), ours.sign("localhost"));
    write(dir.path(), &one);
    let opened = |clients| {
        Tls::open(files(dir.path(), clients))
            .map(drop)
            .map_err(|error| error.message().to_owned())
    };
    opened(false).unwrap();
    assert!(opened(true).unwrap_err().contains("ca.pem"));
    std::fs::write(dir.path().join("ca.pem"), "").unwrap();
    assert!(opened(true).unwrap_err().contains("no certificate in it"));
    std::fs::write(dir.path().join("key.pem"), &one.cert).unwrap();
    assert!(opened(false).unwrap_err().contains("no private key in it"));
    std::fs::write(dir.path().join("key.pem"), &two.key).unwrap();
    assert!(
        opened(false).unwrap_err().contains("cert.pem"),
        "the key of another"
    );
}

#[tokio::test]
async fn a_handshake_that_does_not_come_is_not_waited_for() {
    let ours = Authority::new();
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &ours.sign("localhost"));
    let tls = Tls::open(files(dir.path(), false)).unwrap();
    let patience = auxo_server::Patience {
        time: std::time::Duration::from_millis(50),
        connections: 1,
        ..Default::default()
    };
    let clock = Arc::new(auxo_core::SystemClock::new(auxo_core::Timestamp(0)));
    let absent = auxo_server::TokenFile::new(dir.path().join("tokens.toml"));
    let auth = auxo_server::Auth::open(absent, clock, patience).unwrap();
    let adjust = |settings: &mut Settings| settings.auth = auth;
    let wrap = |listener| Listener::from(listener).with_tls(tls);
    let bench = Bench::built(|engine| Arc::new(engine), adjust, wrap).await;
    for begin in [&b""[..], &[0x16, 3, 1]] {
        let mut stream = bench.connect().await;
        stream.write_all(begin).await.unwrap();
        let mut rest = Vec::new();
        let _ = within(stream.read_to_end(&mut rest)).await;
    }
    // The one place for strangers is free again.
    within(async {
        while answers(&bench, ours.client(None), "localhost")
            .await
            .is_err()
        {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let text = "auxo_failed_handshakes_total";
    let mut stream = connect(&bench, ours.client(None), "localhost")
        .await
        .unwrap();
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut answer = String::new();
    within(stream.read_to_string(&mut answer)).await.unwrap();
    let count = answer.lines().find(|line| line.starts_with(text)).unwrap();
    let count: u32 = count.rsplit(' ').next().unwrap().parse().unwrap();
    assert!(count >= 2, "{count}");
}

#[tokio::test]
async fn connections_that_do_not_begin_with_tls_lock_out_nobody() {
    let authority = Authority::new();
    let (bench, _dir) = start(&authority.sign("localhost"), None).await;
    let mut silent = Vec::new();
    for _ in 0..Patience::default().each {
        silent.push(bench.connect().await);
    }
    let answer = answers(&bench, authority.client(None), "localhost").await;
    assert!(answer.unwrap().starts_with("HTTP/1.1 200"));
    assert_eq!(within(silent[0].read(&mut [0])).await.unwrap(), 0);
}
