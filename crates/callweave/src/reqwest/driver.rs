//! The driver of one exchange over a service of reqwest's requests. Its reader polls it, first as a future up to the
//! first content, then as the body of the response.

use std::convert::Infallible;
use std::error::Error as StdError;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, LOCATION};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use http_body::Frame;
use reqwest::{Body, Request, Response, ResponseBuilderExt as _, Url};
use tokio::time::{Sleep, sleep};
use tower_service::Service;

use super::ResponseFuture;
use super::client_request::{ReqwestRequest, endpoint};
use crate::exchange::{
    Exchange, ExchangeEngine, NextStep, OutgoingRequest, RequestEndpoint, ResponseHead, UpstreamFault,
    UpstreamRefusal,
};
use crate::protocol::{OPENAI_CHAT, Protocol};
use crate::upstream::UpstreamError;

/// The number of bytes that are read of an error.
const MAX_ERROR_BODY: usize = 64 << 10;
/// The time to wait for the end of a body when the response is over, so that its connection can be used again.
const LAST_BYTES: Duration = Duration::from_millis(50);

/// Whether a service was asked for its readiness.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ServiceReadiness {
    Ready,
    Unknown,
}

/// Executes a request: with an exchange if it asks a model, and else as it is.
pub(super) fn execute<S>(
    inner: S,
    readiness: ServiceReadiness,
    engine: Arc<ExchangeEngine>,
    request: Request,
) -> ResponseFuture<S::Error>
where
    S: Service<Request, Response = Response> + Send + 'static,
    S::Error: Into<Box<dyn StdError + Send + Sync>> + Send,
    S::Future: Send,
{
    let mut upstream = UpstreamConnection { service: inner, readiness, state: DriverState::Idle };
    match endpoint(request.method(), request.url()) {
        Some(endpoint) => Box::pin(respond(upstream, engine, request, endpoint)),
        None => Box::pin(async move {
            upstream.state = DriverState::Due(Box::new(request));
            poll_fn(|context| upstream.poll_response(context)).await
        }),
    }
}

async fn respond<S>(
    upstream: UpstreamConnection<S>,
    engine: Arc<ExchangeEngine>,
    request: Request,
    endpoint: RequestEndpoint,
) -> Result<Response, S::Error>
where
    S: Service<Request, Response = Response> + Send + 'static,
    S::Error: Into<Box<dyn StdError + Send + Sync>> + Send,
    S::Future: Send,
{
    let (url, protocol) = (request.url().clone(), endpoint.route.protocol);
    let (client, incoming) = match ReqwestRequest::read(request, endpoint).await {
        Ok(read) => read,
        Err(error) => {
            let fault = UpstreamFault::lost(format!("was not asked: {}", innermost(&error)));
            return Ok(refused(protocol, &fault.error("the upstream"), url));
        }
    };
    let exchange = match engine.open(incoming) {
        Ok(exchange) => exchange,
        Err(error) => return Ok(refused(protocol, &error, url)),
    };
    let mut driver = ExchangeDriver {
        exchange,
        engine,
        client,
        upstream: Mutex::new(upstream),
        timer: None,
        is_begun: false,
    };
    poll_fn(|context| driver.poll_begin(context)).await?;
    let head = driver.exchange.head().clone();
    driver.is_begun = true;
    if driver.exchange.next() != NextStep::Over {
        return Ok(response(head, url, Body::wrap(driver)));
    }
    poll_fn(|context| driver.poll_drain(context)).await;
    Ok(response(head, url, Body::from(driver.exchange.take_bytes())))
}

/// A response of the exchange.
fn response(head: ResponseHead, url: Url, body: Body) -> Response {
    let ResponseHead { status, headers } = head;
    let mut response = http::Response::builder().url(url).body(body).expect("nothing that can be invalid");
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    for (name, value) in headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(&*name), HeaderValue::try_from(value)) {
            response.headers_mut().append(name, value);
        }
    }
    response.into()
}

