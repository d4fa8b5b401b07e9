//! Converse, written: the messages of an AWS event stream, and the whole answer.
//!
//! Clients get one block at a time ([`Turns`]), numbered from 0; the same protocol gets its own numbers back. What is
//! told of the answer beside its content waits for the end: `messageStop` tells why the model stopped, and `metadata`
//! after it all the rest.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{
    CITATIONS, CONTENT, ERRORS, EVENTS, FINISH, OUTPUT, REASONING, REASONING_TEXT, REDACTED, SERVER_TOOL_USE,
    SIGNATURE, TEXT, TOOL_RESULT, TOOL_USE, USAGE,
};
use crate::encode::{Encode, Encoding, Ids, Mode, Options, Pieces, Turns, objects};
use crate::event::{
    AttachmentKind, BlockId, BlockKind, Body, CallKind, Completion, Counters, Event, FinishReason, Json,
    NoticeCode, ReasoningForm, Scope,
};
use crate::framing::{write_event, write_exception};
use crate::json::{Kind, Paths, Tape, Writer, each_member, write_members};
use crate::message::{Block, Content, Message, ToolCall, Usage};
use crate::protocol::error::{IN_AMAZON_STREAMS, Words};
use crate::protocol::{error_word, finish_word};
use crate::upstream::UpstreamError;

pub(super) const ENCODING: Encoding = Encoding { stream, whole };

/// A client must not take for whole what is not.
const INCOMPLETE: &str = "max_tokens";

/// Members of the answer that come with the reason to stop, and those that come after it.
const WITH_STOP: &[&str] = &["additionalModelResponseFields"];
const WITH_METADATA: &[&str] = &["metrics", "trace", "performanceConfig", "serviceTier"];

const NO_METRICS: &str = "{\"latencyMs\":0}";

fn stream(options: &Options) -> Box<dyn Encode> {
    let turns = options.is_mended().then(Turns::default);
    Box::new(Stream { turns, wire: Wire { options: options.clone(), ..Wire::default() } })
}

struct Stream {
    /// Clients cannot read two blocks at once.
    turns: Option<Turns>,
    wire: Wire,
}

impl Encode for Stream {
    fn encode(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        let Self { turns, wire } = self;
        match turns {
            Some(turns) => turns.push(event, &mut |event| wire.tell(&event.body, out)),
            None => wire.tell(&event.body, out),
        }
    }
}

/// What is kept of the answer.
#[derive(Default)]
struct Wire {
    options: Options,
    /// The answer came in this protocol: its clients know all that it says.
    is_own: bool,
    /// What waits for `messageStop`, and what for `metadata`.
    stop: Paths,
    metadata: Paths,
    counts: Option<Usage>,
    blocks: Vec<Open>,
    /// Numbers of cut calls that may have been cut by the end of the input, and so without a word of the wire's.
    cut: Vec<i64>,
    next_index: i64,
    ids: Ids,
    has_failed: bool,
    is_truncated: bool,
    payload: String,
    text: String,
}

/// A block that is open.
struct Open {
    block: BlockId,
    index: i64,
    form: Form,
    /// Whether the wire has heard of it.
    is_told: bool,
}

enum Form {
    Text,
    Reasoning(ReasoningForm),
    Call(Pieces),
    /// Told whole.
    Fixed,
}

impl Wire {
    /// Whether what only this protocol knows is written.
    fn keeps(&self) -> bool {
        !self.options.is_mended() || self.is_own
    }

