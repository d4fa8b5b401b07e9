//! Calls whose parameters are elements with the parameters' own names: `<write_file><path>a</path></write_file>`.
//!
//! Any markup has such tags, so everything must be declared: the tool, every element in it, and the required ones must
//! be there. A value is held up to the closer that the following text fits: another parameter, or the end of the call.
//! Nothing else in it is looked at.

use super::super::spec::{CallBody, ChildrenBody};
use super::tags::{TagLen, attribute_of, tag_len};
use super::{BodyContext, BodyToken, leading_space, typed};
use crate::dialect::markers::{MarkerMatch, MarkerSet};
use crate::event::BlockCompletion;
use crate::json::schema::TypeSet;

/// Reads one call.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct ChildrenReader {
    at: ChildrenState,
    /// The closing tag of the call.
    close: String,
    /// The open parameter, and its closing tag.
    key: String,
    value_close: String,
    /// How far the end of its value was looked for.
    seen: usize,
    /// The parameters that were read.
    given: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ChildrenState {
    #[default]
    Start,
    Children,
    Value,
    /// After a value, at its closer.
    ValueEnd,
    Done,
}

/// The result of matching the beginning of a text; `More` if more text is needed.
enum PrefixMatch<T> {
    With(T),
    More,
    No,
}

impl ChildrenReader {
    #[expect(clippy::unused_self, reason = "all readers are asked")]
    pub(super) fn is_in_string(&self) -> bool {
        false
    }

    pub(super) fn next(&mut self, text: &str, context: &mut BodyContext<'_>) -> BodyToken {
        let CallBody::Children(body) = &context.form.form.body else { return BodyToken::Fail };
        match self.at {
            ChildrenState::Start => self.start(text, body, context),
            ChildrenState::Children => self.children(text, context),
            ChildrenState::Value => self.value(text, context),
            ChildrenState::ValueEnd => {
                self.at = ChildrenState::Children;
                BodyToken::Markup(self.value_close.len())
            }
            ChildrenState::Done => BodyToken::Done,
        }
    }

    /// The tag that names the tool.
    fn start(&mut self, text: &str, body: &ChildrenBody, context: &mut BodyContext<'_>) -> BodyToken {
        let space = leading_space(text);
        if space > 0 {
            return BodyToken::Markup(space);
        }
        let open = if body.call.open.is_empty() { "<" } else { &body.call.open };
        let Some(rest) = text.strip_prefix(open) else {
            return if open.starts_with(text) { context.more_or(BodyToken::Fail) } else { BodyToken::Fail };
        };
        let end = if body.call.end.is_empty() { ">" } else { &body.call.end };
        let ends = MarkerSet::new().with([end], ());
        let len = match tag_len(rest, &ends, body.call.attribute.is_some(), context.is_last) {
            TagLen::Known(len) => len,
            TagLen::More => return BodyToken::More,
            TagLen::Never => return BodyToken::Fail,
        };
        let header = &rest[..len];
        let name = match &body.call.attribute {
            Some(attribute) => attribute_of(header, attribute).unwrap_or_default().trim(),
            None => header.trim().trim_matches(['"', '\'']),
        };
        if !context.tools.contains(name) {
            return BodyToken::Fail;
        }
        self.close = match body.call_close.as_str() {
            "" => format!("</{name}>"),
            close => close.to_owned(),
        };
        self.given.clear();
        self.at = ChildrenState::Children;
        context.named(open.len() + len + end.len(), name)
    }

    /// Between parameters.
    fn children(&mut self, text: &str, context: &mut BodyContext<'_>) -> BodyToken {
        let space = leading_space(text);
        if space > 0 {
            return BodyToken::Markup(space);
        }
        match self.parameter(text, context) {
            PrefixMatch::More if !context.is_last => return BodyToken::More,
            PrefixMatch::More if is_marked(context) => {
                return self.finish(0, BlockCompletion::Truncated, context);
            }
            PrefixMatch::More => return BodyToken::Fail,
            PrefixMatch::With(key) => {
                let key = key.to_owned();
                self.value_close = format!("</{key}>");
                self.given.push(key.clone());
                (self.at, self.seen) = (ChildrenState::Value, 0);
                let token = context.key(key.len() + 2, self.given.len() == 1, &key);
                self.key = key;
                return token;
            }
            PrefixMatch::No => {}
        }
        let len = match self.end_len(text, context) {
            None => return BodyToken::More,
            Some(None) => return BodyToken::Fail,
            Some(Some(len)) => len,
        };
        if !context.tools.has_required(context.name, &self.given) {
            return BodyToken::Fail;
        }
        self.finish(len, BlockCompletion::Complete, context)
    }

    fn finish(
        &mut self,
        len: usize,
        completion: BlockCompletion,
        context: &mut BodyContext<'_>,
    ) -> BodyToken {
        self.at = ChildrenState::Done;
        context.ended = Some(completion);
        if self.given.is_empty() { BodyToken::NoArguments(len) } else { context.made(len, "}") }
    }

