//! Bytes of an upstream that the client gets as they are, but for frames that need another name or id.
//!
//! Bytes are held to the end of their frame. A frame that names the model by another name than the client's, or a call
//! by an id that the conversation has already, is rewritten alone; every other one passes as it came.

use std::collections::HashMap;
use std::ops::Range;

use crate::json::{JsonKind, Tape, TapeNode, Value};

/// Holds and rewrites frames.
pub(in crate::exchange) struct FrameRewriter {
    pending: Vec<u8>,
    /// The number of pending bytes that end no frame.
    scanned: usize,
    frames: FrameEnds,
    /// The client's name for the model, where the upstream's is another.
    model: Option<String>,
}

/// The ends of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::exchange) enum FrameEnds {
    /// A blank line.
    Events,
    /// The end of their line.
    Lines,
    /// The end of the body.
    Body,
}

/// The members that lead to calls in the protocols' frames. No other is entered: the arguments of a call may be an
/// object, with ids of its own.
const AROUND_CALLS: &[&str] = &[
    "choices",
    "message",
    "delta",
    "tool_calls",
    "content_block",
    "content",
    "response",
    "output",
    "item",
    "candidates",
    "parts",
    "functionCall",
    "steps",
    "step",
];

/// Ids of calls: those of the upstream, and those that the client gets.
pub(in crate::exchange) type ReplacedIds<'i> = &'i HashMap<String, String>;

impl FrameRewriter {
    pub(in crate::exchange) fn new(frames: FrameEnds, model: Option<String>) -> Self {
        Self { pending: Vec::new(), scanned: 0, frames, model }
    }

    /// Takes bytes of the upstream.
    pub(in crate::exchange) fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// The frames that are complete.
    pub(in crate::exchange) fn take(&mut self, ids: ReplacedIds<'_>) -> Vec<u8> {
        let from = self.scanned.saturating_sub(3);
        let ends = |end: &[u8]| {
            let at = self.pending[from..].windows(end.len()).rposition(|window| window == end);
            at.map_or(0, |at| from + at + end.len())
        };
        let end = match self.frames {
            FrameEnds::Events => ends(b"\n\n").max(ends(b"\r\n\r\n")),
            FrameEnds::Lines => ends(b"\n"),
            FrameEnds::Body => 0,
        };
        self.scanned = self.pending.len() - end;
        if end == 0 {
            return Vec::new();
        }
        let rest = self.pending.split_off(end);
        let frames = std::mem::replace(&mut self.pending, rest);
        self.rewritten(frames, ids)
    }

    /// The rest, at the end of the response.
    pub(in crate::exchange) fn finish(&mut self, ids: ReplacedIds<'_>) -> Vec<u8> {
        let rest = std::mem::take(&mut self.pending);
        self.rewritten(rest, ids)
    }

    fn rewritten(&self, bytes: Vec<u8>, ids: ReplacedIds<'_>) -> Vec<u8> {
        if bytes.is_empty() || self.model.is_none() && ids.is_empty() {
            return bytes;
        }
        let Ok(text) = std::str::from_utf8(&bytes) else { return bytes };
        let mut tape = Tape::new();
        let mut changes: Vec<(Range<usize>, String)> = Vec::new();
        let mut look = |at: usize, json: &str| {
            if let Ok(node) = tape.parse(json) {
                self.look(node, ids, &mut |place, new| {
                    changes.push((at + place.start..at + place.end, Value::from(new).to_string()));
                });
            }
        };
        if self.frames == FrameEnds::Body {
            look(0, text);
        } else {
            let mut at = 0;
            for line in text.split_inclusive('\n') {
                let json = line.strip_prefix("data:").unwrap_or(line);
                if json.trim_start().starts_with('{') {
                    look(at + line.len() - json.len(), json.trim_end());
                }
                at += line.len();
            }
        }
        if changes.is_empty() {
            return bytes;
        }
        changes.sort_by_key(|(place, _)| place.start);
        let mut all = String::with_capacity(text.len());
        let mut copied = 0;
        for (place, new) in changes {
            all.push_str(text.get(copied..place.start).unwrap_or_default());
            all.push_str(&new);
            copied = place.end;
        }
        all.push_str(text.get(copied..).unwrap_or_default());
        all.into_bytes()
    }

