//! Those who are asked: over HTTP, or a script that is played.

mod http_client;
mod script;

use std::time::Duration;

use bytes::Bytes;
use callweave::dialect::{Dialect, ExtractOptions, Registry};
use callweave::doors::prompt::PromptOptions;
use callweave::protocol::Protocol;
use callweave::upstream::ErrorClass;
use http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use hyper::body::Incoming;

use crate::config::{self, Check, Environment, OnInvalid, Stop, Teaching};
use crate::demo;
use crate::failure::Failure;
use crate::wire::Wire;
pub(crate) use http_client::{Client, authorities};
use script::Player;

/// An upstream that is ready to be asked.
pub(crate) struct Upstream {
    /// Its name.
    pub(crate) name: String,
    /// How it was described.
    pub(crate) config: config::Upstream,
    /// When it is stopped.
    pub(crate) stop: Stop,
    key: Option<String>,
    /// The row of its protocol; that of a scripted model is its own.
    wire: Option<&'static Wire>,
    /// Where whole answers and streams are asked for, unless that depends on the model.
    addresses: Option<[Uri; 2]>,
    /// How its text is read, where a request declares tools.
    dialect: Option<ExtractOptions>,
    /// And where it declares none: only thoughts are found.
    thoughts: Option<ExtractOptions>,
}

/// What an upstream is asked.
pub(crate) struct Outgoing {
    /// The row of its protocol.
    pub(crate) wire: &'static Wire,
    /// The model, as the upstream calls it.
    pub(crate) model: String,
    /// Whether the answer is to be streamed.
    pub(crate) is_streamed: bool,
    /// The body.
    pub(crate) body: Bytes,
    /// Headers that go with it.
    pub(crate) headers: HeaderMap,
    /// The client's own key.
    pub(crate) client_key: Option<String>,
}

/// What an upstream answers.
pub(crate) struct Reply {
    /// Its status.
    pub(crate) status: u16,
    /// Its headers.
    pub(crate) headers: HeaderMap,
    body: ReplyBody,
}

enum ReplyBody {
    Http(Incoming),
    Script(Player),
}

impl Upstream {
    pub(crate) fn new(name: &str, config: &config::Upstream, environment: &Environment<'_>) -> Self {
        let dialect = match config.dialect.as_str() {
            "none" => None,
            // Each model has its own.
            "model" => ExtractOptions::new("auto").ok(),
            name => ExtractOptions::new(name).ok(),
        };
        let splits = config.splits_reasoning();
        let dialect = dialect.map(|options| if splits { options } else { without_thoughts(&options) });
        let thoughts = match &dialect {
            _ if !splits => None,
            Some(options) => Some(only_thoughts(options)),
            None => ExtractOptions::new("auto").ok().as_ref().map(only_thoughts),
        };
        let wire = config.protocol().and_then(Wire::of);
        let address =
            |wire: &Wire, is_streamed| wire.address(&config.url, "", is_streamed).ok()?.parse().ok();
        let fixed = wire.filter(|wire| !wire.names_model());
        let addresses = fixed.and_then(|wire| Some([address(wire, false)?, address(wire, true)?]));
        Self {
            name: name.to_owned(),
            addresses,
            stop: config.stop().or(environment.stop()),
            key: config.key_env.as_deref().and_then(|variable| environment.get(variable)),
            wire,
            config: config.clone(),
            dialect,
            thoughts,
        }
    }

