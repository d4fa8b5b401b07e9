//! Events as JSON: one flat object each, `type` saying which, read back as it was written.
//!
//! Neither tags nor flattened parts are left to serde: it would buffer them, and values passed on as they were
//! written (big numbers, the order of keys) do not survive that.

use std::borrow::Cow;
use std::time::Duration;

use serde::de::value::StrDeserializer;
use serde::de::{Error as _, IntoDeserializer};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{
    AttachmentKind, BlockCompletion, BlockId, BlockKind, ByteSpan, CallKind, DeltaKind, Event, EventKind,
    EventScope, FinishReason, ItemId, JsonText, Notice, NoticeCode, ReasoningForm, SCHEMA_VERSION,
    TokenCounts,
};
use crate::upstream::{ErrorClass, UpstreamError};

/// Every member that an event may have, in the order in which they are written.
#[derive(Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct FlatEvent<'a> {
    choice: u32,
    #[serde(skip_serializing_if = "ByteSpan::is_empty")]
    source: ByteSpan,
    r#type: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    block: Option<BlockId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    item: Option<ItemId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    form: Option<ReasoningForm>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "is_false")]
    has_made_id: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<Cow<'a, str>>,
    /// The party that runs a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    runner: Option<CallKind>,
    /// The call that a result belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "str::is_empty")]
    wire_type: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra: Option<JsonText<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completion: Option<BlockCompletion>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<JsonText<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<FinishReason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cached_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_write_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<ErrorClass>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    /// The code of a notice or of an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<NoticeText<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    raw: Option<JsonText<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    schema_version: Option<u32>,
}

/// The code of a notice, or a provider's own error code.
#[derive(Serialize)]
#[serde(untagged)]
enum NoticeText<'a> {
    Notice(NoticeCode),
    Word(Cow<'a, str>),
}

impl<'de> Deserialize<'de> for NoticeText<'_> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|code| Self::Word(code.into()))
    }
}

impl<'a> NoticeText<'a> {
    fn wire_type(self) -> Cow<'a, str> {
        match self {
            Self::Notice(code) => format!("{code:?}").into(),
            Self::Word(wire_type) => wire_type,
        }
    }

    fn notice(self) -> Result<NoticeCode, FieldError> {
        match self {
            Self::Notice(code) => Ok(code),
            Self::Word(wire_type) => {
                let wire_type: StrDeserializer<'_, serde::de::value::Error> =
                    wire_type.as_ref().into_deserializer();
                NoticeCode::deserialize(wire_type).map_err(|error| error.to_string())
            }
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// The names of [`EventKind`], [`BlockKind`], [`CallKind`] and the other kinds, as they stand in `type` and `kind`.
mod words {
    pub(super) const TEXT: &str = "text";
    pub(super) const REASONING: &str = "reasoning";
    pub(super) const REFUSAL: &str = "refusal";
    pub(super) const ARGUMENTS: &str = "arguments";
    pub(super) const TOOL_CALL: &str = "tool_call";
    pub(super) const TOOL_RESULT: &str = "tool_result";
    pub(super) const OPAQUE: &str = "opaque";
    pub(super) const SIGNATURE: &str = "signature";
    pub(super) const ENCRYPTED: &str = "encrypted";
    pub(super) const ANNOTATION: &str = "annotation";
    pub(super) const LOGPROBS: &str = "logprobs";
    pub(super) const RESPONSE: &str = "response";
    pub(super) const CHOICE: &str = "choice";
}

impl DeltaKind {
    fn wire_type(self) -> &'static str {
        match self {
            Self::Text => words::TEXT,
            Self::Reasoning => words::REASONING,
            Self::Refusal => words::REFUSAL,
            Self::Arguments => words::ARGUMENTS,
        }
    }
}

impl AttachmentKind {
    fn wire_type(self) -> &'static str {
        match self {
            Self::Signature => words::SIGNATURE,
            Self::Encrypted => words::ENCRYPTED,
            Self::Annotation => words::ANNOTATION,
            Self::Logprobs => words::LOGPROBS,
        }
    }
}

