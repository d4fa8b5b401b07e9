//! Routes from the path of a request to its handler.

use callweave::exchange::embedding::EmbeddingApi;
use callweave::exchange::http::{ClientEndpoint, unescaped};
use callweave::protocol::{self, Protocol};
use http::{HeaderMap, Method};

use crate::models::ModelListShape;

/// The route of a client's request.
#[derive(Debug, PartialEq)]
pub(crate) enum ClientRoute {
    /// A response of a model.
    Answer(ClientEndpoint),
    /// The number of tokens of a request.
    CountTokens(&'static Protocol, Option<String>),
    /// Embeddings, of the model that the path names.
    Embed(EmbeddingApi, Option<String>),
    /// Something that upstreams of OpenAI's protocols are asked as it is.
    Relay(RelayKind, Option<String>),
    /// A kept response.
    Kept(String),
    /// The input of a kept response.
    InputItems(String),
    /// The end of a kept response that may still be made.
    Cancel(String),
    /// The models that there are.
    Models(ModelListShape),
    /// One of them.
    Model(ModelListShape, String),
    /// The models that Ollama's clients take for loaded.
    Running,
    /// Ollama's request for the details of a model.
    Show,
    /// Ollama's request for the version of the server.
    Version,
    /// The calls in a text.
    Parse,
    /// Whether the gateway runs.
    Healthy,
    /// Whether it takes requests.
    Ready,
    /// The gateway's metrics.
    Metrics,
    /// The gateway's greeting.
    Greeting,
}

/// The kind of request that is passed through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RelayKind {
    /// Completions of a prompt, which servers of Chat have.
    Completions,
    /// A conversation in short, which servers of Responses have.
    Compaction,
}

/// Prefixes that name the clients a path is for, removed before the rest is read.
const PREFIXES: &[&str] = &["/openai", "/anthropic", "/genai", "/gemini", "/ollama"];
/// The versions that paths begin with, and whether they are Gemini's.
const VERSIONS: &[(&str, bool)] =
    &[("/v1", false), ("/v1beta", true), ("/v1alpha", true), ("/v1beta1", true), ("/v1internal", true)];

/// Headers of clients that share the paths of lists of models with others.
const ANTHROPIC: &[&str] = &["anthropic-version", "x-api-key"];
const GOOGLE: &[&str] = &["x-goog-api-key", "x-goog-api-client"];

/// The methods of routes. HEAD is answered as GET is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RouteMethod {
    Get,
    Post,
    Delete,
}
use RouteMethod::{Delete, Get, Post};

/// The parts of a path that decide more than the route.
struct PathParts {
    /// The `{model}` or `{id}` of the pattern, without escapes.
    name: Option<String>,
    /// The shape in which the client knows models.
    shape: ModelListShape,
}

impl PathParts {
    fn name(self) -> String {
        self.name.unwrap_or_default()
    }
}

