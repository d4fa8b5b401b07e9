//! Upstreams: over HTTP, or a script that is played.

mod http_client;
mod script;
mod unpack;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use callweave::exchange::http::{HttpWire, is_forwarded_to_client};
use callweave::exchange::{
    ExchangeEngine, ExchangePolicy, ExchangeTarget, HttpRequest, SharedState, UpstreamFault, UpstreamRefusal,
};
use callweave::protocol::Protocol;
use callweave::provider::Provider;
use callweave::upstream::ErrorClass;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header};
use hyper::body::Incoming;

use crate::codex::{ChildSettings, CodexBackend};
use crate::config::{self, Environment, LimitsConfig, TimeoutsConfig};
use crate::demo;
use crate::failure::RequestFailure;
use crate::retry::RetryBudget;
pub(crate) use http_client::{HttpClient, authorities};
use script::ScriptPlayer;
use unpack::UnpackedBody;

/// An upstream that is ready to be asked.
pub(crate) struct Upstream {
    /// Its name.
    pub(crate) name: String,
    /// Its configuration.
    pub(crate) config: config::UpstreamConfig,
    /// The number of requests that may be sent to it again.
    pub(crate) budget: RetryBudget,
    /// The access by its configuration.
    configured: UpstreamAccess,
    /// The process that is asked in place of a server.
    codex: Option<CodexBackend>,
    /// The access since its model list identified its provider.
    found: OnceLock<UpstreamAccess>,
}

/// The way to ask an upstream.
struct UpstreamAccess {
    /// Its policy, ready.
    engine: Arc<ExchangeEngine>,
    /// The row of its usual protocol.
    wire: Option<&'static HttpWire>,
    /// The addresses of non-streaming and streaming requests, unless they depend on the model.
    addresses: Option<[Uri; 2]>,
}

/// The response of an upstream.
pub(crate) struct UpstreamReply {
    /// Its status.
    pub(crate) status: u16,
    /// Its headers.
    pub(crate) headers: HeaderMap,
    body: ReplyBody,
    /// The decompression of the body, if it is compressed.
    unpack: Option<Box<UnpackedBody>>,
}

enum ReplyBody {
    Http(Incoming),
    Script(ScriptPlayer),
}

impl Upstream {
    pub(crate) fn new(
        name: &str,
        config: &config::UpstreamConfig,
        environment: &Environment<'_>,
        limits: &LimitsConfig,
        timeouts: &TimeoutsConfig,
        shared: &Arc<SharedState>,
    ) -> Result<Self, callweave::Error> {
        let backend = || CodexBackend::new(ChildSettings::new(name, config, environment, limits, timeouts));
        let key = config.api_key_env.as_deref().and_then(|variable| environment.get(variable));
        let policy = config.policy(name, key, environment.stop(), limits);
        Ok(Self {
            name: name.to_owned(),
            budget: RetryBudget::new(config.retry_share),
            configured: UpstreamAccess::new(policy, shared, config.is_demo())?,
            found: OnceLock::new(),
            codex: config.is_codex().then(backend),
            config: config.clone(),
        })
    }

    /// Its policy, ready.
    pub(crate) fn engine(&self) -> &Arc<ExchangeEngine> {
        &self.access().engine
    }

    fn access(&self) -> &UpstreamAccess {
        self.found.get().unwrap_or(&self.configured)
    }

    /// Whether nothing says whose server it is.
    pub(crate) fn is_unknown(&self) -> bool {
        !self.config.is_demo()
            && self.codex.is_none()
            && self.config.known_provider().is_none()
            && self.found.get().is_none()
    }

