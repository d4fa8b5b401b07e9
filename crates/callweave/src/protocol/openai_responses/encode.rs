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

use self::body::{ResponseClosing, ResponseObject};
use self::lossless::LosslessEncoder;
use self::normalized::NormalizedEncoder;
use self::plan::OutputPlan;
use super::{ERRORS, RESPONSE};
use crate::encode::{
    DeltaTemplates, EncodeContext, EncodeOptions, ProtocolEncoding, StreamEncoder, WireCapabilities,
    WireFeature, WrittenDelta,
};
use crate::event::{BlockId, Event};
use crate::json::JsonWriter;
use crate::message::Message;

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
    stamps: DeltaTemplates,
    scratch: String,
}

impl NumberedFrames {
    /// Writes one event; `members` adds to its object.
    fn put(&mut self, name: &str, out: &mut Vec<u8>, members: impl FnOnce(&mut JsonWriter<'_>)) {
        self.scratch.clear();
        self.scratch.push_str("event: ");
        self.scratch.push_str(name);
        self.scratch.push_str("\ndata: ");
        let mut writer = JsonWriter(&mut self.scratch);
        writer.object();
        writer.text_member("type", name);
        writer.key("sequence_number");
        let start = writer.0.len();
        writer.number(self.sequence);
        self.number = start..writer.0.len();
        members(&mut writer);
        writer.end_object();
        self.scratch.push_str("\n\n");
        self.sequence += 1;
        out.extend_from_slice(self.scratch.as_bytes());
    }

    /// Keeps the event that was written last, which held a delta of the block and nothing else.
    fn keep(&mut self, block: BlockId, piece: &WrittenDelta<'_>) {
        self.stamps.keep_numbered(block, self.scratch.as_bytes(), piece, Some(self.number.clone()));
    }

    /// Writes a delta in the frame of the one before it of the same block; returns false if there is no such frame.
    fn repeat(&mut self, event: &Event<'_>, out: &mut Vec<u8>) -> bool {
        let is_told = self.stamps.repeat_numbered(event, self.sequence, out);
        self.sequence += u64::from(is_told);
        is_told
    }
}