/// A route: its method, its path without prefix and version, and what it is for. `{model}` may have slashes in it, other
/// names have none.
type RouteRow = (RouteMethod, &'static str, RouteMaker);
type RouteMaker = fn(PathParts) -> ClientRoute;

/// A response that is streamed if the path says so.
fn generated(place: PathParts, is_streamed: bool) -> ClientRoute {
    in_path(&protocol::GEMINI_GENERATE_CONTENT, place, Some(is_streamed))
}

fn predicted(place: PathParts, is_streamed: bool) -> ClientRoute {
    in_path(&protocol::ANTHROPIC_MESSAGES, place, Some(is_streamed))
}

fn in_path(protocol: &'static Protocol, place: PathParts, is_streamed: Option<bool>) -> ClientRoute {
    let mut route = ClientEndpoint::new(protocol);
    (route.model, route.is_streamed) = (place.name, is_streamed);
    ClientRoute::Answer(route)
}

fn counted(place: PathParts) -> ClientRoute {
    ClientRoute::CountTokens(&protocol::GEMINI_GENERATE_CONTENT, place.name)
}

/// Every route.
static ROWS: &[RouteRow] = &[
    (Post, "/chat/completions", |_| ClientRoute::Answer(ClientEndpoint::new(&protocol::OPENAI_CHAT))),
    (Post, "/responses", |_| ClientRoute::Answer(ClientEndpoint::new(&protocol::OPENAI_RESPONSES))),
    (Post, "/messages", |_| ClientRoute::Answer(ClientEndpoint::new(&protocol::ANTHROPIC_MESSAGES))),
    (Post, "/api/chat", |_| ClientRoute::Answer(ClientEndpoint::new(&protocol::OLLAMA))),
    (Post, "/api/generate", |_| {
        let mut route = ClientEndpoint::new(&protocol::OLLAMA);
        route.is_prompt = true;
        ClientRoute::Answer(route)
    }),
    (Post, "/models/{model}:generateContent", |place| generated(place, false)),
    (Post, "/models/{model}:streamGenerateContent", |place| generated(place, true)),
    (Post, "/messages/count_tokens", |_| ClientRoute::CountTokens(&protocol::ANTHROPIC_MESSAGES, None)),
    (Post, "/responses/input_tokens", |_| ClientRoute::CountTokens(&protocol::OPENAI_RESPONSES, None)),
    (Post, "/models/{model}:countTokens", counted),
    (Post, "/responses/compact", |_| ClientRoute::Relay(RelayKind::Compaction, None)),
    (Get, "/responses/{id}", |place| ClientRoute::Kept(place.name())),
    (Delete, "/responses/{id}", |place| ClientRoute::Kept(place.name())),
    (Get, "/responses/{id}/input_items", |place| ClientRoute::InputItems(place.name())),
    (Post, "/responses/{id}/cancel", |place| ClientRoute::Cancel(place.name())),
    (Post, "/embeddings", |_| ClientRoute::Embed(EmbeddingApi::OpenAi, None)),
    (Post, "/models/{model}:embedContent", |place| ClientRoute::Embed(EmbeddingApi::Gemini, place.name)),
    (Post, "/models/{model}:batchEmbedContents", |place| {
        ClientRoute::Embed(EmbeddingApi::GeminiBatch, place.name)
    }),
    (Post, "/api/embed", |_| ClientRoute::Embed(EmbeddingApi::Ollama, None)),
    (Post, "/api/embeddings", |_| ClientRoute::Embed(EmbeddingApi::OllamaPrompt, None)),
    (Post, "/completions", |_| ClientRoute::Relay(RelayKind::Completions, None)),
    (Get, "/models", |place| ClientRoute::Models(place.shape)),
    (Get, "/models/{model}", |place| ClientRoute::Model(place.shape, place.name.unwrap_or_default())),
    (Get, "/api/tags", |_| ClientRoute::Models(ModelListShape::Ollama)),
    (Get, "/api/ps", |_| ClientRoute::Running),
    (Get, "/api/version", |_| ClientRoute::Version),
    (Post, "/api/show", |_| ClientRoute::Show),
    (Post, "/tools/parse", |_| ClientRoute::Parse),
    (Get, "/healthz", |_| ClientRoute::Healthy),
    (Get, "/health", |_| ClientRoute::Healthy),
    (Get, "/livez", |_| ClientRoute::Healthy),
    (Get, "/readyz", |_| ClientRoute::Ready),
    (Get, "/metrics", |_| ClientRoute::Metrics),
    (Get, "", |_| ClientRoute::Greeting),
    // Azure names the model as a deployment.
    (Post, "/deployments/{model}/chat/completions", |place| in_path(&protocol::OPENAI_CHAT, place, None)),
    (Post, "/deployments/{model}/completions", |place| {
        ClientRoute::Relay(RelayKind::Completions, place.name)
    }),
    (Post, "/deployments/{model}/embeddings", |place| ClientRoute::Embed(EmbeddingApi::OpenAi, place.name)),
    // Vertex AI names who made the model, behind a project or not.
    (Post, "/publishers/{publisher}/models/{model}:generateContent", |place| generated(place, false)),
    (Post, "/publishers/{publisher}/models/{model}:streamGenerateContent", |place| generated(place, true)),
    (Post, "/publishers/{publisher}/models/{model}:countTokens", counted),
    (Post, "/publishers/{publisher}/models/{model}:embedContent", |place| {
        ClientRoute::Embed(EmbeddingApi::Gemini, place.name)
    }),
    (Post, "/publishers/{publisher}/models/{model}:predict", |place| {
        ClientRoute::Embed(EmbeddingApi::VertexPredict, place.name)
    }),
    (Post, "/publishers/anthropic/models/count-tokens:rawPredict", |_| {
        ClientRoute::CountTokens(&protocol::ANTHROPIC_MESSAGES, None)
    }),
    (Post, "/publishers/anthropic/models/{model}:rawPredict", |place| predicted(place, false)),
    (Post, "/publishers/anthropic/models/{model}:streamRawPredict", |place| predicted(place, true)),
    (Post, "/endpoints/openapi/chat/completions", |_| {
        ClientRoute::Answer(ClientEndpoint::new(&protocol::OPENAI_CHAT))
    }),
    // The AI SDK leaves the word before a model's name out if that has a slash.
    (Post, "/{model}:generateContent", |place| generated(place, false)),
    (Post, "/{model}:streamGenerateContent", |place| generated(place, true)),
    (Post, "/{model}:countTokens", counted),
    (Post, "/{model}:embedContent", |place| ClientRoute::Embed(EmbeddingApi::Gemini, place.name)),
    (Post, "/{model}:batchEmbedContents", |place| ClientRoute::Embed(EmbeddingApi::GeminiBatch, place.name)),
];

/// Paths that other servers have, and their alternatives here.
const ELSEWHERE: &[(&str, &str)] = &[
    ("/messages/batches", "batches are not served; send each request to /v1/messages"),
    ("/batches", "batches are not served; send each request by itself"),
    (":batchGenerateContent", "batches are not served; send each request to :generateContent"),
    ("/conversations", "conversations are not kept here; use previous_response_id at /v1/responses"),
    ("/files", "files are not kept here; send them within the request"),
    ("/api/pull", "models are not managed here; ask the upstream itself"),
    ("/api/create", "models are not managed here; ask the upstream itself"),
    ("/api/delete", "models are not managed here; ask the upstream itself"),
];

/// The names in a path that fits a pattern.
#[derive(Clone, Copy, Default)]
struct PathCaptures<'p> {
    /// The name of who made the model, where that is not Google.
    publisher: Option<&'p str>,
    /// The last name of the pattern.
    name: Option<&'p str>,
}

