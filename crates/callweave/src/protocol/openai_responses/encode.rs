//! Events and messages → OpenAI Responses.
//!
//! Both modes write the same objects ([`body`]) from the message as it has grown so far, and both keep an
//! [`OutputPlan`]: the items of the output and the blocks in each. They differ in their source of output.
//! [`LosslessEncoder`] follows the events: each is written as the wire event it came from. [`NormalizedEncoder`]
//! follows the plan: one item and one part at a time, each written as far as the message has grown, the next when the
//! one before has ended.
//!
//! A complete body is the response object that closes such a stream.

mod body;
mod lossless;
mod normalized;
mod plan;

use std::ops::Range;

use self::body::{
    GrowingItem, ResponseClosing, ResponseObject, WritingPhase, coordinates, growing, part_names, splice,
};
use self::lossless::LosslessEncoder;
use self::normalized::NormalizedEncoder;
use self::plan::{OutputPlan, PlannedForm, PlannedItem};
use super::{ERRORS, RESPONSE};
use crate::encode::{
    DeltaTemplates, EncodeContext, EncodeOptions, ProtocolEncoding, StreamEncoder, WireCapabilities,
    WireFeature, WrittenDelta, put_named_event,
};
use crate::event::{Event, JsonText};
use crate::json::{JsonWriter, MemberPaths};
use crate::message::{Block, BlockContent, Message};

pub(super) const ENCODING: ProtocolEncoding =
    ProtocolEncoding { stream, complete, capabilities: |_, _, _| CAPABILITIES, id_prefix: "resp_" };

const CAPABILITIES: WireCapabilities = WireCapabilities {
    own: &[RESPONSE],
    unsupported: &[WireFeature::OtherChoices, WireFeature::RawReasoning, WireFeature::Cut],
    errors: ERRORS,
    ..WireCapabilities::BASE
};

fn stream(options: &EncodeOptions) -> Box<dyn StreamEncoder> {
    if options.is_normalized() {
        Box::new(NormalizedEncoder::new(options))
    } else {
        Box::new(LosslessEncoder::new(options))
    }
}

fn complete(message: &Message, context: &EncodeContext, writer: &mut JsonWriter<'_>) {
    let options = &context.options;
    let is_normalized = options.is_normalized();
    match message.errors.first() {
        // The body of a failed request: there was no response.
        Some(error) if !is_normalized && message.wire_type.is_empty() => {
            body::failure(error, &message.extra, writer)
        }
        _ => {
            let mut plan = OutputPlan::of(message, is_normalized);
            let response = ResponseObject::new(message, [&message.id, &message.model], options);
            let closing = ResponseClosing::of(message, is_normalized);
            plan.close(message, &closing, &response.made_id());
            response.write(&closing, Some(&plan), writer);
        }
    }
}

/// The frames of the wire: numbered, each in one server-sent event.
#[derive(Default)]
struct NumberedFrames {
    sequence: u64,
    /// The position of the number of the last event.
    number: Range<usize>,
    templates: DeltaTemplates,
    frame: String,
}

