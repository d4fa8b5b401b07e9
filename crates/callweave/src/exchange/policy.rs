//! Policies for the exchange between a client and one upstream. Configured by fields, made ready once, then shared.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::Deserialize;

use super::amount::ResponseLimits;
use super::http::{HttpWire, shown_url};
use super::{ExchangeResult, SharedState};
use crate::dialect::{Dialect, DialectRegistry, ExtractOptions};
use crate::error::{Error, ErrorKind, Result};
use crate::event::JsonText;
use crate::protocol::{CODEX_APP_SERVER, OPENAI_CHAT, OPENAI_RESPONSES, Protocol, SessionSettings};
use crate::provider::{Provider, is_local};
use crate::request::{ChoiceForm, ProviderLimits};
pub use crate::stop::{StopMode, StopPolicy};
use crate::teach::PromptOptions;
use crate::upstream::{ErrorClass, UpstreamError};

/// The policy for the exchange between a client and one upstream.
///
/// ```
/// use callweave::exchange::{ExchangeEngine, InvalidCalls, ExchangePolicy};
///
/// let mut policy = ExchangePolicy::default(); // every dialect, repair and coercion are on
/// policy.base_url = "http://127.0.0.1:8000/v1".to_owned();
/// policy.invalid_calls = InvalidCalls::Reask;
/// let engine = ExchangeEngine::new(policy)?; // an `Arc`, for all requests
/// # Ok::<(), callweave::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ExchangePolicy {
    /// The name of the upstream in errors.
    pub name: String,
    /// The protocol that the upstream speaks; none for the client's own.
    pub protocol: Option<&'static Protocol>,
    /// Other protocols that it may speak. A client's own is preferred, so that nothing is translated that need not be.
    /// One that the upstream turns out not to speak, since it answers with 404, 405 or 501, is not tried again for ten
    /// minutes.
    pub other_protocols: Vec<&'static Protocol>,
    /// Its base URL; empty where the driver knows it and wants paths only.
    pub base_url: String,
    /// Its key. Keys are masked in errors.
    pub api_key: Option<String>,
    /// Whether the client's own key is sent where there is no other.
    pub forwards_client_key: bool,
    /// The provider whose rules requests must keep, where many speak the protocol; by default the one whose address
    /// [`base_url`](Self::base_url) is.
    pub provider: Option<String>,
    /// The way to read calls from text: `auto`, a dialect's name, `model` for the dialect of the model, `none`.
    pub dialect: String,
    /// Whether reasoning is taken out of text; by default it is if the text is read at all.
    pub splits_reasoning: Option<bool>,
    /// The way in which the model learns of tools.
    pub teaching: ToolTeaching,
    /// Whether arguments that are not quite JSON are repaired.
    pub repair: bool,
    /// The use of the schemas of tools.
    pub schema: SchemaMode,
    /// The treatment of a call that stays invalid.
    pub invalid_calls: InvalidCalls,
    /// The maximum number of times that the model is asked again.
    pub max_reasks: u32,
    /// The policy for ending a response after calls.
    pub stop: StopPolicy,
    /// Whether an agent behind the upstream (Codex) may run tools of its own, on the machine where it runs.
    pub allows_agent_tools: bool,
    /// Whether an upstream that speaks the Responses API keeps its responses, so that it can be asked to follow one by
    /// `previous_response_id`; by default OpenAI and Azure do, and others do not.
    pub keeps_responses: Option<bool>,
    /// Whether provider seals ride in the ids of calls, where no store keeps them. Such ids are long.
    pub seals_in_ids: bool,
    /// Limits of a response.
    pub limits: ResponseLimits,
}

impl Default for ExchangePolicy {
    fn default() -> Self {
        Self {
            name: "upstream".to_owned(),
            protocol: None,
            other_protocols: Vec::new(),
            base_url: String::new(),
            api_key: None,
            forwards_client_key: true,
            provider: None,
            dialect: "auto".to_owned(),
            splits_reasoning: None,
            teaching: ToolTeaching::default(),
            repair: true,
            schema: SchemaMode::default(),
            invalid_calls: InvalidCalls::default(),
            max_reasks: 2,
            stop: StopPolicy::default(),
            allows_agent_tools: false,
            keeps_responses: None,
            seals_in_ids: false,
            limits: ResponseLimits::default(),
        }
    }
}

/// The way in which a model learns of tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolTeaching {
    /// Natively, by its protocol.
    #[default]
    Native,
    /// In the prompt: the model calls in its text.
    Prompt,
}