impl PathCaptures<'_> {
    /// The name without escapes. Google's client takes what stands before a slash in the name of a model for its publisher.
    fn unescaped(self) -> Option<String> {
        let name = unescaped(self.name?);
        Some(match self.publisher {
            Some(publisher) => format!("{}/{name}", unescaped(publisher)),
            None => name,
        })
    }
}

/// The names in a path, if it fits a pattern.
fn captured<'p>(mut pattern: &str, mut path: &'p str) -> Option<PathCaptures<'p>> {
    let mut captured = PathCaptures::default();
    while let Some((before, rest)) = pattern.split_once('{') {
        let (word, rest) = rest.split_once('}')?;
        path = path.strip_prefix(before)?;
        let end = match word {
            // The last name of its pattern.
            "model" => path.strip_suffix(rest)?.len(),
            _ => path.find('/').unwrap_or(path.len()),
        };
        let (own, behind) = path.split_at(end);
        if own.is_empty() || own.starts_with('/') || own.ends_with('/') {
            return None;
        }
        match word {
            "publisher" => captured.publisher = Some(own).filter(|own| *own != "google"),
            _ => captured.name = Some(own),
        }
        (pattern, path) = (rest, behind);
    }
    (pattern == path).then_some(captured)
}

/// A path without its prefix and version, and whether it is Gemini's own.
fn stripped(path: &str) -> (&str, bool) {
    let strip = |path: &'_ str, start: &str| -> Option<usize> {
        path.strip_prefix(start).filter(|rest| rest.starts_with('/')).map(|_| start.len())
    };
    let mut rest = path.trim_end_matches('/');
    let prefix = PREFIXES.iter().find_map(|prefix| strip(rest, prefix));
    rest = &rest[prefix.unwrap_or(0)..];
    let version = VERSIONS.iter().find_map(|(version, is_gemini)| Some((strip(rest, version)?, *is_gemini)));
    let (length, is_gemini) = version.unwrap_or((0, false));
    rest = &rest[length..];
    // Gemini serves OpenAI's protocol behind its own version.
    match strip(rest, "/openai") {
        Some(length) => (&rest[length..], false),
        None => (without_project(rest).unwrap_or(rest), is_gemini),
    }
}

