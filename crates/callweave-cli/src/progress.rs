//! The progress of reading, on standard error, while there is nothing else to see.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::size;

/// The progress of reading a file or a pipe. Dropping it wipes the line.
pub(crate) struct ProgressLine {
    /// The size of a file; a pipe has none.
    total: Option<u64>,
    done: u64,
    drawn: Instant,
    is_drawn: bool,
}

/// Smaller files are read before a bar could be looked at.
const BIG: u64 = 16 << 20;
const PAUSE: Duration = Duration::from_millis(100);
/// A pipe that is quicker needs no progress.
const PATIENCE: Duration = Duration::from_millis(500);
const WIDTH: u64 = 30;

impl ProgressLine {
    /// A bar for a file of `total` bytes, or a count for a pipe; none where nobody would see it or where it would
    /// disturb the response that is shown on the same terminal.
    pub(crate) fn of(total: Option<u64>) -> Option<Self> {
        let is_big = total.is_none_or(|total| total >= BIG);
        let is_shown = is_big && io::stderr().is_terminal() && !io::stdout().is_terminal();
        is_shown.then(|| Self { total, done: 0, drawn: Instant::now(), is_drawn: false })
    }

    /// Reports that `bytes` more bytes were read.
    pub(crate) fn advance(&mut self, bytes: usize) {
        self.done += bytes as u64;
        let is_due = match (self.is_drawn, self.total) {
            (true, _) => self.drawn.elapsed() >= PAUSE,
            (false, Some(_)) => true,
            (false, None) => self.done >= BIG || self.drawn.elapsed() >= PATIENCE,
        };
        if !is_due {
            return;
        }
        (self.drawn, self.is_drawn) = (Instant::now(), true);
        // A bar that cannot be drawn is no reason to stop.
        let _ = write!(io::stderr(), "\r\x1b[2K{}", self.line());
    }

    fn line(&self) -> String {
        let Some(total) = self.total else { return format!("{} read", size::shown(self.done)) };
        let done = self.done.min(total);
        let (filled, percent) = (done * WIDTH / total, done * 100 / total);
        let bar: String = (0..WIDTH).map(|at| if at < filled { '█' } else { '░' }).collect();
        format!("{bar} {percent:3} %  {} of {} MiB", done >> 20, total >> 20)
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if self.is_drawn {
            let _ = write!(io::stderr(), "\r\x1b[2K");
        }
    }
}