/// The use of the schemas of tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SchemaMode {
    /// They are not used.
    Off,
    /// Arguments that do not fit make a call invalid.
    Validate,
    /// Arguments are coerced; those that still do not fit make a call invalid.
    #[default]
    Coerce,
}

/// The treatment of a call that stays invalid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InvalidCalls {
    /// It is passed on, and marked.
    #[default]
    Pass,
    /// The client gets an error in place of the response.
    Error,
    /// The model is given the reason and asked again; a call that is still invalid then is passed on.
    #[serde(alias = "ask_again")]
    Reask,
}

/// A policy that is ready. It is shared by all exchanges with one upstream.
pub struct ExchangeEngine {
    pub(super) policy: ExchangePolicy,
    pub(super) shared: Arc<SharedState>,
    /// The options for reading text where a request declares tools.
    dialect: Option<ExtractOptions>,
    /// The options for reading text where it declares none: only reasoning is found.
    reasoning: Option<ExtractOptions>,
    /// The URLs of non-streaming and of streaming requests, where they do not depend on the request.
    urls: Option<[String; 2]>,
    /// The provider, where it is known.
    provider: Option<&'static Provider>,
    /// Whether the upstream is at a local address.
    is_local: bool,
    /// The findings about each of its protocols.
    findings: Vec<(&'static Protocol, AtomicU64)>,
    /// The number of sessions so far.
    sessions: AtomicU64,
}

/// The finding about an upstream and a protocol that it may speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProtocolSupport {
    /// It is unknown whether the upstream speaks it.
    Unknown,
    /// It has answered in it.
    Spoken,
    /// It had no such path, at that time in seconds.
    Absent(u64),
}

/// The number of seconds for which a protocol counts as absent: servers are upgraded.
const ABSENT_FOR: u64 = 600;

impl ProtocolSupport {
    fn to_bits(self) -> u64 {
        match self {
            Self::Unknown => 0,
            Self::Spoken => 1,
            Self::Absent(since) => since.saturating_add(2),
        }
    }

    fn from_bits(bits: u64) -> Self {
        match bits {
            0 => Self::Unknown,
            1 => Self::Spoken,
            since => Self::Absent(since - 2),
        }
    }
}

impl ExchangeEngine {
    /// A policy made ready.
    pub fn new(policy: ExchangePolicy) -> Result<Arc<Self>> {
        Self::with_shared(policy, Arc::default())
    }

