//! The way back: what was changed in a request so that the provider takes it is undone in the answer.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::Written;
use crate::event::{BlockId, BlockKind, Body, CallKind, DeltaKind, Event, EventSink};
use crate::json::{Container, Scanner, Status, Token, Visit};

/// A stage that gives calls the names that the client knows, and calls of free-text tools their free text.
///
/// It stands before the stages that number and close, or anywhere after them. Free text flows while it comes.
///
/// ```
/// use callweave::event::Event;
/// use callweave::pipeline::Decoder;
/// use callweave::protocol::Protocol;
/// use callweave::request::{RequestOptions, Undo};
/// use callweave::{Accumulator, Value};
///
/// let responses = Protocol::named("openai-responses").expect("a protocol of that name");
/// let body: Value = r#"{"input": "fix it", "tools": [{"type": "custom", "name": "apply_patch"}]}"#.parse()?;
/// let request = responses.read_request(body)?;
/// let anthropic = Protocol::named("anthropic-messages").expect("a protocol of that name");
/// let written = anthropic.write_request(&request, &RequestOptions::default())?;
///
/// let answer = r#"{"type": "message", "role": "assistant", "stop_reason": "tool_use", "content": [
///     {"type": "tool_use", "id": "t", "name": "apply_patch", "input": {"input": "*** Begin Patch\n"}}]}"#;
/// let (mut undo, mut message) = (Undo::new(&written), Accumulator::new());
/// let mut decoder = Decoder::detect();
/// decoder.push(answer.as_bytes(), &mut |event: Event<'_>| undo.push(event, &mut message))?;
/// decoder.finish(&mut |event: Event<'_>| undo.push(event, &mut message))?;
/// let call = message.message().tool_calls().next().expect("a call").clone();
/// assert_eq!(call.arguments(), "*** Begin Patch\n");
/// # Ok::<(), callweave::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Undo {
    names: HashMap<String, String>,
    wrapped: HashSet<String>,
    /// Calls whose free text is unwrapped.
    open: HashMap<BlockId, Unwrap>,
}

impl Undo {
    /// Undoes what writing this request has changed.
    pub fn new(written: &Written) -> Self {
        Self {
            names: written.names.iter().cloned().collect(),
            wrapped: written.wrapped.iter().cloned().collect(),
            open: HashMap::new(),
        }
    }

    /// Takes the next event.
    pub fn push(&mut self, event: Event<'_>, sink: &mut EventSink<'_>) {
        let mut event = event;
        match &mut event.body {
            Body::BlockStart { block, kind: BlockKind::ToolCall { name, call, .. }, .. } => {
                if *call == CallKind::Function && self.wrapped.contains(name.as_ref()) {
                    *call = CallKind::Custom;
                    self.open.insert(*block, Unwrap::default());
                }
                if let Some(own) = self.names.get(name.as_ref()) {
                    *name = Cow::Owned(own.clone());
                }
            }
            Body::Delta { block, kind: DeltaKind::Arguments, text } => {
                if let Some(unwrap) = self.open.get_mut(block) {
                    unwrap.push(text);
                    *text = Cow::Owned(unwrap.take());
                    if text.is_empty() {
                        return;
                    }
                }
            }
            Body::Correction { block, text } => {
                if let Some(unwrap) = self.open.get_mut(block) {
                    *unwrap = Unwrap::default();
                    unwrap.push(text);
                    unwrap.finish();
                    *text = Cow::Owned(unwrap.take());
                }
            }
            Body::BlockEnd { block, .. } => {
                let block = *block;
                if let Some(mut unwrap) = self.open.remove(&block) {
                    unwrap.finish();
                    let text = unwrap.take();
                    if !text.is_empty() {
                        let body = Body::Delta { block, kind: DeltaKind::Arguments, text: Cow::Owned(text) };
                        sink.put(Event { choice: event.choice, source: event.source, body });
                    }
                }
            }
            _ => {}
        }
        sink.put(event);
    }
}

/// Finds the text in `{"input": "…"}` while it grows. Models also write another key, the text alone, or no JSON at all:
/// the first string counts, and what is no JSON is the text itself.
#[derive(Debug, Default)]
struct Unwrap {
    scanner: Option<Scanner>,
    is_raw: bool,
    /// What came before any string.
    held: String,
    found: Found,
}

