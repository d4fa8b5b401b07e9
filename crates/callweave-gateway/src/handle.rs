//! Answers requests.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use callweave::exchange::store::StoredResponse;
use callweave::upstream::ErrorClass;
use callweave::{Value, protocol};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version, header, request};
use tracing::Level;

use crate::account::{at_level, bounded};
use crate::body::ResponseBody;
use crate::config::LimitsConfig;
use crate::failure::{JSON, RequestFailure};
use crate::gateway::Gateway;
use crate::in_flight::crowded;
use crate::incoming::{IncomingHttp, RequestHead};
use crate::keys::{self, KeyDigest};
use crate::models::ModelListShape;
use crate::pages::AllowedPages;
use crate::router::ClientRoute;
use crate::trace::{TraceContext, uuid};
use crate::{attempts, heavy, intake, models, parse, relay, tokens};

/// The error type that bodies must convert to in order to be read.
type UnfitBody = Box<dyn std::error::Error + Send + Sync>;

impl Gateway {
    /// Answers one request that came over a connection: it must say which host it is for, once.
    pub(crate) async fn serve<B>(self: &Arc<Self>, request: Request<B>) -> Response<ResponseBody>
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: Into<UnfitBody>,
    {
        let hosts = request.headers().get_all(header::HOST).iter().count();
        match (hosts, request.version()) {
            (1, _) | (0, Version::HTTP_10 | Version::HTTP_09) => self.handle(request).await,
            (0, _) => self.refuse(request, &RequestFailure::invalid("the request has no Host header")),
            _ => self.refuse(request, &RequestFailure::invalid("the request has several Host headers")),
        }
    }

    /// Answers one request on a connection for which there is no room: only requests for the gateway's state.
    pub(crate) async fn turn_away<B>(self: &Arc<Self>, request: Request<B>) -> Response<ResponseBody>
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: Into<UnfitBody>,
    {
        let route = ClientRoute::find(request.method(), request.uri().path(), request.headers());
        match route {
            Some(ClientRoute::Healthy | ClientRoute::Ready | ClientRoute::Metrics) => {
                self.serve(request).await
            }
            _ => self.refuse(request, &crowded("too many connections are open (limits.connections)")),
        }
    }

    /// Refuses a request in the shape that its client expects, without reading its body.
    fn refuse<B>(&self, request: Request<B>, failure: &RequestFailure) -> Response<ResponseBody> {
        let (parts, _) = request.into_parts();
        let route = ClientRoute::find(&parts.method, parts.uri.path(), &parts.headers);
        let protocol =
            route.map_or_else(|| ClientRoute::neighbour(parts.uri.path()), |route| route.protocol());
        let response = failure.response(protocol);
        self.tell(&parts, &request_id(&parts.headers), protocol, response.status());
        response
    }

