//! The lists of models, in each client's shape.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use callweave::Value;
use callweave::exchange::UpstreamFault;
use callweave::provider::Provider;
use http::{HeaderMap, HeaderValue, Method};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::gateway::Gateway;
use crate::hops::VIA;
use crate::upstream::{Upstream, address};

/// The shapes in which clients know lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ModelListShape {
    OpenAi,
    Anthropic,
    Gemini,
    Ollama,
}

/// The time a list stays valid.
const GOOD_FOR: Duration = Duration::from_secs(60);
/// The maximum wait for an upstream.
const PATIENCE: Duration = Duration::from_secs(3);
/// The creation date of models without a known one.
const LONG_AGO: &str = "2025-01-01T00:00:00Z";
/// The most that is read of a list.
const LONGEST: usize = 4 << 20;

/// The names that upstreams listed.
#[derive(Default)]
pub(crate) struct ListedModels(Mutex<Option<(Instant, Vec<String>)>>);

impl Gateway {
    /// The names of models that clients can use; upstreams are asked for theirs.
    pub async fn models(self: &Arc<Self>) -> Vec<String> {
        names(self, &HeaderMap::new()).await
    }

    /// Asks upstreams of an unknown provider for their model lists, which may identify it. Requests need not wait for
    /// it.
    pub async fn find_out_providers(self: Arc<Self>) {
        let mut asking = JoinSet::new();
        for upstream in self.routes.upstreams().filter(|upstream| upstream.is_unknown()) {
            let (gateway, upstream) = (Arc::clone(&self), Arc::clone(upstream));
            asking.spawn(async move {
                let _ = tokio::time::timeout(PATIENCE, ask(&gateway, &upstream, None)).await;
            });
        }
        asking.join_all().await;
    }
}

/// All names that clients can use; `headers` are those of the client that wants to know.
pub(crate) async fn names(gateway: &Arc<Gateway>, headers: &HeaderMap) -> Vec<String> {
    let mut names = gateway.routes.names();
    let known = gateway.listed.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let listed = match known {
        Some((since, listed)) if since.elapsed() < GOOD_FOR => listed,
        _ => {
            let listed = ask_all(gateway, headers).await;
            let mut slot = gateway.listed.0.lock().unwrap_or_else(PoisonError::into_inner);
            *slot = Some((Instant::now(), listed.clone()));
            listed
        }
    };
    names.extend(listed);
    let mut seen = std::collections::HashSet::new();
    names.retain(|name| seen.insert(name.clone()));
    names
}

/// Asks the upstreams of which nobody has said what models they have, all at the same time.
async fn ask_all(gateway: &Arc<Gateway>, headers: &HeaderMap) -> Vec<String> {
    let upstreams = gateway.routes.upstreams();
    let unknown =
        upstreams.filter(|upstream| !upstream.config.is_demo() && upstream.config.models.is_empty());
    let mut asking = JoinSet::new();
    for (at, upstream) in unknown.enumerate() {
        let (gateway, upstream) = (Arc::clone(gateway), Arc::clone(upstream));
        let via = headers.get(VIA).cloned();
        asking.spawn(async move {
            let asked = tokio::time::timeout(PATIENCE, ask(&gateway, &upstream, via)).await;
            let models = asked.ok().and_then(Result::ok).map(|models| models.names).unwrap_or_default();
            let is_own = |name: &str| {
                let found = gateway.routes.find(name).ok();
                found.is_some_and(|found| {
                    found.first().is_some_and(|target| target.upstream.name == upstream.name)
                })
            };
            let names = models.into_iter().map(|model| match is_own(&model) {
                true => model,
                false => format!("{}/{model}", upstream.name),
            });
            (at, names.collect::<Vec<_>>())
        });
    }
    let mut all = asking.join_all().await;
    all.sort_unstable_by_key(|(at, _)| *at);
    all.into_iter().flat_map(|(_, names)| names).collect()
}

/// The models of one upstream.
pub(crate) struct OwnModels {
    /// Their names.
    pub(crate) names: Vec<String>,
    /// The provider whose list it seems to be.
    pub(crate) provider: Option<&'static Provider>,
}

