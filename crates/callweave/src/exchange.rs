//! Everything between a client's request and its response, without I/O.
//!
//! An [`ExchangeEngine`] is an [`ExchangePolicy`] made ready for one upstream; it is shared. An [`Exchange`] belongs to
//! one request. It names the [next](Exchange::next) step, a driver does it, and reports the outcome to the exchange:
//!
//! ```text
//!              ┌──────────────── reask ◀──────────────────┐
//!              ▼                                           │ calls stay invalid
//! open ─▶ NextStep::Send ──outgoing──▶ (the driver sends) ──accept──▶ NextStep::Read ◀─┐
//!              │                            │             │  push, silence ────┘
//!              │ cannot be written          │ refuse      ├─ finish, fail ─▶ NextStep::Over
//!              ▼                            ▼             └─ enough calls ─▶ NextStep::Interrupt ─interrupt─▶ NextStep::Over
//!          NextStep::Over                   NextStep::Over
//! ```
//!
//! The client's side is ready as soon as the model has said anything ([`Exchange::is_ready`]): until then a failure has
//! its own status, and another target may be tried; from then on it is an error in the stream. Ids and time come from
//! the caller, bytes come in pieces of any size, and nothing here waits.
//!
//! ```
//! use callweave::exchange::{ExchangeEngine, Exchange, IncomingHead, NextStep, OutgoingRequest, ExchangePolicy, http::ClientEndpoint};
//!
//! let mut policy = ExchangePolicy::default();
//! policy.base_url = "http://127.0.0.1:8000".to_owned();
//! let engine = ExchangeEngine::new(policy)?;
//!
//! let route = ClientEndpoint::find("/chat/completions").expect("a path of Chat's");
//! let body = br#"{"model": "m", "messages": [{"role": "user", "content": "Look at the sky."}],
//!     "tools": [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]}"#;
//! let mut exchange = engine.open(IncomingHead::new(route, &body[..], "1")).expect("a request that can be read");
//! let Some(OutgoingRequest::Request(request)) = exchange.take_outgoing() else { panic!("a request") };
//! assert_eq!(request.url, "http://127.0.0.1:8000/v1/chat/completions");
//!
//! // The driver sends it. The model has written its call into its text, and not quite as JSON:
//! let answer = br#"{"choices": [{"message": {"role": "assistant",
//!     "content": "<tool_call>{'name': 'look', 'arguments': {'at': 'sky'}}</tool_call>"}, "finish_reason": "stop"}]}"#;
//! exchange.accept([("content-type", "application/json")]);
//! exchange.push(answer);
//! exchange.finish();
//! assert_eq!(exchange.next(), NextStep::Over);
//! assert_eq!(exchange.head().status, 200);
//! let body = String::from_utf8(exchange.take_bytes()).expect("JSON");
//! assert!(body.contains(r#""finish_reason":"tool_calls""#) && body.contains(r#"{\"at\": \"sky\"}"#), "{body}");
//! assert_eq!(exchange.outcomes()[0].outcome.name(), "repaired");
//! # Ok::<(), callweave::Error>(())
//! ```

mod amount;
mod client_request;
pub mod embedding;
mod fault;
pub mod http;
mod incoming;
mod kept_calls;
mod policy;
mod reask;
mod response;
mod route_body;
mod session;
pub mod store;
mod tool_cache;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

pub use crate::outcome::{CallOutcome, CallResolution};
pub use amount::{RequestLimits, ResponseLimits, too_large};
pub use client_request::{ClientRequest, RequestEndpoint, UpstreamHead, client_key, is_key_header};
pub use fault::{UpstreamFault, UpstreamRefusal};
pub use incoming::{HttpRequest, IncomingHead, IncomingRequest, SharedBytes};
pub use policy::{
    ExchangeEngine, ExchangePolicy, ExchangeTarget, InvalidCalls, SchemaMode, StopMode, StopPolicy,
    ToolTeaching,
};

pub use crate::protocol::{AppServerConnection, AppServerLine};

