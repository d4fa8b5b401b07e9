//! The program's request: whether it asks a model, its form for the exchange, and the upstream's request in its place.

use std::fmt::Display;
use std::future::poll_fn;
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, AUTHORIZATION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, Version};
use http_body::Body as _;
use reqwest::{Body, Method, Request, Url};

use crate::exchange::http::{ClientEndpoint, HttpWire};
use crate::exchange::store::StoreScope;
use crate::exchange::{self, ExchangePolicy, HttpRequest, IncomingHead, RequestLimits, UpstreamFault};
use crate::protocol::Protocol;

/// The place that a request for a model's response is sent to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RequestEndpoint {
    pub(super) route: ClientEndpoint,
    /// The path before the version.
    base_path: String,
}

/// Names of vendors that may stand before a path in place of a version.
const VENDORS: &[&str] = &["anthropic", "openai"];

impl RequestEndpoint {
    /// The endpoint of a request, if it asks a model.
    pub(super) fn find(method: &Method, url: &Url) -> Option<Self> {
        if *method == Method::POST { Self::at(url.path()) } else { None }
    }

    /// The endpoint at a path. Servers have them behind any path of their own.
    fn at(path: &str) -> Option<Self> {
        let path = path.trim_end_matches('/');
        let mut places = path.match_indices('/').map(|(at, _)| path.split_at(at));
        let (base, end, route) =
            places.find_map(|(base, end)| Some((base, end, ClientEndpoint::find(end)?)))?;
        let (parent, last) = base.rsplit_once('/').unwrap_or(("", base));
        let is_version =
            last.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        // Other paths have the same last word: `/v1/threads/t/messages`.
        let is_one_word = !end[1..].contains('/');
        if is_one_word && !(base.is_empty() || is_version || VENDORS.contains(&last)) {
            return None;
        }
        Some(Self { route, base_path: if is_version { parent } else { base }.to_owned() })
    }
}

/// The program's request, but for its body.
pub(super) struct ClientRequest {
    pub(super) url: Url,
    base_path: String,
    protocol: &'static Protocol,
    headers: HeaderMap,
    version: Version,
    timeout: Option<Duration>,
}

impl ClientRequest {
    /// Takes a request apart: for the exchange, and for the request that is sent in its place.
    pub(super) async fn read(
        mut request: Request,
        endpoint: RequestEndpoint,
    ) -> Result<(Self, IncomingHead), reqwest::Error> {
        let body = match request.body_mut().take() {
            Some(body) => read_body(body).await?,
            None => Bytes::new(),
        };
        let RequestEndpoint { route, base_path } = endpoint;
        let protocol = route.protocol;
        let mut incoming = IncomingHead::new(route, exchange::SharedBytes::from_owner(body), random_id())
            .query(request.url().query());
        let shown = |value: &HeaderValue| value.to_str().ok().map(str::to_owned);
        incoming.headers = (request.headers().iter())
            .filter_map(|(name, value)| Some((name.as_str().to_owned(), shown(value)?)))
            .collect();
        incoming.api_key = client_key(request.headers(), request.url().query()).map(str::to_owned);
        incoming.scope = incoming.api_key.as_deref().map(scope).unwrap_or_default();
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        incoming.created = since_1970.map_or(0, |time| time.as_secs());
        let own = Self {
            url: request.url().clone(),
            base_path,
            protocol,
            headers: std::mem::take(request.headers_mut()),
            version: request.version(),
            timeout: request.timeout().copied(),
        };
        Ok((own, incoming))
    }

    /// The request that an upstream gets.
    pub(super) fn upstream_request(
        &self,
        outgoing: HttpRequest,
        policy: &ExchangePolicy,
    ) -> Result<Request, UpstreamFault> {
        let is_same = policy.base_url.is_empty() && outgoing.protocol == self.protocol;
        let unusable = |error: &dyn Display| UpstreamFault::unusable(format!("cannot be asked: {error}"));
        let url = match () {
            () if is_same => Ok(self.kept_url(policy)),
            // A path on the server that the program asks.
            () if policy.base_url.is_empty() => self.url.join(&[&self.base_path, &*outgoing.url].concat()),
            () => Url::parse(&outgoing.url),
        };
        let mut request = Request::new(Method::POST, url.map_err(|error| unusable(&error))?);
        if is_same {
            *request.headers_mut() = self.kept_headers(policy);
        }
        let key_header = HttpWire::of(outgoing.protocol).map_or("", |wire| wire.key_header.0);
        let headers = request.headers_mut();
        let has = |name: &str| is_same && self.headers.contains_key(name);
        for (name, value) in &outgoing.headers {
            // The program's own headers stay as they are; a key that stands elsewhere is not doubled.
            let is_there = match *name == key_header {
                true => is_same && keeps_key(policy),
                false => has(name),
            };
            if is_there {
                continue;
            }
            let mut value = HeaderValue::try_from(value).map_err(|error| unusable(&error))?;
            value.set_sensitive(*name == key_header);
            headers.append(HeaderName::from_static(name), value);
        }
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        *request.body_mut() = Some(Body::from(Bytes::from_owner(outgoing.body)));
        *request.version_mut() = self.version;
        *request.timeout_mut() = self.timeout;
        Ok(request)
    }

