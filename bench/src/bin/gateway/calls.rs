//! Whether calls flow, counted in frames: the upstream sends the next frame only on command, so everything that has
//! come by then came with the frame before.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::load::request;
use crate::servers::{ARGUMENTS, piece};
use crate::{Target, rest};

/// The time after which a piece did not leave with its frame.
const LONGEST: Duration = Duration::from_secs(1);

/// Prints for each target with which frames the name and the pieces of the arguments of a call leave.
pub(crate) fn frames(targets: &[Target], upstream: SocketAddr) {
    println!("a call of {ARGUMENTS} frames of arguments, one after the other");
    for target in targets {
        let mut client = Client::ask(target);
        client.next(upstream, "");
        let is_named = client.next(upstream, "get_weather");
        let with_itself = (0..ARGUMENTS).filter(|&at| client.next(upstream, &piece(at))).count();
        // The finish, and the end.
        client.next(upstream, "");
        client.next(upstream, "");
        let pieces = client.pieces();
        let name = if is_named { "with its own frame" } else { "later" };
        println!(
            "  {:18} name {name}; arguments: {ARGUMENTS} frames in, {pieces} out, {with_itself} with themselves",
            target.name
        );
    }
    println!();
}

/// A client that remembers all that it got.
struct Client {
    stream: TcpStream,
    got: String,
}

impl Client {
    fn ask(target: &Target) -> Self {
        let mut stream = TcpStream::connect(target.address).expect("somebody listens");
        stream.set_nodelay(true).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_millis(20))).expect("a connection");
        let request = request(target.path, &format!("{}step", target.prefix), true);
        stream.write_all(&request).expect("a request is taken");
        Self { stream, got: String::new() }
    }

    /// Lets the upstream send its next frame: whether `awaited` comes without another.
    fn next(&mut self, upstream: SocketAddr, awaited: &str) -> bool {
        let from = self.got.len();
        go(upstream);
        let start = std::time::Instant::now();
        let mut bytes = [0; 4096];
        while start.elapsed() < LONGEST {
            if let Ok(length @ 1..) = self.stream.read(&mut bytes) {
                self.got.push_str(&String::from_utf8_lossy(&bytes[..length]));
            }
            if !awaited.is_empty() && self.got[from..].contains(awaited) {
                return true;
            }
            if awaited.is_empty() && start.elapsed() > LONGEST / 10 {
                return true;
            }
        }
        false
    }

    /// The number of pieces of arguments that came.
    fn pieces(&self) -> usize {
        let frames = self.got.lines().filter(|line| line.starts_with("data:"));
        let has_piece = |frame: &&str| {
            (frame.contains("\"arguments\":\"") && !frame.contains("\"arguments\":\"\""))
                || (frame.contains("\"partial_json\":\"") && !frame.contains("\"partial_json\":\"\""))
        };
        frames.filter(has_piece).count()
    }
}

/// Makes the upstream send one more frame.
fn go(upstream: SocketAddr) {
    let mut stream = TcpStream::connect(upstream).expect("somebody listens");
    stream.write_all(&request("/v1/chat/completions", "go", false)).expect("a request is taken");
    let mut bytes = [0; 512];
    while !stream.read(&mut bytes).is_ok_and(|length| length > 0) {
        rest(1);
    }
}
