//! The Redis that all sides stand on: a process of our own, on a free port, in a directory that is removed.

use std::fmt;
use std::future::Future;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ErrorKind, RedisResult, Value};

use super::line::{Figures, rate};
use crate::{Plan, Result, host};

/// Between our asking for a free port and the server's taking it, somebody else may.
const TRIES: usize = 5;

/// What the server writes to the disk.
#[derive(Clone, Copy, Debug)]
pub enum Persistence {
    /// Nothing.
    Off,
    /// Its append-only file, synced once a second and never rewritten: a rewrite would hit whichever side is at work.
    EverySecond,
}

impl fmt::Display for Persistence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Persistence::Off => "persistence off",
            Persistence::EverySecond => "AOF everysec",
        })
    }
}

/// A running server, until it is dropped, and the settings of the run.
pub struct Ground {
    pub plan: Plan,
    child: Child,
    port: u16,
}

impl Ground {
    pub fn start(plan: &Plan, dir: &Path, persistence: Persistence) -> Result<Ground> {
        let mut said = String::new();
        for _ in 0..TRIES {
            let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
                .local_addr()?
                .port();
            match Ground::on(port, plan, dir, persistence)? {
                Ok(ground) => return Ok(ground),
                Err(last) => said = last,
            }
        }
        Err(format!("redis-server did not start:\n{said}").into())
    }

    /// Waits until the server says that it is ready; otherwise answers what it said.
    fn on(
        port: u16,
        plan: &Plan,
        dir: &Path,
        persistence: Persistence,
    ) -> Result<std::result::Result<Ground, String>> {
        let append = match persistence {
            Persistence::Off => "no",
            Persistence::EverySecond => "yes",
        };
        let mut child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", append])
            .args([
                "--appendfsync",
                "everysec",
                "--auto-aof-rewrite-percentage",
                "0",
            ])
            .arg("--dir")
            .arg(dir.canonicalize()?)
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("redis-server: {error}; is it installed?"))?;
        let talk = child.stdout.take().ok_or("no stdout")?;
        let ground = Ground {
            plan: plan.clone(),
            child,
            port,
        };
        let mut lines = BufReader::new(talk).lines();
        let mut said = String::new();
        for line in lines.by_ref() {
            let line = line?;
            if line.contains("Ready to accept connections") {
                // A pipe that nobody empties would hold the server up in the end.
                std::thread::spawn(move || lines.for_each(drop));
                return Ok(Ok(ground));
            }
            said.push_str(&line);
            said.push('\n');
        }
        Ok(Err(said))
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// A connection that all tasks of a side share.
    pub async fn connect(&self) -> RedisResult<MultiplexedConnection> {
        // The machine may stall for longer than the client would wait by itself.
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        Client::open(self.url())?
            .get_multiplexed_async_connection_with_config(&config)
            .await
    }

