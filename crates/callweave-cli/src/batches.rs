//! Lines of an input, worked on by several threads, in order.
//!
//! Complete lines are read in batches of about a [`CHUNK`], or of as many as there are before a read may have to wait.
//! Batches wait in a queue for a free thread; their results are taken in the order in which they were read. No more
//! than a few batches for each thread are under way at a time, so that reading keeps step with the output.

use std::io::{self, BufRead};
use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use anyhow::{Context, Result};
use clap::Args;
use memchr::{memchr, memchr_iter, memrchr};

/// How many threads there are.
#[derive(Args, Clone, Copy)]
pub(crate) struct JobCount {
    /// How many rows are worked on at the same time; by default as many as there are processors
    #[arg(long, value_name = "N", requires = "jsonl")]
    jobs: Option<NonZeroUsize>,
}

/// More threads than that would only take room.
const MAX_JOBS: usize = 256;

impl JobCount {
    #[cfg(test)]
    pub(crate) fn of(jobs: usize) -> Self {
        Self { jobs: NonZeroUsize::new(jobs) }
    }

    fn count(self) -> usize {
        let jobs = self.jobs.or_else(|| thread::available_parallelism().ok());
        jobs.map_or(1, NonZeroUsize::get).min(MAX_JOBS)
    }
}

/// Some lines of an input.
pub(crate) struct LineBatch {
    bytes: Vec<u8>,
    /// The number of lines before them.
    before: u64,
}

impl LineBatch {
    /// The lines with their ends, and their numbers.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let mut rest = &*self.bytes;
        let next = move || {
            let end = memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
            let (line, after) = rest.split_at(end);
            rest = after;
            Some(line).filter(|line| !line.is_empty())
        };
        (self.before + 1..).zip(std::iter::from_fn(next))
    }
}

