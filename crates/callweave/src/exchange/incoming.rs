//! The client's request, and the request that an upstream gets in its place.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::amount::{RequestAmount, RequestLimits, invalid, scan};
use super::http::{ClientEndpoint, HttpWire};
use super::kept_calls::KeptCalls;
use super::policy::ExchangeTarget;
use super::route_body::rewritten;
use super::store::{StoreScope, StoredTurn};
use super::tool_cache::DeclaredTools;
use super::{ExchangeResult, SharedState};
use crate::dialect::{ExtractOptions, Tools};
use crate::encode::EncodeOptions;
use crate::event::{self, Event, Notice, NoticeCode};
use crate::framing::Framing;
use crate::json::{AsValue, JsonKind, Tape, TapeNode, Value};
use crate::protocol::{CodexSession, GEMINI_GENERATE_CONTENT, OPENAI_CHAT, OPENAI_RESPONSES, Protocol};
use crate::request::{
    ChoiceForm, Loss, Request, RequestMessage, RequestMode, RequestOptions, RequestOutline, RequestTool,
    SealScope, ToolChoice, ToolKind, WrittenRequest, renamed,
};
use crate::teach::teach;
use crate::upstream::{ErrorClass, UpstreamError};

/// Shared bytes of any owner.
#[derive(Clone)]
pub struct SharedBytes(Arc<dyn AsRef<[u8]> + Send + Sync>);

impl SharedBytes {
    /// The bytes of an owner. It is dropped with the last clone.
    pub fn from_owner(owner: impl AsRef<[u8]> + Send + Sync + 'static) -> Self {
        Self(Arc::new(owner))
    }
}

impl AsRef<[u8]> for SharedBytes {
    fn as_ref(&self) -> &[u8] {
        (*self.0).as_ref()
    }
}

impl From<Vec<u8>> for SharedBytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self::from_owner(bytes)
    }
}

impl From<&[u8]> for SharedBytes {
    fn from(bytes: &[u8]) -> Self {
        Self::from_owner(bytes.to_vec())
    }
}

impl std::fmt::Debug for SharedBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Body({} bytes)", self.as_ref().len())
    }
}

/// A client's request before its body is read.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct IncomingHead {
    /// The route that it was sent to.
    pub route: ClientEndpoint,
    /// The framing of a stream, where the client chose one: Gemini streams are a JSON array without `alt=sse`.
    pub framing: Option<Framing>,
    /// Headers of the client. Only those that its protocol forwards are used.
    pub headers: Vec<(String, String)>,
    /// The client's own key, where it may be sent on.
    pub api_key: Option<String>,
    /// The owner of the data that is kept of this request.
    pub scope: StoreScope,
    /// The body.
    pub body: SharedBytes,
    /// Letters and digits that no other request has: ids of the response and its calls are made of them.
    pub id: String,
    /// The time, in seconds since 1970.
    pub created: u64,
}

impl IncomingHead {
    /// A request with a body and an id of its own.
    pub fn new(route: ClientEndpoint, body: impl Into<SharedBytes>, id: impl Into<String>) -> Self {
        Self {
            route,
            framing: None,
            headers: Vec::new(),
            api_key: None,
            scope: StoreScope::default(),
            body: body.into(),
            id: id.into(),
            created: 0,
        }
    }

    /// The same with the framing that the query of the URL asks for.
    pub fn query(mut self, query: Option<&str>) -> Self {
        let is_sse = query.is_some_and(|query| query.split('&').any(|pair| pair == "alt=sse"));
        if self.route.is_streamed == Some(true) && *self.route.protocol == GEMINI_GENERATE_CONTENT && !is_sse
        {
            self.framing = Some(Framing::JsonValues);
        }
        self
    }
}