/// The path behind the project and the location that Vertex AI has in front.
fn without_project(path: &str) -> Option<&str> {
    let (project, rest) = path.strip_prefix("/projects/")?.split_once("/locations/")?;
    let location = rest.find('/')?;
    (!project.is_empty() && !project.contains('/') && location > 0).then(|| &rest[location..])
}

impl ClientRoute {
    /// Returns the route of a request; none if nothing is served there.
    pub(crate) fn find(method: &Method, path: &str, headers: &HeaderMap) -> Option<Self> {
        let verb = match *method {
            Method::GET | Method::HEAD => Get,
            Method::POST => Post,
            Method::DELETE => Delete,
            _ => return None,
        };
        let (path, is_gemini) = stripped(path);
        let has = |own: &[&str]| own.iter().any(|name| headers.contains_key(*name));
        let shape = match () {
            () if is_gemini || has(GOOGLE) => ModelListShape::Gemini,
            () if has(ANTHROPIC) => ModelListShape::Anthropic,
            () => ModelListShape::OpenAi,
        };
        // Names may have colons in them; a verb behind one is no name.
        let is_verb = |name: &str| {
            let last = name.rsplit_once(':').map(|(_, last)| last);
            verb == Get && last.is_some_and(|last| last.contains("Content") || last == "countTokens")
        };
        let (make, name) = find_row(verb, path)?;
        let name = name.unescaped();
        match name.as_deref().is_some_and(is_verb) {
            true => None,
            false => Some(make(PathParts { name, shape })),
        }
    }

    /// Returns an alternative to a path at which nothing is served.
    pub(crate) fn hint(path: &str) -> Option<&'static str> {
        let is_there = |(part, _): &&(&str, &str)| {
            path.match_indices(part)
                .any(|(at, _)| matches!(path.as_bytes().get(at + part.len()), None | Some(b'/')))
        };
        ELSEWHERE.iter().find(is_there).map(|(_, hint)| *hint)
    }

    /// The methods that a path supports where the requested one is not supported.
    pub(crate) fn allowed(path: &str, headers: &HeaderMap) -> String {
        let methods = [("GET, HEAD", Method::GET), ("POST", Method::POST), ("DELETE", Method::DELETE)];
        let is_known = |(_, method): &&(&str, Method)| Self::find(method, path, headers).is_some();
        methods.iter().filter(is_known).map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    }

    /// The protocol of clients that would ask at a path that is not served.
    pub(crate) fn neighbour(path: &str) -> &'static Protocol {
        let begins = |start: &str| path.starts_with(start);
        match () {
            () if begins("/anthropic/") || path.contains("/messages") => &protocol::ANTHROPIC_MESSAGES,
            () if begins("/ollama/") || path.contains("/api/") => &protocol::OLLAMA,
            () if path.contains("/openai/") => &protocol::OPENAI_CHAT,
            () if begins("/genai/") || begins("/gemini/") || stripped(path).1 => {
                &protocol::GEMINI_GENERATE_CONTENT
            }
            () => &protocol::OPENAI_CHAT,
        }
    }

    /// The protocol in which the client expects an error.
    pub(crate) fn protocol(&self) -> &'static Protocol {
        match self {
            Self::Answer(ClientEndpoint { protocol, .. }) | Self::CountTokens(protocol, _) => protocol,
            Self::Models(shape) | Self::Model(shape, _) => match shape {
                ModelListShape::OpenAi => &protocol::OPENAI_CHAT,
                ModelListShape::Anthropic => &protocol::ANTHROPIC_MESSAGES,
                ModelListShape::Gemini => &protocol::GEMINI_GENERATE_CONTENT,
                ModelListShape::Ollama => &protocol::OLLAMA,
            },
            Self::Embed(api, _) => api.protocol(),
            Self::Show | Self::Version | Self::Running => &protocol::OLLAMA,
            Self::Kept(_) | Self::InputItems(_) | Self::Cancel(_) | Self::Relay(RelayKind::Compaction, _) => {
                &protocol::OPENAI_RESPONSES
            }
            _ => &protocol::OPENAI_CHAT,
        }
    }

    /// Whether everybody may ask.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self, Self::Healthy | Self::Ready | Self::Greeting)
    }
}

