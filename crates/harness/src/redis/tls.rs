//! Certificates for a test, made by the `openssl` command.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Server, free_port};

/// An authority of our own, a certificate for 127.0.0.1, and one for a client.
pub struct Certificates {
    dir: tempfile::TempDir,
}

impl Certificates {
    /// Makes them.
    pub fn make() -> Certificates {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let certificates = Certificates { dir };
        let ca = [
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=test authority",
            "-keyout",
            "ca.key",
            "-out",
            "ca.pem",
            "-addext",
            "basicConstraints=critical,CA:TRUE",
        ];
        certificates.openssl(&ca);
        certificates.sign("server", "subjectAltName=IP:127.0.0.1,DNS:localhost");
        certificates.sign("client", "subjectAltName=DNS:client");
        certificates
    }

    fn sign(&self, name: &str, extension: &str) {
        let (key, request, certificate) = (
            format!("{name}.key"),
            format!("{name}.csr"),
            format!("{name}.pem"),
        );
        let subject = format!("/CN={name}");
        self.openssl(&[
            "req",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-subj",
            &subject,
            "-keyout",
            &key,
            "-out",
            &request,
        ]);
        std::fs::write(self.file("extensions"), extension).expect("a file");
        self.openssl(&[
            "x509",
            "-req",
            "-in",
            &request,
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca.key",
            "-days",
            "2",
            "-CAcreateserial",
            "-extfile",
            "extensions",
            "-out",
            &certificate,
        ]);
    }

    fn openssl(&self, args: &[&str]) {
        let output = Command::new("openssl")
            .args(args)
            .current_dir(self.dir.path())
            .output();
        let output = output.expect("the openssl command; install the package openssl");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "openssl {args:?}: {said}");
    }

    /// A server with a second port for TLS. Its clients need a certificate, or not.
    pub fn serve(&self, clients: &str) -> (Server, u16) {
        let file = |name| {
            self.file(name)
                .to_str()
                .expect("a path of plain text")
                .to_owned()
        };
        let port = free_port();
        let server = Server::start(&[
            "--tls-port",
            &port.to_string(),
            "--tls-cert-file",
            &file("server.pem"),
            "--tls-key-file",
            &file("server.key"),
            "--tls-ca-cert-file",
            &file("ca.pem"),
            "--tls-auth-clients",
            clients,
        ]);
        (server, port)
    }

    /// One of `ca.pem`, `server.pem`, `server.key`, `client.pem`, `client.key`.
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Where they are.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }
}
