//! Explains a configuration, and tries whether upstreams can be reached.

use std::fmt::Write;
use std::time::{Duration, Instant};

use callweave::exchange::http::shown_url;
use callweave::exchange::{InvalidCalls, SchemaMode, StopMode, StopPolicy, ToolTeaching};

use crate::codex::CodexBackend;
use crate::gateway::Gateway;
use crate::upstream::Upstream;
use crate::{demo, models};

/// The time an upstream has to respond.
const PATIENCE: Duration = Duration::from_secs(5);

/// The findings about an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamProbe {
    /// The upstream.
    pub upstream: String,
    /// The number of its models and the time it took to list them; else the problem.
    pub found: Result<(usize, Duration), String>,
    /// The provider whose model list it seems to have.
    pub provider: Option<&'static str>,
}

impl Gateway {
    /// Describes the configuration in words: the served models, and the treatment of responses.
    pub fn explain(&self) -> String {
        let config = &self.config;
        let mut text = String::new();
        let _ = writeln!(text, "listens on {}, for {}", config.listen, config.reach());
        for upstream in self.routes.upstreams() {
            let _ = writeln!(text, "\nupstream {}", upstream.name);
            describe(upstream, &mut text);
        }
        let _ = writeln!(text, "\nmodels");
        for model in &config.models {
            let names = std::iter::once(&model.name).chain(&model.aliases).map(String::as_str);
            let names = names.collect::<Vec<_>>().join(", ");
            let own = model.model.as_deref().unwrap_or("the same name");
            let _ = write!(text, "  {names}: {} as {own}", model.upstream);
            if !model.fallbacks.is_empty() {
                let _ = write!(text, ", else {}", model.fallbacks.join(", else "));
            }
            text.push('\n');
        }
        let _ = writeln!(text, "  UPSTREAM/MODEL: that upstream");
        if let Some(name) = &config.default_upstream {
            let _ = writeln!(text, "  any other: {name}");
        }
        let timeouts = &config.timeouts;
        let _ = writeln!(
            text,
            "\nwaits {:?} for a connection, {:?} for the first byte, {:?} for the next, {:?} for all of an answer, and pings \
             after {:?}",
            timeouts.connect, timeouts.first_byte, timeouts.idle, timeouts.response, timeouts.keep_alive
        );
        let limits = &config.limits;
        let _ = writeln!(
            text,
            "takes {} bytes of a request ({} unpacked), {} of arguments, {} answers at once",
            limits.body, limits.decompressed, limits.arguments, limits.concurrent
        );
        if let Some(file) = &config.ca_file {
            let _ = writeln!(text, "trusts the authorities in {}, too", file.display());
        }
        if let Some(folder) = &config.record {
            let _ = writeln!(text, "records every conversation in {}", folder.display());
        }
        for (what, all) in [("hosts", &config.allowed_hosts), ("pages", &config.allowed_origins)] {
            if !all.is_empty() {
                let _ = writeln!(text, "lets in other {what}: {}", all.join(", "));
            }
        }
        for warning in self.warnings() {
            let _ = writeln!(text, "warning: {warning}");
        }
        text
    }

    /// Asks every upstream for its models.
    pub async fn probe(&self) -> Vec<UpstreamProbe> {
        let mut probes = Vec::new();
        for upstream in self.routes.upstreams() {
            let began = Instant::now();
            let mut provider = None;
            let found = match upstream.config.is_demo() {
                true => Ok((demo::models().count(), Duration::ZERO)),
                false => match tokio::time::timeout(PATIENCE, models::ask(self, upstream, None)).await {
                    Ok(listed) => listed.map(|models| {
                        provider = models.provider.map(|provider| provider.name);
                        (models.names.len(), began.elapsed())
                    }),
                    Err(_) => Err(format!("no answer within {PATIENCE:?}")),
                },
            };
            probes.push(UpstreamProbe { upstream: upstream.name.clone(), found, provider });
        }
        probes
    }
}

