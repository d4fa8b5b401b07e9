//! `callweave serve`: the gateway between agents and models.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use callweave::protocol::Protocol;
use callweave_gateway::config::{Config, Environment, Upstream};
use callweave_gateway::{Gateway, Server};
use clap::Args;

use crate::log::{self, Plain};

/// Serve any client from any model, with valid tool calls
#[derive(Args)]
#[command(after_help = "\
Examples:
  callweave serve                                          scripted models, and whoever the environment has keys for
  callweave serve --upstream http://127.0.0.1:11434/v1     in front of a local server
  callweave serve --upstream http://127.0.0.1:8000/v1 --dialect hermes
  callweave serve --config gateway.toml                    see callweave check --config gateway.toml

Whose key goes to an upstream: the one that the configuration names; if it names none, the client's own, unless that
is a key of this gateway's.")]
pub(crate) struct Serve {
    #[command(flatten)]
    sources: Sources,
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

/// How the log is written.
#[derive(Clone, Copy, clap::ValueEnum)]
enum LogForm {
    /// For people
    Text,
    /// One JSON object per line
    Json,
    /// Not at all
    None,
}

/// Where a configuration comes from.
#[derive(Args)]
pub(crate) struct Sources {
    /// The configuration
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Where to listen; else 127.0.0.1:2255
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Ask this server for every model, without a configuration
    #[arg(long, value_name = "URL", conflicts_with = "config")]
    upstream: Option<String>,
    /// The protocol that it speaks; see callweave protocols
    #[arg(long, value_name = "NAME", requires = "upstream")]
    upstream_protocol: Option<String>,
    /// How calls are read from its text: auto, a dialect, model, or none
    #[arg(long, value_name = "NAME", requires = "upstream")]
    dialect: Option<String>,
    /// The environment variable that holds its key; else the client's own is sent on
    #[arg(long, value_name = "VARIABLE", requires = "upstream")]
    key_env: Option<String>,
}

impl Sources {
    /// The configuration.
    pub(crate) fn config(&self) -> Result<Config> {
        let mut config = match (&self.config, &self.upstream) {
            (Some(path), _) => Config::load(path)?,
            (None, Some(url)) => {
                let name = self.upstream_protocol.as_deref().unwrap_or("openai-chat");
                let Some(protocol) = Protocol::named(name) else {
                    bail!("no protocol is called {name:?}; see callweave protocols");
                };
                let mut upstream = Upstream::at(url, protocol);
                upstream.key_env.clone_from(&self.key_env);
                if let Some(dialect) = &self.dialect {
                    upstream.dialect.clone_from(dialect);
                }
                Config::with_upstream(upstream)
            }
            (None, None) => Environment::process().config(),
        };
        if let Some(listen) = self.listen {
            config.listen = listen;
        }
        Ok(config)
    }
}

impl Serve {
    pub(crate) fn run(&self) -> Result<()> {
        let mut config = self.sources.config()?;
        config.allow_open |= self.allow_open;
        config.record = self.record.clone().or(config.record);
        self.begin_log();
        let gateway = Gateway::new(config, &Environment::process())?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(async {
            let listen = gateway.config().listen;
            let server = Server::bind(gateway.clone()).await;
            let server = server.with_context(|| format!("cannot listen on {listen}"))?;
            greet(gateway.config(), server.address()?);
            server.run(stopped()).await;
            Ok(())
        })
    }

    fn begin_log(&self) {
        let filter = std::env::var("CALLWEAVE_LOG").ok().and_then(|level| level.parse().ok());
        let level = filter.unwrap_or(tracing::Level::INFO);
        let builder = tracing_subscriber::fmt().with_max_level(level).with_writer(log::writer());
        let is_terminal = std::io::stderr().is_terminal();
        let builder = builder.with_target(false).with_ansi(is_terminal);
        match self.log {
            LogForm::Text if is_terminal => builder.init(),
            LogForm::Text => builder.fmt_fields(Plain).init(),
            LogForm::Json => builder.json().flatten_event(true).init(),
            LogForm::None => {}
        }
    }
}

/// Says what is served, and how to try it.
fn greet(config: &Config, address: SocketAddr) {
    let reach = match (address.ip().is_loopback(), config.client_keys.len()) {
        (true, 0) => "this machine only".to_owned(),
        (_, 0) => "every machine, without a key".to_owned(),
        (true, keys) => format!("this machine only, with one of {keys} keys"),
        (false, keys) => format!("every machine, with one of {keys} keys"),
    };
    anstream::println!("callweave serves http://{address} for {reach}");
    for (name, upstream) in &config.upstreams {
        let what = match upstream.is_demo() {
            true => "scripted models, no network".to_owned(),
            false => format!("{} at {}", upstream.protocol, upstream.url),
        };
        anstream::println!("  {name}/…  {what}");
    }
    for model in &config.models {
        let own = model.model.as_deref().unwrap_or("the same name");
        anstream::println!("  {}  {} as {own}", model.name, model.upstream);
    }
    if let Some(name) = &config.default_upstream {
        anstream::println!("  any other name  {name}");
    }
    if let Some(folder) = &config.record {
        anstream::println!("  records every conversation in {}", folder.display());
    }
    anstream::println!(
        "try it:\n  curl -sN http://{address}/v1/chat/completions -H 'content-type: application/json' -d '{TRY}'"
    );
}

/// A request that shows a call in text becoming a call.
const TRY: &str = r#"{"model": "demo/hermes", "stream": true, "messages": [{"role": "user", "content": "Weather in Oslo?"}], "tools": [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}]}"#;

/// Waits until somebody wants the program to end.
async fn stopped() {
    let interrupted = tokio::signal::ctrl_c();
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let Ok(mut terminated) = signal(SignalKind::terminate()) else {
            let _ = interrupted.await;
            return;
        };
        tokio::select! {
            _ = interrupted => {}
            _ = terminated.recv() => {}
        }
    }
    #[cfg(not(unix))]
    {
        let _ = interrupted.await;
    }
}