    fn tell(&mut self, body: &Body<'_>, out: &mut Vec<u8>) {
        if self.has_failed && self.options.is_mended() && !matches!(body, Body::Start { .. }) {
            // Clients stop reading at an exception.
            return;
        }
        if !self.cut.is_empty() && !matches!(body, Body::Notice(_)) {
            let cut = std::mem::take(&mut self.cut);
            if !matches!(body, Body::Finish { raw: None, .. }) {
                cut.into_iter().for_each(|index| self.put_stop(index, out));
            }
        }
        match body {
            Body::Start { word, members, .. } => {
                let (options, payload, text) = (
                    std::mem::take(&mut self.options),
                    std::mem::take(&mut self.payload),
                    std::mem::take(&mut self.text),
                );
                // What is noticed before the start is noticed of this answer.
                *self = Self { options, payload, text, is_truncated: self.is_truncated, ..Self::default() };
                self.start(word, members.as_ref(), out);
            }
            Body::BlockStart { block, kind, word, index, members, .. } => {
                self.start_block(*block, kind, word, *index, members.as_ref(), out);
            }
            Body::Delta { block, text, .. } => self.grow(*block, text, out),
            Body::Attachment { scope, kind, word, value } => self.attach(*scope, *kind, word, value, out),
            Body::BlockEnd { block, completion } => self.end_block(*block, *completion, out),
            Body::Usage { word, counters, raw } => self.usage(word, counters, raw),
            Body::Foreign { scope, path, value } if self.keeps() && !(self.options.is_mended() && is_read(path)) => self.foreign(*scope, path, value, out),
            Body::Error(error) => self.fail(error, out),
            Body::Finish { reason, raw } => self.finish(*reason, raw.as_deref(), out),
            Body::Notice(notice) => self.is_truncated |= notice.code == NoticeCode::Truncated,
            Body::End => self.end(out),
            Body::ChoiceStart
            | Body::Foreign { .. }
            | Body::ItemStart { .. }
            | Body::ItemEnd { .. }
            // The wire has no word for these.
            | Body::Identity { .. }
            | Body::Progress { .. }
            | Body::Markup { .. }
            | Body::Correction { .. } => {}
        }
    }

    fn start(&mut self, word: &str, members: Option<&Json<'_>>, out: &mut Vec<u8>) {
        self.is_own = word == OUTPUT;
        let mut beside = Paths::default();
        each_member(members.filter(|_| self.keeps()), |path, value| {
            // A whole answer tells all of it at once.
            match path {
                _ if WITH_STOP.contains(&path) => self.stop.set(path, value),
                _ if WITH_METADATA.contains(&path) => self.metadata.set(path, value),
                "role" if self.options.is_mended() => {}
                _ => beside.set(path, value),
            }
        });
        if self.is_own || self.options.is_mended() {
            self.put("messageStart", out, |writer| {
                if beside.get("role").is_none() {
                    writer.text_member("role", "assistant");
                }
                beside.write(writer);
            });
        } else {
            beside.iter().for_each(|(path, value)| self.metadata.set(path, value));
        }
    }

    fn start_block(
        &mut self,
        block: BlockId,
        kind: &BlockKind<'_>,
        word: &str,
        index: Option<i64>,
        members: Option<&Json<'_>>,
        out: &mut Vec<u8>,
    ) {
        let (is_mended, keeps) = (self.options.is_mended(), self.keeps());
        let index = index.filter(|_| !is_mended).unwrap_or(self.next_index);
        let mut start = Paths::default();
        each_member(members.filter(|_| keeps), |path, value| start.set(path, value));
        let mut delta = None;
        let form = match kind {
            BlockKind::Text | BlockKind::Refusal => Form::Text,
            BlockKind::Reasoning(form) => Form::Reasoning(*form),
            // A client would take for its own what another provider has run.
            BlockKind::ToolCall { call: CallKind::Builtin, .. } if !keeps => return,
            BlockKind::ToolCall { id, is_made, name, call } => {
                let id = match is_mended {
                    true => Some(self.ids.claim(id.as_deref().unwrap_or_default())),
                    false => id.as_deref().filter(|_| !is_made).map(str::to_owned),
                };
                set_call(id.as_deref(), name, *call, &mut start);
                Form::Call(Pieces::new(*call, self.options.mode))
            }
            BlockKind::ToolResult { .. } | BlockKind::Opaque { .. }
                if !keeps || is_mended && word.is_empty() =>
            {
                return;
            }
            // One that was cut may not say what it answers.
            BlockKind::ToolResult { call: None, .. } if is_mended => return,
            BlockKind::ToolResult { call, value } => {
                if let Some(call) = call {
                    start.set("toolResult.toolUseId", Json::from_text(call).as_str());
                }
                match value.as_str().trim_ascii_start().starts_with('[') {
                    true => delta = Some((TOOL_RESULT, value.as_str())),
                    false => start.set("toolResult.content", value.as_str()),
                }
                Form::Fixed
            }
            BlockKind::Opaque { value } => {
                start.set(word, value.as_str());
                Form::Fixed
            }
        };
        // Text and thoughts begin with their first delta.
        let is_told = matches!(form, Form::Call(_) | Form::Fixed) || !start.is_empty();
        if is_told {
            self.next_index = index.saturating_add(1);
        }
        if !start.is_empty() {
            self.put("contentBlockStart", out, |writer| {
                writer.key("start");
                writer.object();
                start.write(writer);
                writer.end_object();
                write_index(index, writer);
            });
        }
        if let Some((word, value)) = delta {
            self.put_delta(index, out, |writer| writer.raw_member(word, value));
        }
        self.blocks.push(Open { block, index, form, is_told });
    }