    /// The same, beside others that share the tools they have prepared and the store.
    pub fn with_shared(mut policy: ExchangePolicy, shared: Arc<SharedState>) -> Result<Arc<Self>> {
        let provider = match policy.provider.as_deref() {
            Some(name) => Some(Provider::with_rules(name)?),
            None => Provider::at(&policy.base_url),
        };
        let dialect = match policy.dialect.as_str() {
            "none" => None,
            // The text of a model without a dialect of its own is read in every dialect.
            "model" => Some(ExtractOptions::new("auto")?),
            name => Some(ExtractOptions::new(name)?),
        };
        let splits = policy.splits_reasoning();
        let dialect = dialect.map(|options| if splits { options } else { without_reasoning(&options) });
        let reasoning = match &dialect {
            _ if !splits => None,
            Some(options) => Some(only_reasoning(options)),
            None => Some(only_reasoning(&ExtractOptions::new("auto")?)),
        };
        let unasked = policy.protocol.iter().filter(|own| ***own != CODEX_APP_SERVER);
        let unasked = unasked.chain(&policy.other_protocols).find(|own| HttpWire::of(own).is_none());
        if let Some(protocol) = unasked {
            let what = format!("no upstream can be asked in {}", protocol.name);
            return Err(Error::new(ErrorKind::Unknown, what));
        }
        if policy.protocol.is_some_and(|own| *own == CODEX_APP_SERVER) {
            policy.stop = session_stop(policy.stop);
        }
        let wire = policy.protocol.and_then(HttpWire::of).filter(|wire| !wire.names_model());
        let urls = wire.map(|wire| [false, true].map(|is_streamed| wire.url(&policy.base_url, is_streamed)));
        let mut findings: Vec<(&'static Protocol, AtomicU64)> = Vec::new();
        for protocol in policy.protocol.into_iter().chain(policy.other_protocols.iter().copied()) {
            if !findings.iter().any(|(own, _)| *own == protocol) {
                findings.push((protocol, AtomicU64::new(ProtocolSupport::Unknown.to_bits())));
            }
        }
        let is_local = is_local(&policy.base_url);
        let sessions = AtomicU64::new(0);
        Ok(Arc::new(Self {
            policy,
            shared,
            dialect,
            reasoning,
            urls,
            provider,
            is_local,
            findings,
            sessions,
        }))
    }

    /// The name of a new session, and the settings of all.
    pub(super) fn new_session(&self) -> (String, SessionSettings) {
        let settings = SessionSettings {
            allows_own_tools: self.policy.allows_agent_tools,
            stops_at_first_call: self.policy.stop.active_mode() == Some(StopMode::First),
        };
        (format!("s{}", self.sessions.fetch_add(1, Relaxed)), settings)
    }

    /// The protocol in which a client of this protocol has the upstream asked: the client's own, unless the upstream
    /// does not speak it.
    pub fn protocol_for(&self, client: &'static Protocol) -> &'static Protocol {
        let mut may = self.protocols();
        let Some(first) = may.next().or(self.policy.protocol) else { return client };
        if first == client || may.any(|own| own == client) { client } else { first }
    }

    /// Whether the upstream is known to speak a protocol: it is the first, or it has answered in it.
    pub fn speaks(&self, protocol: &Protocol) -> bool {
        self.policy.protocol.is_none_or(|own| own == protocol)
            || self.finding(protocol) == ProtocolSupport::Spoken
    }

    /// The protocols that it may speak, by the findings so far.
    pub(super) fn protocols(&self) -> impl Iterator<Item = &'static Protocol> {
        let may = |(_, finding): &&(_, AtomicU64)| {
            !matches!(ProtocolSupport::from_bits(finding.load(Relaxed)), ProtocolSupport::Absent(_))
        };
        self.findings.iter().filter(may).map(|(protocol, _)| *protocol)
    }

    pub(super) fn finding(&self, protocol: &Protocol) -> ProtocolSupport {
        let found = self.findings.iter().find(|(own, _)| *own == protocol);
        found.map_or(ProtocolSupport::Unknown, |(_, finding)| {
            ProtocolSupport::from_bits(finding.load(Relaxed))
        })
    }

    /// Forgets which protocols were absent long ago; `now` is a time in seconds.
    pub(super) fn forget_absent(&self, now: u64) {
        for (_, finding) in &self.findings {
            if let ProtocolSupport::Absent(since) = ProtocolSupport::from_bits(finding.load(Relaxed))
                && now.saturating_sub(since) >= ABSENT_FOR
            {
                finding.store(ProtocolSupport::Unknown.to_bits(), Relaxed);
            }
        }
    }

    /// Keeps the finding about a protocol.
    pub(super) fn find(&self, protocol: &Protocol, finding: ProtocolSupport) {
        if let Some((_, own)) = self.findings.iter().find(|(own, _)| *own == protocol) {
            own.store(finding.to_bits(), Relaxed);
        }
    }

    /// The provider whose rules requests in a protocol keep, where it is known. Servers at local addresses, and those
    /// that were not said to speak a protocol, get what every such server takes.
    pub(super) fn provider(&self, protocol: &Protocol) -> Option<&'static Provider> {
        self.provider.or_else(|| {
            let is_other = self.policy.protocol.is_some_and(|own| own != protocol);
            let is_copied = *protocol == OPENAI_CHAT || *protocol == OPENAI_RESPONSES;
            (is_other || is_copied && self.is_local).then_some(Provider::COMPATIBLE)
        })
    }

    /// Whether an upstream that speaks the Responses API keeps its responses.
    pub fn keeps_responses(&self) -> bool {
        let is_known = || {
            let limits = self.provider.and_then(|provider| provider.limits(&OPENAI_RESPONSES));
            limits.is_some_and(|limits| limits.keeps_conversations)
        };
        self.policy.keeps_responses.unwrap_or_else(is_known)
    }

    /// The URL of a request in a protocol.
    pub(super) fn url(&self, wire: &HttpWire, model: &str, is_streamed: bool) -> ExchangeResult<String> {
        match self.urls.as_ref().filter(|_| self.policy.protocol == Some(wire.protocol)) {
            Some(urls) => Ok(urls[usize::from(is_streamed)].clone()),
            None => wire.address(&self.policy.base_url, model, is_streamed),
        }
    }

    /// The policy.
    pub fn policy(&self) -> &ExchangePolicy {
        &self.policy
    }

