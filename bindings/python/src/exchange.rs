//! Everything between a client's request and its response, without I/O: `callweave::exchange`. The transports in
//! `python/callweave` are its drivers.

use std::sync::Arc;
use std::time::Duration;

use callweave::exchange::http::ClientEndpoint;
use callweave::exchange::{
    self, ClientRequest, ExchangePolicy, ExchangeResult, ExchangeTarget, IncomingHead, IncomingRequest,
    InvalidCalls, NextStep, OutgoingRequest, RequestEndpoint, RequestLimits, SchemaMode, SharedBytes,
    StopMode, StopPolicy, ToolTeaching, UpstreamFault, UpstreamRefusal,
};
use callweave::protocol::OPENAI_CHAT;
use callweave::upstream::{ErrorClass, UpstreamError};
use callweave::{Error, ErrorKind};
use callweave_gateway::config::completed_url;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::bytes_like::{BytesLike, BytesOrText, LARGE};
use crate::error::{raise, upstream};
use crate::message::{Message, Usage};
use crate::protocols;
use crate::typed::{self, UpstreamException};

/// A policy for the exchange between clients and one upstream, made ready once; it is shared by all exchanges.
#[pyclass(frozen, module = "callweave")]
pub(crate) struct ExchangeEngine {
    inner: Arc<exchange::ExchangeEngine>,
    /// The model that is asked, whatever the client names.
    model: Option<String>,
}

impl ExchangeEngine {
    fn begin(&self, head: IncomingHead) -> ExchangeResult<exchange::Exchange> {
        let Some(model) = &self.model else { return self.inner.open(head) };
        let target = ExchangeTarget::new(&self.inner, model.clone());
        let first = |_: &str| Some(target.clone());
        let request = IncomingRequest::read(head, self.inner.shared(), &RequestLimits::default(), first)?;
        Ok(exchange::Exchange::new(Arc::new(request), target))
    }
}

/// Names and values of headers, as texts or bytes.
type Headers<'py> = Vec<(BytesOrText<'py>, BytesOrText<'py>)>;

/// Headers with names in lower case.
fn headers(headers: &Headers<'_>) -> Vec<(String, Vec<u8>)> {
    let name = |name: &[u8]| String::from_utf8_lossy(name).to_ascii_lowercase();
    headers.iter().map(|(own, value)| (name(own.as_slice()), value.as_slice().to_vec())).collect()
}

/// The error for a word that is none of those that a parameter takes.
fn unknown(py: Python<'_>, parameter: &str, word: &str, known: &[&str]) -> PyErr {
    let what = format!("{parameter} cannot be {word:?}: it is one of {}", known.join(", "));
    raise(py, &Error::new(ErrorKind::Invalid, what))
}

