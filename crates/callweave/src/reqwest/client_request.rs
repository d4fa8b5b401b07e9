//! The program's request: whether it asks a model, its form for the exchange, and the upstream's request in its place.

use std::fmt::Display;
use std::future::poll_fn;
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Version};
use http_body::Body as _;
use reqwest::{Body, Method, Request, Url};

use crate::exchange::store::StoreScope;
use crate::exchange::{
    self, ClientRequest, ExchangePolicy, HttpRequest, IncomingHead, RequestEndpoint, RequestLimits,
    UpstreamFault, is_key_header,
};

/// The endpoint of a request, if it asks a model.
pub(super) fn endpoint(method: &Method, url: &Url) -> Option<RequestEndpoint> {
    RequestEndpoint::find(method.as_str(), url.path())
}

/// The program's request, but for its body.
pub(super) struct ReqwestRequest {
    client: ClientRequest,
    version: Version,
    timeout: Option<Duration>,
}

impl ReqwestRequest {
    /// Takes a request apart: for the exchange, and for the request that is sent in its place.
    pub(super) async fn read(
        mut request: Request,
        endpoint: RequestEndpoint,
    ) -> Result<(Self, IncomingHead), reqwest::Error> {
        let body = match request.body_mut().take() {
            Some(body) => read_body(body).await?,
            None => Bytes::new(),
        };
        let headers = request.headers().iter();
        let headers = headers.map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()));
        let client = ClientRequest::new(endpoint, request.url().as_str(), headers.collect());
        let mut incoming = client.incoming(exchange::SharedBytes::from_owner(body), random_id());
        incoming.scope = incoming.api_key.as_deref().map(scope).unwrap_or_default();
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        incoming.created = since_1970.map_or(0, |time| time.as_secs());
        let own = Self { client, version: request.version(), timeout: request.timeout().copied() };
        Ok((own, incoming))
    }

    /// The request that an upstream gets.
    pub(super) fn upstream_request(
        &self,
        outgoing: HttpRequest,
        policy: &ExchangePolicy,
    ) -> Result<Request, UpstreamFault> {
        let unusable = |error: &dyn Display| UpstreamFault::unusable(format!("cannot be asked: {error}"));
        let head = self.client.upstream_head(&outgoing, policy);
        let url = Url::parse(&head.url).map_err(|error| unusable(&error))?;
        let mut request = Request::new(Method::POST, url);
        for (name, value) in head.headers {
            let mut value = HeaderValue::try_from(value).map_err(|error| unusable(&error))?;
            value.set_sensitive(is_key_header(&name));
            let name = HeaderName::try_from(name).map_err(|error| unusable(&error))?;
            request.headers_mut().append(name, value);
        }
        *request.body_mut() = Some(Body::from(Bytes::from_owner(outgoing.body)));
        *request.version_mut() = self.version;
        *request.timeout_mut() = self.timeout;
        Ok(request)
    }
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

    #[test]
    fn a_key_has_its_own_scope() {
        assert_eq!(scope("one"), scope("one"));
        assert_ne!(scope("one"), scope("two"));
        assert_ne!(scope("one"), StoreScope::default());
        assert_ne!(random_id(), random_id());
    }
}
