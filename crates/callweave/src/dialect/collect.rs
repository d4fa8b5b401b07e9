//! A complete text as one value: calls, visible text, reasoning and notices.

use serde::Serialize;

use super::extractor::{ExtractOptions, Extractor};
use crate::event::{
    BlockCompletion, BlockId, BlockKind, ByteSpan, CallKind, Event, EventKind, EventScope, Notice,
    NoticeCode, Sink,
};

/// The calls, text, reasoning and notices found in a text.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Extraction {
    /// The calls, in the order in which they were written.
    pub calls: Vec<ExtractedCall>,
    /// The visible text.
    pub content: String,
    /// The reasoning.
    pub reasoning: String,
    /// The notices about the text.
    pub notices: Vec<Notice<'static>>,
    #[serde(skip)]
    open: Vec<(BlockId, OpenBlock)>,
    /// Where markup began that touches the next event.
    #[serde(skip)]
    markup: Option<ByteSpan>,
}

/// A call found in a text.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ExtractedCall {
    /// The tool's name.
    pub name: String,
    /// The arguments, as JSON text where the model wrote JSON.
    pub arguments: String,
    /// The id, where the text had one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Whether the call was truncated.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub incomplete: bool,
    /// Whether the arguments of a complete call are not a JSON object, or it stands behind a damaged call and such
    /// calls were not asked for.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub invalid: bool,
    /// Whether it stands behind a damaged call whose end is in doubt, and may be a part of that one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub after_damage: bool,
    /// The bytes of the text it was made from, its markers included.
    #[serde(skip)]
    pub span: ByteSpan,
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
    /// assert_eq!(found.calls[0].arguments, r#"{"at": "sky"}"#);
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
                    BlockKind::ToolCall { id, name, .. } => {
                        let start = before
                            .filter(|span| span.end == source.start)
                            .map_or(source.start, |span| span.start);
                        self.calls.push(ExtractedCall {
                            name: name.into_owned(),
                            id: id.map(|id| id.into_owned()),
                            span: ByteSpan { start, end: source.end },
                            ..ExtractedCall::default()
                        });
                        OpenBlock::Call(self.calls.len() - 1)
                    }
                };
                self.open.push((block, place));
            }
            EventKind::Delta { block, text, .. } => match self.place(block) {
                Some(OpenBlock::Content(_)) => self.content.push_str(&text),
                Some(OpenBlock::Reasoning) => self.reasoning.push_str(&text),
                Some(OpenBlock::Call(call)) => {
                    let call = &mut self.calls[call];
                    call.arguments.push_str(&text);
                    call.span.end = call.span.end.max(source.end);
                }
                None => {}
            },
            EventKind::Identity { scope: EventScope::Block(block), id: Some(id), .. } => {
                if let Some(OpenBlock::Call(call)) = self.place(block) {
                    self.calls[call].id = Some(id.into_owned());
                }
            }
            EventKind::Correction { block, text } => match self.place(block) {
                Some(OpenBlock::Content(start)) => self.content.replace_range(start.., &text),
                Some(OpenBlock::Call(call)) => self.calls[call].arguments = text.into_owned(),
                Some(OpenBlock::Reasoning) | None => {}
            },
            EventKind::BlockEnd { block, completion } => {
                if let Some(OpenBlock::Call(call)) = self.place(block) {
                    let call = &mut self.calls[call];
                    call.incomplete = completion == BlockCompletion::Truncated;
                    let is_refused = completion == BlockCompletion::AfterDamage;
                    call.invalid = is_refused || !call.incomplete && !is_object(&call.arguments);
                }
                self.open.retain(|(other, _)| *other != block);
            }
            EventKind::Markup { .. } => {
                // Closers belong to the call they follow.
                if let Some(call) = self.calls.last_mut()
                    && call.span.end == source.start
                {
                    call.span.end = source.end;
                }
            }
            EventKind::Notice(notice) => {
                let place = notice.block.and_then(|block| self.place(block));
                if let (NoticeCode::AfterDamage, Some(OpenBlock::Call(call))) = (notice.code, place) {
                    self.calls[call].after_damage = true;
                }
                self.notices.push(notice.into_owned());
            }
            _ => {}
        }
    }
}

fn is_object(text: &str) -> bool {
    let is_json = serde_json::from_str::<&serde_json::value::RawValue>(text).is_ok();
    is_json && text.trim_ascii_start().starts_with('{')
}
