//! From the path of a request to who answers it.

use callweave::exchange::http::{ClientRoute, unescaped};
use callweave::protocol::{self, Protocol};
use http::{HeaderMap, Method};

use crate::models::Shape;

/// What a client wants.
#[derive(Debug, PartialEq)]
pub(crate) enum Route {
    /// An answer of a model.
    Answer(ClientRoute),
    /// How many tokens a request has.
    CountTokens(&'static Protocol, Option<String>),
    /// Something else that is asked of an upstream as it is, at that path.
    Relay(&'static str),
    /// A kept answer.
    Kept(String),
    /// The models that there are.
    Models(Shape),
    /// One of them.
    Model(Shape, String),
    /// What Ollama's clients ask of a model.
    Show,
    /// And of the server.
    Version,
    /// The calls in a text.
    Parse,
    /// Whether the gateway runs.
    Healthy,
    /// Whether it takes requests.
    Ready,
    /// What it counted.
    Metrics,
    /// Who it is.
    Greeting,
}

/// What others put before their paths.
const PREFIXES: &[&str] = &["/openai", "/anthropic", "/genai", "/gemini", "/ollama"];
/// The versions that paths begin with.
const VERSIONS: &[&str] = &["/v1beta", "/v1alpha", "/v1"];

impl Route {
    /// What a request is for; none if nobody answers there.
    pub(crate) fn find(method: &Method, path: &str, headers: &HeaderMap) -> Option<Self> {
        let path = path.trim_end_matches('/');
        let own =
            PREFIXES.iter().find_map(|prefix| path.strip_prefix(prefix).filter(|rest| rest.starts_with('/')));
        let path = own.unwrap_or(path);
        let version = VERSIONS
            .iter()
            .find(|version| path.strip_prefix(**version).is_some_and(|rest| rest.starts_with('/')));
        let rest = version.map_or(path, |version| &path[version.len()..]);
        let is_gemini = version.is_some_and(|version| version.len() > "/v1".len());
        if *method == Method::POST {
            return Self::posted(rest);
        }
        if *method == Method::DELETE {
            return rest.strip_prefix("/responses/").map(|id| Self::Kept(id.to_owned()));
        }
        if *method != Method::GET && *method != Method::HEAD {
            return None;
        }
        let shape = match () {
            () if is_gemini => Shape::Gemini,
            () if ["anthropic-version", "x-api-key"].iter().any(|own| headers.contains_key(*own)) => {
                Shape::Anthropic
            }
            () => Shape::OpenAi,
        };
        match rest {
            "" => Some(Self::Greeting),
            "/models" => Some(Self::Models(shape)),
            "/api/tags" => Some(Self::Models(Shape::Ollama)),
            "/api/version" => Some(Self::Version),
            "/healthz" | "/health" | "/livez" => Some(Self::Healthy),
            "/readyz" => Some(Self::Ready),
            "/metrics" => Some(Self::Metrics),
            _ => {
                if let Some(id) = rest.strip_prefix("/responses/") {
                    return Some(Self::Kept(id.to_owned()));
                }
                // Names may have colons in them; what is asked for behind one is no name.
                let name = rest.strip_prefix("/models/").filter(|_| Self::posted(rest).is_none())?;
                Some(Self::Model(shape, unescaped(name)))
            }
        }
    }

    fn posted(path: &str) -> Option<Self> {
        if let Some(route) = ClientRoute::find(path) {
            return Some(Self::Answer(route));
        }
        match path {
            "/messages/count_tokens" => Some(Self::CountTokens(&protocol::ANTHROPIC_MESSAGES, None)),
            "/embeddings" => Some(Self::Relay("/embeddings")),
            "/completions" => Some(Self::Relay("/completions")),
            "/api/show" => Some(Self::Show),
            "/tools/parse" => Some(Self::Parse),
            _ => {
                let model = path.strip_prefix("/models/")?.strip_suffix(":countTokens")?;
                Some(Self::CountTokens(&protocol::GEMINI_GENERATE_CONTENT, Some(unescaped(model))))
            }
        }
    }

    /// The methods that somebody answers to at a path where nobody answers to this one.
    pub(crate) fn allowed(path: &str, headers: &HeaderMap) -> String {
        let methods = [("GET, HEAD", Method::GET), ("POST", Method::POST), ("DELETE", Method::DELETE)];
        let is_known = |(_, method): &&(&str, Method)| Self::find(method, path, headers).is_some();
        methods.iter().filter(is_known).map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    }

    /// The protocol of those who would ask at a path at which nobody answers.
    pub(crate) fn neighbour(path: &str) -> &'static Protocol {
        let begins = |start: &str| path.starts_with(start);
        match () {
            () if begins("/anthropic/") || path.contains("/messages") => &protocol::ANTHROPIC_MESSAGES,
            () if begins("/ollama/") || path.contains("/api/") => &protocol::OLLAMA,
            () if begins("/genai/") || begins("/gemini/") || path.contains("/v1beta/") => {
                &protocol::GEMINI_GENERATE_CONTENT
            }
            () => &protocol::OPENAI_CHAT,
        }
    }

    /// The protocol in which the client expects an error.
    pub(crate) fn protocol(&self) -> &'static Protocol {
        match self {
            Self::Answer(ClientRoute { protocol, .. }) | Self::CountTokens(protocol, _) => protocol,
            Self::Models(shape) | Self::Model(shape, _) => match shape {
                Shape::OpenAi => &protocol::OPENAI_CHAT,
                Shape::Anthropic => &protocol::ANTHROPIC_MESSAGES,
                Shape::Gemini => &protocol::GEMINI_GENERATE_CONTENT,
                Shape::Ollama => &protocol::OLLAMA,
            },
            Self::Show | Self::Version => &protocol::OLLAMA,
            _ => &protocol::OPENAI_CHAT,
        }
    }

