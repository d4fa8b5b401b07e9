//! Those who are asked: over HTTP, or a script that is played.

mod http_client;
mod script;
mod trouble;
mod unpack;

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use callweave::dialect::{Dialect, ExtractOptions, Registry};
use callweave::doors::prompt::PromptOptions;
use callweave::event::Json;
use callweave::protocol::Protocol;
use callweave::upstream::{ErrorClass, UpstreamError};
use http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use hyper::body::Incoming;
use tokio::time::Instant;

use crate::config::{self, Check, Environment, OnInvalid, Stop, Teaching};
use crate::demo;
use crate::failure::Failure;
use crate::retry::Budget;
use crate::routes::Target;
use crate::wire::Wire;
pub(crate) use http_client::{Client, authorities};
use script::Player;
pub(crate) use trouble::{Trouble, named};
use unpack::Unpack;

/// An upstream that is ready to be asked.
pub(crate) struct Upstream {
    /// Its name.
    pub(crate) name: String,
    /// How it was described.
    pub(crate) config: config::Upstream,
    /// When it is stopped.
    pub(crate) stop: Stop,
    /// How many requests may be sent to it again.
    pub(crate) budget: Budget,
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
    /// Where to ask, where the address names the model.
    pub(crate) address: String,
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
    /// What unpacks the body, if it is packed.
    unpack: Option<Box<Unpack>>,
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
            budget: Budget::new(config.retry_share),
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
        let of_model = of_model.and_then(|dialect| ExtractOptions::new(&dialect.name).ok());
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

    /// Where to ask for a model, where addresses name it; else empty. A name that leads elsewhere is refused.
    pub(crate) fn address_naming(
        &self,
        wire: &Wire,
        model: &str,
        is_streamed: bool,
    ) -> Result<String, Failure> {
        match self.addresses.is_some() || self.config.is_demo() {
            true => Ok(String::new()),
            false => wire.address(&self.config.url, model, is_streamed),
        }
    }

    /// Asks. The answer has begun when this returns: its status and headers are there.
    pub(crate) async fn ask(
        &self,
        client: &Client,
        outgoing: &Outgoing,
        end: Instant,
    ) -> Result<Reply, Trouble> {
        if self.config.is_demo() {
            let script = demo::answer(&outgoing.model, &outgoing.body, outgoing.is_streamed);
            return Ok(Player::reply(script.ok_or_else(|| Trouble::unfit("has no such model"))?));
        }
        let wire = outgoing.wire;
        let address = match &self.addresses {
            Some(addresses) => addresses[usize::from(outgoing.is_streamed)].clone(),
            None => address(&outgoing.address)?,
        };
        let mut headers = outgoing.headers.clone();
        if let Some((name, value)) = wire.version
            && !headers.contains_key(name)
        {
            headers.insert(name, HeaderValue::from_static(value));
        }
        self.sign(wire, outgoing.client_key.as_deref(), &mut headers);
        client.post(address, headers, outgoing.body.clone(), end).await
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

    /// Takes its key out of what it says, and so out of what clients and logs get to see.
    pub(crate) fn mask(&self, error: &mut UpstreamError<'static>) {
        // Words that stand for no key at all, such as `none`, are no secrets.
        let Some(key) = self.key.as_deref().filter(|key| key.len() >= 8) else { return };
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

    /// The row of its protocol, for lists.
    pub(crate) fn listing(&self) -> Option<&'static Wire> {
        self.wire
    }
}

impl Reply {
    /// The next bytes of the body; none at its end.
    pub(crate) async fn next(&mut self) -> Option<Result<Bytes, Trouble>> {
        if self.unpack.is_some() {
            return self.next_unpacked().await;
        }
        self.next_raw().await
    }

    async fn next_raw(&mut self) -> Option<Result<Bytes, Trouble>> {
        match &mut self.body {
            ReplyBody::Http(body) => http_client::next(body).await,
            ReplyBody::Script(player) => player.next().await,
        }
    }

    async fn next_unpacked(&mut self) -> Option<Result<Bytes, Trouble>> {
        loop {
            let raw = self.next_raw().await;
            let unpacked = match raw {
                Some(Ok(bytes)) => self.unpack.as_mut()?.push(&bytes),
                Some(Err(trouble)) => Err(trouble),
                // After this nothing is left to be unpacked.
                None => match self.unpack.take()?.finish() {
                    Ok(bytes) if bytes.is_empty() => return None,
                    rest => rest,
                },
            };
            if !matches!(&unpacked, Ok(bytes) if bytes.is_empty()) {
                return Some(unpacked);
            }
        }
    }

