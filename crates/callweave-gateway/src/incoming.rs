//! A client's request in the gateway: the neutral request, and what only a server knows of it.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use callweave::exchange::http::{ClientEndpoint, HttpWire};
use callweave::exchange::{IncomingHead, IncomingRequest, SharedBytes};
use http::{HeaderMap, HeaderValue};

use crate::failure::RequestFailure;
use crate::gateway::Gateway;
use crate::in_flight::HeldRequestBytes;
use crate::keys::KeyDigest;
use crate::trace::{TraceContext, is_uuid, made, uuid};

/// A client's request.
pub(crate) struct IncomingHttp {
    pub(crate) request: Arc<IncomingRequest>,
    /// The digest of the client's key.
    pub(crate) key: KeyDigest,
    /// The id of the request.
    pub(crate) id: String,
    /// Its id upstream, where the client's own is no UUID: some servers refuse any other.
    upstream_id: Option<String>,
    /// Its place in a trace.
    pub(crate) trace: TraceContext,
    /// The time it took to read the request.
    pub(crate) read_for: Duration,
}

/// The parts of a request besides its body.
pub(crate) struct RequestHead<'b> {
    pub(crate) headers: &'b HeaderMap,
    pub(crate) query: Option<&'b str>,
    /// The client's own key, where it may be sent on.
    pub(crate) api_key: Option<String>,
    pub(crate) key: KeyDigest,
    pub(crate) id: &'b str,
    pub(crate) trace: TraceContext,
    pub(crate) began: Instant,
    pub(crate) held: HeldRequestBytes,
}

/// The bytes of a body, and the room that they take while they are needed.
struct HeldBytes {
    bytes: Bytes,
    _held: Arc<HeldRequestBytes>,
}

impl AsRef<[u8]> for HeldBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl IncomingHttp {
    /// Reads a request.
    pub(crate) fn read(
        gateway: &Gateway,
        route: ClientEndpoint,
        bytes: Bytes,
        beginning: RequestHead<'_>,
    ) -> Result<Self, RequestFailure> {
        let RequestHead { headers, query, api_key, key, id, trace, began, held } = beginning;
        let held = Arc::new(held);
        let wire = HttpWire::of(route.protocol);
        let body = SharedBytes::from_owner(HeldBytes { bytes, _held: Arc::clone(&held) });
        let mut incoming = IncomingHead::new(route, body, made::<12>()).query(query);
        let forwarded = wire.map_or(&[][..], |wire| wire.forwarded_headers);
        for (name, value) in headers {
            if forwarded.contains(&name.as_str())
                && let Ok(value) = value.to_str()
            {
                incoming.headers.push((name.to_string(), value.to_owned()));
            }
        }
        incoming.api_key = api_key;
        incoming.scope = key.scope();
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        incoming.created = since.as_secs();
        let first = |model: &str| gateway.routes.first(model)?.of_exchange().ok();
        let limits = gateway.config.limits.request();
        let request = IncomingRequest::read(incoming, &gateway.shared, &limits, first)?;
        // The conversation that it continues takes room, too.
        held.reach(request.size())?;
        let request = Arc::new(request);
        let upstream_id = (!is_uuid(id)).then(uuid);
        Ok(Self { request, key, id: id.to_owned(), upstream_id, trace, read_for: began.elapsed() })
    }

    /// The headers that identify the request to an upstream.
    pub(crate) fn upstream_headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        self.trace.put(&mut headers);
        if let Ok(id) = HeaderValue::try_from(self.upstream_id.as_ref().unwrap_or(&self.id)) {
            headers.insert("x-request-id", id);
        }
        headers
    }
}