fn describe_codex(codex: &CodexBackend, runs_tools: bool, text: &mut String) {
    let settings = codex.settings();
    let program = settings.program();
    let _ = writeln!(text, "  a Codex app-server: the program {program:?}, started by the first request");
    match settings.home() {
        Some(home) => {
            let home = home.display();
            let _ = writeln!(text, "  its files: {home}; to log in: CODEX_HOME={home} codex login");
        }
        None => text.push_str("  its files: nowhere, since HOME is not set; set codex_home\n"),
    }
    let tools = match runs_tools {
        true => "run on this machine, in its sandbox for reading; approvals are refused",
        false => "off",
    };
    let _ = writeln!(text, "  its own tools: {tools}");
}

fn describe(upstream: &Upstream, text: &mut String) {
    let config = &upstream.config;
    match (upstream.codex(), config.is_demo()) {
        (Some(codex), _) => describe_codex(codex, config.run_tools_on_this_machine, text),
        (None, true) => text.push_str("  scripted models; needs no network and no key\n"),
        (None, false) => {
            let spoken = config.spoken();
            let names: Vec<&str> = spoken.iter().map(|protocol| protocol.name).collect();
            let _ = writeln!(text, "  {} at {}", names.join(" or "), shown_url(&config.base_url));
            if spoken.len() > 1 {
                text.push_str(
                    "  protocol: the client's own if it is among these and answered, else the first\n",
                );
            }
            let key = match (&config.api_key_env, upstream.has_key()) {
                (Some(variable), true) => format!("the one in {variable}"),
                (Some(variable), false) => format!("none: {variable} is not set"),
                (None, _) => "the client's own".to_owned(),
            };
            let _ = writeln!(text, "  key: {key}");
            if let Some(provider) = config.known_provider() {
                let _ = writeln!(text, "  requests: by the rules of {}", provider.name);
            }
        }
    }
    let dialect = match config.dialect.as_str() {
        "none" => "is not searched for calls".to_owned(),
        "auto" => "is searched for calls in every dialect".to_owned(),
        "model" => "is searched for calls in the dialect of the model, if its name tells".to_owned(),
        name => format!("is searched for calls in {name}"),
    };
    let reasoning = if config.splits_reasoning() { "taken out of it" } else { "left in it" };
    let _ = writeln!(text, "  text: {dialect}; thoughts are {reasoning}");
    let tools = match config.tools {
        ToolTeaching::Native => "declared as its protocol has it",
        ToolTeaching::Prompt => "taught in the prompt",
    };
    let _ = writeln!(text, "  tools: {tools}");
    let repair = if config.repair { "repaired" } else { "left as they are" };
    let schema = match config.schema {
        SchemaMode::Off => "not checked",
        SchemaMode::Validate => "checked against their schemas",
        SchemaMode::Coerce => "fitted to their schemas and checked",
    };
    let invalid = match config.invalid {
        InvalidCalls::Pass => "is passed on".to_owned(),
        InvalidCalls::Error => "is an error".to_owned(),
        InvalidCalls::Reask => format!("is sent back to the model, {} times at most", config.reask),
    };
    let _ = writeln!(text, "  arguments: {repair}, {schema}; a call that cannot be run {invalid}");
    let stop = &upstream.engine().policy().stop;
    let StopPolicy { suppress_tail, parallel, .. } = *stop;
    let stop = match stop.active_mode() {
        None => "never".to_owned(),
        Some(StopMode::First) => {
            format!("at the end of the first call, or {:?} after it is complete", stop.grace())
        }
        Some(StopMode::All) => format!("{:?} after the last call", stop.grace()),
    };
    let _ = writeln!(text, "  stopped: {stop}");
    if suppress_tail == Some(true) {
        text.push_str("  what is said after calls is left out\n");
    }
    if let Some(parallel) = parallel {
        let _ = writeln!(text, "  parallel calls: {}", if parallel { "asked for" } else { "asked not to" });
    }
    if upstream.engine().is_plain() {
        text.push_str("  clients of the same protocol get its bytes as they are\n");
    }
}
