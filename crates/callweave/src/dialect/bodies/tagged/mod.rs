//! Calls with every parameter in a tag of its own, its value written raw.
//!
//! Values become JSON text as they come: strings are escaped piece by piece; a value whose type is not
//! certain is held only as long as it may still be something else than a string.

mod end;
mod frame;
mod value;

use self::frame::Inside;
use super::super::markers::Found;
use super::super::spec::{Tagged, ValueTypes};
use super::super::table;
use super::literal::Literal;
use super::tags::{TagLen, attribute_of, tag_len, unescape_into};
use super::value::{Progress, Value};
use super::{Context, Token, key_into, leading_space, typed};
use crate::event::Completion;
use crate::json::schema::Types;

pub(in super::super) use self::frame::Frame;

/// A line break that a model spelled out; between tags it is one.
const WRITTEN_BREAK: &str = "\\n";

/// Reads one call.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Reader {
    at: At,
    key: String,
    types: Option<Types>,
    kind: Kind,
    literal: Option<Literal>,
    value: Value,
    /// How far a held value was looked at.
    seen: usize,
    looked: end::Looked,
    /// Whether a line break before the closer belongs to the frame.
    trims: bool,
    /// Whether the parameter may hold all arguments as one object.
    wraps: bool,
    /// What a held value may still become.
    prober: typed::Prober,
    /// The byte before the text in front, where that is part of a value; a line break at its start.
    last: u8,
    count: usize,
    was_odd: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    #[default]
    Start,
    Header,
    HeaderEnd {
        closes_itself: bool,
    },
    Inside,
    /// In the tag of a parameter.
    Key,
    KeyEnd,
    /// Between a parameter's name and its value.
    ValueOpen,
    /// At the start of a value.
    ValueStart,
    Value,
    Cdata,
    /// After the value, at its closer.
    ValueEnd,
    /// Arguments as one JSON object.
    Json,
    Close,
    /// Among parameters that come too late.
    Surplus,
    Over(Completion),
    Done,
}

/// How the value that is being read is passed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    /// As a string, piece by piece.
    #[default]
    Text,
    /// As a literal, piece by piece.
    Literal,
    /// When it is complete.
    Held,
}

impl Reader {
    pub(super) fn of_name() -> Self {
        Self { at: At::Header, ..Self::default() }
    }

    #[inline]
    pub(super) fn is_in_string(&self) -> bool {
        self.at == At::Value && self.kind == Kind::Text
    }

    /// Data came that is no line break.
    #[inline]
    pub(super) fn leave_line_start(&mut self) {
        self.last = 0;
    }

    #[inline]
    pub(super) fn next(&mut self, text: &str, body: &Tagged, context: &mut Context<'_>) -> Token {
        let Some(frame) = &context.form.frame else { return Token::Fail };
        match self.at {
            At::Value => self.read_value(text, body, frame, context),
            At::Start => self.start(text, body, frame, context),
            At::Header => self.header(text, body, frame, context),
            At::HeaderEnd { closes_itself } => self.header_end(closes_itself, text, frame, context),
            At::Inside => self.inside(text, frame, context),
            At::Key => self.key(text, body, frame, context),
            At::KeyEnd => self.key_end(text, body, frame),
            At::ValueOpen => self.value_open(text, frame, context),
            At::ValueStart => self.value_start(text, body, frame, context),
            At::Cdata => self.cdata(text, context),
            At::ValueEnd => self.value_end(text, frame, context),
            At::Json => self.json(text, context),
            At::Close => self.close(text, frame, context),
            At::Surplus => self.surplus(text, frame, context),
            At::Over(completion) => {
                self.at = At::Done;
                Token::End(completion)
            }
            At::Done => Token::Done,
        }
    }

    fn start(&mut self, text: &str, body: &Tagged, frame: &Frame, context: &mut Context<'_>) -> Token {
        let space = leading_space(text);
        if space > 0 {
            return Token::Markup(space);
        }
        if text.is_empty() {
            return if context.is_last { Token::Fail } else { Token::More };
        }
        match frame.call_open.starting(text, context.is_last) {
            Found::Marker { len, .. } => {
                self.at = At::Header;
                Token::Markup(len)
            }
            Found::Perhaps(_) => Token::More,
            Found::Nothing if body.call.open.is_empty() => {
                self.at = At::Header;
                self.header(text, body, frame, context)
            }
            Found::Nothing => Token::Fail,
        }
    }

