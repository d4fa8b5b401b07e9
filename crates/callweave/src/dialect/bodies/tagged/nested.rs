//! Values that hold further values, each in a tag of a parameter: objects by name, lists without.

use super::super::super::table::minicpm5::entities::unescape_into;
use super::super::tags::attribute_of;
use super::super::{BodyContext, BodyToken};
use super::frame::TagMarkers;
use super::{TaggedReader, TaggedState};
use crate::json::{JsonScanner, ScanStatus, escape_into};

impl TaggedReader {
    /// A value of values is passed on once it has come to its end.
    pub(super) fn nested(
        &mut self,
        text: &str,
        frame: &TagMarkers,
        context: &mut BodyContext<'_>,
    ) -> BodyToken {
        match self.nested_end(text, frame) {
            Some(end) => {
                self.at = TaggedState::ValueEnd;
                context.scratch.clear();
                convert(&text[..end], frame, self.is_list, context.scratch);
                BodyToken::Converted(end)
            }
            None if !context.is_last => BodyToken::More,
            None => {
                self.at = TaggedState::Inside;
                context.made(text.len(), "null")
            }
        }
    }

    /// Where the closer of the value begins that is open; how far was looked is remembered.
    fn nested_end(&mut self, text: &str, frame: &TagMarkers) -> Option<usize> {
        let (open, close) = (frame.body.parameter.open.as_str(), frame.body.value_close.as_str());
        while let Some(at) = text[self.seen..].find('<').map(|at| self.seen + at) {
            let rest = &text[at..];
            self.seen = at;
            if rest.starts_with(close) {
                if self.depth == 0 {
                    return Some(at);
                }
                self.depth -= 1;
            } else if rest.starts_with(open) {
                self.depth += 1;
            } else if open.starts_with(rest) || close.starts_with(rest) {
                return None;
            }
            self.seen = at + 1;
        }
        self.seen = text.len();
        None
    }
}

/// Writes values as JSON: an object or a list.
fn convert(text: &str, frame: &TagMarkers, is_list: bool, out: &mut String) {
    let (open, close) = (frame.body.parameter.open.as_str(), frame.body.value_close.as_str());
    let attribute = |header, name: &Option<String>| attribute_of(header, name.as_deref().unwrap_or_default());
    // Whether each is a list, and how many values it has.
    let mut stack = vec![(is_list, 0)];
    out.push(if is_list { '[' } else { '{' });
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        rest = &rest[at..];
        if let Some(behind) = rest.strip_prefix(close) {
            rest = behind;
            if stack.len() > 1
                && let Some((is_list, _)) = stack.pop()
            {
                out.push(if is_list { ']' } else { '}' });
            }
            continue;
        }
        let Some((header, behind)) = rest.strip_prefix(open).and_then(|rest| rest.split_once('>')) else {
            rest = &rest[1..];
            continue;
        };
        rest = behind;
        if let Some((is_list, count)) = stack.last_mut() {
            out.push_str(if *count > 0 { ", " } else { "" });
            *count += 1;
            if !*is_list {
                out.push('"');
                escape_into(attribute(header, &frame.body.parameter.attribute).unwrap_or_default(), out);
                out.push_str("\": ");
            }
        }
        match attribute(header, &frame.body.type_attribute) {
            Some(kind @ ("dict" | "list")) => {
                stack.push((kind == "list", 0));
                out.push(if kind == "list" { '[' } else { '{' });
            }
            kind => {
                let (value, behind) = rest.split_once(close).unwrap_or((rest, ""));
                let mut scanner = JsonScanner::new();
                scanner.push(value.trim_ascii());
                scanner.finish();
                if kind == Some("json") && scanner.status() == ScanStatus::Complete {
                    out.push_str(value.trim_ascii());
                } else {
                    let mut plain = String::new();
                    unescape_into(value, &mut plain);
                    out.push('"');
                    escape_into(&plain, out);
                    out.push('"');
                }
                rest = behind;
            }
        }
    }
    while let Some((is_list, _)) = stack.pop() {
        out.push(if is_list { ']' } else { '}' });
    }
}
