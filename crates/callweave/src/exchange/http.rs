//! HTTP around a protocol: paths, headers and keep-alives. One row for each protocol that is served or asked over HTTP.

use super::ExchangeResult;
use crate::protocol::{self, Protocol};
use crate::upstream::{ErrorClass, UpstreamError};

/// One protocol over HTTP.
#[derive(Debug)]
#[non_exhaustive]
pub struct HttpWire {
    /// The protocol.
    pub protocol: &'static Protocol,
    /// The beginning of paths, where a base URL does not have it already.
    root: PathRoot,
    /// The path of a non-streaming request; `{model}` stands for the model's name.
    complete_path: &'static str,
    /// The path of a streaming request.
    streaming_path: &'static str,
    /// The path of the list of models.
    pub models_path: &'static str,
    /// The header with the API key, and the text before the key in it.
    pub key_header: (&'static str, &'static str),
    /// A header that every request must have, if the client did not send it.
    pub version_header: Option<(&'static str, &'static str)>,
    /// Headers of the client that are forwarded.
    pub forwarded_headers: &'static [&'static str],
    /// Whether a response is streamed if the body does not say.
    pub streams_by_default: bool,
    /// The content type of a stream.
    pub stream_type: &'static str,
    /// The bytes that keep a silent stream alive: before the response has begun, and afterwards. Empty where clients
    /// would not understand any.
    pub pings: [&'static str; 2],
    /// Whether clients skip comments in a stream.
    pub takes_comments: bool,
}

