//! Who may do what.
//!
//! Every protocol asks the same three questions: [`Auth::check`] says who has a token, [`Identity::may`] whether they may do
//! this in that queue, and [`Auth::stranger`] bounds a connection until it has shown who it is. While there is no file with
//! tokens, everybody who can connect may do everything; the file's first appearance closes that door, also on a running
//! server, and an empty file lets nobody in.
//!
//! From the bottom up: `grant` has the rights and their globs, `tokens` the file, `identity` somebody who was let in,
//! `failures` counts wrong tokens, `stranger` bounds connections.

mod caller;
mod failures;
mod grant;
mod identity;
mod stranger;
mod tokens;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use arc_swap::ArcSwapOption;
use auxo_core::{Clock, Code, Error, SystemClock, Timestamp};
use tokio::sync::{Semaphore, watch};
use tokio::time::sleep;

pub use self::caller::{Caller, Need, Turned, Via, Visitor};
use self::failures::Failures;
pub use self::failures::network;
pub use self::grant::{Grant, Right};
pub use self::identity::Identity;
use self::stranger::Places;
pub use self::stranger::{Patience, Stranger};
pub use self::tokens::{Secret, Token, TokenFile, Tokens};

/// Answers to wrong tokens that are held back at once; those behind them wait for their turn, so that nobody is answered sooner for
/// sending more.
const HELD_BACK: usize = 256;

/// The tokens of a server, and what it knows of those who come without a right one. Clones share everything.
#[derive(Clone)]
pub struct Auth(Arc<Shared>);

struct Shared {
    file: Option<TokenFile>,
    /// Nothing if everybody may do everything.
    tokens: ArcSwapOption<Tokens>,
    clock: Arc<dyn Clock>,
    failures: Failures,
    patience: Patience,
    strangers: Arc<Places>,
    held_back: Semaphore,
    /// Counts how often the tokens were replaced.
    changes: watch::Sender<u64>,
    unreadable: AtomicU64,
}

/// Why somebody was not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Denied {
    /// No token was shown.
    Missing,
    /// The token is not known, or not any more.
    Wrong,
    /// The same, and it was not the first from there. Its answer is to be held back: [`Auth::hold_back`].
    TooMany,
}

impl Denied {
    /// A word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Denied::Missing => "missing",
            Denied::Wrong => "wrong",
            Denied::TooMany => "too_many",
        }
    }
}

impl From<Denied> for Error {
    fn from(denied: Denied) -> Error {
        match denied {
            Denied::Missing => Error::new(
                Code::Unauthorized,
                "this server wants a token; `auxo token new` makes one",
            ),
            Denied::Wrong => Error::new(
                Code::Unauthorized,
                "this token is not known here, or its time is over",
            ),
            Denied::TooMany => Error::new(
                Code::RateLimited,
                "too many wrong tokens from this address; try again in a minute",
            ),
        }
    }
}

impl Default for Auth {
    fn default() -> Auth {
        Auth::none()
    }
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tokens = self
            .0
            .tokens
            .load()
            .as_ref()
            .map(|tokens| tokens.list().len());
        let mut auth = f.debug_struct("Auth");
        auth.field("file", &self.0.file)
            .field("tokens", &tokens)
            .finish()
    }
}

impl Auth {
    /// Everybody may do everything, for good.
    pub fn none() -> Auth {
        Auth::new(
            None,
            None,
            Arc::new(SystemClock::new(Timestamp(0))),
            Patience::default(),
        )
    }

    /// With the tokens of a file, which need not be there yet.
    pub fn open(file: TokenFile, clock: Arc<dyn Clock>, patience: Patience) -> Result<Auth, Error> {
        let tokens = file.read_trusted()?;
        Ok(Auth::new(Some(file), tokens, clock, patience))
    }

    fn new(
        file: Option<TokenFile>,
        tokens: Option<Tokens>,
        clock: Arc<dyn Clock>,
        patience: Patience,
    ) -> Auth {
        Auth(Arc::new(Shared {
            file,
            tokens: ArcSwapOption::from_pointee(tokens),
            clock,
            failures: Failures::default(),
            strangers: Places::new(&patience),
            held_back: Semaphore::new(HELD_BACK),
            patience,
            changes: watch::Sender::new(0),
            unreadable: AtomicU64::new(0),
        }))
    }