fn borrowed(text: &str) -> Cow<'_, str> {
    Cow::Borrowed(text)
}

fn maybe<'b>(text: &'b Option<Cow<'_, str>>) -> Option<Cow<'b, str>> {
    text.as_deref().map(borrowed)
}

fn json<'b>(value: &'b JsonText<'_>) -> JsonText<'b> {
    JsonText(Cow::Borrowed(&value.0))
}

impl<'b> FlatEvent<'b> {
    fn of(event: &'b Event<'_>) -> Self {
        let mut flat = Self { choice: event.choice, source: event.source, ..Self::default() };
        let kind = match &event.body {
            EventKind::Start { id, model, wire_type, extra } => {
                flat.schema_version = Some(SCHEMA_VERSION);
                flat.id = maybe(id);
                flat.model = maybe(model);
                flat.wire_type = borrowed(wire_type);
                flat.extra = extra.as_ref().map(json);
                "start"
            }
            EventKind::ChoiceStart => "choice_start",
            EventKind::ItemStart { item, id, wire_type, extra } => {
                flat.item = Some(*item);
                flat.id = maybe(id);
                flat.wire_type = borrowed(wire_type);
                flat.extra = extra.as_ref().map(json);
                "item_start"
            }
            EventKind::ItemEnd { item } => {
                flat.item = Some(*item);
                "item_end"
            }
            EventKind::BlockStart { block, item, kind, wire_type, index, extra } => {
                flat.block = Some(*block);
                flat.item = *item;
                flat.wire_type = borrowed(wire_type);
                flat.index = *index;
                flat.extra = extra.as_ref().map(json);
                flat.set_kind(kind);
                "block_start"
            }
            EventKind::Delta { block, kind, text } => {
                flat.block = Some(*block);
                flat.kind = Some(kind.wire_type().into());
                flat.text = Some(borrowed(text));
                "delta"
            }
            EventKind::Identity { scope, id, model } => {
                flat.set_scope(*scope);
                flat.id = maybe(id);
                flat.model = maybe(model);
                "identity"
            }
            EventKind::Correction { block, text } => {
                flat.block = Some(*block);
                flat.text = Some(borrowed(text));
                "correction"
            }
            EventKind::BlockEnd { block, completion } => {
                flat.block = Some(*block);
                flat.completion = Some(*completion);
                "block_end"
            }
            EventKind::Attachment { scope, kind, wire_type, value } => {
                flat.set_scope(*scope);
                flat.kind = Some(kind.wire_type().into());
                flat.wire_type = borrowed(wire_type);
                flat.value = Some(json(value));
                "attachment"
            }
            EventKind::Progress { scope, wire_type, value } => {
                flat.set_scope(*scope);
                flat.wire_type = borrowed(wire_type);
                flat.value = value.as_ref().map(json);
                "progress"
            }
            EventKind::Usage { wire_type, counters, raw } => {
                flat.wire_type = borrowed(wire_type);
                flat.input_tokens = counters.input_tokens;
                flat.output_tokens = counters.output_tokens;
                flat.total_tokens = counters.total_tokens;
                flat.cached_tokens = counters.cached_tokens;
                flat.cache_write_tokens = counters.cache_write_tokens;
                flat.reasoning_tokens = counters.reasoning_tokens;
                flat.raw = Some(json(raw));
                "usage"
            }
            EventKind::Finish { reason, raw } => {
                flat.reason = Some(*reason);
                flat.raw = raw.as_deref().map(JsonText::from_text);
                "finish"
            }
            EventKind::Markup { text } => {
                flat.text = Some(borrowed(text));
                "markup"
            }
            EventKind::Notice(Notice { code, offset, block, detail, text }) => {
                flat.code = Some(NoticeText::Notice(*code));
                flat.block = *block;
                flat.offset = Some(*offset);
                flat.detail = Some(borrowed(detail));
                flat.text = maybe(text);
                "notice"
            }
            EventKind::Error(error) => {
                flat.class = Some(error.class);
                flat.status = error.status;
                flat.code = error.code.as_ref().map(|code| NoticeText::Word(borrowed(code)));
                flat.retry_after = error.retry_after.map(|wait| wait.as_secs_f64());
                flat.request_id = maybe(&error.request_id);
                flat.message = Some(borrowed(&error.message));
                flat.raw = Some(json(&error.raw));
                "error"
            }
            EventKind::Extra { scope, path, value } => {
                flat.set_scope(*scope);
                flat.path = Some(borrowed(path));
                flat.value = Some(json(value));
                "extra"
            }
            EventKind::End => "end",
        };
        flat.r#type = kind.into();
        flat
    }

