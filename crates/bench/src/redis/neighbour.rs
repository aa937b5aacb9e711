//! Another client of the same Redis, which only wants to be answered soon; and Redis' own measure of the longest script.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use auxo_core::JobSpec;
use auxo_core::job::{DEFAULT_KEY_WINDOW, Key, OnDuplicate, Ttl};
use auxo_core::time::When;

use super::ground::Ground;
use super::line::{Figures, spread};
use crate::Result;
use crate::drive::PAYLOAD;

/// How often it asks.
const PACE: Duration = Duration::from_millis(1);
/// Scripts that take less are not told apart, in microseconds.
const SHORT: &str = "500";

/// Makes the job of a number.
pub type Spec = fn(usize) -> JobSpec;

/// The kinds of jobs that cost Redis more or less.
pub const KINDS: [(&str, Spec); 4] = [
    ("auxo, plain jobs", |_| plain()),
    ("auxo, with a key", |number| JobSpec {
        key: Some(Key {
            name: number.to_string(),
            on_duplicate: OnDuplicate::default(),
            window: DEFAULT_KEY_WINDOW,
        }),
        ..plain()
    }),
    ("auxo, with a delay", |number| JobSpec {
        when: When::After(Duration::from_millis(number as u64 % 1_000)),
        ..plain()
    }),
    ("auxo, with a TTL", |_| JobSpec {
        ttl: Ttl::After(Duration::from_secs(86_400)),
        ..plain()
    }),
];

fn plain() -> JobSpec {
    JobSpec {
        payload: vec![b'x'; PAYLOAD].into(),
        ..JobSpec::default()
    }
}

/// The neighbour, asking until it is stopped.
pub struct Neighbour<'a> {
    ground: &'a Ground,
    enough: Arc<AtomicBool>,
    asking: JoinHandle<std::io::Result<Vec<f64>>>,
}

impl Neighbour<'_> {
    pub fn start(ground: &Ground) -> Result<Neighbour<'_>> {
        ground.slow_log(SHORT)?;
        let enough = Arc::new(AtomicBool::new(false));
        let address = ground.address();
        let asking = std::thread::spawn({
            let enough = enough.clone();
            move || ask(TcpStream::connect(address)?, &enough)
        });
        Ok(Neighbour {
            ground,
            enough,
            asking,
        })
    }

    /// The figures of a line of neighbours.
    pub fn stop(self, rate: f64) -> Result<Figures> {
        self.enough.store(true, Ordering::Relaxed);
        let times = self.asking.join().map_err(|_| "the neighbour is gone")??;
        let mut figures = spread(times);
        figures.truncate(3);
        figures.push(self.ground.longest_script()?.as_secs_f64() * 1e3);
        figures.push(rate);
        Ok(figures)
    }
}

/// The seconds that each PING took.
fn ask(mut stream: TcpStream, enough: &AtomicBool) -> std::io::Result<Vec<f64>> {
    stream.set_nodelay(true)?;
    let mut answers = BufReader::new(stream.try_clone()?);
    let mut times = Vec::new();
    let mut line = String::new();
    while !enough.load(Ordering::Relaxed) {
        let asked = Instant::now();
        stream.write_all(b"PING\r\n")?;
        line.clear();
        answers.read_line(&mut line)?;
        times.push(asked.elapsed().as_secs_f64());
        std::thread::sleep(PACE);
    }
    Ok(times)
}