use self::incoming::{PreparedOutgoing, PreparedRequest};
use self::policy::ProtocolSupport;
use self::response::{ClientOutput, HeldPart, OutputConfig, ResponseChain, ResponseReading};
use self::session::{SessionLine, SessionLines, SessionOutcome};
use self::store::{ExchangeStore, StoreScope, StoredResponse, StoredTurn};
use self::tool_cache::ToolCache;
use crate::event::{FinishReason, TokenCounts};
use crate::json::Tape;
use crate::message::{BlockContent, Message};
use crate::protocol::{OPENAI_CHAT, OPENAI_RESPONSES, Protocol};
use crate::request::{self, Loss, SealKeeper, TurnStore};
use crate::upstream::{ErrorClass, UpstreamError};

/// A result, or the error that the client gets instead.
pub type ExchangeResult<T> = Result<T, Box<UpstreamError<'static>>>;

/// State of all engines of a driver: prepared tools, and the store.
#[derive(Default)]
pub struct SharedState {
    tools: ToolCache,
    store: Option<Arc<dyn ExchangeStore>>,
    seals: Option<SealKeeper>,
}

impl SharedState {
    /// A state with a store: clients can refer to earlier responses, and provider seals come back to the providers. The
    /// key is random; processes that share a store share it.
    pub fn with_store(store: Arc<dyn ExchangeStore>, seal_key: [u8; 16]) -> Self {
        let seals = SealKeeper::new(Arc::clone(&store) as Arc<dyn TurnStore>, seal_key);
        Self { store: Some(store), seals: Some(seals), ..Self::default() }
    }

    /// A state that keeps provider seals alone.
    pub fn with_seals(seals: SealKeeper) -> Self {
        Self { seals: Some(seals), ..Self::default() }
    }

    /// The store.
    pub fn store(&self) -> Option<&Arc<dyn ExchangeStore>> {
        self.store.as_ref()
    }

    /// The conversation up to a response that a client refers to; none where the upstream keeps it itself.
    fn conversation(
        &self,
        scope: &StoreScope,
        id: &str,
        first: Option<&ExchangeTarget>,
    ) -> ExchangeResult<Option<Arc<StoredTurn>>> {
        if let Some(stored) = self.store.as_ref().and_then(|store| store.response(scope, id)) {
            return Ok(Some(Arc::clone(&stored.turn)));
        }
        if first.is_some_and(ExchangeTarget::keeps_responses) {
            return Ok(None);
        }
        let what = format!("Previous response with id '{id}' not found.");
        let mut error = UpstreamError::new(ErrorClass::InvalidRequest, what);
        error.code = Some("previous_response_not_found".into());
        Err(Box::new(error))
    }

    /// Keeps a response.
    fn keep(&self, incoming: &IncomingRequest, message: &Message) {
        // Where the response keeps the upstream's id, the client knows it by that one.
        let id = message.id.as_deref().or(incoming.options.id.as_deref());
        let (Some(store), Some(id)) = (&self.store, id) else { return };
        let mut body = Vec::new();
        OPENAI_RESPONSES.encode_body(message, &incoming.options, &mut body);
        let output = std::str::from_utf8(&body).ok().and_then(|text| {
            let mut tape = Tape::new();
            Some(tape.parse(text).ok()?.get("output")?.raw().to_owned())
        });
        let (input, earlier) = incoming.input();
        let empty = || "[]".to_owned();
        let turn = StoredTurn::new(earlier, input.unwrap_or_else(empty), output.unwrap_or_else(empty));
        store.put_response(&incoming.scope, id, StoredResponse { turn: Arc::new(turn), body: body.into() });
    }
}

impl ExchangeEngine {
    /// Opens an exchange for a client's request, with the model that the client names.
    pub fn open(self: &Arc<Self>, incoming: IncomingHead) -> ExchangeResult<Exchange> {
        let first = |model: &str| Some(ExchangeTarget::new(self, model));
        let request = IncomingRequest::read(incoming, &self.shared, &RequestLimits::default(), first)?;
        let target = ExchangeTarget::new(self, request.model.clone());
        Ok(Exchange::new(Arc::new(request), target))
    }
}

/// The next step of a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// Sends the request of [`Exchange::take_outgoing`]. The driver reports the status of the response:
    /// [`Exchange::accept`] or [`Exchange::refuse`]. It may be due a second time, when the model is asked again: then
    /// the driver drops the connection of the response before, which need not be at its end, if the policy stopped it.
    Send,
    /// Reads the upstream's response: [`Exchange::push`], [`Exchange::finish`] or [`Exchange::fail`]. If nothing came
    /// for this long: [`Exchange::silence`].
    Read(Option<Duration>),
    /// Interrupts the upstream, which is not needed any more: [`Exchange::interrupt`]. A session is interrupted by
    /// messages instead.
    Interrupt,
    /// Nothing: the response is complete.
    Over,
}