    /// The state that it shares with other engines.
    pub fn shared(&self) -> &Arc<SharedState> {
        &self.shared
    }

    /// The options for reading the text of a model, if it is read.
    pub(super) fn dialect(&self, model: &str, has_tools: bool) -> Option<ExtractOptions> {
        if !has_tools {
            return self.reasoning.clone();
        }
        let of_model = match self.policy.dialect.as_str() {
            "model" => DialectRegistry::builtin().for_model(model),
            _ => None,
        };
        let of_model = of_model.and_then(|dialect| ExtractOptions::new(&dialect.name).ok());
        let splits = self.policy.splits_reasoning();
        let of_model = of_model.map(|options| if splits { options } else { without_reasoning(&options) });
        of_model.or_else(|| self.dialect.clone()).or_else(|| self.reasoning.clone())
    }

    /// The prompt that declares the tools to a model, where they are taught.
    pub(super) fn teaching(&self, model: &str) -> Option<PromptOptions> {
        if self.policy.teaching == ToolTeaching::Native {
            return None;
        }
        let registry = DialectRegistry::builtin();
        let dialect = match self.policy.dialect.as_str() {
            "auto" | "model" | "none" => registry.for_model(model),
            name => registry.find(name),
        };
        Some(dialect.and_then(|dialect| PromptOptions::of(dialect).ok()).unwrap_or_default())
    }

    /// Whether requests are more than translated.
    pub(super) fn changes_requests(&self) -> bool {
        self.policy.teaching == ToolTeaching::Prompt || self.policy.stop.parallel.is_some()
    }

    /// Whether responses are left as they are, so that clients of the same protocol get the bytes of the upstream.
    pub fn is_plain(&self) -> bool {
        let ExchangePolicy { repair, schema, invalid_calls, stop, .. } = &self.policy;
        self.dialect.is_none()
            && self.reasoning.is_none()
            && !repair
            && *schema == SchemaMode::Off
            && *invalid_calls == InvalidCalls::Pass
            && !self.changes_requests()
            && !stop.is_on.unwrap_or(false)
            && !stop.suppress_tail.unwrap_or(false)
    }

    /// Takes the upstream's key out of an error.
    pub fn mask(&self, error: &mut UpstreamError<'static>) {
        // Placeholders for no key at all, such as `none`, are no secrets.
        let Some(key) = self.policy.api_key.as_deref().filter(|key| key.len() >= 8) else { return };
        let mask = |text: &mut Cow<'static, str>| {
            if text.contains(key) {
                *text = Cow::Owned(text.replace(key, MASK));
            }
        };
        mask(&mut error.message);
        error.code.as_mut().map(mask);
        if error.raw.as_str().contains(key) {
            error.raw = JsonText::from_text(&error.message).into_owned();
        }
        if let Some(body) = &mut error.body
            && let Cow::Owned(masked) = masked(&body.bytes, key.as_bytes())
        {
            body.bytes = masked;
        }
    }
}

/// The policy for ending a turn of a session after calls. It always ends there: a turn goes on only when a tool has
/// answered, and no tool answers here. A policy that would not end it, or wants parallel calls, gets all calls.
fn session_stop(stop: StopPolicy) -> StopPolicy {
    let wants_all = stop.is_on == Some(false) || stop.parallel == Some(true);
    let mode = stop.mode.unwrap_or(if wants_all { StopMode::All } else { StopMode::First });
    let usual = StopPolicy {
        suppress_tail: Some(true),
        parallel: (mode == StopMode::First).then_some(false),
        ..StopPolicy::default()
    };
    StopPolicy { is_on: Some(true), mode: Some(mode), ..stop }.or(usual)
}

impl ExchangePolicy {
    /// Whether reasoning is taken out of text.
    pub fn splits_reasoning(&self) -> bool {
        self.splits_reasoning.unwrap_or(self.dialect != "none")
    }
}

/// One model of an upstream: the target of an exchange.
#[derive(Clone)]
pub struct ExchangeTarget {
    pub(super) engine: Arc<ExchangeEngine>,
    pub(super) model: String,
    pub(super) protocol: Option<&'static Protocol>,
}

impl ExchangeTarget {
    /// A model, as the upstream calls it.
    pub fn new(engine: &Arc<ExchangeEngine>, model: impl Into<String>) -> Self {
        let ExchangePolicy { protocol, other_protocols, .. } = &engine.policy;
        let protocol = protocol.filter(|_| other_protocols.is_empty());
        Self { engine: Arc::clone(engine), model: model.into(), protocol }
    }