#[pymethods]
impl ExchangeEngine {
    #[new]
    #[pyo3(signature = (
        *,
        name="upstream",
        protocol=None,
        other_protocols=Vec::new(),
        upstream="",
        model=None,
        api_key=None,
        forwards_client_key=true,
        provider=None,
        dialect="auto",
        splits_reasoning=None,
        teaching="native",
        repair=true,
        schema="coerce",
        invalid_calls="pass",
        max_reasks=2,
        stop=None,
        stop_grace=None,
        suppress_tail=None,
        parallel_calls=None,
        max_calls=None,
        keeps_responses=None,
        seals_in_ids=false,
        max_response_bytes=None,
        max_argument_bytes=None,
    ))]
    #[expect(clippy::too_many_arguments, reason = "they are keyword arguments")]
    fn new(
        py: Python<'_>,
        name: &str,
        protocol: Option<&str>,
        other_protocols: Vec<String>,
        upstream: &str,
        model: Option<String>,
        api_key: Option<String>,
        forwards_client_key: bool,
        provider: Option<String>,
        dialect: &str,
        splits_reasoning: Option<bool>,
        teaching: &str,
        repair: bool,
        schema: &str,
        invalid_calls: &str,
        max_reasks: u32,
        stop: Option<&str>,
        stop_grace: Option<f64>,
        suppress_tail: Option<bool>,
        parallel_calls: Option<bool>,
        max_calls: Option<usize>,
        keeps_responses: Option<bool>,
        seals_in_ids: bool,
        max_response_bytes: Option<u64>,
        max_argument_bytes: Option<usize>,
    ) -> PyResult<Self> {
        let mut policy = ExchangePolicy::default();
        policy.name = name.to_owned();
        policy.protocol = protocol.map(|name| protocols::named(py, name)).transpose()?;
        let others = other_protocols.iter().map(|name| protocols::named(py, name));
        policy.other_protocols = others.collect::<PyResult<_>>()?;
        policy.base_url = completed_url(upstream);
        policy.api_key = api_key;
        policy.forwards_client_key = forwards_client_key;
        policy.provider = provider;
        policy.dialect = dialect.to_owned();
        policy.splits_reasoning = splits_reasoning;
        policy.teaching = match teaching {
            "native" => ToolTeaching::Native,
            "prompt" => ToolTeaching::Prompt,
            other => return Err(unknown(py, "teaching", other, &["native", "prompt"])),
        };
        policy.repair = repair;
        policy.schema = match schema {
            "off" => SchemaMode::Off,
            "validate" => SchemaMode::Validate,
            "coerce" => SchemaMode::Coerce,
            other => return Err(unknown(py, "schema", other, &["off", "validate", "coerce"])),
        };
        policy.invalid_calls = match invalid_calls {
            "pass" => InvalidCalls::Pass,
            "error" => InvalidCalls::Error,
            "reask" => InvalidCalls::Reask,
            other => return Err(unknown(py, "invalid_calls", other, &["pass", "error", "reask"])),
        };
        policy.max_reasks = max_reasks;
        let stop = match stop {
            None => StopPolicy::default(),
            Some(mode) => {
                let mode =
                    StopMode::named(mode).ok_or_else(|| unknown(py, "stop", mode, &["first", "all"]))?;
                StopPolicy::after(mode)
            }
        };
        let grace = match stop_grace.map(Duration::try_from_secs_f64).transpose() {
            Ok(grace) => grace,
            Err(error) => {
                let what = format!("stop_grace is no number of seconds: {error}");
                return Err(raise(py, &Error::new(ErrorKind::Invalid, what)));
            }
        };
        policy.stop = StopPolicy {
            grace_ms: grace.and_then(|grace| u64::try_from(grace.as_millis()).ok()),
            suppress_tail,
            parallel: parallel_calls,
            max_calls,
            ..stop
        };
        // The client's own server, asked as the client asks it, knows what it keeps.
        let is_clients = upstream.is_empty() && protocol.is_none();
        policy.keeps_responses = keeps_responses.or(is_clients.then_some(true));
        policy.seals_in_ids = seals_in_ids;
        policy.limits.bytes = max_response_bytes.unwrap_or(policy.limits.bytes);
        policy.limits.argument_bytes = max_argument_bytes.unwrap_or(policy.limits.argument_bytes);
        let inner = exchange::ExchangeEngine::new(policy).map_err(|error| raise(py, &error))?;
        Ok(Self { inner, model })
    }

    /// Whether a path (without its version: ``/chat/completions``, ``/models/m:generateContent``) is one that clients ask
    /// for responses.
    #[staticmethod]
    fn serves(path: &str) -> bool {
        ClientEndpoint::find(path).is_some()
    }

    /// Opens an exchange for a client's request. ``path`` is without its version. ``id`` consists of letters and digits
    /// that no other request has, ``created`` is the time in seconds since 1970. Raises ``UpstreamError`` with the error
    /// that the client is to get, if the request cannot be read.
    #[pyo3(signature = (path, body, *, id, created=0, headers=Vec::new(), api_key=None, query=None))]
    #[expect(clippy::too_many_arguments, reason = "they are keyword arguments")]
    fn open(
        &self,
        py: Python<'_>,
        path: &str,
        body: BytesLike<'_>,
        id: &str,
        created: u64,
        headers: Vec<(String, String)>,
        api_key: Option<String>,
        query: Option<&str>,
    ) -> PyResult<Exchange> {
        let Some(route) = ClientEndpoint::find(path) else {
            let what = format!("no client asks for responses at {path:?}");
            return Err(raise(py, &Error::new(ErrorKind::Unknown, what)));
        };
        let mut head = IncomingHead::new(route, SharedBytes::from(body.as_slice()), id).query(query);
        head.headers = headers;
        head.api_key = api_key;
        head.created = created;
        let opened = py.detach(|| self.begin(head));
        opened.map(|inner| Exchange { inner, client: None }).map_err(|error| raise(py, &Error::from(*error)))
    }

    /// Whether a request to a path of a server asks a model for a response.
    #[staticmethod]
    fn asks_model(method: &str, path: &str) -> bool {
        RequestEndpoint::find(method, path).is_some()
    }

    /// Opens an exchange for a client's request to an absolute URL. Its ``take_outgoing`` returns the request that is to
    /// be sent in its place: to the same URL with the client's headers, unless the engine has a base URL or another
    /// protocol. A request that cannot be read has its response at once: an error. Raises ``UnknownError`` if the request
    /// does not ask a model.
    #[pyo3(signature = (method, url, headers, body, *, id, created=0))]
    #[expect(clippy::too_many_arguments, reason = "they are a request")]
    fn open_request(
        &self,
        py: Python<'_>,
        method: &str,
        url: &str,
        headers: Headers<'_>,
        body: BytesLike<'_>,
        id: &str,
        created: u64,
    ) -> PyResult<OpenedRequest> {
        let path = url.split_once("://").map_or(url, |(_, rest)| rest);
        let path = path.find('/').map_or("", |at| &path[at..]).split(['?', '#']).next().unwrap_or_default();
        let Some(endpoint) = RequestEndpoint::find(method, path) else {
            let what = format!("a request to {path:?} does not ask a model");
            return Err(raise(py, &Error::new(ErrorKind::Unknown, what)));
        };
        let client = ClientRequest::new(endpoint, url, self::headers(&headers));
        let mut head = client.incoming(body.as_slice(), id);
        head.created = created;
        match py.detach(|| self.begin(head)) {
            Ok(inner) => Ok(OpenedRequest::Exchange(Exchange {
                inner,
                client: Some((client, Arc::clone(&self.inner))),
            })),
            Err(error) => {
                let written = client.protocol().write_error(&error);
                let written = written.or_else(|| OPENAI_CHAT.write_error(&error));
                let written = written.expect("Chat has a form for errors");
                let own = |(name, value): (&str, String)| (name.to_owned(), value.into_bytes());
                Ok(OpenedRequest::Refused(CompleteResponse {
                    status: written.status,
                    headers: written.headers.into_iter().map(own).collect(),
                    body: PyBytes::new(py, &written.body).unbind(),
                }))
            }
        }
    }
}

