//! Bringing a call to the right server, and what its answer means.

use std::sync::Arc;

use auxo_core::Result;
use redis::{Cmd, Value};
use tokio::time::Instant;

use super::commit::Asked;
use super::connection::Connection;
use super::fault::{Fault, Refusal, Remedy};
use super::node::Node;
use super::pace::Pauses;
use super::{Done, Link, Unconfirmed};
use crate::script::Script;

/// A call on its way.
pub(super) struct Errand<'a> {
    /// Its name, for people.
    pub(super) what: &'a str,
    pub(super) slot: Option<u16>,
    pub(super) command: Cmd,
    pub(super) script: Option<&'static Script>,
    /// Whether it must not be sent again when no answer came.
    pub(super) writes: bool,
    /// Whether it counts only when replicas have it, and how many.
    pub(super) replicas: Option<Asked>,
}

/// What to do after a failure.
pub(super) enum Next {
    /// Send it again now: to this server if there is one, else to whoever has the slot.
    Again(Option<Arc<Node>>),
    /// Send it again in a while.
    Later,
}

impl Link {
    pub(super) async fn carry(&self, errand: Errand<'_>) -> Result<Done> {
        let until = self.deadline();
        let carried = self.try_until(&errand, until).await;
        carried.map_err(|fault| fault.error(errand.what))
    }

    async fn try_until(&self, errand: &Errand<'_>, until: Instant) -> Result<Done, Fault> {
        let route = &self.inner.route;
        let mut pauses = Pauses::default();
        let mut redirections = 0;
        let mut asking = None;
        let mut said = None;
        loop {
            let (node, ask) = match asking.take() {
                Some(node) => (node, true),
                None => (route.find(errand.slot, until).await?, false),
            };
            let fault = match self.send(errand, &node, ask, until).await {
                Ok(answer) => return Ok(answer),
                Err(fault) => fault,
            };
            let in_time = match self.after(errand, &node, &fault, until).await? {
                // Servers that send us to each other are in the middle of something.
                Next::Again(to) if redirections < 4 => {
                    redirections += 1;
                    asking = to;
                    Instant::now() < until
                }
                Next::Again(_) | Next::Later => {
                    redirections = 0;
                    self.pause(&mut pauses, until).await
                }
            };
            // What Redis said explains more than that it then said nothing.
            let fault = match fault {
                Fault::Lost(_) => said.take().unwrap_or(fault),
                fault => fault,
            };
            if !in_time {
                return Err(not_done(&node, fault));
            }
            said = Some(fault);
        }
    }

    async fn send(
        &self,
        errand: &Errand<'_>,
        node: &Arc<Node>,
        ask: bool,
        until: Instant,
    ) -> Result<Done, Fault> {
        if let Some(asked) = errand.replicas {
            let mut commands = Vec::with_capacity(2);
            commands.extend(ask.then(|| redis::cmd("ASKING")));
            commands.push(errand.command.clone());
            let committed = node.commits.ask(commands, asked, until).await?;
            let (confirmed, asked) = (committed.confirmed, committed.asked);
            return Ok(Done {
                answer: committed.answer,
                unconfirmed: (confirmed < asked).then(|| Unconfirmed {
                    confirmed,
                    asked,
                    error: Fault::Unconfirmed { confirmed, asked }.error(errand.what),
                }),
            });
        }
        let connection = self.connection(node, until).await?;
        let answer = if ask {
            asking(&connection, &errand.command, until).await?
        } else {
            node.calls.ask(&connection, &errand.command, until).await?
        };
        Ok(Done {
            answer,
            unconfirmed: None,
        })
    }

    /// The connection for calls, unless it turns out while we wait that another server has taken over.
    async fn connection(&self, node: &Node, until: Instant) -> Result<Arc<Connection>, Fault> {
        if let Some(connection) = node.calls.now() {
            return Ok(connection);
        }
        let mut changes = self.inner.route.changes();
        tokio::select! {
            connection = node.calls.get(until) => connection,
            Ok(()) = changes.changed() => Err(Fault::Away("another server took over".to_owned())),
        }
    }