/// A request or messages for an upstream.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum OutgoingRequest {
    /// A request.
    Request(HttpRequest),
    /// Lines of JSON for an open session, whose lines are pushed as they come: lines of other sessions are skipped.
    Messages(Vec<u8>),
}

/// The beginning of the client's response.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResponseHead {
    /// The status.
    pub status: u16,
    /// The headers, with names in lower case.
    pub headers: Vec<(Cow<'static, str>, Vec<u8>)>,
}

/// One request and its response.
pub struct Exchange {
    incoming: Arc<IncomingRequest>,
    target: ExchangeTarget,
    state: ExchangeState,
    /// The session, where the upstream is asked in one.
    session: Option<Box<SessionLines>>,
    output: ClientOutput,
    /// Messages that follow those of the client, since the model is asked again.
    added: Vec<request::RequestMessage>,
    /// The number of times that the model was asked again.
    reasks: u32,
    /// Headers of the upstream that concern the client.
    headers: Vec<(String, Vec<u8>)>,
    losses: Vec<Loss>,
    outcomes: Vec<CallOutcome>,
    message: Message,
    /// Whether the upstream has answered with success, but the response fails.
    is_broken: bool,
    /// The beginning of the client's response, once it is known.
    head: Option<ResponseHead>,
    /// Whether the upstream has said something in its protocol.
    is_understood: bool,
    /// The protocols in which the upstream has refused the request, though it may take it in another.
    refusals: Vec<ProtocolRefusal>,
}

/// A refusal that may be the protocol's fault.
struct ProtocolRefusal {
    protocol: &'static Protocol,
    /// Whether the upstream seems not to know the path.
    is_absent: bool,
    error: UpstreamError<'static>,
}

enum ExchangeState {
    /// A request is due.
    Due,
    /// It was sent.
    Sent(Box<ResponseChain>),
    /// Its response is read.
    Reading(Box<ResponseChain>),
    /// The client's response is complete, but not the upstream's.
    Interrupted,
    Over,
}

impl Exchange {
    /// An exchange of a request with a target.
    pub fn new(incoming: Arc<IncomingRequest>, target: ExchangeTarget) -> Self {
        target.engine.forget_absent(incoming.created);
        let protocol = target.protocol_for(incoming.wire.protocol);
        let target = target.speaking(protocol);
        let output = Self::output(&incoming, &target);
        Self {
            incoming,
            target,
            state: ExchangeState::Due,
            session: None,
            output,
            added: Vec::new(),
            reasks: 0,
            headers: Vec::new(),
            losses: Vec::new(),
            outcomes: Vec::new(),
            message: Message::default(),
            is_broken: false,
            head: None,
            is_understood: false,
            refusals: Vec::new(),
        }
    }

    /// The client's side of a response of a target.
    fn output(incoming: &Arc<IncomingRequest>, target: &ExchangeTarget) -> ClientOutput {
        let client = incoming.wire.protocol;
        let is_same = target.protocol_for(client) == client;
        let is_kept = incoming.is_kept(target) && target.engine.shared.store.is_some();
        ClientOutput::new(OutputConfig {
            incoming: Arc::clone(incoming),
            shared: Arc::clone(&target.engine.shared),
            is_kept,
            hold: match target.engine.policy.invalid_calls {
                _ if !incoming.has_tools => HeldPart::Nothing,
                InvalidCalls::Pass => HeldPart::Nothing,
                InvalidCalls::Error => HeldPart::End,
                InvalidCalls::Reask => HeldPart::All,
            },
            keeps_id: is_same,
            emits_usage: incoming.wants_usage(),
            // Upstreams stream by the framing of their protocol, not by one that a client chose.
            is_raw: is_same
                && !is_kept
                && incoming.options.framing.is_none()
                && !incoming.options.older_form
                && target.engine.is_plain(),
            has_comments: incoming.takes_comments(),
            has_lines: incoming.content_type() == "application/x-ndjson",
            renames_model: incoming.model != target.model,
        })
    }

    /// The client's request.
    pub fn incoming(&self) -> &Arc<IncomingRequest> {
        &self.incoming
    }

