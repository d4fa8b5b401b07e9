//! What a client asks, and what an upstream is asked instead.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use callweave::dialect::{ExtractOptions, Tools};
use callweave::doors::prompt::teach;
use callweave::encode::EncodeOptions;
use callweave::framing::Framing;
use callweave::json::{AsValue, Tape, Value};
use callweave::protocol;
use callweave::request::{
    Message, Mode, Outline, Request, RequestOptions, Tool, ToolChoice, ToolKind, Written, renamed,
};
use http::HeaderMap;

use crate::amount::{Amount, scanned};
use crate::config::Limits;
use crate::failure::Failure;
use crate::in_flight::Held;
use crate::keys::Digest;
use crate::router::Answer;
use crate::routes::{Routes, Target};
use crate::store::{Kept, Turn};
use crate::toolbox::{Declared, Toolbox};
use crate::trace::{Trace, made};
use crate::upstream::Outgoing;
use crate::wire::Wire;

/// What a client asks.
pub(crate) struct Asked {
    /// The row of its protocol.
    pub(crate) wire: &'static Wire,
    /// The body as it came, while the request may be needed.
    body: Option<Bytes>,
    /// What it says, where it had to be taken apart. Whoever asks first gets it, and others read the body again: mostly
    /// there is nobody else, and a copy would double what a long conversation takes.
    request: Mutex<Option<Box<Request>>>,
    /// Where the body names the model, while it says the same as the request and can be sent on.
    original: Option<Vec<Range<usize>>>,
    /// The conversation that it continues.
    pub(crate) earlier: Option<Arc<Turn>>,
    /// What was said since.
    added: Vec<Message>,
    /// Whether something was added to the conversation that no client wrote.
    pub(crate) is_extended: bool,
    /// The name that the client uses for the model.
    pub(crate) model: String,
    /// Whether the answer is to be streamed.
    pub(crate) is_streamed: bool,
    /// The client's headers that are sent on.
    headers: HeaderMap,
    /// The client's own key, where it may be sent on.
    pub(crate) key: Option<String>,
    /// Who the client is, for what is kept of it.
    pub(crate) scope: Digest,
    /// The id of the request.
    pub(crate) id: String,
    /// Where it stands in a trace.
    pub(crate) trace: Trace,
    /// What the answer is called.
    pub(crate) options: EncodeOptions,
    /// What its tools are known by.
    mark: u64,
    /// Whether the model may call anything.
    pub(crate) has_tools: bool,
    /// Whether the client wants to know the usage of a stream, where it can say so.
    stream_usage: Option<bool>,
    /// Whether it wants its answer to be kept.
    pub(crate) store: Option<bool>,
    /// The kept answer that it goes on from.
    pub(crate) previous: Option<String>,
    /// How much stands in the request and in the conversation that it continues.
    amount: Amount,
    /// The room that its bytes take.
    held: Option<Arc<Held>>,
    /// How long it took to read the request.
    pub(crate) read_for: Duration,
}

/// So many losses of a request are told at most.
const MOST_LOSSES: usize = 16;

/// What is known of a request before its body.
pub(crate) struct Beginning<'b> {
    pub(crate) headers: &'b HeaderMap,
    pub(crate) key: Option<String>,
    pub(crate) scope: Digest,
    pub(crate) id: &'b str,
    pub(crate) trace: Trace,
    pub(crate) began: Instant,
    pub(crate) held: Held,
    pub(crate) limits: &'b Limits,
}

/// A request as it is sent, and what is needed to read the answer.
pub(crate) struct Sent {
    pub(crate) outgoing: Outgoing,
    /// What was changed; nothing where the body is the client's own.
    pub(crate) written: Option<Written>,
    /// How the answer is to be read, where the request decides that.
    pub(crate) reading: Option<ExtractOptions>,
    /// The tools, by the names that the upstream knows.
    pub(crate) tools: Tools,
}

