//! A complete text as one value: calls, visible text, reasoning and notices.

use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};

use super::extractor::{ExtractOptions, Extractor};
use crate::event::{
    BlockCompletion, BlockId, BlockKind, ByteSpan, CallKind, Event, EventKind, EventScope, Notice,
    NoticeCode, Sink,
};
use crate::message::{InvalidCall, ToolCall};

/// The calls, text, reasoning and notices found in a text.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Extraction {
    /// The calls, in the order in which they were written. The id of a call is empty where the text had none.
    pub calls: Vec<ToolCall>,
    /// The visible text.
    pub content: String,
    /// The reasoning.
    pub reasoning: String,
    /// The notices about the text.
    pub notices: Vec<Notice<'static>>,
    /// Where each of the calls stands.
    positions: Vec<CallPosition>,
    open: Vec<(BlockId, OpenBlock)>,
    /// Where markup began that touches the next event.
    markup: Option<ByteSpan>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct CallPosition {
    span: ByteSpan,
    /// Whether it stands behind a damaged call whose end is in doubt, and may be a part of that one.
    is_after_damage: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum OpenBlock {
    /// Where the block begins in the content.
    Content(usize),
    Reasoning,
    Call(usize),
}

impl Extraction {
    /// Reads a complete text.
    ///
    /// ```
    /// use callweave::dialect::{Extraction, ExtractOptions};
    ///
    /// let text = "Sure. <tool_call>{\"name\": \"look\", \"arguments\": {\"at\": \"sky\"}}</tool_call>";
    /// let found = Extraction::of(text, &ExtractOptions::new("hermes")?);
    /// assert_eq!(found.content, "Sure. ");
    /// assert_eq!(found.calls[0].name, "look");
    /// assert_eq!(found.calls[0].arguments(), r#"{"at": "sky"}"#);
    /// # Ok::<(), callweave::Error>(())
    /// ```
    pub fn of(text: &str, options: &ExtractOptions) -> Self {
        Self::of_deltas([text], options)
    }

    /// Reads a text that comes in pieces.
    pub fn of_deltas<'d>(deltas: impl IntoIterator<Item = &'d str>, options: &ExtractOptions) -> Self {
        let mut extraction = Self::default();
        let mut extractor = Extractor::new(options);
        for delta in deltas {
            extractor.push(delta, &mut extraction);
        }
        extractor.finish(&mut extraction);
        extraction
    }

    /// The bytes of the text that a call was made from, its markers included. Calls are counted from 0.
    pub fn span(&self, call: usize) -> Option<ByteSpan> {
        self.positions.get(call).map(|position| position.span)
    }

    fn place(&self, block: BlockId) -> Option<OpenBlock> {
        self.open.iter().find(|(other, _)| *other == block).map(|(_, place)| *place)
    }
}

