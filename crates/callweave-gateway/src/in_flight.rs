//! Bytes of requests that are held at the same time, over all clients: counted before they are read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use callweave::upstream::ErrorClass;

use crate::failure::RequestFailure;

/// The bytes of all requests.
pub(crate) struct BytesInFlight {
    max: usize,
    used: AtomicUsize,
}

/// The bytes of one request, given back when it is dropped.
pub(crate) struct HeldRequestBytes {
    of: Arc<BytesInFlight>,
    bytes: AtomicUsize,
}

impl BytesInFlight {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, used: AtomicUsize::new(0) })
    }

    /// One more request, of which nothing has come.
    pub(crate) fn hold(self: &Arc<Self>) -> HeldRequestBytes {
        HeldRequestBytes { of: Arc::clone(self), bytes: AtomicUsize::new(0) }
    }

    /// Whether there is room for an ordinary request.
    pub(crate) fn has_room(&self) -> bool {
        self.used.load(Ordering::Relaxed).saturating_add(STEP) <= self.max
    }
}

/// The number of bytes of a body that are counted ahead of the bytes received.
pub(crate) const STEP: usize = 64 << 10;

impl HeldRequestBytes {
    /// Counts `bytes` bytes in all, if there is room for them.
    pub(crate) fn reach(&self, bytes: usize) -> Result<(), RequestFailure> {
        let more = bytes.saturating_sub(self.bytes.load(Ordering::Relaxed));
        if more == 0 {
            return Ok(());
        }
        let fits = |used: usize| used.checked_add(more).filter(|used| *used <= self.of.max);
        match self.of.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) {
            Ok(_) => _ = self.bytes.fetch_add(more, Ordering::Relaxed),
            Err(_) => return Err(crowded("too many bytes of requests are in flight (limits.in_flight)")),
        }
        Ok(())
    }

    /// Counts no more than `bytes` bytes.
    pub(crate) fn shrink_to(&self, bytes: usize) {
        let before = self.bytes.fetch_min(bytes, Ordering::Relaxed);
        self.of.used.fetch_sub(before.saturating_sub(bytes), Ordering::Relaxed);
    }
}

impl Drop for HeldRequestBytes {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

/// The error for a client that finds no room.
pub(crate) fn crowded(what: &'static str) -> RequestFailure {
    let mut failure = RequestFailure::new(ErrorClass::Overloaded, what);
    failure.error.retry_after = Some(Duration::from_secs(1));
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_counted_once_and_given_back() {
        let all = BytesInFlight::new(STEP + 100);
        let (one, two) = (all.hold(), all.hold());
        assert!(one.reach(60).is_ok() && one.reach(60).is_ok() && one.reach(50).is_ok());
        assert!(two.reach(STEP + 41).is_err() && two.reach(STEP + 40).is_ok());
        assert!(one.reach(61).is_err() && !all.has_room());
        two.shrink_to(30);
        assert!(one.reach(70).is_ok() && all.has_room());
        drop((one, two));
        assert_eq!(all.used.load(Ordering::Relaxed), 0);
    }
}