    /// The program's URL for the server that it asks itself.
    fn kept_url(&self, policy: &ExchangePolicy) -> Url {
        let mut url = self.url.clone();
        if !keeps_key(policy)
            && let Some(query) = self.url.query()
        {
            let other: Vec<&str> = query.split('&').filter(|pair| !pair.starts_with(KEY_PARAMETER)).collect();
            url.set_query(Some(&other.join("&")).filter(|query| !query.is_empty()).map(String::as_str));
        }
        url
    }

    /// The program's headers for the server that it asks itself.
    fn kept_headers(&self, policy: &ExchangePolicy) -> HeaderMap {
        let mut headers = self.headers.clone();
        for name in [CONTENT_LENGTH, HOST, TRANSFER_ENCODING] {
            headers.remove(name);
        }
        if !keeps_key(policy) {
            headers.remove(AUTHORIZATION);
            for name in KEY_HEADERS {
                headers.remove(*name);
            }
        }
        headers
    }
}

/// Whether the upstream gets the program's key.
fn keeps_key(policy: &ExchangePolicy) -> bool {
    policy.api_key.is_none() && policy.forwards_client_key
}

/// The beginning of a parameter with a key.
const KEY_PARAMETER: &str = "key=";
/// The headers with keys, beside `authorization`.
const KEY_HEADERS: &[&str] = &["x-api-key", "x-goog-api-key", "api-key"];

/// The program's key, in whichever header or parameter its protocol has for it.
fn client_key<'r>(headers: &'r HeaderMap, query: Option<&'r str>) -> Option<&'r str> {
    let header = |name: &str| headers.get(name)?.to_str().ok();
    let bearer = header("authorization").and_then(|value| {
        let (scheme, key) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(key.trim())
    });
    let parameter = || query?.split('&').find_map(|pair| pair.strip_prefix(KEY_PARAMETER));
    let key = bearer.or_else(|| KEY_HEADERS.iter().find_map(|name| header(name)));
    key.or_else(parameter).filter(|key| !key.is_empty())
}

/// The owner of stored data: a digest of the key by secrets of this process.
fn scope(key: &str) -> StoreScope {
    static SECRETS: LazyLock<[RandomState; 4]> =
        LazyLock::new(|| std::array::from_fn(|_| RandomState::new()));
    let mut digest = [0; 32];
    for (bytes, secret) in digest.chunks_exact_mut(8).zip(SECRETS.iter()) {
        bytes.copy_from_slice(&secret.hash_one(key).to_be_bytes());
    }
    StoreScope(digest)
}

/// Digits that no other request has.
fn random_id() -> String {
    static SEED: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let random = || SEED.hash_one(NEXT.fetch_add(1, Relaxed));
    format!("{:016x}{:016x}", random(), random())
}

/// The body of a request. One that is beyond the limits is refused by the exchange, and not read to its end.
async fn read_body(mut body: Body) -> Result<Bytes, reqwest::Error> {
    let mut bytes = Bytes::new();
    let mut rest = Vec::new();
    while bytes.len() + rest.len() <= RequestLimits::default().bytes
        && let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await
    {
        let Ok(data) = frame?.into_data() else { continue };
        match bytes.is_empty() {
            true => bytes = data,
            false => rest.extend_from_slice(&data),
        }
    }
    if rest.is_empty() {
        return Ok(bytes);
    }
    Ok([bytes.as_ref(), &rest].concat().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str) -> Option<(&'static str, String)> {
        RequestEndpoint::at(path).map(|endpoint| (endpoint.route.protocol.name, endpoint.base_path))
    }

    #[test]
    fn models_are_asked_behind_any_path_of_a_server() {
        for (path, protocol, base) in [
            ("/v1/chat/completions", "openai-chat", ""),
            ("/chat/completions/", "openai-chat", ""),
            ("/api/v1/chat/completions", "openai-chat", "/api"),
            ("/v1beta/openai/chat/completions", "openai-chat", "/v1beta/openai"),
            ("/openai/deployments/d/chat/completions", "openai-chat", "/openai/deployments/d"),
            ("/v1/responses", "openai-responses", ""),
            ("/openai/responses", "openai-responses", "/openai"),
            ("/messages", "anthropic-messages", ""),
            ("/coding/v1/messages", "anthropic-messages", "/coding"),
            ("/anthropic/messages", "anthropic-messages", "/anthropic"),
            ("/v1beta/models/m:generateContent", "gemini-generatecontent", ""),
            ("/v1/p/x/models/m:streamGenerateContent", "gemini-generatecontent", "/v1/p/x"),
            ("/api/chat", "ollama", ""),
            ("/ollama/api/chat", "ollama", "/ollama"),
        ] {
            assert_eq!(found(path), Some((protocol, base.to_owned())), "{path}");
        }
    }

    #[test]
    fn other_paths_are_no_endpoints() {
        for path in [
            "",
            "/",
            "/v1/models",
            "/v1/embeddings",
            "/v1/completions",
            "/v1/threads/t/messages",
            "/v1/evals/e/responses",
            "/v1/messages/count_tokens",
            "/v1/messages/batches",
            "/v1/responses/resp_1/cancel",
            "/v1/chat/completions/c/messages",
            "/v1beta/models/m:countTokens",
            "/voice/messages",
            "/api/chats",
        ] {
            assert_eq!(found(path), None, "{path}");
        }
    }

    #[test]
    fn a_key_has_its_own_scope() {
        assert_eq!(scope("one"), scope("one"));
        assert_ne!(scope("one"), scope("two"));
        assert_ne!(scope("one"), StoreScope::default());
        assert_ne!(random_id(), random_id());
    }
}