impl<'e> Sink<Event<'e>> for Extraction {
    fn put(&mut self, event: Event<'e>) {
        let source = event.source;
        let before = self.markup;
        if !source.is_empty() {
            self.markup = match event.body {
                EventKind::Markup { .. } => match before {
                    Some(span) if span.end == source.start => Some(ByteSpan { end: source.end, ..span }),
                    _ => Some(source),
                },
                _ => None,
            };
        }
        match event.body {
            EventKind::BlockStart { block, kind, .. } => {
                let place = match kind {
                    BlockKind::Text | BlockKind::Refusal => OpenBlock::Content(self.content.len()),
                    BlockKind::Reasoning(_) => OpenBlock::Reasoning,
                    // The provider runs these itself.
                    BlockKind::ToolResult { .. } | BlockKind::Opaque { .. } => return,
                    BlockKind::ToolCall { call: CallKind::Builtin, .. } => return,
                    BlockKind::ToolCall { id, is_made, name, call } => {
                        let start = before
                            .filter(|span| span.end == source.start)
                            .map_or(source.start, |span| span.start);
                        self.calls.push(ToolCall {
                            has_made_id: is_made || id.is_none(),
                            kind: call,
                            completion: BlockCompletion::Truncated,
                            ..ToolCall::new(id.unwrap_or_default(), name, "")
                        });
                        let span = ByteSpan { start, end: source.end };
                        self.positions.push(CallPosition { span, is_after_damage: false });
                        OpenBlock::Call(self.calls.len() - 1)
                    }
                };
                self.open.push((block, place));
            }
            EventKind::Delta { block, text, .. } => match self.place(block) {
                Some(OpenBlock::Content(_)) => self.content.push_str(&text),
                Some(OpenBlock::Reasoning) => self.reasoning.push_str(&text),
                Some(OpenBlock::Call(call)) => {
                    self.calls[call].raw_arguments.push_str(&text);
                    let span = &mut self.positions[call].span;
                    span.end = span.end.max(source.end);
                }
                None => {}
            },
            EventKind::Identity { scope: EventScope::Block(block), id: Some(id), .. } => {
                if let Some(OpenBlock::Call(call)) = self.place(block) {
                    self.calls[call].id = id.into_owned();
                    self.calls[call].has_made_id = false;
                }
            }
            EventKind::Correction { block, text } => match self.place(block) {
                Some(OpenBlock::Content(start)) => self.content.replace_range(start.., &text),
                Some(OpenBlock::Call(call)) => self.calls[call].raw_arguments = text.into_owned(),
                Some(OpenBlock::Reasoning) | None => {}
            },
            EventKind::BlockEnd { block, completion } => {
                if let Some(OpenBlock::Call(call)) = self.place(block) {
                    self.calls[call].completion = completion;
                }
                self.open.retain(|(other, _)| *other != block);
            }
            EventKind::Markup { .. } => {
                // Closers belong to the call they follow.
                if let Some(CallPosition { span, .. }) = self.positions.last_mut()
                    && span.end == source.start
                {
                    span.end = source.end;
                }
            }
            EventKind::Notice(notice) => {
                if let Some(OpenBlock::Call(call)) = notice.block.and_then(|block| self.place(block)) {
                    self.positions[call].is_after_damage |= notice.code == NoticeCode::AfterDamage;
                    let violation = InvalidCall::reported(&notice).map(Box::new);
                    let call = &mut self.calls[call];
                    call.violation = violation.or(call.violation.take());
                }
                self.notices.push(notice.into_owned());
            }
            _ => {}
        }
    }
}

impl Serialize for Extraction {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Found<'f> {
            calls: FoundCalls<'f>,
            content: &'f str,
            reasoning: &'f str,
            notices: &'f [Notice<'static>],
        }
        let Self { content, reasoning, notices, .. } = self;
        Found { calls: FoundCalls(self), content, reasoning, notices }.serialize(serializer)
    }
}

struct FoundCalls<'f>(&'f Extraction);

impl Serialize for FoundCalls<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct FoundCall<'f> {
            name: &'f str,
            arguments: &'f str,
            #[serde(skip_serializing_if = "str::is_empty")]
            id: &'f str,
            #[serde(skip_serializing_if = "std::ops::Not::not")]
            incomplete: bool,
            #[serde(skip_serializing_if = "std::ops::Not::not")]
            invalid: bool,
            #[serde(skip_serializing_if = "std::ops::Not::not")]
            after_damage: bool,
        }
        let Self(Extraction { calls, positions, .. }) = self;
        let mut list = serializer.serialize_seq(Some(calls.len()))?;
        for (call, position) in calls.iter().zip(positions) {
            let incomplete = call.completion == BlockCompletion::Truncated;
            list.serialize_element(&FoundCall {
                name: &call.name,
                arguments: &call.raw_arguments,
                id: &call.id,
                incomplete,
                invalid: !incomplete && call.object().is_err(),
                after_damage: position.is_after_damage,
            })?;
        }
        list.end()
    }
}