/// Works on all lines of an input and takes their results, in order. A line of more than `longest` bytes is truncated
/// to a stump that is longer than that, too.
pub(crate) fn each_batch<T: Send>(
    input: impl BufRead,
    longest: usize,
    jobs: JobCount,
    work: impl Fn(&LineBatch) -> T + Sync,
    mut take: impl FnMut(T) -> Result<()> + Send,
) -> Result<()> {
    let mut batches = BatchSplitter { input, longest, rest: Vec::new(), before: 0, is_over: false };
    let jobs = jobs.count();
    if jobs == 1 {
        while let Some(batch) = batches.next()? {
            take(work(&batch))?;
        }
        return Ok(());
    }
    let (asked, queue) = sync_channel::<(LineBatch, SyncSender<T>)>(jobs);
    let (promised, results) = sync_channel::<Receiver<T>>(jobs * 2);
    let queue = Mutex::new(queue);
    let response = || {
        loop {
            let next = queue.lock().expect("nobody fails while waiting").recv();
            let Ok((batch, reply)) = next else { return };
            // Nobody may want to know any more.
            let _ = reply.send(work(&batch));
        }
    };
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(response);
        }
        let taking =
            scope.spawn(move || results.iter().flat_map(|result| result.recv()).try_for_each(&mut take));
        let read = loop {
            match batches.next() {
                Ok(Some(batch)) => {
                    let (reply, result) = sync_channel(1);
                    if promised.send(result).is_err() || asked.send((batch, reply)).is_err() {
                        break Ok(());
                    }
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        drop((asked, promised));
        match taking.join() {
            Ok(taken) => taken.and(read),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Bytes → batches.
struct BatchSplitter<R> {
    input: R,
    longest: usize,
    /// The beginning of a line.
    rest: Vec<u8>,
    /// The number of lines read.
    before: u64,
    is_over: bool,
}

impl<R: BufRead> BatchSplitter<R> {
    fn next(&mut self) -> Result<Option<LineBatch>> {
        let bytes = self.read().context("cannot read the input to its end")?;
        let before = self.before;
        self.before += memchr_iter(b'\n', &bytes).count() as u64;
        Ok((!bytes.is_empty()).then_some(LineBatch { bytes, before }))
    }

    /// Complete lines; nothing at the end.
    fn read(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = std::mem::take(&mut self.rest);
        while !self.is_over && bytes.len() <= self.longest {
            let piece = self.input.fill_buf()?;
            let length = piece.len();
            self.is_over = length == 0;
            let end = memrchr(b'\n', piece).map(|at| at + 1);
            let (lines, rest) = piece.split_at(end.unwrap_or(length));
            bytes.extend_from_slice(lines);
            self.rest.extend_from_slice(rest);
            self.input.consume(length);
            if end.is_some() {
                return Ok(bytes);
            }
        }
        if bytes.len() > self.longest {
            bytes.truncate(self.longest + 1);
            self.input.skip_until(b'\n')?;
            bytes.push(b'\n');
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn run(input: &str, size: usize, jobs: usize) -> Vec<String> {
        let mut all = Vec::new();
        let work = |batch: &LineBatch| {
            let line = |(number, line): (u64, &[u8])| {
                // The first lines take longest.
                let pause = 20_u64.saturating_sub(number * number);
                thread::sleep(std::time::Duration::from_millis(pause));
                format!("{number} {}", String::from_utf8_lossy(line))
            };
            batch.lines().map(line).collect::<Vec<_>>()
        };
        let take = |lines: Vec<String>| {
            all.extend(lines);
            Ok(())
        };
        let input = BufReader::with_capacity(size, input.as_bytes());
        each_batch(input, 10, JobCount::of(jobs), work, take).expect("memory can be read");
        all
    }

    #[test]
    fn order_is_kept_whatever_a_line_costs_and_wherever_it_is_cut() {
        let input = "a\nbc\n\nlonger\r\nd\ne\nf\ng";
        let expected: Vec<_> =
            (1..).zip(input.split_inclusive('\n')).map(|(number, line)| format!("{number} {line}")).collect();
        for jobs in [1, 2, 7] {
            for size in [1, 2, 5, 100] {
                assert_eq!(run(input, size, jobs), expected, "{jobs} jobs, pieces of {size}");
            }
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_a_stump_and_the_next_is_whole() {
        for size in [1, 3, 100] {
            let lines = run("a\n01234567890123456789\nb\n0123456789", size, 2);
            assert_eq!((&*lines[0], &*lines[2], &*lines[3]), ("1 a\n", "3 b\n", "4 0123456789"), "{size}");
            assert!(lines[1].starts_with("2 01234567890"), "{}", lines[1]);
        }
    }

    #[test]
    fn what_is_read_keeps_step_with_what_is_taken() {
        let (jobs, read, taken) = (3, AtomicUsize::new(0), AtomicUsize::new(0));
        let max = AtomicUsize::new(0);
        let work = |_: &LineBatch| {
            let ahead = read.fetch_add(1, Ordering::SeqCst) + 1 - taken.load(Ordering::SeqCst);
            max.fetch_max(ahead, Ordering::SeqCst);
        };
        let take = |()| {
            thread::sleep(std::time::Duration::from_micros(100));
            taken.fetch_add(1, Ordering::SeqCst);
            Ok(())
        };
        let lines = "x\n".repeat(1000);
        let input = BufReader::with_capacity(2, lines.as_bytes());
        each_batch(input, 10, JobCount::of(jobs), work, take).expect("memory can be read");
        assert_eq!(taken.into_inner(), 1000);
        // The batches in both queues, and one in the hands of each thread.
        let max = max.into_inner();
        assert!(max <= 4 * jobs + 2, "{max} batches were ahead");
    }

    #[test]
    fn what_cannot_be_taken_ends_the_work() {
        let lines = "x\n".repeat(100_000);
        for jobs in [1, 3] {
            let worked = AtomicUsize::new(0);
            let work = |_: &LineBatch| {
                worked.fetch_add(1, Ordering::SeqCst);
            };
            let input = BufReader::with_capacity(2, lines.as_bytes());
            let error = each_batch(input, 10, JobCount::of(jobs), work, |()| anyhow::bail!("gone"));
            assert_eq!(error.expect_err("nobody took it").to_string(), "gone");
            assert!(worked.into_inner() < 1000, "{jobs}");
        }
    }
}