    /// Finds the names and ids that must be changed in a frame.
    fn look(&self, frame: TapeNode<'_>, ids: ReplacedIds<'_>, put: &mut dyn FnMut(Range<usize>, &str)) {
        let place = |node: TapeNode<'_>| node.start()..node.start() + node.raw().len();
        if let Some(own) = &self.model {
            let answers = [Some(frame), frame.get("message"), frame.get("response")];
            for answer in answers.into_iter().flatten() {
                let names = [answer.get("model"), answer.get("modelVersion")];
                for name in names.into_iter().flatten().filter(|name| name.kind() == JsonKind::String) {
                    put(place(name), own);
                }
            }
        }
        if ids.is_empty() {
            return;
        }
        let mut open = vec![frame];
        while let Some(node) = open.pop() {
            for (key, value) in node.members() {
                let is_id = matches!(key, "id" | "call_id");
                let text = value.str().filter(|_| is_id).map(|text| text.to_cow());
                match text.and_then(|text| ids.get(&*text)) {
                    Some(new) => put(place(value), new),
                    None if AROUND_CALLS.contains(&key) => open.push(value),
                    None => {}
                }
            }
            open.extend(node.elements());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_frames_that_need_it_are_rewritten_in_any_cut() {
        let frames = "event: message_start\ndata:  {\"type\": \"message_start\", \"message\": {\"id\":\"m\",\"model\":\"theirs\"}}\n\n\
            : a comment\n\n\
            data: {\"type\":\"content_block_start\",\"content_block\":{\"type\":\"tool_use\",\"id\":\"call_0\",\"x\":1.0e3}}\r\n\r\n\
            data: {\"delta\": {\"text\": \"the id \\\"call_0\\\" of theirs\", \"odd\":\"\\u0041\"}}\n\n\
            data: {\"delta\": {\"text\": \"call_0\"}}\n\ndata: [DONE]\n\n";
        let expected =
            frames.replace("\"theirs\"", "\"ours\"").replace("\"id\":\"call_0\"", "\"id\":\"new\"");
        let ids = HashMap::from([("call_0".to_owned(), "new".to_owned())]);
        for size in [1, 2, 7, frames.len()] {
            let mut rewrite = FrameRewriter::new(FrameEnds::Events, Some("ours".to_owned()));
            let mut all = Vec::new();
            for piece in frames.as_bytes().chunks(size) {
                rewrite.push(piece);
                all.append(&mut rewrite.take(&ids));
            }
            all.append(&mut rewrite.finish(&ids));
            assert_eq!(String::from_utf8_lossy(&all), expected, "{size}");
        }
        // Arguments belong to the call, whatever they contain.
        for (call, id) in [
            (
                r#"{"content":[{"type":"tool_use","id":"call_0","input":{"id":"call_0","content":[{"id":"call_0"}]}}]}"#,
                27,
            ),
            (
                r#"{"candidates":[{"content":{"parts":[{"functionCall":{"id":"call_0","args":{"id":"call_0"}}}]}}]}"#,
                56,
            ),
            (r#"{"message":{"tool_calls":[{"id":"call_0","function":{"arguments":{"id":"call_0"}}}]}}"#, 31),
            (
                r#"{"output":[{"type":"function_call","call_id":"call_0","id":"fc_0"}],"metadata":{"id":"call_0"}}"#,
                44,
            ),
        ] {
            let mut body = FrameRewriter::new(FrameEnds::Body, None);
            body.push(call.as_bytes());
            let id = call[id..].find("call_0").expect("an id") + id;
            let expected = [&call[..id], "new", &call[id + "call_0".len()..]].concat();
            assert_eq!(String::from_utf8_lossy(&body.finish(&ids)), expected);
        }
        let mut body = FrameRewriter::new(FrameEnds::Body, Some("ours".to_owned()));
        body.push(b"{\"model\" : \"theirs\",\n\n \"choices\": [{\"message\": {\"tool_calls\": [{\"id\": \"call_0\"}]}}]}");
        assert!(body.take(&ids).is_empty());
        let expected =
            "{\"model\" : \"ours\",\n\n \"choices\": [{\"message\": {\"tool_calls\": [{\"id\": \"new\"}]}}]}";
        assert_eq!(String::from_utf8_lossy(&body.finish(&ids)), expected);
    }
}
