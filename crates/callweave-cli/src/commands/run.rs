//! `callweave run`: a coding agent with a gateway of its own.
//!
//! The gateway listens on a free port of this machine, in this process, and ends with the agent. The agent learns of it by
//! variables, flags and files of this run only: no file of the user's is changed, and no variable that is set for the agent
//! is read by the gateway.

mod agents;

use std::ffi::OsString;
use std::fs::File;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use callweave_gateway::config::{Config, Environment};
use callweave_gateway::{Gateway, Server};
use clap::Args;
use tokio::process::{Child, Command};
use tokio::sync::Notify;

use super::serve::{ConfigSources, LogForm, begin_log};
use crate::log::LogOutput;
use crate::report::print_warning;
use agents::{AgentContext, AgentName};

/// Run a coding agent with any model: a gateway of its own starts and ends with it
#[derive(Args)]
#[command(after_help = "\
Examples:
  callweave run claude --upstream localhost:8080         Claude Code with llama-server
  callweave run codex --upstream localhost:11434 --model qwen3 -- exec 'fix the tests'
  callweave run opencode --config gateway.toml --model local/qwen3-coder
  callweave run gemini --model claude-sonnet-4-5         every provider with a key in a variable

Arguments behind -- are the agent's own. Its exit code is the exit code.

The agent is told of the gateway by variables, flags and files of this run; your own configuration of it stays as it is.")]
pub(crate) struct RunCommand {
    /// The agent
    #[arg(value_name = "AGENT")]
    agent: AgentName,
    #[command(flatten)]
    sources: ConfigSources,
    /// The model; else the only one that there is, or the agent's own choice
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Write the log of the gateway to this file; else there is none
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Write the raw traffic of upstreams into this folder
    #[arg(long, value_name = "FOLDER")]
    record: Option<PathBuf>,
    /// The arguments of the agent
    #[arg(last = true, value_name = "ARGS")]
    arguments: Vec<OsString>,
}

impl RunCommand {
    pub(crate) fn run(&self) -> Result<u8> {
        let row = self.agent.row();
        let Some(program) = find(row.program) else {
            bail!(
                "{} is not installed: there is no {} on PATH; install it with {}",
                row.title,
                row.program,
                row.install
            );
        };
        let config = self.config()?;
        let log = self.log.as_deref().map(begin_file_log).transpose()?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let status = runtime.block_on(self.serve_while_it_runs(&program, config));
        if let Some(log) = log {
            log.finish();
        }
        status.map(exit_code)
    }

    /// Returns the configuration to serve: as by `serve`, on a free port, to this machine.
    fn config(&self) -> Result<Config> {
        let mut config = self.sources.config()?;
        if !self.sources.demo && config.upstreams.values().all(|upstream| upstream.is_demo()) {
            bail!(
                "no upstream is configured: name a server with --upstream URL or a file with --config FILE, set the \
                 variable of a provider's key (OPENAI_API_KEY, ANTHROPIC_API_KEY and the like), or try the scripted models with --demo"
            );
        }
        if self.sources.listen.is_none() {
            let host =
                if config.listen.ip().is_loopback() { config.listen.ip() } else { [127, 0, 0, 1].into() };
            config.listen = SocketAddr::new(host, self.sources.port.unwrap_or(0));
        }
        // Only the agent knows the address, and it has none of the keys.
        config.client_keys.clear();
        config.record = self.record.clone().or(config.record);
        Ok(config)
    }

    async fn serve_while_it_runs(&self, program: &Path, mut config: Config) -> Result<ExitStatus> {
        let gateway = Gateway::new(config.clone(), &Environment::process())?;
        gateway.warnings().iter().for_each(|warning| print_warning(warning));
        let model = self.choose_model(&gateway).await?;
        let gateway = match (&self.sources.upstream, &model) {
            // Names that the agent asks for by itself, for titles and the like, mean the same model.
            (Some(_), Some(model)) => {
                config.route_all_to(model);
                Gateway::new(config, &Environment::process())?
            }
            _ => gateway,
        };
        let server = Server::bind(Arc::clone(&gateway)).await;
        let server = server.with_context(|| format!("cannot listen on {}", gateway.config().listen))?;
        tokio::spawn(Arc::clone(&gateway).find_out_providers());
        let folder = TemporaryFolder::new()?;
        let setting = AgentContext {
            url: format!("http://{}", server.address()?),
            model: model.as_deref(),
            folder: &folder.0,
        };
        let setup = self.agent.row().set_up(&setting)?;
        let mut command = Command::new(program);
        command.args(setup.arguments).args(&self.arguments).envs(setup.variables);
        for name in setup.removed {
            command.env_remove(name);
        }
        command.stdin(Stdio::inherit()).stdout(Stdio::inherit()).stderr(Stdio::inherit());
        let signals = SignalWatcher::new()?;
        let agent = command.spawn().with_context(|| format!("{} does not start", program.display()))?;
        let (stop, hurry) = (Notify::new(), Notify::new());
        let wait = async {
            let status = signals.pass_on_until_it_ends(agent).await;
            stop.notify_one();
            hurry.notify_one();
            status
        };
        let (status, ()) = tokio::join!(wait, server.run_until(stop.notified(), hurry.notified()));
        Ok(status?)
    }