    /// Keeps the provider that its model list identifies: from then on it is asked as if that were configured.
    pub(crate) fn find_out(&self, provider: &'static Provider) {
        if !self.is_unknown() || !provider.is_recognized_by_list {
            return;
        }
        let config =
            config::UpstreamConfig { provider: Some(provider.name.to_owned()), ..self.config.clone() };
        let UpstreamAccess { engine, wire, .. } = &self.configured;
        let mut policy = engine.policy().clone();
        let mut spoken = config.spoken();
        // The address leads to the usual protocol, whose list was found there.
        if let Some(at) = spoken.iter().position(|own| Some(*own) == policy.protocol) {
            spoken[..=at].rotate_right(1);
        }
        let mut spoken = spoken.into_iter();
        policy.provider = config.provider;
        policy.protocol = spoken.next();
        policy.other_protocols = spoken.collect();
        // A key that opened the list stays in the header where it did.
        let header = |wire: Option<&'static HttpWire>| wire.map(|wire| wire.key_header);
        if self.has_key() && header(policy.protocol.and_then(HttpWire::of)) != header(*wire) {
            return;
        }
        if let Ok(access) = UpstreamAccess::new(policy, engine.shared(), false)
            && self.found.set(access).is_ok()
        {
            tracing::info!(upstream = self.name, provider = provider.name, "known by its model list");
        }
    }

    /// The process that is asked in place of a server.
    pub(crate) fn codex(&self) -> Option<&CodexBackend> {
        self.codex.as_ref()
    }

    /// The row of the protocol that a model of it is asked in by clients of a protocol.
    pub(crate) fn wire_for(
        &self,
        model: &str,
        client: &'static Protocol,
    ) -> Result<&'static HttpWire, RequestFailure> {
        let protocol = match self.config.is_demo() {
            true => demo::protocol(model),
            false => Some(self.engine().protocol_for(client)),
        };
        let wire = protocol.and_then(HttpWire::of);
        wire.ok_or_else(|| RequestFailure::new(ErrorClass::NotFound, format!("there is no model {model:?}")))
    }

    /// The target of an exchange with a model of it.
    pub(crate) fn target(&self, model: &str) -> Result<ExchangeTarget, RequestFailure> {
        let target = ExchangeTarget::new(self.engine(), model);
        if !self.config.is_demo() {
            return Ok(target);
        }
        match demo::protocol(model) {
            Some(protocol) => Ok(target.speaking(protocol)),
            None => Err(RequestFailure::new(ErrorClass::NotFound, format!("there is no model {model:?}"))),
        }
    }

    /// Sends a request. The response has begun when this returns: its status and headers are there.
    pub(crate) async fn ask(
        &self,
        client: &HttpClient,
        request: &HttpRequest,
        more_headers: HeaderMap,
    ) -> Result<UpstreamReply, UpstreamFault> {
        if self.config.is_demo() {
            let script = demo::response(&request.model, request.body.as_ref(), request.is_streamed);
            return Ok(ScriptPlayer::reply(
                script.ok_or_else(|| UpstreamFault::unusable("has no such model"))?,
            ));
        }
        let wire = HttpWire::of(request.protocol);
        let UpstreamAccess { wire: usual, addresses, .. } = self.access();
        let is_usual = usual.is_some_and(|wire| wire.protocol == request.protocol);
        let address = match addresses.as_ref().filter(|_| is_usual) {
            Some(addresses) => addresses[usize::from(request.is_streamed)].clone(),
            None => address(&request.url)?,
        };
        let mut headers = more_headers;
        for (name, value) in &request.headers {
            if let Ok(mut value) = HeaderValue::try_from(value) {
                let is_key = |wire: &HttpWire| wire.key_header.0 == *name;
                value.set_sensitive(wire.is_some_and(is_key) || usual.is_some_and(is_key));
                headers.append(HeaderName::from_static(name), value);
            }
        }
        let body = Bytes::from_owner(request.body.clone());
        client.send(Method::POST, address, headers, body).await
    }

    /// Whether it has a key of its own.
    pub(crate) fn has_key(&self) -> bool {
        self.engine().policy().api_key.is_some()
    }

    /// Puts the key into headers: the configured one, or else the client's own.
    pub(crate) fn sign(&self, wire: &HttpWire, client_key: Option<&str>, headers: &mut HeaderMap) {
        let ExchangePolicy { api_key, forwards_client_key, .. } = self.engine().policy();
        let client_key = client_key.filter(|_| *forwards_client_key);
        let Some(key) = api_key.as_deref().or(client_key) else { return };
        let (name, before) = wire.key_header;
        if let Ok(mut value) = HeaderValue::try_from([before, key].concat()) {
            value.set_sensitive(true);
            headers.insert(HeaderName::from_static(name), value);
        }
    }

    /// The row of its protocol, for lists.
    pub(crate) fn listing(&self) -> Option<&'static HttpWire> {
        self.access().wire
    }
}

