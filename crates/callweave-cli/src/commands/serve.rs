//! `callweave serve`: the gateway between agents and models.

use std::fmt::Write as _;
use std::io::{ErrorKind, IsTerminal, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use callweave::exchange::http::shown_url;
use callweave::protocol::Protocol;
use callweave_gateway::config::{
    Config, Environment, UpstreamConfig, completed_url, listen_address, listen_host,
};
use callweave_gateway::{Gateway, Server};
use clap::Args;
use tokio::sync::Notify;

use crate::commands::decode::unknown_protocol;
use crate::log::{LogOutput, PlainFields};
use crate::report::print_warning;

/// Serve any client from any model, with valid tool calls
#[derive(Args)]
#[command(after_help = "\
Examples:
  callweave serve                            every provider with a key in a variable
  callweave serve --demo                     scripted models, without a network
  callweave serve --upstream localhost:8000  in front of a local server
  callweave serve --codex                    in front of Codex
  callweave serve --upstream http://host/v1 --dialect hermes --port 8080
  callweave serve --config gateway.toml      see callweave check

Without a file, an upstream and a provider's variable, scripted models are served.

Whose key goes to an upstream: the one that the configuration names; if it names none, the client's own, unless that
is a key of this gateway's.")]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    sources: ConfigSources,
    /// Let other machines connect although clients need no key
    #[arg(long)]
    allow_open: bool,
    /// Write the raw traffic of upstreams into this folder
    #[arg(long, value_name = "FOLDER")]
    record: Option<PathBuf>,
    /// How the log is written
    #[arg(long, value_name = "FORM", default_value = "text")]
    log: LogForm,
}

/// The form of the log.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(super) enum LogForm {
    /// For people
    Text,
    /// One JSON object per line
    Json,
    /// Not at all
    None,
}

/// Where a configuration comes from.
#[derive(Args)]
pub(crate) struct ConfigSources {
    /// The configuration
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Where to listen: an address, a port, or both; else 127.0.0.1:2255
    #[arg(long, value_name = "ADDRESS", value_parser = listen_address)]
    pub(super) listen: Option<SocketAddr>,
    /// The port to listen on
    #[arg(long, value_name = "PORT")]
    pub(super) port: Option<u16>,
    /// The address to listen on; 0.0.0.0 for other machines
    #[arg(long, value_name = "ADDRESS", value_parser = listen_host)]
    host: Option<IpAddr>,
    /// Answer for this host, too, where clients need no key; may be repeated
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,
    /// Let pages of this origin ask; may be repeated
    #[arg(long, value_name = "ORIGIN")]
    allow_origin: Vec<String>,
    /// Serve the scripted models, too, as demo/NAME
    #[arg(long)]
    pub(super) demo: bool,
    /// Ask Codex for every model that nobody else has; see docs/codex.md
    #[arg(long)]
    pub(super) codex: bool,
    /// Ask this server for every model, without a configuration
    #[arg(long, value_name = "URL", conflicts_with = "config")]
    pub(super) upstream: Option<String>,
    /// The protocol that it speaks; see callweave protocols
    #[arg(long, value_name = "NAME", requires = "upstream")]
    upstream_protocol: Option<String>,
    /// How calls are read from its text: auto, a dialect, model, or none
    #[arg(long, value_name = "NAME", requires = "upstream")]
    dialect: Option<String>,
    /// The environment variable that holds its key; else the client's own is sent on
    #[arg(long, alias = "key-env", value_name = "VARIABLE", requires = "upstream")]
    api_key_env: Option<String>,
}

impl ConfigSources {
    /// The configuration.
    pub(crate) fn config(&self) -> Result<Config> {
        let mut config = match (&self.config, &self.upstream) {
            (Some(path), _) => Config::open(path)?,
            (None, Some(url)) => {
                let mut upstream = UpstreamConfig::default();
                upstream.base_url = completed_url(url);
                if let Some(name) = &self.upstream_protocol {
                    let Some(protocol) = Protocol::named(name) else {
                        bail!("{}", unknown_protocol(name));
                    };
                    upstream.protocol = protocol.name.to_owned();
                }
                upstream.api_key_env.clone_from(&self.api_key_env);
                if let Some(dialect) = &self.dialect {
                    upstream.dialect.clone_from(dialect);
                }
                Config::with_upstream(upstream)
            }
            // Without another word, Codex alone is meant.
            (None, None) if self.codex => Config::default(),
            (None, None) => Environment::process().config(),
        };
        if let Some(listen) = self.listen {
            config.listen = listen;
        }
        if let Some(host) = self.host {
            config.listen.set_ip(host);
        }
        if let Some(port) = self.port {
            config.listen.set_port(port);
        }
        config.allowed_hosts.extend(self.allow_host.iter().cloned());
        config.allowed_origins.extend(self.allow_origin.iter().cloned());
        if self.demo {
            config.add_demo();
        }
        if self.codex {
            config.add_codex();
        }
        Ok(config)
    }
}

