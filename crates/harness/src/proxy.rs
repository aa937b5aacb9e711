//! A network between clients and a server that can be cut, slow, lame, and gone in the middle of a word.

use std::io::{self, ErrorKind};
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Longer than anything takes; only a broken test waits for it.
const PATIENCE: Duration = Duration::from_secs(100);

/// Towards the server, or back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Up,
    Down,
}

/// One end of every connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Client,
    Server,
}

/// How the network is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Net {
    /// Everything arrives.
    Whole,
    /// What goes this way waits for better times, and new connections do.
    OneWay(Way),
    /// Nothing arrives.
    Cut,
    /// As cut, and this side of every connection has been told that it is over; the other one hears of it when the network
    /// is whole again.
    Told(Side),
}

impl Net {
    fn carries(self, way: Way) -> bool {
        match self {
            Net::Whole => true,
            Net::OneWay(stopped) => stopped != way,
            Net::Cut | Net::Told(_) => false,
        }
    }
}

/// What happens to the bytes of a connection that go one way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lane {
    /// The connection is reset when so many have passed.
    pub reset_at: Option<usize>,
    /// They pass one at a time.
    pub bytewise: bool,
    /// What is read at once passes so much later.
    pub delay: Duration,
}

/// What happens to one connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plan {
    pub up: Lane,
    pub down: Lane,
}

/// A listening network.
pub struct Proxy {
    pub address: SocketAddr,
    net: watch::Sender<Net>,
    held: watch::Receiver<usize>,
}

impl Proxy {
    /// In front of this server; `plan` says what happens to each connection, in the order in which they come.
    pub async fn new(server: SocketAddr, mut plan: impl FnMut() -> Plan + Send + 'static) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (net, state) = watch::channel(Net::Whole);
        let (hold, held) = watch::channel(0);
        let hold = Arc::new(hold);
        tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                tokio::spawn(carry(client, server, plan(), state.clone(), hold.clone()));
            }
        });
        Proxy { address, net, held }
    }

    pub fn set(&self, net: Net) {
        self.net.send_replace(net);
    }

    /// Waits until at least so many connections have something that does not get through.
    pub async fn until_held(&mut self, connections: usize) {
        let held = self.held.wait_for(|held| *held >= connections);
        let held = tokio::time::timeout(PATIENCE, held).await;
        held.expect("somebody sends something").unwrap();
    }

    /// Waits until nothing is held back any more.
    pub async fn until_free(&mut self) {
        let free = self.held.wait_for(|held| *held == 0);
        let free = tokio::time::timeout(PATIENCE, free).await;
        free.expect("everything arrives or is given up").unwrap();
    }
}

async fn carry(
    client: TcpStream,
    server: SocketAddr,
    plan: Plan,
    mut net: watch::Receiver<Net>,
    hold: Arc<watch::Sender<usize>>,
) {
    // A new connection is not even made while the network is cut.
    let _ = net.wait_for(|net| *net == Net::Whole).await;
    let Ok(server) = TcpStream::connect(server).await else {
        return reset(&client);
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let both = async {
        let up = pump(&client, &server, plan.up, Way::Up, net.clone(), &hold);
        let down = pump(&server, &client, plan.down, Way::Down, net.clone(), &hold);
        tokio::try_join!(up, down).is_err()
    };
    let mut watched = net.clone();
    let told = async {
        let told = watched.wait_for(|net| matches!(net, Net::Told(_))).await;
        told.map_or(Net::Cut, |net| *net)
    };
    tokio::select! {
        broken = both => {
            if broken {
                reset(&client);
                reset(&server);
            }
        }
        told = told => {
            let (first, second) = match told {
                Net::Told(Side::Server) => (server, client),
                _ => (client, server),
            };
            reset(&first);
            drop(first);
            // The network of a test that is over stays as it is.
            let _ = net.wait_for(|net| *net == Net::Whole).await;
            reset(&second);
        }
    }
}

/// Makes the end of this socket one that is heard of at once, and that throws away what was under way.
fn reset(socket: &TcpStream) {
    let _ = SockRef::from(socket).set_linger(Some(Duration::ZERO));
}

/// Carries bytes one way. An error is the end of the whole connection.
async fn pump(
    from: &TcpStream,
    to: &TcpStream,
    lane: Lane,
    way: Way,
    mut net: watch::Receiver<Net>,
    hold: &watch::Sender<usize>,
) -> io::Result<()> {
    let mut buffer = vec![0; 16 << 10];
    let mut left = lane.reset_at;
    if left == Some(0) {
        // Nothing passes of what is sent.
        read(from, &mut buffer).await?;
        return Err(ErrorKind::ConnectionReset.into());
    }
    loop {
        let size = read(from, &mut buffer).await?;
        if !net.borrow_and_update().carries(way) {
            let _held = Held::new(hold);
            let whole = net.wait_for(|net| net.carries(way)).await;
            whole.map_err(io::Error::other)?;
        }
        if size == 0 {
            return SockRef::from(to).shutdown(Shutdown::Write);
        }
        if !lane.delay.is_zero() {
            tokio::time::sleep(lane.delay).await;
        }
        let passing = left.map_or(size, |left| left.min(size));
        let piece = if lane.bytewise { 1 } else { size };
        for piece in buffer[..passing].chunks(piece) {
            write(to, piece).await?;
        }
        left = left.map(|left| left - passing);
        if left == Some(0) {
            return Err(ErrorKind::ConnectionReset.into());
        }
    }
}

/// Counts as held until it is dropped.
struct Held<'a>(&'a watch::Sender<usize>);

impl Held<'_> {
    fn new(hold: &watch::Sender<usize>) -> Held<'_> {
        hold.send_modify(|held| *held += 1);
        Held(hold)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|held| *held -= 1);
    }
}

async fn read(from: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        from.readable().await?;
        match from.try_read(buffer) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            read => return read,
        }
    }
}

async fn write(to: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        to.writable().await?;
        match to.try_write(bytes) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            written => bytes = &bytes[written?..],
        }
    }
    Ok(())
}
