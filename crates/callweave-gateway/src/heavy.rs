//! Work that takes long, kept away from the threads that serve others.

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

/// The number of bytes from which on reading or writing a body takes milliseconds.
const HEAVY: usize = 128 << 10;

/// Does the work on `bytes` bytes. If they are many, other tasks of this thread move to another one.
pub(crate) fn run<R>(bytes: usize, work: impl FnOnce() -> R) -> R {
    let has_others =
        || Handle::try_current().is_ok_and(|own| own.runtime_flavor() == RuntimeFlavor::MultiThread);
    if bytes >= HEAVY && has_others() { block_in_place(work) } else { work() }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    /// There is one worker. It is busy until another task has run on it.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn others_are_served_meanwhile() {
        let (sender, receiver) = mpsc::channel();
        let busy = tokio::spawn(async move {
            tokio::spawn(async move { sender.send(()) });
            super::run(super::HEAVY, || receiver.recv_timeout(Duration::from_secs(10)).is_ok())
        });
        assert!(busy.await.expect("a task that ends"));
    }
}