    /// The driver's next step.
    pub fn next(&self) -> NextStep {
        match &self.state {
            ExchangeState::Due => NextStep::Send,
            _ if self.session.as_ref().is_some_and(|session| session.has_outgoing()) => NextStep::Send,
            ExchangeState::Sent(_) => NextStep::Read(None),
            ExchangeState::Reading(chain) if chain.is_settling() => NextStep::Read(Some(MAX_SETTLING)),
            ExchangeState::Reading(chain) => {
                NextStep::Read(chain.awaits_call().then(|| self.target.engine.policy.stop.grace()))
            }
            ExchangeState::Interrupted => NextStep::Interrupt,
            ExchangeState::Over => NextStep::Over,
        }
    }

    /// The request that is due. A request that cannot be written for the target is none: the exchange has failed then.
    pub fn take_outgoing(&mut self) -> Option<OutgoingRequest> {
        let messages = self.session.as_mut().map(|session| session.session().take_outgoing());
        let mut messages = messages.filter(|messages| !messages.is_empty());
        if !matches!(self.state, ExchangeState::Due) {
            return messages.map(OutgoingRequest::Messages);
        }
        match self.incoming.prepare(&self.target, &self.added) {
            Ok(prepared) => {
                let PreparedRequest { outgoing, written, reading, tools } = prepared;
                let own = || self.target.engine.dialect(&self.target.model, self.incoming.has_tools);
                let chain = ResponseChain::new(ResponseReading {
                    protocol: self.target.protocol_for(self.incoming.wire.protocol),
                    dialect: reading.or_else(own),
                    tools,
                    written: written.as_ref(),
                    reasks: self.reasks,
                    target: &self.target,
                    incoming: &self.incoming,
                });
                self.losses = written.map(|written| written.losses).unwrap_or_default();
                match outgoing {
                    PreparedOutgoing::Request(request) => {
                        self.state = ExchangeState::Sent(Box::new(chain));
                        Some(OutgoingRequest::Request(request))
                    }
                    PreparedOutgoing::Session(mut session) => {
                        self.state = ExchangeState::Reading(Box::new(chain));
                        let messages = messages.get_or_insert_default();
                        messages.append(&mut session.take_outgoing());
                        let max_line = self.target.engine.policy.limits.bytes;
                        let max_line = usize::try_from(max_line).unwrap_or(usize::MAX);
                        self.session = Some(Box::new(SessionLines::new(session, max_line)));
                        Some(OutgoingRequest::Messages(std::mem::take(messages)))
                    }
                }
            }
            Err(error) => {
                self.abandon(*error);
                None
            }
        }
    }

    /// The name of the session in which the upstream is asked, where it is: the ids of its requests begin with it.
    pub fn session_name(&self) -> Option<&str> {
        self.session.as_ref().map(|session| session.id())
    }

    /// Whether the model was asked, as far as that is known: the first messages of a session only prepare that.
    pub fn has_asked_model(&self) -> bool {
        self.session.as_ref().is_none_or(|session| session.has_turn())
    }

    /// Reports that the upstream answers with success.
    pub fn accept<N: AsRef<str>, V: AsRef<[u8]>>(&mut self, headers: impl IntoIterator<Item = (N, V)>) {
        self.keep_headers(headers);
        self.find_out(ProtocolSupport::Unknown);
        self.state = match std::mem::replace(&mut self.state, ExchangeState::Over) {
            ExchangeState::Sent(chain) => ExchangeState::Reading(chain),
            other => other,
        };
    }

    /// Reports that the upstream answers with another status. If it may take the request in another protocol, that is
    /// to be sent next.
    pub fn refuse(&mut self, refusal: &UpstreamRefusal) {
        self.keep_headers(refusal.headers.iter().map(|(name, value)| (name, value)));
        let error = refusal.error(&self.target);
        let is_absent = matches!(refusal.status, 404 | 405 | 501) && !self.is_about_model(&error);
        if self.ask_otherwise(refusal.status, is_absent, &error) {
            return;
        }
        if !is_absent {
            self.find_out(ProtocolSupport::Unknown);
        }
        // The client did not ask for the protocols that were tried: the error of the usual one is the reason.
        let usual = self.target.engine.policy.protocol;
        let own = self.refusals.iter().position(|refusal| is_absent && Some(refusal.protocol) == usual);
        let error = own.map_or(error, |at| self.refusals.swap_remove(at).error);
        self.abandon(error);
    }

