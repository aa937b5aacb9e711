//! Another client of the same Redis, which only wants to be answered soon; and Redis' own measure of each script.
//!
//! [`control`] runs a script that only counts. How much longer its longest run is than its median is the machine's doing, so the other
//! sides' longest scripts are read beside it.

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
/// How often the control runs its script.
const CONTROL_RUNS: usize = 10_000;
/// How far it counts: about as long as a script of ours may take.
const CONTROL_STEPS: u32 = 150_000;

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
        let mut scripts = self.ground.slow_scripts()?;
        if scripts.is_empty() {
            scripts.push(0.0);
        }
        figures.extend(&spread(scripts)[..3]);
        figures.push(rate);
        Ok(figures)
    }
}

/// Runs a script as often as [`CONTROL_RUNS`] that touches no key.
pub fn control(ground: &Ground) -> Result<Figures> {
    let neighbour = Neighbour::start(ground)?;
    ground.block_on(async {
        let mut redis = ground.connect().await?;
        let script = redis::Script::new(
            "local sum = 0 for number = 1, tonumber(ARGV[1]) do sum = sum + number end return sum",
        );
        for _ in 0..CONTROL_RUNS {
            let mut run = script.prepare_invoke();
            let _: u64 = run.arg(CONTROL_STEPS).invoke_async(&mut redis).await?;
        }
        Ok(())
    })?;
    neighbour.stop(0.0)
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
