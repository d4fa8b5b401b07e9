//! A [`tower`] layer for [`reqwest`]: a program that asks models with reqwest gets valid calls, whatever the model
//! writes.
//!
//! [`ExchangeLayer`] goes around any service of reqwest's requests, first of all [`reqwest::Client`]. It puts an
//! [exchange](crate::exchange) between the program and the upstream: requests for a model's response are recognised by
//! their path, taught, translated and read as the [`ExchangePolicy`] says; all other requests pass through untouched.
//! The program changes in nothing else.
//!
//! ```
//! # async fn ask() -> Result<(), Box<dyn std::error::Error>> {
//! use callweave::exchange::ExchangePolicy;
//! use callweave::reqwest::ExchangeService;
//!
//! let client = reqwest::Client::new();
//! let service = ExchangeService::new(client.clone(), ExchangePolicy::default())?;
//!
//! let body = r#"{"model": "m", "messages": [], "tools": [], "stream": true}"#;
//! let request = client.post("http://127.0.0.1:8000/v1/chat/completions").body(body).build()?;
//! let response = service.execute(request).await?; // a `reqwest::Response`, as from `client.execute(request)`
//! # Ok(()) }
//! ```
//!
//! async-openai takes such a service with its feature `middleware`. Its services get a factory of requests, so that its
//! own retries stay outside:
//!
//! ```
//! # fn with_valid_calls() -> Result<(), Box<dyn std::error::Error>> {
//! use async_openai::error::OpenAIError;
//! use async_openai::middleware::{HttpRequestFactory, retry::OpenAIRetryLayer};
//! use callweave::exchange::ExchangePolicy;
//! use callweave::reqwest::ExchangeService;
//! use tower::{Layer, service_fn};
//!
//! let service = ExchangeService::new(reqwest::Client::new(), ExchangePolicy::default())?;
//! let service = service_fn(move |request: HttpRequestFactory| {
//!     let service = service.clone();
//!     async move { Ok::<_, OpenAIError>(service.execute(request.build().await?).await?) }
//! });
//! let client = async_openai::Client::new().with_http_service(OpenAIRetryLayer::default().layer(service));
//! # Ok(()) }
//! ```
//!
//! # The upstream
//!
//! Without a [base URL](ExchangePolicy::base_url) in the policy, requests go where the program sends them. Requests in
//! the [upstream's protocol](ExchangePolicy::protocol) keep their URL and all headers; requests in another protocol go
//! to the path of the upstream's protocol on the same server. With a base URL they go there. A request that goes
//! elsewhere than the program sent it has only the headers that its new protocol knows; the default headers of the
//! inner client are a place for more. The program's key, in whichever header it stands, becomes the key of the
//! upstream's protocol, unless the policy has one.
//!
//! # Errors and ends
//!
//! Errors of the inner service come through as they are until the response begins, and so do the statuses of the
//! upstream. The response begins with the model's first content. From then on a failure is an error in the stream, as
//! the program's protocol has it. Nothing is sent twice unless the policy says
//! [`Reask`](crate::exchange::InvalidCalls::Reask): retries belong to the program, as do timeouts. A timeout of the
//! request applies to each request of the upstream.
//!
//! Streams are made while they are read, without a task of their own. A program that drops a response, or the future of
//! one, closes the connection of the upstream.
//!
//! [`tower`]: https://docs.rs/tower
//! [`reqwest`]: https://docs.rs/reqwest

mod client_request;
mod driver;

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use reqwest::{Request, Response};
use tower_layer::Layer;
use tower_service::Service;

use crate::error::{Error, ErrorKind, Result};
use crate::exchange::http::HttpWire;
use crate::exchange::{ExchangeEngine, ExchangePolicy};

/// A layer that puts an exchange between a program and a service of reqwest's requests.
#[derive(Clone)]
pub struct ExchangeLayer {
    engine: Arc<ExchangeEngine>,
}

impl ExchangeLayer {
    /// A layer with a policy. It fails if the policy names something that does not exist.
    pub fn new(policy: ExchangePolicy) -> Result<Self> {
        Self::with_engine(ExchangeEngine::new(policy)?)
    }

    /// A layer with an engine that is ready: one with a store of responses or provider seals, for example.
    pub fn with_engine(engine: Arc<ExchangeEngine>) -> Result<Self> {
        match engine.policy().protocol {
            Some(protocol) if HttpWire::of(protocol).is_none() => {
                let what = format!("no upstream can be asked in {} over HTTP", protocol.name);
                Err(Error::new(ErrorKind::Unknown, what))
            }
            _ => Ok(Self { engine }),
        }
    }
}

impl fmt::Debug for ExchangeLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExchangeLayer").finish_non_exhaustive()
    }
}

impl<S> Layer<S> for ExchangeLayer {
    type Service = ExchangeService<S>;

    fn layer(&self, inner: S) -> ExchangeService<S> {
        ExchangeService { inner, engine: Arc::clone(&self.engine) }
    }
}

/// A service of reqwest's requests with an exchange before it.
#[derive(Clone)]
pub struct ExchangeService<S = reqwest::Client> {
    inner: S,
    engine: Arc<ExchangeEngine>,
}

impl<S> ExchangeService<S> {
    /// A policy before a service. It fails if the policy names something that does not exist.
    pub fn new(inner: S, policy: ExchangePolicy) -> Result<Self> {
        Ok(ExchangeLayer::new(policy)?.layer(inner))
    }
}

impl<S> ExchangeService<S>
where
    S: Service<Request, Response = Response> + Clone + Send + 'static,
    S::Error: Into<Box<dyn StdError + Send + Sync>> + Send,
    S::Future: Send,
{
    /// Executes a request, as [`reqwest::Client::execute`] does.
    pub fn execute(&self, request: Request) -> ResponseFuture<S::Error> {
        let Self { inner, engine } = self.clone();
        driver::execute(inner, driver::ServiceReadiness::Unknown, engine, request)
    }
}

/// The future of a response. Dropping it closes the connection of the upstream.
pub type ResponseFuture<E> = Pin<Box<dyn Future<Output = std::result::Result<Response, E>> + Send>>;

impl<S> Service<Request> for ExchangeService<S>
where
    S: Service<Request, Response = Response> + Clone + Send + 'static,
    S::Error: Into<Box<dyn StdError + Send + Sync>> + Send,
    S::Future: Send,
{
    type Response = Response;
    type Error = S::Error;
    type Future = ResponseFuture<S::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<std::result::Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        // The clone need not be ready as this one is.
        let clone = self.inner.clone();
        let inner = std::mem::replace(&mut self.inner, clone);
        driver::execute(inner, driver::ServiceReadiness::Ready, Arc::clone(&self.engine), request)
    }
}

impl<S: fmt::Debug> fmt::Debug for ExchangeService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExchangeService").field("inner", &self.inner).finish_non_exhaustive()
    }
}
