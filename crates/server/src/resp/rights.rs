//! Who may send which command.
//!
//! Until a connection has shown a token it can do no more than say who it is; where the server has no tokens, everybody may do
//! everything and nothing is looked at. A command about jobs needs its right in the queues of these jobs: whoever has it in
//! every queue is spared the look.

use auxo_core::engine::Which;
use auxo_core::{Error, JobId, QueueName};
use auxo_wire::resp::{Command, Hello, Id, Item, Reply};

use super::jobs::named;
use super::session::{Session, refusal};
use crate::auth::{Caller, Denied, Identity, Right, Via};
use crate::trail::Who;

/// The user that clients name who know of a password only.
const ANYBODY: &str = "default";

/// What a command needs.
enum Need<'a> {
    /// Nothing: it says who is asking, or leaves.
    Nothing,
    /// Any token that is right.
    Token,
    /// The right in these queues.
    Queues(Right, &'a [QueueName]),
    /// The right in the queues of these jobs.
    Jobs(Right, Vec<JobId>),
    /// The right in every queue.
    Everywhere(Right),
}

impl Session {
    /// The item, or what its sender is told instead.
    pub(super) async fn permit(&mut self, item: Item) -> Item {
        let Item::Command(command) = &item else {
            return item;
        };
        if !self.app.auth.is_required() {
            return item;
        }
        match self.refuses(command).await {
            None => item,
            Some(reply) => Item::Wrong(reply),
        }
    }

    async fn refuses(&mut self, command: &Command) -> Option<Reply> {
        let need = need(command);
        if matches!(need, Need::Nothing) {
            return None;
        }
        let known = self.identity.clone();
        let Some(identity) = known.filter(|known| self.app.auth.is_current(known)) else {
            self.identity = None;
            return Some(Reply::Error("NOAUTH Authentication required.".into()));
        };
        let caller =
            |right| Caller::new(identity.clone(), right, self.ends.visitor.from, Via::Resp);
        let allowed = match need {
            Need::Nothing | Need::Token => Ok(()),
            Need::Everywhere(right) => caller(right).check_everywhere(),
            Need::Queues(right, queues) => caller(right).check_all(queues),
            Need::Jobs(right, ids) => self.may_touch(&caller(right), ids).await,
        };
        allowed.err().map(|error| {
            self.app.metrics.denied("forbidden");
            Reply::Error(format!("NOPERM {}", error.message()).into())
        })
    }

    /// A job that is not there has no queue, and nothing will happen to it.
    async fn may_touch(&self, caller: &Caller, ids: Vec<JobId>) -> Result<(), Error> {
        if caller.may_everywhere() {
            return Ok(());
        }
        for id in ids {
            let job = self.app.service.find(Which::Id(id)).await?;
            job.map_or(Ok(()), |job| caller.check(&job.queue))?;
        }
        Ok(())
    }

    /// Who it is that makes an operator's move, for the audit log. Every command that needs `operate` and changes something is one.
    pub(super) fn who(&self) -> Who {
        let identity = self.identity.clone().unwrap_or_else(Identity::everybody);
        let from = self.ends.visitor.from;
        Who::from(&Caller::new(identity, Right::Operate, from, Via::Resp))
    }

    /// Says who is asking: the password is a token, and the user, if there is one, its name or id or `default`.
    pub(super) async fn auth(&mut self, user: Option<&[u8]>, password: &[u8]) -> Reply {
        if !self.app.auth.is_required() {
            return Reply::wrong("Client sent AUTH, but no password is set");
        }
        let token = std::str::from_utf8(password).unwrap_or_default();
        // What is no text is nobody's name.
        let user = user.map(|user| std::str::from_utf8(user).unwrap_or_default());
        let user = user.filter(|user| *user != ANYBODY);
        let from = self.ends.visitor.from;
        match self.app.auth.check_as(user, Some(token), from) {
            Ok(identity) => {
                self.ends.visitor.stranger.recognise();
                self.identity = Some(identity);
                Reply::OK
            }
            Err(denied) => {
                self.identity = None;
                self.app.metrics.denied(denied.as_str());
                self.app.auth.hold_back(denied).await;
                match denied {
                    Denied::TooMany => refusal(&denied.into()),
                    _ => Reply::Error(
                        "WRONGPASS invalid username-password pair or user is disabled.".into(),
                    ),
                }
            }
        }
    }
}

/// Whether what follows must not be looked at before this was answered.
pub fn introduces(item: &Item) -> bool {
    matches!(
        item,
        Item::Command(Command::Auth { .. } | Command::Hello(Hello::Speak { .. }) | Command::Reset)
    )
}

fn need(command: &Command) -> Need<'_> {
    use std::slice::from_ref;
    match command {
        Command::Auth { .. }
        | Command::Hello(Hello::Speak { .. })
        | Command::Reset
        | Command::Quit => Need::Nothing,
        Command::Hello(Hello::Nodes)
        | Command::Ping(_)
        | Command::Echo(_)
        | Command::Time
        | Command::Command(_)
        | Command::Client(_)
        | Command::ConfigGet(_)
        | Command::Select => Need::Token,
        Command::AddJob(add) => Need::Queues(Right::Push, from_ref(&add.queue)),
        Command::Push(job) => Need::Queues(Right::Push, from_ref(&job.queue)),
        Command::GetJob(get) => Need::Queues(Right::Lease, &get.queues),
        Command::Lease(ask) => match ask.job {
            Some(id) => Need::Jobs(Right::Lease, vec![id]),
            None => Need::Queues(Right::Lease, &ask.queues),
        },
        Command::AckJob(ids) | Command::FastAck(ids) | Command::Nack(ids) => {
            jobs(Right::Lease, ids)
        }
        Command::Working(id) => jobs(Right::Lease, from_ref(id)),
        Command::Settle(settle) => Need::Jobs(Right::Lease, vec![settle.token.job]),
        Command::Extend(extend) => Need::Jobs(Right::Lease, vec![extend.token.job]),
        Command::Enqueue(ids) | Command::Dequeue(ids) | Command::DelJob(ids) => {
            jobs(Right::Operate, ids)
        }
        Command::Kick(id) | Command::Cancel(id) => Need::Jobs(Right::Operate, vec![*id]),
        Command::Pause(pause) => {
            let right = match pause.set {
                Some(_) => Right::Operate,
                None => Right::Read,
            };
            Need::Queues(right, from_ref(&pause.queue))
        }
        Command::Show(id) => jobs(Right::Read, from_ref(id)),
        Command::Explain(Which::Id(id)) | Command::Job(Which::Id(id)) => {
            Need::Jobs(Right::Read, vec![*id])
        }
        Command::Explain(Which::Key(queue, _)) | Command::Job(Which::Key(queue, _)) => {
            Need::Queues(Right::Read, from_ref(queue))
        }
        Command::QLen(queue) | Command::QPeek(queue, _) | Command::QStat(queue) => {
            Need::Queues(Right::Read, from_ref(queue))
        }
        Command::JScan(scan) => match &scan.queue {
            Some(queue) => Need::Queues(Right::Read, from_ref(queue)),
            None => Need::Everywhere(Right::Read),
        },
        Command::Queues(names) if !names.is_empty() => Need::Queues(Right::Read, names),
        Command::Queues(_) | Command::QScan(_) | Command::Info(_) => Need::Everywhere(Right::Read),
    }
}

fn jobs(right: Right, ids: &[Id]) -> Need<'_> {
    Need::Jobs(right, named(ids))
}