    fn set_scope(&mut self, scope: EventScope) {
        match scope {
            EventScope::Response => self.scope = Some(words::RESPONSE.into()),
            EventScope::Choice => self.scope = Some(words::CHOICE.into()),
            EventScope::Item(item) => self.item = Some(item),
            EventScope::Block(block) => self.block = Some(block),
        }
    }

    fn set_kind(&mut self, kind: &'b BlockKind<'_>) {
        let wire_type = match kind {
            BlockKind::Text => words::TEXT,
            BlockKind::Reasoning(form) => {
                self.form = Some(*form).filter(|form| *form != ReasoningForm::Raw);
                words::REASONING
            }
            BlockKind::Refusal => words::REFUSAL,
            BlockKind::ToolCall { id, is_made, name, call } => {
                self.id = maybe(id);
                self.has_made_id = *is_made;
                self.name = Some(borrowed(name));
                self.runner = Some(*call);
                words::TOOL_CALL
            }
            BlockKind::ToolResult { call, value } => {
                self.call = maybe(call);
                self.value = Some(json(value));
                words::TOOL_RESULT
            }
            BlockKind::Opaque { value } => {
                self.value = Some(json(value));
                words::OPAQUE
            }
        };
        self.kind = Some(wire_type.into());
    }
}

/// The description of a field that is missing or unknown in an event that is read.
type FieldError = String;

fn need<T>(value: Option<T>, what: &str) -> Result<T, FieldError> {
    value.ok_or_else(|| format!("an event misses its {what}"))
}

impl<'a> FlatEvent<'a> {
    fn scope(&self) -> Result<EventScope, FieldError> {
        Ok(match (self.block, self.item, self.scope.as_deref()) {
            (Some(block), ..) => EventScope::Block(block),
            (None, Some(item), _) => EventScope::Item(item),
            (None, None, Some(words::RESPONSE)) => EventScope::Response,
            (None, None, Some(words::CHOICE)) => EventScope::Choice,
            (None, None, Some(wire_type)) => {
                return Err(format!("an event has the unknown scope {wire_type}"));
            }
            (None, None, None) => return Err("an event misses its scope".to_owned()),
        })
    }

