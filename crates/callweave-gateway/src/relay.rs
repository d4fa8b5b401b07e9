//! Requests and responses that are passed through unchanged.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use callweave::Value;
use callweave::exchange::embedding::EmbeddingApi;
use callweave::exchange::http::{HttpWire, escaped_model};
use callweave::exchange::{UpstreamFault, lost_header};
use callweave::protocol::{ANTHROPIC_MESSAGES, OPENAI_CHAT, OPENAI_RESPONSES, Protocol};
use callweave::upstream::ErrorClass;
use http::{HeaderMap, Response, StatusCode, header, request};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::account::beginning;
use crate::body::{PieceSlot, ResponseBody};
use crate::config::TimeoutsConfig;
use crate::failure::RequestFailure;
use crate::gateway::Gateway;
use crate::handle::read_json;
use crate::router::RelayKind;
use crate::routes::RouteTarget;
use crate::trace::TraceContext;
use crate::upstream::{Upstream, UpstreamReply, address, passed_on};

/// A body, and the model that the path names.
pub(crate) struct NamedBody {
    pub(crate) bytes: Bytes,
    pub(crate) model: Option<String>,
}

impl NamedBody {
    /// The body, and the model that it or the path names.
    fn read(&self, gateway: &Gateway) -> Result<(Value, String), RequestFailure> {
        let body = read_json(&self.bytes, &gateway.config.limits)?;
        let named = || Some(body.get("model")?.as_str()?.to_owned());
        let model = self.model.clone().or_else(named);
        let model = model
            .filter(|model| !model.is_empty())
            .ok_or_else(|| RequestFailure::invalid("model is missing"))?;
        Ok((body, model))
    }
}

/// The first target of a model that speaks one of some protocols, and the first of them that it speaks.
fn able(
    gateway: &Gateway,
    model: &str,
    what: &str,
    protocols: &[&'static Protocol],
) -> Result<(RouteTarget, &'static HttpWire), RequestFailure> {
    let targets = gateway.routes.find(model)?;
    let found = targets.iter().find_map(|target| {
        let mut wires = protocols.iter().filter_map(|own| target.upstream.wire_for(&target.model, own).ok());
        let wire = wires.find(|wire| protocols.contains(&wire.protocol))?;
        (!target.upstream.config.is_demo()).then(|| (target.clone(), wire))
    });
    found.ok_or_else(|| {
        let names: Vec<_> = targets.iter().map(|target| format!("{:?}", target.upstream.name)).collect();
        let what =
            format!("upstream {} of the model {:?} has no {what}", names.join(", "), beginning(model, 200));
        RequestFailure::new(ErrorClass::NotFound, what).with_code("unknown_url")
    })
}

/// Sends a body to the upstream of its model, under another name if need be, and its response back.
pub(crate) async fn relay(
    gateway: &Arc<Gateway>,
    what: RelayKind,
    named: NamedBody,
    headers: &HeaderMap,
    key: Option<String>,
    room: OwnedSemaphorePermit,
) -> Result<Response<ResponseBody>, RequestFailure> {
    let (body, model) = named.read(gateway)?;
    let (path, title, protocols): (_, _, &[&Protocol]) = match what {
        RelayKind::Completions => {
            ("/completions", "completions of a prompt", &[&OPENAI_CHAT, &OPENAI_RESPONSES])
        }
        RelayKind::Compaction => ("/responses/compact", "compaction", &[&OPENAI_RESPONSES]),
    };
    let (target, wire) = able(gateway, &model, title, protocols)?;
    let body = renamed(body, named.bytes, &target.model);
    let reply = send(gateway, &target, wire, path, body, headers, key).await?;
    Ok(response(reply, gateway, room))
}

/// Asks the upstream of a model for embeddings, in its own API.
pub(crate) async fn embed(
    gateway: &Arc<Gateway>,
    client: EmbeddingApi,
    named: NamedBody,
    headers: &HeaderMap,
    key: Option<String>,
    room: OwnedSemaphorePermit,
) -> Result<Response<ResponseBody>, RequestFailure> {
    let (body, model) = named.read(gateway)?;
    let is_able = |protocol: &&'static Protocol| EmbeddingApi::of_upstream(protocol).is_some();
    let others = callweave::protocol::TABLE.iter().copied().filter(is_able);
    let protocols: Vec<&'static Protocol> = std::iter::once(client.protocol()).chain(others).collect();
    let (target, wire) = able(gateway, &model, "embeddings", &protocols)?;
    let own = EmbeddingApi::of_upstream(wire.protocol).unwrap_or(client);
    // Gemini's own servers have no `:predict`.
    if own.protocol() == client.protocol() && client != EmbeddingApi::VertexPredict {
        // Only the model's name may be another.
        let path = client.path(&target.model)?;
        let is_same = named.model.is_none() && model == target.model;
        let sent = match is_same {
            true => named.bytes,
            false => Bytes::from(client.renamed(body, &target.model).to_string()),
        };
        let reply = send(gateway, &target, wire, &path, sent, headers, key).await?;
        return Ok(response(reply, gateway, room));
    }
    let mut request = client.read_request(&body)?;
    request.model = Some(model);
    let sent = Bytes::from(own.write_request(&request, &target.model).to_string());
    let mut reply = send(gateway, &target, wire, &own.path(&target.model)?, sent, headers, key).await?;
    let limit = usize::try_from(gateway.config.limits.response).unwrap_or(usize::MAX);
    let rest = reply.rest(limit, gateway.config.timeouts.idle).await;
    let bytes = rest.map_err(|fault| target.failure(&fault))?;
    let answer = std::str::from_utf8(&bytes).ok().and_then(|text| text.parse().ok());
    let embeddings = answer.and_then(|answer: Value| own.read_response(&answer));
    let embeddings = embeddings.filter(|own| own.vectors.len() == request.inputs.len());
    let embeddings = embeddings
        .ok_or_else(|| target.failure(&UpstreamFault::unusable("sent embeddings that cannot be read")))?;
    let mut response =
        Response::new(ResponseBody::complete(client.write_response(&embeddings, &request).to_string()));
    *response.headers_mut() = passed_on(&reply.headers);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, crate::failure::JSON);
    if let Some((name, lost)) = lost_header(request.losses.iter().map(String::as_str))
        && let Ok(lost) = http::HeaderValue::try_from(lost)
    {
        headers.insert(name, lost);
    }
    Ok(response)
}

