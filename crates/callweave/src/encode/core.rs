//! The encoder of streams: one state of a response that is being written, for all wires that write events as they come.
//!
//! [`EncoderCore`] holds everything that does not depend on a wire: the origin and the names of the response, the open
//! blocks, the fields that wait for a frame, and what has been written. A [`Wire`] adds its frames: one function for
//! each kind of event. [`WireEncoder`] brings events into an order that clients can read, writes repeated deltas from
//! templates, and gives every other event to its function.

use super::turns::{BlockSerializer, ClientReading};
use super::{DeltaTemplates, EncodeContext, EncodeOptions, OpenBlocks, StreamEncoder, UniqueCallIds};
use super::{WireCapabilities, count};
use crate::event::{
    AttachmentKind, BlockCompletion, BlockId, BlockKind, Event, EventKind, EventScope, FinishReason, JsonText,
};
use crate::json::{JsonWriter, MemberPaths, write_members};
use crate::message::{Block, ExtraFields, Usage};
use crate::upstream::UpstreamError;

/// The state of a response that is being written; `B` is a wire's own state of an open block.
pub(crate) struct EncoderCore<B> {
    pub(crate) context: EncodeContext,
    /// The names of the response, or else the caller's; empty if there are none.
    pub(crate) id: String,
    pub(crate) model: String,
    /// The choice of the event that is being written.
    pub(crate) choice: u32,
    pub(crate) blocks: OpenBlocks<B>,
    /// The open blocks that are written complete.
    pub(crate) buffered: OpenBlocks<Block>,
    /// The fields of the response that wait for the next frame that can hold them.
    pub(crate) waiting: MemberPaths,
    /// All token counts so far.
    pub(crate) counts: Option<Usage>,
    /// The first error, where it waits for the end of the content.
    pub(crate) error: Option<UpstreamError<'static>>,
    pub(crate) has_failed: bool,
    /// Numbers of truncated blocks whose end waits: the wire had none if the end of the input truncated them.
    pub(crate) unended: Vec<i64>,
    pub(crate) ids: UniqueCallIds,
    pub(crate) templates: DeltaTemplates,
    /// The last frame, and text for it.
    pub(crate) frame: String,
    pub(crate) scratch: String,
}

impl<B> Default for EncoderCore<B> {
    fn default() -> Self {
        Self {
            context: EncodeContext::default(),
            id: String::new(),
            model: String::new(),
            choice: 0,
            blocks: OpenBlocks::default(),
            buffered: OpenBlocks::default(),
            waiting: MemberPaths::default(),
            counts: None,
            error: None,
            has_failed: false,
            unended: Vec::new(),
            ids: UniqueCallIds::default(),
            templates: DeltaTemplates::default(),
            frame: String::new(),
            scratch: String::new(),
        }
    }
}

impl<B> EncoderCore<B> {
    /// The state of the next response.
    fn next(mut self, id: Option<&str>, model: Option<&str>, is_own: bool) -> Self {
        let context = self.context.of_next(is_own);
        let name = |given: Option<&str>, fallback: &Option<String>| {
            given.or(fallback.as_deref()).unwrap_or_default().to_owned()
        };
        Self {
            id: name(id, &context.options.id),
            model: name(model, &context.options.model),
            context,
            frame: self.frame,
            scratch: self.scratch,
            ..Self::default()
        }
    }

    pub(crate) fn is_normalized(&self) -> bool {
        self.context.is_normalized()
    }

    /// Whether extra fields of this protocol are written.
    pub(crate) fn keeps(&self) -> bool {
        self.context.keeps()
    }

    /// The extra fields of a start, if they are those of this protocol.
    pub(crate) fn own<'e>(&self, extra: Option<&'e JsonText<'e>>) -> Option<&'e JsonText<'e>> {
        extra.filter(|_| self.keeps())
    }

    /// Replaces the names of the response by the given ones.
    pub(crate) fn rename(&mut self, id: Option<&str>, model: Option<&str>) {
        for (own, given) in [(&mut self.id, id), (&mut self.model, model)] {
            if let Some(given) = given {
                given.clone_into(own);
            }
        }
    }

    /// The id under which a call is written.
    pub(crate) fn call_id(&mut self, id: Option<&str>, is_made: bool) -> Option<String> {
        self.ids.written(&self.context, id.unwrap_or_default(), is_made)
    }
}

