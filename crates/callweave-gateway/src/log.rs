//! The log's output. It has a thread of its own, so no response waits for a disk that is full, a pipe that nobody
//! reads, or a terminal that was stopped: lines are lost instead, and counted. A line after a quiet time is written at
//! once; the thread rests after each write, so the lines of a busy time are written together and wake nobody.

use std::io::{self, ErrorKind, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The maximum number of bytes waiting to be written.
const ROOM: usize = 1 << 20;
/// The pause before retrying an output that takes nothing just now.
const PAUSE: Duration = Duration::from_millis(20);
/// The time between two writes.
const REST: Duration = Duration::from_millis(10);

static LOST: AtomicU64 = AtomicU64::new(0);

/// Returns the number of lines lost since the program began.
pub fn lost() -> u64 {
    LOST.load(Relaxed)
}

/// Takes lines, and never waits: each is complete when it is written. Copies write to the same output.
///
/// ```
/// use std::io::Write;
/// use std::time::Duration;
/// use callweave_gateway::log::LogWriter;
///
/// let mut log = LogWriter::to(std::io::sink())?;
/// log.write_all(b"a line\n")?;
/// assert!(log.finish(Duration::from_secs(5)));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct LogWriter(Arc<SharedLog>);

#[derive(Default)]
struct SharedLog {
    state: Mutex<LogState>,
    /// There is something to write.
    filled: Condvar,
    /// All is written.
    emptied: Condvar,
}

#[derive(Default)]
struct LogState {
    waiting: Vec<u8>,
    /// Whether the thread writes, or rests after that.
    is_writing: bool,
    /// Whether a caller waits until all is written.
    is_awaited: bool,
}

impl SharedLog {
    fn state(&self) -> MutexGuard<'_, LogState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogWriter {
    /// A log that goes there. Its thread ends with the program.
    pub fn to(sink: impl Write + Send + 'static) -> io::Result<Self> {
        Self::resting(REST, sink)
    }

    fn resting(rest: Duration, sink: impl Write + Send + 'static) -> io::Result<Self> {
        let shared = Arc::new(SharedLog::default());
        let own = Arc::clone(&shared);
        std::thread::Builder::new().name("log".to_owned()).spawn(move || write_all(&own, rest, sink))?;
        Ok(Self(shared))
    }

    /// Waits until all is written, but not for long; says whether it is.
    pub fn finish(&self, patience: Duration) -> bool {
        let is_busy = |state: &mut LogState| state.is_writing || !state.waiting.is_empty();
        let mut state = self.0.state();
        state.is_awaited = true;
        self.0.filled.notify_one();
        let waited = self.0.emptied.wait_timeout_while(state, patience, is_busy);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut state = self.0.state();
        if state.waiting.len() + line.len() > ROOM {
            LOST.fetch_add(1, Relaxed);
            return Ok(line.len());
        }
        state.waiting.extend_from_slice(line);
        let is_idle = !state.is_writing;
        drop(state);
        if is_idle {
            self.0.filled.notify_one();
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes what waits, again and again, and rests in between.
fn write_all(shared: &SharedLog, rest: Duration, mut sink: impl Write) {
    let mut lines = Vec::new();
    let mut state = shared.state();
    loop {
        if state.waiting.is_empty() {
            (state.is_writing, state.is_awaited) = (false, false);
            shared.emptied.notify_all();
        }
        let filled = shared.filled.wait_while(state, |state| state.waiting.is_empty());
        state = filled.unwrap_or_else(PoisonError::into_inner);
        state.is_writing = true;
        std::mem::swap(&mut state.waiting, &mut lines);
        drop(state);
        let written = write(&lines, &mut sink);
        let left = lines[written..].iter().filter(|byte| **byte == b'\n').count();
        LOST.fetch_add(left as u64, Relaxed);
        lines.clear();
        let rested = shared.filled.wait_timeout_while(shared.state(), rest, |state| !state.is_awaited);
        state = rested.unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// Writes as much as can be written; says how much that is.
fn write(lines: &[u8], sink: &mut impl Write) -> usize {
    let mut written = 0;
    while written < lines.len() {
        match sink.write(&lines[written..]) {
            Ok(0) => break,
            Ok(count) => written += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(PAUSE),
            Err(_) => break,
        }
    }
    let _ = sink.flush();
    written
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    /// Waits before each write until a test permits it, and reports the written bytes.
    struct SlowWriter(Receiver<()>, Sender<Vec<u8>>);

    impl Write for SlowWriter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.recv().map_err(io::Error::other)?;
            self.1.send(bytes.to_vec()).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Lines that come while the thread rests wake nobody, unless a caller waits for the last of them.
    #[test]
    fn lines_of_a_busy_time_are_written_together() {
        let (go, wait) = channel();
        let (tell, told) = channel();
        let mut log = LogWriter::resting(10 * LONG, SlowWriter(wait, tell)).expect("a thread");
        let mut write = |line: &str| log.write_all(line.as_bytes()).expect("no write fails");
        write("a\n");
        go.send(()).expect("a thread");
        assert_eq!(told.recv_timeout(LONG).expect("a line after a quiet time"), b"a\n");
        write("b\n");
        go.send(()).expect("a thread");
        assert!(told.recv_timeout(PAUSE).is_err(), "the thread does not rest");
        write("c\n");
        assert!(log.finish(LONG));
        assert_eq!(told.recv_timeout(LONG).expect("all lines"), b"b\nc\n");
    }

    /// The count of lost lines is the process's: one test looks at it.
    #[test]
    fn lines_are_lost_and_counted_where_nobody_takes_them() {
        let (go, wait) = channel();
        let (tell, told) = channel();
        let mut log = LogWriter::to(SlowWriter(wait, tell)).expect("a thread");
        let line = [b"x".repeat(1023), b"\n".to_vec()].concat();
        let before = lost();
        // Nobody takes anything: no write waits, the memory is bounded, and all that has no room is counted.
        for _ in 0..5000 {
            log.write_all(&line).expect("no write fails");
        }
        let dropped = lost() - before;
        assert!((5000 - 2 * 1024 - 1..5000).contains(&(dropped as usize)), "{dropped}");
        assert!(!log.finish(Duration::from_millis(1)));
        // The output takes bytes again: the waiting lines come complete.
        let mut bytes = Vec::new();
        while bytes.len() < (5000 - dropped as usize) * 1024 {
            go.send(()).expect("a thread");
            bytes.extend(told.recv_timeout(LONG).expect("lines"));
        }
        assert!(log.finish(LONG) && bytes.chunks(1024).all(|own| own == line));
        // One that cannot be written is lost, and the next one is tried.
        drop(go);
        let before = lost();
        log.write_all(b"a\nb\n").expect("no write fails");
        assert!(log.finish(LONG));
        log.write_all(b"c\n").expect("no write fails");
        assert!(log.finish(LONG) && lost() - before == 3, "{}", lost() - before);
    }
}