/// The response to a request for which no exchange was opened.
fn refused(client: &Protocol, error: &UpstreamError<'static>, url: Url) -> Response {
    let written = client.write_error(error).or_else(|| OPENAI_CHAT.write_error(error));
    let written = written.expect("Chat has a form for errors");
    let headers = written.headers.into_iter().map(|(name, value)| (name.into(), value.into_bytes()));
    let head = ResponseHead { status: written.status, headers: headers.collect() };
    response(head, url, Body::from(written.body))
}

/// An exchange that is under way.
struct ExchangeDriver<S: Service<Request>> {
    exchange: Exchange,
    engine: Arc<ExchangeEngine>,
    client: ReqwestRequest,
    /// Never locked: bodies must be `Sync`, but futures and services are only `Send`.
    upstream: Mutex<UpstreamConnection<S>>,
    /// Runs while the next call, or the end of a body, is waited for.
    timer: Option<Pin<Box<Sleep>>>,
    /// Whether the program has the status and the headers.
    is_begun: bool,
}

/// The upstream's side of an exchange.
struct UpstreamConnection<S: Service<Request>> {
    service: S,
    readiness: ServiceReadiness,
    state: DriverState<S::Future>,
}

enum DriverState<F> {
    /// Nothing was sent, or the last response is not needed.
    Idle,
    /// A request is sent when the service is ready.
    Due(Box<Request>),
    Sending(Pin<Box<F>>),
    /// The body of an error is read.
    Refused(Box<UpstreamRefusal>, Body),
    Reading(Body),
}

/// An event of the upstream.
enum UpstreamEvent<E> {
    Accepted(HeaderMap),
    Refused(UpstreamRefusal),
    Bytes(Bytes),
    End,
    Lost(UpstreamFault),
    /// The inner service fails.
    Failed(E),
}