    /// Runs a side's work on this thread: one core for the client leaves the other to Redis.
    pub fn block_on<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?
            .block_on(work)
    }

    /// Removes everything, so that no side works on what another left.
    pub fn clear(&self) -> Result<()> {
        self.block_on(async {
            let mut redis = self.connect().await?;
            Ok(redis::cmd("FLUSHALL").query_async(&mut redis).await?)
        })
    }

    pub fn version(&self) -> Result<String> {
        self.block_on(async {
            let mut redis = self.connect().await?;
            Ok(info(&mut redis, "server", "redis_version").await?)
        })
    }

    /// Sees from now on what others ask of the server.
    pub fn monitor(&self) -> Result<Monitor> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        stream.write_all(b"MONITOR\r\n")?;
        Ok(Monitor(stream))
    }

    pub fn address(&self) -> (Ipv4Addr, u16) {
        (Ipv4Addr::LOCALHOST, self.port)
    }

    /// Notes from now on what takes longer than so many microseconds.
    pub fn slow_log(&self, micros: &str) -> Result<()> {
        self.block_on(async {
            let mut redis = self.connect().await?;
            for (name, value) in [
                ("slowlog-log-slower-than", micros),
                ("slowlog-max-len", "100000"),
            ] {
                let mut set = redis::cmd("CONFIG");
                set.arg("SET").arg(name).arg(value);
                let () = set.query_async(&mut redis).await?;
            }
            let mut reset = redis::cmd("SLOWLOG");
            Ok(reset.arg("RESET").query_async(&mut redis).await?)
        })
    }

    /// How many seconds each script took that the slow log has.
    pub fn slow_scripts(&self) -> Result<Vec<f64>> {
        let entries: Vec<Vec<Value>> = self.block_on(async {
            let mut redis = self.connect().await?;
            let mut get = redis::cmd("SLOWLOG");
            Ok(get.arg("GET").arg(-1).query_async(&mut redis).await?)
        })?;
        let seconds = |entry: &Vec<Value>| match (entry.get(2)?, entry.get(3)?) {
            (Value::Int(micros), Value::Array(command)) => {
                let name = Value::BulkString(b"EVALSHA".to_vec());
                (command.first() == Some(&name)).then_some(*micros as f64 / 1e6)
            }
            _ => None,
        };
        Ok(entries.iter().filter_map(seconds).collect())
    }

    /// User and system time of the server so far, in steps of a hundredth of a second.
    pub fn cpu(&self) -> Result<Duration> {
        Ok(host::cpu_of(&self.child.id().to_string())?.own)
    }

    /// Measures from now on.
    pub fn watch(&self) -> Result<Watch<'_>> {
        Ok(Watch {
            ground: self,
            redis: self.cpu()?,
            client: host::cpu(),
            wall: Instant::now(),
        })
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        // It is only measured: nothing in it is worth a clean end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What is asked of the server, a line for each command.
pub struct Monitor(TcpStream);

impl Monitor {
    /// How many commands came in this time; what scripts do is not counted.
    pub fn count(self, span: Duration) -> io::Result<usize> {
        let end = Instant::now() + span;
        let mut lines = BufReader::new(&self.0);
        let mut line = Vec::new();
        let mut count = 0;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(count);
            }
            self.0.set_read_timeout(Some(left))?;
            match lines.read_until(b'\n', &mut line) {
                Ok(_) => {
                    let text = String::from_utf8_lossy(&line);
                    count += usize::from(text.starts_with("+1") && !text.contains(" lua] "));
                    line.clear();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// The bytes that the server has allocated.
pub async fn used_memory(redis: &mut MultiplexedConnection) -> Result<u64> {
    Ok(info(redis, "memory", "used_memory").await?.parse()?)
}

async fn info(redis: &mut MultiplexedConnection, part: &str, name: &str) -> RedisResult<String> {
    let text: String = redis::cmd("INFO").arg(part).query_async(redis).await?;
    text.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .map(|value| value.trim().to_owned())
        .ok_or(
            (
                ErrorKind::UnexpectedReturnType,
                "INFO lacks a field",
                name.to_owned(),
            )
                .into(),
        )
}

/// A measurement that has begun.
pub struct Watch<'a> {
    ground: &'a Ground,
    redis: Duration,
    client: Duration,
    wall: Instant,
}

impl Watch<'_> {
    /// The figures of a line of rates.
    pub fn stop(self, jobs: u64) -> Result<Figures> {
        let (wall, client) = (self.wall.elapsed(), host::cpu() - self.client);
        let redis = self.ground.cpu()? - self.redis;
        let [wall, client, redis] = [wall, client, redis].map(|time| time.as_secs_f64());
        Ok(rate(jobs as f64, wall, client, redis))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_cannot_have_its_port_says_so() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let plan = Plan::parse(Vec::new(), &[]).unwrap().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let said = Ground::on(port, &plan, dir.path(), Persistence::Off)
            .unwrap()
            .err()
            .unwrap();
        assert!(said.contains("in use"), "{said}");
    }
}
