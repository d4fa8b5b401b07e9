//! A progress bar for big files, on standard error.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// How much of a file has been read. Dropping it wipes the bar.
pub(crate) struct Progress {
    total: u64,
    done: u64,
    drawn: Option<Instant>,
}

/// Smaller files are read before a bar could be looked at.
const BIG: u64 = 16 << 20;
const PAUSE: Duration = Duration::from_millis(100);
const WIDTH: u64 = 30;

impl Progress {
    /// A bar for a file of `total` bytes, or nothing where nobody would see it or where it would disturb
    /// the answer that is shown on the same terminal.
    pub(crate) fn of(total: u64) -> Option<Self> {
        let is_shown = total >= BIG && io::stderr().is_terminal() && !io::stdout().is_terminal();
        is_shown.then(|| Self { total, done: 0, drawn: None })
    }

    /// Says that so many bytes more were read.
    pub(crate) fn advance(&mut self, bytes: usize) {
        self.done += bytes as u64;
        if self.drawn.is_some_and(|drawn| drawn.elapsed() < PAUSE) {
            return;
        }
        self.drawn = Some(Instant::now());
        let done = self.done.min(self.total);
        let (filled, percent) = (done * WIDTH / self.total, done * 100 / self.total);
        let bar: String = (0..WIDTH).map(|at| if at < filled { '█' } else { '░' }).collect();
        let (done, total) = (done >> 20, self.total >> 20);
        // A bar that cannot be drawn is no reason to stop.
        let _ = write!(io::stderr(), "\r{bar} {percent:3} %  {done} of {total} MiB");
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.drawn.is_some() {
            let _ = write!(io::stderr(), "\r\x1b[2K");
        }
    }
}