impl<S> ExchangeDriver<S>
where
    S: Service<Request, Response = Response>,
    S::Error: Into<Box<dyn StdError + Send + Sync>>,
{
    /// Waits until the model has said anything, or its response is over. Errors of the inner service are the program's
    /// until then.
    fn poll_begin(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        while !self.exchange.is_ready() {
            ready!(self.poll_advance(context))?;
        }
        Poll::Ready(Ok(()))
    }

    /// Waits for the next event, and hands it to the exchange.
    fn poll_advance(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        let upstream = self.upstream.get_mut().unwrap_or_else(PoisonError::into_inner);
        let grace = match self.exchange.next() {
            NextStep::Over => return Poll::Ready(Ok(())),
            NextStep::Interrupt => {
                self.settle();
                return Poll::Ready(Ok(()));
            }
            NextStep::Send => {
                upstream.state = DriverState::Idle;
                self.send();
                return Poll::Ready(Ok(()));
            }
            NextStep::Read(grace) => grace,
        };
        let Poll::Ready(heard) = upstream.poll_next(context) else {
            let Some(grace) = grace else { return Poll::Pending };
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(grace)));
            ready!(timer.as_mut().poll(context));
            self.exchange.silence();
            self.settle();
            return Poll::Ready(Ok(()));
        };
        match heard {
            UpstreamEvent::Accepted(headers) => {
                self.exchange.accept(headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())));
            }
            UpstreamEvent::Refused(refusal) => self.exchange.refuse(&refusal),
            UpstreamEvent::Bytes(bytes) => self.exchange.push(&bytes),
            UpstreamEvent::End => self.exchange.finish(),
            UpstreamEvent::Lost(fault) => self.exchange.fail(&fault),
            UpstreamEvent::Failed(error) if !self.is_begun => return Poll::Ready(Err(error)),
            UpstreamEvent::Failed(error) => {
                let what = format!("did not answer: {}", innermost(&*error.into()));
                self.exchange.fail(&UpstreamFault::lost(what));
            }
        }
        self.settle();
        Poll::Ready(Ok(()))
    }

    /// Closes an upstream that is not needed any more, before the program reads on; and stops the timer if no next call
    /// is waited for.
    fn settle(&mut self) {
        if self.exchange.next() == NextStep::Interrupt {
            let upstream = self.upstream.get_mut().unwrap_or_else(PoisonError::into_inner);
            upstream.state = DriverState::Idle;
            self.exchange.interrupt();
        }
        if !matches!(self.exchange.next(), NextStep::Read(Some(_))) {
            self.timer = None;
        }
    }

    /// Makes the request that is due.
    fn send(&mut self) {
        let Some(OutgoingRequest::Request(outgoing)) = self.exchange.take_outgoing() else { return };
        self.report_losses();
        let upstream = self.upstream.get_mut().unwrap_or_else(PoisonError::into_inner);
        match self.client.upstream_request(outgoing, self.engine.policy()) {
            Ok(request) => upstream.state = DriverState::Due(Box::new(request)),
            Err(fault) => self.exchange.fail(&fault),
        }
    }

    /// Reports the parts of the request that the upstream does not get.
    fn report_losses(&self) {
        #[cfg(feature = "tracing")]
        if !self.exchange.losses().is_empty() {
            let mut lost: Vec<&str> = self.exchange.losses().iter().map(|loss| loss.what.as_str()).collect();
            lost.dedup();
            lost.truncate(16);
            tracing::warn!(lost = lost.join(", "), "left out of the request");
        }
    }

    /// Reads the last bytes of the upstream, so that its connection can serve the next request. A response that is over
    /// ends with its end marker, and the end of the body follows at once, or never.
    fn poll_drain(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let upstream = self.upstream.get_mut().unwrap_or_else(PoisonError::into_inner);
        while self.exchange.error().is_none() && matches!(upstream.state, DriverState::Reading(_)) {
            match upstream.poll_next(context) {
                Poll::Ready(UpstreamEvent::Bytes(_)) => {}
                Poll::Ready(_) => break,
                Poll::Pending => {
                    let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(LAST_BYTES)));
                    ready!(timer.as_mut().poll(context));
                    break;
                }
            }
        }
        upstream.state = DriverState::Idle;
        Poll::Ready(())
    }
}

impl<S: Service<Request, Response = Response>> UpstreamConnection<S> {
    /// Sends the request that is due, and waits for the head of its response.
    fn poll_response(&mut self, context: &mut Context<'_>) -> Poll<Result<Response, S::Error>> {
        if matches!(self.state, DriverState::Due(_)) {
            if self.readiness == ServiceReadiness::Unknown {
                ready!(self.service.poll_ready(context))?;
            }
            self.readiness = ServiceReadiness::Unknown;
            if let DriverState::Due(request) = std::mem::replace(&mut self.state, DriverState::Idle) {
                self.state = DriverState::Sending(Box::pin(self.service.call(*request)));
            }
        }
        match &mut self.state {
            DriverState::Sending(sending) => sending.as_mut().poll(context),
            _ => Poll::Pending,
        }
    }