/// The beginning of a path.
#[derive(Clone, Copy, Debug)]
enum PathRoot {
    /// This, unless the base URL ends with it.
    Always(&'static str),
    /// This, if the base URL has no path at all: many servers of the protocol have a path of their own.
    IfBare(&'static str),
}

/// A comment, which clients of server-sent events skip.
const COMMENT: &str = ": keep-alive\n\n";
/// An end of a line, which ends no event.
const BLANK: &str = "\n";
/// The keep-alive that Anthropic's clients expect once the response has begun.
const PING: &str = "event: ping\ndata: {\"type\": \"ping\"}\n\n";

const OPENAI: &[&str] = &["openai-beta", "openai-organization", "openai-project"];
const SSE: &str = "text/event-stream";

/// A row as most are.
const fn usual(protocol: &'static Protocol, root: PathRoot, path: &'static str) -> HttpWire {
    HttpWire {
        protocol,
        root,
        complete_path: path,
        streaming_path: path,
        models_path: "/models",
        key_header: ("authorization", "Bearer "),
        version_header: None,
        forwarded_headers: &[],
        streams_by_default: false,
        stream_type: SSE,
        pings: [COMMENT, COMMENT],
        takes_comments: true,
    }
}

/// The rows.
static TABLE: &[HttpWire] = &[
    HttpWire {
        forwarded_headers: OPENAI,
        ..usual(&protocol::OPENAI_CHAT, PathRoot::IfBare("/v1"), "/chat/completions")
    },
    HttpWire {
        forwarded_headers: OPENAI,
        ..usual(&protocol::OPENAI_RESPONSES, PathRoot::IfBare("/v1"), "/responses")
    },
    HttpWire {
        key_header: ("x-api-key", ""),
        version_header: Some(("anthropic-version", "2023-06-01")),
        forwarded_headers: &["anthropic-beta", "anthropic-version"],
        pings: [COMMENT, PING],
        ..usual(&protocol::ANTHROPIC_MESSAGES, PathRoot::Always("/v1"), "/messages")
    },
    HttpWire {
        streaming_path: "/models/{model}:streamGenerateContent?alt=sse",
        key_header: ("x-goog-api-key", ""),
        // Google's clients take a comment for a broken response.
        pings: [BLANK, BLANK],
        takes_comments: false,
        ..usual(
            &protocol::GEMINI_GENERATE_CONTENT,
            PathRoot::Always("/v1beta"),
            "/models/{model}:generateContent",
        )
    },
    HttpWire {
        models_path: "/tags",
        streams_by_default: true,
        stream_type: "application/x-ndjson",
        pings: ["", ""],
        takes_comments: false,
        ..usual(&protocol::OLLAMA, PathRoot::Always("/api"), "/chat")
    },
    usual(&protocol::COHERE_V2, PathRoot::Always("/v2"), "/chat"),
    HttpWire {
        streaming_path: "/model/{model}/converse-stream",
        models_path: "/foundation-models",
        stream_type: "application/vnd.amazon.eventstream",
        pings: ["", ""],
        takes_comments: false,
        ..usual(&protocol::BEDROCK_CONVERSE, PathRoot::Always(""), "/model/{model}/converse")
    },
];

impl HttpWire {
    /// The row of a protocol.
    pub fn of(protocol: &Protocol) -> Option<&'static Self> {
        TABLE.iter().find(|row| row.protocol == protocol)
    }

    /// The URL of a model under a base URL. A name that would lead to another path is refused.
    pub fn address(&self, base: &str, model: &str, is_streamed: bool) -> ExchangeResult<String> {
        if !self.names_model() {
            return Ok(self.url(base, is_streamed));
        }
        let path = if is_streamed { self.streaming_path } else { self.complete_path };
        Ok(self.under(base, &path.replace("{model}", &escaped_model(model)?)))
    }

    /// The URL of all models under a base URL.
    pub(super) fn url(&self, base: &str, is_streamed: bool) -> String {
        self.under(base, if is_streamed { self.streaming_path } else { self.complete_path })
    }

    /// Whether a client takes no pieces of calls. Mistral's wants the name of a call beside all of its arguments, as
    /// Mistral writes it.
    pub(super) fn wants_complete_calls(&self, user_agent: &str) -> bool {
        *self.protocol == protocol::OPENAI_CHAT && user_agent.contains("mistral")
    }

    /// Whether URLs name the model.
    pub fn names_model(&self) -> bool {
        [self.complete_path, self.streaming_path].iter().any(|path| path.contains('{'))
    }

    /// A path under a base URL. A query of the base URL stays behind the path.
    pub fn under(&self, base: &str, path: &str) -> String {
        let base = base.split('#').next().unwrap_or_default();
        let (base, query) = base.split_once('?').map_or((base, ""), |(base, query)| (base, query));
        let base = base.trim_end_matches('/');
        let own = base.split_once("://").map_or(base, |(_, rest)| rest);
        let own = own.find('/').map_or("", |at| &own[at..]);
        let root = match self.root {
            PathRoot::Always(root) if own.ends_with(root) => "",
            PathRoot::Always(root) => root,
            PathRoot::IfBare(root) if own.is_empty() => root,
            PathRoot::IfBare(_) => "",
        };
        let mark = match query {
            "" => "",
            _ if path.contains('?') => "&",
            _ => "?",
        };
        format!("{base}{root}{path}{mark}{query}")
    }
}

/// The endpoint of a request for a response: the protocol that its path belongs to, and the other settings in the path.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientEndpoint {
    /// The protocol of the client.
    pub protocol: &'static Protocol,
    /// The model, where the path names it.
    pub model: Option<String>,
    /// Whether the response is streamed, where the path says it.
    pub is_streamed: Option<bool>,
    /// Whether the body has a prompt in place of a conversation: Ollama's `/api/generate`.
    pub is_prompt: bool,
}

impl ClientEndpoint {
    /// The route of a protocol whose bodies contain all settings.
    pub fn new(protocol: &'static Protocol) -> Self {
        Self { protocol, model: None, is_streamed: None, is_prompt: false }
    }