    /// The same model, asked in another protocol that the upstream speaks.
    pub fn speaking(self, protocol: &'static Protocol) -> Self {
        Self { protocol: Some(protocol), ..self }
    }

    /// The protocol in which a client of this protocol has the model asked.
    pub fn protocol_for(&self, client: &'static Protocol) -> &'static Protocol {
        self.protocol.unwrap_or_else(|| self.engine.protocol_for(client))
    }

    /// The rules that requests in a protocol keep.
    pub(super) fn limits(&self, protocol: &Protocol) -> Option<&'static ProviderLimits> {
        protocol.limits_for(self.engine.provider(protocol), &self.model)
    }

    /// Whether a request of a client's protocol holds nothing that the target may refuse.
    pub(super) fn takes(&self, client: &'static Protocol, is_common: bool, choice: ChoiceForm) -> bool {
        let takes =
            |limits: &ProviderLimits| (is_common || limits.takes_uncommon()) && limits.takes_choice(choice);
        self.limits(client).is_none_or(takes)
    }

    /// Whether it can be asked to follow a response that it has kept.
    pub(super) fn keeps_responses(&self) -> bool {
        let engine = &self.engine;
        // Without a store, nobody else could.
        let is_alone = || engine.policy.keeps_responses.is_none() && engine.shared.store.is_none();
        *self.protocol_for(&OPENAI_RESPONSES) == OPENAI_RESPONSES && (engine.keeps_responses() || is_alone())
    }

    /// The row of that protocol.
    pub(super) fn wire(&self, client: &'static Protocol) -> ExchangeResult<&'static HttpWire> {
        let protocol = self.protocol_for(client);
        HttpWire::of(protocol).ok_or_else(|| {
            let what = format!("no upstream can be asked in {}", protocol.name);
            Box::new(UpstreamError::new(ErrorClass::NotFound, what))
        })
    }

    /// Whether requests of a client's protocol are sent as they are.
    pub(super) fn relays(&self, client: &'static Protocol) -> bool {
        self.protocol_for(client) == client
            && HttpWire::of(client).is_some()
            && !self.engine.changes_requests()
            && !self.has_own_rules(client)
    }

    /// Whether the provider follows a protocol by rules of its own.
    pub(super) fn has_own_rules(&self, protocol: &Protocol) -> bool {
        self.engine.provider(protocol).is_some_and(|provider| provider.has_own_rules(protocol))
    }

    /// The name of the target in errors: the upstream, its model, and where it was asked.
    pub fn shown(&self) -> String {
        let ExchangePolicy { name, base_url, .. } = &self.engine.policy;
        let model = &self.model;
        let wire = self.protocol.or(self.engine.policy.protocol).and_then(HttpWire::of);
        let address = wire.and_then(|wire| wire.address(base_url, model, false).ok());
        match base_url.contains("://") {
            true => {
                let address = shown_url(address.as_ref().unwrap_or(base_url));
                format!("upstream {name:?} (model {model:?} at {address})")
            }
            false if base_url.is_empty() => format!("upstream {name:?} (model {model:?})"),
            false => format!("upstream {name:?} (model {model:?} at {base_url})"),
        }
    }
}

/// The text in place of a key.
const MASK: &str = "***";

/// The bytes without the key.
fn masked<'b>(bytes: &'b [u8], key: &[u8]) -> Cow<'b, [u8]> {
    let mut rest = bytes;
    let mut masked = Vec::new();
    while let Some(at) = rest.windows(key.len()).position(|window| window == key) {
        masked.extend_from_slice(&rest[..at]);
        masked.extend_from_slice(MASK.as_bytes());
        rest = &rest[at + key.len()..];
    }
    if rest.len() == bytes.len() {
        return Cow::Borrowed(bytes);
    }
    masked.extend_from_slice(rest);
    Cow::Owned(masked)
}

/// The dialects without their calls.
fn only_reasoning(options: &ExtractOptions) -> ExtractOptions {
    let only = |dialect: &Dialect| Dialect { forms: Vec::new(), ..dialect.clone() };
    ExtractOptions::with_dialects(options.dialects().iter().map(only).collect())
}

/// The dialects without their reasoning.
fn without_reasoning(options: &ExtractOptions) -> ExtractOptions {
    let only = |dialect: &Dialect| Dialect { reasoning: Vec::new(), ..dialect.clone() };
    ExtractOptions::with_dialects(options.dialects().iter().map(only).collect())
}
