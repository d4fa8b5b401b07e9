//! A response for people: text as it comes, reasoning dimmed, calls with indented arguments, usage.
//!
//! A terminal only goes forward, and parallel calls grow side by side. Therefore one block is *live* and shown as it
//! grows; blocks that began after it wait, and are shown when it has ended.

use std::collections::VecDeque;
use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use callweave::accumulator::Accumulator;
use callweave::event::{
    AttachmentKind, BlockCompletion, BlockId, BlockKind, CallKind, DeltaKind, Event, EventKind, EventScope,
    FinishReason, Notice, NoticeCode, Sink,
};
use callweave::json::repair::{RepairVerdict, repair};
use callweave::message::{Message, ToolCall};

use crate::pretty::{PrettyPrinter, visible};
use crate::render::Render;
use crate::report::excerpt;

const DIM: Style = Style::new().dimmed();
const THOUGHT: Style = Style::new().dimmed().italic();
const TEXT: Style = Style::new();
const NAME: Style = AnsiColor::Magenta.on_default().bold();
const GOOD: Style = AnsiColor::Green.on_default();
const WARNING: Style = AnsiColor::Yellow.on_default();
const BAD: Style = AnsiColor::Red.on_default();

/// Columns before the arguments of a call.
const MARGIN: usize = 2;
/// Characters of a value of unknown size that are shown.
const EXCERPT: usize = 160;
/// Characters of an error that are shown.
const ERROR: usize = 400;
/// Notices that are shown.
const NOTICES: usize = 10;

/// The view of a response. See the [module](self).
#[derive(Default)]
pub(crate) struct TerminalView {
    page: PrintedPage,
    live: Option<BlockView>,
    waiting: VecDeque<BlockView>,
    /// The facts reported at the end: usage, finish, notices. It gets no content.
    ledger: Accumulator,
    annotations: usize,
    has_header: bool,
    /// Whether a call was shown that cannot be used.
    has_damaged: bool,
}

struct BlockView {
    id: BlockId,
    choice: u32,
    kind: BlockKind<'static>,
    /// The wire's own name of the block.
    wire_type: String,
    /// For a call its complete argument text, else only the text that is not shown yet.
    text: String,
    /// Whether any reasoning of the block was shown.
    is_shown: bool,
    correction: Option<String>,
    completion: Option<BlockCompletion>,
    pretty: PrettyPrinter,
}

impl<'e> Sink<Event<'e>> for TerminalView {
    fn put(&mut self, event: Event<'e>) {
        let choice = event.choice;
        match event.body {
            EventKind::BlockStart { block, kind, wire_type, .. } => {
                self.start(block, choice, kind.into_owned(), &wire_type)
            }
            EventKind::Delta { block, text, .. } => self.grow(block, &text),
            EventKind::Identity { scope: EventScope::Block(block), id: Some(given), .. } => {
                if let Some(BlockKind::ToolCall { id, .. }) = self.block(block).map(|block| &mut block.kind) {
                    *id = Some(given.into_owned().into());
                }
            }
            EventKind::Correction { block, text } => {
                if let Some(block) = self.block(block) {
                    block.correction = Some(text.into_owned());
                }
            }
            EventKind::BlockEnd { block, completion } => self.end(block, completion),
            EventKind::Error(ref error) => {
                self.header();
                self.page.line(BAD, "upstream error", &excerpt(&error.message, ERROR));
            }
            EventKind::Attachment { kind: AttachmentKind::Annotation, .. } => self.annotations += 1,
            EventKind::Start { .. }
            | EventKind::Usage { .. }
            | EventKind::Finish { .. }
            | EventKind::Notice(_) => {
                self.ledger.put(event);
            }
            EventKind::End => self.finish(),
            _ => {}
        }
    }
}

impl Render for TerminalView {
    fn print(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.page.out.as_bytes());
        self.page.out.clear();
    }

    fn finish(&mut self) {
        let open: Vec<_> = self.live.iter().chain(&self.waiting).map(|block| block.id).collect();
        for block in open {
            self.end(block, BlockCompletion::Truncated);
        }
        let message = self.ledger.take();
        self.footer(&message);
        (self.annotations, self.has_header) = (0, false);
    }
}

impl TerminalView {
    fn block(&mut self, id: BlockId) -> Option<&mut BlockView> {
        self.live.iter_mut().chain(&mut self.waiting).find(|block| block.id == id)
    }