impl NumberedFrames {
    /// Writes one event; `members` adds to its object.
    fn put(&mut self, name: &str, out: &mut Vec<u8>, members: impl FnOnce(&mut JsonWriter<'_>)) {
        let Self { sequence, number, frame, .. } = self;
        put_named_event(frame, name, out, |writer| {
            writer.key("sequence_number");
            let start = writer.0.len();
            writer.number(*sequence);
            *number = start..writer.0.len();
            members(writer);
        });
        *sequence += 1;
    }

    /// Writes a snapshot of the response, with the output of a plan or without any.
    fn snapshot(
        &mut self,
        name: &str,
        response: &ResponseObject<'_>,
        closing: &ResponseClosing<'_>,
        plan: Option<&OutputPlan>,
        out: &mut Vec<u8>,
    ) {
        self.put(name, out, |writer| {
            writer.key("response");
            response.write(closing, plan, writer);
        });
    }

    /// Writes the beginning or the end of an item.
    fn item(
        &mut self,
        response: &ResponseObject<'_>,
        entry: &PlannedItem,
        phase: WritingPhase,
        out: &mut Vec<u8>,
    ) {
        let name = match phase {
            WritingPhase::Begin => "response.output_item.added",
            WritingPhase::End => "response.output_item.done",
        };
        self.put(name, out, |writer| {
            writer.number_member("output_index", entry.output_index);
            writer.key("item");
            response.item(entry, phase, writer);
        });
    }

    /// Writes the beginning or the end of a part.
    fn part(&mut self, part: &WrittenPart<'_>, phase: WritingPhase, beside: &MemberPaths, out: &mut Vec<u8>) {
        let (added, done, index) = part_names(part.block);
        self.put(if phase == WritingPhase::Begin { added } else { done }, out, |writer| {
            part.coordinates(Some(index), writer);
            writer.key("part");
            part.response.part(part.block, phase, writer);
            beside.write(writer);
        });
    }

    /// Writes a delta; the next ones repeat it if nothing but text is in it.
    fn delta(
        &mut self,
        part: &WrittenPart<'_>,
        text: &str,
        logprobs: &str,
        beside: &MemberPaths,
        out: &mut Vec<u8>,
    ) {
        let Some(growing) = part.growing() else { return };
        let mut piece = WrittenDelta::new(text);
        self.put(growing.delta, out, |writer| {
            part.coordinates(growing.index, writer);
            piece.write("delta", writer);
            part.write_logprobs(logprobs, writer);
            beside.write(writer);
        });
        if logprobs == NO_LOGPROBS && beside.is_empty() {
            let (frame, number) = (self.frame.as_bytes(), Some(self.number.clone()));
            self.templates.keep_numbered(part.block.id, frame, &piece, number);
        }
    }

    /// Writes the complete text of a block.
    fn done(
        &mut self,
        part: &WrittenPart<'_>,
        text: &str,
        logprobs: &str,
        beside: &MemberPaths,
        out: &mut Vec<u8>,
    ) {
        let Some(growing) = part.growing() else { return };
        self.put(growing.done, out, |writer| {
            part.coordinates(growing.index, writer);
            if let (BlockContent::ToolCall(call), PlannedForm::Function) =
                (&part.block.content, part.entry.form)
            {
                writer.text_member("name", &call.name);
            }
            writer.text_member(growing.complete, text);
            part.write_logprobs(logprobs, writer);
            beside.write(writer);
        });
    }

    fn annotation(
        &mut self,
        part: &WrittenPart<'_>,
        ordinal: usize,
        value: &JsonText<'_>,
        beside: &MemberPaths,
        out: &mut Vec<u8>,
    ) {
        self.put("response.output_text.annotation.added", out, |writer| {
            part.coordinates(Some("content_index"), writer);
            writer.number_member("annotation_index", ordinal);
            writer.raw_member("annotation", value.as_str());
            beside.write(writer);
        });
    }

    /// Writes progress, of an item if there is one.
    fn progress(
        &mut self,
        wire_type: &str,
        value: Option<&JsonText<'_>>,
        response: &ResponseObject<'_>,
        entry: Option<&PlannedItem>,
        out: &mut Vec<u8>,
    ) {
        self.put(wire_type, out, |writer| {
            if let Some(entry) = entry {
                coordinates(response, entry, None, writer);
            }
            splice(value, writer);
        });
    }

    /// Writes a delta in the frame of the one before it of the same block; returns false if there is no such frame.
    fn repeat(&mut self, event: &Event<'_>, out: &mut Vec<u8>) -> bool {
        let is_written = self.templates.repeat_numbered(event, self.sequence, out);
        self.sequence += u64::from(is_written);
        is_written
    }
}

/// The list of log probabilities of a text that has none.
const NO_LOGPROBS: &str = "[]";

/// A block, and its position in the output.
struct WrittenPart<'m> {
    response: ResponseObject<'m>,
    entry: &'m PlannedItem,
    block: &'m Block,
    /// Its number in the item.
    number: i64,
}

impl WrittenPart<'_> {
    fn growing(&self) -> Option<GrowingItem> {
        growing(self.response.item_type(self.entry), self.block)
    }

    /// Writes the position, with the number under that key.
    fn coordinates(&self, key: Option<&str>, writer: &mut JsonWriter<'_>) {
        coordinates(&self.response, self.entry, key.map(|key| (key, self.number)), writer);
    }

    fn write_logprobs(&self, logprobs: &str, writer: &mut JsonWriter<'_>) {
        if let BlockContent::Text(_) = self.block.content {
            writer.raw_member("logprobs", logprobs);
        }
    }
}
