//! The time without bytes, and the action due because of it.
//!
//! A stream sets its one timer rarely: bytes only note when they came, and a timer that rings too early is set anew.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// The action that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DueAction {
    /// The client should get a keep-alive.
    Ping,
    /// Nothing more is waited for.
    Idle,
    /// No other call is waited for.
    Grace,
    /// The response has taken all the time that there is for one.
    Over,
}

/// The clock of one response.
pub(crate) struct IdleTimer {
    timer: Pin<Box<Sleep>>,
    /// The waker that the timer is set for.
    waker: Option<Waker>,
    /// The interval of keep-alives, once the client reads.
    ping: Option<Duration>,
    /// The maximum wait for the next bytes.
    limit: Duration,
    /// The time by which the response must be over.
    end: Instant,
    heard: Instant,
    /// The time at which the client last got something.
    told: Instant,
    grace: Option<Instant>,
}

impl IdleTimer {
    /// A clock that begins now, and must not go on after `end`.
    pub(crate) fn new(limit: Duration, end: Instant) -> Self {
        let now = Instant::now();
        let timer = Box::pin(sleep_until(end.min(now + limit)));
        Self { timer, waker: None, ping: None, limit, end, heard: now, told: now, grace: None }
    }

    /// Starts a new wait, with this limit.
    pub(crate) fn wait_for(&mut self, limit: Duration) {
        self.limit = limit;
        let until = self.note_input() + limit;
        self.ring_by(until);
    }

    /// Sets the silence after which the client gets a keep-alive, from now on.
    pub(crate) fn ping_every(&mut self, ping: Duration) {
        self.ping = Some(ping);
        self.told = Instant::now();
        self.ring_by(self.told + ping);
    }

    /// Notes that bytes came.
    pub(crate) fn note_input(&mut self) -> Instant {
        self.heard = Instant::now();
        self.heard
    }

    /// Notes that the client gets something of the last bytes: only then it knows that the gateway is there.
    pub(crate) fn note_output(&mut self) {
        self.told = self.heard;
    }

    /// Says until when a next call is waited for, if only that is waited for.
    pub(crate) fn set_grace(&mut self, grace: Option<Duration>) {
        match (grace, self.grace) {
            (Some(grace), None) => {
                let until = self.heard + grace;
                self.grace = Some(until);
                self.ring_by(until);
            }
            (None, Some(_)) => self.grace = None,
            _ => {}
        }
    }

    /// Waits until something is due.
    pub(crate) fn poll_due(&mut self, context: &mut Context<'_>) -> Poll<DueAction> {
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
                return Poll::Ready(DueAction::Grace);
            }
            let idle = self.heard + self.limit;
            if self.end <= now || idle <= now {
                return Poll::Ready(if self.end <= now { DueAction::Over } else { DueAction::Idle });
            }
            let last = idle.min(self.end);
            let is_ping_due = self.ping.is_some_and(|ping| self.told + ping <= now);
            if is_ping_due {
                self.told = now;
            }
            let ping = self.ping.map(|ping| self.told + ping);
            self.set([ping, self.grace].into_iter().flatten().fold(last, Instant::min));
            if is_ping_due {
                return Poll::Ready(DueAction::Ping);
            }
        }
    }

    /// Sets the timer, unless it rings sooner.
    fn ring_by(&mut self, until: Instant) {
        if until < self.timer.deadline() {
            self.set(until);
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

    async fn due(timer: &mut IdleTimer) -> (DueAction, Duration) {
        let before = Instant::now();
        let due = std::future::poll_fn(|context| timer.poll_due(context)).await;
        (due, before.elapsed())
    }

    const SECOND: Duration = Duration::from_secs(1);

    fn far() -> Instant {
        Instant::now() + 1000 * SECOND
    }

    fn clock(ping: u32, limit: u32, end: Instant) -> IdleTimer {
        let mut timer = IdleTimer::new(limit * SECOND, end);
        timer.ping_every(ping * SECOND);
        timer
    }

    /// Nothing is due before the client reads, and then the next bytes have their full time.
    #[tokio::test(start_paused = true)]
    async fn waiting_begins_anew() {
        let mut timer = IdleTimer::new(9 * SECOND, far());
        tokio::time::advance(8 * SECOND).await;
        timer.wait_for(5 * SECOND);
        let (first, waited) = due(&mut timer).await;
        assert_eq!(first, DueAction::Idle);
        assert!(waited >= 5 * SECOND && waited < 6 * SECOND, "{waited:?}");
        timer.wait_for(5 * SECOND);
        timer.ping_every(2 * SECOND);
        assert_eq!(due(&mut timer).await.0, DueAction::Ping);
    }

    #[tokio::test(start_paused = true)]
    async fn silence_is_told_of_and_then_ended() {
        let mut timer = clock(2, 5, far());
        assert_eq!(due(&mut timer).await.0, DueAction::Ping);
        assert_eq!(due(&mut timer).await.0, DueAction::Ping);
        let (last, waited) = due(&mut timer).await;
        assert_eq!(last, DueAction::Idle);
        assert!(waited >= SECOND && waited < 2 * SECOND, "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_put_everything_off() {
        let mut timer = clock(2, 3, far());
        tokio::time::advance(SECOND).await;
        timer.note_input();
        timer.note_output();
        let (first, waited) = due(&mut timer).await;
        assert_eq!(first, DueAction::Ping);
        assert!(waited >= 2 * SECOND, "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_next_call_is_waited_for_only_so_long() {
        let mut timer = clock(9, 9, far());
        timer.set_grace(Some(SECOND));
        let (first, waited) = due(&mut timer).await;
        assert_eq!(first, DueAction::Grace);
        assert!(waited < 2 * SECOND, "{waited:?}");
    }

    /// Bytes of which the client gets nothing keep the response alive, and not the client.
    #[tokio::test(start_paused = true)]
    async fn what_the_client_does_not_see_puts_off_no_ping() {
        let mut timer = clock(3, 5, far());
        for _ in 0..2 {
            tokio::time::advance(SECOND).await;
            timer.note_input();
        }
        let (first, waited) = due(&mut timer).await;
        assert_eq!(first, DueAction::Ping);
        assert!(waited < 2 * SECOND, "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_never_ends_is_ended() {
        let mut timer = clock(9, 9, Instant::now() + 2 * SECOND);
        tokio::time::advance(SECOND).await;
        timer.note_input();
        timer.note_output();
        let (first, waited) = due(&mut timer).await;
        assert_eq!(first, DueAction::Over);
        assert!(waited < 2 * SECOND, "{waited:?}");
    }
}
