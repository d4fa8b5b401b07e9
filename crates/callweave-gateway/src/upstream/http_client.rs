//! Asking over HTTP.

use std::error::Error as StdError;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::{Reply, ReplyBody, SENT, too_late, transport};
use crate::config::Timeouts;
use crate::failure::Failure;

/// Who asks over HTTP. Connections are kept for the next request.
pub(crate) struct Client {
    secure: Legacy<HttpsConnector<HttpConnector>>,
    /// A connection without TLS need not have the room for it.
    plain: Legacy<HttpConnector>,
    first_byte: Duration,
}

type Legacy<C> = hyper_util::client::legacy::Client<C, Full<Bytes>>;

/// So long an unused connection is kept.
const KEPT: Duration = Duration::from_secs(60);

impl Client {
    pub(crate) fn new(timeouts: &Timeouts) -> Self {
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(timeouts.connect));
        let secure = hyper_rustls::HttpsConnectorBuilder::new()
            .with_webpki_roots()
            .https_only()
            .enable_http1()
            .wrap_connector(connector.clone());
        let mut builder = hyper_util::client::legacy::Client::builder(TokioExecutor::new());
        builder.pool_timer(TokioTimer::new()).pool_idle_timeout(KEPT).retry_canceled_requests(true);
        Self {
            secure: builder.build(secure),
            plain: builder.build(connector),
            first_byte: timeouts.first_byte,
        }
    }

    /// Sends a body. The answer has begun when this returns.
    pub(crate) async fn post(
        &self,
        address: &str,
        mut headers: HeaderMap,
        body: Bytes,
    ) -> Result<Reply, Failure> {
        headers.insert(SENT.0, SENT.1);
        self.send(Method::POST, address, headers, body).await
    }

    /// Sends a request.
    pub(crate) async fn send(
        &self,
        method: Method,
        address: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Reply, Failure> {
        let request = Request::builder().method(method).uri(address).body(Full::new(body));
        let mut request = request.map_err(|error| transport(format!("{address}: {error}")))?;
        *request.headers_mut() = headers;
        let sending = match request.uri().scheme_str() {
            Some("https") => self.secure.request(request),
            _ => self.plain.request(request),
        };
        let sent = tokio::time::timeout(self.first_byte, sending).await;
        let answered = sent.map_err(|_| too_late("the upstream did not answer", self.first_byte))?;
        let response =
            answered.map_err(|error| transport(format!("cannot reach the upstream: {}", told(&error))))?;
        let (parts, body) = response.into_parts();
        Ok(Reply { status: parts.status.as_u16(), headers: parts.headers, body: ReplyBody::Http(body) })
    }
}

/// The next bytes of a body.
pub(super) async fn next(body: &mut Incoming) -> Option<Result<Bytes, Failure>> {
    loop {
        match body.frame().await? {
            // Trailers say nothing about the answer.
            Ok(frame) => match frame.into_data() {
                Ok(bytes) if bytes.is_empty() => {}
                Ok(bytes) => return Some(Ok(bytes)),
                Err(_) => {}
            },
            Err(error) => {
                let what = format!("the connection to the upstream broke: {}", told(&error));
                return Some(Err(transport(what)));
            }
        }
    }
}

/// The innermost reason: what stands around it says only that sending or reading failed.
fn told(error: &(dyn StdError + 'static)) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}
