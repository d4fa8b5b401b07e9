//! Messages as JSON: the views that people look for first, then the ordered blocks, which alone are read back.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::de::Error as _;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{
    Attachment, Block, BlockContent, Choice, ExtraFields, Finish, InvalidCall, Message, OutputItem, ToolCall,
    ToolResult, Usage,
};
use crate::event::{
    AttachmentKind, BlockCompletion, BlockId, ByteSpan, CallKind, FinishReason, ItemId, JsonText, Notice,
    ReasoningForm, SCHEMA_VERSION, TokenCounts,
};
use crate::upstream::UpstreamError;

impl Serialize for ExtraFields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for ExtraFields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MessageVisitor;
        impl<'de> serde::de::Visitor<'de> for MessageVisitor {
            type Value = ExtraFields;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object of foreign values by path")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<ExtraFields, A::Error> {
                let mut extra = ExtraFields::default();
                while let Some((path, value)) = map.next_entry::<String, JsonText<'static>>()? {
                    extra.set(path, value);
                }
                Ok(extra)
            }
        }
        deserializer.deserialize_map(MessageVisitor)
    }
}

/// A block with every member it may have, in the order in which they are written.
#[derive(Serialize, Deserialize)]
struct FlatBlock<'a> {
    block: BlockId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    item: Option<ItemId>,
    kind: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    form: Option<ReasoningForm>,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    wire_type: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    index: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    has_made_id: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<Cow<'a, str>>,
    /// The party that runs a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    runner: Option<CallKind>,
    /// The call that a result belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    call: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<Cow<'a, JsonText<'static>>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    completion: Option<BlockCompletion>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_open: bool,
    #[serde(default, skip_serializing_if = "ByteSpan::is_empty")]
    source: ByteSpan,
    #[serde(default, skip_serializing_if = "is_nothing")]
    attachments: Cow<'a, [Attachment]>,
    #[serde(default, skip_serializing_if = "is_none")]
    extra: Cow<'a, ExtraFields>,
}

fn is_nothing(list: &[Attachment]) -> bool {
    list.is_empty()
}

fn is_none(extra: &ExtraFields) -> bool {
    extra.is_empty()
}