/// A client's request that was read. It can be sent to several targets, one after the other.
pub struct IncomingRequest {
    pub(super) wire: &'static HttpWire,
    /// The name that the client uses for the model.
    pub(super) model: String,
    pub(super) is_streamed: bool,
    pub(super) options: EncodeOptions,
    /// The client's headers that are forwarded.
    headers: Vec<(&'static str, String)>,
    api_key: Option<String>,
    pub(super) scope: StoreScope,
    pub(super) id: String,
    /// The time, in seconds since 1970.
    pub(super) created: u64,
    /// The key of its tools in the cache.
    tools_key: u64,
    /// Whether the model may call anything.
    pub(super) has_tools: bool,
    /// Whether the client takes no pieces of calls.
    pub(super) wants_complete_calls: bool,
    /// Whether the client wants the usage of a stream, where it can say so.
    stream_usage: Option<bool>,
    /// Whether the client wants its response to be kept.
    pub(super) store: Option<bool>,
    /// The size of the request and of the conversation that it continues.
    amount: RequestAmount,
    /// The parameter that refers to data that only OpenAI keeps, and the reason to refuse it elsewhere.
    state: Option<&'static (&'static str, &'static str)>,
    /// The ids of the calls in the conversation.
    call_ids: Vec<Box<str>>,
    /// The calls of the conversation that it follows, where the upstream keeps that.
    pub(super) kept_calls: KeptCalls,
    /// The id of the conversation that the upstream keeps.
    pub(super) conversation: Option<String>,
    /// Whether every server of the client's protocol takes the request.
    is_common: bool,
    /// The form in which the client chooses among its tools.
    choice: ChoiceForm,
    content: Mutex<Option<RequestContent>>,
}

/// The part of a request that is needed only until its response has begun, unless the model may be asked again.
struct RequestContent {
    body: SharedBytes,
    /// The request, where it had to be read. The first target takes it, and others read the body again: mostly there
    /// is no other, and a copy would double the memory of a long conversation.
    request: Option<Box<Request>>,
    /// The ranges of the model's name in the body, while the body can be sent as it is.
    original: Option<Vec<Range<usize>>>,
    /// The conversation that it continues.
    earlier: Option<Arc<StoredTurn>>,
}

/// A request for an upstream.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpRequest {
    /// The method.
    pub method: &'static str,
    /// The URL; only its path where the policy has no base URL.
    pub url: String,
    /// The headers, with names in lower case.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: SharedBytes,
    /// The protocol.
    pub protocol: &'static Protocol,
    /// The model, as the upstream calls it.
    pub model: String,
    /// Whether the response is to be streamed.
    pub is_streamed: bool,
}

/// A request for an upstream, over HTTP or as a session.
pub(super) enum PreparedOutgoing {
    Request(HttpRequest),
    Session(CodexSession),
}

/// A request for an upstream, and the data for reading its response.
pub(super) struct PreparedRequest {
    pub(super) outgoing: PreparedOutgoing,
    /// The changes; none where the body is the client's own.
    pub(super) written: Option<WrittenRequest>,
    /// The options for reading the text, where the request decides that.
    pub(super) reading: Option<ExtractOptions>,
    /// The tools, by the names that the upstream knows.
    pub(super) tools: Tools,
}