    /// Returns the length of the call's end at the start of `text`: its closer, or 0 where that of the form follows.
    /// The outer `None`: more text is needed.
    #[expect(clippy::option_option, reason = "what is not known yet and what is not there differ")]
    fn end_len(&self, text: &str, context: &BodyContext<'_>) -> Option<Option<usize>> {
        if begins_with(&self.close, text, context.is_last)? {
            return Some(Some(self.close.len()));
        }
        match context.form.closers.starting(text, context.is_last) {
            MarkerMatch::Perhaps(_) => None,
            MarkerMatch::Marker { .. } => Some(Some(0)),
            MarkerMatch::Nothing => Some(None),
        }
    }

    /// The value, once its end is known.
    fn value(&mut self, text: &str, context: &mut BodyContext<'_>) -> BodyToken {
        loop {
            let found =
                MarkerSet::new().with([&self.value_close], ()).find(&text[self.seen..], context.is_last);
            match found {
                MarkerMatch::Marker { at, .. } => self.seen += at,
                MarkerMatch::Perhaps(at) => {
                    self.seen += at;
                    return BodyToken::More;
                }
                MarkerMatch::Nothing => {
                    self.seen = text.len();
                    match context.is_last {
                        false => return BodyToken::More,
                        true if is_marked(context) => break,
                        true => return BodyToken::Fail,
                    }
                }
            }
            match self.fits(&text[self.seen + self.value_close.len()..], context) {
                None => return BodyToken::More,
                Some(true) => break,
                Some(false) => self.seen += 1,
            }
        }
        let value = &text[..self.seen];
        let schema = context.tools.schema(context.name);
        let types = schema.map_or(TypeSet::ANY, |schema| schema.property(&self.key));
        context.scratch.clear();
        typed::convert(on_lines(value), types, context.scratch);
        self.at = if self.seen < text.len() { ChildrenState::ValueEnd } else { ChildrenState::Children };
        BodyToken::Converted(self.seen)
    }

    /// Whether the text behind the closer of a value fits: another parameter, or the end of the call and behind it no
    /// further end. `None`: more text is needed.
    fn fits(&self, rest: &str, context: &BodyContext<'_>) -> Option<bool> {
        let rest = &rest[leading_space(rest)..];
        match self.parameter(rest, context) {
            PrefixMatch::With(_) => return Some(true),
            PrefixMatch::More if !context.is_last => return None,
            PrefixMatch::More => return Some(rest.is_empty() && is_marked(context)),
            PrefixMatch::No => {}
        }
        let Some(len) = self.end_len(rest, context)? else { return Some(false) };
        let rest = &rest[len..];
        let rest = &rest[leading_space(rest)..];
        let is_closed_again = begins_with(&self.value_close, rest, context.is_last)?
            || begins_with(&self.close, rest, context.is_last)?;
        Some(!is_closed_again)
    }

    /// The parameter whose element `text` begins with, if the tool has it and it was not given before.
    fn parameter<'t>(&self, text: &'t str, context: &BodyContext<'_>) -> PrefixMatch<&'t str> {
        let Some(rest) = text.strip_prefix('<') else {
            return if text.is_empty() { PrefixMatch::More } else { PrefixMatch::No };
        };
        let is_free = |key: &str| !self.given.iter().any(|given| given == key);
        match rest.split_once('>') {
            Some((key, _)) if is_free(key) && context.tools.has_parameter(context.name, key) => {
                PrefixMatch::With(key)
            }
            Some(_) => PrefixMatch::No,
            None if context.tools.may_begin_parameter(context.name, rest) => PrefixMatch::More,
            None => PrefixMatch::No,
        }
    }
}

/// Whether more than the tool's name as a tag says that it is a call: then a truncated one is emitted.
fn is_marked(context: &BodyContext<'_>) -> bool {
    let form = &context.form.form;
    let is_named = matches!(&form.body, CallBody::Children(body) if !body.call.open.is_empty());
    is_named || !form.open.is_empty()
}

/// Whether `text` begins with a marker. `None`: more text is needed.
fn begins_with(marker: &str, text: &str, is_last: bool) -> Option<bool> {
    match text.starts_with(marker) {
        false if !is_last && marker.starts_with(text) => None,
        begins => Some(begins),
    }
}

/// A value without the line breaks that belong to its tags, where it stands on lines of its own.
fn on_lines(value: &str) -> &str {
    let inner = value.strip_prefix("\r\n").or_else(|| value.strip_prefix('\n'));
    let strip_end = |inner: &'_ str| -> Option<usize> {
        inner.strip_suffix("\r\n").or_else(|| inner.strip_suffix('\n')).map(str::len)
    };
    match inner {
        Some(inner) => strip_end(inner).map_or(inner, |len| &inner[..len]),
        None => value,
    }
}
