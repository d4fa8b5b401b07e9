//! One process: its lines are read, routed to their sessions, and written; nothing of it waits for a slow client.

use std::collections::{HashMap, VecDeque};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use callweave::exchange::{AppServerConnection, AppServerLine, UpstreamFault};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::timeout;

use super::mailbox::Mailbox;
use super::settings::{ChildFolder, ChildSettings};

/// The number of requests after which a process is replaced.
const MAX_SESSIONS: u64 = 2000;
/// The most that waits to be written.
const MAX_UNWRITTEN: u32 = 16 << 20;
/// The bytes that are read at once.
const CHUNK: usize = 64 << 10;
/// The time that a process has to end by itself.
const FAREWELL: Duration = Duration::from_secs(2);
/// The bytes of a catalog of models.
const MAX_CATALOG: u64 = 16 << 20;
/// The bytes that are kept of its complaints.
const MAX_COMPLAINT: usize = 2 << 10;

/// A process that runs. It ends with the last handle of it.
pub(super) struct ChildHandle {
    shared: Arc<Mutex<ChildState>>,
    outgoing: mpsc::UnboundedSender<OutgoingLines>,
    /// Room for lines that wait to be written.
    room: Arc<Semaphore>,
    opened: AtomicU64,
    /// Whether it does not reply.
    is_given_up: AtomicBool,
}

/// Lines to write, with the room that they take.
type OutgoingLines = (Vec<u8>, Option<OwnedSemaphorePermit>);

struct ChildState {
    connection: AppServerConnection,
    mailboxes: HashMap<String, Arc<Mailbox>>,
    /// Waits for the handshake.
    ready: Option<oneshot::Sender<Result<(), UpstreamFault>>>,
    end: Option<UpstreamFault>,
}

/// The end of a process.
pub(super) struct ChildEnd {
    pub(super) fault: UpstreamFault,
    /// Whether it has served a request to its end.
    pub(super) has_served: bool,
}

impl ChildHandle {
    /// Starts a process, and waits until it is ready for sessions.
    pub(super) async fn start(settings: &Arc<ChildSettings>) -> Result<Arc<Self>, UpstreamFault> {
        let (folder, mut process) = spawn(settings).await?;
        let (stdin, stdout, stderr) = (process.stdin.take(), process.stdout.take(), process.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else {
            return Err(UpstreamFault::lost("cannot be talked to"));
        };
        let (ready, is_ready) = oneshot::channel();
        let mut connection = AppServerConnection::new(env!("CARGO_PKG_VERSION"));
        let hello = connection.take_outgoing();
        let shared = Arc::new(Mutex::new(ChildState {
            connection,
            mailboxes: HashMap::new(),
            ready: Some(ready),
            end: None,
        }));
        let (outgoing, to_write) = mpsc::unbounded_channel();
        let _ = outgoing.send((hello, None));
        let complaints = Arc::new(Mutex::new(Vec::new()));
        tokio::spawn(drain(stderr, Arc::clone(&complaints)));
        let writing = write(stdin, to_write, settings.stall);
        let router = LineRouter {
            shared: Arc::clone(&shared),
            // The reader does not keep the process alive.
            outgoing: outgoing.downgrade(),
            max_line: settings.max_line,
            upstream: settings.upstream.clone(),
        };
        tokio::spawn(supervise(process, folder, router.read(stdout), writing, Arc::clone(&shared)));
        let handle = Arc::new(Self {
            shared,
            outgoing,
            room: Arc::new(Semaphore::new(MAX_UNWRITTEN as usize)),
            opened: AtomicU64::new(0),
            is_given_up: AtomicBool::new(false),
        });
        let started = match timeout(settings.patience, is_ready).await {
            Ok(Ok(started)) => started,
            Ok(Err(_)) => Err(UpstreamFault::lost("ended before it was ready")),
            Err(_) => Err(UpstreamFault::late("was not ready", settings.patience)),
        };
        let upstream = settings.upstream.as_str();
        match started {
            Ok(()) => {
                let version = lock(&handle.shared).connection.version().unwrap_or("unknown").to_owned();
                tracing::info!(upstream, version, "the app-server runs");
                Ok(handle)
            }
            Err(fault) => {
                let complaint = complaints.lock().unwrap_or_else(PoisonError::into_inner);
                let complaint = String::from_utf8_lossy(&complaint);
                tracing::warn!(upstream, %fault, complaint = complaint.trim(), "the app-server does not start");
                Err(fault)
            }
        }
    }

    /// The end of the process, if it has ended.
    pub(super) fn end(&self) -> Option<ChildEnd> {
        let state = lock(&self.shared);
        state.end.clone().map(|fault| ChildEnd { fault, has_served: state.connection.has_served() })
    }

    /// Whether it takes another session.
    pub(super) fn takes_sessions(&self) -> bool {
        self.opened.load(Relaxed) < MAX_SESSIONS && !self.is_given_up.load(Relaxed)
    }

    fn send(&self, lines: Vec<u8>, room: Option<OwnedSemaphorePermit>) {
        if !lines.is_empty() {
            // Where nobody writes any more, the end of the process says so.
            let _ = self.outgoing.send((lines, room));
        }
    }
}

/// One session in a process. Its thread is left when this is dropped.
pub(crate) struct SessionLink {
    child: Arc<ChildHandle>,
    name: String,
    mailbox: Arc<Mailbox>,
    /// Lines that wait for room.
    pending: VecDeque<Vec<u8>>,
    _room: OwnedSemaphorePermit,
}

impl SessionLink {
    pub(super) fn open(child: Arc<ChildHandle>, name: String, room: OwnedSemaphorePermit) -> Self {
        let mailbox = Arc::<Mailbox>::default();
        let mut state = lock(&child.shared);
        match &state.end {
            Some(fault) => mailbox.end(fault.clone()),
            None => {
                state.connection.open(&name);
                state.mailboxes.insert(name.clone(), Arc::clone(&mailbox));
            }
        }
        drop(state);
        child.opened.fetch_add(1, Relaxed);
        Self { child, name, mailbox, pending: VecDeque::new(), _room: room }
    }