/// The exchange of a client's request, or the error that is its response.
#[derive(IntoPyObject)]
#[expect(clippy::large_enum_variant, reason = "it becomes an object of Python at once")]
pub(crate) enum OpenedRequest {
    Exchange(Exchange),
    Refused(CompleteResponse),
}

/// A complete response for a client.
#[pyclass(frozen, get_all, module = "callweave")]
pub(crate) struct CompleteResponse {
    /// The status.
    status: u16,
    /// The headers, with names in lower case.
    headers: Vec<(String, Vec<u8>)>,
    /// The body.
    body: Py<PyBytes>,
}

/// A request for an upstream.
#[pyclass(frozen, get_all, module = "callweave")]
pub(crate) struct HttpRequest {
    /// The method.
    method: &'static str,
    /// The URL; only its path where neither the engine nor the client has a base URL.
    url: String,
    /// The headers, with names in lower case.
    headers: Vec<(String, Vec<u8>)>,
    /// The body.
    body: Py<PyBytes>,
    /// The protocol's name.
    protocol: &'static str,
    /// The model, as the upstream calls it.
    model: String,
    /// Whether the response is to be streamed.
    is_streamed: bool,
    /// Whether it goes where the client sends it.
    is_kept: bool,
}

/// The beginning of the client's response.
#[pyclass(frozen, get_all, module = "callweave")]
pub(crate) struct ResponseHead {
    /// The status.
    status: u16,
    /// The headers, with names in lower case.
    headers: Vec<(String, Vec<u8>)>,
}

/// A call that is over, and its outcome.
#[pyclass(frozen, module = "callweave")]
pub(crate) struct CallOutcome(exchange::CallOutcome);

#[pymethods]
impl CallOutcome {
    /// Its id, as the client gets it.
    #[getter]
    fn id(&self) -> &str {
        &self.0.id
    }