    fn open(&mut self, block: BlockId) -> Option<&mut Open> {
        self.blocks.iter_mut().rev().find(|open| open.block == block)
    }

    /// The number of a block, of which the wire hears now.
    fn told_index(&mut self, block: BlockId) -> Option<i64> {
        let open = self.open(block)?;
        let (index, is_told) = (open.index, std::mem::replace(&mut open.is_told, true));
        if !is_told {
            self.next_index = index.saturating_add(1);
        }
        Some(index)
    }

    fn grow(&mut self, block: BlockId, text: &str, out: &mut Vec<u8>) {
        let Some(index) = self.told_index(block) else { return };
        let Self { blocks, payload, text: scratch, .. } = self;
        let Some(open) = blocks.iter_mut().rev().find(|open| open.block == block) else { return };
        let text = match &mut open.form {
            Form::Call(arguments) => arguments.next(text, scratch),
            _ => Some(text),
        };
        let Some(text) = text else { return };
        put(payload, "contentBlockDelta", out, |writer| {
            writer.key("delta");
            writer.object();
            match &open.form {
                Form::Text | Form::Fixed => writer.text_member(TEXT, text),
                Form::Reasoning(_) => {
                    writer.key(REASONING);
                    writer.object();
                    writer.text_member(TEXT, text);
                    writer.end_object();
                }
                Form::Call(_) => write_input(text, writer),
            }
            writer.end_object();
            write_index(index, writer);
        });
    }

    fn attach(
        &mut self,
        scope: Scope,
        kind: AttachmentKind,
        word: &str,
        value: &Json<'_>,
        out: &mut Vec<u8>,
    ) {
        let keeps = self.keeps();
        let mut index = self.next_index - 1;
        if let Scope::Block(block) = scope {
            let Some(open) = self.open(block) else { return };
            let is_apt = match open.form {
                Form::Reasoning(form) => is_apt(form, kind, value),
                _ => false,
            };
            if !keeps && !is_apt {
                return;
            }
            index = self.told_index(block).unwrap_or(index);
        } else if !keeps {
            return;
        }
        self.put_delta(index, out, |writer| match kind {
            AttachmentKind::Annotation => writer.raw_member("citation", value.as_str()),
            AttachmentKind::Signature | AttachmentKind::Encrypted => {
                let key = if kind == AttachmentKind::Signature { SIGNATURE } else { REDACTED };
                write_members(&[(&format!("{REASONING}.{key}"), value.as_str())], writer);
            }
            AttachmentKind::Logprobs => writer.raw_member(word, value.as_str()),
        });
    }

    fn end_block(&mut self, block: BlockId, completion: Completion, out: &mut Vec<u8>) {
        let Some(at) = self.blocks.iter().rposition(|open| open.block == block) else { return };
        let Open { index, form, is_told, .. } = self.blocks.remove(at);
        let is_mended = self.options.is_mended();
        // What ends after the answer's last word was never said to end.
        let is_unsaid = !is_mended && self.metadata.get(USAGE).is_some();
        let is_cut = completion == Completion::Cut && !is_mended;
        if !is_told || is_unsaid {
            return;
        }
        if let Form::Call(arguments) = form
            && let Some(rest) = arguments.rest().filter(|rest| !is_cut && !rest.is_empty())
        {
            self.put_delta(index, out, |writer| write_input(rest, writer));
        }
        match is_cut {
            true => self.cut.push(index),
            false => self.put_stop(index, out),
        }
    }