    /// The rest of a body that is short: as far as a client needs to know it, and within so much time for all of it.
    pub(crate) async fn rest(&mut self, limit: usize, patience: Duration) -> Result<Vec<u8>, Trouble> {
        let all = async {
            let mut all = Vec::new();
            while let Some(bytes) = self.next().await {
                let bytes = bytes?;
                let room = limit.saturating_sub(all.len());
                all.extend_from_slice(&bytes[..bytes.len().min(room)]);
                if bytes.len() >= room {
                    break;
                }
            }
            Ok(all)
        };
        let read = tokio::time::timeout(patience, all).await;
        read.unwrap_or_else(|_| Err(Trouble::late("did not send the rest of its answer", patience)))
    }

    /// The failure that it tells; it is read now, within so much time. Words that are not written as clients expect them
    /// become an error that is.
    pub(crate) async fn failure(
        &mut self,
        protocol: &Protocol,
        target: &Target,
        patience: Duration,
    ) -> Failure {
        if let Some(to) = self.headers.get(header::LOCATION).filter(|_| (300..400).contains(&self.status)) {
            return self.redirected(to, target);
        }
        let read = self.rest(MOST_OF_AN_ERROR, patience).await;
        let (body, trouble) = read.map_or_else(|trouble| (Vec::new(), Some(trouble)), |body| (body, None));
        let own = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        // Who names a date without telling the time means ours.
        let now = httpdate::fmt_http_date(SystemTime::now());
        let date = (!self.headers.contains_key(header::DATE)).then_some(("date", now.as_bytes()));
        let mut error = protocol.read_error(Some(self.status), own.chain(date), &body);
        error.status.get_or_insert(502);
        let (who, status) = (|| named(target), self.status);
        let words = match trouble {
            Some(trouble) => Some(format!("{} answered with status {status} and {trouble}", who())),
            None if body.trim_ascii().is_empty() => {
                Some(format!("{} answered with status {status} and no words", who()))
            }
            None if !is_object(&body) => {
                Some(format!("{} answered with status {status}: {}", who(), error.message))
            }
            None => None,
        };
        if let Some(words) = words {
            error.raw = Json::from_text(&words).into_owned();
            error.message = words.into();
            error.body = None;
        } else if !is_written_as(protocol, &body, &error) {
            error.body = None;
        }
        target.upstream.mask(&mut error);
        Failure { headers: passed_on(&self.headers), ..Failure::of(error) }
    }

    /// Nobody follows: a key is for whom it was meant.
    fn redirected(&self, to: &HeaderValue, target: &Target) -> Failure {
        let to = config::shown_url(to.to_str().unwrap_or("an address that cannot be read"));
        let what = format!(
            "answered with a redirect ({} to {to}), which is not followed: its url must be where it leads",
            self.status
        );
        Trouble::unfit(what).of(target)
    }
}

/// So much is read of a body that tells an error.
const MOST_OF_AN_ERROR: usize = 64 << 10;

/// What stands for a key.
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

/// Whether a body is a JSON object.
fn is_object(body: &[u8]) -> bool {
    let body = body.trim_ascii();
    body.starts_with(b"{") && serde_json::from_slice::<serde::de::IgnoredAny>(body).is_ok()
}

/// Whether the body of an error has the members that clients of its protocol look for.
fn is_written_as(protocol: &Protocol, body: &[u8], error: &UpstreamError<'static>) -> bool {
    let mut plain = error.clone();
    (plain.body, plain.request_id) = (None, None);
    let usual = protocol.write_error(&plain).map(|written| written.body).unwrap_or_default();
    let read = |bytes: &[u8]| serde_json::from_slice::<serde_json::Map<_, _>>(bytes).unwrap_or_default();
    let (own, usual) = (read(body), read(&usual));
    let is_alike = |own: &serde_json::Value, usual: &serde_json::Value| match usual {
        serde_json::Value::Object(_) => own.get("message").is_some_and(serde_json::Value::is_string),
        _ => own.is_string() == usual.is_string(),
    };
    usual.iter().all(|(key, usual)| own.get(key).is_some_and(|own| is_alike(own, usual)))
}

/// Where to ask.
pub(crate) fn address(text: &str) -> Result<Uri, Trouble> {
    text.parse().map_err(|error| Trouble::unfit(format!("cannot be asked: {error}")))
}

/// An answer that is longer than is read.
pub(crate) fn too_large(limit: u64) -> Trouble {
    Trouble::unfit(format!("sent an answer of more than {limit} bytes (limits.answer)"))
}

/// The headers of an upstream's answer that concern the client.
pub(crate) fn passed_on(headers: &HeaderMap) -> HeaderMap {
    let concerns = |name: &HeaderName| {
        let name = name.as_str();
        matches!(name, "x-request-id" | "request-id" | "retry-after" | "retry-after-ms" | "x-should-retry")
            // Not whose account it is: that is nothing for clients.
            || matches!(name, "openai-processing-ms" | "openai-version" | "openai-model")
            || name.starts_with("x-ratelimit-")
            || name.starts_with("anthropic-ratelimit-")
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

/// The type of every body that is sent.
const SENT: (HeaderName, HeaderValue) = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