fn find_row(verb: RouteMethod, path: &str) -> Option<(RouteMaker, PathCaptures<'_>)> {
    let of_verb = ROWS.iter().filter(|(own, ..)| *own == verb);
    of_verb
        .map(|(_, pattern, make)| (captured(pattern, path), *make))
        .find_map(|(name, make)| Some((make, name?)))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    /// The routes in the table of the documents: method, path.
    fn documented() -> Vec<(Method, String)> {
        let text = include_str!("../../../docs/gateway.md");
        let section = text.split_once("\n## Routes\n").and_then(|(_, rest)| rest.split_once("\n## "));
        let rows = section.expect("a section").0.lines().filter(|line| line.starts_with("| `"));
        let mut routes: Vec<(Method, String)> = Vec::new();
        for row in rows {
            let cell = row.split('|').nth(1).expect("a first cell");
            for code in cell.split('`').skip(1).step_by(2) {
                let (method, path) = match code.split_once(' ') {
                    Some((method, path)) => (method.parse().expect("a method"), path.to_owned()),
                    // The same as before, up to the colon or at another path.
                    None => {
                        let (method, before) = routes.last().cloned().expect("a route before");
                        let stem = before.rsplit_once(':').map_or("", |(stem, _)| stem);
                        (
                            method,
                            if code.starts_with(':') { format!("{stem}{code}") } else { code.to_owned() },
                        )
                    }
                };
                routes.push((method, path));
            }
        }
        routes
    }

    #[test]
    fn every_route_is_documented_and_every_documented_one_is_there() {
        let documented = documented();
        assert!(documented.len() > 40, "{documented:?}");
        for (method, path) in &documented {
            let asked = path.replace("{model}", "a/b").replace("{id}", "resp_1").replace(['{', '}'], "");
            let asked = asked.split('?').next().expect("a path");
            assert!(ClientRoute::find(method, asked, &HeaderMap::new()).is_some(), "{method} {path}");
        }
        for (verb, pattern, _) in ROWS {
            let is_told = |(method, path): &(Method, String)| {
                let own = match verb {
                    Get => Method::GET,
                    Post => Method::POST,
                    Delete => Method::DELETE,
                };
                *method == own && stripped(path.split('?').next().unwrap_or_default()).0 == *pattern
            };
            assert!(documented.iter().any(is_told), "{pattern} is not documented");
        }
    }

    #[test]
    fn a_name_in_a_path_may_have_slashes_and_an_id_may_not() {
        for (path, name) in [
            ("/v1beta/models/ant/native:generateContent", Some("ant/native")),
            ("/v1beta/models/ant%2Fnative:generateContent", Some("ant/native")),
            ("/v1beta/ant/native:generateContent", Some("ant/native")),
            ("/openai/deployments/ant/native/chat/completions", Some("ant/native")),
            ("/v1/projects/p/locations/l/publishers/google/models/a/b:generateContent", Some("a/b")),
            ("/v1beta1/publishers/google/models/a:generateContent", Some("a")),
            ("/v1beta1/publishers/ant/models/native:generateContent", Some("ant/native")),
            ("/v1beta1/publishers/ant%2Fb/models/c/d:generateContent", Some("ant/b/c/d")),
            (
                "/v1beta1/projects/p/locations/l/publishers/ant/models/a@1:streamGenerateContent",
                Some("ant/a@1"),
            ),
            ("/v1/projects/p/locations/l/publishers/anthropic/models/a@1:rawPredict", Some("a@1")),
            ("/v1beta/models/:generateContent", None),
            ("/v1/responses/a/b/cancel", None),
        ] {
            let found = ClientRoute::find(&Method::POST, path, &HeaderMap::new());
            let model = match found {
                Some(ClientRoute::Answer(ClientEndpoint { model, .. })) => model,
                _ => None,
            };
            assert_eq!(model.as_deref(), name, "{path}");
        }
        let get = |path| ClientRoute::find(&Method::GET, path, &HeaderMap::new());
        assert_eq!(get("/v1/responses/a/b"), None);
        assert_eq!(get("/v1/models/a:generateContent"), None);
        assert_eq!(get("/v1/models/a:b"), Some(ClientRoute::Model(ModelListShape::OpenAi, "a:b".to_owned())));
        assert_eq!(get("/v1beta/openai/models"), Some(ClientRoute::Models(ModelListShape::OpenAi)));
        for (header, shape) in [
            ("x-goog-api-key", ModelListShape::Gemini),
            ("x-goog-api-client", ModelListShape::Gemini),
            ("x-api-key", ModelListShape::Anthropic),
            ("api-key", ModelListShape::OpenAi),
        ] {
            let headers =
                HeaderMap::from_iter([(header.parse().expect("a name"), HeaderValue::from_static("k"))]);
            let found = ClientRoute::find(&Method::GET, "/v1/models", &headers);
            assert_eq!(found, Some(ClientRoute::Models(shape)), "{header}");
        }
        assert_eq!(
            ClientRoute::find(&Method::POST, "/v1/responses/compact", &HeaderMap::new()),
            Some(ClientRoute::Relay(RelayKind::Compaction, None))
        );
    }

    fn protocol_of(path: &str) -> Option<&'static str> {
        match ClientRoute::find(&Method::POST, path, &HeaderMap::new())? {
            ClientRoute::Answer(response) => Some(response.protocol.name),
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
        assert_eq!(ClientRoute::find(&Method::GET, "/v1/chat/completions", &HeaderMap::new()), None);
    }

    #[test]
    fn gemini_names_the_model_in_the_path() {
        let path = "/v1beta/models/demo%2Fa:b:streamGenerateContent";
        let found = ClientRoute::find(&Method::POST, path, &HeaderMap::new());
        let Some(ClientRoute::Answer(response)) = found else { panic!("{found:?}") };
        assert_eq!((response.model.as_deref(), response.is_streamed), (Some("demo/a:b"), Some(true)));
    }

    #[test]
    fn lists_have_the_shape_of_whoever_asks() {
        let get = |path, headers: &HeaderMap| ClientRoute::find(&Method::GET, path, headers);
        let mut headers = HeaderMap::new();
        assert_eq!(get("/v1/models", &headers), Some(ClientRoute::Models(ModelListShape::OpenAi)));
        assert_eq!(get("/v1beta/models", &headers), Some(ClientRoute::Models(ModelListShape::Gemini)));
        assert_eq!(get("/api/tags", &headers), Some(ClientRoute::Models(ModelListShape::Ollama)));
        headers.insert("anthropic-version", http::HeaderValue::from_static("2023-06-01"));
        assert_eq!(get("/v1/models", &headers), Some(ClientRoute::Models(ModelListShape::Anthropic)));
    }
}