impl Serialize for Block {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut flat = FlatBlock {
            block: self.id,
            item: self.item,
            kind: Cow::Borrowed(""),
            form: None,
            wire_type: Cow::Borrowed(&self.wire_type),
            index: self.index,
            id: None,
            has_made_id: false,
            name: None,
            runner: None,
            call: None,
            text: None,
            value: None,
            completion: None,
            is_open: !self.is_ended,
            source: self.source,
            attachments: Cow::Borrowed(&self.attachments),
            extra: Cow::Borrowed(&self.extra),
        };
        let kind = match &self.content {
            BlockContent::Text(text) => {
                flat.text = Some(Cow::Borrowed(text));
                "text"
            }
            BlockContent::Reasoning { form, text } => {
                flat.form = Some(*form).filter(|form| *form != ReasoningForm::Raw);
                flat.text = Some(Cow::Borrowed(text));
                "reasoning"
            }
            BlockContent::Refusal(text) => {
                flat.text = Some(Cow::Borrowed(text));
                "refusal"
            }
            BlockContent::ToolCall(call) => {
                flat.id = Some(Cow::Borrowed(&call.id));
                flat.has_made_id = call.has_made_id;
                flat.name = Some(Cow::Borrowed(&call.name));
                flat.runner = Some(call.kind);
                flat.text = Some(Cow::Borrowed(&call.raw_arguments));
                flat.completion = Some(call.completion);
                "tool_call"
            }
            BlockContent::ToolResult(ToolResult { call, value }) => {
                flat.call = call.as_deref().map(Cow::Borrowed);
                flat.value = Some(Cow::Borrowed(value));
                "tool_result"
            }
            BlockContent::Opaque(value) => {
                flat.value = Some(Cow::Borrowed(value));
                "opaque"
            }
        };
        flat.kind = Cow::Borrowed(kind);
        flat.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Block {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let flat: FlatBlock<'static> = FlatBlock::deserialize(deserializer)?;
        let text = flat.text.map(Cow::into_owned).unwrap_or_default();
        let value = || flat.value.map(Cow::into_owned).ok_or_else(|| D::Error::missing_field("value"));
        let content = match flat.kind.as_ref() {
            "text" => BlockContent::Text(text),
            "reasoning" => BlockContent::Reasoning { form: flat.form.unwrap_or_default(), text },
            "refusal" => BlockContent::Refusal(text),
            "tool_call" => BlockContent::ToolCall(ToolCall {
                id: flat.id.map(Cow::into_owned).unwrap_or_default(),
                has_made_id: flat.has_made_id,
                name: flat.name.map(Cow::into_owned).unwrap_or_default(),
                raw_arguments: text,
                kind: flat.runner.unwrap_or_default(),
                completion: flat.completion.unwrap_or_default(),
                // Its message has it.
                violation: None,
            }),
            "tool_result" => {
                BlockContent::ToolResult(ToolResult { call: flat.call.map(Cow::into_owned), value: value()? })
            }
            "opaque" => BlockContent::Opaque(value()?),
            wire_type => {
                return Err(D::Error::custom(format_args!("a block is of the unknown kind {wire_type}")));
            }
        };
        Ok(Self {
            id: flat.block,
            item: flat.item,
            wire_type: flat.wire_type.into_owned(),
            index: flat.index,
            content,
            is_ended: !flat.is_open,
            source: flat.source,
            attachments: flat.attachments.into_owned(),
            extra: flat.extra.into_owned(),
        })
    }
}

#[derive(Serialize, Deserialize)]
struct FlatItem<'a> {
    item: ItemId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<Cow<'a, str>>,
    #[serde(default)]
    wire_type: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "is_nothing")]
    attachments: Cow<'a, [Attachment]>,
    #[serde(default, skip_serializing_if = "is_none")]
    extra: Cow<'a, ExtraFields>,
}

impl Serialize for OutputItem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let flat = FlatItem {
            item: self.number,
            id: self.id.as_deref().map(Cow::Borrowed),
            wire_type: Cow::Borrowed(&self.wire_type),
            attachments: Cow::Borrowed(&self.attachments),
            extra: Cow::Borrowed(&self.extra),
        };
        flat.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for OutputItem {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let flat: FlatItem<'static> = FlatItem::deserialize(deserializer)?;
        Ok(Self {
            number: flat.item,
            id: flat.id.map(Cow::into_owned),
            wire_type: flat.wire_type.into_owned(),
            attachments: flat.attachments.into_owned(),
            extra: flat.extra.into_owned(),
        })
    }
}

impl Serialize for ToolCall {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        called(self, &ExtraFields::default(), serializer)
    }
}

/// A call with its extra fields.
struct FlatCall<'a>(&'a ToolCall, &'a ExtraFields);

impl Serialize for FlatCall<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        called(self.0, self.1, serializer)
    }
}

fn called<S: Serializer>(call: &ToolCall, extra: &ExtraFields, serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(None)?;
    map.serialize_entry("id", &call.id)?;
    map.serialize_entry("name", &call.name)?;
    map.serialize_entry("arguments", call.arguments())?;
    map.serialize_entry("kind", &call.kind)?;
    if call.has_made_id {
        map.serialize_entry("has_made_id", &true)?;
    }
    if let Some(invalid) = call.invalid() {
        map.serialize_entry("invalid", &invalid)?;
    }
    if !extra.is_empty() {
        map.serialize_entry("extra", extra)?;
    }
    map.end()
}

#[derive(Serialize)]
struct FlatDetail<'a> {
    r#type: AttachmentKind,
    data: &'a JsonText<'static>,
}