    /// Waits before the next try, at most until another server has taken over. Whether there is time left.
    pub(super) async fn pause(&self, pauses: &mut Pauses, until: Instant) -> bool {
        let mut changes = self.inner.route.changes();
        tokio::select! {
            in_time = pauses.wait(until) => in_time,
            Ok(()) = changes.changed() => Instant::now() < until,
        }
    }

    /// What to do after a failure. An error is the end of it.
    async fn after(
        &self,
        errand: &Errand<'_>,
        node: &Arc<Node>,
        fault: &Fault,
        until: Instant,
    ) -> Result<Next, Fault> {
        match fault {
            Fault::Denied(_) | Fault::Unconfirmed { .. } => Err(fault.clone()),
            Fault::Lost(_) if errand.writes => {
                self.inner.route.suspect(node);
                Err(fault.clone())
            }
            Fault::Away(_) | Fault::Lost(_) => {
                self.inner.route.suspect(node);
                Ok(Next::Later)
            }
            Fault::Refused(refusal) if refusal.code == "NOSCRIPT" => {
                load(errand.script, node, until).await
            }
            Fault::Refused(refusal) => self.remedy(errand.slot, node, refusal),
        }
    }

    /// What to do about an answer that was no answer.
    pub(super) fn remedy(
        &self,
        slot: Option<u16>,
        node: &Arc<Node>,
        refusal: &Refusal,
    ) -> Result<Next, Fault> {
        let route = &self.inner.route;
        let no_cluster = || {
            let why = "it is of a cluster; the store's URL must begin with redis+cluster://";
            Fault::Denied(format!("{} says {refusal}: {why}", node.address()))
        };
        match refusal.remedy(node.address()) {
            Remedy::None => Err(Fault::Refused(refusal.clone())),
            Remedy::Wait => Ok(Next::Later),
            Remedy::Look => {
                route.suspect(node);
                Ok(Next::Later)
            }
            Remedy::Move(to) => {
                route
                    .moved(slot.unwrap_or_default(), &to)
                    .ok_or_else(no_cluster)?;
                Ok(Next::Again(None))
            }
            Remedy::Ask(to) => {
                let to = route.node(&to).ok_or_else(no_cluster)?;
                Ok(Next::Again(Some(to)))
            }
        }
    }
}

/// Tells a server a script that it does not know.
async fn load(
    script: Option<&'static Script>,
    node: &Arc<Node>,
    until: Instant,
) -> Result<Next, Fault> {
    let mut command = redis::cmd("SCRIPT");
    command.arg("LOAD").arg(script.map_or("", Script::source));
    match node.ask(&command, until).await {
        Ok(_) => Ok(Next::Again(None)),
        Err(Fault::Denied(why)) => Err(Fault::Denied(why)),
        Err(Fault::Refused(refusal)) if refusal.is_unknown_command() => {
            Err(Fault::Refused(refusal))
        }
        Err(_) => Ok(Next::Later),
    }
}

/// A command for a server that is about to get the slot.
pub(super) async fn asking(
    connection: &Connection,
    command: &Cmd,
    until: Instant,
) -> Result<Value, Fault> {
    let mut both = redis::pipe();
    both.cmd("ASKING").add_command(command.clone());
    let mut answers = connection.ask_all(&both, until).await?;
    answers
        .pop()
        .unwrap_or_else(|| Err(Fault::Lost("redis did not answer".to_owned())))
}

/// The time is over, and what Redis said last is why nothing was done.
pub(super) fn not_done(node: &Node, fault: Fault) -> Fault {
    match fault {
        Fault::Refused(refusal) => Fault::Away(format!(
            "redis at {} cannot do it now: {refusal}",
            node.address()
        )),
        Fault::Lost(why) => Fault::Away(why),
        fault => fault,
    }
}
