//! Connections that work as fast as they are answered.

use std::fmt;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::Case;
use super::peer::Peer;
use super::tongue::{Answer, Tongue};
use crate::http::on_wire;
use crate::{Plan, Result, host};

/// What a connection does over and over.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// Jobs in.
    Put,
    /// Jobs in, out, and done.
    Cycle,
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Work::Put => "puts",
            Work::Cycle => "cycles (put, take, done)",
        })
    }
}

/// What one side did in one round.
pub struct Load {
    jobs: u64,
    wall: Duration,
    client: Duration,
    server: Duration,
}

impl Load {
    pub fn rate(&self) -> f64 {
        self.jobs as f64 / self.wall.as_secs_f64()
    }

    pub fn client_us(&self) -> f64 {
        self.client.as_secs_f64() * 1e6 / self.jobs as f64
    }

    pub fn server_us(&self) -> f64 {
        self.server.as_secs_f64() * 1e6 / self.jobs as f64
    }
}

/// Lets the connections of a case work for a while.
pub fn measure(
    plan: &Plan,
    peer: &Peer,
    tongue: Tongue,
    payload: usize,
    case: &Case,
) -> Result<Load> {
    on_wire(async {
        let mut talks = Vec::new();
        for number in 0..case.connections {
            talks.push((number, Talk::connect(peer.address, tongue).await?));
        }
        let (wall, client, server) = (Instant::now(), host::cpu(), peer.cpu()?);
        let end = wall + plan.span;
        let (work, depth) = (case.work, case.depth);
        let running = talks.into_iter().map(|(number, talk)| {
            tokio::task::spawn_local(async move {
                let jobs = work_until(end, talk, work, depth, number, payload).await;
                jobs.map_err(|error| error.to_string())
            })
        });
        let running: Vec<_> = running.collect();
        let mut jobs = 0;
        for task in running {
            jobs += task.await??;
        }
        Ok(Load {
            jobs,
            wall: wall.elapsed(),
            client: host::cpu() - client,
            server: peer.cpu()? - server,
        })
    })
}

async fn work_until(
    end: Instant,
    mut talk: Talk,
    work: Work,
    depth: usize,
    number: usize,
    size: usize,
) -> Result<u64> {
    let mut jobs = 0_u64;
    while Instant::now() < end {
        for place in 0..depth as u64 {
            // No two are the same: a list finds what is done by what it says.
            let mut payload = format!("{number:x}-{:x}-", jobs + place).into_bytes();
            payload.resize(size, b'x');
            talk.tongue.put(&payload, 0, &mut talk.output);
        }
        talk.send().await?;
        talk.answers(depth, |_, _| ()).await?;
        if matches!(work, Work::Cycle) {
            (0..depth).for_each(|_| talk.tongue.take(&mut talk.output));
            talk.send().await?;
            let (tongue, mut done) = (talk.tongue, Vec::new());
            let note = |bytes: &[u8], answer: Answer| tongue.done(&bytes[answer.id], &mut done);
            talk.answers(depth, note).await?;
            talk.output = done;
            talk.send().await?;
            talk.answers(depth, |_, _| ()).await?;
        }
        jobs += depth as u64;
    }
    Ok(jobs)
}

/// A connection, and what is to go and what came.
pub struct Talk {
    stream: TcpStream,
    pub tongue: Tongue,
    pub output: Vec<u8>,
    input: Vec<u8>,
}

impl Talk {
    pub async fn connect(address: SocketAddr, tongue: Tongue) -> Result<Talk> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let mut talk = Talk {
            stream,
            tongue,
            output: tongue.greeting().to_vec(),
            input: Vec::with_capacity(64 << 10),
        };
        talk.send().await?;
        talk.answers(2, |_, _| ()).await?;
        Ok(talk)
    }

    pub async fn send(&mut self) -> Result<()> {
        self.stream.write_all(&self.output).await?;
        self.output.clear();
        Ok(())
    }

    /// Waits for so many answers, all of them good.
    pub async fn answers(
        &mut self,
        count: usize,
        mut each: impl FnMut(&[u8], Answer),
    ) -> Result<()> {
        let (mut left, mut at) = (count, 0);
        loop {
            while left > 0 {
                let rest = &self.input[at..];
                let Some(answer) = self.tongue.answer(rest) else {
                    break;
                };
                let length = answer.length;
                if answer.is_error {
                    let text = String::from_utf8_lossy(&rest[..length]).into_owned();
                    return Err(format!("answered {text:?}").into());
                }
                each(rest, answer);
                (at, left) = (at + length, left - 1);
            }
            if left == 0 {
                self.input.drain(..at);
                return Ok(());
            }
            if self.stream.read_buf(&mut self.input).await? == 0 {
                return Err("the server closed the connection".into());
            }
        }
    }
}
