//! Limits of time that cost next to nothing while they are kept.
//!
//! A timer of the runtime is registered, moved and removed under a lock that all worker threads share, and a future that
//! holds one is large. Almost every limit here is kept, so a connection has one timer for each purpose, and it rings at the
//! deadline or earlier: being woken once in vain is cheaper than moving it for each request.

use std::borrow::BorrowMut;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep_until};

/// Rings when a deadline that moves often has passed.
pub struct Clock(Pin<Box<Sleep>>);

impl Clock {
    /// A clock that is not looked at yet.
    pub fn new(deadline: Instant) -> Clock {
        Clock(Box::pin(sleep_until(deadline)))
    }

    /// Whether the deadline has passed. If not, the task is woken when it has, or earlier.
    pub fn is_over(&mut self, deadline: Instant, cx: &mut Context<'_>) -> bool {
        if deadline < self.0.deadline() {
            self.0.as_mut().reset(deadline);
        }
        while self.0.as_mut().poll(cx).is_ready() {
            if deadline <= self.0.deadline() {
                return true;
            }
            self.0.as_mut().reset(deadline);
        }
        false
    }
}

/// It took too long.
#[derive(Debug)]
pub struct Late;

/// What a future answers within a time. The clock is made if it is needed.
///
/// Not an `async fn`: that would keep the future twice, once as it was given and once while it runs, and what waits in it is as large
/// as a connection.
pub fn within<C, F>(time: Duration, clock: C, future: F) -> Within<C, F>
where
    C: BorrowMut<Option<Clock>>,
    F: Future,
{
    Within {
        time,
        deadline: None,
        clock,
        future,
    }
}

pin_project! {
    /// What a future answers within a time.
    pub struct Within<C, F> {
        time: Duration,
        // The time begins when there is something to wait for.
        deadline: Option<Instant>,
        clock: C,
        #[pin]
        future: F,
    }
}

impl<C, F> Future for Within<C, F>
where
    C: BorrowMut<Option<Clock>>,
    F: Future,
{
    type Output = Result<F::Output, Late>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(answer) = this.future.poll(cx) {
            return Poll::Ready(Ok(answer));
        }
        let deadline = *this
            .deadline
            .get_or_insert_with(|| Instant::now() + *this.time);
        let clock = this.clock.borrow_mut();
        let clock = clock.get_or_insert_with(|| Clock::new(deadline));
        match clock.is_over(deadline, cx) {
            true => Poll::Ready(Err(Late)),
            false => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_clock_keeps_every_deadline_whichever_was_before() {
        let mut clock = None;
        for seconds in [5, 1, 10, 10, 2] {
            let began = Instant::now();
            let late = within(SECOND * seconds, &mut clock, pending::<()>()).await;
            assert!(late.is_err());
            assert_eq!(began.elapsed().as_secs(), u64::from(seconds));
            // One that is kept leaves the clock as it was.
            let kept = within(SECOND * 3, &mut clock, tokio::time::sleep(SECOND * 2)).await;
            assert!(kept.is_ok());
        }
    }

    #[tokio::test]
    async fn what_is_ready_needs_no_clock() {
        let mut clock = None;
        assert_eq!(within(SECOND, &mut clock, async { 7 }).await.unwrap(), 7);
        assert!(clock.is_none());
    }
}