    /// The tag with the name.
    fn header(&mut self, text: &str, body: &Tagged, frame: &Frame, context: &mut Context<'_>) -> Token {
        if body.call.attribute.is_none() && text.starts_with(['<', '{', '[']) {
            return Token::Fail;
        }
        let len = match tag_len(text, &frame.call_end, body.call.attribute.is_some(), context.is_last) {
            TagLen::Known(len) => len,
            TagLen::More => return Token::More,
            TagLen::Never => return Token::Fail,
        };
        let header = &text[..len];
        context.name.clear();
        context.id.clear();
        match &body.call.attribute {
            Some(attribute) => {
                let Some(name) = attribute_of(header, attribute) else { return Token::Fail };
                unescape_into(name.trim(), context.name);
            }
            None => context.name.push_str(header.trim().trim_matches(['"', '\''])),
        }
        let is_name = !context.name.is_empty()
            && !context.name.contains(['<', '>', '\n', '{', '}', '"'])
            && (body.call.attribute.is_some() || !context.name.contains(' '));
        if !is_name {
            return Token::Fail;
        }
        // A tag that closes itself has no parameters.
        self.at = At::HeaderEnd { closes_itself: header.trim_end().ends_with('/') };
        self.count = 0;
        Token::Name(len)
    }

    fn header_end(
        &mut self,
        closes_itself: bool,
        text: &str,
        frame: &Frame,
        context: &mut Context<'_>,
    ) -> Token {
        self.at = if closes_itself { At::Close } else { At::Inside };
        match frame.call_end.starting(text, true) {
            Found::Marker { len, meaning: true, .. } if closes_itself => {
                self.at = At::Over(Completion::Whole);
                Token::NoArguments(len)
            }
            Found::Marker { len, meaning: true, .. } => Token::Markup(len),
            _ => self.inside(text, frame, context),
        }
    }

    /// Between parameters.
    fn inside(&mut self, text: &str, frame: &Frame, context: &mut Context<'_>) -> Token {
        self.at = At::Inside;
        match frame_space(text, context.is_last) {
            Some(0) => {}
            Some(space) => return Token::Markup(space),
            None => return Token::More,
        }
        if text.is_empty() {
            return if context.is_last { self.finish(context, 0, Completion::Cut) } else { Token::More };
        }
        match frame.inside.starting(text, context.is_last) {
            Found::Perhaps(_) => Token::More,
            Found::Marker { len, meaning: Inside::Parameter, .. } => {
                self.at = At::Key;
                Token::Markup(len)
            }
            // A closer too many.
            Found::Marker { len, meaning: Inside::ValueClose, .. } => Token::Markup(len),
            Found::Marker { len, meaning: Inside::CallClose, .. } => {
                self.finish(context, len, Completion::Whole)
            }
            Found::Marker { meaning: Inside::CallOpen | Inside::Outside | Inside::Cdata, .. } => {
                self.finish(context, 0, Completion::Whole)
            }
            Found::Nothing if text.starts_with('{') && self.count == 0 && !self.was_odd => {
                self.at = At::Json;
                self.json(text, context)
            }
            Found::Nothing if !self.was_odd => {
                self.was_odd = true;
                Token::Odd("text stands between the parameters of a call")
            }
            Found::Nothing => {
                let first = text.chars().next().map_or(0, char::len_utf8);
                match frame.inside.find(&text[first..], context.is_last) {
                    Found::Marker { at, .. } | Found::Perhaps(at) => Token::Markup(first + at),
                    Found::Nothing => Token::Markup(text.len()),
                }
            }
        }
    }

    /// The tag of a parameter.
    fn key(&mut self, text: &str, body: &Tagged, frame: &Frame, context: &mut Context<'_>) -> Token {
        let is_quoted = body.parameter.attribute.is_some();
        let len = match tag_len(text, &frame.parameter_end, is_quoted, context.is_last) {
            TagLen::Known(len) => len,
            TagLen::More => return Token::More,
            TagLen::Never => {
                // Whatever follows is no parameter.
                self.at = At::Inside;
                self.was_odd = true;
                return Token::Odd("a parameter has no name");
            }
        };
        let header = &text[..len];
        self.key.clear();
        match &body.parameter.attribute {
            Some(attribute) => {
                let name = attribute_of(header, attribute).unwrap_or(header.trim());
                unescape_into(name.trim(), &mut self.key);
            }
            None => self.key.push_str(header.trim().trim_matches(['"', '\''])),
        }
        self.types = match &body.types {
            ValueTypes::Schema => None,
            ValueTypes::IsString(attribute) => match attribute_of(header, attribute) {
                Some("true") => Some(Types::STRING),
                _ => None,
            },
            ValueTypes::Named(attribute) => attribute_of(header, attribute).map(Types::named),
        };
        self.at = At::KeyEnd;
        self.wraps = self.count == 0
            && table::WRAPPERS.contains(&self.key.as_str())
            && context.tools.declares(context.name, &self.key) == Some(false);
        if body.value_open.is_empty() && !self.wraps {
            self.name_key(len, context)
        } else {
            Token::Markup(len)
        }
    }

    /// Writes the parameter's name.
    fn name_key(&mut self, len: usize, context: &mut Context<'_>) -> Token {
        context.scratch.clear();
        key_into(self.count == 0, &self.key, context.scratch);
        self.count += 1;
        Token::Converted(len)
    }