impl IncomingRequest {
    /// Reads a client's request. `first` is the target that will be asked first for a model's name: a body that it
    /// takes as it is need not be read as a whole.
    pub fn read(
        incoming: IncomingHead,
        shared: &SharedState,
        limits: &RequestLimits,
        first: impl FnOnce(&str) -> Option<ExchangeTarget>,
    ) -> ExchangeResult<Self> {
        let IncomingHead { route, framing, headers, api_key, scope, body: bytes, id, created } = incoming;
        let protocol = route.protocol;
        let wire = HttpWire::of(protocol).ok_or_else(|| {
            let what = format!("nobody answers in {}", protocol.name);
            Box::new(UpstreamError::new(ErrorClass::NotFound, what))
        })?;
        let mut tape = Tape::new();
        let mut body = scan(&mut tape, bytes.as_ref(), limits)?;
        let rewritten = rewritten(&route, wire, body, &bytes)?;
        let mut own_tape = Tape::new();
        if let Some(rewritten) = &rewritten {
            body = scan(&mut own_tape, rewritten.as_ref(), limits)?;
        }
        let ClientEndpoint { model: named, is_streamed, is_prompt, .. } = route;
        let unreadable = |error: crate::Error| invalid(error.to_string());
        let outline = protocol.outline_request(body).map_err(unreadable)?;
        let mut amount = RequestAmount::of_request(body, outline.size());
        amount.check(limits)?;
        let named = named.or_else(|| outline.model().map(Cow::into_owned));
        let first = named.as_deref().and_then(first);
        let is_relayable = outline.is_relayable();
        let (is_common, choice) = (outline.is_common(), outline.choice_form());
        let relays =
            |target: &ExchangeTarget| target.relays(protocol) && target.takes(protocol, is_common, choice);
        let is_relayed = is_relayable && first.as_ref().is_some_and(relays);
        let tools_key = shared.tools.key(protocol, outline.tools());
        // Most of a request is its conversation and its tools: a relayed one need not be read.
        let mut request =
            if is_relayed { outline.settings() } else { outline.request() }.map_err(unreadable)?;
        let declares_tools = match is_relayed && outline.tools().next().is_some() {
            true => !shared.tools.get(tools_key, &[], || declared(&declarations(&outline), None)).is_empty,
            false => !request.tools.is_empty(),
        };
        let model = named.filter(|name| !name.is_empty()).ok_or_else(|| invalid("model is missing"))?;
        let mut call_ids = Vec::new();
        outline.call_ids(|id| call_ids.push(id.into()));
        let mut original = is_relayable.then(|| outline.models());
        let mut options = EncodeOptions::normalized()
            .id([protocol.response_id_prefix(), id.as_str()].concat())
            .model(model.clone())
            .created(created);
        let earlier = match request.previous.clone().filter(|_| *protocol == OPENAI_RESPONSES) {
            None => None,
            Some(previous) => {
                let earlier = shared.conversation(&scope, &previous, first.as_ref())?;
                if let Some(earlier) = &earlier {
                    earlier.call_ids(&mut call_ids);
                    amount.values = body.value_count();
                    amount = amount + earlier.amount();
                    amount.check(limits)?;
                    (request.previous, original) = (None, None);
                    options = options.previous(previous);
                }
                earlier
            }
        };
        let conversation = conversation_id(protocol, body);
        let mut kept_calls = KeptCalls::default();
        if let Some(kept) = request.previous.as_deref().or(conversation.as_deref()) {
            // The upstream keeps the conversation, and knows its calls by the ids that it gave.
            match (&shared.seals, &first) {
                (Some(seals), Some(target)) => {
                    kept_calls = KeptCalls::find(seals, seal_scope(&scope, target), kept);
                    if call_ids.iter().any(|id| kept_calls.upstream_id(id).is_some()) {
                        original = None;
                    }
                    call_ids.extend(kept_calls.client_ids().map(Box::from));
                }
                // Another id could not be mapped back.
                _ => call_ids.clear(),
            }
        }
        if let Some(framing) = framing {
            options = options.framing(framing);
        }
        if is_prompt || outline.has_older_tools() {
            options = options.older_form();
        }
        let state = match *protocol == OPENAI_RESPONSES {
            true => {
                STATE.iter().find(|(name, _)| body.get(name).is_some_and(|own| own.kind() != JsonKind::Null))
            }
            false => None,
        };
        let forwarded = |name: &'static str| {
            let own = headers.iter().filter(move |(own, _)| own.eq_ignore_ascii_case(name));
            own.map(move |(_, value)| (name, value.clone()))
        };
        let (has_tools, stream_usage, store) = (
            declares_tools && request.tool_choice != Some(ToolChoice::None),
            request.stream_usage,
            request.store,
        );
        let is_streamed = is_streamed.or(request.stream).unwrap_or(wire.streams_by_default);
        let agent = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("user-agent"));
        let wants_complete_calls = agent.is_some_and(|(_, agent)| wire.wants_complete_calls(agent));
        let request = (!is_relayed).then(|| Box::new(request));
        drop((tape, own_tape));
        let bytes = rewritten.unwrap_or(bytes);
        Ok(Self {
            wire,
            state,
            headers: wire.forwarded_headers.iter().copied().flat_map(forwarded).collect(),
            is_streamed,
            has_tools,
            wants_complete_calls,
            stream_usage,
            store,
            model,
            options,
            api_key,
            scope,
            id,
            created,
            tools_key,
            amount,
            call_ids,
            kept_calls,
            conversation,
            is_common,
            choice,
            content: Mutex::new(Some(RequestContent { body: bytes, request, original, earlier })),
        })
    }

    /// The protocol of the client.
    pub fn protocol(&self) -> &'static Protocol {
        self.wire.protocol
    }

    /// The name that the client uses for the model.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Whether the response is streamed.
    pub fn is_streamed(&self) -> bool {
        self.is_streamed
    }

    /// The owner of the data that is kept of this request.
    pub fn scope(&self) -> &StoreScope {
        &self.scope
    }

    /// The number of bytes of the request and of the conversation that it continues.
    pub fn size(&self) -> usize {
        self.amount.bytes
    }

    /// The content type of the response.
    pub fn content_type(&self) -> &'static str {
        match self.options.framing {
            Some(Framing::JsonValues) => "application/json",
            _ if !self.is_streamed => "application/json",
            _ => self.wire.stream_type,
        }
    }

    /// The bytes that keep a silent stream alive: before the response has begun, and afterwards. Empty where the client
    /// would not understand any.
    pub fn pings(&self) -> [&'static str; 2] {
        match self.options.framing {
            Some(Framing::JsonValues) => ["", ""],
            _ if !self.is_streamed => ["", ""],
            _ => self.wire.pings,
        }
    }

    /// Whether the client skips comments in its stream.
    pub(super) fn takes_comments(&self) -> bool {
        self.wire.takes_comments && !self.pings()[0].is_empty()
    }

    /// A stream that is nothing but an error, for a client that has got its status and no content.
    pub fn error_stream(&self, error: UpstreamError<'static>) -> Vec<u8> {
        let mut bytes = Vec::new();
        if let Some(mut encoder) = self.wire.protocol.encoder(&self.options) {
            let notice = Notice::new(NoticeCode::Truncated, 0, "the answer failed");
            for body in [
                start(),
                event::EventKind::Error(error),
                event::EventKind::Notice(notice),
                event::EventKind::End,
            ] {
                encoder.encode(&Event::new(0, body), &mut bytes);
            }
        }
        bytes
    }

    /// Drops the body and all that was read of it: a long stream must not hold a long conversation.
    pub(super) fn release(&self) {
        *self.content() = None;
    }

    /// The ids of the calls in the conversation.
    pub(super) fn call_ids(&self) -> impl Iterator<Item = &str> {
        self.call_ids.iter().map(|id| &**id)
    }

    /// A seed of call ids that no other request has: the id of the request, and the number of times the model was asked
    /// again.
    pub(super) fn call_id_seed(&self, reasks: u32) -> String {
        format!("{}_{reasks}", self.id)
    }

    /// Whether the client gets the usage of the response.
    pub(super) fn wants_usage(&self) -> bool {
        !self.is_streamed || *self.wire.protocol != OPENAI_CHAT || self.stream_usage == Some(true)
    }

    /// The scope of provider seals: this client, and the upstream that sealed.
    pub(super) fn seal_scope<'s>(&'s self, target: &'s ExchangeTarget) -> SealScope<'s> {
        seal_scope(&self.scope, target)
    }

    /// Whether the client can refer to its response in a next request.
    pub(super) fn may_be_followed(&self) -> bool {
        let is_stored = self.store != Some(false) || self.conversation.is_some();
        *self.wire.protocol == OPENAI_RESPONSES && is_stored
    }

    /// Whether a response of that target is kept: if the client speaks a protocol in which it may refer to it, does not
    /// say no, and the upstream does not keep it itself.
    pub(super) fn is_kept(&self, target: &ExchangeTarget) -> bool {
        self.may_be_followed() && !target.keeps_responses()
    }

    /// The client's input in this turn as the Responses protocol has it, and the conversation before.
    pub(super) fn input(&self) -> (Option<String>, Option<Arc<StoredTurn>>) {
        let content = self.content();
        let Some(content) = &*content else { return (None, None) };
        let input = || {
            let mut tape = Tape::new();
            let text = std::str::from_utf8(content.body.as_ref()).ok()?;
            Some(tape.parse(text).ok()?.get("input")?.raw().to_owned())
        };
        (input(), content.earlier.clone())
    }

    fn content(&self) -> MutexGuard<'_, Option<RequestContent>> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The request for a target, with messages that follow those of the client.
    pub(super) fn prepare(
        &self,
        target: &ExchangeTarget,
        added: &[RequestMessage],
    ) -> ExchangeResult<PreparedRequest> {
        let mut content = self.content();
        let gone = || Box::new(UpstreamError::new(ErrorClass::Other, "the request was released"));
        let content = content.as_mut().ok_or_else(gone)?;
        let mut reading = None;
        let mut written = None;
        let client = self.wire.protocol;
        if let Some((name, why)) = self.state.filter(|_| !target.keeps_responses()) {
            return Err(invalid(format!("{name} cannot be used with {}: {why}", target.shown())));
        }
        let is_original =
            added.is_empty() && target.relays(client) && target.takes(client, self.is_common, self.choice);
        let outgoing = match content.original.as_ref().filter(|_| is_original) {
            Some(places) => {
                let body = self.original(&content.body, places, &target.model);
                PreparedOutgoing::Request(self.posted(target, body)?)
            }
            None => {
                let mut changed = self.write(content, target, added, &mut reading)?;
                let outgoing = match HttpWire::of(target.protocol_for(client)) {
                    Some(_) => {
                        let mut body = String::with_capacity(self.amount.bytes + self.amount.bytes / 8);
                        let value: Value = changed.body.take();
                        value.write_last_into(&mut body);
                        PreparedOutgoing::Request(self.posted(target, body.into_bytes().into())?)
                    }
                    None => {
                        let (id, settings) = target.engine.new_session();
                        let (session, lost) =
                            CodexSession::open(&id, &target.model, changed.body.take(), settings);
                        let loss = |what| Loss { path: String::new(), what, is_malformed: false };
                        changed.losses.extend(lost.into_iter().map(loss));
                        PreparedOutgoing::Session(session)
                    }
                };
                written = Some(changed);
                outgoing
            }
        };
        let names = written.as_ref().map_or(&[][..], |written| &written.names);
        let prepare = || {
            let tools = content.read_again(client, declarations).unwrap_or_default();
            declared(&tools, written.as_ref())
        };
        let tools = match self.has_tools {
            true => target.engine.shared.tools.get(self.tools_key, names, prepare).tools,
            false => Tools::default(),
        };
        Ok(PreparedRequest { outgoing, written, reading, tools })
    }

    /// A body as a request over HTTP.
    fn posted(&self, target: &ExchangeTarget, body: SharedBytes) -> ExchangeResult<HttpRequest> {
        let wire = target.wire(self.wire.protocol)?;
        let policy = &target.engine.policy;
        let mut headers = vec![("content-type", "application/json".to_owned())];
        if wire.protocol == self.wire.protocol {
            headers.extend(self.headers.iter().cloned());
        }
        if let Some((name, value)) = wire.version_header
            && !headers.iter().any(|(own, _)| *own == name)
        {
            headers.push((name, value.to_owned()));
        }
        let client_key = self.api_key.as_deref().filter(|_| policy.forwards_client_key);
        if let Some(key) = policy.api_key.as_deref().or(client_key) {
            let (name, before) = wire.key_header;
            headers.push((name, [before, key].concat()));
            // A server that speaks several protocols may look for keys where its first has them.
            let first = policy.protocol.and_then(HttpWire::of).map(|first| first.key_header);
            if let Some((name, before)) = first.filter(|(first, _)| *first != name) {
                headers.push((name, [before, key].concat()));
            }
        }
        Ok(HttpRequest {
            method: "POST",
            url: target.engine.url(wire, &target.model, self.is_streamed)?,
            headers,
            body,
            protocol: wire.protocol,
            model: target.model.clone(),
            is_streamed: self.is_streamed,
        })
    }

    /// The client's body with the name of the model that a target knows.
    fn original(&self, body: &SharedBytes, places: &[Range<usize>], model: &str) -> SharedBytes {
        match std::str::from_utf8(body.as_ref()) {
            Ok(text) if self.model != model => SharedBytes::from(renamed(text, places, model).into_bytes()),
            _ => body.clone(),
        }
    }

    fn write(
        &self,
        content: &mut RequestContent,
        target: &ExchangeTarget,
        added: &[RequestMessage],
        reading: &mut Option<ExtractOptions>,
    ) -> ExchangeResult<WrittenRequest> {
        let engine = &target.engine;
        // A server that speaks another's protocol by rules of its own gets no body as it came.
        let client = self.wire.protocol;
        let own = target.protocol_for(client);
        // A session takes the conversation as items of the Responses API.
        let protocol = if HttpWire::of(own).is_some() { own } else { &OPENAI_RESPONSES };
        let is_same = own == client;
        let is_changed = !added.is_empty()
            || content.earlier.is_some()
            || target.has_own_rules(protocol)
            || protocol != own;
        let mode = if is_changed { RequestMode::Normalized } else { RequestMode::Compatible };
        let provider = engine.provider(protocol).map(|provider| provider.name.to_owned());
        let options = RequestOptions { model: Some(target.model.clone()), provider, mode };
        let mut request = content.request(client);
        self.kept_calls.map_back(&mut request);
        request.messages.extend(added.iter().cloned());
        if let Some(seals) = &engine.shared.seals {
            seals.restore(&mut request, protocol, &options, self.seal_scope(target));
        }
        let unwritable = |error: crate::Error| invalid(error.to_string());
        if is_same && !engine.changes_requests() {
            return protocol.write_last_request(request, &options).map_err(unwritable);
        }
        if !is_same {
            // A request without messages and instructions is not sent.
            if request.messages.is_empty() && request.instructions.is_empty() && request.previous.is_none() {
                return Err(invalid("the request has no messages"));
            }
            request.stream = Some(self.is_streamed);
            request.store = None;
            // Clients of other protocols always get the usage, so it must be asked for.
            if self.is_streamed && *protocol == OPENAI_CHAT {
                request.stream_usage = Some(true);
            }
        }
        // The policy may allow what the client does not want.
        if let Some(may) = engine.policy.stop.parallel
            && !request.tools.is_empty()
        {
            request.parallel_calls = Some(may && request.parallel_calls.unwrap_or(true));
        }
        let mut taught = None;
        if let Some(prompt) = engine.teaching(&target.model) {
            let mut lesson = teach(request, &prompt);
            request = std::mem::take(&mut lesson.request);
            *reading = Some(lesson.reading().clone());
            taught = Some(lesson);
        }
        let mut written = protocol.write_last_request(request, &options).map_err(unwritable)?;
        if let Some(taught) = taught {
            written.names.extend(taught.names);
            written.wrapped.extend(taught.wrapped);
        }
        Ok(written)
    }
}

