//! Calls of many tasks, gathered into few messages.
//!
//! What comes while [`AT_ONCE`] messages are under way waits, and goes together with all that waits with the next one: a lone
//! caller waits for nobody, and a thousand callers make a few messages. A caller that leaves has sent what it sent.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use auxo_core::engine::{Extended, Pushed, Settled};
use auxo_core::{Code, Error, Result};
use auxo_proto::{read_all, v1};
use prost::Message;
use tokio::sync::oneshot;

use super::link::{Call, Link};
use super::method::Method;
use crate::remote::batch::{MOST_BYTES, MOST_ITEMS, cut, is_away, own_double};
use crate::remote::link::Effect;

/// Messages under way at once.
const AT_ONCE: usize = 4;

/// Something that goes in batches, and is answered item by item.
pub(super) trait Item: Message + Default + Clone + 'static {
    type Request: Method;
    type Answer: Send + 'static;

    fn request(items: Vec<Self>) -> Self::Request;

    /// The outer error is an answer that cannot be read.
    fn answers(answer: <Self::Request as Method>::Answer) -> Result<Vec<Result<Self::Answer>>>;
}

macro_rules! items {
    ($($item:ident, $request:ident { $field:ident } => $answer:ty;)*) => {$(
        impl Item for v1::$item {
            type Request = v1::$request;
            type Answer = $answer;

            fn request(items: Vec<Self>) -> v1::$request {
                v1::$request { $field: items }
            }

            fn answers(
                answer: <v1::$request as Method>::Answer,
            ) -> Result<Vec<Result<$answer>>> {
                read_all("results", answer.results)
            }
        }
    )*};
}

items! {
    NewJob, PushRequest { jobs } => Pushed;
    Settle, SettleRequest { items } => Settled;
    Extend, ExtendRequest { items } => Extended;
}

/// The items of one caller, and where its answers go.
struct Group<I: Item> {
    items: Vec<I>,
    bytes: usize,
    answer: oneshot::Sender<Result<Vec<Result<I::Answer>>>>,
}

struct Waiting<I: Item> {
    groups: VecDeque<Group<I>>,
    under_way: usize,
}

/// Where callers meet.
pub(super) struct Gather<I: Item> {
    link: Arc<Link>,
    effect: Effect,
    waiting: Mutex<Waiting<I>>,
}