    /// The route of a path without its version: `/chat/completions`, `/models/m:generateContent`.
    pub fn find(path: &str) -> Option<Self> {
        let of = |protocol| Some(Self::new(protocol));
        match path {
            "/chat/completions" => of(&protocol::OPENAI_CHAT),
            "/responses" => of(&protocol::OPENAI_RESPONSES),
            "/messages" => of(&protocol::ANTHROPIC_MESSAGES),
            "/api/chat" => of(&protocol::OLLAMA),
            // Without its version it would be Ollama's.
            "/v2/chat" => of(&protocol::COHERE_V2),
            _ => {
                let (model, verb) = path.strip_prefix("/models/")?.rsplit_once(':')?;
                let is_streamed = match verb {
                    "generateContent" => false,
                    "streamGenerateContent" => true,
                    _ => return None,
                };
                Some(Self {
                    model: Some(unescaped(model)),
                    is_streamed: Some(is_streamed),
                    ..Self::new(&protocol::GEMINI_GENERATE_CONTENT)
                })
            }
        }
    }
}

/// Whether a header of an upstream's response concerns the client: limits, retries and ids of requests, not the
/// account.
pub fn is_forwarded_to_client(header: &str) -> bool {
    matches!(header, "x-request-id" | "request-id" | "retry-after" | "retry-after-ms" | "x-should-retry")
        || matches!(header, "openai-processing-ms" | "openai-version" | "openai-model")
        || header.starts_with("x-ratelimit-")
        || header.starts_with("anthropic-ratelimit-")
}

/// A URL without its secrets: no user, no password, no values of its query.
///
/// ```
/// use callweave::exchange::http::shown_url;
///
/// assert_eq!(shown_url("http://me:secret@host/v1?key=secret&a=b"), "http://host/v1?key=…&a=…");
/// ```
pub fn shown_url(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").map_or(("", url), |(scheme, rest)| (scheme, rest));
    let rest = rest.split('#').next().unwrap_or_default();
    let (path, query) = rest.split_once('?').map_or((rest, None), |(path, query)| (path, Some(query)));
    let (authority, path) = path.split_at(path.find('/').unwrap_or(path.len()));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let mut shown = if scheme.is_empty() { String::new() } else { format!("{scheme}://") };
    shown.extend([host, path]);
    for (at, pair) in query.into_iter().flat_map(|query| query.split('&')).enumerate() {
        shown.push(if at == 0 { '?' } else { '&' });
        match pair.split_once('=') {
            Some((name, _)) => shown.extend([name, "=…"]),
            None => shown.push('…'),
        }
    }
    shown
}

/// The name of a model as a part of a path. A name that would lead elsewhere is refused, however it is escaped.
pub fn escaped_model(name: &str) -> ExchangeResult<String> {
    if walks(name) {
        let shown: String = name.chars().take(100).collect();
        let what = format!(
            "the model {shown:?} cannot be asked for: its name has a . or .. between slashes, a backslash or a control character"
        );
        let mut error = UpstreamError::new(ErrorClass::InvalidRequest, what);
        error.code = Some("invalid_model".into());
        return Err(Box::new(error));
    }
    let mut path = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' | b'@' => {
                path.push(byte.into());
            }
            _ => path.push_str(&format!("%{byte:02X}")),
        }
    }
    Ok(path)
}

/// Whether a name would lead to another path after any number of rounds of unescaping.
fn walks(name: &str) -> bool {
    let mut name = name.to_owned();
    loop {
        // Some servers cut path parameters, which follow a semicolon, off a segment.
        let is_dots = |part: &str| matches!(part.split(';').next(), Some("." | ".."));
        if name.contains('\\') || name.chars().any(char::is_control) || name.split('/').any(is_dots) {
            return true;
        }
        let plain = unescaped(&name);
        if plain.len() == name.len() {
            return false;
        }
        name = plain;
    }
}