    /// The name of the session.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Reports that the process does not reply: the next session goes to another.
    pub(crate) fn give_up(&self) {
        self.child.is_given_up.store(true, Relaxed);
    }

    /// Hands lines over to be sent while [`Self::next`] waits.
    pub(crate) fn send(&mut self, lines: Vec<u8>) {
        self.pending.push_back(lines);
    }

    /// The next lines of the session; none after its fault.
    pub(crate) async fn next(&mut self) -> Option<Result<Bytes, UpstreamFault>> {
        while let Some(first) = self.pending.front() {
            let size = u32::try_from(first.len()).unwrap_or(u32::MAX).min(MAX_UNWRITTEN);
            tokio::select! {
                biased;
                room = Arc::clone(&self.child.room).acquire_many_owned(size) => {
                    let lines = self.pending.pop_front().unwrap_or_default();
                    lock(&self.child.shared).connection.sent(&self.name, &lines);
                    self.child.send(lines, room.ok());
                }
                heard = self.mailbox.next() => return heard,
            }
        }
        self.mailbox.next().await
    }
}

impl Drop for SessionLink {
    fn drop(&mut self) {
        let mut state = lock(&self.child.shared);
        state.mailboxes.remove(&self.name);
        state.connection.close(&self.name);
        let farewell = state.connection.take_outgoing();
        drop(state);
        self.child.send(farewell, None);
    }
}

fn lock(shared: &Mutex<ChildState>) -> MutexGuard<'_, ChildState> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn spawn(settings: &ChildSettings) -> Result<(ChildFolder, Child), UpstreamFault> {
    let fault = |error: std::io::Error| {
        let program = settings.program();
        UpstreamFault::unusable(match error.kind() {
            std::io::ErrorKind::NotFound => format!(
                "cannot be started: there is no program {program:?}; install Codex (npm install -g @openai/codex), \
                 or name the program in command"
            ),
            _ => format!("cannot be started: {program:?}: {error}"),
        })
    };
    let folder = ChildFolder::new().map_err(fault)?;
    if !settings.runs_tools {
        let process =
            settings.catalog_command(&folder).and_then(|mut command| command.spawn()).map_err(fault)?;
        let catalog = timeout(settings.patience, read_catalog(process)).await.ok().flatten();
        let catalog = catalog.ok_or_else(|| {
            UpstreamFault::unusable(
                "is too old: it has no catalog of models (debug models), without which its own tools cannot be \
                 switched off",
            )
        })?;
        std::fs::write(folder.catalog(), catalog).map_err(fault)?;
    }
    let process = settings.command(&folder).and_then(|mut command| command.spawn()).map_err(fault)?;
    Ok((folder, process))
}

/// Reads the catalog of models that a program prints, and takes the tools out of it.
async fn read_catalog(mut process: Child) -> Option<String> {
    let mut catalog = Vec::new();
    process.stdout.take()?.take(MAX_CATALOG).read_to_end(&mut catalog).await.ok()?;
    let status = process.wait().await.ok()?;
    AppServerConnection::catalog_without_tools(&catalog).filter(|_| status.success())
}