/// What the scanner meets.
#[derive(Debug, Default)]
struct Found {
    depth: usize,
    is_inside: bool,
    is_over: bool,
    /// The first half of a character that is written as two.
    half: Option<u16>,
    text: String,
}

impl Unwrap {
    fn push(&mut self, text: &str) {
        if self.is_raw {
            self.found.text.push_str(text);
            return;
        }
        if !self.found.is_inside && !self.found.is_over {
            self.held.push_str(text);
        }
        let scanner = self.scanner.get_or_insert_with(Scanner::new);
        let before = self.found.text.len();
        scanner.push_to(text, &mut self.found);
        let has_string = self.found.is_inside || self.found.is_over;
        if scanner.status() == Status::Broken && !has_string {
            self.is_raw = true;
            self.found.text.truncate(before);
            self.found.text.push_str(&std::mem::take(&mut self.held));
        } else if has_string {
            self.held.clear();
        }
    }

    /// Nothing more comes. Without any string all that came is the text, but for an empty object.
    fn finish(&mut self) {
        if !self.is_raw && !self.found.is_over && !self.found.is_inside {
            let held = std::mem::take(&mut self.held);
            if held.split_whitespace().collect::<String>() != "{}" {
                self.found.text.push_str(&held);
            }
        }
        self.found.settle();
    }

    fn take(&mut self) -> String {
        std::mem::take(&mut self.found.text)
    }
}

impl Found {
    /// A half of a character that nothing completes.
    fn settle(&mut self) {
        if self.half.take().is_some() {
            self.text.push(char::REPLACEMENT_CHARACTER);
        }
    }
}

impl Visit for Found {
    fn open(&mut self, _: Container, _: usize) {
        self.depth += 1;
    }

    fn close(&mut self, _: Container, _: usize) {
        self.depth = self.depth.saturating_sub(1);
    }

    fn begin(&mut self, token: Token, _: usize) {
        self.is_inside = token == Token::String && self.depth <= 1 && !self.is_over;
    }

    fn text(&mut self, run: &str) {
        if self.is_inside {
            self.settle();
            self.text.push_str(run);
        }
    }

    fn escape(&mut self, unit: u16) {
        if !self.is_inside {
            return;
        }
        let half = self.half.take();
        match (half, unit) {
            (Some(high), 0xdc00..=0xdfff) => {
                let pair = char::decode_utf16([high, unit]).next().and_then(Result::ok);
                self.text.push(pair.unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            (half, unit) => {
                self.half = half;
                self.settle();
                match char::from_u32(u32::from(unit)) {
                    Some(character) => self.text.push(character),
                    None if unit < 0xdc00 => self.half = Some(unit),
                    None => self.text.push(char::REPLACEMENT_CHARACTER),
                }
            }
        }
    }

    fn end(&mut self, _: Token, _: usize) {
        if self.is_inside {
            self.settle();
            self.is_inside = false;
            self.is_over = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unwrapped(pieces: &[&str]) -> String {
        let mut unwrap = Unwrap::default();
        let mut whole = String::new();
        for piece in pieces {
            unwrap.push(piece);
            whole.push_str(&unwrap.take());
        }
        unwrap.finish();
        whole + &unwrap.take()
    }

    #[test]
    fn free_text_is_found_in_any_cut() {
        let cases = [
            (r#"{"input": "a\n\"b\" \ud83d\ude00 é"}"#, "a\n\"b\" 😀 é"),
            (r#" {"patch":"x","other":"y"} "#, "x"),
            (r#""alone""#, "alone"),
            ("*** Begin Patch\n{x}", "*** Begin Patch\n{x}"),
            (r#"{"n": 5}"#, r#"{"n": 5}"#),
            ("{}", ""),
            (r#"{"input": "cut"#, "cut"),
            (r#"{"input": "half \ud83d"#, "half \u{fffd}"),
        ];
        for (text, expected) in cases {
            assert_eq!(unwrapped(&[text]), expected, "{text}");
            for cut in (0..text.len()).filter(|cut| text.is_char_boundary(*cut)) {
                let (head, tail) = text.split_at(cut);
                assert_eq!(unwrapped(&[head, tail]), expected, "{text} cut at {cut}");
            }
        }
    }

    #[test]
    fn free_text_flows() {
        let mut unwrap = Unwrap::default();
        unwrap.push(r#"{"input": "be"#);
        assert_eq!(unwrap.take(), "be");
        unwrap.push("gin");
        assert_eq!(unwrap.take(), "gin");
    }
}