    fn usage(&mut self, word: &str, counters: &Counters, raw: &Json<'_>) {
        match &mut self.counts {
            Some(counts) => counts.merge(counters, raw),
            None => self.counts = Some(Usage { counters: *counters, raw: raw.clone().into_owned() }),
        }
        let mut usage = String::new();
        let keeps = self.keeps() && word == USAGE;
        match &self.counts {
            Some(counts) if self.options.is_mended() => {
                write_usage(&counts.counters, Some(raw).filter(|_| keeps), &mut Writer(&mut usage));
            }
            _ => Writer(&mut usage).raw(raw.as_str()),
        }
        self.metadata.set(USAGE, &usage);
    }

    fn foreign(&mut self, scope: Scope, path: &str, value: &Json<'_>, out: &mut Vec<u8>) {
        match scope {
            Scope::Answer if WITH_STOP.contains(&path) => self.stop.set(path, value.as_str()),
            Scope::Answer if self.options.is_mended() && !WITH_METADATA.contains(&path) => {}
            // An event that nobody knows.
            Scope::Answer if !WITH_METADATA.contains(&path) && is_event(path, value) => {
                self.payload.clear();
                Writer(&mut self.payload).raw(value.as_str());
                write_event(path, &self.payload, out);
            }
            Scope::Answer => self.metadata.set(path, value.as_str()),
            Scope::Block(block) => {
                let Some(index) = self.told_index(block) else { return };
                self.put_foreign(index, path, value, out);
            }
            Scope::Choice | Scope::Item(_) => {
                if !self.options.is_mended() {
                    self.put_foreign(self.next_index - 1, path, value, out);
                }
            }
        }
    }

    /// Writes what only this protocol knows of a block. An object in a delta would be content.
    fn put_foreign(&mut self, index: i64, path: &str, value: &Json<'_>, out: &mut Vec<u8>) {
        let is_inside = path.contains('.') || !value.as_str().trim_ascii_start().starts_with('{');
        self.put("contentBlockDelta", out, |writer| {
            if is_inside {
                writer.key("delta");
                writer.object();
            }
            write_members(&[(path, value.as_str())], writer);
            if is_inside {
                writer.end_object();
            }
            write_index(index, writer);
        });
    }

    fn fail(&mut self, error: &UpstreamError<'_>, out: &mut Vec<u8>) {
        self.has_failed = true;
        let is_mended = self.options.is_mended();
        self.payload.clear();
        write_error(error, is_mended, &mut Writer(&mut self.payload));
        write_exception(exception_name(error, is_mended, IN_AMAZON_STREAMS), &self.payload, out);
    }

    fn finish(&mut self, reason: FinishReason, raw: Option<&str>, out: &mut Vec<u8>) {
        let word = match self.options.is_mended() {
            true => Some(stop_reason(reason, raw)),
            false => raw,
        };
        let stop = std::mem::take(&mut self.stop);
        if word.is_none() && stop.is_empty() {
            return;
        }
        self.put("messageStop", out, |writer| {
            if let Some(word) = word {
                writer.text_member("stopReason", word);
            }
            stop.write(writer);
        });
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        let is_missing = std::mem::take(&mut self.is_truncated) || self.has_failed;
        let mut metadata = std::mem::take(&mut self.metadata);
        if self.options.is_mended() {
            if is_missing {
                return;
            }
            if metadata.get(USAGE).is_none() {
                metadata.set(USAGE, NO_USAGE);
            }
            if metadata.get("metrics").is_none() {
                metadata.set("metrics", NO_METRICS);
            }
        }
        if !metadata.is_empty() {
            self.put("metadata", out, |writer| metadata.write(writer));
        }
    }