#[derive(Serialize)]
struct FlatResult<'a> {
    call: Option<&'a str>,
    value: &'a JsonText<'static>,
}

/// Writes the members that describe one choice.
fn choice_members<M: SerializeMap>(
    choice: &Choice,
    answer: &[Attachment],
    map: &mut M,
) -> Result<(), M::Error> {
    let filled = |text: Cow<'_, str>| (!text.is_empty()).then(|| text.into_owned());
    map.serialize_entry("role", "assistant")?;
    map.serialize_entry("content", &filled(choice.text()))?;
    map.serialize_entry("reasoning", &filled(choice.reasoning()))?;
    let details: Vec<_> = [AttachmentKind::Signature, AttachmentKind::Encrypted]
        .into_iter()
        .flat_map(|kind| choice.attachments(kind))
        .map(|attachment| FlatDetail { r#type: attachment.kind, data: &attachment.value })
        .collect();
    map.serialize_entry("reasoning_details", &details)?;
    map.serialize_entry("refusal", &filled(choice.refusal()))?;
    let calls = choice.blocks.iter().filter_map(|block| match &block.content {
        BlockContent::ToolCall(call) => Some(FlatCall(call, &block.extra)),
        _ => None,
    });
    map.serialize_entry("tool_calls", &calls.collect::<Vec<_>>())?;
    let results: Vec<_> = choice
        .tool_results()
        .map(|result| FlatResult { call: result.call.as_deref(), value: &result.value })
        .collect();
    if !results.is_empty() {
        map.serialize_entry("tool_results", &results)?;
    }
    let notes = choice.attachments(AttachmentKind::Annotation).chain(answer);
    map.serialize_entry("annotations", &notes.map(|note| &note.value).collect::<Vec<_>>())?;
    let logprobs = choice.attachments(AttachmentKind::Logprobs).map(|entry| &entry.value);
    map.serialize_entry("logprobs", &logprobs.collect::<Vec<_>>())?;
    map.serialize_entry("finish_reason", &choice.finish.as_ref().map(|finish| finish.reason))?;
    map.serialize_entry("raw_finish_reason", &choice.finish.as_ref().and_then(|finish| finish.raw.as_ref()))?;
    if !choice.items.is_empty() {
        map.serialize_entry("items", &choice.items)?;
    }
    map.serialize_entry("blocks", &choice.blocks)?;
    if !choice.attachments.is_empty() {
        map.serialize_entry("choice_attachments", &choice.attachments)?;
    }
    if !choice.extra.is_empty() {
        map.serialize_entry("choice_extra", &choice.extra)?;
    }
    Ok(())
}

struct NumberedBlock<'a>(&'a Choice);

impl Serialize for NumberedBlock<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("index", &self.0.number)?;
        choice_members(self.0, &[], &mut map)?;
        map.end()
    }
}

#[derive(Serialize, Deserialize)]
struct FlatUsage {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    input_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    output_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    total_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cached_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cache_write_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reasoning_tokens: Option<u64>,
    raw: JsonText<'static>,
}

impl Serialize for Usage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let counters = self.counters();
        let flat = FlatUsage {
            input_tokens: counters.input_tokens,
            output_tokens: counters.output_tokens,
            total_tokens: counters.total_tokens,
            cached_tokens: counters.cached_tokens,
            cache_write_tokens: counters.cache_write_tokens,
            reasoning_tokens: counters.reasoning_tokens,
            raw: self.raw.clone(),
        };
        flat.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Usage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let flat = FlatUsage::deserialize(deserializer)?;
        let counters = TokenCounts {
            input_tokens: flat.input_tokens,
            output_tokens: flat.output_tokens,
            total_tokens: flat.total_tokens,
            cached_tokens: flat.cached_tokens,
            cache_write_tokens: flat.cache_write_tokens,
            reasoning_tokens: flat.reasoning_tokens,
        };
        Ok(Self { counters, raw: flat.raw })
    }
}

