//! The configuration of the gateway: read from a file, from the environment, or from both.
//!
//! A file says only what differs from the defaults; a word that is not known is an error that names its line. Secrets
//! stand in the environment: the file names the variable.
//!
//! ```
//! use callweave_gateway::config::Config;
//!
//! let config = Config::read(r#"
//!     [upstreams.local]
//!     base_url = "http://127.0.0.1:8000/v1"
//!     dialect = "hermes"
//!
//!     [[models]]
//!     name = "claude-*"
//!     upstream = "local"
//!     model = "qwen3"
//! "#)?;
//! assert_eq!(config.upstreams["local"].dialect, "hermes");
//! assert!(Config::read("lissten = 1").is_err());
//! # Ok::<(), callweave_gateway::config::ConfigProblem>(())
//! ```

mod address;
mod document;
mod environment;
mod names;
mod nearest;
mod problem;
mod rules;
mod seconds;
mod upstream;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use callweave::exchange::RequestLimits;
use serde::Deserialize;

pub use address::{completed_url, listen_address, listen_host};
pub(crate) use address::{ip, unmapped};
pub use environment::Environment;
pub(crate) use names::{NameTable, NamedTarget};
pub use nearest::nearest;
use problem::ConfigOrigin;
pub use problem::ConfigProblem;
pub use upstream::UpstreamConfig;

/// The port that is listened on if nobody says: `call` on a telephone's keys.
pub const PORT: u16 = 2255;

/// The name of the upstream that plays scripts and needs no network.
pub const DEMO: &str = "demo";

/// The name of the upstream that `--codex` adds.
pub const CODEX: &str = "codex";

/// All that can be chosen.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Config {
    /// The address to listen on.
    #[serde(deserialize_with = "address::deserialize")]
    pub listen: SocketAddr,
    /// Whether other machines may connect although no keys are asked of clients.
    pub allow_open: bool,
    /// The SHA-256 digests of the keys that clients must show, as `sha256:…`. Without any, everybody is served.
    pub client_keys: Vec<String>,
    /// The hosts that clients may know the gateway by, besides this machine's own names: `gateway.example`,
    /// `*.example`, `*`. They are not asked for where clients need a key.
    pub allowed_hosts: Vec<String>,
    /// The pages that may ask, by their origins: `https://app.example`, `http://localhost:*`, a scheme such as
    /// `vscode-webview:`, `null`, `*`.
    pub allowed_origins: Vec<String>,
    /// Whether the scripted models are served, as the upstream `demo`.
    pub demo: bool,
    /// The upstreams, by name.
    pub upstreams: BTreeMap<String, UpstreamConfig>,
    /// The names that clients use, in order; the first that fits counts.
    pub models: Vec<ModelConfig>,
    /// The upstream for names that nothing else matches.
    pub default_upstream: Option<String>,
    /// The limits on requests and responses.
    pub limits: LimitsConfig,
    /// The timeouts.
    pub timeouts: TimeoutsConfig,
    /// Storage of responses that clients may refer to.
    pub store: StoreConfig,
    /// The folder that the raw traffic is written to, if it is.
    pub record: Option<PathBuf>,
    /// Certificates of authorities that are trusted besides the usual ones, in PEM; else those of `SSL_CERT_FILE`.
    pub ca_file: Option<PathBuf>,
    /// The origin of the values.
    #[serde(skip)]
    origin: ConfigOrigin,
}

/// A name that clients use, and its upstream.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ModelConfig {
    /// The name; with a `*` at its end, how names begin.
    pub name: String,
    /// Other names for the same.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// The upstream that serves the model.
    pub upstream: String,
    /// The upstream's name of the model; the client's name if absent.
    pub model: Option<String>,
    /// Names to try, in order, if this one fails.
    #[serde(default)]
    pub fallbacks: Vec<String>,
}

/// The limits on requests and responses.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct LimitsConfig {
    /// Bytes of a request as it comes.
    pub body: usize,
    /// Bytes of a request after it was decompressed.
    pub decompressed: usize,
    /// Bytes of a response that is read complete.
    #[serde(alias = "answer")]
    pub response: u64,
    /// Requests that are answered at the same time.
    pub concurrent: usize,
    /// Bytes of the arguments of one call.
    pub arguments: usize,
    /// Headers of a request.
    pub headers: usize,
    /// Steps that the schema of a tool may make of one call; a call that would take more is passed on unchecked.
    pub schema_steps: u64,
    /// JSON values in a request, or in the conversation that it continues.
    pub values: usize,
    /// Messages, likewise.
    pub messages: usize,
    /// Parts of messages, likewise.
    pub parts: usize,
    /// Tools that a request declares.
    pub tools: usize,
    /// Bytes of a decompressed request for each byte of it that was sent.
    pub ratio: usize,
    /// Members or frames of a compressed request.
    pub members: usize,
    /// Bytes of all requests that are held at the same time.
    pub in_flight: usize,
    /// Connections of clients.
    pub connections: usize,
}