/// Asks the upstream that may have kept a response: the only one that speaks the protocol. None if it is not the only one.
pub(crate) async fn of_response(
    gateway: &Gateway,
    parts: &request::Parts,
    key: Option<&str>,
) -> Option<Result<Response<ResponseBody>, RequestFailure>> {
    let of_protocol = |upstream: &&Arc<Upstream>| {
        upstream.engine().speaks(&OPENAI_RESPONSES) && upstream.engine().keeps_responses()
    };
    let mut upstreams = gateway.routes.upstreams().filter(of_protocol);
    let (Some(upstream), None) = (upstreams.next(), upstreams.next()) else { return None };
    let wire = HttpWire::of(&OPENAI_RESPONSES)?;
    let (_, path) = parts.uri.path().split_once("/responses/")?;
    let query = parts.uri.query().map_or(String::new(), |query| format!("?{query}"));
    let escaped: Vec<String> = path.split('/').map(escaped_model).collect::<Result<_, _>>().ok()?;
    let path = format!("/responses/{}{query}", escaped.join("/"));
    let mut sent = HeaderMap::new();
    TraceContext::of(&parts.headers).put(&mut sent);
    upstream.sign(wire, key, &mut sent);
    let end = Instant::now() + gateway.config.timeouts.response;
    let target = gateway.routes.first(&format!("{}/-", upstream.name))?;
    let asked = async {
        let address =
            address(&wire.under(&upstream.config.base_url, &path)).map_err(|fault| target.failure(&fault))?;
        let sent = gateway.client.send_within(parts.method.clone(), address, sent, Bytes::new(), end).await;
        let mut reply = accepted(sent, &target, gateway.config.timeouts.idle).await?;
        let limit = usize::try_from(gateway.config.limits.response).unwrap_or(usize::MAX);
        let rest = reply.rest(limit, gateway.config.timeouts.idle).await;
        let mut response =
            Response::new(ResponseBody::complete(rest.map_err(|fault| target.failure(&fault))?));
        *response.headers_mut() = passed_on(&reply.headers);
        let kind = reply.headers.get(header::CONTENT_TYPE).cloned().unwrap_or(crate::failure::JSON);
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        Ok(response)
    };
    Some(asked.await)
}