    /// The model that the agent is given. Without one it asks for its own default.
    async fn choose_model(&self, gateway: &Arc<Gateway>) -> Result<Option<String>> {
        if self.model.is_some() {
            return Ok(self.model.clone());
        }
        let row = self.agent.row();
        let mut names = gateway.models().await;
        match names.len() {
            1 => return Ok(names.pop()),
            0 if self.sources.upstream.is_none() && row.has_own_model => return Ok(None),
            0 => bail!("name the model with --model: the upstream does not say which it has"),
            _ => {}
        }
        if self.sources.upstream.is_none() && row.has_own_model {
            return Ok(None);
        }
        let more = names.len().saturating_sub(SHOWN);
        names.truncate(SHOWN);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        bail!("name the model with --model: there are {}{more}", names.join(", "));
    }
}

/// The maximum number of models named in an error.
const SHOWN: usize = 12;

fn begin_file_log(path: &Path) -> Result<LogOutput> {
    let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    let log = LogOutput::to(file)?;
    begin_log(&log, LogForm::Text, false)?;
    Ok(log)
}

/// A program on PATH.
fn find(name: &str) -> Option<PathBuf> {
    let endings: &[&str] = if cfg!(windows) { &[".exe", ".cmd", ".bat"] } else { &[""] };
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders)
        .flat_map(|folder| endings.iter().map(move |ending| folder.join(format!("{name}{ending}"))))
        .find(|path| is_program(path))
}

#[cfg(unix)]
fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_program(path: &Path) -> bool {
    path.is_file()
}

/// A folder for the files of one run, which nobody else can read; it ends with this value.
struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    fn new() -> Result<Self> {
        let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
        let path = std::env::temp_dir().join(format!("callweave-run-{}-{since}", std::process::id()));
        let mut builder = std::fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        // A folder that is there already belongs to another process.
        let made = builder.create(&path);
        made.with_context(|| format!("cannot make the folder {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The agent's own code; 128 and the signal's number where a signal ended it, as shells have it.
fn exit_code(status: ExitStatus) -> u8 {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return u8::try_from(128 + signal).unwrap_or(u8::MAX);
    }
    let code = status.code().unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}

/// The signals that are the agent's to obey.
#[cfg(unix)]
struct SignalWatcher {
    hung_up: tokio::signal::unix::Signal,
    interrupted: tokio::signal::unix::Signal,
    quit: tokio::signal::unix::Signal,
    terminated: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl SignalWatcher {
    fn new() -> Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            hung_up: signal(SignalKind::hangup())?,
            interrupted: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            terminated: signal(SignalKind::terminate())?,
        })
    }

    async fn pass_on_until_it_ends(mut self, mut agent: Child) -> std::io::Result<ExitStatus> {
        use rustix::process::{Pid, Signal, kill_process};
        // A terminal signals all its processes by itself, and two signals mean something else to agents than one.
        let is_told = std::io::stdin().is_terminal();
        let pid = agent.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        loop {
            let signal = tokio::select! {
                status = agent.wait() => return status,
                _ = self.hung_up.recv() => Some(Signal::HUP),
                _ = self.terminated.recv() => Some(Signal::TERM),
                _ = self.interrupted.recv() => (!is_told).then_some(Signal::INT),
                _ = self.quit.recv() => (!is_told).then_some(Signal::QUIT),
            };
            if let (Some(pid), Some(signal)) = (pid, signal) {
                // It may have ended just now.
                let _ = kill_process(pid, signal);
            }
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl SignalWatcher {
    fn new() -> Result<Self> {
        Ok(Self)
    }

    async fn pass_on_until_it_ends(self, mut agent: Child) -> std::io::Result<ExitStatus> {
        loop {
            tokio::select! {
                status = agent.wait() => return status,
                // The console has signalled the agent, too.
                _ = tokio::signal::ctrl_c() => {}
            }
        }
    }
}
