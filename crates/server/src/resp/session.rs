//! What a connection knows, and what it does for each command.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use auxo_core::{Code, Error, Timestamp};
use auxo_wire::resp::{Command, Item, Muting, Reply, Version};
use bytes::BytesMut;
use futures_util::TryFutureExt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::OwnedSemaphorePermit;

use super::Ends;
use super::held::Held;
use crate::app::{App, ROOM_UNIT};
use crate::auth::{Caller, Identity};
use crate::clock::{Clock, within};
use crate::line::{LARGE, Line, unanswered};

/// How it goes on after some commands.
pub enum End {
    /// With more of them.
    Open,
    /// Not at all.
    Closed,
}

/// A connection.
pub struct Session {
    pub(super) app: Arc<App>,
    pub(super) ends: Ends,
    /// The number of the connection.
    pub(super) id: u64,
    /// What it is called; may be empty.
    pub(super) name: String,
    /// What its leases are taken under.
    pub(super) worker: Arc<str>,
    pub(super) version: Version,
    pub(super) muting: Muting,
    pub(super) held: Held,
    pub(super) began: Timestamp,
    /// For how long the engine is waited for by the calls that come by the thousand.
    pub(super) clock: Option<Clock>,
    /// Who it is, if it has said so.
    pub(super) identity: Option<Arc<Identity>>,
    /// How many copies of a job there are.
    pub(super) copies: u16,
}

impl Session {
    /// A new connection.
    pub fn new(app: Arc<App>, ends: Ends) -> Session {
        app.resp.open.fetch_add(1, Relaxed);
        Session {
            id: app.resp.connections.fetch_add(1, Relaxed) + 1,
            name: String::new(),
            worker: format!("resp {}", ends.peer).into(),
            version: Version::default(),
            muting: Muting::default(),
            held: Held::default(),
            began: app.service.now(),
            clock: None,
            identity: None,
            copies: ends.copies,
            ends,
            app,
        }
    }