    /// Whether everybody may ask.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self, Self::Healthy | Self::Ready | Self::Greeting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn protocol_of(path: &str) -> Option<&'static str> {
        match Route::find(&Method::POST, path, &HeaderMap::new())? {
            Route::Answer(answer) => Some(answer.protocol.name),
            _ => None,
        }
    }

    #[test]
    fn answers_are_asked_for_under_every_usual_path() {
        for (path, protocol) in [
            ("/v1/chat/completions", "openai-chat"),
            ("/chat/completions", "openai-chat"),
            ("/openai/v1/chat/completions", "openai-chat"),
            ("/v1/responses", "openai-responses"),
            ("/v1/messages", "anthropic-messages"),
            ("/anthropic/v1/messages", "anthropic-messages"),
            ("/v1beta/models/x:generateContent", "gemini-generatecontent"),
            ("/api/chat", "ollama"),
        ] {
            assert_eq!(protocol_of(path), Some(protocol), "{path}");
        }
        assert_eq!(protocol_of("/v1/nothing"), None);
        assert_eq!(Route::find(&Method::GET, "/v1/chat/completions", &HeaderMap::new()), None);
    }

    #[test]
    fn gemini_names_the_model_in_the_path() {
        let path = "/v1beta/models/demo%2Fa:b:streamGenerateContent";
        let found = Route::find(&Method::POST, path, &HeaderMap::new());
        let Some(Route::Answer(answer)) = found else { panic!("{found:?}") };
        assert_eq!((answer.model.as_deref(), answer.is_streamed), (Some("demo/a:b"), Some(true)));
    }

    #[test]
    fn lists_have_the_shape_of_whoever_asks() {
        let get = |path, headers: &HeaderMap| Route::find(&Method::GET, path, headers);
        let mut headers = HeaderMap::new();
        assert_eq!(get("/v1/models", &headers), Some(Route::Models(Shape::OpenAi)));
        assert_eq!(get("/v1beta/models", &headers), Some(Route::Models(Shape::Gemini)));
        assert_eq!(get("/api/tags", &headers), Some(Route::Models(Shape::Ollama)));
        headers.insert("anthropic-version", http::HeaderValue::from_static("2023-06-01"));
        assert_eq!(get("/v1/models", &headers), Some(Route::Models(Shape::Anthropic)));
    }
}