impl UpstreamAccess {
    fn new(
        policy: ExchangePolicy,
        shared: &Arc<SharedState>,
        is_demo: bool,
    ) -> Result<Self, callweave::Error> {
        let wire = policy.protocol.and_then(HttpWire::of);
        let address =
            |wire: &HttpWire, is_streamed| wire.address(&policy.base_url, "", is_streamed).ok()?.parse().ok();
        let fixed = wire.filter(|wire| !wire.names_model() && !is_demo);
        let addresses = fixed.and_then(|wire| Some([address(wire, false)?, address(wire, true)?]));
        Ok(Self { engine: ExchangeEngine::with_shared(policy, Arc::clone(shared))?, wire, addresses })
    }
}

impl UpstreamReply {
    /// The next bytes of the body; none at its end.
    pub(crate) async fn next(&mut self) -> Option<Result<Bytes, UpstreamFault>> {
        if self.unpack.is_some() {
            return self.next_unpacked().await;
        }
        self.next_raw().await
    }

    async fn next_raw(&mut self) -> Option<Result<Bytes, UpstreamFault>> {
        match &mut self.body {
            ReplyBody::Http(body) => http_client::next(body).await,
            ReplyBody::Script(player) => player.next().await,
        }
    }

    async fn next_unpacked(&mut self) -> Option<Result<Bytes, UpstreamFault>> {
        loop {
            let raw = self.next_raw().await;
            let unpacked = match raw {
                Some(Ok(bytes)) => self.unpack.as_mut()?.push(&bytes),
                Some(Err(fault)) => Err(fault),
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

    /// The rest of a body that is short: as far as a client needs to know it, and within `patience` for all of it.
    pub(crate) async fn rest(&mut self, limit: usize, patience: Duration) -> Result<Vec<u8>, UpstreamFault> {
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
        read.unwrap_or_else(|_| Err(UpstreamFault::late("did not send the rest of its answer", patience)))
    }

    /// A response with another status than success; its body is read now, within `patience`.
    pub(crate) async fn refusal(&mut self, patience: Duration) -> UpstreamRefusal {
        let mut refusal = UpstreamRefusal::new(self.status);
        // A redirect is not followed, and says nothing else.
        if !(self.headers.contains_key(header::LOCATION) && (300..400).contains(&self.status)) {
            match self.rest(MAX_ERROR_BODY, patience).await {
                Ok(body) => refusal.body = body,
                Err(fault) => refusal.fault = Some(fault),
            }
        }
        let own =
            self.headers.iter().map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()));
        refusal.headers = own.collect();
        // A date without a time of the response is meant by our clock.
        if !self.headers.contains_key(header::DATE) {
            let now = httpdate::fmt_http_date(SystemTime::now());
            refusal.headers.push(("date".to_owned(), now.into_bytes()));
        }
        refusal
    }
}

/// The number of bytes that are read of an error.
const MAX_ERROR_BODY: usize = 64 << 10;

/// The address to ask.
pub(crate) fn address(text: &str) -> Result<Uri, UpstreamFault> {
    text.parse().map_err(|error| UpstreamFault::unusable(format!("cannot be asked: {error}")))
}

/// The fault of a response beyond the limit.
pub(crate) fn too_large(limit: u64) -> UpstreamFault {
    UpstreamFault::unusable(format!("sent an answer of more than {limit} bytes (limits.response)"))
}

/// The headers of an upstream's response that concern the client.
pub(crate) fn passed_on(headers: &HeaderMap) -> HeaderMap {
    // Copied, since they are parts of the buffer that the response was read into.
    let copied = |value: &HeaderValue| HeaderValue::from_bytes(value.as_bytes()).ok();
    let concerning = headers.iter().filter(|(name, _)| is_forwarded_to_client(name.as_str()));
    concerning.filter_map(|(name, value)| Some((name.clone(), copied(value)?))).collect()
}

/// The type of every body that is sent.
const SENT: (HeaderName, HeaderValue) = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
