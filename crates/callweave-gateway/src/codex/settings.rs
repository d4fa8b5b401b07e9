//! How the process is started: its command, its environment, and its folders.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use ring::rand::{SecureRandom, SystemRandom};
use tokio::process::Command;

use crate::config::{Environment, LimitsConfig, TimeoutsConfig, UpstreamConfig};

/// The variables that the process gets, if they are set: where programs and files are, and how the network is reached.
/// No other variable of the gateway's reaches it, unless the configuration names it.
pub(crate) const VARIABLES: &[&str] = &[
    "PATH",
    "HOME",
    "TMPDIR",
    "LANG",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "SystemRoot",
    "USERPROFILE",
];

/// Settings that every process gets as arguments: threads that nobody uses are forgotten soon.
const OVERRIDES: [&str; 2] = ["-c", "thread_unload_delay_secs=1"];

/// The settings of the process.
pub(crate) struct ChildSettings {
    /// The name of the upstream, for the log.
    pub(super) upstream: String,
    command: Vec<String>,
    variables: Vec<(String, String)>,
    /// The folder with its login and its configuration.
    home: Option<PathBuf>,
    /// Whether it may run tools of its own.
    pub(super) runs_tools: bool,
    /// The number of threads at the same time.
    pub(super) max_threads: usize,
    /// The limit of a line.
    pub(super) max_line: usize,
    /// The wait for room, and for the handshake.
    pub(super) patience: Duration,
    /// The time after which a process that reads nothing is given up.
    pub(super) stall: Duration,
}

impl ChildSettings {
    pub(crate) fn new(
        name: &str,
        config: &UpstreamConfig,
        environment: &Environment<'_>,
        limits: &LimitsConfig,
        timeouts: &TimeoutsConfig,
    ) -> Self {
        let own = config.environment.iter().chain(&config.api_key_env).map(String::as_str);
        let mut variables: Vec<(String, String)> = Vec::new();
        for name in VARIABLES.iter().copied().chain(own) {
            if let Some(value) = environment.get(name)
                && variables.iter().all(|(known, _)| known != name)
            {
                variables.push((name.to_owned(), value));
            }
        }
        Self {
            upstream: name.to_owned(),
            command: config.command.clone(),
            variables,
            home: config.codex_home.clone().or_else(|| own_home(environment)),
            runs_tools: config.run_tools_on_this_machine,
            max_threads: config.threads,
            max_line: usize::try_from(limits.response).unwrap_or(usize::MAX),
            patience: timeouts.connect,
            stall: timeouts.idle,
        }
    }

    /// The program.
    pub(crate) fn program(&self) -> &str {
        self.command.first().map_or("", String::as_str)
    }

    /// The folder with its login and its configuration.
    pub(crate) fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    /// The command that starts the process.
    pub(super) fn command(&self, folder: &ChildFolder) -> io::Result<Command> {
        let mut command = self.prepared(folder)?;
        command.args(self.command.iter().skip(1)).args(OVERRIDES);
        if !self.runs_tools {
            command.arg("-c").arg(format!("model_catalog_json={:?}", folder.catalog()));
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(command)
    }

    /// The command that prints the catalog of models which the program has.
    pub(super) fn catalog_command(&self, folder: &ChildFolder) -> io::Result<Command> {
        let mut command = self.prepared(folder)?;
        let words = self.command.iter().skip(1).take_while(|word| *word != "app-server");
        command.args(words).args(["debug", "models", "--bundled"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        Ok(command)
    }

    /// The program in its folders, and with its environment.
    fn prepared(&self, folder: &ChildFolder) -> io::Result<Command> {
        let home = self.home.as_deref().ok_or_else(|| {
            io::Error::other("there is no folder for its files: set codex_home, or HOME in the environment")
        })?;
        private_folder(home)?;
        let mut command = Command::new(self.program());
        command.env_clear().envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.env("CODEX_HOME", home).current_dir(folder.empty());
        command.kill_on_drop(true);
        Ok(command)
    }
}

/// The folder of files for a process that is the gateway's own.
fn own_home(environment: &Environment<'_>) -> Option<PathBuf> {
    let absolute = |path: String| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    let state = environment.get("XDG_STATE_HOME").and_then(absolute);
    let home = || environment.get("HOME").or_else(|| environment.get("USERPROFILE")).and_then(absolute);
    let state = state.or_else(|| home().map(|home| home.join(".local/state")))?;
    Some(state.join("callweave/codex"))
}

/// Makes a folder that only this user can read, unless it is there.
fn private_folder(path: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// A folder for one process, which is removed with this value: an empty one that it works in, and a file for it.
pub(super) struct ChildFolder(PathBuf);

impl ChildFolder {
    pub(super) fn new() -> io::Result<Self> {
        let mut random = [0; 8];
        SystemRandom::new().fill(&mut random).map_err(|_| io::Error::other("there are no random numbers"))?;
        let name = format!("callweave-codex-{:016x}", u64::from_ne_bytes(random));
        let path = std::env::temp_dir().join(name);
        let mut builder = std::fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        // A folder of that name that is there already is somebody else's.
        builder.create(&path)?;
        let folder = Self(path);
        builder.create(folder.empty())?;
        Ok(folder)
    }

    /// The folder that the process works in.
    pub(super) fn empty(&self) -> PathBuf {
        self.0.join("empty")
    }

    /// The file with the catalog of models.
    pub(super) fn catalog(&self) -> PathBuf {
        self.0.join("models.json")
    }
}

impl Drop for ChildFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_gets_listed_variables_and_no_others() {
        let variables = |name: &str| match name {
            "PATH" => Some("/bin".to_owned()),
            "HOME" => Some("/home/me".to_owned()),
            "MY_KEY" | "OTHER" | "OPENAI_API_KEY" | "AWS_SECRET_ACCESS_KEY" => Some("secret".to_owned()),
            _ => None,
        };
        let mut config = UpstreamConfig::codex();
        config.api_key_env = Some("MY_KEY".to_owned());
        config.environment = vec!["OTHER".to_owned(), "PATH".to_owned(), "UNSET".to_owned()];
        let settings = ChildSettings::new(
            "codex",
            &config,
            &Environment::of(variables),
            &LimitsConfig::default(),
            &TimeoutsConfig::default(),
        );
        let names: Vec<_> = settings.variables.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["PATH", "HOME", "OTHER", "MY_KEY"]);
        assert_eq!(settings.home(), Some(Path::new("/home/me/.local/state/callweave/codex")));
    }

    #[test]
    fn an_empty_folder_goes_with_its_value() {
        let folder = ChildFolder::new().expect("a folder");
        let path = folder.empty();
        assert!(path.read_dir().expect("a folder").next().is_none());
        drop(folder);
        assert!(!path.exists());
    }
}
