//! Retries: the wait before each, and the number for all requests together.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use crate::trace::random;

/// The longest wait that is not left to the client.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// The wait before the first try that follows another, before chance shortens it.
const FIRST_WAIT: Duration = Duration::from_millis(200);

/// Returns the wait before a try; none if that is longer than a client should wait here. Requests that failed together
/// do not come back together, and an upstream that asks for no wait gets one all the same.
pub(crate) fn wait(attempt: u32, asked_for: Option<Duration>) -> Option<Duration> {
    let most = FIRST_WAIT.saturating_mul(2_u32.saturating_pow(attempt.saturating_sub(1))).min(LONGEST_WAIT);
    // Between one half and all of it.
    let chance = (random() >> 40) as u32;
    let own = most / 2 + (most / 2).mul_f64(f64::from(chance) / f64::from(1_u32 << 24));
    let wait = own.max(asked_for.unwrap_or_default());
    (wait <= LONGEST_WAIT).then_some(wait)
}

/// The budget of retries: a share of all requests, so that an upstream that is down is not asked many times as much as
/// one that is up.
#[derive(Debug)]
pub(crate) struct RetryBudget {
    /// The share of a retry that each request adds, in thousandths.
    share: u32,
    left: AtomicU32,
}

/// A try, in thousandths.
const TRY: u32 = 1000;
/// The retries available at the beginning, and the maximum saved up later.
const SAVED: u32 = 10 * TRY;

impl RetryBudget {
    pub(crate) fn new(share: f64) -> Self {
        // Numbers that are none are nothing.
        Self { share: (share.clamp(0.0, 10.0) * f64::from(TRY)) as u32, left: AtomicU32::new(SAVED) }
    }

    /// A request is sent.
    pub(crate) fn add(&self) {
        // Mostly there is nothing to be saved.
        if self.left.load(Relaxed) < SAVED {
            let _ = self.left.fetch_update(Relaxed, Relaxed, |left| Some((left + self.share).min(SAVED)));
        }
    }

    /// Whether a request may be sent again.
    pub(crate) fn take(&self) -> bool {
        self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(TRY)).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_differ_and_heed_the_upstream() {
        let ms = Duration::from_millis;
        let mut seen = std::collections::HashSet::new();
        for _ in 0..100 {
            for (attempt, least, most) in [(1, 100, 200), (2, 200, 400), (3, 400, 800), (9, 500, 1000)] {
                let wait = wait(attempt, None).expect("not too long");
                assert!(wait >= ms(least) && wait <= ms(most), "{attempt}: {wait:?}");
                seen.insert(wait);
            }
            assert!(wait(1, Some(Duration::ZERO)).expect("a wait") >= ms(100));
        }
        assert!(seen.len() > 300, "{}", seen.len());
        assert_eq!(wait(1, Some(ms(900))), Some(ms(900)));
        for longer in [ms(1001), Duration::MAX] {
            assert_eq!(wait(1, Some(longer)), None);
        }
    }

    #[test]
    fn tries_are_a_share_of_requests() {
        let budget = RetryBudget::new(0.2);
        assert_eq!((0..100).filter(|_| budget.take()).count(), 10);
        assert_eq!(
            (0..100)
                .filter(|_| {
                    budget.add();
                    budget.take()
                })
                .count(),
            20
        );
        for _ in 0..1000 {
            budget.add();
        }
        assert_eq!((0..100).filter(|_| budget.take()).count(), 10);
        let none = RetryBudget::new(f64::NAN);
        assert!((0..10).all(|_| none.take()));
        none.add();
        assert!(!none.take());
    }
}