    fn start(&mut self, id: BlockId, choice: u32, kind: BlockKind<'static>, wire_type: &str) {
        self.header();
        let (text, wire_type, pretty) = (String::new(), wire_type.to_owned(), PrettyPrinter::new(MARGIN));
        let block = BlockView {
            id,
            choice,
            kind,
            wire_type,
            text,
            is_shown: false,
            correction: None,
            completion: None,
            pretty,
        };
        if self.live.is_some() {
            return self.waiting.push_back(block);
        }
        block.show_head(&mut self.page);
        self.live = Some(block);
    }

    fn grow(&mut self, id: BlockId, text: &str) {
        match &mut self.live {
            Some(live) if live.id == id => live.show(text, &mut self.page),
            _ => {
                if let Some(block) = self.block(id) {
                    block.text.push_str(text);
                }
            }
        }
    }

    fn end(&mut self, id: BlockId, completion: BlockCompletion) {
        if let Some(block) = self.block(id) {
            block.completion = Some(completion);
        }
        while let Some(live) = self.live.take_if(|live| live.completion.is_some()) {
            self.has_damaged |= live.show_tail(&mut self.page);
            self.live = self.waiting.pop_front();
            if let Some(next) = &mut self.live {
                next.show_head(&mut self.page);
                let text = std::mem::take(&mut next.text);
                if !text.is_empty() {
                    next.show(&text, &mut self.page);
                }
            }
        }
    }

    /// Prints the model and the response's id above everything else.
    fn header(&mut self) {
        if std::mem::replace(&mut self.has_header, true) {
            return;
        }
        let Message { id, model, .. } = self.ledger.message();
        let known: Vec<_> = [model, id].into_iter().flatten().map(|wire_type| printable(wire_type)).collect();
        if !known.is_empty() {
            self.page.styled(DIM, &known.join(" · "));
            self.page.gap();
        }
    }

    /// Prints the finish reason, the usage and the notices.
    fn footer(&mut self, message: &Message) {
        for choice in &message.choices {
            let Some(finish) = &choice.finish else { continue };
            let style = match finish.reason {
                FinishReason::Stop | FinishReason::ToolCalls => GOOD,
                FinishReason::ContentFilter | FinishReason::Error => BAD,
                _ => WARNING,
            };
            self.page.gap();
            if message.choices.len() > 1 {
                self.page.styled(DIM, &format!("choice {}: ", choice.number));
            }
            let reason = finish.reason.to_string();
            self.page.styled(style, &reason);
            if let Some(raw) = finish.raw.as_deref().filter(|raw| *raw != reason) {
                self.page.styled(DIM, &format!(" ({})", printable(raw)));
            }
        }
        let mut facts = usage_facts(message);
        match self.annotations {
            0 => {}
            1 => facts.push("1 annotation".to_owned()),
            count => facts.push(format!("{count} annotations")),
        }
        if !facts.is_empty() {
            match self.page.is_line_empty {
                true => self.page.gap(),
                false => self.page.styled(DIM, " · "),
            }
            self.page.styled(DIM, &facts.join(" · "));
        }
        // A damaged call that was shown says so itself.
        let has_damaged = std::mem::take(&mut self.has_damaged);
        let is_shown = |notice: &&Notice<'_>| has_damaged && notice.code == NoticeCode::MalformedCall;
        let notices: Vec<_> = message.notices.iter().filter(|notice| !is_shown(notice)).collect();
        for notice in notices.iter().take(NOTICES) {
            let detail = match notice.offset {
                0 => notice.detail.to_string(),
                offset => format!("{} (at byte {offset})", notice.detail),
            };
            self.page.line(WARNING, "notice", &detail);
        }
        if let more @ 1.. = notices.len().saturating_sub(NOTICES) {
            self.page.line(DIM, &format!("{more} more notices; --as message has them"), "");
        }
        self.page.end_line();
    }
}

impl BlockView {
    fn show_head(&self, page: &mut PrintedPage) {
        page.gap();
        if self.choice > 0 {
            page.line(DIM, "choice", &self.choice.to_string());
        }
        match &self.kind {
            // Reasoning may stay hidden; its head waits for its text.
            BlockKind::Text | BlockKind::Reasoning(_) => {}
            BlockKind::Refusal => page.line(BAD, "refusal", ""),
            BlockKind::ToolCall { id, name, call, .. } => {
                page.styled(NAME, "▸ ");
                page.styled(NAME, if name.is_empty() { "(no name)" } else { name });
                if let Some(id) = id {
                    page.styled(DIM, &format!("  {}", printable(id)));
                }
                match call {
                    CallKind::Custom => page.styled(DIM, "  custom"),
                    CallKind::Builtin => page.styled(DIM, "  run by the provider"),
                    _ => {}
                }
                page.end_line();
            }
            BlockKind::ToolResult { value, .. } => {
                page.line(DIM, "  result", &excerpt(value.as_str(), EXCERPT));
            }
            BlockKind::Opaque { value } => {
                let label = if self.wire_type.is_empty() { "content" } else { &self.wire_type };
                page.line(DIM, label, &excerpt(value.as_str(), EXCERPT));
            }
            _ => {}
        }
    }

