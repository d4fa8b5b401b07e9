//! Calls whose parameters are elements with the parameters' own names: `<write_file><path>a</path></write_file>`.
//!
//! Any markup has such tags, so everything must be declared: the tool, every element in it, and the required ones must
//! be there. A value is held up to the closer that what follows fits: another parameter, or the end of the call. Nothing
//! else in it is looked at.

use super::super::spec::{Body, Children};
use super::tags::{TagLen, attribute_of, tag_len};
use super::{Context, Token, leading_space, typed};
use crate::dialect::markers::{Found, Markers};
use crate::event::Completion;
use crate::json::schema::Types;

/// Reads one call.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Reader {
    at: At,
    /// What ends the call.
    close: String,
    /// The parameter that is open, and what ends it.
    key: String,
    value_close: String,
    /// How far the end of its value was looked for.
    seen: usize,
    /// The parameters that have come.
    given: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    #[default]
    Start,
    Children,
    Value,
    /// After a value, at its closer.
    ValueEnd,
    Done,
}

/// What the beginning of a text is, or that more is needed.
enum Begins<T> {
    With(T),
    More,
    No,
}

impl Reader {
    #[expect(clippy::unused_self, reason = "all readers are asked")]
    pub(super) fn is_in_string(&self) -> bool {
        false
    }

    pub(super) fn next(&mut self, text: &str, context: &mut Context<'_>) -> Token {
        let Body::Children(body) = &context.form.form.body else { return Token::Fail };
        match self.at {
            At::Start => self.start(text, body, context),
            At::Children => self.children(text, context),
            At::Value => self.value(text, context),
            At::ValueEnd => {
                self.at = At::Children;
                Token::Markup(self.value_close.len())
            }
            At::Done => Token::Done,
        }
    }

    /// The tag that names the tool.
    fn start(&mut self, text: &str, body: &Children, context: &mut Context<'_>) -> Token {
        let space = leading_space(text);
        if space > 0 {
            return Token::Markup(space);
        }
        let open = if body.call.open.is_empty() { "<" } else { &body.call.open };
        let Some(rest) = text.strip_prefix(open) else {
            return if open.starts_with(text) { context.more_or(Token::Fail) } else { Token::Fail };
        };
        let end = if body.call.end.is_empty() { ">" } else { &body.call.end };
        let ends = Markers::new().with([end], ());
        let len = match tag_len(rest, &ends, body.call.attribute.is_some(), context.is_last) {
            TagLen::Known(len) => len,
            TagLen::More => return Token::More,
            TagLen::Never => return Token::Fail,
        };
        let header = &rest[..len];
        let name = match &body.call.attribute {
            Some(attribute) => attribute_of(header, attribute).unwrap_or_default().trim(),
            None => header.trim().trim_matches(['"', '\'']),
        };
        if !context.tools.contains(name) {
            return Token::Fail;
        }
        self.close = match body.call_close.as_str() {
            "" => format!("</{name}>"),
            close => close.to_owned(),
        };
        self.given.clear();
        self.at = At::Children;
        context.named(open.len() + len + end.len(), name)
    }

    /// Between parameters.
    fn children(&mut self, text: &str, context: &mut Context<'_>) -> Token {
        let space = leading_space(text);
        if space > 0 {
            return Token::Markup(space);
        }
        match self.parameter(text, context) {
            Begins::More if !context.is_last => return Token::More,
            Begins::More if is_marked(context) => return self.finish(0, Completion::Cut, context),
            Begins::More => return Token::Fail,
            Begins::With(key) => {
                let key = key.to_owned();
                self.value_close = format!("</{key}>");
                self.given.push(key.clone());
                (self.at, self.seen) = (At::Value, 0);
                let token = context.key(key.len() + 2, self.given.len() == 1, &key);
                self.key = key;
                return token;
            }
            Begins::No => {}
        }
        let len = match self.end_len(text, context) {
            None => return Token::More,
            Some(None) => return Token::Fail,
            Some(Some(len)) => len,
        };
        if !context.tools.has_required(context.name, &self.given) {
            return Token::Fail;
        }
        self.finish(len, Completion::Whole, context)
    }