    /// The file that the tokens come from.
    pub fn file(&self) -> Option<&TokenFile> {
        self.0.file.as_ref()
    }

    /// Whether a token is needed.
    pub fn is_required(&self) -> bool {
        self.0.tokens.load().is_some()
    }

    /// How many tokens there are.
    pub fn tokens(&self) -> usize {
        let tokens = self.0.tokens.load();
        tokens.as_ref().map_or(0, |tokens| tokens.list().len())
    }

    /// Who shows this token from there. The work is the same whatever is wrong with it, and so is the answer.
    pub fn check(&self, presented: Option<&str>, from: IpAddr) -> Result<Arc<Identity>, Denied> {
        self.check_as(None, presented, from)
    }

    /// The same for somebody who says whose token it is: a right one under a wrong name is a wrong one.
    pub fn check_as(
        &self,
        name: Option<&str>,
        presented: Option<&str>,
        from: IpAddr,
    ) -> Result<Arc<Identity>, Denied> {
        let tokens = self.0.tokens.load();
        let Some(tokens) = tokens.as_ref() else {
            return Ok(Identity::everybody());
        };
        let presented = presented.ok_or(Denied::Missing)?;
        let now = self.0.clock.now();
        let found = tokens.find(presented, now.wall);
        match found.filter(|identity| name.is_none_or(|name| identity.is_called(name))) {
            Some(identity) => Ok(identity),
            None if self.0.failures.note(from, now.steady) => Err(Denied::Wrong),
            None => Err(Denied::TooMany),
        }
    }

    /// Waits before a refusal is answered, if it is one of too many. Whoever goes away does not wait on.
    pub async fn hold_back(&self, denied: Denied) {
        if denied == Denied::TooMany {
            // It is never closed.
            let _place = self.0.held_back.acquire().await;
            sleep(self.0.patience.delay).await;
        }
    }

    /// A place for a new connection that has not shown who it is; if there are too many of them, an older one loses its own. Where no
    /// token is needed, nor a handshake to come, it counts as known.
    pub fn stranger(&self, handshake: Handshake, from: IpAddr) -> Stranger {
        if handshake == Handshake::None && !self.is_required() {
            return Stranger::known();
        }
        let place = self.0.strangers.take(network(from));
        Stranger::new(&self.0.patience, place)
    }

    /// Whether somebody who was let in would still be.
    pub fn is_current(&self, identity: &Identity) -> bool {
        match self.0.tokens.load().as_ref() {
            None => true,
            Some(tokens) => tokens.still_know(identity, self.0.clock.now().wall),
        }
    }

    /// Resolves when somebody who was let in would not be any more. For whatever goes on for long after it was allowed.
    pub async fn revoked(&self, identity: &Identity) {
        let mut changes = self.0.changes.subscribe();
        while self.is_current(identity) {
            let over = async {
                match identity.expires_at {
                    None => std::future::pending().await,
                    Some(end) => sleep(end.since(self.0.clock.now().wall)).await,
                }
            };
            tokio::select! {
                // The sender lives as long as `self`.
                _ = changes.changed() => {}
                () = over => {}
            }
        }
    }

    /// Reads the file again. One that is wrong, or gone, changes nothing; that is logged and counted.
    pub fn reload(&self) {
        let Some(file) = &self.0.file else {
            return;
        };
        match file.read_trusted() {
            Ok(Some(tokens)) => self.replace(tokens),
            Ok(None) if !self.is_required() => {}
            Ok(None) => self.keep("there is no such file any more"),
            Err(error) => self.keep(error.message()),
        }
    }