impl LimitsConfig {
    /// The limits of one request.
    pub(crate) fn request(&self) -> RequestLimits {
        let mut limits = RequestLimits::default();
        limits.bytes = self.decompressed;
        limits.values = self.values;
        limits.messages = self.messages;
        limits.parts = self.parts;
        limits.tools = self.tools;
        limits
    }
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self {
            body: 32 << 20,
            decompressed: 64 << 20,
            response: 64 << 20,
            concurrent: 4096,
            arguments: 8 << 20,
            headers: 100,
            schema_steps: callweave::json::schema::StepBudget::STEPS,
            values: 200_000,
            messages: 10_000,
            parts: 20_000,
            tools: 2_000,
            ratio: 100,
            members: 1_000,
            in_flight: 512 << 20,
            connections: 8192,
        }
    }
}

/// The timeouts; in seconds in the file.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct TimeoutsConfig {
    /// For the connection to an upstream.
    #[serde(with = "seconds")]
    pub connect: Duration,
    /// For the first byte of its response.
    #[serde(with = "seconds")]
    pub first_byte: Duration,
    /// For the next bytes of a stream, and for a client to take them.
    #[serde(with = "seconds")]
    pub idle: Duration,
    /// For a response from its request to its end, with all its attempts.
    #[serde(with = "seconds", alias = "answer")]
    pub response: Duration,
    /// For a complete request of a client, headers and body.
    #[serde(with = "seconds")]
    pub request: Duration,
    /// The silence after which the client gets a keep-alive.
    #[serde(with = "seconds")]
    pub keep_alive: Duration,
    /// For responses under way when the gateway shuts down.
    #[serde(with = "seconds")]
    pub shutdown: Duration,
}

impl Default for TimeoutsConfig {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(300),
            idle: Duration::from_secs(120),
            response: Duration::from_secs(3600),
            request: Duration::from_secs(60),
            keep_alive: Duration::from_secs(15),
            shutdown: Duration::from_secs(30),
        }
    }
}

/// Storage of responses that clients may refer to.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct StoreConfig {
    /// The maximum number of responses.
    #[serde(alias = "answers")]
    pub responses: usize,
    /// The maximum number of their bytes.
    pub bytes: usize,
    /// The maximum number of bytes of provider seals: signatures and encrypted reasoning that clients of other
    /// protocols have no place for.
    pub seal_bytes: usize,
    /// For how long; in seconds in the file.
    #[serde(with = "seconds")]
    pub expiry: Duration,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            responses: 10_000,
            bytes: 256 << 20,
            seal_bytes: 64 << 20,
            expiry: Duration::from_secs(24 * 60 * 60),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], PORT)),
            allow_open: false,
            client_keys: Vec::new(),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            demo: false,
            upstreams: BTreeMap::new(),
            models: Vec::new(),
            default_upstream: None,
            limits: LimitsConfig::default(),
            timeouts: TimeoutsConfig::default(),
            store: StoreConfig::default(),
            record: None,
            ca_file: None,
            origin: ConfigOrigin::default(),
        }
    }
}

impl Config {
    /// Reads the text of a file, and checks it. The environment is not asked.
    pub fn read(text: &str) -> Result<Self, ConfigProblem> {
        let (mut config, found) = document::read(text);
        if config.demo {
            config.add_demo();
        }
        match (found, config.check()) {
            (None, checked) => checked.map(|()| config),
            (Some(found), Ok(())) => Err(found),
            (Some(found), Err(meant)) => Err(found.and(meant)),
        }
    }

    /// Reads a file, and checks it.
    pub fn load(path: &Path) -> Result<Self, ConfigProblem> {
        let config = Self::open(path)?;
        config.check().map(|()| config)
    }

