//! Work that takes long does not stand in the way of others.

use tokio::runtime::{Handle, RuntimeFlavor};

/// From so many bytes of a request on, reading its tools is work that others should not wait for.
const LARGE: usize = 128 << 10;

/// Does the work that so many bytes of a request make. The other tasks of this thread are handed to another one first,
/// if it may take long.
pub(crate) fn work<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let has_others =
        || Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread);
    if bytes >= LARGE && has_others() { tokio::task::block_in_place(work) } else { work() }
}