impl ServeArgs {
    pub(crate) fn run(&self) -> Result<()> {
        let mut config = self.sources.config()?;
        config.allow_open |= self.allow_open;
        config.record = self.record.clone().or(config.record);
        let log = LogOutput::new()?;
        begin_log(&log, self.log, std::io::stderr().is_terminal())?;
        let gateway = Gateway::new(config, &Environment::process())?;
        gateway.warnings().iter().for_each(|warning| print_warning(warning));
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let served = runtime.block_on(async {
            let listen = gateway.config().listen;
            let server = Server::bind(gateway.clone()).await;
            let is_taken = server.as_ref().is_err_and(|error| error.kind() == ErrorKind::AddrInUse);
            let server = server.with_context(|| match is_taken {
                true => format!(
                    "cannot listen on {listen}, where somebody else does; use --port for another port"
                ),
                false => format!("cannot listen on {listen}"),
            })?;
            tokio::spawn(gateway.clone().find_out_providers());
            // A closed standard output does not stop the server.
            let _ = write!(anstream::stdout(), "{}", greeting(gateway.config(), server.address()?));
            let _ = std::io::stdout().flush();
            let mut signals = ExitSignals::new()?;
            let (first, second) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
            let (stop, hurry) = (Arc::clone(&first), Arc::clone(&second));
            tokio::spawn(async move {
                signals.next().await;
                first.notify_one();
                signals.next().await;
                second.notify_one();
            });
            server.run_until(stop.notified(), hurry.notified()).await;
            Ok(())
        });
        log.finish();
        served
    }
}

/// Writes what the gateway reports to a log, from the level on that `CALLWEAVE_LOG` says.
pub(super) fn begin_log(log: &LogOutput, form: LogForm, is_terminal: bool) -> Result<()> {
    let level = match std::env::var("CALLWEAVE_LOG").ok().filter(|level| !level.is_empty()) {
        None => tracing::Level::INFO,
        Some(name) => match name.parse() {
            Ok(level) => level,
            Err(_) => bail!("CALLWEAVE_LOG: {name:?} is not error, warn, info, debug or trace"),
        },
    };
    let builder = tracing_subscriber::fmt().with_max_level(level).with_writer(log.clone());
    let builder = builder.with_target(false).with_ansi(is_terminal);
    match form {
        LogForm::Text => builder.fmt_fields(PlainFields).init(),
        LogForm::Json => builder.json().flatten_event(true).init(),
        LogForm::None => {}
    }
    Ok(())
}

/// Says what is served, and how to try it.
fn greeting(config: &Config, address: SocketAddr) -> String {
    let mut text = format!("callweave serves http://{address} for {}\n", config.reach());
    for (name, upstream) in &config.upstreams {
        let what = match upstream.is_demo() {
            true => "scripted models, no network".to_owned(),
            false if upstream.is_codex() => format!("Codex, by {}", upstream.command.join(" ")),
            false => {
                let spoken: Vec<&str> = upstream.spoken().iter().map(|protocol| protocol.name).collect();
                format!("{} at {}", spoken.join(" or "), shown_url(&upstream.base_url))
            }
        };
        let _ = writeln!(text, "  {name}/…  {what}");
    }
    for model in &config.models {
        let own = model.model.as_deref().unwrap_or("the same name");
        let _ = writeln!(text, "  {}  {} as {own}", model.name, model.upstream);
    }
    if let Some(name) = &config.default_upstream {
        let _ = writeln!(text, "  any other name  {name}");
    }
    if let Some(folder) = &config.record {
        let _ = writeln!(text, "  records every conversation in {}", folder.display());
    }
    let url = format!("http://{address}/v1");
    match config.upstreams.values().any(UpstreamConfig::is_demo) {
        true => {
            let json = "-H 'content-type: application/json'";
            let _ = writeln!(text, "try it:\n  curl -sN {url}/chat/completions {json} -d '{TRY}'");
        }
        false => {
            let _ = writeln!(text, "try it:\n  curl -s {url}/models");
        }
    }
    text
}

/// A request that shows a call in text becoming a call.
const TRY: &str = r#"{"model": "demo/hermes", "stream": true, "messages": [{"role": "user", "content": "Weather in Oslo?"}], "tools": [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}]}"#;

/// The signals that ask the program to end; the second says that it takes too long.
struct ExitSignals {
    #[cfg(unix)]
    interrupted: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminated: tokio::signal::unix::Signal,
}

impl ExitSignals {
    #[cfg(unix)]
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupted: signal(SignalKind::interrupt())?,
            terminated: signal(SignalKind::terminate())?,
        })
    }

    #[cfg(not(unix))]
    fn new() -> std::io::Result<Self> {
        Ok(Self {})
    }

    /// Waits for the next one.
    async fn next(&mut self) {
        #[cfg(unix)]
        tokio::select! {
            _ = self.interrupted.recv() => {}
            _ = self.terminated.recv() => {}
        }
        #[cfg(not(unix))]
        let _ = tokio::signal::ctrl_c().await;
    }
}