/// Asks an upstream that can count.
pub(crate) async fn count_tokens(
    gateway: &Gateway,
    target: &RouteTarget,
    body: &Value,
    wire: &'static HttpWire,
    headers: &HeaderMap,
    key: Option<String>,
) -> Result<Response<ResponseBody>, RequestFailure> {
    let named = |path: &str| (path.to_owned(), renamed(body.clone(), Bytes::new(), &target.model));
    let (path, body) = match () {
        () if *wire.protocol == ANTHROPIC_MESSAGES => named("/messages/count_tokens"),
        () if *wire.protocol == OPENAI_RESPONSES => named("/responses/input_tokens"),
        // Gemini names the model in the path.
        () => {
            (format!("/models/{}:countTokens", escaped_model(&target.model)?), Bytes::from(body.to_string()))
        }
    };
    let mut reply = send(gateway, target, wire, &path, body, headers, key).await?;
    let bytes =
        reply.rest(1 << 20, gateway.config.timeouts.idle).await.map_err(|fault| target.failure(&fault))?;
    if serde_json::from_slice::<serde::de::IgnoredAny>(&bytes).is_err() {
        return Err(target.failure(&UpstreamFault::unusable("sent a count that is no JSON")));
    }
    let mut response = Response::new(ResponseBody::complete(bytes));
    *response.headers_mut() = passed_on(&reply.headers);
    response.headers_mut().insert(header::CONTENT_TYPE, crate::failure::JSON);
    Ok(response)
}

/// The failure of a response with another status than success.
async fn refused(reply: &mut UpstreamReply, target: &RouteTarget, patience: Duration) -> RequestFailure {
    let refusal = reply.refusal(patience).await;
    let error = target.of_exchange().map(|target| refusal.error(&target));
    error.map_or_else(
        |failure| failure,
        |error| RequestFailure { headers: passed_on(&reply.headers), ..RequestFailure::of(error) },
    )
}

/// The body with the name that the upstream knows; as it came, if that is the same.
fn renamed(mut body: Value, original: Bytes, model: &str) -> Bytes {
    if body.get("model").is_some_and(|own| *own == model) && !original.is_empty() {
        return original;
    }
    if let Some(members) = body.as_object_mut() {
        members.insert("model", model);
    }
    Bytes::from(body.to_string())
}

async fn send(
    gateway: &Gateway,
    target: &RouteTarget,
    wire: &'static HttpWire,
    path: &str,
    body: Bytes,
    headers: &HeaderMap,
    key: Option<String>,
) -> Result<UpstreamReply, RequestFailure> {
    let mut sent = HeaderMap::new();
    for name in wire.forwarded_headers {
        for value in headers.get_all(*name) {
            sent.append(*name, value.clone());
        }
    }
    if let Some((name, value)) = wire.version_header
        && !sent.contains_key(name)
    {
        sent.insert(name, http::HeaderValue::from_static(value));
    }
    TraceContext::of(headers).put(&mut sent);
    target.upstream.sign(wire, key.as_deref(), &mut sent);
    let posted = match address(&wire.under(&target.upstream.config.base_url, path)) {
        Ok(address) => {
            gateway.client.post(address, sent, body, Instant::now() + gateway.config.timeouts.response).await
        }
        Err(fault) => Err(fault),
    };
    accepted(posted, target, gateway.config.timeouts.idle).await
}

/// A response with success, or the failure that another one is.
async fn accepted(
    sent: Result<UpstreamReply, UpstreamFault>,
    target: &RouteTarget,
    patience: Duration,
) -> Result<UpstreamReply, RequestFailure> {
    let mut reply = sent.map_err(|fault| target.failure(&fault))?;
    match reply.status {
        ..300 => Ok(reply),
        _ => Err(refused(&mut reply, target, patience).await),
    }
}

fn response(
    reply: UpstreamReply,
    gateway: &Arc<Gateway>,
    room: OwnedSemaphorePermit,
) -> Response<ResponseBody> {
    let TimeoutsConfig { idle, response, .. } = gateway.config.timeouts;
    let (end, closing) = (Instant::now() + response, gateway.closing());
    let (status, mut headers) = (reply.status, passed_on(&reply.headers));
    if let Some(kind) = reply.headers.get(header::CONTENT_TYPE) {
        headers.insert(header::CONTENT_TYPE, kind.clone());
    }
    let body = ResponseBody::made(move |slot| async move {
        let _room = room;
        // The only failure that a relayed body can report is that it broke off.
        tokio::select! {
            biased;
            passed = pass(reply, slot, idle) => passed,
            () = tokio::time::sleep_until(end) => Err(std::io::ErrorKind::TimedOut.into()),
            () = closing => Err(std::io::ErrorKind::Interrupted.into()),
        }
    });
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    *response.headers_mut() = headers;
    response
}

async fn pass(mut reply: UpstreamReply, slot: PieceSlot, idle: Duration) -> std::io::Result<()> {
    while let Some(bytes) = tokio::time::timeout(idle, reply.next()).await? {
        match bytes {
            Ok(bytes) => slot.put(bytes).await,
            Err(fault) => return Err(std::io::Error::other(fault.to_string())),
        }
    }
    Ok(())
}