/// Asks one upstream what models it has, after the request came through those in `via`.
pub(crate) async fn ask(
    gateway: &Gateway,
    upstream: &Upstream,
    via: Option<HeaderValue>,
) -> Result<OwnModels, String> {
    if let Some(codex) = upstream.codex() {
        let names = codex.models().await.map_err(|fault| fault.to_string())?;
        return Ok(OwnModels { names, provider: None });
    }
    let wire = upstream.listing().ok_or("its protocol has no lists")?;
    let mut headers = HeaderMap::new();
    if let Some((name, value)) = wire.version_header {
        headers.insert(name, http::HeaderValue::from_static(value));
    }
    if let Some(via) = via {
        headers.insert(VIA, via);
    }
    upstream.sign(wire, None, &mut headers);
    let told = |fault: UpstreamFault| fault.to_string();
    let address = address(&wire.under(&upstream.config.base_url, wire.models_path)).map_err(told)?;
    let end = Instant::now() + gateway.config.timeouts.response;
    let sent = gateway.client.send_within(Method::GET, address, headers, Bytes::new(), end).await;
    let mut reply = sent.map_err(told)?;
    let body = reply.rest(LONGEST, gateway.config.timeouts.idle).await.map_err(told)?;
    if reply.status >= 300 {
        let mut error = wire.protocol.read_error(Some(reply.status), NO_HEADERS, &body);
        upstream.engine().mask(&mut error);
        return Err(format!("{}: {}", reply.status, error.message));
    }
    let body: Value = String::from_utf8_lossy(&body).parse().map_err(|_| "its list is no JSON")?;
    let list = body.get("data").or_else(|| body.get("models")).and_then(Value::as_array);
    let name = |model: &Value| {
        let name = model.get("id").or_else(|| model.get("name"))?.as_str()?;
        Some(name.strip_prefix("models/").unwrap_or(name).to_owned())
    };
    let provider = Provider::of_list(&body);
    if let Some(provider) = provider {
        upstream.find_out(provider);
    }
    Ok(OwnModels { names: list.into_iter().flatten().filter_map(name).collect(), provider })
}

const NO_HEADERS: [(&str, &str); 0] = [];

/// A list.
pub(crate) fn list(shape: ModelListShape, names: &[String]) -> Value {
    let all = Value::from_iter(names.iter().map(|name| model(shape, name)));
    let end = |name: Option<&String>| name.map_or(Value::Null, |name| name.as_str().into());
    match shape {
        ModelListShape::OpenAi => Value::object([("object", "list".into()), ("data", all)]),
        ModelListShape::Anthropic => Value::object([
            ("data", all),
            ("has_more", false.into()),
            ("first_id", end(names.first())),
            ("last_id", end(names.last())),
        ]),
        ModelListShape::Gemini | ModelListShape::Ollama => Value::object([("models", all)]),
    }
}

/// One model of a list.
pub(crate) fn model(shape: ModelListShape, name: &str) -> Value {
    let name: Value = name.into();
    match shape {
        ModelListShape::OpenAi => Value::object([
            ("id", name),
            ("object", "model".into()),
            ("created", 1_735_689_600.into()),
            ("owned_by", "callweave".into()),
        ]),
        ModelListShape::Anthropic => Value::object([
            ("type", "model".into()),
            ("id", name.clone()),
            ("display_name", name),
            ("created_at", LONG_AGO.into()),
        ]),
        ModelListShape::Gemini => {
            let methods = ["generateContent", "streamGenerateContent", "countTokens", "embedContent"];
            let full = format!("models/{}", name.as_str().unwrap_or_default());
            Value::object([
                ("name", full.into()),
                ("displayName", name),
                ("supportedGenerationMethods", Value::from_iter(methods)),
            ])
        }
        ModelListShape::Ollama => Value::object([
            ("name", name.clone()),
            ("model", name),
            ("modified_at", LONG_AGO.into()),
            ("size", 0.into()),
            ("digest", "".into()),
            ("details", details()),
        ]),
    }
}

/// The models that Ollama's clients take for loaded: the models of the configuration, as no upstream is asked.
pub(crate) fn running(names: &[String]) -> Value {
    let one = |name: &String| {
        let mut model = model(ModelListShape::Ollama, name);
        if let Some(members) = model.as_object_mut() {
            members.remove("modified_at");
            members.insert("expires_at", "2099-01-01T00:00:00Z");
            members.insert("size_vram", 0);
        }
        model
    };
    Value::object([("models", Value::from_iter(names.iter().map(one)))])
}

/// The response to Ollama's clients that have a model loaded, or with a `keep_alive` of 0 unloaded.
pub(crate) fn loaded(name: &str, body: &Value) -> Value {
    let is_unloaded = body.get("keep_alive").is_some_and(|own| own.as_f64() == Some(0.0) || *own == "0");
    Value::object([
        ("model", name.into()),
        ("created_at", LONG_AGO.into()),
        ("response", "".into()),
        ("done", true.into()),
        ("done_reason", if is_unloaded { "unload" } else { "load" }.into()),
    ])
}

/// The details of a model that Ollama's clients may request.
pub(crate) fn show() -> Value {
    Value::object([
        ("license", "".into()),
        ("modelfile", "".into()),
        ("parameters", "".into()),
        ("template", "".into()),
        ("modified_at", LONG_AGO.into()),
        ("details", details()),
        ("model_info", Value::object([])),
        ("capabilities", Value::from_iter(["completion", "tools"])),
    ])
}

fn details() -> Value {
    Value::object([
        ("parent_model", "".into()),
        ("format", "".into()),
        ("family", "callweave".into()),
        ("families", Value::from_iter(["callweave"])),
        ("parameter_size", "".into()),
        ("quantization_level", "".into()),
    ])
}