impl Serialize for Message {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let empty = Choice::default();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &self.id)?;
        map.serialize_entry("model", &self.model)?;
        if !self.wire_type.is_empty() {
            map.serialize_entry("wire_type", &self.wire_type)?;
        }
        choice_members(self.first().unwrap_or(&empty), &self.attachments, &mut map)?;
        map.serialize_entry("usage", &self.usage)?;
        map.serialize_entry("notices", &self.notices)?;
        if !self.errors.is_empty() {
            map.serialize_entry("errors", &self.errors)?;
        }
        if !self.attachments.is_empty() {
            map.serialize_entry("attachments", &self.attachments)?;
        }
        if !self.extra.is_empty() {
            map.serialize_entry("extra", &self.extra)?;
        }
        if self.choices.len() > 1 {
            map.serialize_entry("choices", &self.choices.iter().map(NumberedBlock).collect::<Vec<_>>())?;
        }
        map.serialize_entry("schema_version", &SCHEMA_VERSION)?;
        map.end()
    }
}

/// The members from which a choice is read; the views follow from them.
#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct ReadChoice {
    index: u32,
    finish_reason: Option<FinishReason>,
    raw_finish_reason: Option<String>,
    items: Vec<OutputItem>,
    blocks: Vec<Block>,
    choice_attachments: Vec<Attachment>,
    choice_extra: ExtraFields,
}

impl From<ReadChoice> for Choice {
    fn from(read: ReadChoice) -> Self {
        Self {
            number: read.index,
            items: read.items,
            blocks: read.blocks,
            attachments: read.choice_attachments,
            finish: read.finish_reason.map(|reason| Finish { reason, raw: read.raw_finish_reason }),
            extra: read.choice_extra,
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ReadMessage {
    id: Option<String>,
    model: Option<String>,
    wire_type: String,
    finish_reason: Option<FinishReason>,
    raw_finish_reason: Option<String>,
    items: Vec<OutputItem>,
    blocks: Vec<Block>,
    choice_attachments: Vec<Attachment>,
    choice_extra: ExtraFields,
    choices: Vec<ReadChoice>,
    usage: Option<Usage>,
    notices: Vec<Notice<'static>>,
    errors: Vec<UpstreamError<'static>>,
    attachments: Vec<Attachment>,
    extra: ExtraFields,
}

/// Gives calls the violations that notices report of them.
fn restore_violations(choices: &mut [Choice], notices: &[Notice<'_>]) {
    let reported = notices.iter().filter_map(|notice| Some((notice.block?, InvalidCall::reported(notice)?)));
    let reported: HashMap<_, _> = reported.collect();
    if reported.is_empty() {
        return;
    }
    for block in choices.iter_mut().flat_map(|choice| &mut choice.blocks) {
        if let BlockContent::ToolCall(call) = &mut block.content {
            call.violation = reported.get(&block.id).cloned().map(Box::new);
        }
    }
}

impl<'de> Deserialize<'de> for Message {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read = ReadMessage::deserialize(deserializer)?;
        let choices = if read.choices.is_empty() {
            vec![ReadChoice {
                index: 0,
                finish_reason: read.finish_reason,
                raw_finish_reason: read.raw_finish_reason,
                items: read.items,
                blocks: read.blocks,
                choice_attachments: read.choice_attachments,
                choice_extra: read.choice_extra,
            }]
        } else {
            read.choices
        };
        let mut choices: Vec<_> = choices.into_iter().map(Choice::from).collect();
        restore_violations(&mut choices, &read.notices);
        Ok(Self {
            id: read.id,
            model: read.model,
            wire_type: read.wire_type,
            choices,
            usage: read.usage,
            notices: read.notices,
            errors: read.errors,
            attachments: read.attachments,
            extra: read.extra,
        })
    }
}
