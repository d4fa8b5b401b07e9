//! Calls of a Chat stream in one chunk each, for clients that take no pieces of calls.
//!
//! A call's first chunk has its name, and the following ones its arguments. Here the first is kept until the call ends,
//! and then written with all arguments. Chunks without calls pass at once.

use crate::encode::Encoder;
use crate::event::{BlockId, BlockKind, Event, EventKind};
use crate::json::Tape;

/// The arguments in the first chunk of a call.
const NO_ARGUMENTS: &str = r#""arguments":"""#;

/// The calls that are open.
#[derive(Default)]
pub(super) struct CompleteCalls {
    open: Vec<OpenCall>,
    scratch: Vec<u8>,
}

struct OpenCall {
    choice: u32,
    block: BlockId,
    chunk: String,
    arguments: String,
}

impl CompleteCalls {
    /// Encodes an event.
    pub(super) fn encode(&mut self, encoder: &mut Encoder, event: &Event<'_>, out: &mut Vec<u8>) {
        let block = match &event.body {
            EventKind::BlockStart { block, kind: BlockKind::ToolCall { .. }, .. } => {
                self.start(encoder, event, *block, out);
                return;
            }
            EventKind::Delta { block, .. } | EventKind::BlockEnd { block, .. } => *block,
            _ => return encoder.encode(event, out),
        };
        let at = self.open.iter().position(|call| call.choice == event.choice && call.block == block);
        let Some(at) = at else { return encoder.encode(event, out) };
        self.scratch.clear();
        encoder.encode(event, &mut self.scratch);
        append_arguments(&self.scratch, &mut self.open[at].arguments);
        if matches!(event.body, EventKind::BlockEnd { .. }) {
            out.extend_from_slice(self.open.remove(at).complete().as_bytes());
        }
    }

    fn start(&mut self, encoder: &mut Encoder, event: &Event<'_>, block: BlockId, out: &mut Vec<u8>) {
        self.scratch.clear();
        encoder.encode(event, &mut self.scratch);
        match std::str::from_utf8(&self.scratch) {
            Ok(chunk) if chunk.contains(NO_ARGUMENTS) => self.open.push(OpenCall {
                choice: event.choice,
                block,
                chunk: chunk.to_owned(),
                arguments: String::new(),
            }),
            // A call that the client does not get, or the older form.
            _ => out.extend_from_slice(&self.scratch),
        }
    }
}

impl OpenCall {
    /// The call's only chunk.
    fn complete(self) -> String {
        let arguments = serde_json::Value::String(self.arguments).to_string();
        self.chunk.replacen(NO_ARGUMENTS, &format!(r#""arguments":{arguments}"#), 1)
    }
}

/// Appends the arguments that chunks have.
fn append_arguments(chunks: &[u8], arguments: &mut String) {
    let mut tape = Tape::new();
    for line in std::str::from_utf8(chunks).unwrap_or_default().lines() {
        let Some(chunk) = line.strip_prefix("data: ").and_then(|data| tape.parse(data).ok()) else {
            continue;
        };
        let choice = chunk.get("choices").and_then(|choices| choices.elements().next());
        let calls = choice.and_then(|choice| choice.get("delta")?.get("tool_calls"));
        let call = calls.and_then(|calls| calls.elements().next()).and_then(|call| call.get("function"));
        if let Some(piece) = call.and_then(|call| call.get("arguments")?.str()) {
            arguments.push_str(&piece.to_cow());
        }
    }
}