    fn show(&mut self, text: &str, page: &mut PrintedPage) {
        match &self.kind {
            BlockKind::Text | BlockKind::Refusal => page.flowing(TEXT, text),
            BlockKind::Reasoning(_) => {
                if !std::mem::replace(&mut self.is_shown, true) {
                    page.line(DIM, "reasoning", "");
                }
                page.flowing(THOUGHT, text);
            }
            BlockKind::ToolCall { call: CallKind::Custom, .. } => {
                self.text.push_str(text);
                page.flowing(TEXT, text);
            }
            BlockKind::ToolCall { .. } => {
                if self.text.is_empty() {
                    page.out.push_str(&" ".repeat(MARGIN));
                }
                self.text.push_str(text);
                self.pretty.push(text, &mut page.out);
                (page.is_line_empty, page.is_gap) = (false, false);
            }
            // Content that comes complete is in the head.
            _ => {}
        }
    }

    /// Shows what is left of a block that has ended, and says whether it is a call that cannot be used.
    fn show_tail(mut self, page: &mut PrintedPage) -> bool {
        self.pretty.finish();
        if matches!(self.kind, BlockKind::Reasoning(_)) && !self.is_shown {
            page.line(DIM, "reasoning", "(hidden)");
        }
        page.end_line();
        if let Some(text) = self.correction.take() {
            let label = if text.is_empty() { "taken back" } else { "corrected to" };
            page.line(WARNING, label, "");
            self.text.clear();
            if !text.is_empty() {
                self.show(&text, page);
            }
            self.pretty.finish();
            page.end_line();
        }
        let Some((call, invalid)) = self.into_call().and_then(|call| call.invalid().map(|it| (call, it)))
        else {
            return false;
        };
        page.line(BAD, "  ✗", &invalid.detail);
        show_repaired(&call.raw_arguments, page);
        true
    }

    /// The call as a message would have it, if the block is one.
    fn into_call(self) -> Option<ToolCall> {
        let Self { id: block, kind: kind @ BlockKind::ToolCall { .. }, text, .. } = self else {
            return None;
        };
        let mut accumulator = Accumulator::new();
        accumulator.put(Event::new(0, EventKind::block_start(block, kind)));
        let delta = EventKind::Delta { block, kind: DeltaKind::Arguments, text: text.into() };
        accumulator.put(Event::new(0, delta));
        let completion = self.completion.unwrap_or_default();
        accumulator.put(Event::new(0, EventKind::BlockEnd { block, completion }));
        accumulator.message().tool_calls().next().cloned()
    }
}

/// Prints the arguments as a repair would make them.
fn show_repaired(arguments: &str, page: &mut PrintedPage) {
    let repaired = repair(arguments);
    if repaired.verdict != RepairVerdict::Repaired {
        return;
    }
    let count = repaired.changes.len();
    let noun = if count == 1 { "change" } else { "changes" };
    page.line(GOOD, "  ✓", &format!("--repair makes it, with {count} {noun}"));
    page.out.push_str(&" ".repeat(MARGIN));
    let mut pretty = PrettyPrinter::new(MARGIN);
    pretty.push(&repaired.text, &mut page.out);
    pretty.finish();
    (page.is_line_empty, page.is_gap) = (false, false);
    page.end_line();
}

/// The text to print, and the position on the page.
struct PrintedPage {
    out: String,
    /// Whether the line above is empty, or there is none.
    is_gap: bool,
    is_line_empty: bool,
    /// Line ends that count only if more text follows.
    line_ends: usize,
}

impl Default for PrintedPage {
    fn default() -> Self {
        Self { out: String::new(), is_gap: true, is_line_empty: true, line_ends: 0 }
    }
}

impl PrintedPage {
    /// Text in one style, on the line we are on.
    fn styled(&mut self, style: Style, text: &str) {
        let _ = write!(self.out, "{style}{}{style:#}", printable(text));
        self.is_line_empty = false;
        self.is_gap = false;
    }

    /// A line of its own with a label.
    fn line(&mut self, style: Style, label: &str, text: &str) {
        self.end_line();
        self.styled(style, label);
        if !text.is_empty() {
            self.out.push(' ');
            self.styled(TEXT, text);
        }
        self.end_line();
    }

