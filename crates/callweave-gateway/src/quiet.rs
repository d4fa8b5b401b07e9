//! How long nothing has come, and what is due because of that.
//!
//! A stream sets its one timer rarely: bytes only note when they came, and a timer that rings too early is set anew.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// The client should hear that the answer still comes.
    Ping,
    /// Nothing more is waited for.
    Idle,
    /// No other call is waited for.
    Grace,
}

/// The clock of one answer.
pub(crate) struct Quiet {
    timer: Pin<Box<Sleep>>,
    /// Who is woken by the timer as it is set.
    waker: Option<Waker>,
    ping: Duration,
    idle: Duration,
    heard: Instant,
    told: Instant,
    grace: Option<Instant>,
}

impl Quiet {
    /// A clock that begins now.
    pub(crate) fn new(ping: Duration, idle: Duration) -> Self {
        let now = Instant::now();
        let timer = Box::pin(sleep_until(now + ping.min(idle)));
        Self { timer, waker: None, ping, idle, heard: now, told: now, grace: None }
    }

    /// Notes that bytes came.
    pub(crate) fn hear(&mut self) -> Instant {
        self.heard = Instant::now();
        self.heard
    }

    /// Says until when a next call is waited for, if only that is waited for.
    pub(crate) fn set_grace(&mut self, grace: Option<Duration>) {
        match (grace, self.grace) {
            (Some(grace), None) => {
                let until = self.heard + grace;
                self.grace = Some(until);
                if until < self.timer.deadline() {
                    self.set(until);
                }
            }
            (None, Some(_)) => self.grace = None,
            _ => {}
        }
    }

    /// Waits until something is due.
    pub(crate) fn poll_due(&mut self, context: &mut Context<'_>) -> Poll<Due> {
        loop {
            // It is asked whenever bytes come, and rings rarely.
            let is_set = self.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker()));
            if is_set && !self.timer.is_elapsed() {
                return Poll::Pending;
            }
            if self.timer.as_mut().poll(context).is_pending() {
                self.waker = Some(context.waker().clone());
                return Poll::Pending;
            }
            let now = Instant::now();
            if self.grace.is_some_and(|until| until <= now) {
                return Poll::Ready(Due::Grace);
            }
            let idle = self.heard + self.idle;
            if idle <= now {
                return Poll::Ready(Due::Idle);
            }
            let ping = self.heard.max(self.told) + self.ping;
            if ping <= now {
                self.told = now;
                self.set(idle.min(now + self.ping));
                return Poll::Ready(Due::Ping);
            }
            let next = idle.min(ping).min(self.grace.unwrap_or(idle));
            self.set(next);
        }
    }

    fn set(&mut self, until: Instant) {
        self.timer.as_mut().reset(until);
        self.waker = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn due(quiet: &mut Quiet) -> (Due, Duration) {
        let before = Instant::now();
        let due = std::future::poll_fn(|context| quiet.poll_due(context)).await;
        (due, before.elapsed())
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn silence_is_told_of_and_then_ended() {
        let mut quiet = Quiet::new(2 * SECOND, 5 * SECOND);
        assert_eq!(due(&mut quiet).await.0, Due::Ping);
        assert_eq!(due(&mut quiet).await.0, Due::Ping);
        let (last, waited) = due(&mut quiet).await;
        assert_eq!(last, Due::Idle);
        assert!(waited >= SECOND && waited < 2 * SECOND, "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_put_everything_off() {
        let mut quiet = Quiet::new(2 * SECOND, 3 * SECOND);
        tokio::time::advance(SECOND).await;
        quiet.hear();
        let (first, waited) = due(&mut quiet).await;
        assert_eq!(first, Due::Ping);
        assert!(waited >= 2 * SECOND, "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_next_call_is_waited_for_only_so_long() {
        let mut quiet = Quiet::new(9 * SECOND, 9 * SECOND);
        quiet.set_grace(Some(SECOND));
        let (first, waited) = due(&mut quiet).await;
        assert_eq!(first, Due::Grace);
        assert!(waited < 2 * SECOND, "{waited:?}");
    }
}