    fn put(&mut self, name: &str, out: &mut Vec<u8>, members: impl FnOnce(&mut Writer<'_>)) {
        put(&mut self.payload, name, out, members);
    }

    fn put_delta(&mut self, index: i64, out: &mut Vec<u8>, members: impl FnOnce(&mut Writer<'_>)) {
        self.put("contentBlockDelta", out, |writer| {
            writer.key("delta");
            writer.object();
            members(writer);
            writer.end_object();
            write_index(index, writer);
        });
    }

    fn put_stop(&mut self, index: i64, out: &mut Vec<u8>) {
        self.put("contentBlockStop", out, |writer| write_index(index, writer));
    }
}

/// Writes one event; `members` fills its object.
fn put(payload: &mut String, name: &str, out: &mut Vec<u8>, members: impl FnOnce(&mut Writer<'_>)) {
    payload.clear();
    let mut writer = Writer(payload);
    writer.object();
    members(&mut writer);
    writer.end_object();
    write_event(name, payload, out);
}

fn write_index(index: i64, writer: &mut Writer<'_>) {
    writer.key("contentBlockIndex");
    writer.number(index);
}

fn write_input(text: &str, writer: &mut Writer<'_>) {
    writer.key(TOOL_USE);
    writer.object();
    writer.text_member("input", text);
    writer.end_object();
}

/// The names of a call, as members of its object.
fn set_call(id: Option<&str>, name: &str, kind: CallKind, members: &mut Paths) {
    let mut set = |key: &str, value: &str| {
        members.set(&format!("{TOOL_USE}.{key}"), Json::from_text(value).as_str());
    };
    if let Some(id) = id {
        set("toolUseId", id);
    }
    set("name", name);
    if kind == CallKind::Builtin {
        set("type", SERVER_TOOL_USE);
    }
}

/// Whether what hangs on a thought of another protocol can be said: a signature is a text, and what is redacted is
/// binary.
fn is_apt(form: ReasoningForm, kind: AttachmentKind, value: &Json<'_>) -> bool {
    let text = value.to_text();
    match kind {
        AttachmentKind::Signature => text.is_some(),
        AttachmentKind::Encrypted if form == ReasoningForm::Redacted => {
            text.is_some_and(|text| STANDARD.decode(text.as_bytes()).is_ok())
        }
        AttachmentKind::Encrypted | AttachmentKind::Annotation | AttachmentKind::Logprobs => false,
    }
}

/// Whether what stands there is read, and so passed on only where it stands deeper than clients look.
fn is_read(path: &str) -> bool {
    path.strip_prefix(REASONING).and_then(|rest| rest.strip_prefix('.')) == Some(REASONING_TEXT)
}

/// Whether a value of the answer is an event of its own.
fn is_event(name: &str, value: &Json<'_>) -> bool {
    let is_object = value.as_str().trim_ascii_start().starts_with('{');
    is_object && !name.contains('.') && name.len() < usize::from(u8::MAX) && !EVENTS.contains(&name)
}

fn stop_reason(reason: FinishReason, said: Option<&str>) -> &str {
    finish_word(reason, said, FINISH).unwrap_or(INCOMPLETE)
}

/// The name of an exception, which is its class.
fn exception_name<'e>(error: &'e UpstreamError<'_>, is_mended: bool, words: &'static Words) -> &'e str {
    let said = error
        .code
        .as_deref()
        .filter(|code| !is_mended && code.ends_with("Exception") && code.len() < usize::from(u8::MAX));
    said.or_else(|| error_word(error, words)).unwrap_or_default()
}

fn write_error(error: &UpstreamError<'_>, is_mended: bool, writer: &mut Writer<'_>) {
    if !is_mended && error.raw.as_str().trim_ascii_start().starts_with('{') {
        return writer.raw(error.raw.as_str());
    }
    writer.object();
    writer.text_member("message", &error.message);
    writer.end_object();
}

const NO_USAGE: &str = "{\"inputTokens\":0,\"outputTokens\":0,\"totalTokens\":0}";

/// Token counts in the wire's words, and what else the provider wrote.
fn write_usage(counters: &Counters, raw: Option<&Json<'_>>, writer: &mut Writer<'_>) {
    let mut paths = Paths::default();
    each_member(raw, |key, value| paths.set(key, value));
    let all = counters.input_tokens.unwrap_or(0).saturating_add(counters.output_tokens.unwrap_or(0));
    let counters = counters.with_cache_beside();
    let counts = [
        ("inputTokens", Some(counters.input_tokens.unwrap_or(0))),
        ("outputTokens", Some(counters.output_tokens.unwrap_or(0))),
        ("totalTokens", Some(counters.total_tokens.unwrap_or(all))),
        ("cacheReadInputTokens", counters.cached_tokens),
        ("cacheWriteInputTokens", counters.cache_write_tokens),
    ];
    if !counts.iter().any(|(key, _)| paths.get(key).is_some()) {
        // Other words, told by an envelope.
        paths.clear();
    }
    // An older name for the same.
    let is_told = |key: &str| paths.get(&key.replace("Tokens", "TokenCount")).is_some();
    let counts = counts.map(|(key, count)| (key, count.filter(|_| !is_told(key))));
    writer.object();
    for (key, count) in counts {
        if let Some(count) = count {
            paths.remove(key);
            writer.key(key);
            writer.number(count);
        }
    }
    paths.write(writer);
    writer.end_object();
}

/// Writes the whole answer, or the body of an error.
fn whole(message: &Message, options: &Options, out: &mut Vec<u8>) {
    let is_mended = options.is_mended();
    let keeps = !is_mended || message.word == OUTPUT;
    let choice = message.choices.first();
    let is_empty = choice.is_none_or(|choice| choice.blocks.is_empty());
    let error = message.errors.first();
    let mut text = String::new();
    let mut writer = Writer(&mut text);
    if let Some(error) = error.filter(|_| is_empty && (is_mended || message.word.is_empty())) {
        whole_error(error, is_mended, &mut writer);
        return out.extend_from_slice(text.as_bytes());
    }
    let (mut foreign, mut inside) = (Paths::default(), Paths::default());
    if keeps {
        let of_choice = choice.into_iter().flat_map(|choice| choice.foreign.iter());
        for (path, value) in message.foreign.iter().chain(of_choice) {
            match (path.strip_prefix("output."), path.strip_prefix("message.")) {
                (Some(path), _) => inside.set(path, value.as_str()),
                (None, Some(_)) => inside.set(path, value.as_str()),
                (None, None) => foreign.set(path, value.as_str()),
            }
        }
    }
    writer.object();
    writer.key(OUTPUT);
    writer.object();
    let content = whole_content(choice.map_or(&[][..], |choice| &choice.blocks), options.mode, keeps);
    inside.set("message.role", inside.get("message.role").unwrap_or("\"assistant\"").to_owned().as_str());
    inside.set("message.content", &content);
    inside.write(&mut writer);
    writer.end_object();
    let finish = choice.and_then(|choice| choice.finish.as_ref());
    let word = match finish {
        Some(finish) if is_mended => Some(stop_reason(finish.reason, finish.raw.as_deref())),
        Some(finish) => finish.raw.as_deref(),
        None => is_mended.then_some(INCOMPLETE),
    };
    if let Some(word) = word {
        writer.text_member("stopReason", word);
    }
    match &message.usage {
        Some(usage) => {
            writer.key(USAGE);
            write_usage(&usage.counters, Some(&usage.raw).filter(|_| keeps), &mut writer);
        }
        None if is_mended => writer.raw_member(USAGE, NO_USAGE),
        None => {}
    }
    if is_mended && foreign.get("metrics").is_none() {
        foreign.set("metrics", NO_METRICS);
    }
    foreign.write(&mut writer);
    if let Some(error) = error {
        writer.key(exception_name(error, is_mended, ERRORS));
        write_error(error, is_mended, &mut writer);
    }
    writer.end_object();
    out.extend_from_slice(text.as_bytes());
}

/// The body of a failed request names the exception with a capital.
fn whole_error(error: &UpstreamError<'_>, is_mended: bool, writer: &mut Writer<'_>) {
    if !is_mended {
        return write_error(error, is_mended, writer);
    }
    let name = exception_name(error, is_mended, ERRORS);
    let (first, rest) = name.split_at_checked(1).unwrap_or_default();
    writer.object();
    writer.text_member("__type", &(first.to_uppercase() + rest));
    writer.text_member("message", &error.message);
    writer.end_object();
}

fn whole_content(blocks: &[Block], mode: Mode, keeps: bool) -> String {
    let is_mended = mode == Mode::Mended;
    let mut text = String::new();
    let mut writer = Writer(&mut text);
    let mut ids = Ids::default();
    writer.list();
    for block in blocks {
        let mut members = Paths::default();
        if keeps {
            let written = block.foreign.iter().filter(|(path, _)| !(is_mended && is_read(path)));
            written.for_each(|(path, value)| members.set(path, value.as_str()));
        }
        if !whole_block(block, mode, keeps, &mut ids, &mut members) {
            continue;
        }
        writer.object();
        members.write(&mut writer);
        writer.end_object();
    }
    writer.end_list();
    text
}

/// Adds what the block holds to its members; false if it cannot be said.
fn whole_block(block: &Block, mode: Mode, keeps: bool, ids: &mut Ids, members: &mut Paths) -> bool {
    let is_mended = mode == Mode::Mended;
    let is_known = keeps && !(is_mended && block.word.is_empty());
    match &block.content {
        Content::Text(text) | Content::Refusal(text) => {
            let citations = block.attachments.iter().filter(|own| own.kind == AttachmentKind::Annotation);
            for citation in citations.filter(|_| keeps) {
                members.extend(&format!("{CITATIONS}.citations"), citation.value.as_str());
            }
            let is_cited = members.iter().any(|(path, _)| path.starts_with(CITATIONS));
            match (is_cited, text.is_empty()) {
                (true, true) => {}
                (true, false) => {
                    let mut part = String::new();
                    let mut writer = Writer(&mut part);
                    writer.object();
                    writer.text_member(TEXT, text);
                    writer.end_object();
                    members.extend(&format!("{CITATIONS}.{CONTENT}"), &part);
                }
                (false, true) if is_mended => return false,
                (false, _) => members.set(TEXT, Json::from_text(text).as_str()),
            }
        }
        Content::Reasoning { form, text } => {
            let hung = |kind| {
                let hung = block.attachments.iter().rfind(move |own| own.kind == kind);
                hung.filter(|own| keeps || is_apt(*form, kind, &own.value)).map(|own| own.value.as_str())
            };
            let (signature, data) = (hung(AttachmentKind::Signature), hung(AttachmentKind::Encrypted));
            if let Some(data) = data {
                members.set(&format!("{REASONING}.{REDACTED}"), data);
            }
            let shown = [
                (TEXT, Some(Json::from_text(text)).filter(|_| !text.is_empty() || data.is_none())),
                (SIGNATURE, signature.map(Json::trusted)),
            ];
            for (key, value) in shown {
                if let Some(value) = value {
                    members.set(&format!("{REASONING}.{REASONING_TEXT}.{key}"), value.as_str());
                }
            }
            return !is_mended || !text.is_empty() || signature.is_some() || data.is_some();
        }
        Content::ToolCall(call) if call.kind == CallKind::Builtin && !keeps => return false,
        Content::ToolCall(call) => {
            let id = match is_mended {
                true => Some(ids.claim(&call.id)),
                false => Some(call.id.clone()).filter(|_| !call.has_made_id),
            };
            set_call(id.as_deref(), &call.name, call.kind, members);
            let mut input = String::new();
            write_whole_input(call, mode, &mut Writer(&mut input));
            members.set(&format!("{TOOL_USE}.input"), &input);
        }
        Content::ToolResult(result) if is_known && !(is_mended && result.call.is_none()) => {
            if let Some(call) = &result.call {
                members.set(&format!("{TOOL_RESULT}.toolUseId"), Json::from_text(call).as_str());
            }
            members.set(&format!("{TOOL_RESULT}.{CONTENT}"), result.value.as_str());
        }
        Content::Opaque(value) if is_known => members.set(&block.word, value.as_str()),
        Content::ToolResult(_) | Content::Opaque(_) => return false,
    }
    true
}

/// The arguments as a value: for clients an object; as a text where they are none.
fn write_whole_input(call: &ToolCall, mode: Mode, writer: &mut Writer<'_>) {
    let text = call.arguments();
    let is_value = || Tape::new().parse(text).is_ok_and(|value| value.kind() != Kind::String);
    match mode {
        Mode::Mended => writer.raw(&objects::arguments(call)),
        Mode::Faithful if is_value() => writer.raw(text),
        Mode::Faithful => writer.string(text),
    }
}