    /// Its name, as the client gets it.
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    /// Its outcome, such as ``native``, ``from_text``, ``repaired`` or ``invalid``.
    #[getter]
    fn outcome(&self) -> typed::CallResolution {
        typed::CallResolution(self.0.outcome.name().to_owned())
    }

    /// The reason why it cannot be run.
    #[getter]
    fn reason(&self) -> Option<&str> {
        self.0.reason.as_deref()
    }

    /// The dialect of the text, where the response has calls in its text.
    #[getter]
    fn dialect(&self) -> Option<&str> {
        self.0.dialect.as_deref()
    }

    fn __repr__(&self) -> String {
        format!("CallOutcome({}: {})", self.0.name, self.0.outcome.name())
    }
}

/// A part of a request or response that the other side has no place for.
#[pyclass(frozen, module = "callweave")]
pub(crate) struct Loss(pub(crate) callweave::request::Loss);

#[pymethods]
impl Loss {
    /// The path in the neutral request.
    #[getter]
    fn path(&self) -> &str {
        &self.0.path
    }

    /// What was lost.
    #[getter]
    fn what(&self) -> &str {
        &self.0.what
    }

    /// Whether it had not the form that its protocol demands.
    #[getter]
    fn is_malformed(&self) -> bool {
        self.0.is_malformed
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        format!("Loss(path={:?}, what={:?})", self.0.path, self.0.what)
    }
}

/// One request and its response. It names the next step; its driver does it, and reports the outcome.
#[pyclass(module = "callweave")]
pub(crate) struct Exchange {
    inner: exchange::Exchange,
    /// The client's request, where it goes to a server.
    client: Option<(ClientRequest, Arc<exchange::ExchangeEngine>)>,
}

#[pymethods]
impl Exchange {
    /// The next step of the driver, and for ``read`` the seconds of silence after which ``silence`` is due: ``send``
    /// (``take_outgoing``, then ``accept`` or ``refuse``), ``read`` (``push``, ``finish`` or ``fail``), ``interrupt`` (close
    /// the connection, then ``interrupt``) or ``over``.
    fn next(&self) -> (typed::NextStep, Option<f64>) {
        let (step, silence) = match self.inner.next() {
            NextStep::Send => ("send", None),
            NextStep::Read(silence) => ("read", silence.map(|silence| silence.as_secs_f64())),
            NextStep::Interrupt => ("interrupt", None),
            NextStep::Over => ("over", None),
        };
        (typed::NextStep(step.to_owned()), silence)
    }

    /// Whether the client wants its response streamed.
    #[getter]
    fn is_streamed(&self) -> bool {
        self.inner.incoming().is_streamed()
    }

    /// The name that the client uses for the model.
    #[getter]
    fn model(&self) -> String {
        self.inner.incoming().model().to_owned()
    }

    /// The request that is due. ``None`` if it cannot be written for the upstream: the exchange has failed then.
    fn take_outgoing(&mut self, py: Python<'_>) -> Option<HttpRequest> {
        let inner = &mut self.inner;
        let Some(OutgoingRequest::Request(request)) = py.detach(|| inner.take_outgoing()) else {
            return None;
        };
        let head =
            self.client.as_ref().map(|(client, engine)| client.upstream_head(&request, engine.policy()));
        let is_kept = head.as_ref().is_some_and(|head| head.is_kept);
        let own = |(name, value): (&str, String)| (name.to_owned(), value.into_bytes());
        let (url, headers) = match head {
            Some(head) => (head.url, head.headers),
            None => (request.url, request.headers.into_iter().map(own).collect()),
        };
        Some(HttpRequest {
            method: request.method,
            url,
            headers,
            body: PyBytes::new(py, request.body.as_ref()).unbind(),
            protocol: request.protocol.name,
            model: request.model,
            is_streamed: request.is_streamed,
            is_kept,
        })
    }

    /// Reports that the upstream answers with success.
    fn accept(&mut self, headers: Headers<'_>) {
        self.inner.accept(self::headers(&headers));
    }

    /// Reports that the upstream answers with another status. 64 KiB of the body are enough. ``fault`` says what kept the rest of the body from coming.
    #[pyo3(signature = (status, headers, body, fault=None))]
    fn refuse(&mut self, status: u16, headers: Headers<'_>, body: BytesLike<'_>, fault: Option<String>) {
        let mut refusal = UpstreamRefusal::new(status);
        refusal.headers = self::headers(&headers);
        refusal.body = body.as_slice().to_vec();
        refusal.fault = fault.map(UpstreamFault::lost);
        self.inner.refuse(&refusal);
    }

