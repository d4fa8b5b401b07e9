//! Turns the findings of an extractor into events, with the bytes each was made from.

use std::borrow::Cow;

use super::calls::CollectedCall;
use crate::event::{
    BlockCompletion, BlockId, BlockKind, ByteSpan, CallKind, DeltaKind, Event, EventKind, EventScope,
    EventSink, Notice, NoticeCode, ReasoningForm,
};

/// Keeps the blocks of one text stream and counts its bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct BlockEmitter {
    choice: u32,
    /// The number of the next block.
    pub(super) next_block: u32,
    open: Option<(BlockId, DeltaKind)>,
    /// How many bytes of the stream have been accounted for.
    offset: u64,
    /// How many of them made no argument text yet; the next argument text is made from them too.
    debt: u64,
}

const THOUGHTS: BlockKind<'static> = BlockKind::Reasoning(ReasoningForm::Raw);

impl BlockEmitter {
    /// How many bytes of the stream have been accounted for.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn new(choice: u32) -> Self {
        Self { choice, ..Self::default() }
    }

    /// Whether reasoning is open.
    pub(super) fn is_thinking(&self) -> bool {
        matches!(self.open, Some((_, DeltaKind::Reasoning)))
    }

    /// Whether no block has been opened yet.
    pub(super) fn is_untouched(&self) -> bool {
        self.next_block == 0
    }

    /// Takes back visible text that was reasoning, and emits it as reasoning.
    pub(super) fn correct_to_reasoning(&mut self, text: &str, sink: &mut EventSink<'_>) {
        let Some((block, DeltaKind::Text)) = self.open else { return };
        self.put(ByteSpan::default(), EventKind::Correction { block, text: Cow::Borrowed("") }, sink);
        self.prose(DeltaKind::Reasoning, text, 0, sink);
        self.end(BlockCompletion::Complete, sink);
    }

    /// Emits text or reasoning made from the next `len` bytes.
    pub(super) fn prose(&mut self, kind: DeltaKind, text: &str, len: usize, sink: &mut EventSink<'_>) {
        if text.is_empty() {
            return;
        }
        if self.open.is_none_or(|(_, open)| open != kind) {
            let words = if kind == DeltaKind::Reasoning { THOUGHTS } else { BlockKind::Text };
            self.start(kind, words, ByteSpan::default(), sink);
        }
        self.go_on(text, len, sink);
    }

    /// Goes on with the open block.
    #[inline]
    pub(super) fn go_on(&mut self, text: &str, len: usize, sink: &mut EventSink<'_>) {
        let source = self.advance(len);
        self.delta(source, text, sink);
    }

    /// Ends reasoning, if it is open.
    pub(super) fn end_reasoning(&mut self, sink: &mut EventSink<'_>) {
        if let Some((_, DeltaKind::Reasoning)) = self.open {
            self.end(BlockCompletion::Complete, sink);
        }
    }

    pub(super) fn markup(&mut self, text: &str, sink: &mut EventSink<'_>) {
        if !text.is_empty() {
            self.settle_debt(sink);
            let source = self.advance(text.len());
            self.put(source, EventKind::Markup { text: Cow::Borrowed(text) }, sink);
        }
    }

    /// Opens a call; its name (and id) were read from the next `len` bytes.
    pub(super) fn call(
        &mut self,
        name: &str,
        id: &str,
        kind: CallKind,
        len: usize,
        sink: &mut EventSink<'_>,
    ) {
        let source = self.advance(len);
        let id = (!id.is_empty()).then_some(Cow::Borrowed(id));
        let words = BlockKind::ToolCall { id, is_made: false, name: Cow::Borrowed(name), call: kind };
        self.start(DeltaKind::Arguments, words, source, sink);
    }

    /// Emits calls that stand in reasoning with which the response ends.
    pub(super) fn emit_meant(&mut self, calls: &[CollectedCall], sink: &mut EventSink<'_>) {
        for call in calls {
            let detail =
                format!("the response ends in reasoning; the call of {:?} in it is meant", call.name);
            self.notice(NoticeCode::Judged, detail, sink);
            self.call(&call.name, "", CallKind::Function, 0, sink);
            self.argument(&call.arguments, 0, sink);
            self.end(BlockCompletion::Complete, sink);
        }
    }

    /// Gives the open call its id, read from the next `len` bytes.
    pub(super) fn identity(&mut self, id: &str, len: usize, sink: &mut EventSink<'_>) {
        let source = self.advance(len);
        if let Some((block, DeltaKind::Arguments)) = self.open {
            let (scope, id) = (EventScope::Block(block), Some(Cow::Borrowed(id)));
            self.put(source, EventKind::Identity { scope, id, model: None }, sink);
        }
    }

    /// Argument text of the open call, made from the next `len` bytes.
    #[inline]
    pub(super) fn argument(&mut self, text: &str, len: usize, sink: &mut EventSink<'_>) {
        let mut source = self.advance(len);
        if text.is_empty() {
            self.debt += len as u64;
            return;
        }
        source.start -= std::mem::take(&mut self.debt);
        self.argument_from(source, text, sink);
    }

    /// Argument text of the open call, made from bytes that may lie elsewhere.
    #[inline]
    pub(super) fn argument_from(&mut self, source: ByteSpan, text: &str, sink: &mut EventSink<'_>) {
        if matches!(self.open, Some((_, DeltaKind::Arguments))) {
            self.delta(source, text, sink);
        }
    }

    /// Bytes that made no argument text after all are syntax.
    fn settle_debt(&mut self, sink: &mut EventSink<'_>) {
        let debt = std::mem::take(&mut self.debt);
        if debt > 0 {
            let source = ByteSpan { start: self.offset - debt, end: self.offset };
            self.put(source, EventKind::Markup { text: Cow::Borrowed("") }, sink);
        }
    }

    /// Ends the block that is open, if any.
    pub(super) fn end(&mut self, completion: BlockCompletion, sink: &mut EventSink<'_>) {
        self.settle_debt(sink);
        if let Some((block, _)) = self.open.take() {
            self.put(ByteSpan::default(), EventKind::BlockEnd { block, completion }, sink);
        }
    }

    pub(super) fn notice(
        &mut self,
        code: NoticeCode,
        detail: impl Into<Cow<'static, str>>,
        sink: &mut EventSink<'_>,
    ) {
        let notice = Notice::new(code, self.offset, detail);
        self.put(ByteSpan::default(), EventKind::Notice(notice), sink);
    }

    /// A notice about the open block.
    pub(super) fn notice_of_block(
        &mut self,
        code: NoticeCode,
        detail: &'static str,
        sink: &mut EventSink<'_>,
    ) {
        let block = self.open.map(|(block, _)| block);
        let notice = Notice { block, ..Notice::new(code, self.offset, detail) };
        self.put(ByteSpan::default(), EventKind::Notice(notice), sink);
    }

    /// Counts bytes without an event of their own.
    #[inline]
    pub(super) fn advance(&mut self, len: usize) -> ByteSpan {
        let start = self.offset;
        self.offset += len as u64;
        ByteSpan { start, end: self.offset }
    }

    fn start(&mut self, kind: DeltaKind, words: BlockKind<'_>, source: ByteSpan, sink: &mut EventSink<'_>) {
        self.end(BlockCompletion::Complete, sink);
        let block = BlockId(self.next_block);
        self.next_block += 1;
        self.open = Some((block, kind));
        self.put(source, EventKind::block_start(block, words), sink);
    }

    #[inline]
    fn delta(&self, source: ByteSpan, text: &str, sink: &mut EventSink<'_>) {
        let Some((block, kind)) = self.open else { return };
        // Made in its place: a body that is handed on is copied.
        let text = Cow::Borrowed(text);
        sink.put(Event { choice: self.choice, source, body: EventKind::Delta { block, kind, text } });
    }

    #[inline]
    fn put(&self, source: ByteSpan, body: EventKind<'_>, sink: &mut EventSink<'_>) {
        sink.put(Event { choice: self.choice, source, body });
    }
}