    fn key_end(&mut self, text: &str, body: &Tagged, frame: &Frame) -> Token {
        self.at = if body.value_open.is_empty() { At::ValueStart } else { At::ValueOpen };
        match frame.parameter_end.starting(text, true) {
            Found::Marker { len, .. } => Token::Markup(len),
            _ => Token::Markup(0),
        }
    }

    fn value_open(&mut self, text: &str, frame: &Frame, context: &mut Context<'_>) -> Token {
        match frame_space(text, context.is_last) {
            Some(0) => {}
            Some(space) => return Token::Markup(space),
            None => return Token::More,
        }
        match frame.value_open.starting(text, context.is_last) {
            Found::Marker { len, .. } => {
                self.at = At::ValueStart;
                if self.wraps { Token::Markup(len) } else { self.name_key(len, context) }
            }
            Found::Perhaps(_) => Token::More,
            Found::Nothing if text.is_empty() && !context.is_last => Token::More,
            // A value whose opener was forgotten; but a name without a value is no parameter.
            Found::Nothing => match frame.inside.starting(text, context.is_last) {
                Found::Perhaps(_) => Token::More,
                Found::Nothing if !text.is_empty() => {
                    self.at = At::ValueStart;
                    if self.wraps { Token::Markup(0) } else { self.name_key(0, context) }
                }
                _ => self.inside(text, frame, context),
            },
        }
    }

    /// Arguments as one JSON object in place of parameters.
    fn json(&mut self, text: &str, context: &mut Context<'_>) -> Token {
        let (taken, progress) = self.value.read(text, context.form, context.is_last);
        match progress {
            Progress::Odd => return Token::Odd("the arguments are not JSON"),
            Progress::Open => {}
            Progress::Complete => self.at = At::Close,
            Progress::Cut => self.at = At::Over(Completion::Whole),
        }
        if taken > 0 {
            return Token::Argument(taken);
        }
        if self.at != At::Json {
            return Token::Markup(0);
        }
        if !context.is_last {
            return Token::More;
        }
        self.at = At::Over(if self.value.finish() { Completion::Whole } else { Completion::Cut });
        Token::Markup(0)
    }

    /// After JSON arguments: the closer of the call.
    fn close(&mut self, text: &str, frame: &Frame, context: &mut Context<'_>) -> Token {
        let space = leading_space(text);
        if space > 0 {
            return Token::Markup(space);
        }
        self.at = At::Over(Completion::Whole);
        match frame.inside.starting(text, context.is_last) {
            Found::Perhaps(_) => {
                self.at = At::Close;
                Token::More
            }
            Found::Marker { len, meaning: Inside::CallClose, .. } => Token::Markup(len),
            Found::Marker { meaning: Inside::Parameter, .. } => {
                self.at = At::Surplus;
                Token::Odd("a parameter follows arguments that are complete")
            }
            // Of the parameter that held all arguments.
            Found::Marker { len, meaning: Inside::ValueClose, .. } => {
                self.at = At::Close;
                Token::Markup(len)
            }
            _ if text.is_empty() && !context.is_last => {
                self.at = At::Close;
                Token::More
            }
            _ => Token::Markup(0),
        }
    }

    /// Skips what follows complete arguments, up to the end of the call.
    fn surplus(&mut self, text: &str, frame: &Frame, context: &mut Context<'_>) -> Token {
        let mut from = 0;
        loop {
            match frame.inside.find(&text[from..], context.is_last) {
                Found::Marker { at, len, meaning: Inside::CallClose, .. } => {
                    self.at = At::Over(Completion::Whole);
                    return Token::Markup(from + at + len);
                }
                Found::Marker { at, meaning: Inside::CallOpen | Inside::Outside, .. } => {
                    self.at = At::Over(Completion::Whole);
                    return Token::Markup(from + at);
                }
                Found::Marker { at, len, .. } => from += at + len,
                Found::Perhaps(at) if from + at == 0 => return Token::More,
                Found::Perhaps(at) => return Token::Markup(from + at),
                Found::Nothing if text.is_empty() && !context.is_last => return Token::More,
                Found::Nothing if text.is_empty() => {
                    self.at = At::Over(Completion::Whole);
                    return Token::Markup(0);
                }
                Found::Nothing => return Token::Markup(text.len()),
            }
        }
    }

    /// Ends the arguments with a closer of `len` bytes.
    fn finish(&mut self, context: &mut Context<'_>, len: usize, completion: Completion) -> Token {
        self.at = At::Over(completion);
        if self.count == 0 {
            return Token::NoArguments(len);
        }
        context.scratch.clear();
        context.scratch.push('}');
        Token::Converted(len)
    }
}

/// How many bytes of white space stand between tags. Nothing: more text is needed.
fn frame_space(text: &str, is_last: bool) -> Option<usize> {
    let space = leading_space(text);
    let rest = &text[space..];
    if rest.starts_with(WRITTEN_BREAK) {
        return Some(space + WRITTEN_BREAK.len());
    }
    if rest == "\\" && space == 0 && !is_last { None } else { Some(space) }
}