/// The start of a block.
pub(crate) struct BlockStart<'e> {
    /// The event, for blocks that are written complete.
    pub(crate) event: &'e Event<'e>,
    pub(crate) block: BlockId,
    pub(crate) kind: &'e BlockKind<'e>,
    pub(crate) wire_type: &'e str,
    /// Its number on the wire; none for clients, who get blocks numbered anew.
    pub(crate) index: Option<i64>,
    /// The extra fields of this protocol; none for clients of another.
    pub(crate) extra: Option<&'e JsonText<'e>>,
}

/// A value that belongs to content.
pub(crate) struct AttachmentEvent<'e> {
    pub(crate) scope: EventScope,
    pub(crate) kind: AttachmentKind,
    pub(crate) wire_type: &'e str,
    pub(crate) value: &'e JsonText<'e>,
}

/// The frames of a wire, by the event that they are written for.
pub(crate) trait Wire: Default + Send + Sync + 'static {
    const CAPABILITIES: WireCapabilities;
    const READING: ClientReading;
    /// Whether clients stop reading at an error.
    const ENDS_AT_ERROR: bool = false;
    type Block: Send + Sync;

    fn core(&mut self) -> &mut EncoderCore<Self::Block>;

    /// Writes the output that must come before the event; returns whether the event was part of it.
    fn settle(&mut self, _event: &Event<'_>, _out: &mut Vec<u8>) -> bool {
        false
    }

    /// Takes the start of a response; its extra fields may be those of another protocol.
    fn start(&mut self, wire_type: &str, extra: Option<&JsonText<'_>>, out: &mut Vec<u8>);

    fn start_choice(&mut self, _out: &mut Vec<u8>) {}

    fn start_block(&mut self, start: &BlockStart<'_>, out: &mut Vec<u8>);

    fn grow(&mut self, block: BlockId, text: &str, out: &mut Vec<u8>);

    fn end_block(&mut self, block: BlockId, completion: BlockCompletion, out: &mut Vec<u8>);

    /// Ends a block with that number whose end has waited.
    fn stop(&mut self, _index: i64, _out: &mut Vec<u8>) {}

    fn attach(&mut self, attachment: &AttachmentEvent<'_>, out: &mut Vec<u8>);

    /// Takes token counts, which are counted already.
    fn usage(&mut self, _wire_type: &str, _raw: &JsonText<'_>, _out: &mut Vec<u8>) {}

    /// Takes an extra field of this protocol.
    fn extra(&mut self, scope: EventScope, path: &str, value: &JsonText<'_>, out: &mut Vec<u8>);

    /// Takes another name of the response.
    fn rename(&mut self, _id: Option<&str>, _model: Option<&str>, _out: &mut Vec<u8>) {}

    fn finish(&mut self, reason: FinishReason, raw: Option<&str>, out: &mut Vec<u8>);

    fn fail(&mut self, error: &UpstreamError<'_>, _out: &mut Vec<u8>) {
        self.core().error.get_or_insert_with(|| error.clone().into_owned());
    }

    fn end(&mut self, out: &mut Vec<u8>);

    /// Takes the id of a call, which came late.
    fn identify(&mut self, _block: BlockId, _id: &str, _out: &mut Vec<u8>) {}

    /// Takes a sign of life of the response.
    fn progress(&mut self, _wire_type: &str, _out: &mut Vec<u8>) {}

    /// Completes a frame that was written from a template.
    fn seal(_start: usize, _out: &mut Vec<u8>) {}
}

/// The encoder of a wire.
pub(crate) struct WireEncoder<W> {
    /// None in lossless mode: the same protocol gets its events in their original order.
    turns: Option<BlockSerializer>,
    wire: W,
}

impl<W: Wire> WireEncoder<W> {
    pub(crate) fn boxed(options: &EncodeOptions) -> Box<dyn StreamEncoder> {
        let mut wire = W::default();
        wire.core().context = EncodeContext::new(options);
        let turns = options.is_normalized().then(|| BlockSerializer::new(W::READING));
        Box::new(Self { turns, wire })
    }
}

impl<W: Wire> StreamEncoder for WireEncoder<W> {
    fn encode(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        let Self { turns, wire } = self;
        match turns {
            Some(turns) if !turns.continues(event) => turns.push(event, &mut |event| write(wire, event, out)),
            _ => write(wire, event, out),
        }
    }
}

fn write<W: Wire>(wire: &mut W, event: &Event<'_>, out: &mut Vec<u8>) {
    let start = out.len();
    if wire.core().templates.repeat(event, out) {
        return W::seal(start, out);
    }
    let core = wire.core();
    core.choice = event.choice;
    let (is_normalized, keeps) = (core.is_normalized(), core.keeps());
    if W::ENDS_AT_ERROR && core.has_failed && is_normalized && !matches!(event.body, EventKind::Start { .. })
    {
        return;
    }
    if !core.unended.is_empty() && !matches!(event.body, EventKind::Notice(_)) {
        let unended = std::mem::take(&mut core.unended);
        if !matches!(event.body, EventKind::Finish { raw: None, .. }) {
            unended.into_iter().for_each(|index| wire.stop(index, out));
        }
    }
    if wire.settle(event, out) {
        return;
    }
    wire.core().buffered.take(event);
    match &event.body {
        EventKind::Start { id, model, wire_type, extra } => {
            let is_own = W::CAPABILITIES.own.contains(&wire_type.as_ref());
            let core = std::mem::take(wire.core()).next(id.as_deref(), model.as_deref(), is_own);
            *wire = W::default();
            *wire.core() = core;
            wire.start(wire_type, extra.as_ref(), out);
        }
        EventKind::ChoiceStart => wire.start_choice(out),
        EventKind::BlockStart { block, kind, wire_type, index, extra, .. } => {
            let (index, extra) = (index.filter(|_| !is_normalized), extra.as_ref().filter(|_| keeps));
            wire.start_block(&BlockStart { event, block: *block, kind, wire_type, index, extra }, out);
        }
        EventKind::Delta { block, text, .. } => wire.grow(*block, text, out),
        EventKind::BlockEnd { block, completion } => wire.end_block(*block, *completion, out),
        EventKind::Attachment { scope, kind, wire_type, value } => {
            wire.attach(&AttachmentEvent { scope: *scope, kind: *kind, wire_type, value }, out);
        }
        EventKind::Usage { wire_type, counters, raw } => {
            count(&mut wire.core().counts, counters, raw);
            wire.usage(wire_type, raw, out);
        }
        EventKind::Extra { scope, path, value } if keeps => wire.extra(*scope, path, value, out),
        EventKind::Identity { scope: EventScope::Response, id, model } => {
            wire.rename(id.as_deref(), model.as_deref(), out);
        }
        EventKind::Finish { reason, raw } => wire.finish(*reason, raw.as_deref(), out),
        EventKind::Error(error) => {
            wire.core().has_failed = true;
            wire.fail(error, out);
        }
        EventKind::Notice(notice) => wire.core().context.notice(notice),
        EventKind::End => {
            wire.end(out);
            wire.core().context.is_truncated = false;
        }
        EventKind::Identity { scope: EventScope::Block(block), id: Some(id), .. } => {
            wire.identify(*block, id, out);
        }
        EventKind::Progress { scope: EventScope::Response, wire_type, .. } => wire.progress(wire_type, out),
        EventKind::Extra { .. }
        | EventKind::ItemStart { .. }
        | EventKind::ItemEnd { .. }
        | EventKind::Identity { .. }
        | EventKind::Progress { .. }
        | EventKind::Markup { .. }
        // Only blocks that are written complete can still be corrected.
        | EventKind::Correction { .. } => {}
    }
}

impl ExtraFields {
    /// The values by path, as they are written.
    pub(crate) fn paths(&self) -> impl Iterator<Item = (&str, &str)> {
        self.iter().map(|(path, value)| (path, value.as_str()))
    }

    /// Writes them as members of the object that is open.
    pub(crate) fn write(&self, writer: &mut JsonWriter<'_>) {
        write_members(&self.paths().collect::<Vec<_>>(), writer);
    }
}