    /// Answers one request.
    pub async fn handle<B>(self: &Arc<Self>, request: Request<B>) -> Response<ResponseBody>
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: Into<UnfitBody>,
    {
        let (parts, body) = request.into_parts();
        let id = request_id(&parts.headers);
        let route = ClientRoute::find(&parts.method, parts.uri.path(), &parts.headers);
        let admitted = self.pages.admit(&parts);
        let origin = admitted.as_ref().ok().cloned().flatten();
        let is_open = route.as_ref().is_some_and(ClientRoute::is_open);
        let mut response = match (admitted, route) {
            (Err(failure), route) if !is_open => {
                let protocol =
                    route.map_or_else(|| ClientRoute::neighbour(parts.uri.path()), |route| route.protocol());
                let response = failure.response(protocol);
                self.tell(&parts, &id, protocol, response.status());
                response
            }
            (_, None) if origin.is_some() && AllowedPages::is_preflight(&parts) => {
                AllowedPages::preflight(&parts.headers)
            }
            (_, Some(route)) => {
                let protocol = route.protocol();
                // Responses log themselves.
                let is_told = matches!(
                    route,
                    ClientRoute::Relay(..) | ClientRoute::CountTokens(..) | ClientRoute::Embed(..)
                );
                let dispatched = tokio::select! {
                    biased;
                    dispatched = self.dispatch(route, &parts, body, &id) => dispatched,
                    () = self.closing() => Err(RequestFailure::shutting_down()),
                };
                match dispatched {
                    Ok(response) => {
                        if is_told {
                            self.tell(&parts, &id, protocol, response.status());
                        }
                        response
                    }
                    Err(failure) => {
                        let response = failure.response(protocol);
                        self.tell(&parts, &id, protocol, response.status());
                        response
                    }
                }
            }
            (_, None) => {
                let path = parts.uri.path();
                let mut what = format!("nothing answers to {} {path}", parts.method);
                if let Some(hint) = ClientRoute::hint(path) {
                    what = format!("{what}: {hint}");
                }
                let allowed = ClientRoute::allowed(path, &parts.headers);
                let failure = match HeaderValue::try_from(&allowed) {
                    Ok(allowed) if !allowed.is_empty() => {
                        let mut failure =
                            RequestFailure::invalid(what).with_status(StatusCode::METHOD_NOT_ALLOWED);
                        failure.headers.insert(header::ALLOW, allowed);
                        failure
                    }
                    _ => RequestFailure::new(ErrorClass::NotFound, what).with_code("unknown_url"),
                };
                let protocol = ClientRoute::neighbour(path);
                let response = failure.response(protocol);
                self.tell(&parts, &id, protocol, response.status());
                response
            }
        };
        if let Ok(id) = HeaderValue::try_from(id)
            && !response.headers().contains_key("x-request-id")
        {
            response.headers_mut().insert("x-request-id", id);
        }
        self.pages.dress(response.headers_mut(), origin);
        response
    }

    /// Logs a request that no model was asked for: refused ones, and relayed ones.
    fn tell(&self, parts: &request::Parts, id: &str, protocol: &protocol::Protocol, status: StatusCode) {
        let trace = TraceContext::of(&parts.headers);
        self.metrics.request(protocol.name, "none", status.as_str());
        let key = keys::shown(&parts.headers, parts.uri.query()).map(KeyDigest::of);
        let key = key.and_then(|digest| self.keys.name(&digest));
        at_level!(
            if status.is_server_error() { Level::WARN } else { Level::INFO },
            request = id,
            trace = trace.id.as_str(),
            span = trace.span.as_str(),
            protocol = protocol.name,
            path = bounded(parts.uri.path()),
            status = status.as_str(),
            key,
            "answered"
        );
    }