    /// Text that goes on where it stopped. Line ends around it are left out.
    fn flowing(&mut self, style: Style, text: &str) {
        for (at, line) in text.split('\n').enumerate() {
            if at > 0 {
                self.line_ends += 1;
            }
            let line = line.strip_suffix('\r').unwrap_or(line);
            if line.is_empty() {
                continue;
            }
            if !self.is_line_empty {
                self.out.extend(std::iter::repeat_n('\n', self.line_ends));
            }
            self.line_ends = 0;
            self.styled(style, line);
        }
    }

    fn end_line(&mut self) {
        if !self.is_line_empty {
            self.out.push('\n');
        }
        self.is_line_empty = true;
        self.line_ends = 0;
    }

    /// An empty line between the text before and after.
    fn gap(&mut self) {
        self.end_line();
        if !std::mem::replace(&mut self.is_gap, true) {
            self.out.push('\n');
        }
    }
}

fn printable(text: &str) -> String {
    text.chars().map(visible).collect()
}

fn usage_facts(message: &Message) -> Vec<String> {
    let Some(usage) = &message.usage else { return Vec::new() };
    let counters = usage.counters();
    let side = |count: Option<u64>, wire_type: &str, part: Option<u64>, part_word: &str| {
        let count = count?;
        Some(match part.filter(|part| *part > 0) {
            Some(part) => format!("{count} {wire_type} ({part} {part_word})"),
            None => format!("{count} {wire_type}"),
        })
    };
    [
        side(counters.input_tokens, "in", counters.cached_tokens, "cached"),
        side(counters.output_tokens, "out", counters.reasoning_tokens, "reasoning"),
        side(counters.total_tokens, "tokens", None, ""),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(block: u32, kind: BlockKind<'static>) -> EventKind<'static> {
        EventKind::block_start(BlockId(block), kind)
    }

    fn call(name: &'static str) -> BlockKind<'static> {
        BlockKind::ToolCall { id: None, is_made: false, name: name.into(), call: CallKind::Function }
    }

    fn delta(block: u32, text: &'static str) -> EventKind<'static> {
        // The view goes by what the block is.
        EventKind::Delta { block: BlockId(block), kind: DeltaKind::Text, text: text.into() }
    }

    fn end(block: u32) -> EventKind<'static> {
        EventKind::BlockEnd { block: BlockId(block), completion: BlockCompletion::Complete }
    }

    fn shown(bodies: impl IntoIterator<Item = EventKind<'static>>) -> String {
        let mut view = TerminalView::default();
        bodies.into_iter().for_each(|body| view.put(Event::new(0, body)));
        view.finish();
        anstream::adapter::strip_str(&view.page.out).to_string()
    }

    #[test]
    fn blocks_that_grow_side_by_side_are_shown_one_after_the_other() {
        let bodies = [
            start(0, call("a")),
            start(1, call("b")),
            delta(1, "{\"n\""),
            delta(0, "[1,"),
            start(2, BlockKind::Text),
            delta(2, "text"),
            end(2),
            delta(0, "2]"),
            end(0),
            delta(1, ":1}"),
            end(1),
        ];
        let expected = "▸ a\n  [\n    1,\n    2\n  ]\n  ✗ the arguments of a are not a JSON object\n\n\
                        ▸ b\n  {\n    \"n\": 1\n  }\n\ntext\n";
        assert_eq!(shown(bodies), expected);
    }

    #[test]
    fn line_ends_around_text_are_left_out() {
        let bodies =
            [start(0, BlockKind::Text), delta(0, "\n\na\r\n"), delta(0, "\nb\n"), delta(0, "\n"), end(0)];
        assert_eq!(shown(bodies), "a\n\nb\n");
    }

    #[test]
    fn corrections_and_hidden_thoughts_are_told() {
        let correction = EventKind::Correction { block: BlockId(1), text: "whole".into() };
        let withdrawal = EventKind::Correction { block: BlockId(2), text: "".into() };
        let bodies = [
            start(0, BlockKind::Reasoning(Default::default())),
            end(0),
            start(1, BlockKind::Text),
            delta(1, "half"),
            correction,
            end(1),
            start(2, BlockKind::Text),
            delta(2, "a thought"),
            withdrawal,
            end(2),
        ];
        assert_eq!(
            shown(bodies),
            "reasoning (hidden)\n\nhalf\ncorrected to\nwhole\n\na thought\ntaken back\n"
        );
    }

    #[test]
    fn what_the_stream_left_open_is_shown_as_cut() {
        let page = shown([
            start(0, call("a")),
            start(1, BlockKind::Text),
            delta(0, "{\"n\": \""),
            delta(1, "later"),
        ]);
        assert!(page.contains("✗ the call of a was cut off after 7 bytes"), "{page}");
        assert!(page.ends_with("\n\nlater\n"), "{page}");
    }
}