impl Asked {
    /// Reads what a client asks.
    pub(crate) fn read(
        wire: &'static Wire,
        answer: &Answer,
        query: Option<&str>,
        bytes: Bytes,
        beginning: Beginning<'_>,
        routes: &Routes,
        toolbox: &Toolbox,
    ) -> Result<Self, Failure> {
        let mut tape = Tape::new();
        let body = scanned(&mut tape, &bytes, beginning.limits)?;
        let invalid = |error: callweave::Error| Failure::invalid(error.to_string());
        let outline = wire.protocol.outline_request(body).map_err(invalid)?;
        let mut amount = Amount::of_request(body, outline.size());
        amount.check(beginning.limits)?;
        let named = answer.model.clone().or_else(|| outline.model().map(Cow::into_owned));
        let is_relayable = outline.is_relayable();
        let is_relayed = is_relayable
            && named
                .as_deref()
                .and_then(|name| routes.first(name))
                .is_some_and(|target| relays(wire, &target));
        let mark = toolbox.mark(wire.protocol, outline.tools());
        // Most of a request is its conversation and its tools: who sends it on as it is need not read them.
        let request = if is_relayed { outline.settings() } else { outline.request() }.map_err(invalid)?;
        if request.previous.is_some() {
            amount.values = body.value_count();
        }
        let declares_tools = match is_relayed && outline.tools().next().is_some() {
            true => !toolbox.get(mark, &[], || declared(&declarations(&outline), None)).is_empty,
            false => !request.tools.is_empty(),
        };
        let model =
            named.filter(|name| !name.is_empty()).ok_or_else(|| Failure::invalid("model is missing"))?;
        let is_streamed = answer.is_streamed.or(request.stream).unwrap_or(wire.streams_by_default);
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut options = EncodeOptions::mended()
            .id(format!("{}{}", wire.id_word, made::<12>()))
            .model(model.clone())
            .created(since.as_secs());
        let is_sse = query.is_some_and(|query| query.split('&').any(|pair| pair == "alt=sse"));
        if answer.is_streamed == Some(true) && !is_sse {
            options = options.framing(Framing::JsonValues);
        }
        let models = outline.models();
        let Beginning { headers, key, scope, id, trace, began, held, .. } = beginning;
        let mut forwarded = HeaderMap::new();
        for name in wire.forwarded {
            for value in headers.get_all(*name) {
                forwarded.append(*name, value.clone());
            }
        }
        Ok(Self {
            wire,
            has_tools: declares_tools && request.tool_choice != Some(ToolChoice::None),
            stream_usage: request.stream_usage,
            store: request.store,
            previous: request.previous.clone(),
            request: Mutex::new((!is_relayed).then(|| Box::new(request))),
            original: is_relayable.then_some(models),
            earlier: None,
            added: Vec::new(),
            is_extended: false,
            model,
            is_streamed,
            headers: forwarded,
            key,
            scope,
            id: id.to_owned(),
            trace,
            options,
            mark,
            amount,
            held: Some(Arc::new(held)),
            body: Some(bytes),
            read_for: began.elapsed(),
        })
    }

    /// Goes on from a kept answer, if the whole conversation is no longer than one that a client may send.
    pub(crate) fn follow(&mut self, kept: &Kept, limits: &Limits) -> Result<(), Failure> {
        let earlier = kept.turn.amount();
        self.amount = self.amount + earlier;
        self.amount.check(limits)?;
        self.held.as_ref().map_or(Ok(()), |held| held.add(earlier.bytes))?;
        self.earlier = Some(Arc::clone(&kept.turn));
        self.previous = None;
        self.original = None;
        self.is_extended = true;
        Ok(())
    }

    /// The request. Only the first who asks for it need not wait until it is read.
    fn request(&self) -> Request {
        let read = self.request.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut request = match read {
            Some(request) => *request,
            None => self.read_again(|outline| outline.request().unwrap_or_default()).unwrap_or_default(),
        };
        if let Some(earlier) = &self.earlier {
            let mut messages = earlier.messages();
            messages.append(&mut request.messages);
            request.messages = messages;
            request.previous = None;
        }
        request.messages.extend(self.added.iter().cloned());
        request
    }

