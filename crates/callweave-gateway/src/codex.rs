//! A Codex app-server as an upstream: one supervised child process, in which every request is a thread of its own.
//!
//! The process starts with the first request. When it dies, its requests fail, and the next request starts another, after
//! a wait that grows with every failure in a row. After a number of requests another process takes over, since
//! threads that are left keep some memory; the old one ends with its last request.

mod child;
mod mailbox;
mod settings;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use callweave::exchange::{AppServerConnection, UpstreamFault};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use child::ChildHandle;
pub(crate) use child::SessionLink;
pub(crate) use settings::ChildSettings;

/// The longest wait between two starts that fail.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// The number of pages of a list of models.
const MAX_PAGES: usize = 20;

/// A Codex app-server that is started when it is needed.
pub(crate) struct CodexBackend {
    settings: Arc<ChildSettings>,
    slot: Mutex<ChildSlot>,
    /// Room for threads.
    room: Arc<Semaphore>,
    lists: AtomicU64,
}

/// The process, and the failures of earlier ones.
#[derive(Default)]
struct ChildSlot {
    child: Option<Arc<ChildHandle>>,
    /// The number of processes in a row that failed.
    failures: u32,
    /// The last fault, and the time until which it counts.
    fault: Option<(Instant, UpstreamFault)>,
}

impl ChildSlot {
    fn fail(&mut self, fault: UpstreamFault) {
        self.failures = self.failures.saturating_add(1);
        self.fault = Some((Instant::now() + wait_after(self.failures), fault));
    }
}

/// The wait after a number of failures in a row: none after the first.
fn wait_after(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(2).min(16);
    let wait = Duration::from_millis(500) * (1 << doublings);
    if failures < 2 { Duration::ZERO } else { wait.min(LONGEST_WAIT) }
}

impl CodexBackend {
    pub(crate) fn new(settings: ChildSettings) -> Self {
        Self {
            room: Arc::new(Semaphore::new(settings.max_threads)),
            settings: Arc::new(settings),
            slot: Mutex::default(),
            lists: AtomicU64::new(0),
        }
    }

    /// The settings of the process.
    pub(crate) fn settings(&self) -> &ChildSettings {
        &self.settings
    }

    /// Opens the session of that name. The process is started if it does not run.
    pub(crate) async fn open(&self, session: String) -> Result<SessionLink, UpstreamFault> {
        let room = self.room().await?;
        let child = self.child().await?;
        Ok(SessionLink::open(child, session, room))
    }

    /// Asks for the names of the models.
    pub(crate) async fn models(&self) -> Result<Vec<String>, UpstreamFault> {
        let mut all = Vec::new();
        let mut cursor = None;
        for _ in 0..MAX_PAGES {
            let session = format!("models{}", self.lists.fetch_add(1, Relaxed));
            let request = AppServerConnection::models_request(&session, cursor.as_deref());
            let mut link = self.open(session).await?;
            link.send(request);
            let page = link.next().await;
            let (mut names, next) = AppServerConnection::read_models(&page.transpose()?.unwrap_or_default())?;
            all.append(&mut names);
            cursor = next;
            if cursor.is_none() {
                break;
            }
        }
        Ok(all)
    }

    async fn room(&self) -> Result<OwnedSemaphorePermit, UpstreamFault> {
        let room = timeout(self.settings.patience, Arc::clone(&self.room).acquire_owned()).await;
        room.ok().and_then(Result::ok).ok_or_else(|| {
            let max = self.settings.max_threads;
            UpstreamFault::overloaded(format!(
                "has {max} requests under way and no room for another (threads)"
            ))
        })
    }

    /// The process that runs, or a new one. Only one is started at a time.
    async fn child(&self) -> Result<Arc<ChildHandle>, UpstreamFault> {
        let mut slot = self.slot.lock().await;
        if let Some(child) = &slot.child {
            match child.end() {
                None if child.takes_sessions() => return Ok(Arc::clone(child)),
                None => {}
                Some(end) => {
                    if end.has_served {
                        slot.failures = 0;
                    }
                    slot.fail(end.fault);
                }
            }
        }
        slot.child = None;
        if let Some((until, fault)) = &slot.fault
            && Instant::now() < *until
        {
            return Err(fault.clone());
        }
        match ChildHandle::start(&self.settings).await {
            Ok(child) => Ok(Arc::clone(slot.child.insert(child))),
            Err(fault) => {
                slot.fail(fault.clone());
                Err(fault)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_in_a_row_are_waited_for_longer_and_longer() {
        let waits: Vec<u128> = (0..5).map(|failures| wait_after(failures).as_millis()).collect();
        assert_eq!(waits, [0, 0, 500, 1000, 2000]);
        assert_eq!(wait_after(u32::MAX), LONGEST_WAIT);
    }
}