impl RequestContent {
    /// The request. Only the first caller gets it without reading the body again.
    fn request(&mut self, protocol: &Protocol) -> Request {
        let mut request = match self.request.take() {
            Some(request) => *request,
            None => {
                let read = |outline: &RequestOutline<'_>| outline.request().unwrap_or_default();
                self.read_again(protocol, read).unwrap_or_default()
            }
        };
        if let Some(earlier) = &self.earlier {
            let mut messages = earlier.messages();
            messages.append(&mut request.messages);
            request.messages = messages;
            request.previous = None;
        }
        request
    }

    /// Reads the body again. It was read before, so it can be.
    fn read_again<T>(&self, protocol: &Protocol, read: impl FnOnce(&RequestOutline<'_>) -> T) -> Option<T> {
        let text = std::str::from_utf8(self.body.as_ref()).ok()?;
        let mut tape = Tape::new();
        let outline = protocol.outline_request(tape.parse(text).ok()?).ok()?;
        Some(read(&outline))
    }
}

/// Parameters of the Responses API that refer to data that OpenAI keeps.
const STATE: &[(&str, &str)] = &[
    ("conversation", "conversations are kept by OpenAI alone; send the input, or previous_response_id"),
    ("prompt", "stored prompts are known to OpenAI alone; send the instructions and the input themselves"),
];

/// The id of the conversation that a request of the Responses API continues: a text, or an object with it.
fn conversation_id(protocol: &Protocol, body: TapeNode<'_>) -> Option<String> {
    let named = body.get("conversation").filter(|_| *protocol == OPENAI_RESPONSES)?;
    let id = named.get("id").unwrap_or(named).str()?;
    Some(id.to_cow().into_owned())
}

/// The scope of provider seals: a client, and the upstream that sealed.
fn seal_scope<'s>(scope: &'s StoreScope, target: &'s ExchangeTarget) -> SealScope<'s> {
    SealScope { client: &scope.0, issuer: target.engine.policy.name.as_bytes() }
}

/// The start of a response of which nothing is known.
pub(super) fn start() -> event::EventKind<'static> {
    event::EventKind::Start { id: None, model: None, wire_type: Cow::Borrowed(""), extra: None }
}

