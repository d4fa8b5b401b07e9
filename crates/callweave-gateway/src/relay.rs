//! What goes to an upstream and back as it is.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use callweave::Value;
use callweave::exchange::UpstreamFault;
use callweave::exchange::http::{HttpWire, escaped_model};
use callweave::protocol::{ANTHROPIC_MESSAGES, OPENAI_CHAT, OPENAI_RESPONSES};
use callweave::upstream::ErrorClass;
use http::{HeaderMap, Response, StatusCode, header};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::body::{Body, Slot};
use crate::config::Timeouts;
use crate::failure::Failure;
use crate::gateway::Gateway;
use crate::handle::read_json;
use crate::routes::Target;
use crate::trace::Trace;
use crate::upstream::{Reply, address, passed_on};

/// Sends a body to the upstream of its model, under another name if need be, and its answer back.
pub(crate) async fn relay(
    gateway: &Arc<Gateway>,
    path: &str,
    bytes: Bytes,
    headers: &HeaderMap,
    key: Option<String>,
    room: OwnedSemaphorePermit,
) -> Result<Response<Body>, Failure> {
    let body = read_json(&bytes, &gateway.config.limits)?;
    let model =
        body.get("model").and_then(Value::as_str).ok_or_else(|| Failure::invalid("model is missing"))?;
    let targets = gateway.routes.find(model)?;
    let wire_of = |target: &Target| {
        let wire = |client| target.upstream.wire_for(&target.model, client).ok();
        let is_able = |wire: &&HttpWire| *wire.protocol == OPENAI_CHAT || *wire.protocol == OPENAI_RESPONSES;
        wire(&OPENAI_CHAT).filter(is_able).or_else(|| wire(&OPENAI_RESPONSES).filter(is_able))
    };
    let is_able = |target: &&Target| wire_of(target).is_some() && !target.upstream.config.is_demo();
    let target = targets.iter().find(is_able).ok_or_else(|| {
        let what = format!("the upstream of {model:?} does not answer at {path}");
        Failure::new(ErrorClass::NotFound, what)
    })?;
    let Some(wire) = wire_of(target) else {
        return Err(Failure::new(ErrorClass::NotFound, "nothing answers here"));
    };
    let mut reply =
        send(gateway, target, wire, path, renamed(body, bytes, &target.model), headers, key).await?;
    if reply.status >= 300 {
        return Err(refused(&mut reply, target, gateway.config.timeouts.idle).await);
    }
    Ok(response(reply, gateway, room))
}

/// Asks an upstream that can count.
pub(crate) async fn count_tokens(
    gateway: &Gateway,
    target: &Target,
    body: Value,
    wire: &'static HttpWire,
    headers: &HeaderMap,
    key: Option<String>,
) -> Result<Response<Body>, Failure> {
    let (path, body) = match *wire.protocol == ANTHROPIC_MESSAGES {
        true => ("/messages/count_tokens".to_owned(), renamed(body, Bytes::new(), &target.model)),
        // Gemini names the model in the path.
        false => {
            (format!("/models/{}:countTokens", escaped_model(&target.model)?), Bytes::from(body.to_string()))
        }
    };
    let mut reply = send(gateway, target, wire, &path, body, headers, key).await?;
    let patience = gateway.config.timeouts.idle;
    if reply.status >= 300 {
        return Err(refused(&mut reply, target, patience).await);
    }
    let bytes = reply.rest(1 << 20, patience).await.map_err(|fault| target.failure(&fault))?;
    if serde_json::from_slice::<serde::de::IgnoredAny>(&bytes).is_err() {
        return Err(target.failure(&UpstreamFault::unusable("sent a count that is no JSON")));
    }
    let mut response = Response::new(Body::whole(bytes));
    *response.headers_mut() = passed_on(&reply.headers);
    response.headers_mut().insert(header::CONTENT_TYPE, crate::failure::JSON);
    Ok(response)
}

/// The failure of a response with another status than success.
async fn refused(reply: &mut Reply, target: &Target, patience: Duration) -> Failure {
    let refusal = reply.refusal(patience).await;
    let error = target.of_exchange().map(|target| refusal.error(&target));
    error.map_or_else(
        |failure| failure,
        |error| Failure { headers: passed_on(&reply.headers), ..Failure::of(error) },
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
    target: &Target,
    wire: &'static HttpWire,
    path: &str,
    body: Bytes,
    headers: &HeaderMap,
    key: Option<String>,
) -> Result<Reply, Failure> {
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
    Trace::of(headers).put(&mut sent);
    target.upstream.sign(wire, key.as_deref(), &mut sent);
    let posted = match address(&wire.under(&target.upstream.config.url, path)) {
        Ok(address) => {
            gateway.client.post(address, sent, body, Instant::now() + gateway.config.timeouts.answer).await
        }
        Err(fault) => Err(fault),
    };
    posted.map_err(|fault| target.failure(&fault))
}

fn response(reply: Reply, gateway: &Arc<Gateway>, room: OwnedSemaphorePermit) -> Response<Body> {
    let Timeouts { idle, answer, .. } = gateway.config.timeouts;
    let (end, closing) = (Instant::now() + answer, gateway.closing());
    let (status, mut headers) = (reply.status, passed_on(&reply.headers));
    if let Some(kind) = reply.headers.get(header::CONTENT_TYPE) {
        headers.insert(header::CONTENT_TYPE, kind.clone());
    }
    let body = Body::made(move |slot| async move {
        let _room = room;
        // All that can be told of a body that passes through is that it broke off.
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

async fn pass(mut reply: Reply, slot: Slot, idle: Duration) -> std::io::Result<()> {
    while let Some(bytes) = tokio::time::timeout(idle, reply.next()).await? {
        match bytes {
            Ok(bytes) => slot.put(bytes).await,
            Err(fault) => return Err(std::io::Error::other(fault.to_string())),
        }
    }
    Ok(())
}