    fn finish(&mut self, len: usize, completion: Completion, context: &mut Context<'_>) -> Token {
        self.at = At::Done;
        context.ended = Some(completion);
        if self.given.is_empty() { Token::NoArguments(len) } else { context.made(len, "}") }
    }

    /// The length of what ends the call at the start of `text`: its closer, or nothing where that of the form follows.
    /// The outer nothing: more text is needed.
    #[expect(clippy::option_option, reason = "what is not known yet and what is not there differ")]
    fn end_len(&self, text: &str, context: &Context<'_>) -> Option<Option<usize>> {
        if begins_with(&self.close, text, context.is_last)? {
            return Some(Some(self.close.len()));
        }
        match context.form.closers.starting(text, context.is_last) {
            Found::Perhaps(_) => None,
            Found::Marker { .. } => Some(Some(0)),
            Found::Nothing => Some(None),
        }
    }

    /// The value, once its end is known.
    fn value(&mut self, text: &str, context: &mut Context<'_>) -> Token {
        loop {
            let found =
                Markers::new().with([&self.value_close], ()).find(&text[self.seen..], context.is_last);
            match found {
                Found::Marker { at, .. } => self.seen += at,
                Found::Perhaps(at) => {
                    self.seen += at;
                    return Token::More;
                }
                Found::Nothing => {
                    self.seen = text.len();
                    match context.is_last {
                        false => return Token::More,
                        true if is_marked(context) => break,
                        true => return Token::Fail,
                    }
                }
            }
            match self.fits(&text[self.seen + self.value_close.len()..], context) {
                None => return Token::More,
                Some(true) => break,
                Some(false) => self.seen += 1,
            }
        }
        let value = &text[..self.seen];
        let schema = context.tools.schema(context.name);
        let types = schema.map_or(Types::ANY, |schema| schema.property(&self.key));
        context.scratch.clear();
        typed::convert(on_lines(value), types, context.scratch);
        self.at = if self.seen < text.len() { At::ValueEnd } else { At::Children };
        Token::Converted(self.seen)
    }

    /// Whether what follows the closer of a value is what stands there: another parameter, or the end of the call and
    /// behind it no further end. Nothing: more text is needed.
    fn fits(&self, rest: &str, context: &Context<'_>) -> Option<bool> {
        let rest = &rest[leading_space(rest)..];
        match self.parameter(rest, context) {
            Begins::With(_) => return Some(true),
            Begins::More if !context.is_last => return None,
            Begins::More => return Some(rest.is_empty() && is_marked(context)),
            Begins::No => {}
        }
        let Some(len) = self.end_len(rest, context)? else { return Some(false) };
        let rest = &rest[len..];
        let rest = &rest[leading_space(rest)..];
        let is_closed_again = begins_with(&self.value_close, rest, context.is_last)?
            || begins_with(&self.close, rest, context.is_last)?;
        Some(!is_closed_again)
    }

    /// The parameter whose element `text` begins with, if the tool has it and it was not given before.
    fn parameter<'t>(&self, text: &'t str, context: &Context<'_>) -> Begins<&'t str> {
        let Some(rest) = text.strip_prefix('<') else {
            return if text.is_empty() { Begins::More } else { Begins::No };
        };
        let is_free = |key: &str| !self.given.iter().any(|given| given == key);
        match rest.split_once('>') {
            Some((key, _)) if is_free(key) && context.tools.has_parameter(context.name, key) => {
                Begins::With(key)
            }
            Some(_) => Begins::No,
            None if context.tools.may_begin_parameter(context.name, rest) => Begins::More,
            None => Begins::No,
        }
    }
}

/// Whether more than the tool's name as a tag says that it is a call: then one that is cut is told.
fn is_marked(context: &Context<'_>) -> bool {
    let form = &context.form.form;
    let is_named = matches!(&form.body, Body::Children(body) if !body.call.open.is_empty());
    is_named || !form.open.is_empty()
}

/// Whether `text` begins with a marker. Nothing: more text is needed.
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