    /// Asks in another protocol, if this one may be the reason of an error.
    fn ask_otherwise(&mut self, status: u16, is_absent: bool, error: &UpstreamError<'static>) -> bool {
        let protocol = self.target.protocol_for(self.incoming.wire.protocol);
        let Some(other) = self.other_protocol(protocol, status, is_absent) else { return false };
        self.refusals.push(ProtocolRefusal { protocol, is_absent, error: error.clone() });
        self.target = self.target.clone().speaking(other);
        self.output = Self::output(&self.incoming, &self.target);
        self.state = ExchangeState::Due;
        true
    }

    /// Whether an error says that there is no such model: then the path is known.
    fn is_about_model(&self, error: &UpstreamError<'_>) -> bool {
        let is_joint = |letter: char| letter.is_alphanumeric() || matches!(letter, '/' | '.' | '-' | '_');
        let names = |text: &str| {
            text.match_indices(&self.target.model).any(|(at, name)| {
                let (before, after) = (&text[..at], &text[at + name.len()..]);
                !before.ends_with(is_joint) && !after.starts_with(is_joint)
            })
        };
        let is_ours = error.message.starts_with(&self.target.shown());
        error.class == ErrorClass::NotFound
            && (!is_ours && names(&error.message)
                || error.code.as_deref().is_some_and(|code| code.contains("model")))
    }

