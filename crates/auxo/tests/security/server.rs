//! A running `auxo serve`, its certificates, and commands that talk to it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, DnType, Issuer, KeyPair};
use tempfile::TempDir;

use auxo_harness::command::{Ran, auxo, finish};

/// Longer than anything takes; only a broken test waits for it.
const PATIENCE: Duration = Duration::from_secs(100);

/// A place for a server: data, certificates and all.
pub struct Site {
    dir: TempDir,
}

impl Site {
    /// With an authority, a certificate for this machine, and one for a client.
    pub fn new() -> Site {
        let site = Site {
            dir: TempDir::new().unwrap(),
        };
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let ca = params.self_signed(&key).unwrap();
        std::fs::write(site.path("ca.pem"), ca.pem()).unwrap();
        let issuer = Issuer::new(params, key);
        for (who, names) in [
            ("server", &["localhost", "127.0.0.1"][..]),
            ("client", &["ada"]),
        ] {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let key = KeyPair::generate().unwrap();
            let mut params = CertificateParams::new(names).unwrap();
            // Another name than the authority's, or some take it for its own issuer.
            params.distinguished_name.push(DnType::CommonName, who);
            let cert = params.signed_by(&key, &issuer).unwrap();
            std::fs::write(site.path(&format!("{who}.pem")), cert.pem()).unwrap();
            std::fs::write(site.path(&format!("{who}.key")), key.serialize_pem()).unwrap();
        }
        site
    }

    /// Replaces the server's certificate by one whose time is over.
    pub fn expire_certificate(&self) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
        let cert = params.self_signed(&key).unwrap();
        std::fs::write(self.path("server.pem"), cert.pem()).unwrap();
        std::fs::write(self.path("server.key"), key.serialize_pem()).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    pub fn data(&self) -> String {
        self.text("data")
    }

    /// The flags for TLS.
    pub fn tls(&self) -> Vec<String> {
        vec![
            "--tls-cert".into(),
            self.text("server.pem"),
            "--tls-key".into(),
            self.text("server.key"),
        ]
    }

    /// Runs a command on the data directory.
    pub fn local(&self, args: &[&str]) -> Ran {
        let mut command = auxo();
        command.args(args).env("AUXO_DATA", self.data());
        finish(command, b"")
    }

    /// A new token.
    pub fn token(&self, allow: &[&str]) -> String {
        let mut args = vec!["token", "new", "--name", "t"];
        for grant in allow {
            args.extend(["--allow", grant]);
        }
        let ran = self.local(&args);
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.out.trim().to_owned()
    }

    /// What serving with these flags says when it does not come about.
    pub fn refused(&self, flags: &[&str]) -> Ran {
        let data = self.data();
        let mut args = vec!["serve", "--data", &data];
        args.extend(flags);
        let mut command = auxo();
        command.args(args);
        let ran = finish(command, b"");
        assert_ne!(ran.code, 0, "{flags:?}: {ran:?}");
        ran
    }

    pub fn serve(&self, flags: &[&str]) -> Server {
        let mut command = auxo();
        command
            .args(["serve", "--sync", "os", "--data", &self.data()])
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        let errors = BufReader::new(child.stderr.take().unwrap());
        let log = Arc::new((Mutex::new(String::new()), Condvar::new()));
        let kept = log.clone();
        let reader = std::thread::spawn(move || {
            for line in errors.split(b'\n') {
                let line = String::from_utf8_lossy(&line.unwrap()).into_owned();
                let mut log = kept.0.lock().unwrap();
                log.push_str(&line);
                log.push('\n');
                kept.1.notify_all();
            }
        });
        let mut server = Server {
            child,
            log,
            reader: Some(reader),
            url: String::new(),
        };
        // It says last what to try.
        let log = server.says("try: ");
        let (_, url) = log.split_once(" listens on ").unwrap();
        server.url = url.lines().next().unwrap().to_owned();
        server
    }
}

/// The process. It is killed when this is dropped.
pub struct Server {
    child: Child,
    log: Arc<(Mutex<String>, Condvar)>,
    reader: Option<JoinHandle<()>>,
    pub url: String,
}

impl Server {
    /// Waits until the log has this in it, and answers with all of it.
    #[track_caller]
    pub fn says(&self, text: &str) -> String {
        let log = self.log.0.lock().unwrap();
        let wait = self
            .log
            .1
            .wait_timeout_while(log, PATIENCE, |log| !log.contains(text));
        let (log, late) = wait.unwrap();
        assert!(!late.timed_out(), "it never said {text:?}: {log}");
        log.clone()
    }

    pub fn signal(&self, name: &str) {
        let (signal, id) = (format!("-{name}"), self.child.id().to_string());
        let sent = Command::new("kill").args([signal, id]).status().unwrap();
        assert!(sent.success());
    }

    /// Runs a command against it.
    pub fn run(&self, args: &[&str], token: Option<&str>, ca: Option<&Path>) -> Ran {
        let mut command = auxo();
        command.args(args).env("AUXO_SERVER", &self.url);
        if let Some(token) = token {
            command.env("AUXO_TOKEN", token);
        }
        if let Some(ca) = ca {
            command.env("AUXO_CA", ca);
        }
        finish(command, b"")
    }

    /// Stops it as a service manager does, and answers with all it wrote.
    pub fn stop(mut self) -> String {
        self.signal("TERM");
        let status = self.child.wait().unwrap();
        self.reader.take().unwrap().join().unwrap();
        let log = self.log.0.lock().unwrap().clone();
        assert!(status.success(), "{status}: {log}");
        log
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
