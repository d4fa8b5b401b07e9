//! Lines that wait for the request that they belong to.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use callweave::exchange::UpstreamFault;
use tokio::sync::Notify;

/// The most that waits for a client that reads slowly. The process cannot be made to wait: it serves others, too.
const MAX_WAITING: usize = 8 << 20;

/// The lines of one session.
#[derive(Default)]
pub(super) struct Mailbox {
    content: Mutex<MailboxContent>,
    arrived: Notify,
}

#[derive(Default)]
struct MailboxContent {
    lines: Vec<u8>,
    fault: Option<UpstreamFault>,
    is_over: bool,
}

impl Mailbox {
    /// Puts a line there. Returns whether there was room for it.
    pub(super) fn put(&self, line: &[u8]) -> bool {
        let mut content = self.content();
        if !content.lines.is_empty() && content.lines.len() + line.len() > MAX_WAITING {
            return false;
        }
        content.lines.extend_from_slice(line);
        self.arrived.notify_one();
        true
    }

    /// Says that nothing more comes, and why.
    pub(super) fn end(&self, fault: UpstreamFault) {
        let mut content = self.content();
        if !std::mem::replace(&mut content.is_over, true) {
            content.fault = Some(fault);
        }
        self.arrived.notify_one();
    }

    /// All lines that wait, or the next ones.
    pub(super) async fn next(&self) -> Option<Result<Bytes, UpstreamFault>> {
        loop {
            {
                let mut content = self.content();
                if !content.lines.is_empty() {
                    return Some(Ok(std::mem::take(&mut content.lines).into()));
                }
                if content.is_over {
                    return content.fault.take().map(Err);
                }
            }
            self.arrived.notified().await;
        }
    }

    fn content(&self) -> MutexGuard<'_, MailboxContent> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_come_in_order_then_the_fault_then_nothing() {
        let mailbox = Mailbox::default();
        assert!(mailbox.put(b"a\n") && mailbox.put(b"b\n"));
        mailbox.end(UpstreamFault::lost("died"));
        mailbox.end(UpstreamFault::lost("died again"));
        assert_eq!(mailbox.next().await.expect("lines").expect("lines"), "a\nb\n");
        assert_eq!(mailbox.next().await.expect("an end").expect_err("a fault").to_string(), "died");
        assert!(mailbox.next().await.is_none());
    }

    #[test]
    fn a_client_that_does_not_read_has_a_limit_and_one_line_always_room() {
        let mailbox = Mailbox::default();
        assert!(mailbox.put(&vec![b'x'; MAX_WAITING + 1]));
        assert!(!mailbox.put(b"y"));
    }
}
