//! Asking over HTTP.

use std::error::Error as StdError;
use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use callweave::exchange::UpstreamFault;
use http::{HeaderMap, Method, Request, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio::time::Instant;
use tower_service::Service;

use super::{ReplyBody, SENT, UnpackedBody, UpstreamReply};
use crate::config::Config;
use crate::hops;

/// The HTTP client. Connections are kept for the next request.
pub(crate) struct HttpClient {
    secure: LegacyClient<TimedConnector<HttpsConnector<HttpConnector>>>,
    /// A connection without TLS need not have the room for it.
    plain: LegacyClient<TimedConnector<HttpConnector>>,
    connect: Duration,
    first_byte: Duration,
    /// The maximum length of a response that has to be decompressed.
    max_response: u64,
    /// The word for this gateway.
    pub(crate) own: hops::GatewayMark,
}

type LegacyClient<C> = hyper_util::client::legacy::Client<C, Full<Bytes>>;

/// The time an unused connection is kept.
const KEPT: Duration = Duration::from_secs(60);

impl HttpClient {
    /// One that trusts the usual authorities, and these.
    pub(crate) fn new(
        config: &Config,
        authorities: Vec<CertificateDer<'static>>,
    ) -> Result<Self, rustls::Error> {
        let timeouts = &config.timeouts;
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(timeouts.connect));
        let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        roots.add_parsable_certificates(authorities);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let trusting = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let secure = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(trusting.with_root_certificates(roots).with_no_client_auth())
            .https_only()
            .enable_http1()
            .wrap_connector(connector.clone());
        let patience = timeouts.connect;
        let mut builder = hyper_util::client::legacy::Client::builder(TokioExecutor::new());
        builder.pool_timer(TokioTimer::new()).pool_idle_timeout(KEPT).retry_canceled_requests(true);
        Ok(Self {
            secure: builder.build(TimedConnector { connector: secure, patience }),
            plain: builder.build(TimedConnector { connector, patience }),
            connect: patience,
            first_byte: timeouts.first_byte,
            max_response: config.limits.response,
            own: hops::GatewayMark::new(),
        })
    }

    /// Sends a body. The response has begun when this returns, by `end` at the latest.
    pub(crate) async fn post(
        &self,
        address: Uri,
        mut headers: HeaderMap,
        body: Bytes,
        end: Instant,
    ) -> Result<UpstreamReply, UpstreamFault> {
        headers.insert(SENT.0, SENT.1);
        self.send_within(Method::POST, address, headers, body, end).await
    }

    /// Sends a request. The response must have begun by `end`, whatever the time to the first byte is.
    pub(crate) async fn send_within(
        &self,
        method: Method,
        address: Uri,
        headers: HeaderMap,
        body: Bytes,
        end: Instant,
    ) -> Result<UpstreamReply, UpstreamFault> {
        let now = Instant::now();
        let until = end.min(now + self.first_byte);
        let sent = tokio::time::timeout_at(until, self.send(method, address, headers, body)).await;
        sent.unwrap_or_else(|_| Err(UpstreamFault::late("did not answer", until - now)))
    }

    /// Sends a request, however long the response may take to begin.
    pub(crate) async fn send(
        &self,
        method: Method,
        address: Uri,
        mut headers: HeaderMap,
        body: Bytes,
    ) -> Result<UpstreamReply, UpstreamFault> {
        self.own.sign(&mut headers);
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = address;
        *request.headers_mut() = headers;
        let sending = match request.uri().scheme_str() {
            Some("https") => self.secure.request(request),
            _ => self.plain.request(request),
        };
        let response = sending.await.map_err(|error| match is_too_late(&error) {
            true => UpstreamFault::late("could not be reached", self.connect),
            false if error.is_connect() => {
                UpstreamFault::lost(format!("cannot be reached: {}", told(&error)))
            }
            false => UpstreamFault::lost(format!("did not answer: {}", told(&error))),
        })?;
        let (parts, body) = response.into_parts();
        let unpack = UnpackedBody::of(&parts.headers, self.max_response)?;
        let (status, headers) = (parts.status.as_u16(), parts.headers);
        Ok(UpstreamReply { status, headers, body: ReplyBody::Http(body), unpack })
    }
}

/// The certificates in a file.
pub(crate) fn authorities(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = read.map_err(|error| error.to_string())?;
    if found.is_empty() { Err("there is no certificate in it".to_owned()) } else { Ok(found) }
}

/// Connects in time, or not at all: looking up a name and shaking hands included.
#[derive(Clone)]
struct TimedConnector<C> {
    connector: C,
    patience: Duration,
}

type UnfitResponse = Box<dyn StdError + Send + Sync>;

impl<C> Service<Uri> for TimedConnector<C>
where
    C: Service<Uri>,
    C::Future: Send + 'static,
    C::Error: Into<UnfitResponse>,
{
    type Response = C::Response;
    type Error = UnfitResponse;
    type Future = Pin<Box<dyn Future<Output = Result<C::Response, UnfitResponse>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), UnfitResponse>> {
        self.connector.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let connected = tokio::time::timeout(self.patience, self.connector.call(to));
        Box::pin(async move { connected.await.map_err(io::Error::from)?.map_err(Into::into) })
    }
}

/// Whether something was waited for too long.
fn is_too_late(error: &(dyn StdError + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::TimedOut) {
            return true;
        }
        next = error.source();
    }
    false
}

/// The next bytes of a body.
pub(super) async fn next(body: &mut Incoming) -> Option<Result<Bytes, UpstreamFault>> {
    loop {
        match body.frame().await? {
            // Trailers say nothing about the response.
            Ok(frame) => match frame.into_data() {
                Ok(bytes) if bytes.is_empty() => {}
                Ok(bytes) => return Some(Ok(bytes)),
                Err(_) => {}
            },
            Err(error) => {
                let what = format!("lost the connection in the middle of its answer: {}", told(&error));
                return Some(Err(UpstreamFault::lost(what)));
            }
        }
    }
}

/// The innermost reason: the errors around it say only that sending or reading failed.
fn told(error: &(dyn StdError + 'static)) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}
