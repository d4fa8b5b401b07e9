//! Policies: what is done between a client and one upstream. Configured by fields, made ready once, then shared.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;

use super::amount::ResponseLimits;
use super::http::{HttpWire, shown_url};
use super::{ExchangeResult, Shared};
use crate::dialect::{Dialect, ExtractOptions, Registry};
use crate::doors::prompt::PromptOptions;
use crate::error::{Error, ErrorKind, Result};
use crate::event::Json;
use crate::protocol::{CODEX_APP_SERVER, OPENAI_RESPONSES, Protocol};
use crate::request::providers;
pub use crate::stop::{StopMode, StopPolicy};
use crate::upstream::{ErrorClass, UpstreamError};

/// What is done between a client and one upstream.
///
/// ```
/// use callweave::exchange::{Engine, InvalidCalls, Policy};
///
/// let mut policy = Policy::default(); // every dialect, repair and coercion are on
/// policy.base_url = "http://127.0.0.1:8000/v1".to_owned();
/// policy.invalid_calls = InvalidCalls::Reask;
/// let engine = Engine::new(policy)?; // an `Arc`, for all requests
/// # Ok::<(), callweave::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Policy {
    /// The name of the upstream in errors.
    pub name: String,
    /// The protocol that the upstream speaks; none for the client's own.
    pub protocol: Option<&'static Protocol>,
    /// Its base URL; empty where the driver knows it and wants paths only.
    pub base_url: String,
    /// Its key. Keys are masked in errors.
    pub api_key: Option<String>,
    /// Whether the client's own key is sent where there is no other.
    pub forwards_client_key: bool,
    /// The provider whose rules requests must keep, where many speak the protocol.
    pub provider: Option<String>,
    /// How calls are read from text: `auto`, a dialect's name, `model` for the dialect of the model, `none`.
    pub dialect: String,
    /// Whether reasoning is taken out of text; by default it is if the text is read at all.
    pub splits_reasoning: Option<bool>,
    /// How the model learns of tools.
    pub teaching: Teaching,
    /// Whether arguments that are not quite JSON are repaired.
    pub repair: bool,
    /// What is done with the schemas of tools.
    pub schema: SchemaMode,
    /// What is done with a call that stays invalid.
    pub invalid_calls: InvalidCalls,
    /// How often the model is asked again, at most.
    pub max_reasks: u32,
    /// When a response ends after calls.
    pub stop: StopPolicy,
    /// Whether an upstream that speaks the Responses API keeps its responses, so that it can be asked to follow one by
    /// `previous_response_id`; by default OpenAI and Azure do, and others do not.
    pub keeps_responses: Option<bool>,
    /// Whether provider seals ride in the ids of calls, where no store keeps them. Such ids are long.
    pub seals_in_ids: bool,
    /// Limits of a response.
    pub limits: ResponseLimits,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            name: "upstream".to_owned(),
            protocol: None,
            base_url: String::new(),
            api_key: None,
            forwards_client_key: true,
            provider: None,
            dialect: "auto".to_owned(),
            splits_reasoning: None,
            teaching: Teaching::default(),
            repair: true,
            schema: SchemaMode::default(),
            invalid_calls: InvalidCalls::default(),
            max_reasks: 2,
            stop: StopPolicy::default(),
            keeps_responses: None,
            seals_in_ids: false,
            limits: ResponseLimits::default(),
        }
    }
}

/// How a model learns of tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Teaching {
    /// As its protocol has it.
    #[default]
    Native,
    /// In the prompt: the model calls in its text.
    Prompt,
}

/// What is done with the schemas of tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SchemaMode {
    /// Nothing.
    Off,
    /// Arguments that do not fit make a call invalid.
    Validate,
    /// Arguments are coerced; those that still do not fit make a call invalid.
    #[default]
    Coerce,
}

/// What is done with a call that stays invalid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InvalidCalls {
    /// It is passed on, and marked.
    #[default]
    Pass,
    /// The client gets an error in place of the response.
    Error,
    /// The model is told the reason and asked again; a call that is still invalid then is passed on.
    #[serde(alias = "ask_again")]
    Reask,
}

/// A policy that is ready. It is shared by all exchanges with one upstream.
pub struct Engine {
    pub(super) policy: Policy,
    pub(super) shared: Arc<Shared>,
    /// How text is read where a request declares tools.
    dialect: Option<ExtractOptions>,
    /// How text is read where it declares none: only reasoning is found.
    reasoning: Option<ExtractOptions>,
    /// The URLs of non-streaming and of streaming requests, where they do not depend on the request.
    urls: Option<[String; 2]>,
}

impl Engine {
    /// A policy made ready.
    pub fn new(policy: Policy) -> Result<Arc<Self>> {
        Self::with_shared(policy, Arc::default())
    }

    /// The same, beside others that share the tools they have prepared and the store.
    pub fn with_shared(mut policy: Policy, shared: Arc<Shared>) -> Result<Arc<Self>> {
        if let Some(name) = policy.provider.as_deref().filter(|name| !providers().any(|own| own == *name)) {
            return Err(Error::new(
                ErrorKind::Unknown,
                format!("no provider with limits is called {name:?}"),
            ));
        }
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
        if policy.protocol.is_some_and(|own| HttpWire::of(own).is_none() && *own != CODEX_APP_SERVER) {
            let name = policy.protocol.map_or("", |own| own.name);
            return Err(Error::new(ErrorKind::Unknown, format!("no upstream can be asked in {name}")));
        }
        if policy.protocol.is_some_and(|own| *own == CODEX_APP_SERVER) {
            // Its turns go on only when a tool has answered, and here nobody answers.
            let usual = StopPolicy { is_on: Some(true), suppress_tail: Some(true), ..StopPolicy::default() };
            policy.stop = policy.stop.or(usual);
        }
        let wire = policy.protocol.and_then(HttpWire::of).filter(|wire| !wire.names_model());
        let urls = wire.map(|wire| [false, true].map(|is_streamed| wire.url(&policy.base_url, is_streamed)));
        Ok(Arc::new(Self { policy, shared, dialect, reasoning, urls }))
    }