    /// Has the body read again. It was read before, so it can be.
    fn read_again<T>(&self, read: impl FnOnce(&Outline<'_>) -> T) -> Option<T> {
        let text = std::str::from_utf8(self.body.as_ref()?).ok()?;
        let mut tape = Tape::new();
        let outline = self.wire.protocol.outline_request(tape.parse(text).ok()?).ok()?;
        Some(read(&outline))
    }

    /// What the client said in this turn, as the Responses protocol has it.
    pub(crate) fn input(&self) -> Option<String> {
        let text = std::str::from_utf8(self.body.as_ref()?).ok()?;
        let mut tape = Tape::new();
        Some(tape.parse(text).ok()?.get("input")?.raw().to_owned())
    }

    /// The same request with more said.
    pub(crate) fn extended(&self, mut messages: Vec<Message>) -> Self {
        messages.splice(0..0, self.added.iter().cloned());
        Self {
            body: self.body.clone(),
            earlier: self.earlier.clone(),
            added: messages,
            held: self.held.clone(),
            is_extended: true,
            headers: self.headers.clone(),
            ..self.without_content()
        }
    }

    /// What is to be known of the request when its answer is under way.
    pub(crate) fn without_content(&self) -> Self {
        Self {
            body: None,
            request: Mutex::default(),
            original: None,
            earlier: None,
            added: Vec::new(),
            held: None,
            is_extended: self.is_extended,
            wire: self.wire,
            model: self.model.clone(),
            is_streamed: self.is_streamed,
            headers: HeaderMap::new(),
            key: self.key.clone(),
            scope: self.scope,
            id: self.id.clone(),
            trace: self.trace.clone(),
            options: self.options.clone(),
            mark: self.mark,
            has_tools: self.has_tools,
            stream_usage: self.stream_usage,
            store: self.store,
            previous: None,
            amount: self.amount,
            read_for: self.read_for,
        }
    }

    /// How many bytes it takes to say all of it.
    pub(crate) fn size(&self) -> usize {
        self.amount.bytes
    }

    /// What a target is asked.
    pub(crate) fn for_target(&self, target: &Target, toolbox: &Toolbox) -> Result<Sent, Failure> {
        let wire = target.upstream.wire(&target.model)?;
        let is_same = wire.protocol == self.wire.protocol;
        let mut reading = None;
        let mut written = None;
        let original = self.original.as_ref().filter(|_| relays(self.wire, target));
        let body = match original.zip(self.body.as_ref()) {
            Some((models, body)) => naming(body, models, &self.model, &target.model),
            None => {
                let mut changed = self.write(target, wire, &mut reading)?;
                self.tell_losses(target, &changed);
                let mut body = String::with_capacity(self.amount.bytes + self.amount.bytes / 8);
                let told: Value = changed.body.take();
                told.write_last_into(&mut body);
                written = Some(changed);
                Bytes::from(body)
            }
        };
        let mut headers = if is_same { self.headers.clone() } else { HeaderMap::new() };
        self.trace.put(&mut headers);
        if let Ok(id) = self.id.parse() {
            headers.insert("x-request-id", id);
        }
        let outgoing = Outgoing {
            wire,
            model: target.model.clone(),
            address: target.upstream.address_naming(wire, &target.model, self.is_streamed)?,
            is_streamed: self.is_streamed,
            body,
            headers,
            client_key: self.key.clone(),
        };
        let names = written.as_ref().map_or(&[][..], |written| &written.names);
        let made = || {
            let tools = self.read_again(declarations).unwrap_or_default();
            declared(&tools, written.as_ref())
        };
        let tools = match self.has_tools {
            true => toolbox.get(self.mark, names, made).tools,
            false => Tools::default(),
        };
        Ok(Sent { outgoing, written, reading, tools })
    }

    /// Tells what a target is not asked though the client did.
    fn tell_losses(&self, target: &Target, written: &Written) {
        if written.losses.is_empty() {
            return;
        }
        let mut lost: Vec<&str> = Vec::new();
        for loss in &written.losses {
            if !lost.contains(&loss.what.as_str()) && lost.len() < MOST_LOSSES {
                lost.push(&loss.what);
            }
        }
        let (request, upstream, lost) = (self.id.as_str(), target.upstream.name.as_str(), lost.join(", "));
        tracing::warn!(request, upstream, lost, "left out of the request");
    }

    fn write(
        &self,
        target: &Target,
        wire: &Wire,
        reading: &mut Option<ExtractOptions>,
    ) -> Result<Written, Failure> {
        let mut options = RequestOptions::default();
        options.model = Some(target.model.clone());
        options.provider.clone_from(&target.upstream.config.provider);
        let is_same = wire.protocol == self.wire.protocol;
        // Who speaks another's protocol by rules of its own gets nothing as it came.
        if self.is_extended || options.provider.is_some() {
            options.mode = Mode::Mended;
        }
        let mut request = self.request();
        if is_same && !target.upstream.changes_requests() {
            let written = wire.protocol.write_last_request(request, &options);
            return written.map_err(|error| Failure::invalid(error.to_string()));
        }
        if !is_same {
            request.stream = Some(self.is_streamed);
            request.store = None;
            // Other clients are always told the usage, so it must be asked for.
            if self.is_streamed && *wire.protocol == protocol::OPENAI_CHAT {
                request.stream_usage = Some(true);
            }
        }
        // What is allowed here a client may still not want.
        if let Some(may) = target.upstream.stop.parallel
            && !request.tools.is_empty()
        {
            request.parallel_calls = Some(may && request.parallel_calls.unwrap_or(true));
        }
        let mut taught = None;
        if let Some(prompt) = target.upstream.teaching(&target.model) {
            let mut told = teach(request, &prompt);
            request = std::mem::take(&mut told.request);
            *reading = Some(told.reading().clone());
            taught = Some(told);
        }
        let written = wire.protocol.write_last_request(request, &options);
        let mut written = written.map_err(|error| Failure::invalid(error.to_string()))?;
        if let Some(taught) = taught {
            written.names.extend(taught.names);
            written.wrapped.extend(taught.wrapped);
        }
        Ok(written)
    }

    /// What the client is sent while the model is silent: see [`Wire::pings`].
    pub(crate) fn pings(&self) -> [&'static str; 2] {
        match self.options.framing {
            Some(Framing::JsonValues) => ["", ""],
            _ => self.wire.pings,
        }
    }

    /// Whether the client wants to know the usage of a stream.
    pub(crate) fn wants_usage(&self) -> bool {
        !self.is_streamed || *self.wire.protocol != protocol::OPENAI_CHAT || self.stream_usage == Some(true)
    }
}

/// The body with the name of the model that a target knows; as it came, if that is the client's.
fn naming(body: &Bytes, places: &[Range<usize>], own: &str, model: &str) -> Bytes {
    match std::str::from_utf8(body) {
        Ok(text) if own != model => Bytes::from(renamed(text, places, model)),
        _ => body.clone(),
    }
}

/// Whether a target takes requests of that protocol as they are.
fn relays(wire: &Wire, target: &Target) -> bool {
    target.upstream.wire(&target.model).is_ok_and(|own| own.protocol == wire.protocol)
        && !target.upstream.changes_requests()
        && target.upstream.config.provider.is_none()
}

/// The tools of a request whose outline was taken.
fn declarations(outline: &Outline<'_>) -> Vec<Tool> {
    outline.declarations().unwrap_or_default().tools
}

/// The tools of a request, by the names under which they are sent.
fn declared(tools: &[Tool], written: Option<&Written>) -> Declared {
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
    Declared { tools: all, is_empty: tools.is_empty() }
}

fn declare(name: &str, tool: &Tool, written: Option<&Written>, all: &mut Tools) {
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