    fn block_kind(&mut self) -> Result<BlockKind<'a>, FieldError> {
        Ok(match need(self.kind.as_deref(), "kind")? {
            words::TEXT => BlockKind::Text,
            words::REASONING => BlockKind::Reasoning(self.form.unwrap_or_default()),
            words::REFUSAL => BlockKind::Refusal,
            words::TOOL_CALL => BlockKind::ToolCall {
                id: self.id.take(),
                is_made: self.has_made_id,
                name: self.name.take().unwrap_or_default(),
                call: self.runner.unwrap_or_default(),
            },
            words::TOOL_RESULT => {
                BlockKind::ToolResult { call: self.call.take(), value: need(self.value.take(), "value")? }
            }
            words::OPAQUE => BlockKind::Opaque { value: need(self.value.take(), "value")? },
            wire_type => return Err(format!("a block is of the unknown kind {wire_type}")),
        })
    }

    fn body(mut self) -> Result<EventKind<'a>, FieldError> {
        Ok(match self.r#type.as_ref() {
            "start" => EventKind::Start {
                id: self.id,
                model: self.model,
                wire_type: self.wire_type,
                extra: self.extra,
            },
            "choice_start" => EventKind::ChoiceStart,
            "item_start" => EventKind::ItemStart {
                item: need(self.item, "item")?,
                id: self.id,
                wire_type: self.wire_type,
                extra: self.extra,
            },
            "item_end" => EventKind::ItemEnd { item: need(self.item, "item")? },
            "block_start" => {
                let kind = self.block_kind()?;
                EventKind::BlockStart {
                    block: need(self.block, "block")?,
                    item: self.item,
                    kind,
                    wire_type: self.wire_type,
                    index: self.index,
                    extra: self.extra,
                }
            }
            "delta" => EventKind::Delta {
                block: need(self.block, "block")?,
                kind: match need(self.kind.as_deref(), "kind")? {
                    words::TEXT => DeltaKind::Text,
                    words::REASONING => DeltaKind::Reasoning,
                    words::REFUSAL => DeltaKind::Refusal,
                    words::ARGUMENTS => DeltaKind::Arguments,
                    wire_type => return Err(format!("a delta is of the unknown kind {wire_type}")),
                },
                text: need(self.text, "text")?,
            },
            "identity" => EventKind::Identity { scope: self.scope()?, id: self.id, model: self.model },
            "correction" => {
                EventKind::Correction { block: need(self.block, "block")?, text: need(self.text, "text")? }
            }
            "block_end" => EventKind::BlockEnd {
                block: need(self.block, "block")?,
                completion: need(self.completion, "completion")?,
            },
            "attachment" => EventKind::Attachment {
                scope: self.scope()?,
                kind: match need(self.kind.as_deref(), "kind")? {
                    words::SIGNATURE => AttachmentKind::Signature,
                    words::ENCRYPTED => AttachmentKind::Encrypted,
                    words::ANNOTATION => AttachmentKind::Annotation,
                    words::LOGPROBS => AttachmentKind::Logprobs,
                    wire_type => return Err(format!("an attachment is of the unknown kind {wire_type}")),
                },
                wire_type: self.wire_type,
                value: need(self.value, "value")?,
            },
            "progress" => {
                EventKind::Progress { scope: self.scope()?, wire_type: self.wire_type, value: self.value }
            }
            "usage" => EventKind::Usage {
                wire_type: self.wire_type,
                counters: TokenCounts {
                    input_tokens: self.input_tokens,
                    output_tokens: self.output_tokens,
                    total_tokens: self.total_tokens,
                    cached_tokens: self.cached_tokens,
                    cache_write_tokens: self.cache_write_tokens,
                    reasoning_tokens: self.reasoning_tokens,
                },
                raw: need(self.raw, "raw object")?,
            },
            "finish" => EventKind::Finish {
                reason: need(self.reason, "reason")?,
                raw: self
                    .raw
                    .as_ref()
                    .and_then(JsonText::to_text)
                    .map(|wire_type| Cow::Owned(wire_type.into_owned())),
            },
            "markup" => EventKind::Markup { text: need(self.text, "text")? },
            "notice" => EventKind::Notice(Notice {
                code: need(self.code, "code")?.notice()?,
                offset: self.offset.unwrap_or(0),
                block: self.block,
                detail: self.detail.unwrap_or_default(),
                text: self.text,
            }),
            "error" => EventKind::Error(UpstreamError {
                class: self.class.unwrap_or_default(),
                status: self.status,
                code: self.code.map(NoticeText::wire_type),
                retry_after: self.retry_after.and_then(|wait| Duration::try_from_secs_f64(wait).ok()),
                message: need(self.message, "message")?,
                raw: need(self.raw, "raw error")?,
                request_id: self.request_id,
                body: None,
            }),
            "extra" => EventKind::Extra {
                scope: self.scope()?,
                path: need(self.path.take(), "path")?,
                value: need(self.value, "value")?,
            },
            "end" => EventKind::End,
            "" => return Err("an event misses its type".to_owned()),
            wire_type => return Err(format!("an event has the unknown type {wire_type}")),
        })
    }
}

impl Serialize for Event<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        FlatEvent::of(self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Event<'static> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let flat: FlatEvent<'static> = FlatEvent::deserialize(deserializer)?;
        let (choice, source) = (flat.choice, flat.source);
        let body = flat.body().map_err(D::Error::custom)?;
        Ok(Event { choice, source, body })
    }
}