    /// The next event.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<UpstreamEvent<S::Error>> {
        loop {
            match &mut self.state {
                DriverState::Idle => return Poll::Ready(UpstreamEvent::End),
                DriverState::Due(_) | DriverState::Sending(_) => match ready!(self.poll_response(context)) {
                    Err(error) => {
                        self.state = DriverState::Idle;
                        return Poll::Ready(UpstreamEvent::Failed(error));
                    }
                    Ok(response) => {
                        if let Some(heard) = self.take_response(response) {
                            return Poll::Ready(heard);
                        }
                    }
                },
                DriverState::Refused(refusal, body) => {
                    let fault = match ready!(poll_data(body, context)) {
                        Some(Ok(bytes)) => {
                            let room = MAX_ERROR_BODY - refusal.body.len();
                            refusal.body.extend_from_slice(&bytes[..bytes.len().min(room)]);
                            if bytes.len() < room {
                                continue;
                            }
                            None
                        }
                        Some(Err(fault)) => Some(fault),
                        None => None,
                    };
                    if fault.is_some() {
                        (refusal.body, refusal.fault) = (Vec::new(), fault);
                    }
                    let DriverState::Refused(refusal, _) =
                        std::mem::replace(&mut self.state, DriverState::Idle)
                    else {
                        continue;
                    };
                    return Poll::Ready(UpstreamEvent::Refused(*refusal));
                }
                DriverState::Reading(body) => {
                    return Poll::Ready(match ready!(poll_data(body, context)) {
                        Some(Ok(bytes)) => UpstreamEvent::Bytes(bytes),
                        Some(Err(fault)) => UpstreamEvent::Lost(fault),
                        None => {
                            self.state = DriverState::Idle;
                            UpstreamEvent::End
                        }
                    });
                }
            }
        }
    }

    /// Takes the head of a response. The body of an error is read before it is an event.
    fn take_response(&mut self, mut response: Response) -> Option<UpstreamEvent<S::Error>> {
        let (status, headers) = (response.status(), std::mem::take(response.headers_mut()));
        let coding = headers.get(CONTENT_ENCODING).filter(|coding| *coding != "identity");
        if let Some(coding) = coding {
            self.state = DriverState::Idle;
            let coding = coding.to_str().unwrap_or("a coding that cannot be read").to_owned();
            let what = format!(
                "compressed its answer ({coding}), which was not asked for: the feature of reqwest for it is off"
            );
            return Some(UpstreamEvent::Lost(UpstreamFault::unusable(what)));
        }
        if status.is_success() {
            self.state = DriverState::Reading(response.into());
            return Some(UpstreamEvent::Accepted(headers));
        }
        let mut refusal = UpstreamRefusal::new(status.as_u16());
        let own = headers.iter().map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()));
        refusal.headers = own.collect();
        // A redirect that the client does not follow says nothing else.
        if status.is_redirection() && headers.contains_key(LOCATION) {
            self.state = DriverState::Idle;
            return Some(UpstreamEvent::Refused(refusal));
        }
        self.state = DriverState::Refused(Box::new(refusal), response.into());
        None
    }
}

/// The next bytes of a body; none at its end.
fn poll_data(body: &mut Body, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, UpstreamFault>>> {
    loop {
        let Some(frame) = ready!(http_body::Body::poll_frame(Pin::new(body), context)) else {
            return Poll::Ready(None);
        };
        match frame.map(Frame::into_data) {
            Ok(Ok(bytes)) if !bytes.is_empty() => return Poll::Ready(Some(Ok(bytes))),
            // Trailers say nothing about the response.
            Ok(_) => {}
            Err(error) => {
                let what = format!("lost the connection in the middle of its answer: {}", innermost(&error));
                return Poll::Ready(Some(Err(UpstreamFault::lost(what))));
            }
        }
    }
}

/// The innermost reason of an error: those around it say only that sending or reading failed.
fn innermost(error: &(dyn StdError + 'static)) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

/// The body of a stream. Failures are reported at its end, so reading it never fails.
impl<S> http_body::Body for ExchangeDriver<S>
where
    S: Service<Request, Response = Response>,
    S::Error: Into<Box<dyn StdError + Send + Sync>>,
{
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let driver = self.get_mut();
        loop {
            let bytes = driver.exchange.take_bytes();
            if !bytes.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(bytes.into()))));
            }
            if driver.exchange.next() == NextStep::Over {
                ready!(driver.poll_drain(context));
                return Poll::Ready(None);
            }
            // The response has begun: errors of the inner service are errors of the exchange.
            let _ = ready!(driver.poll_advance(context));
        }
    }
}

/// No part of it is pinned in its place: futures are boxed.
impl<S: Service<Request>> Unpin for ExchangeDriver<S> {}