/// The tools of a request whose outline was taken.
fn declarations(outline: &RequestOutline<'_>) -> Vec<RequestTool> {
    outline.declarations().unwrap_or_default().tools
}

/// The tools of a request, by the names under which they are sent.
fn declared(tools: &[RequestTool], written: Option<&WrittenRequest>) -> DeclaredTools {
    let mut all = Tools::default();
    for tool in tools {
        match &tool.kind {
            ToolKind::Group(members) => {
                for member in members {
                    declare(&format!("{}.{}", tool.name, member.name), member, written, &mut all);
                    declare(&member.name, member, written, &mut all);
                }
            }
            _ => declare(&tool.name, tool, written, &mut all),
        }
    }
    DeclaredTools { tools: all, is_empty: tools.is_empty() }
}

fn declare(name: &str, tool: &RequestTool, written: Option<&WrittenRequest>, all: &mut Tools) {
    let sent = written.and_then(|written| written.names.iter().find(|(_, own)| own == name));
    let name = sent.map_or(name, |(sent, _)| sent);
    match &tool.kind {
        ToolKind::Function { schema } => {
            all.declare(name, schema.as_ref().map(|schema| schema as &dyn AsValue));
        }
        ToolKind::Custom { .. } => all.declare(name, None),
        _ => {}
    }
}