impl<I: Item> Gather<I> {
    pub fn new(link: Arc<Link>, effect: Effect) -> Arc<Gather<I>> {
        Arc::new(Gather {
            link,
            effect,
            waiting: Mutex::new(Waiting {
                groups: VecDeque::new(),
                under_way: 0,
            }),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<I>> {
        // Nothing that is done under the lock can leave it half changed.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends items, in as many pieces as the limits of a server need, one after the other.
    ///
    /// The call as a whole fails only if nothing of it was answered. Otherwise the items of a piece without an answer have its
    /// error, and what could not be sent after it is `unavailable`: nothing happened to those.
    pub async fn call(self: &Arc<Self>, mut items: Vec<I>) -> Result<Vec<Result<I::Answer>>> {
        let sizes: Vec<usize> = items.iter().map(Message::encoded_len).collect();
        let mut answers = Vec::with_capacity(items.len());
        let (mut answered, mut failed): (bool, Option<Error>) = (false, None);
        for run in cut(&sizes) {
            let rest = items.split_off(run.len());
            let piece = std::mem::replace(&mut items, rest);
            let count = piece.len();
            let fail = |error: &Error| (0..count).map(|_| Err(error.clone())).collect::<Vec<_>>();
            if let Some(error) = failed.as_ref().filter(|error| is_away(error)) {
                let message = format!("not sent: {}", error.message());
                answers.extend(fail(&Error::new(Code::Unavailable, message)));
                continue;
            }
            match self.piece(piece, sizes[run].iter().sum()).await {
                Ok(results) => {
                    answered = true;
                    answers.extend(results);
                }
                Err(error) => {
                    answers.extend(fail(&error));
                    failed.get_or_insert(error);
                }
            }
        }
        match failed {
            Some(error) if !answered => Err(error),
            _ => Ok(answers),
        }
    }

    /// Sends what fits into one message, with others that do.
    async fn piece(
        self: &Arc<Self>,
        items: Vec<I>,
        bytes: usize,
    ) -> Result<Vec<Result<I::Answer>>> {
        let (answer, answered) = oneshot::channel();
        let group = Group {
            items,
            bytes,
            answer,
        };
        if let Some(way) = self.join(group) {
            tokio::spawn(way.run());
        }
        answered.await.unwrap_or_else(|_| {
            let message = "the task of this call ended before it had an answer";
            Err(Error::new(Code::UnknownOutcome, message))
        })
    }

    /// Puts a group into the line, and answers with a way for it unless enough are under way.
    fn join(self: &Arc<Self>, group: Group<I>) -> Option<Way<I>> {
        let mut waiting = self.lock();
        waiting.groups.push_back(group);
        if waiting.under_way >= AT_ONCE {
            return None;
        }
        waiting.under_way += 1;
        Some(Way(Some(self.clone())))
    }

    /// What goes with the next message; with nothing left, one way less is taken.
    fn next(&self) -> Option<Vec<Group<I>>> {
        let mut waiting = self.lock();
        let (mut items, mut bytes, mut groups) = (0, 0, Vec::new());
        while let Some(group) = waiting.groups.front() {
            items += group.items.len();
            bytes += group.bytes;
            if !groups.is_empty() && (items > MOST_ITEMS || bytes > MOST_BYTES) {
                break;
            }
            groups.extend(waiting.groups.pop_front());
        }
        if groups.is_empty() {
            waiting.under_way -= 1;
            return None;
        }
        Some(groups)
    }

    async fn send(&self, groups: Vec<Group<I>>) {
        let counts: Vec<usize> = groups.iter().map(|group| group.items.len()).collect();
        let mut callers = Vec::with_capacity(groups.len());
        let mut items = Vec::with_capacity(counts.iter().sum());
        for group in groups {
            items.extend(group.items);
            callers.push(group.answer);
        }
        let answers = self.answers(items).await;
        let mut answers = answers.map(Vec::into_iter);
        for (caller, count) in callers.into_iter().zip(counts) {
            let own = match &mut answers {
                Ok(answers) => Ok(answers.by_ref().take(count).collect()),
                Err(error) => Err(error.clone()),
            };
            // A caller that has left does not hear it.
            let _ = caller.send(own);
        }
    }

    async fn answers(&self, items: Vec<I>) -> Result<Vec<Result<I::Answer>>> {
        let asked = items.len();
        let call = Call::new(I::request(items), self.effect);
        let answer = self.link.call(call).await?;
        let read = I::answers(answer.message).and_then(|results| match results.len() {
            got if got == asked => Ok(results),
            got => {
                let message = format!("{got} results for {asked} items");
                Err(Error::bad_request(message))
            }
        });
        let results = self.link.read(self.effect, read)?;
        let note = |error: Error| match answer.repeated && error.code() == Code::DuplicateKey {
            true => own_double(error),
            false => error,
        };
        Ok(results.into_iter().map(|item| item.map_err(note)).collect())
    }
}

/// One of the messages that may be under way at once.
struct Way<I: Item>(Option<Arc<Gather<I>>>);

impl<I: Item> Way<I> {
    async fn run(mut self) {
        while let Some(gather) = &self.0 {
            match gather.next() {
                Some(groups) => gather.send(groups).await,
                None => self.0 = None,
            }
        }
    }
}

impl<I: Item> Drop for Way<I> {
    /// The task was ended from outside, as by the end of its runtime. Whoever waits for the last one to go on is told.
    fn drop(&mut self) {
        if let Some(gather) = &self.0 {
            let mut waiting = gather.lock();
            waiting.under_way -= 1;
            if waiting.under_way == 0 {
                waiting.groups.clear();
            }
        }
    }
}