/// Waits for the end of a process, and reports it to its sessions.
async fn supervise(
    mut process: Child,
    folder: ChildFolder,
    reading: impl Future<Output = UpstreamFault>,
    writing: impl Future<Output = Result<(), UpstreamFault>>,
    shared: Arc<Mutex<ChildState>>,
) {
    let mut reading = pin!(reading);
    let fault = tokio::select! {
        fault = &mut reading => fault,
        written = writing => match written {
            Err(fault) => fault,
            // Nobody needs it any more. Its input is closed: it reads that, and ends.
            Ok(()) => timeout(FAREWELL, reading).await.unwrap_or_else(|_| UpstreamFault::lost("did not end")),
        },
    };
    let ready = {
        let mut state = lock(&shared);
        for mailbox in state.mailboxes.drain().map(|(_, mailbox)| mailbox) {
            mailbox.end(fault.clone());
        }
        state.end = Some(fault);
        state.ready.take()
    };
    let status = timeout(FAREWELL, process.wait()).await;
    if status.is_err() {
        let _ = process.kill().await;
    }
    if let (Some(ready), Ok(Ok(status))) = (ready, status) {
        let _ = ready.send(Err(UpstreamFault::lost(format!("ended before it was ready ({status})"))));
    }
    drop(folder);
}

/// Reads the lines of a process, and hands them to their sessions.
struct LineRouter {
    shared: Arc<Mutex<ChildState>>,
    outgoing: mpsc::WeakUnboundedSender<OutgoingLines>,
    max_line: usize,
    upstream: String,
}

impl LineRouter {
    /// Reads until the end, and returns its reason.
    async fn read(self, mut stdout: impl AsyncRead + Unpin) -> UpstreamFault {
        let mut chunk = vec![0; CHUNK];
        let mut line = Vec::new();
        loop {
            let count = match stdout.read(&mut chunk).await {
                Ok(0) => return UpstreamFault::lost("ended in the middle of its work"),
                Ok(count) => count,
                Err(error) => return UpstreamFault::lost(format!("cannot be read: {error}")),
            };
            let mut rest = &chunk[..count];
            let mut state = lock(&self.shared);
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                line.extend_from_slice(&rest[..=end]);
                rest = &rest[end + 1..];
                self.route(&line, &mut state);
                line.clear();
            }
            let outgoing = state.connection.take_outgoing();
            drop(state);
            if let Some(sender) = self.outgoing.upgrade().filter(|_| !outgoing.is_empty()) {
                let _ = sender.send((outgoing, None));
            }
            if line.len() + rest.len() > self.max_line {
                // Nobody knows whose line it is.
                let what = format!("sent a line of more than {} bytes (limits.response)", self.max_line);
                return UpstreamFault::unusable(what);
            }
            line.extend_from_slice(rest);
            line.shrink_to(CHUNK.max(line.len()));
        }
    }

    fn route(&self, line: &[u8], state: &mut ChildState) {
        let upstream = self.upstream.as_str();
        match state.connection.hear(line) {
            AppServerLine::Session(session) => {
                let Some(mailbox) = state.mailboxes.get(&session) else { return };
                if !mailbox.put(line) {
                    tracing::warn!(upstream, "a client reads too slowly, and its response is given up");
                    mailbox.end(UpstreamFault::lost("was faster than the client, which did not read"));
                    state.mailboxes.remove(&session);
                    state.connection.close(&session);
                }
            }
            AppServerLine::Ready => {
                if let Some(ready) = state.ready.take() {
                    let _ = ready.send(Ok(()));
                }
            }
            AppServerLine::Unusable(fault) => {
                if let Some(ready) = state.ready.take() {
                    let _ = ready.send(Err(fault));
                }
            }
            AppServerLine::Malformed => {
                tracing::warn!(upstream, bytes = line.len(), "the app-server sent a line that is not JSON");
            }
            _ => {}
        }
    }
}

/// Writes lines until nobody sends any more, or the process takes none for too long.
async fn write(
    mut stdin: ChildStdin,
    mut lines: mpsc::UnboundedReceiver<OutgoingLines>,
    stall: Duration,
) -> Result<(), UpstreamFault> {
    while let Some((bytes, room)) = lines.recv().await {
        // A write that makes progress may take its time.
        for piece in bytes.chunks(CHUNK) {
            match timeout(stall, stdin.write_all(piece)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return Err(UpstreamFault::lost(format!("cannot be written to: {error}"))),
                Err(_) => return Err(UpstreamFault::late("took none of what was sent to it", stall)),
            }
        }
        drop(room);
    }
    Ok(())
}

/// Reads what a process complains of, and keeps the end of it.
async fn drain(mut stderr: impl AsyncRead + Unpin, complaints: Arc<Mutex<Vec<u8>>>) {
    let mut chunk = vec![0; 4 << 10];
    while let Ok(count @ 1..) = stderr.read(&mut chunk).await {
        let mut kept = complaints.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(&chunk[..count]);
        let excess = kept.len().saturating_sub(MAX_COMPLAINT);
        kept.drain(..excess);
    }
}