    async fn dispatch<B>(
        self: &Arc<Self>,
        route: ClientRoute,
        parts: &request::Parts,
        body: B,
        id: &str,
    ) -> Result<Response<ResponseBody>, RequestFailure>
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: Into<UnfitBody>,
    {
        self.client.own.check(&parts.headers)?;
        let key = keys::shown(&parts.headers, parts.uri.query());
        let scope = KeyDigest::of(key.unwrap_or_default());
        if !route.is_open() && !self.keys.admits(key.map(|_| &scope)) {
            let what = if key.is_some() { "the key is not known here" } else { "a key is needed" };
            return Err(RequestFailure::new(ErrorClass::Authentication, what));
        }
        match route {
            ClientRoute::Healthy => return Ok(text("ok\n")),
            ClientRoute::Ready if !self.is_ready() => return Ok(unready("shutting down\n")),
            ClientRoute::Ready if self.is_overloaded() => return Ok(unready("overloaded\n")),
            ClientRoute::Ready => return Ok(text("ready\n")),
            ClientRoute::Greeting => return Ok(text("callweave\n")),
            ClientRoute::Metrics => return Ok(text(self.metrics.text())),
            ClientRoute::Version => {
                return Ok(json(&Value::object([("version", env!("CARGO_PKG_VERSION").into())])));
            }
            ClientRoute::Models(shape) => {
                return Ok(json(&models::list(shape, &models::names(self, &parts.headers).await)));
            }
            ClientRoute::Model(shape, name) => return self.model(shape, &name),
            ClientRoute::Running => return Ok(json(&models::running(&self.routes.names()))),
            ClientRoute::Kept(id) => {
                let kept = self.kept(&parts.method, &scope, &id);
                return self.or_upstream(kept, parts, key).await;
            }
            ClientRoute::InputItems(id) => {
                let items = self.input_items(&scope, &id, parts.uri.query());
                return self.or_upstream(items, parts, key).await;
            }
            ClientRoute::Cancel(id) => {
                let cancelled = self.cancel(&scope, &id);
                return self.or_upstream(cancelled, parts, key).await;
            }
            _ => {}
        }
        let limits = &self.config.limits;
        let read = intake::read(&parts.headers, body, limits, &self.config.timeouts, &self.in_flight);
        let (bytes, held) = read.await?;
        // Room is taken only now, so that a slow sender takes no other request's room.
        let room = self.room()?;
        let began = Instant::now();
        let headers = &parts.headers;
        // A key that lets a client in here is nobody else's business.
        let key = key.filter(|_| self.keys.is_open()).map(str::to_owned);
        match route {
            ClientRoute::Answer(answer) if answer.is_prompt && is_load(&read_json(&bytes, limits)?) => {
                let body = read_json(&bytes, limits)?;
                let name = body.get("model").and_then(Value::as_str).unwrap_or_default();
                self.routes.find(name)?;
                Ok(json(&models::loaded(name, &body)))
            }
            ClientRoute::Answer(answer) => {
                let trace = TraceContext::of(headers);
                let query = parts.uri.query();
                let beginning =
                    RequestHead { headers, query, api_key: key, key: scope, id, trace, began, held };
                let asked = heavy::run(bytes.len(), || IncomingHttp::read(self, answer, bytes, beginning))?;
                Ok(attempts::answer(Arc::clone(self), asked, room).await)
            }
            ClientRoute::CountTokens(protocol, model) => {
                self.count_tokens(protocol, model, &bytes, headers, key, &scope).await
            }
            ClientRoute::Relay(what, model) => {
                let named = relay::NamedBody { bytes, model };
                relay::relay(self, what, named, headers, key, room).await
            }
            ClientRoute::Embed(api, model) => {
                let named = relay::NamedBody { bytes, model };
                relay::embed(self, api, named, headers, key, room).await
            }
            ClientRoute::Show => {
                let body = read_json(&bytes, limits)?;
                let name = body.get("model").or_else(|| body.get("name")).and_then(Value::as_str);
                self.routes.find(name.ok_or_else(|| RequestFailure::invalid("model is missing"))?)?;
                Ok(json(&models::show()))
            }
            ClientRoute::Parse => heavy::run(bytes.len(), || {
                limits.request().check(&bytes)?;
                Ok(json_text(parse::parse(&bytes, self.config.limits.schema_steps)?))
            }),
            _ => Err(RequestFailure::new(ErrorClass::NotFound, "nothing answers here")),
        }
    }

    fn model(&self, shape: ModelListShape, name: &str) -> Result<Response<ResponseBody>, RequestFailure> {
        self.routes.find(name)?;
        Ok(json(&models::model(shape, name)))
    }

    /// The response to what is not known here, if there is just one upstream that may know it.
    async fn or_upstream(
        &self,
        own: Result<Response<ResponseBody>, RequestFailure>,
        parts: &request::Parts,
        key: Option<&str>,
    ) -> Result<Response<ResponseBody>, RequestFailure> {
        match own {
            Err(failure) if failure.error.code.as_deref() == Some(UNKNOWN_RESPONSE) => {
                let key = key.filter(|_| self.keys.is_open());
                relay::of_response(self, parts, key).await.unwrap_or(Err(failure))
            }
            own => own,
        }
    }

    fn stored(&self, scope: &KeyDigest, id: &str) -> Result<Arc<StoredResponse>, RequestFailure> {
        self.store.response(&scope.scope(), id).ok_or_else(|| unknown_response(id))
    }

    fn input_items(
        &self,
        scope: &KeyDigest,
        id: &str,
        query: Option<&str>,
    ) -> Result<Response<ResponseBody>, RequestFailure> {
        Ok(json(&self.stored(scope, id)?.turn.list_input_items(query)))
    }

    fn cancel(&self, scope: &KeyDigest, id: &str) -> Result<Response<ResponseBody>, RequestFailure> {
        // Stored responses are complete: none are made in the background.
        self.stored(scope, id)?;
        Err(RequestFailure::invalid(format!("Response with id '{id}' is complete and cannot be cancelled.")))
    }

