//! A program that runs beside this one, and what it uses.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::rest;

/// A program listens within this time, or never.
const LONGEST: Duration = Duration::from_secs(10);

/// A program that listens. It ends with this value.
pub(crate) struct Process {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Process {
    /// Starts a program with these words, at a free port or at this one, and waits until it listens.
    pub(crate) fn start(program: &str, words: impl FnOnce(u16) -> Vec<String>, port: Option<u16>) -> Self {
        let free = || {
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
                .and_then(|it| it.local_addr())
                .expect("a free port")
                .port()
        };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port.unwrap_or_else(free)));
        let child = Command::new(program)
            .args(words(address.port()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{program}: {error}"));
        let process = Self { child, address };
        let start = Instant::now();
        while TcpStream::connect(address).is_err() {
            assert!(start.elapsed() < LONGEST, "{program} does not listen at {address}");
            rest(25);
        }
        process
    }

    /// Microseconds of processor time, of all its threads.
    pub(crate) fn busy(&self) -> f64 {
        let tasks =
            std::fs::read_dir(format!("/proc/{}/task", self.child.id())).into_iter().flatten().flatten();
        let nanoseconds = tasks.filter_map(|task| {
            let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
            text.split(' ').next()?.parse::<f64>().ok()
        });
        nanoseconds.sum::<f64>() / 1000.0
    }

    /// Megabytes in memory.
    pub(crate) fn resident(&self) -> f64 {
        self.status("VmRSS:") / 1024.0
    }

    /// Open files and connections.
    pub(crate) fn files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).into_iter().flatten().count()
    }

    fn status(&self, key: &str) -> f64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(key));
        line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(f64::NAN)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