    /// The row of the protocol that a model of it speaks.
    pub(crate) fn wire(&self, model: &str) -> Result<&'static Wire, Failure> {
        let wire = if self.config.is_demo() { demo::protocol(model).and_then(Wire::of) } else { self.wire };
        wire.ok_or_else(|| Failure::new(ErrorClass::NotFound, format!("there is no model {model:?}")))
    }

    /// How the text of a model is read, where it is.
    pub(crate) fn dialect(&self, model: &str, has_tools: bool) -> Option<ExtractOptions> {
        if !has_tools {
            return self.thoughts.clone();
        }
        let of_model = match self.config.dialect.as_str() {
            "model" => Registry::builtin().for_model(model),
            _ => None,
        };
        let of_model = of_model.map(|dialect| ExtractOptions::with_dialects(vec![dialect.clone()]));
        let splits = self.config.splits_reasoning();
        let of_model = of_model.map(|options| if splits { options } else { without_thoughts(&options) });
        of_model.or_else(|| self.dialect.clone()).or_else(|| self.thoughts.clone())
    }

    /// How a model of it is told of tools, where that is done in words.
    pub(crate) fn teaching(&self, model: &str) -> Option<PromptOptions> {
        if self.config.tools == Teaching::Native {
            return None;
        }
        let registry = Registry::builtin();
        let dialect = match self.config.dialect.as_str() {
            "auto" | "model" | "none" => registry.for_model(model),
            name => registry.find(name),
        };
        Some(dialect.and_then(|dialect| PromptOptions::of(dialect).ok()).unwrap_or_default())
    }

    /// Whether requests are more than translated.
    pub(crate) fn changes_requests(&self) -> bool {
        self.config.tools == Teaching::Prompt || self.stop.parallel.is_some()
    }

    /// Whether nothing is done to its answers, so that who speaks its protocol can have them as they are.
    pub(crate) fn is_plain(&self) -> bool {
        let config::Upstream { repair, schema, invalid, .. } = &self.config;
        self.dialect.is_none()
            && self.thoughts.is_none()
            && !repair
            && *schema == Check::Off
            && *invalid == OnInvalid::Pass
            && !self.changes_requests()
            && !self.stop.is_on.unwrap_or(false)
            && !self.stop.suppress_tail.unwrap_or(false)
    }

    /// Asks. The answer has begun when this returns: its status and headers are there.
    pub(crate) async fn ask(&self, client: &Client, outgoing: &Outgoing) -> Result<Reply, Failure> {
        if self.config.is_demo() {
            let script = demo::answer(&outgoing.model, &outgoing.body, outgoing.is_streamed);
            let unknown =
                || Failure::new(ErrorClass::NotFound, format!("there is no model {:?}", outgoing.model));
            return Ok(Player::reply(script.ok_or_else(unknown)?));
        }
        let Outgoing { wire, model, is_streamed, .. } = outgoing;
        let address = match &self.addresses {
            Some(addresses) => addresses[usize::from(*is_streamed)].clone(),
            None => address(&wire.address(&self.config.url, model, *is_streamed)?)?,
        };
        let mut headers = outgoing.headers.clone();
        if let Some((name, value)) = wire.version
            && !headers.contains_key(name)
        {
            headers.insert(name, HeaderValue::from_static(value));
        }
        self.sign(wire, outgoing.client_key.as_deref(), &mut headers);
        client.post(address, headers, outgoing.body.clone()).await
    }

    /// Whether it has a key of its own.
    pub(crate) fn has_key(&self) -> bool {
        self.key.is_some()
    }

    /// Shows the key: the one that was configured, or else the client's own.
    pub(crate) fn sign(&self, wire: &Wire, client_key: Option<&str>, headers: &mut HeaderMap) {
        // A key that was to be configured is not replaced by one that is meant for somebody else.
        let client_key = client_key.filter(|_| self.config.key_env.is_none());
        let Some(key) = self.key.as_deref().or(client_key) else { return };
        let (name, before) = wire.key;
        if let Ok(mut value) = HeaderValue::try_from([before, key].concat()) {
            value.set_sensitive(true);
            headers.insert(HeaderName::from_static(name), value);
        }
    }

    /// The row of its protocol, for lists.
    pub(crate) fn listing(&self) -> Option<&'static Wire> {
        self.wire
    }
}

impl Reply {
    /// The next bytes of the body; none at its end.
    pub(crate) async fn next(&mut self) -> Option<Result<Bytes, Failure>> {
        match &mut self.body {
            ReplyBody::Http(body) => http_client::next(body).await,
            ReplyBody::Script(player) => player.next().await,
        }
    }

    /// The rest of the body, as far as a client needs to know it.
    pub(crate) async fn rest(&mut self, limit: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(Ok(bytes)) = self.next().await {
            let room = limit.saturating_sub(all.len());
            all.extend_from_slice(&bytes[..bytes.len().min(room)]);
            if bytes.len() >= room {
                break;
            }
        }
        all
    }

    /// The failure that it tells, with what it says in `body`.
    pub(crate) fn failure(&self, protocol: &Protocol, body: &[u8]) -> Failure {
        let headers = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        let error = protocol.read_error(Some(self.status), headers, body);
        Failure { error: Box::new(error), headers: passed_on(&self.headers) }
    }
}

/// Where to ask.
pub(crate) fn address(text: &str) -> Result<Uri, Failure> {
    text.parse().map_err(|error| transport(format!("{}: {error}", config::shown_url(text))))
}

/// The headers of an upstream's answer that concern the client.
pub(crate) fn passed_on(headers: &HeaderMap) -> HeaderMap {
    let concerns = |name: &HeaderName| {
        let name = name.as_str();
        matches!(name, "x-request-id" | "request-id" | "retry-after" | "retry-after-ms" | "x-should-retry")
            || name.starts_with("x-ratelimit-")
            || name.starts_with("anthropic-ratelimit-")
            || name.starts_with("anthropic-organization-id")
            || name.starts_with("openai-")
    };
    // Copied, since they are parts of the buffer that the answer was read into.
    let copied = |value: &HeaderValue| HeaderValue::from_bytes(value.as_bytes()).ok();
    let told = headers.iter().filter(|(name, _)| concerns(name));
    told.filter_map(|(name, value)| Some((name.clone(), copied(value)?))).collect()
}

/// Finds thoughts, and no calls.
fn only_thoughts(options: &ExtractOptions) -> ExtractOptions {
    let only = |dialect: &Dialect| Dialect { forms: Vec::new(), ..dialect.clone() };
    ExtractOptions::with_dialects(options.dialects().iter().map(only).collect())
}

/// Finds calls, and leaves thoughts where they are.
fn without_thoughts(options: &ExtractOptions) -> ExtractOptions {
    let only = |dialect: &Dialect| Dialect { thoughts: Vec::new(), ..dialect.clone() };
    ExtractOptions::with_dialects(options.dialects().iter().map(only).collect())
}

/// A failure of the connection.
fn transport(message: String) -> Failure {
    Failure::new(ErrorClass::Transport, message).with_status(http::StatusCode::BAD_GATEWAY)
}

/// A wait that ended without an answer.
pub(crate) fn too_late(what: &'static str, waited: Duration) -> Failure {
    transport(format!("{what} within {} s", waited.as_secs_f64()))
        .with_status(http::StatusCode::GATEWAY_TIMEOUT)
}

/// The type of every body that is sent.
const SENT: (HeaderName, HeaderValue) = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
