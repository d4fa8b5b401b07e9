//! A client's HTTP request in a driver that stands inside the client's program, before its HTTP library: whether the
//! request asks a model, its form for the exchange, and the upstream's request in its place.

use super::http::{ClientEndpoint, HttpWire};
use super::policy::ExchangePolicy;
use super::{HttpRequest, IncomingHead, SharedBytes};
use crate::protocol::Protocol;

/// The place that a request for a model's response is sent to.
///
/// ```
/// use callweave::exchange::RequestEndpoint;
///
/// let endpoint = RequestEndpoint::find("POST", "/v1/chat/completions").expect("it asks a model");
/// assert_eq!(endpoint.route.protocol.name, "openai-chat");
/// assert!(RequestEndpoint::find("GET", "/v1/models").is_none());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestEndpoint {
    /// The route behind the version.
    pub route: ClientEndpoint,
    /// The path before the version.
    base_path: String,
}

/// Names of vendors that may stand before a path in place of a version.
const VENDORS: &[&str] = &["anthropic", "openai"];

impl RequestEndpoint {
    /// The endpoint of a request, if it asks a model.
    pub fn find(method: &str, path: &str) -> Option<Self> {
        if method == "POST" { Self::at(path) } else { None }
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

/// A client's request for a model's response, but for its body.
#[derive(Clone, Debug)]
pub struct ClientRequest {
    url: String,
    base_path: String,
    route: ClientEndpoint,
    headers: Vec<(String, Vec<u8>)>,
}

/// The beginning of the request that an upstream gets.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UpstreamHead {
    /// The URL.
    pub url: String,
    /// The headers, with names in lower case. The lengths of bodies and the host are the driver's.
    pub headers: Vec<(String, Vec<u8>)>,
    /// Whether it goes where the client sends it.
    pub is_kept: bool,
}

impl ClientRequest {
    /// A request to an absolute URL, with headers whose names are in lower case.
    pub fn new(endpoint: RequestEndpoint, url: impl Into<String>, headers: Vec<(String, Vec<u8>)>) -> Self {
        Self { url: url.into(), base_path: endpoint.base_path, route: endpoint.route, headers }
    }

    /// The protocol of the client.
    pub fn protocol(&self) -> &'static Protocol {
        self.route.protocol
    }

    /// The request for an exchange. The time and the scope are the driver's.
    pub fn incoming(&self, body: impl Into<SharedBytes>, id: impl Into<String>) -> IncomingHead {
        let mut incoming = IncomingHead::new(self.route.clone(), body, id).query(self.query());
        let shown = |value: &[u8]| std::str::from_utf8(value).ok().map(str::to_owned);
        let headers = self.headers.iter();
        incoming.headers = headers.filter_map(|(name, value)| Some((name.clone(), shown(value)?))).collect();
        incoming.api_key = self.key().map(str::to_owned);
        incoming
    }

    /// The beginning of the request that an upstream gets. A request in the client's own protocol to the client's own
    /// server keeps its URL and its headers; any other has only the headers that its protocol knows.
    pub fn upstream_head(&self, outgoing: &HttpRequest, policy: &ExchangePolicy) -> UpstreamHead {
        let is_kept = policy.base_url.is_empty() && outgoing.protocol == self.route.protocol;
        let keeps_key = policy.api_key.is_none() && policy.forwards_client_key;
        let url = match () {
            () if is_kept && keeps_key => self.url.clone(),
            () if is_kept => self.url_without_key(),
            // A path on the server that the client asks.
            () if policy.base_url.is_empty() => [self.origin(), &self.base_path, &outgoing.url].concat(),
            () => outgoing.url.clone(),
        };
        let mut headers = Vec::new();
        if is_kept {
            let own = self
                .headers
                .iter()
                .filter(|(name, _)| !OF_BODIES.contains(&&**name) && (keeps_key || !is_key_header(name)));
            headers.extend(own.cloned());
        }
        let key_header = HttpWire::of(outgoing.protocol).map_or("", |wire| wire.key_header.0);
        for (name, value) in &outgoing.headers {
            // The client's own headers stay as they are; a key that stands elsewhere is not doubled.
            let is_there = match *name == key_header {
                true => is_kept && keeps_key,
                false => is_kept && self.headers.iter().any(|(own, _)| own == name),
            };
            if !is_there {
                headers.push(((*name).to_owned(), value.clone().into_bytes()));
            }
        }
        headers.push(("accept-encoding".to_owned(), b"identity".to_vec()));
        UpstreamHead { url, headers, is_kept }
    }

    /// The URL up to its path.
    fn origin(&self) -> &str {
        let host = self.url.find("://").map_or(0, |at| at + 3);
        let end = self.url[host..].find(['/', '?', '#']).map_or(self.url.len(), |at| host + at);
        &self.url[..end]
    }

    fn query(&self) -> Option<&str> {
        let url = self.url.split('#').next().unwrap_or_default();
        url.split_once('?').map(|(_, query)| query)
    }

    fn url_without_key(&self) -> String {
        let Some(query) = self.query() else { return self.url.clone() };
        let other: Vec<&str> = query.split('&').filter(|pair| !pair.starts_with(KEY_PARAMETER)).collect();
        let path = self.url.split('?').next().unwrap_or_default();
        let mark = if other.is_empty() { "" } else { "?" };
        [path, mark, &other.join("&")].concat()
    }

