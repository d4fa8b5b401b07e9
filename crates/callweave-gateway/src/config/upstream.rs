//! One upstream, and the treatment of its responses.

use std::path::PathBuf;

use callweave::exchange::{ExchangePolicy, InvalidCalls, SchemaMode, StopMode, StopPolicy, ToolTeaching};
use callweave::protocol::{self, Protocol};
use callweave::provider::{self, Provider};
use serde::Deserialize;

use super::LimitsConfig;

/// One upstream. A provider is a row of this.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct UpstreamConfig {
    /// Its base URL: `http://127.0.0.1:8000/v1`; `demo:` for scripted models. The part behind a `?` is sent with every
    /// request.
    #[serde(alias = "url")]
    pub base_url: String,
    /// The command of a Codex app-server that is asked in place of a server: `["codex", "app-server"]`.
    pub command: Vec<String>,
    /// The `CODEX_HOME` of that process; by default a folder of its own, which has no configuration of the user's.
    pub codex_home: Option<PathBuf>,
    /// Further environment variables that the process gets, by their names; it gets few others.
    pub environment: Vec<String>,
    /// The maximum number of requests that the process serves at the same time; others wait.
    pub threads: usize,
    /// Whether Codex may run its own tools (commands, files, the web) on this machine. Clients need keys then.
    pub run_tools_on_this_machine: bool,
    /// The protocol it speaks; if neither this nor `protocols` is set, it is found out which it speaks.
    pub protocol: String,
    /// The protocols it speaks, in place of `protocol`: a client's own is preferred, the first is asked in else.
    pub protocols: Vec<String>,
    /// The environment variable that holds its key. Where none is named, the client's own key is sent on.
    #[serde(alias = "key_env")]
    pub api_key_env: Option<String>,
    /// The provider whose rules requests must keep, where the protocol is spoken by many.
    pub provider: Option<String>,
    /// The models it has, for lists; it is asked for them if none are named.
    pub models: Vec<String>,
    /// The dialect in which calls are read from its text: `auto`, a dialect's name, `model` for the dialect of the
    /// model, `none`.
    pub dialect: String,
    /// Whether reasoning is taken out of its text; it is if its text is read at all.
    pub reasoning: Option<bool>,
    /// The way in which it learns of tools.
    pub tools: ToolTeaching,
    /// Whether arguments that are not quite JSON are repaired.
    pub repair: bool,
    /// The treatment of tool schemas.
    pub schema: SchemaMode,
    /// The treatment of calls that stay invalid.
    pub invalid: InvalidCalls,
    /// The maximum number of times that the model is asked again.
    #[serde(alias = "ask_again")]
    pub reask: u32,
    /// The maximum number of retries of a request that failed before the first byte of its response.
    pub retries: u32,
    /// The number of retries for each request that is sent; ten are always saved up at first.
    pub retry_share: f64,
    /// Whether a request is sent again whose response came, but broke off or cannot be read: it may be paid twice.
    pub retry_broken: bool,
    /// Whether an upstream that speaks the Responses API keeps its responses, so that it follows `previous_response_id`
    /// itself; OpenAI and Azure do, others do not unless this says so.
    pub keeps_responses: Option<bool>,
    /// Whether provider seals ride in the ids of calls, for clients whose requests reach several gateways.
    pub seals_in_ids: bool,
    /// Whether it is stopped after calls; it is not if nobody says.
    pub stop_after_tools: Option<bool>,
    /// After which call.
    pub stop_after_tools_mode: Option<StopMode>,
    /// The wait for more after a complete call.
    pub stop_after_tools_grace_ms: Option<u64>,
    /// The number of calls after which it is stopped in mode `all`, too; 0 for any number.
    pub stop_after_tools_max_calls: Option<usize>,
    /// Whether what is said after calls is left out.
    pub suppress_tail_after_tools: Option<bool>,
    /// Whether the model may call several tools at once; without a word, as the client wants.
    pub parallel_tool_calls: Option<bool>,
}

impl Default for UpstreamConfig {
    fn default() -> Self {
        Self {
            base_url: String::new(),
            command: Vec::new(),
            codex_home: None,
            environment: Vec::new(),
            threads: 64,
            run_tools_on_this_machine: false,
            protocol: String::new(),
            protocols: Vec::new(),
            api_key_env: None,
            provider: None,
            models: Vec::new(),
            dialect: "auto".to_owned(),
            reasoning: None,
            tools: ToolTeaching::Native,
            repair: true,
            schema: SchemaMode::default(),
            invalid: InvalidCalls::default(),
            reask: 2,
            retries: 2,
            retry_share: 0.2,
            retry_broken: false,
            keeps_responses: None,
            seals_in_ids: false,
            stop_after_tools: None,
            stop_after_tools_mode: None,
            stop_after_tools_grace_ms: None,
            stop_after_tools_max_calls: None,
            suppress_tail_after_tools: None,
            parallel_tool_calls: None,
        }
    }
}