    fn kept(
        &self,
        method: &Method,
        scope: &KeyDigest,
        id: &str,
    ) -> Result<Response<ResponseBody>, RequestFailure> {
        let unknown = || unknown_response(id);
        if *method == Method::DELETE {
            return match self.store.remove_response(&scope.scope(), id) {
                true => Ok(json(&Value::object([
                    ("id", id.into()),
                    ("object", "response".into()),
                    ("deleted", true.into()),
                ]))),
                false => Err(unknown()),
            };
        }
        Ok(json_text(self.stored(scope, id)?.body.to_vec()))
    }

    async fn count_tokens(
        &self,
        protocol: &'static protocol::Protocol,
        model: Option<String>,
        bytes: &Bytes,
        headers: &HeaderMap,
        key: Option<String>,
        scope: &KeyDigest,
    ) -> Result<Response<ResponseBody>, RequestFailure> {
        let body = read_json(bytes, &self.config.limits)?;
        if body.as_object().is_none() {
            return Err(RequestFailure::invalid("the request is no object"));
        }
        let named = || body.get("model").and_then(Value::as_str).map(str::to_owned);
        let model = model.or_else(named).ok_or_else(|| RequestFailure::invalid("model is missing"))?;
        let earlier = body.get("previous_response_id").and_then(Value::as_str);
        let earlier = earlier.and_then(|id| self.store.response(&scope.scope(), id));
        let targets = self.routes.find(&model)?;
        if let Some(target) = targets.first().filter(|target| target.upstream.codex().is_none()) {
            let wire = target.upstream.wire_for(&target.model, protocol)?;
            // Nobody is asked for a count who may not even know the protocol.
            let is_asked = wire.protocol == protocol && target.upstream.engine().speaks(protocol);
            if is_asked && !target.upstream.config.is_demo() && earlier.is_none() {
                match relay::count_tokens(self, target, &body, wire, headers, key).await {
                    // Few servers of the protocol have this path.
                    Err(failure) if matches!(failure.error.status, Some(404 | 405 | 501)) => {}
                    counted => return counted,
                }
            }
        }
        let before = earlier.map_or(0, |earlier| tokens::of_text(earlier.turn.total_size()));
        let count = Value::from(tokens::estimate(&body) + before);
        Ok(json(&match () {
            () if *protocol == protocol::ANTHROPIC_MESSAGES => Value::object([("input_tokens", count)]),
            () if *protocol == protocol::OPENAI_RESPONSES => {
                Value::object([("object", "response.input_tokens".into()), ("input_tokens", count)])
            }
            () => Value::object([("totalTokens", count)]),
        }))
    }
}

/// Whether a prompt is none: Ollama's clients have a model loaded so.
fn is_load(body: &Value) -> bool {
    let is_empty = |key: &str| match body.get(key) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Array(list)) => list.is_empty(),
        Some(_) => false,
    };
    ["prompt", "images", "system", "suffix"].into_iter().all(is_empty) && body.get("model").is_some()
}

/// The code of the failure to find a response.
const UNKNOWN_RESPONSE: &str = "response_not_found";

fn unknown_response(id: &str) -> RequestFailure {
    let what = format!("Response with id '{}' not found.", bounded(id));
    RequestFailure::new(ErrorClass::NotFound, what).with_code(UNKNOWN_RESPONSE)
}

/// The JSON of a body.
pub(crate) fn read_json(bytes: &[u8], limits: &LimitsConfig) -> Result<Value, RequestFailure> {
    heavy::run(bytes.len(), || Ok(limits.request().read(bytes)?))
}

/// The id that the client gave the request, or a made one.
fn request_id(headers: &HeaderMap) -> String {
    let given = headers.get("x-request-id").and_then(|value| value.to_str().ok());
    let given = given.filter(|id| (1..=128).contains(&id.len()));
    given.map_or_else(uuid, str::to_owned)
}

fn unready(why: &'static str) -> Response<ResponseBody> {
    let mut response = text(why);
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    response
}

fn text(text: impl Into<Bytes>) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::complete(text));
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}

fn json(value: &Value) -> Response<ResponseBody> {
    json_text(value.to_string())
}

fn json_text(text: impl Into<Bytes>) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::complete(text));
    response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    response
}