    /// Answers commands, in their order.
    pub async fn serve<S>(
        &mut self,
        line: &mut Line<S>,
        items: &mut VecDeque<Item>,
    ) -> io::Result<End>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        self.app
            .resp
            .commands
            .fetch_add(items.len() as u64, Relaxed);
        while !items.is_empty() {
            let before = items.len();
            self.gather(line, items).await?;
            if items.len() < before {
                // What ended this row may begin the next one.
                continue;
            }
            let command = match items.pop_front() {
                None => break,
                Some(Item::Command(command)) => command,
                Some(Item::Wrong(reply)) => {
                    self.say(&reply, &mut line.output);
                    continue;
                }
            };
            let asker = self.asker();
            let caller = match self.admit(asker.as_ref(), &command) {
                Ok(caller) => caller,
                Err(refusal) => {
                    self.say(&refusal, &mut line.output);
                    continue;
                }
            };
            // Held until the answer is sent.
            let _room = self.room_for_answer(&command).await?;
            let reply = match command {
                Command::GetJob(get) => {
                    self.get(line, get, &caller, items).await?;
                    continue;
                }
                Command::Lease(ask) => {
                    self.lease(line, *ask, &caller).await?;
                    continue;
                }
                Command::Quit => {
                    self.say(&Reply::OK, &mut line.output);
                    return Ok(End::Closed);
                }
                // In a box: what comes rarely must not make every connection as large as it is.
                command => match Box::pin(self.answer(command, caller)).await? {
                    Some(reply) => reply,
                    None => continue,
                },
            };
            self.say(&reply, &mut line.output);
            if line.output.len() >= LARGE {
                line.flush().await?;
            }
        }
        Ok(End::Open)
    }

    /// Room for an answer that may be large. A few at once are enough for all connections.
    async fn room_for_answer(&self, command: &Command) -> io::Result<Option<OwnedSemaphorePermit>> {
        match command {
            Command::JScan(_) | Command::QPeek(..) | Command::QScan(_) | Command::Queues(_) => {
                let most = super::show::ROOM.min(self.app.settings.answers);
                let units = u32::try_from(most / ROOM_UNIT).unwrap_or(u32::MAX);
                let room = self.app.answers.clone().acquire_many_owned(units);
                let room = self.timely(room).await?;
                room.map(Some).map_err(io::Error::other)
            }
            _ => Ok(None),
        }
    }

    /// Writes the answer to a command, if it is to have one.
    pub fn say(&mut self, reply: &Reply, output: &mut BytesMut) {
        if self.is_heard() {
            reply.encode(self.version, output);
        }
    }

    /// Whether the next command is to have an answer. Asked once for each.
    pub(super) fn is_heard(&mut self) -> bool {
        match self.muting {
            Muting::On => true,
            Muting::Off => false,
            Muting::Skip => {
                self.muting = Muting::On;
                false
            }
        }
    }

    /// Answers a command that is on its own. Some have no answer.
    async fn answer(&mut self, command: Command, caller: Caller) -> io::Result<Option<Reply>> {
        let by = &caller;
        let answer = match command {
            Command::AddJob(add) => self.timely(self.add(add, by)).await?,
            Command::AckJob(ids) | Command::FastAck(ids) => self.timely(self.ack(ids, by)).await?,
            Command::Nack(ids) => self.timely(self.nack(ids, by)).await?,
            Command::Enqueue(ids) => self.timely(self.enqueue(ids, by)).await?,
            Command::Dequeue(ids) => self.timely(self.dequeue(ids, by)).await?,
            Command::DelJob(ids) => self.timely(self.delete(ids, by)).await?,
            Command::Working(id) => self.timely(self.working(id, by)).await?,
            Command::Show(id) => self.timely(self.show(id, by)).await?,
            Command::QLen(queue) => self.timely(self.length(queue)).await?,
            Command::QPeek(queue, count) => self.timely(self.peek(queue, count)).await?,
            Command::QStat(queue) => self.timely(self.stat(queue)).await?,
            Command::QScan(scan) => self.timely(self.scan_queues(scan)).await?,
            Command::JScan(scan) => self.timely(self.scan_jobs(scan)).await?,
            Command::Pause(pause) => self.timely(self.pause(pause, by)).await?,
            Command::Info(section) => self.timely(self.info(section)).await?,
            Command::Explain(which) => self.timely(self.explain(which, by)).await?,
            Command::Job(which) => self.timely(self.job(which, by)).await?,
            Command::Queues(names) => self.timely(self.queues(names)).await?,
            Command::Kick(id) => self.timely(self.kick(id, by)).await?,
            Command::Cancel(id) => self.timely(self.cancel(id, by)).await?,
            Command::Client(command) => return Ok(self.client(command)),
            Command::Hello(hello) => Ok(self.hello(hello).await),
            Command::Auth { user, password } => Ok(self.auth(user.as_deref(), &password).await),
            Command::Ping(None) => Ok(Reply::Status("PONG")),
            Command::Ping(Some(text)) | Command::Echo(text) => Ok(Reply::Bulk(text)),
            Command::Time => Ok(self.time()),
            Command::Command(question) => Ok(super::about::commands(question)),
            Command::ConfigGet(names) => Ok(self.config(&names)),
            Command::Select => Ok(Reply::OK),
            Command::Reset => Ok(self.reset()),
            Command::GetJob(_)
            | Command::Quit
            | Command::Push(_)
            | Command::Lease(_)
            | Command::Settle(_)
            | Command::Extend(_) => unreachable!("answered elsewhere"),
        };
        Ok(Some(answer.unwrap_or_else(|error| refusal(&error))))
    }

    /// Waits for an answer of the engine, but not for ever. Whoever gets none does not know what happened, and a connection that
    /// ends says just that.
    pub(super) fn timely<F: Future>(&self, call: F) -> impl Future<Output = io::Result<F::Output>> {
        within(self.app.settings.answer_time, None, call).map_err(unanswered)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.app.resp.open.fetch_sub(1, Relaxed);
    }
}

/// Disque's word for an error, or ours where it has none.
pub fn refusal(error: &Error) -> Reply {
    match error.code() {
        Code::BadRequest => Reply::wrong(error.message()),
        Code::QueuePaused => Reply::Error("PAUSED Queue paused in input, try later".into()),
        _ => Reply::from(error),
    }
}