    /// Takes the next bytes of the upstream's response.
    fn push(&mut self, py: Python<'_>, data: BytesLike<'_>) {
        let (inner, bytes) = (&mut self.inner, data.as_slice());
        if bytes.len() < LARGE { inner.push(bytes) } else { py.detach(|| inner.push(bytes)) }
    }

    /// Takes the next bytes of the upstream's response, and returns those for the client. ``None`` if the next step is
    /// another than to read on for as long as it takes: the client's bytes are still to be taken then.
    fn feed<'py>(&mut self, py: Python<'py>, data: BytesLike<'_>) -> Option<Bound<'py, PyBytes>> {
        self.push(py, data);
        match self.inner.next() {
            NextStep::Read(None) => Some(self.take_bytes(py)),
            _ => None,
        }
    }

    /// Reports that the upstream's response is at its end.
    fn finish(&mut self) {
        self.inner.finish();
    }

    /// Reports that the upstream fails: ``what`` is a sentence without its subject, such as ``closed the connection``. With
    /// ``waited``, it did not do something within so many seconds.
    #[pyo3(signature = (what, waited=None))]
    fn fail(&mut self, what: String, waited: Option<f64>) {
        let fault = match waited.map(Duration::try_from_secs_f64) {
            Some(Ok(waited)) => UpstreamFault::lost(format!("{what} within {} s", waited.as_secs_f64())),
            _ => UpstreamFault::lost(what),
        };
        self.inner.fail(&fault);
    }

    /// Ends the exchange by the driver's decision.
    fn abort(&mut self, what: String) {
        self.inner.abort(UpstreamError::new(ErrorClass::Transport, what));
    }

    /// Reports that nothing came for as long as ``next`` said.
    fn silence(&mut self) {
        self.inner.silence();
    }

    /// Reports that the connection was closed, as ``next`` demanded.
    fn interrupt(&mut self) {
        self.inner.interrupt();
    }

    /// Whether the client's response has begun. Its head has its final status then.
    #[getter]
    fn is_ready(&self) -> bool {
        self.inner.is_ready()
    }

    /// The error of a response of which the client has seen nothing.
    #[getter]
    fn failure<'py>(&self, py: Python<'py>) -> PyResult<Option<UpstreamException<'py>>> {
        self.inner.failure().map(|error| upstream(py, error)).transpose()
    }

    /// The first error of the response.
    #[getter]
    fn error<'py>(&self, py: Python<'py>) -> PyResult<Option<UpstreamException<'py>>> {
        self.inner.error().map(|error| upstream(py, error)).transpose()
    }

    /// Whether the upstream has answered with success, but its response cannot be used.
    #[getter]
    fn is_broken(&self) -> bool {
        self.inner.is_broken()
    }

    /// The status and the headers of the client's response. From now on a failure is an error in the stream.
    fn head(&mut self) -> ResponseHead {
        let head = self.inner.head();
        let headers = head.headers.iter().map(|(name, value)| (name.to_string(), value.clone()));
        ResponseHead { status: head.status, headers: headers.collect() }
    }

    /// Whether there are bytes for the client.
    #[getter]
    fn has_bytes(&self) -> bool {
        self.inner.has_bytes()
    }

    /// The next bytes for the client: of a stream while it comes, of a complete body when the exchange is over.
    fn take_bytes<'py>(&mut self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.inner.take_bytes())
    }

    /// The message, when the exchange is over and the response was not streamed.
    #[getter]
    fn message(&self) -> Message {
        Message::new(self.inner.message().clone(), None)
    }

    /// The calls of all responses that are over, with their outcomes.
    #[getter]
    fn outcomes(&self) -> Vec<CallOutcome> {
        self.inner.outcomes().iter().cloned().map(CallOutcome).collect()
    }

    /// The parts of the client's request that the upstream did not get.
    #[getter]
    fn losses(&self) -> Vec<Loss> {
        self.inner.losses().iter().cloned().map(Loss).collect()
    }

    /// The tokens of all responses.
    #[getter]
    fn usage(&self) -> Usage {
        Usage::from(self.inner.usage())
    }
}
