//! Runs the real program and looks at what it prints.

mod codes;
mod convert;
mod decode;
#[cfg(unix)]
mod depth;
#[cfg(unix)]
mod docs;
mod extract;
mod many;
#[cfg(target_os = "linux")]
mod memory;
mod meta;
mod repair;
mod requests;
mod rows;
#[cfg(unix)]
mod run;
mod schemas;
#[cfg(unix)]
mod serve;
mod spelling;
mod streaming;
mod teach;
mod terminal;
mod wrapping;

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::Value;

/// The program, with an environment that does not steer its output.
fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_callweave"));
    command.args(arguments).env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE").env("TERM", "xterm-256color");
    command
}

/// Runs the program to its end with `input` on standard input.
fn run(arguments: &[&str], input: impl AsRef<[u8]>) -> Ran {
    let mut child = program(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("standard input is piped");
    let input = input.as_ref().to_vec();
    // A program that fails early does not read its input; that is not what is tested here.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().expect("the program ends");
    writer.join().expect("the writer ends");
    Ran(output)
}

struct Ran(Output);

/// Parses the program's output. A provider may send numbers that `serde_json` cannot hold; these are texts here.
#[track_caller]
fn value(text: &str) -> Value {
    let value: callweave::json::Value = text.parse().unwrap_or_else(|error| panic!("{error}: {text}"));
    value.into()
}

impl Ran {
    #[track_caller]
    fn stdout(&self) -> &str {
        std::str::from_utf8(&self.0.stdout).expect("the output is UTF-8")
    }

    #[track_caller]
    fn stderr(&self) -> &str {
        std::str::from_utf8(&self.0.stderr).expect("the errors are UTF-8")
    }

    #[track_caller]
    fn json(&self) -> Value {
        value(self.stdout())
    }

    /// One value per line.
    #[track_caller]
    fn lines(&self) -> Vec<Value> {
        self.stdout().lines().map(value).collect()
    }

    #[track_caller]
    fn code(&self) -> i32 {
        self.0.status.code().expect("the program was not killed")
    }

    /// Asserts that it went well and said nothing else.
    #[track_caller]
    fn good(self) -> Self {
        assert_eq!((self.code(), self.stderr()), (0, ""));
        self
    }

    /// Asserts success, with any messages beside.
    #[track_caller]
    fn fine(self) -> Self {
        assert_eq!(self.code(), 0, "{}", self.stderr());
        self
    }

    /// Asserts that it failed and that the error says `part`.
    #[track_caller]
    fn bad(self, part: &str) -> Self {
        assert_eq!(self.code(), 1, "{}", self.stderr());
        assert!(self.stderr().starts_with("error: "), "{}", self.stderr());
        assert!(self.stderr().contains(part), "{}", self.stderr());
        self
    }
}

/// A program that runs while the test talks to it.
struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    pieces: Receiver<Vec<u8>>,
    seen: Vec<u8>,
}

impl Running {
    fn start(arguments: &[&str]) -> Self {
        let mut child = program(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut stdout = child.stdout.take().expect("standard output is piped");
        let (sender, pieces) = channel();
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(length @ 1..) = stdout.read(&mut piece) {
                if sender.send(piece[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { stdin: child.stdin.take(), child, pieces, seen: Vec::new() }
    }

    fn write(&mut self, input: impl AsRef<[u8]>) {
        let stdin = self.stdin.as_mut().expect("standard input is open");
        stdin.write_all(input.as_ref()).expect("the program reads");
    }

    /// Waits until the output has `part`, but not for ever.
    #[track_caller]
    fn wait_for(&mut self, part: &str) {
        while !String::from_utf8_lossy(&self.seen).contains(part) {
            match self.pieces.recv_timeout(Duration::from_secs(20)) {
                Ok(piece) => self.seen.extend(piece),
                Err(error) => {
                    self.child.kill().expect("the program can be stopped");
                    panic!("{part:?} did not come ({error}): {}", String::from_utf8_lossy(&self.seen));
                }
            }
        }
    }

    /// Closes the input and gives all output.
    fn finish(mut self) -> String {
        drop(self.stdin.take());
        self.seen.extend(self.pieces.iter().flatten());
        assert!(self.child.wait().expect("the program ends").success());
        String::from_utf8(self.seen).expect("the output is UTF-8")
    }
}

/// The sample of `callweave demo`.
fn sample() -> Vec<u8> {
    run(&["demo", "--raw"], "").good().0.stdout
}

/// The same without its second call, which is messy on purpose: a response without problems.
fn clean() -> Vec<u8> {
    let sample = String::from_utf8(sample()).expect("the sample is UTF-8");
    let is_clean = |frame: &&str| !frame.contains(r#""tool_calls":[{"index":1"#);
    sample.split_inclusive("\n\n").filter(is_clean).collect::<String>().into_bytes()
}

/// A file of this test run with that content.
fn file(name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, content).expect("the temporary directory takes files");
    path
}

fn path(path: &Path) -> &str {
    path.to_str().expect("the temporary directory has a plain name")
}