/// The prefix of URLs of scripted models.
const SCRIPTED: &str = "demo:";

impl UpstreamConfig {
    /// An upstream that speaks a protocol at a base URL, with everything on that makes calls better.
    pub fn at(url: impl Into<String>, protocol: &Protocol) -> Self {
        Self { base_url: url.into(), protocol: protocol.name.to_owned(), ..Self::default() }
    }

    /// The scripted models.
    pub fn demo() -> Self {
        Self { base_url: SCRIPTED.to_owned(), ..Self::default() }
    }

    /// A Codex app-server, as it is usually started.
    pub fn codex() -> Self {
        let command = ["codex", "app-server"].map(str::to_owned).to_vec();
        let protocol = protocol::CODEX_APP_SERVER.name.to_owned();
        Self { command, protocol, ..Self::default() }
    }

    /// Whether it is a Codex app-server.
    pub fn is_codex(&self) -> bool {
        !self.command.is_empty()
    }

    /// Whether it plays scripts.
    pub fn is_demo(&self) -> bool {
        self.base_url.starts_with(SCRIPTED)
    }

    /// The protocols it may speak, the usual one first: the configured ones, or its provider's. A scripted model has
    /// its own.
    pub fn spoken(&self) -> Vec<&'static Protocol> {
        let configured = self.named_protocols();
        if configured.len() > 0 {
            return configured.filter_map(Protocol::named).collect();
        }
        // Servers that offer other providers' models under a path named `openai` speak Chat there.
        let has_openai_path = self.base_url.split(['/', '?']).skip(3).any(|part| part == "openai");
        match self.known_provider() {
            _ if self.is_codex() => vec![&protocol::CODEX_APP_SERVER],
            _ if self.is_demo() => vec![&protocol::OPENAI_CHAT],
            Some(_) if has_openai_path => vec![&protocol::OPENAI_CHAT],
            Some(provider) => provider.protocols.to_vec(),
            None => provider::usual_protocols().to_vec(),
        }
    }

    /// The protocols that are configured.
    pub(super) fn named_protocols(&self) -> impl ExactSizeIterator<Item = &str> {
        let one = std::slice::from_ref(&self.protocol);
        let named = match self.protocols.is_empty() {
            true if self.protocol.is_empty() => &[],
            true => one,
            false => &self.protocols[..],
        };
        named.iter().map(String::as_str)
    }

    /// The provider, if it is named or known by its address.
    pub fn known_provider(&self) -> Option<&'static Provider> {
        match &self.provider {
            Some(name) => Provider::named(name),
            None => Provider::at(&self.base_url),
        }
    }

    /// Whether reasoning is taken out of its text.
    pub fn splits_reasoning(&self) -> bool {
        self.reasoning.unwrap_or(self.dialect != "none")
    }

    /// The policy of its exchanges.
    pub(crate) fn policy(
        &self,
        name: &str,
        api_key: Option<String>,
        stop: StopPolicy,
        limits: &LimitsConfig,
    ) -> ExchangePolicy {
        let mut policy = ExchangePolicy::default();
        policy.name = name.to_owned();
        let mut spoken = self.spoken().into_iter();
        policy.protocol = spoken.next();
        policy.other_protocols = spoken.collect();
        policy.base_url.clone_from(&self.base_url);
        policy.api_key = api_key;
        // A key that was to be configured is not replaced by one that is meant for another server.
        policy.forwards_client_key = self.api_key_env.is_none();
        policy.provider.clone_from(&self.provider);
        policy.dialect.clone_from(&self.dialect);
        policy.splits_reasoning = self.reasoning;
        policy.teaching = self.tools;
        policy.repair = self.repair;
        policy.schema = self.schema;
        policy.invalid_calls = self.invalid;
        policy.max_reasks = self.reask;
        policy.seals_in_ids = self.seals_in_ids;
        policy.keeps_responses = self.keeps_responses;
        policy.stop = self.stop().or(stop);
        policy.allows_agent_tools = self.run_tools_on_this_machine;
        policy.limits.bytes = limits.response;
        policy.limits.argument_bytes = limits.arguments;
        policy.limits.schema_steps = limits.schema_steps;
        policy
    }

    /// The policy of stopping it after calls.
    pub fn stop(&self) -> StopPolicy {
        StopPolicy {
            is_on: self.stop_after_tools,
            mode: self.stop_after_tools_mode,
            grace_ms: self.stop_after_tools_grace_ms,
            suppress_tail: self.suppress_tail_after_tools,
            parallel: self.parallel_tool_calls,
            max_calls: self.stop_after_tools_max_calls,
        }
    }
}