    /// Reads a file. Its meaning is checked when a gateway is made of it: it may be changed before.
    pub fn open(path: &Path) -> Result<Self, ConfigProblem> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| ConfigProblem::new(format!("{}: {error}", path.display())))?;
        let (mut config, found) = document::read(&text);
        config.origin.set_file(path);
        if config.demo {
            config.add_demo();
        }
        let Some(found) = found else { return Ok(config) };
        let found = found.in_file(path);
        Err(match config.check() {
            Ok(()) => found,
            Err(meant) => found.and(meant),
        })
    }

    /// One upstream for every name, as the command line names it.
    pub fn with_upstream(upstream: UpstreamConfig) -> Self {
        let mut config = Self::default();
        config.upstreams.insert("upstream".to_owned(), upstream);
        config.default_upstream = Some("upstream".to_owned());
        config
    }

    /// Lets every name mean one model of the upstream for every name.
    pub fn route_all_to(&mut self, model: impl Into<String>) {
        let Some(upstream) = self.default_upstream.clone() else { return };
        let (name, model) = ("*".to_owned(), Some(model.into()));
        self.models.push(ModelConfig { name, aliases: Vec::new(), upstream, model, fallbacks: Vec::new() });
    }

    /// Serves the scripted models, too, unless there is an upstream of that name.
    pub fn add_demo(&mut self) {
        self.demo = true;
        self.upstreams.entry(DEMO.to_owned()).or_insert_with(UpstreamConfig::demo);
    }

    /// Asks a Codex app-server, too, unless there is an upstream of that name; for every name that nobody else answers
    /// to.
    pub fn add_codex(&mut self) {
        self.upstreams.entry(CODEX.to_owned()).or_insert_with(UpstreamConfig::codex);
        self.default_upstream.get_or_insert_with(|| CODEX.to_owned());
    }

    /// Checks the configuration: all problems are reported at once, with their lines.
    pub fn check(&self) -> Result<(), ConfigProblem> {
        self.origin.problem(self.flaws())
    }

    /// Returns doubts about a configuration that can be served: missing keys, and settings that are not sent.
    pub fn warnings(&self, environment: &Environment<'_>) -> Vec<String> {
        let doubtful = self.origin.problem(self.doubts(environment)).err();
        doubtful.iter().flat_map(ConfigProblem::lines).collect()
    }

    /// Describes the machines it listens for.
    pub fn reach(&self) -> String {
        let machines = if self.listen.ip().is_loopback() { "this machine only" } else { "every machine" };
        match self.client_keys.len() {
            0 if self.listen.ip().is_loopback() => machines.to_owned(),
            0 => format!("{machines}, without a key"),
            1 => format!("{machines}, with the one key"),
            keys => format!("{machines}, with one of {keys} keys"),
        }
    }

    /// Returns the problem with the value of a key in the file, with its line.
    pub(crate) fn problem(&self, path: &str, what: impl Into<String>) -> ConfigProblem {
        let problem = self.origin.problem(vec![problem::ConfigFlaw::new(path, what)]);
        problem.err().unwrap_or_else(|| ConfigProblem::new(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_word_is_named_with_its_line() {
        let problem = Config::read("listen = \"127.0.0.1:1\"\n[limits]\nbodi = 3\n").expect_err("a typo");
        assert!(problem.to_string().starts_with("line 3: unknown field `bodi`"), "{problem}");
    }

    #[test]
    fn other_machines_are_let_in_only_with_keys_or_on_purpose() {
        let open = "listen = \"0.0.0.0:1\"\n";
        assert!(Config::read(open).is_err());
        assert!(Config::read(&format!("{open}allow_open = true")).is_ok());
        let key = "ab".repeat(32);
        assert!(Config::read(&format!("{open}client_keys = [\"sha256:{key}\"]")).is_ok());
        assert!(Config::read("client_keys = [\"secret\"]").is_err());
    }

    #[test]
    fn what_is_named_must_exist() {
        assert!(Config::read("[[models]]\nname = \"a\"\nupstream = \"none\"").is_err());
        assert!(Config::read("default_upstream = \"none\"").is_err());
        assert!(Config::read("[upstreams.a]\nbase_url = \"http://h\"\ndialect = \"klingon\"").is_err());
        assert!(Config::read("[upstreams.a]\nbase_url = \"http://h\"\nprotocol = \"smtp\"").is_err());
        assert!(Config::read("[upstreams.a]\nbase_url = \"ftp://h\"").is_err());
    }

    #[test]
    fn durations_are_seconds() {
        let config = Config::read("[timeouts]\nidle = 0.5").expect("valid");
        assert_eq!(config.timeouts.idle, Duration::from_millis(500));
    }
}