/// A part of a path without its escapes.
pub fn unescaped(part: &str) -> String {
    percent_encoding::percent_decode_str(part).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(protocol: &Protocol, base: &str, is_streamed: bool) -> String {
        HttpWire::of(protocol).expect("a row").address(base, "m:1", is_streamed).expect("a name")
    }

    #[test]
    fn base_urls_are_completed_and_never_doubled() {
        let cases = [
            (&protocol::OPENAI_CHAT, "http://h:1", "http://h:1/v1/chat/completions"),
            (&protocol::OPENAI_CHAT, "http://h:1/", "http://h:1/v1/chat/completions"),
            (&protocol::OPENAI_CHAT, "http://h/v1", "http://h/v1/chat/completions"),
            (&protocol::OPENAI_CHAT, "http://h/v1beta/openai/", "http://h/v1beta/openai/chat/completions"),
            (&protocol::OPENAI_RESPONSES, "http://h", "http://h/v1/responses"),
            (&protocol::ANTHROPIC_MESSAGES, "http://h", "http://h/v1/messages"),
            (&protocol::ANTHROPIC_MESSAGES, "http://h/v1", "http://h/v1/messages"),
            (&protocol::ANTHROPIC_MESSAGES, "http://h/anthropic", "http://h/anthropic/v1/messages"),
            (&protocol::GEMINI_GENERATE_CONTENT, "http://h", "http://h/v1beta/models/m%3A1:generateContent"),
            (&protocol::OLLAMA, "http://h:11434", "http://h:11434/api/chat"),
            (&protocol::OPENAI_CHAT, "http://h/v1?key=q", "http://h/v1/chat/completions?key=q"),
            (&protocol::OPENAI_CHAT, "http://h?key=q#f", "http://h/v1/chat/completions?key=q"),
            (&protocol::OPENAI_CHAT, "http://h/v1/?key=a/b", "http://h/v1/chat/completions?key=a/b"),
            (&protocol::ANTHROPIC_MESSAGES, "http://h/v1?a=b&c", "http://h/v1/messages?a=b&c"),
        ];
        for (protocol, base, expected) in cases {
            assert_eq!(address(protocol, base, false), expected);
        }
    }

    #[test]
    fn a_stream_may_have_a_path_of_its_own() {
        let streamed = address(&protocol::GEMINI_GENERATE_CONTENT, "http://h/v1beta", true);
        assert_eq!(streamed, "http://h/v1beta/models/m%3A1:streamGenerateContent?alt=sse");
        let keyed = address(&protocol::GEMINI_GENERATE_CONTENT, "http://h/v1beta?key=q", true);
        assert_eq!(keyed, "http://h/v1beta/models/m%3A1:streamGenerateContent?alt=sse&key=q");
    }

    #[test]
    fn a_name_never_leads_to_another_path() {
        for name in [
            "..",
            ".",
            "../x",
            "x/..",
            "a/../b",
            "a/./b",
            "../../admin/keys",
            "%2e%2e/x",
            "%2E./x",
            "a/%2e",
            "..%2f..",
            "%252e%252e%252fx",
            "%25252e%25252e",
            "a\\b",
            "..\\..",
            "%5c..",
            "..;/x",
            "a/..;p=1/b",
            "a\nb",
            "a%0d%0ab",
            "%00",
        ] {
            assert!(escaped_model(name).is_err(), "{name:?}");
        }
        for (name, path) in [
            ("gemini-2.5-pro", "gemini-2.5-pro"),
            ("models/a..b", "models/a..b"),
            ("...", "..."),
            (".hidden", ".hidden"),
            ("100%", "100%25"),
            ("%zz", "%25zz"),
            ("a b?c#d", "a%20b%3Fc%23d"),
            ("a%2Fb", "a%252Fb"),
            ("arn:aws:bedrock:x/y", "arn%3Aaws%3Abedrock%3Ax/y"),
        ] {
            assert_eq!(escaped_model(name).expect("a name"), path, "{name}");
        }
    }

    #[test]
    fn a_url_is_shown_without_secrets() {
        for (url, shown) in [
            ("http://u:p@h:1/v1", "http://h:1/v1"),
            ("http://u:p@w@h/v1?key=q#f", "http://h/v1?key=…"),
            ("https://h?secret", "https://h?…"),
            ("u:p@h:1/v1?k=v", "h:1/v1?k=…"),
            ("http://h/a@b", "http://h/a@b"),
        ] {
            assert_eq!(shown_url(url), shown, "{url}");
        }
    }
}
