//! Servers that run while something talks to them: a gateway of ours, and what stands behind it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::check::{cargo, succeed, told};
use crate::{root, target};

/// A running `callweave serve`, or another server; it ends with this value.
pub(crate) struct Serving {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Serving {
    /// Builds the program, starts the gateway with the scripted models, and waits until it responds. Its output goes to
    /// a file.
    pub(crate) fn start(log: &Path) -> Result<Self, String> {
        Self::start_with(log, &["--demo".as_ref()])
    }

    /// The same with other options.
    pub(crate) fn start_with(log: &Path, options: &[&OsStr]) -> Result<Self, String> {
        succeed(Command::new(cargo()).args(["build", "--quiet", "-p", "callweave-cli"]).current_dir(root()))?;
        let address = free_address().map_err(|error| error.to_string())?;
        let mut command = Command::new(target().join("debug/callweave"));
        command.arg("serve").args(options).args(["--listen", &address.to_string()]);
        // No provider but the scripted one, whatever keys are in the user's environment.
        command.env_clear();
        Self::spawn(command, address, "/healthz", log)
    }

    /// Starts any server, and waits until it has this page.
    pub(crate) fn spawn(
        mut command: Command,
        address: SocketAddr,
        page: &str,
        log: &Path,
    ) -> Result<Self, String> {
        let said = File::create(log).map_err(told(log))?;
        let complained = said.try_clone().map_err(told(log))?;
        command.stdin(Stdio::null()).stdout(said).stderr(complained);
        let child = command.spawn().map_err(|error| format!("{command:?} does not start: {error}"))?;
        let mut serving = Self { child, address };
        let start = Instant::now();
        while serving.get(page).is_err() {
            if start.elapsed() > Duration::from_secs(60)
                || serving.child.try_wait().is_ok_and(|it| it.is_some())
            {
                let said = std::fs::read_to_string(log).unwrap_or_default();
                return Err(format!("{command:?} does not answer at {address}:\n{said}"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(serving)
    }

    /// The id of its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The body of a page.
    pub(crate) fn get(&self, path: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        write!(stream, "GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", self.address)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
        body.filter(|_| answer.starts_with("HTTP/1.1 200")).ok_or_else(|| std::io::Error::other(answer))
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An address that nobody listens on; the system does not give it to the next who asks.
pub(crate) fn free_address() -> std::io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}
