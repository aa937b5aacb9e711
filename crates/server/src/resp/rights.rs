//! Who may send which command.
//!
//! Until a connection has shown a token it can do no more than say who it is; where the server has no tokens, everybody may do
//! everything. Who is asking is looked at when a command is carried out, not when it arrives: it may have waited behind another one
//! for as long as it takes to revoke a token. A command about jobs needs its right in the queues of these jobs; those in other
//! queues are treated as if they were not there, by `calls`, as in every protocol.

use std::sync::Arc;

use auxo_core::QueueName;
use auxo_core::engine::Which;
use auxo_wire::resp::{Command, Hello, Reply};

use super::session::{Session, refusal};
use crate::auth::{Caller, Denied, Identity, Right, Via};

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
    /// The right in the queues of the jobs that it names.
    Jobs(Right),
    /// The right in every queue.
    Everywhere(Right),
}

impl Session {
    /// Who is asking, as of now; `None` if that must be said first.
    pub(super) fn asker(&mut self) -> Option<Arc<Identity>> {
        if !self.app.auth.is_required() {
            return Some(Identity::everybody());
        }
        let auth = &self.app.auth;
        self.identity = self.identity.take().filter(|known| auth.is_current(known));
        self.identity.clone()
    }

    /// Lets a command pass, with whom it is from, or answers what its sender is told instead.
    pub(super) fn admit(
        &self,
        asker: Option<&Arc<Identity>>,
        command: &Command,
    ) -> Result<Caller, Reply> {
        let caller = |identity: &Arc<Identity>, right| {
            Caller::new(identity.clone(), right, self.ends.visitor.from, Via::Resp)
        };
        let need = need(command);
        if let Need::Nothing = need {
            // What it does not need it does not get.
            return Ok(caller(&Identity::nobody(), Right::Read));
        }
        let Some(identity) = asker else {
            return Err(not_known());
        };
        let (caller, allowed) = match need {
            Need::Nothing | Need::Token => (caller(identity, Right::Read), Ok(())),
            Need::Everywhere(right) => {
                let caller = caller(identity, right);
                let allowed = caller.check_everywhere();
                (caller, allowed)
            }
            Need::Queues(right, queues) => {
                let caller = caller(identity, right);
                let allowed = caller.check_all(queues);
                (caller, allowed)
            }
            Need::Jobs(right) => {
                let caller = caller(identity, right);
                let allowed = caller.check_somewhere();
                (caller, allowed)
            }
        };
        match allowed {
            Ok(()) => Ok(caller),
            Err(error) => {
                self.app.metrics.denied("forbidden");
                Err(Reply::Error(format!("NOPERM {}", error.message()).into()))
            }
        }
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

/// What a connection is told that has not said who it is, or is not that any more.
pub(super) fn not_known() -> Reply {
    Reply::Error("NOAUTH Authentication required.".into())
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
            Some(_) => Need::Jobs(Right::Lease),
            None => Need::Queues(Right::Lease, &ask.queues),
        },
        Command::AckJob(_)
        | Command::FastAck(_)
        | Command::Nack(_)
        | Command::Working(_)
        | Command::Settle(_)
        | Command::Extend(_) => Need::Jobs(Right::Lease),
        Command::Enqueue(_)
        | Command::Dequeue(_)
        | Command::DelJob(_)
        | Command::Kick(_)
        | Command::Cancel(_) => Need::Jobs(Right::Operate),
        Command::Pause(pause) => {
            let right = match pause.set {
                Some(_) => Right::Operate,
                None => Right::Read,
            };
            Need::Queues(right, from_ref(&pause.queue))
        }
        Command::Show(_) | Command::Explain(Which::Id(_)) | Command::Job(Which::Id(_)) => {
            Need::Jobs(Right::Read)
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