    fn replace(&self, tokens: Tokens) {
        let old = self.0.tokens.load();
        if old.as_ref().is_some_and(|old| old.list() == tokens.list()) {
            return;
        }
        tracing::info!(tokens = tokens.list().len(), "read the tokens anew");
        if let (None, Some(file)) = (old.as_ref(), &self.0.file)
            && let Err(error) = file.remember()
        {
            let path = file.note();
            tracing::warn!(%error, path = %path.display(), "cannot note that there are tokens");
        }
        self.0.tokens.store(Some(Arc::new(tokens)));
        self.0.changes.send_modify(|count| *count += 1);
    }

    fn keep(&self, why: &str) {
        self.0.unreadable.fetch_add(1, Relaxed);
        tracing::error!(why, "the tokens stay as they were");
    }

    /// How often the file could not be read again.
    pub fn unreadable(&self) -> u64 {
        self.0.unreadable.load(Relaxed)
    }
}

/// Whether a connection begins with something that costs before any request is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handshake {
    /// No.
    None,
    /// TLS.
    Tls,
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use auxo_core::{ManualClock, QueueName};

    use super::*;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    struct Bench {
        auth: Auth,
        file: TokenFile,
        clock: Arc<ManualClock>,
        _dir: tempfile::TempDir,
    }

    fn bench(patience: Patience) -> Bench {
        let dir = tempfile::tempdir().unwrap();
        let file = TokenFile::new(dir.path().join("tokens.toml"));
        let clock = ManualClock::at(1_700_000_000_000);
        let auth = Auth::open(file.clone(), clock.clone(), patience).unwrap();
        Bench {
            auth,
            file,
            clock,
            _dir: dir,
        }
    }

    impl Bench {
        fn add(&self, allow: &str, life: Option<Duration>) -> (Token, Secret) {
            let now = self.clock.now().wall;
            let end = life.map(|life| now.plus(life));
            let made = Token::new("t", vec![allow.parse().unwrap()], now, end).unwrap();
            let token = made.0.clone();
            self.file
                .change(|tokens| Ok((tokens.with(token), ())))
                .unwrap();
            self.auth.reload();
            made
        }
    }

    #[test]
    fn the_first_token_closes_the_door_and_the_last_one_does_not_open_it_again() {
        let bench = bench(Patience::default());
        let mail = QueueName::new("mail").unwrap();
        let everybody = bench.auth.check(None, HERE).unwrap();
        assert!(everybody.may(Right::Admin, &mail));
        let (token, secret) = bench.add("push:mail", None);
        assert!(!bench.auth.is_current(&everybody));
        assert_eq!(bench.auth.check(None, HERE).unwrap_err(), Denied::Missing);
        let identity = bench.auth.check(Some(secret.reveal()), HERE).unwrap();
        assert_eq!((identity.name(), identity.id()), ("t", Some(&*token.id)));
        assert!(identity.may(Right::Push, &mail) && !identity.may(Right::Read, &mail));
        bench
            .file
            .change(|tokens| Ok(tokens.without(&token.id).unwrap()))
            .unwrap();
        bench.auth.reload();
        assert!(!bench.auth.is_current(&identity));
        assert!(bench.auth.check(Some(secret.reveal()), HERE).is_err());
        assert!(bench.auth.check(None, HERE).is_err());
    }

    #[test]
    fn a_file_that_appears_while_the_server_runs_is_noted() {
        let bench = bench(Patience::default());
        // It is put there by hand, not by a command that would leave the note.
        let text = Tokens::default().text().unwrap();
        std::fs::write(bench.file.path(), text).unwrap();
        assert!(!bench.auth.is_required() && !bench.file.note().exists());
        bench.auth.reload();
        assert!(bench.auth.is_required() && bench.file.note().exists());
        // Whoever deletes the note means it.
        std::fs::remove_file(bench.file.note()).unwrap();
        bench.auth.reload();
        assert!(!bench.file.note().exists());
    }

    #[test]
    fn a_file_that_is_wrong_or_gone_leaves_the_tokens_as_they_were() {
        let bench = bench(Patience::default());
        let (_, secret) = bench.add("push:mail", None);
        for (count, text) in [(1, Some("token = 7")), (2, None)] {
            match text {
                Some(text) => std::fs::write(bench.file.path(), text).unwrap(),
                None => std::fs::remove_file(bench.file.path()).unwrap(),
            }
            bench.auth.reload();
            assert_eq!(bench.auth.unreadable(), count);
            assert!(bench.auth.check(Some(secret.reveal()), HERE).is_ok());
            assert!(bench.auth.check(None, HERE).is_err());
        }
    }

    #[test]
    #[ignore = "only root can give a file to another user"]
    fn tokens_of_another_user_let_nobody_in() {
        use std::os::unix::fs::chown;
        let bench = bench(Patience::default());
        let (_, secret) = bench.add("push:mail", None);
        chown(bench.file.path(), Some(4002), None).unwrap();
        bench.auth.reload();
        assert_eq!(bench.auth.unreadable(), 1);
        assert!(bench.auth.check(Some(secret.reveal()), HERE).is_ok());
        let clock = bench.clock.clone();
        let error = Auth::open(bench.file.clone(), clock, Patience::default()).unwrap_err();
        assert!(error.message().contains("user 4002"), "{error}");
        // A command that root runs can still put it right.
        assert!(bench.file.read().is_ok());
        // What `auxo token` makes for the owner of a directory is good for root, too.
        chown(bench.file.directory(), Some(4002), None).unwrap();
        bench.auth.reload();
        assert_eq!(bench.auth.unreadable(), 1);
    }

    #[test]
    fn wrong_tokens_are_slowed_by_address_and_a_right_one_is_let_in_all_the_same() {
        let bench = bench(Patience::default());
        let (token, secret) = bench.add("push:mail", None);
        let unknown = "auxo_aaaaaaaa_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
        let wrong = format!("auxo_{}_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", token.id);
        for _ in 0..2 {
            for presented in [unknown, &wrong] {
                let denied = bench.auth.check(Some(presented), HERE).unwrap_err();
                assert_eq!(denied, Denied::Wrong);
            }
            assert_eq!(bench.auth.check(None, HERE).unwrap_err(), Denied::Missing);
        }
        assert_eq!(
            bench.auth.check(Some("x"), HERE).unwrap_err(),
            Denied::Wrong
        );
        for presented in [unknown, &wrong, ""] {
            let denied = bench.auth.check(Some(presented), HERE).unwrap_err();
            assert_eq!(denied, Denied::TooMany);
        }
        assert!(bench.auth.check(Some(secret.reveal()), HERE).is_ok());
        let elsewhere = "192.0.2.1".parse().unwrap();
        assert_eq!(
            bench.auth.check(Some("x"), elsewhere).unwrap_err(),
            Denied::Wrong
        );
        bench.clock.advance(Duration::from_secs(60));
        assert_eq!(
            bench.auth.check(Some("x"), HERE).unwrap_err(),
            Denied::Wrong
        );
    }

    #[tokio::test(start_paused = true)]
    async fn only_an_answer_past_too_many_is_held_back_and_only_so_many_at_once() {
        let bench = bench(Patience::default());
        let began = tokio::time::Instant::now();
        bench.auth.hold_back(Denied::Missing).await;
        bench.auth.hold_back(Denied::Wrong).await;
        assert_eq!(began.elapsed(), Duration::ZERO);
        bench.auth.hold_back(Denied::TooMany).await;
        assert_eq!(began.elapsed(), Duration::from_secs(1));
        let all = bench
            .auth
            .0
            .held_back
            .try_acquire_many(HELD_BACK as u32)
            .unwrap();
        // Nobody is answered sooner because there are many.
        let mut held = std::pin::pin!(bench.auth.hold_back(Denied::TooMany));
        assert!(!is_over(held.as_mut()).await);
        drop(all);
        held.await;
        assert_eq!(began.elapsed(), Duration::from_secs(2));
    }

    async fn is_over(mut future: std::pin::Pin<&mut impl Future<Output = ()>>) -> bool {
        std::future::poll_fn(|cx| std::task::Poll::Ready(future.as_mut().poll(cx).is_ready())).await
    }

    #[tokio::test]
    async fn whoever_stays_for_long_is_told_when_the_token_is_gone() {
        let bench = bench(Patience::default());
        let (token, secret) = bench.add("read:*", None);
        let identity = bench.auth.check(Some(secret.reveal()), HERE).unwrap();
        let mut revoked = std::pin::pin!(bench.auth.revoked(&identity));
        assert!(!is_over(revoked.as_mut()).await);
        // A change that is about others does not end it.
        bench.add("push:mail", None);
        assert!(!is_over(revoked.as_mut()).await);
        bench
            .file
            .change(|tokens| Ok(tokens.without(&token.id).unwrap()))
            .unwrap();
        bench.auth.reload();
        revoked.await;
    }

    #[tokio::test(start_paused = true)]
    async fn and_when_its_time_is_over() {
        let bench = bench(Patience::default());
        let (_, secret) = bench.add("read:*", Some(Duration::from_secs(30)));
        let identity = bench.auth.check(Some(secret.reveal()), HERE).unwrap();
        let clock = bench.clock.clone();
        // The clock of the token moves by hand, and the timer with it.
        tokio::spawn(async move {
            sleep(Duration::from_secs(29)).await;
            clock.advance(Duration::from_secs(30));
        });
        bench.auth.revoked(&identity).await;
        assert!(bench.auth.check(Some(secret.reveal()), HERE).is_err());
    }

    async fn is_displaced(stranger: &Stranger) -> bool {
        let look = |cx: &mut std::task::Context<'_>| {
            std::task::Poll::Ready(stranger.poll_displaced(cx).is_ready())
        };
        std::future::poll_fn(look).await
    }

    #[tokio::test]
    async fn strangers_are_few_until_they_are_known() {
        let bench = bench(Patience {
            connections: 2,
            ..Patience::default()
        });
        let come = |handshake| bench.auth.stranger(handshake, HERE);
        // Where no token is needed there are none.
        let open: Vec<_> = (0..10).map(|_| come(Handshake::None)).collect();
        assert!(open.iter().all(Stranger::is_known));
        let (first, second) = (come(Handshake::Tls), come(Handshake::Tls));
        bench.add("push:mail", None);
        first.recognise();
        let third = come(Handshake::None);
        assert!(!is_displaced(&second).await, "the first has made room");
        let fourth = come(Handshake::None);
        assert!(is_displaced(&second).await && !is_displaced(&first).await);
        // Its place is not given back a second time.
        drop(second);
        let fifth = come(Handshake::None);
        assert!(is_displaced(&third).await && !is_displaced(&fourth).await);
        // One that was displaced and is known before it is closed stays.
        third.recognise();
        assert!(!is_displaced(&third).await);
        drop(fourth);
        assert_eq!(fifth.left(), 4096);
        fifth.took(4000);
        assert_eq!(fifth.left(), 96);
        fifth.took(4000);
        assert_eq!(fifth.left(), 0);
        assert!(fifth.until().is_some() && first.until().is_none());
        fifth.recognise();
        assert_eq!(fifth.left(), usize::MAX);
    }

    #[tokio::test]
    async fn a_flood_from_few_networks_displaces_itself_and_not_others() {
        let bench = bench(Patience {
            connections: 6,
            each: 3,
            ..Patience::default()
        });
        bench.add("push:mail", None);
        let from = |address: &str| {
            let address = address.parse().unwrap();
            bench.auth.stranger(Handshake::None, address)
        };
        let elsewhere = from("192.0.2.1");
        let one = from("2001:db8::1");
        let flood: Vec<_> = (2..20).map(|n| from(&format!("2001:db8::{n}"))).collect();
        assert!(is_displaced(&one).await && !is_displaced(&elsewhere).await);
        assert!(is_displaced(&flood[14]).await && !is_displaced(&flood[15]).await);
        let other: Vec<_> = (0..2).map(|_| from("192.0.2.2")).collect();
        // All places are taken, and the network with the most has the least to say.
        let new = from("192.0.2.3");
        assert!(is_displaced(&flood[15]).await && !is_displaced(&flood[16]).await);
        for others in [&other[0], &other[1], &elsewhere, &new] {
            assert!(!is_displaced(others).await);
        }
    }
}
