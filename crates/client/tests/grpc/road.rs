//! A server, and a road to it that can be cut where a test wants.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use auxo_client::Auxo;
use auxo_core::{Limits, Service};
use auxo_embedded::{Embedded, Options, Sync};
use auxo_server::{Server, Settings};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A running server.
pub struct Served {
    pub address: SocketAddr,
    pub service: Arc<Service>,
    stop: oneshot::Sender<()>,
    server: JoinHandle<()>,
    _dir: TempDir,
}

impl Served {
    pub async fn start() -> Served {
        Served::with(Settings::default()).await
    }

    pub async fn with(settings: Settings) -> Served {
        let dir = tempfile::tempdir().unwrap();
        let options = Options {
            sync: Sync::Os,
            ..Options::default()
        };
        let engine = Embedded::open(dir.path(), options).unwrap();
        let service = Arc::new(Service::new(Arc::new(engine), Limits::default()));
        Served::serve(service, dir, "127.0.0.1:0".parse().unwrap(), settings)
    }

    fn serve(service: Arc<Service>, dir: TempDir, at: SocketAddr, settings: Settings) -> Served {
        let listener = Server::listen(at).unwrap();
        let server = Server::new(listener, service.clone(), settings).unwrap();
        let address = server.address().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let server = tokio::spawn(server.run(async {
            let _ = stopped.await;
        }));
        Served {
            address,
            service,
            stop,
            server,
            _dir: dir,
        }
    }

    pub async fn connect(&self) -> Auxo {
        let url = format!("grpc://{}", self.address);
        Auxo::connect(&url).await.unwrap()
    }

    /// Stops, and starts again at the same address over the same queue.
    pub async fn restart(self) -> Served {
        self.stop.send(()).unwrap();
        self.server.await.unwrap();
        Served::serve(self.service, self._dir, self.address, Settings::default())
    }
}

/// What becomes of the connections that come along the road, one after the other.
pub enum Fate {
    /// Closed as soon as this text has come by: the request has left the client, and no answer ever comes.
    CutAt(&'static str),
    /// Led to the server.
    Led,
}

/// A road with these fates; connections after the last of them are led to the server. Answers with its URL and with how many
/// connections were cut.
pub async fn road(to: SocketAddr, fates: Vec<Fate>) -> (String, Arc<Mutex<usize>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("grpc://{}", listener.local_addr().unwrap());
    let cut = Arc::new(Mutex::new(0));
    let counted = cut.clone();
    tokio::spawn(async move {
        let mut fates = fates.into_iter();
        while let Ok((stream, _)) = listener.accept().await {
            match fates.next().unwrap_or(Fate::Led) {
                Fate::Led => drop(tokio::spawn(lead(stream, to))),
                Fate::CutAt(text) => {
                    // In order, so that each connection finds its own fate.
                    until_seen(stream, text).await;
                    *counted.lock().unwrap() += 1;
                }
            }
        }
    });
    (url, cut)
}

async fn lead(mut stream: TcpStream, to: SocketAddr) {
    let mut server = TcpStream::connect(to).await.unwrap();
    let _ = copy_bidirectional(&mut stream, &mut server).await;
}

async fn until_seen(mut stream: TcpStream, text: &str) {
    // The settings of a server that allows what every server does, so that the client goes on.
    let _ = stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await;
    let (mut seen, mut piece) = (Vec::new(), [0; 4096]);
    while let Ok(count) = stream.read(&mut piece).await {
        seen.extend_from_slice(&piece[..count]);
        let here = seen.windows(text.len()).any(|part| part == text.as_bytes());
        if here || count == 0 {
            return;
        }
    }
}