    /// The protocol in which the upstream is asked next, after it has refused the request in another. A request that is
    /// refused costs nothing.
    fn other_protocol(
        &self,
        refused: &'static Protocol,
        status: u16,
        is_absent: bool,
    ) -> Option<&'static Protocol> {
        let engine = &self.target.engine;
        let usual = engine.policy.protocol?;
        // The server may know a protocol other than the configured one, and not support all that is needed.
        let is_unsure = refused != usual && matches!(status, 400 | 403 | 415 | 422 | 500);
        if !(is_absent || is_unsure) || self.reasks > 0 || self.head.is_some() {
            return None;
        }
        if engine.finding(refused) == ProtocolSupport::Spoken {
            return None;
        }
        let is_asked =
            |own: &Protocol| own == refused || self.refusals.iter().any(|refusal| refusal.protocol == own);
        engine.protocols().find(|own| !is_asked(own) && (is_absent || *own == usual))
    }

    /// Keeps a response's evidence of the protocols that the upstream speaks: not the ones whose paths it did not know,
    /// and this finding for the one that it answers in.
    fn find_out(&mut self, finding: ProtocolSupport) {
        let engine = &self.target.engine;
        for refusal in self.refusals.iter().filter(|refusal| refusal.is_absent) {
            engine.find(refusal.protocol, ProtocolSupport::Absent(self.incoming.created));
        }
        if finding == ProtocolSupport::Spoken {
            engine.find(self.target.protocol_for(self.incoming.wire.protocol), finding);
            self.is_understood = true;
        }
    }

    /// Takes the next bytes of the upstream's response.
    pub fn push(&mut self, bytes: &[u8]) {
        let ExchangeState::Reading(chain) = &mut self.state else { return };
        match &mut self.session {
            Some(session) => session.push(bytes, |line| {
                match line {
                    SessionLine::Response(line) => chain.push(line, &mut self.output),
                    SessionLine::Usage(counters, raw) => chain.push_usage(counters, raw, &mut self.output),
                    SessionLine::Settled => chain.end(&mut self.output),
                    SessionLine::Failure(line) => {
                        chain.push(line, &mut self.output);
                        chain.finish(&mut self.output);
                    }
                    SessionLine::Fault(fault) => {
                        chain.fail(fault.error(&self.target.shown()), &mut self.output);
                    }
                    SessionLine::TooLong => {
                        let fault = UpstreamFault::unusable("sent a line that is too long");
                        chain.fail(fault.error(&self.target.shown()), &mut self.output);
                    }
                }
                match () {
                    () if chain.is_over() => SessionOutcome::Over,
                    () if chain.is_settling() => SessionOutcome::Settles,
                    () => SessionOutcome::GoesOn,
                }
            }),
            None => {
                self.output.take_raw(bytes);
                chain.push(bytes, &mut self.output);
                self.output.release_frames(chain.replaced_ids(), chain.is_over());
            }
        }
        self.output.mark();
        self.settle();
    }

    /// Reports that the upstream's response is at its end.
    pub fn finish(&mut self) {
        let ExchangeState::Reading(chain) = &mut self.state else { return };
        let had_error = self.output.stats.error.is_some();
        // The response is complete, whatever becomes of the session.
        chain.end(&mut self.output);
        chain.finish(&mut self.output);
        self.output.release_frames(chain.replaced_ids(), true);
        self.output.mark();
        self.end_raw(had_error);
    }

    /// Reports that the upstream fails: the connection breaks, or is too slow.
    pub fn fail(&mut self, fault: &UpstreamFault) {
        self.abort(fault.error(&self.target.shown()));
    }

    /// Ends the exchange by the driver's decision: it shuts down, for example.
    pub fn abort(&mut self, error: UpstreamError<'static>) {
        match &self.state {
            ExchangeState::Reading(_) => self.fail_reading(error),
            _ => self.abandon(error),
        }
    }

    /// Reports that nothing came for as long as [`NextStep::Read`] said. If it has no such duration, silence changes
    /// nothing.
    pub fn silence(&mut self) {
        let ExchangeState::Reading(chain) = &mut self.state else { return };
        match () {
            () if chain.is_settling() => chain.end(&mut self.output),
            () if chain.awaits_call() => chain.cut(&mut self.output),
            () => return,
        }
        self.settle();
    }

    /// Reports that the upstream was interrupted: the driver has closed its connection.
    pub fn interrupt(&mut self) {
        if matches!(self.state, ExchangeState::Interrupted) {
            self.state = ExchangeState::Over;
        }
    }

    /// Whether the client's response has begun: the model has said something, or the response is over.
    /// [`Exchange::head`] has its final status then, unless it is asked for sooner.
    pub fn is_ready(&self) -> bool {
        let is_over = matches!(self.state, ExchangeState::Interrupted | ExchangeState::Over);
        let has_content = self.output.stats.has_content && self.output.has_bytes();
        is_over || self.head.is_some() || self.incoming.is_streamed && has_content
    }

    /// Whether the response has content.
    pub fn has_content(&self) -> bool {
        self.output.stats.has_content
    }

    /// The error of a response of which the client has seen nothing. Another target may be tried instead.
    pub fn failure(&self) -> Option<&UpstreamError<'static>> {
        let is_seen = self.head.is_some() || self.incoming.is_streamed && self.output.stats.has_content;
        self.output.stats.error.as_deref().filter(|_| !is_seen)
    }

    /// The first error of the response.
    pub fn error(&self) -> Option<&UpstreamError<'static>> {
        self.output.stats.error.as_deref()
    }

    /// Whether the upstream has answered with success, but its response cannot be used: it was paid for.
    pub fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// The status and the headers of the client's response, the same whenever they are asked for. From now on a failure
    /// is an error in the stream.
    pub fn head(&mut self) -> &ResponseHead {
        let head = match self.head.take() {
            Some(head) => head,
            None => self.make_head(),
        };
        self.head.insert(head)
    }

    /// The headers of the upstream that concern the client, until the client has its head.
    pub fn forwarded_headers(&self) -> &[(String, Vec<u8>)] {
        &self.headers
    }

    /// Whether there are bytes for the client.
    pub fn has_bytes(&self) -> bool {
        self.output.has_bytes()
    }

    /// The next bytes for the client: of a stream while it comes, of a complete body when the exchange is over.
    pub fn take_bytes(&mut self) -> Vec<u8> {
        self.output.take()
    }

    /// Whether a keep-alive may follow the bytes that the client got.
    pub fn may_ping(&self) -> bool {
        self.output.may_ping()
    }

    /// The message, when the exchange is over: of every non-streaming response, unless the bytes of the upstream are
    /// relayed, and of every response that is kept.
    pub fn message(&self) -> &Message {
        &self.message
    }

    /// The calls of all responses that are over, with their outcomes.
    pub fn outcomes(&self) -> &[CallOutcome] {
        &self.outcomes
    }

    /// The parts of the client's request that the upstream did not get.
    pub fn losses(&self) -> &[Loss] {
        &self.losses
    }

    /// The names of lost parameters, each once, and no more than 16.
    pub fn lost_parameters(&self) -> impl Iterator<Item = &str> {
        let names = self.losses.iter().map(|loss| loss.what.as_str()).enumerate();
        let is_first = |(at, name): &(usize, &str)| !self.losses[..*at].iter().any(|loss| loss.what == *name);
        names.filter(is_first).map(|(_, name)| name).take(MAX_LOST_NAMES)
    }

    /// The tokens of all responses.
    pub fn usage(&self) -> TokenCounts {
        self.output.usage()
    }

    fn make_head(&mut self) -> ResponseHead {
        let failure = self.failure().cloned();
        let own = self.headers.drain(..).map(|(name, value)| (Cow::Owned(name), value));
        let mut headers: Vec<(Cow<'static, str>, Vec<u8>)> = own.collect();
        if let Some(error) = failure {
            let client = self.incoming.wire.protocol;
            let written = client.write_error(&error).or_else(|| OPENAI_CHAT.write_error(&error));
            self.output.take();
            let Some(written) = written else { return ResponseHead { status: 502, headers } };
            self.output.put_bytes(written.body);
            headers.retain(|(name, _)| written.headers.iter().all(|(own, _)| own != name));
            let own = written.headers.into_iter().map(|(name, value)| (name.into(), value.into_bytes()));
            headers.extend(own);
            return ResponseHead { status: written.status, headers };
        }
        headers.push(("content-type".into(), self.incoming.content_type().into()));
        let lost = lost_header(self.lost_parameters());
        headers.extend(lost.map(|(name, value)| (name.into(), value.into_bytes())));
        if self.incoming.model != self.target.model {
            let model = shown_in_header(&self.target.model);
            headers.push(("x-callweave-model".into(), model.into_bytes()));
        }
        if self.incoming.is_streamed {
            headers.push(("cache-control".into(), "no-cache".into()));
            headers.push(("x-accel-buffering".into(), "no".into()));
            if !self.output.may_reask() && !self.output.is_kept {
                self.incoming.release();
            }
        } else if let count @ 1.. = self.output.stats.complaints.len() {
            headers.push(("x-callweave-invalid-calls".into(), count.to_string().into_bytes()));
        }
        ResponseHead { status: 200, headers }
    }

    fn keep_headers<N: AsRef<str>, V: AsRef<[u8]>>(&mut self, headers: impl IntoIterator<Item = (N, V)>) {
        if self.head.is_some() {
            return;
        }
        self.headers.clear();
        for (name, value) in headers {
            if http::is_forwarded_to_client(name.as_ref()) {
                self.headers.push((name.as_ref().to_owned(), value.as_ref().to_vec()));
            }
        }
    }

    /// Ends with an error before an upstream has answered.
    fn abandon(&mut self, error: UpstreamError<'static>) {
        if matches!(self.state, ExchangeState::Interrupted | ExchangeState::Over) {
            return;
        }
        self.output.fail(&error);
        self.complete(ExchangeState::Over);
    }

    fn fail_reading(&mut self, error: UpstreamError<'static>) {
        let ExchangeState::Reading(chain) = &mut self.state else { return };
        let had_error = self.output.stats.error.is_some();
        chain.end(&mut self.output);
        chain.fail(error, &mut self.output);
        self.output.release_frames(chain.replaced_ids(), true);
        self.end_raw(had_error);
    }

    /// Writes a new error behind the bytes of the upstream, which do not have it.
    fn end_raw(&mut self, had_error: bool) {
        if !had_error {
            self.output.end_raw();
        }
        self.settle();
    }

    /// Checks whether the upstream's response is over: then it is the client's, or the model is asked again.
    fn settle(&mut self) {
        if !self.is_understood && self.output.stats.has_content {
            self.find_out(ProtocolSupport::Spoken);
        }
        let ExchangeState::Reading(chain) = &self.state else { return };
        if !chain.is_over() {
            if let Some(session) = self.session.as_mut().filter(|_| chain.is_settling()) {
                session.session().settle();
            }
            return;
        }
        // Some servers answer with success at paths that they do not know, and report that in the body.
        if !self.is_understood
            && !chain.is_broken()
            && let Some(error) = self.output.stats.error.as_deref().cloned()
            && self.ask_otherwise(400, false, &error)
        {
            return;
        }
        let ExchangeState::Reading(chain) = &self.state else { return };
        let dialect = chain.dialect().map(str::to_owned);
        let is_interrupted = chain.is_truncated();
        // A session that did not come to ask the model costs nothing.
        self.is_broken = chain.is_broken() && self.has_asked_model();
        let policy = &self.target.engine.policy;
        let is_bad = !self.output.stats.complaints.is_empty() && self.output.stats.error.is_none();
        let is_reasked = is_bad
            && policy.invalid_calls == InvalidCalls::Reask
            && self.reasks < policy.max_reasks
            && self.output.is_holding();
        for mut call in std::mem::take(&mut self.output.stats.calls) {
            call.dialect.clone_from(&dialect);
            if is_reasked && call.outcome == CallResolution::Invalid {
                call.outcome = CallResolution::Retried;
            }
            self.outcomes.push(call);
        }
        if is_reasked {
            return self.reask();
        }
        if is_bad && policy.invalid_calls == InvalidCalls::Error {
            let reason = self.output.stats.complaints.first().map(|(_, reason)| reason.as_str());
            let what = format!("the model made a call that cannot be run: {}", reason.unwrap_or_default());
            let mut error = UpstreamError::new(ErrorClass::Other, what);
            error.status = Some(502);
            self.output.fail(&error);
        }
        self.output.release();
        self.complete(if is_interrupted { ExchangeState::Interrupted } else { ExchangeState::Over });
    }

    /// Sends the model the reasons why its calls are invalid, and asks it again.
    fn reask(&mut self) {
        self.reasks += 1;
        let response = self.output.held_message();
        let complaints = std::mem::take(&mut self.output.stats.complaints);
        self.output.forget();
        self.added.extend(reask::messages(&response, &complaints));
        self.end_session();
        self.state = ExchangeState::Due;
    }

    /// Leaves the session, where there is one; the driver is to send the closing messages.
    fn end_session(&mut self) -> bool {
        self.session.as_mut().map(|session| session.session().interrupt()).is_some()
    }

    /// Keeps the ids of the calls, where the upstream keeps the conversation and the client may follow it.
    fn keep_calls(&self) {
        let ExchangeState::Reading(chain) = &self.state else { return };
        let Some(seals) = &self.target.engine.shared.seals else { return };
        if !self.incoming.may_be_followed() || !self.target.keeps_responses() {
            return;
        }
        if let Some((id, calls)) = chain.conversation() {
            let ids: Vec<&str> = std::iter::once(id).chain(self.incoming.conversation.as_deref()).collect();
            calls.keep(seals, self.incoming.seal_scope(&self.target), &ids);
        }
    }

    /// Completes the client's response.
    fn complete(&mut self, state: ExchangeState) {
        self.keep_calls();
        self.state = if self.end_session() { ExchangeState::Over } else { state };
        self.message = self.output.message();
        let is_streamed = self.incoming.is_streamed;
        let stops = self.target.engine.policy.stop.is_on.unwrap_or(false);
        if stops && !is_streamed && self.message.finish_reason() == Some(FinishReason::ToolCalls) {
            // A client that wants the response to end at calls wants nothing but calls.
            for choice in &mut self.message.choices {
                choice.blocks.retain(|block| !matches!(block.content, BlockContent::Text(_)));
            }
        }
        if !is_streamed {
            self.output.put_body(&self.message);
        }
        if self.output.is_kept && self.output.stats.error.is_none() {
            self.target.engine.shared.keep(&self.incoming, &self.message);
        }
    }
}

/// The maximum wait for the usage of a turn that was interrupted after its calls.
const MAX_SETTLING: Duration = Duration::from_millis(300);

/// The maximum number of names of lost parameters that are reported.
const MAX_LOST_NAMES: usize = 16;

/// The header that names the parameters that an upstream did not get, if there are any: its name and its value.
pub fn lost_header<'n>(names: impl IntoIterator<Item = &'n str>) -> Option<(&'static str, String)> {
    let lost: Vec<String> = names.into_iter().take(MAX_LOST_NAMES).map(shown_in_header).collect();
    (!lost.is_empty()).then(|| ("x-callweave-lost", lost.join(", ")))
}

/// A text of the client's or the configuration's as a header may have it.
fn shown_in_header(text: &str) -> String {
    let letters = text.chars().take(100);
    letters.map(|letter| if matches!(letter, ' '..='~') && letter != ',' { letter } else { '?' }).collect()
}

/// Bindings share these between threads.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<ExchangeEngine>();
    is_shared::<IncomingRequest>();
    is_shared::<Exchange>();
    is_shared::<crate::Encoder>();
    is_shared::<crate::Decoder>();
};