    /// The client's key.
    fn key(&self) -> Option<&str> {
        let header = |name: &str| {
            let (_, value) = self.headers.iter().find(|(own, _)| own == name)?;
            std::str::from_utf8(value).ok()
        };
        client_key(header, self.query())
    }
}

/// Headers that belong to the bytes of a body or to one connection: the request in the client's place has its own.
const OF_BODIES: &[&str] = &["accept-encoding", "content-length", "host", "transfer-encoding"];
/// The beginning of a parameter with a key.
const KEY_PARAMETER: &str = "key=";
/// The headers with keys, beside `authorization`.
const KEY_HEADERS: &[&str] = &["x-api-key", "x-goog-api-key", "api-key"];

/// The key of a client, in whichever header or query parameter its protocol has for it.
///
/// ```
/// use callweave::exchange::client_key;
///
/// assert_eq!(client_key(|name| (name == "authorization").then_some("Bearer k"), None), Some("k"));
/// assert_eq!(client_key(|_| None, Some("alt=sse&key=k")), Some("k"));
/// ```
pub fn client_key<'r>(header: impl Fn(&str) -> Option<&'r str>, query: Option<&'r str>) -> Option<&'r str> {
    let bearer = header("authorization").and_then(|value| {
        let (scheme, key) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(key.trim())
    });
    let parameter = || query?.split('&').find_map(|pair| pair.strip_prefix(KEY_PARAMETER));
    let key = bearer.or_else(|| KEY_HEADERS.iter().find_map(|name| header(name)));
    key.or_else(parameter).filter(|key| !key.is_empty())
}

/// Whether a header has a key.
pub fn is_key_header(name: &str) -> bool {
    name == "authorization" || KEY_HEADERS.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::{ExchangeEngine, OutgoingRequest};

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
            ("/v2/chat", "cohere-v2", ""),
            ("/cohere/v2/chat", "cohere-v2", "/cohere"),
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
            "/v1/chat",
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
        assert_eq!(RequestEndpoint::find("GET", "/v1/chat/completions"), None);
    }

    /// The upstream's request for a client of Anthropic.
    fn upstream(url: &str, change: impl FnOnce(&mut ExchangePolicy)) -> UpstreamHead {
        let mut policy = ExchangePolicy::default();
        change(&mut policy);
        let engine = ExchangeEngine::new(policy).expect("a policy");
        let path = url.split('?').next().expect("a path").trim_start_matches("https://h:1");
        let endpoint = RequestEndpoint::find("POST", path).expect("a path of Anthropic's");
        let headers =
            [("x-api-key", "k"), ("user-agent", "me"), ("content-length", "9"), ("accept-encoding", "gzip")];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec())).to_vec();
        let client = ClientRequest::new(endpoint, url, headers);
        let body = br#"{"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}"#;
        let mut exchange = engine.open(client.incoming(&body[..], "1")).expect("a request");
        let Some(OutgoingRequest::Request(outgoing)) = exchange.take_outgoing() else { panic!("a request") };
        client.upstream_head(&outgoing, engine.policy())
    }

    fn header<'h>(head: &'h UpstreamHead, name: &str) -> Vec<&'h str> {
        let own = head.headers.iter().filter(|(own, _)| own == name);
        own.map(|(_, value)| std::str::from_utf8(value).expect("text")).collect()
    }

    #[test]
    fn the_clients_own_server_gets_its_url_and_headers() {
        let head = upstream("https://h:1/a/v1/messages?beta=true", |_| {});
        assert!(head.is_kept);
        assert_eq!(head.url, "https://h:1/a/v1/messages?beta=true");
        assert_eq!(header(&head, "x-api-key"), ["k"]);
        assert_eq!(header(&head, "user-agent"), ["me"]);
        assert_eq!(header(&head, "accept-encoding"), ["identity"]);
        assert!(header(&head, "content-length").is_empty());
    }

    #[test]
    fn keys_change_their_header_with_the_protocol() {
        let head = upstream("https://h:1/a/v1/messages?beta=true", |policy| {
            policy.protocol = Some(&crate::protocol::OPENAI_CHAT);
        });
        assert!(!head.is_kept);
        assert_eq!(head.url, "https://h:1/a/v1/chat/completions");
        assert_eq!(header(&head, "authorization"), ["Bearer k"]);
        assert!(header(&head, "x-api-key").is_empty() && header(&head, "user-agent").is_empty());
    }

    #[test]
    fn a_key_of_the_policy_replaces_the_clients() {
        let head =
            upstream("https://h:1/v1/messages?key=k&a=b", |policy| policy.api_key = Some("own".into()));
        assert_eq!(head.url, "https://h:1/v1/messages?a=b");
        assert_eq!(header(&head, "x-api-key"), ["own"]);
        let head = upstream("https://h:1/v1/messages?key=k", |policy| {
            policy.base_url = "http://other/v1".into();
            policy.forwards_client_key = false;
        });
        assert_eq!(head.url, "http://other/v1/messages");
        assert!(header(&head, "x-api-key").is_empty());
    }
}
