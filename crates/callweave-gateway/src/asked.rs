//! What a client asks, and what an upstream is asked instead.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use callweave::dialect::{ExtractOptions, Tools};
use callweave::doors::prompt::teach;
use callweave::encode::EncodeOptions;
use callweave::framing::Framing;
use callweave::json::AsValue;
use callweave::protocol;
use callweave::request::{Message, Mode, Request, RequestOptions, Tool, ToolChoice, ToolKind, Written};
use http::HeaderMap;

use crate::failure::Failure;
use crate::handle::read_json;
use crate::keys::Digest;
use crate::router::Answer;
use crate::routes::Target;
use crate::store::Kept;
use crate::toolbox::Toolbox;
use crate::trace::{Trace, made};
use crate::upstream::Outgoing;
use crate::wire::Wire;

/// What a client asks.
pub(crate) struct Asked {
    /// The row of its protocol.
    pub(crate) wire: &'static Wire,
    /// The request.
    pub(crate) request: Request,
    /// The body as it came, while it says the same as the request.
    pub(crate) original: Option<Bytes>,
    /// Whether something was added to the conversation that no client wrote.
    pub(crate) is_extended: bool,
    /// The name that the client uses for the model.
    pub(crate) model: String,
    /// Whether the answer is to be streamed.
    pub(crate) is_streamed: bool,
    /// The client's headers.
    pub(crate) headers: HeaderMap,
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
    /// The turns that came before, as they were kept.
    pub(crate) turns: Vec<Arc<Vec<Message>>>,
    /// How many messages of the request those are.
    pub(crate) earlier: usize,
    /// What its tools are known by.
    pub(crate) mark: u64,
    /// How long the body was.
    pub(crate) size: usize,
    /// How long it took to read the request.
    pub(crate) read_for: Duration,
}

/// What is known of a request before its body.
pub(crate) struct Beginning<'b> {
    pub(crate) headers: &'b HeaderMap,
    pub(crate) key: Option<String>,
    pub(crate) scope: Digest,
    pub(crate) id: &'b str,
    pub(crate) trace: Trace,
    pub(crate) began: Instant,
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
    /// Whether the model may call anything.
    pub(crate) has_tools: bool,
}

impl Asked {
    /// Reads what a client asks.
    pub(crate) fn read(
        wire: &'static Wire,
        answer: &Answer,
        query: Option<&str>,
        bytes: Bytes,
        beginning: Beginning<'_>,
        toolbox: &Toolbox,
    ) -> Result<Self, Failure> {
        let body = read_json(&bytes)?;
        let mark = toolbox.mark(body.get("tools"));
        let read = wire.protocol.read_request(body);
        let request = read.map_err(|error| Failure::invalid(error.to_string()))?;
        let named = answer.model.clone().or_else(|| request.model.clone());
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
        let size = bytes.len();
        let Beginning { headers, key, scope, id, trace, began } = beginning;
        Ok(Self {
            wire,
            request,
            original: Some(bytes),
            is_extended: false,
            model,
            is_streamed,
            headers: headers.clone(),
            key,
            scope,
            id: id.to_owned(),
            trace,
            options,
            turns: Vec::new(),
            earlier: 0,
            mark,
            size,
            read_for: began.elapsed(),
        })
    }

    /// Goes on from a kept answer.
    pub(crate) fn follow(&mut self, kept: &Kept) {
        let earlier: Vec<Message> = kept.turns.iter().flat_map(|turn| turn.iter().cloned()).collect();
        self.earlier = earlier.len();
        self.turns.clone_from(&kept.turns);
        self.request.messages.splice(0..0, earlier);
        self.request.previous = None;
        self.original = None;
        self.is_extended = true;
    }

    /// The same request with more said.
    pub(crate) fn extended(&self, messages: Vec<Message>) -> Self {
        let mut request = self.request.clone();
        request.messages.extend(messages);
        Self {
            request,
            is_extended: true,
            headers: self.headers.clone(),
            turns: self.turns.clone(),
            ..self.without_content()
        }
    }

    /// What is to be known of the request when its answer is under way.
    pub(crate) fn without_content(&self) -> Self {
        Self {
            request: Request::default(),
            original: None,
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
            turns: Vec::new(),
            earlier: self.earlier,
            mark: self.mark,
            size: self.size,
            read_for: self.read_for,
        }
    }

    /// What a target is asked.
    pub(crate) fn for_target(&self, target: &Target, toolbox: &Toolbox) -> Result<Sent, Failure> {
        let wire = target.upstream.wire(&target.model)?;
        let is_same = wire.protocol == self.wire.protocol;
        let mut reading = None;
        let mut written = None;
        let is_unchanged = is_same
            && self.model == target.model
            && !target.upstream.changes_requests()
            && target.upstream.config.provider.is_none();
        let body = match self.original.as_ref().filter(|_| is_unchanged) {
            Some(original) => original.clone(),
            None => {
                let changed = self.write(target, wire, &mut reading)?;
                let body = Bytes::from(changed.body.to_string());
                written = Some(changed);
                body
            }
        };
        let mut headers = HeaderMap::new();
        if is_same {
            for name in wire.forwarded {
                for value in self.headers.get_all(*name) {
                    headers.append(*name, value.clone());
                }
            }
        }
        self.trace.put(&mut headers);
        if let Ok(id) = self.id.parse() {
            headers.insert("x-request-id", id);
        }
        let outgoing = Outgoing {
            wire,
            model: target.model.clone(),
            is_streamed: self.is_streamed,
            body,
            headers,
            client_key: self.key.clone(),
        };
        let has_tools = self.has_tools();
        let names = written.as_ref().map_or(&[][..], |written| &written.names);
        let tools = match has_tools {
            true => toolbox.get(self.mark, names, || declared(&self.request.tools, written.as_ref())),
            false => Tools::default(),
        };
        Ok(Sent { outgoing, written, reading, tools, has_tools })
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
        if is_same && !target.upstream.changes_requests() {
            let written = wire.protocol.write_request(&self.request, &options);
            return written.map_err(|error| Failure::invalid(error.to_string()));
        }
        let mut request = self.request.clone();
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
        let written = wire.protocol.write_request(&request, &options);
        let mut written = written.map_err(|error| Failure::invalid(error.to_string()))?;
        if let Some(taught) = taught {
            written.names.extend(taught.names);
            written.wrapped.extend(taught.wrapped);
        }
        Ok(written)
    }

    /// Whether the model may call anything.
    pub(crate) fn has_tools(&self) -> bool {
        !self.request.tools.is_empty() && self.request.tool_choice != Some(ToolChoice::None)
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
        !self.is_streamed
            || *self.wire.protocol != protocol::OPENAI_CHAT
            || self.request.stream_usage == Some(true)
    }
}

/// The tools of a request, by the names under which they are sent.
fn declared(tools: &[Tool], written: Option<&Written>) -> Tools {
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
    all
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