    /// The URL of a request in a protocol.
    pub(super) fn url(&self, wire: &HttpWire, model: &str, is_streamed: bool) -> ExchangeResult<String> {
        match self.urls.as_ref().filter(|_| self.policy.protocol == Some(wire.protocol)) {
            Some(urls) => Ok(urls[usize::from(is_streamed)].clone()),
            None => wire.address(&self.policy.base_url, model, is_streamed),
        }
    }

    /// The policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// What it shares with other engines.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// How the text of a model is read, if it is.
    pub(super) fn dialect(&self, model: &str, has_tools: bool) -> Option<ExtractOptions> {
        if !has_tools {
            return self.reasoning.clone();
        }
        let of_model = match self.policy.dialect.as_str() {
            "model" => Registry::builtin().for_model(model),
            _ => None,
        };
        let of_model = of_model.and_then(|dialect| ExtractOptions::new(&dialect.name).ok());
        let splits = self.policy.splits_reasoning();
        let of_model = of_model.map(|options| if splits { options } else { without_reasoning(&options) });
        of_model.or_else(|| self.dialect.clone()).or_else(|| self.reasoning.clone())
    }

    /// The prompt that tells a model of tools, where they are taught.
    pub(super) fn teaching(&self, model: &str) -> Option<PromptOptions> {
        if self.policy.teaching == Teaching::Native {
            return None;
        }
        let registry = Registry::builtin();
        let dialect = match self.policy.dialect.as_str() {
            "auto" | "model" | "none" => registry.for_model(model),
            name => registry.find(name),
        };
        Some(dialect.and_then(|dialect| PromptOptions::of(dialect).ok()).unwrap_or_default())
    }

    /// Whether requests are more than translated.
    pub(super) fn changes_requests(&self) -> bool {
        self.policy.teaching == Teaching::Prompt || self.policy.stop.parallel.is_some()
    }

    /// Whether responses are left as they are, so that clients of the same protocol get the bytes of the upstream.
    pub fn is_plain(&self) -> bool {
        let Policy { repair, schema, invalid_calls, stop, .. } = &self.policy;
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
        // Words that stand for no key at all, such as `none`, are no secrets.
        let Some(key) = self.policy.api_key.as_deref().filter(|key| key.len() >= 8) else { return };
        let mask = |text: &mut Cow<'static, str>| {
            if text.contains(key) {
                *text = Cow::Owned(text.replace(key, MASK));
            }
        };
        mask(&mut error.message);
        error.code.as_mut().map(mask);
        if error.raw.as_str().contains(key) {
            error.raw = Json::from_text(&error.message).into_owned();
        }
        if let Some(body) = &mut error.body
            && let Cow::Owned(masked) = masked(&body.bytes, key.as_bytes())
        {
            body.bytes = masked;
        }
    }
}

impl Policy {
    /// Whether reasoning is taken out of text.
    pub fn splits_reasoning(&self) -> bool {
        self.splits_reasoning.unwrap_or(self.dialect != "none")
    }
}

impl Policy {
    /// Whether an upstream that speaks the Responses API keeps its responses.
    pub fn keeps_responses(&self) -> bool {
        let host = self.base_url.split_once("://").map_or("", |(_, rest)| rest);
        let host = host.split(['/', '?', '#']).next().unwrap_or_default();
        let host = host.rsplit('@').next().unwrap_or_default().split(':').next().unwrap_or_default();
        let is_known = || host == "api.openai.com" || host.ends_with(".openai.azure.com");
        self.keeps_responses.unwrap_or_else(is_known)
    }
}

/// One model of an upstream: the target of an exchange.
#[derive(Clone)]
pub struct Target {
    pub(super) engine: Arc<Engine>,
    pub(super) model: String,
    pub(super) protocol: Option<&'static Protocol>,
}

impl Target {
    /// A model, as the upstream calls it.
    pub fn new(engine: &Arc<Engine>, model: impl Into<String>) -> Self {
        Self { engine: Arc::clone(engine), model: model.into(), protocol: engine.policy.protocol }
    }

    /// The same model, asked in another protocol that the upstream speaks.
    pub fn speaking(self, protocol: &'static Protocol) -> Self {
        Self { protocol: Some(protocol), ..self }
    }

    /// The protocol in which a client of this protocol has the model asked.
    pub fn protocol_for(&self, client: &'static Protocol) -> &'static Protocol {
        self.protocol.unwrap_or(client)
    }

    /// Whether it can be asked to follow a response that it has kept.
    pub(super) fn keeps_responses(&self) -> bool {
        let Engine { policy, shared, .. } = &*self.engine;
        // Where there is no store, nobody else could.
        let is_alone = || policy.keeps_responses.is_none() && shared.store.is_none();
        *self.protocol_for(&OPENAI_RESPONSES) == OPENAI_RESPONSES && (policy.keeps_responses() || is_alone())
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
            && self.engine.policy.provider.is_none()
    }

    /// The name of the target in errors: the upstream, its model, and where it was asked.
    pub fn shown(&self) -> String {
        let Policy { name, base_url, .. } = &self.engine.policy;
        let model = &self.model;
        let wire = self.protocol.and_then(HttpWire::of);
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
    let only = |dialect: &Dialect| Dialect { thoughts: Vec::new(), ..dialect.clone() };
    ExtractOptions::with_dialects(options.dialects().iter().map(only).collect())
}
