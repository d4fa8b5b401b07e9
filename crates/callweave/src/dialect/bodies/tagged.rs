//! Calls with every parameter in a tag of its own, its value written raw.
//!
//! Values become JSON text as they come: strings are escaped piece by piece; a value whose type is not
//! certain is held only as long as it may still be something else than a string.

use super::super::markers::{Found, Markers};
use super::super::spec::{Closer, Form, Tagged, Trim, ValueTypes};
use super::literal::{Literal, Piece, Syntax};
use super::typed;
use super::value::{Progress, Value};
use super::{Context, Token, head, leading_space};
use crate::event::Completion;
use crate::json::escape_into;
use crate::json::schema::Types;

/// A line break that a model spelled out; between tags it is one.
const WRITTEN_BREAK: &str = "\\n";

/// Headers of tags are not longer than this.
const LONGEST_HEADER: usize = 512;

/// The markers of a tagged body, made ready for searching.
#[derive(Debug)]
pub(in super::super) struct Frame {
    call_open: Markers<()>,
    call_end: Markers<bool>,
    parameter_end: Markers<()>,
    value_open: Markers<()>,
    inside: Markers<Inside>,
    /// What may follow a closer that is to be confirmed.
    follows: Markers<()>,
    /// Bytes that are data and need no escaping in a string, whatever stands around them.
    plain: Box<[bool; 256]>,
}

/// What may stand inside a call, or end a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inside {
    Parameter,
    ValueClose,
    CallClose,
    /// A closer of the form, or the opener of another call.
    Outside,
    Cdata,
}

impl Frame {
    pub(super) fn new(form: &Form, body: &Tagged) -> Self {
        let call_open = Markers::from_texts([body.call.open.as_str()], ());
        let mut call_end = Markers::new();
        call_end.add(&body.call.end, true);
        if body.call.attribute.is_none() && !body.call.end.starts_with('>') {
            call_end.add(&body.parameter.open, false);
            for close in body.call_close.iter().chain(&form.close) {
                call_end.add(close, false);
            }
            if body.call.end.is_empty() {
                call_end.add("\n", true);
                call_end.add(WRITTEN_BREAK, true);
            }
        }
        let mut inside = Markers::new();
        inside.add(&body.parameter.open, Inside::Parameter);
        inside.add(&body.value_close, Inside::ValueClose);
        for close in &body.call_close {
            inside.add(close, Inside::CallClose);
        }
        for close in &form.close {
            inside.add(close, Inside::Outside);
        }
        inside.add(&body.call.open, Inside::Outside);
        if body.entities {
            inside.add("<![CDATA[", Inside::Cdata);
        }
        let mut follows = Markers::new();
        for text in
            [&body.parameter.open, &body.value_close].into_iter().chain(&body.call_close).chain(&form.close)
        {
            follows.add(text, ());
        }
        let is_plain = |byte: u8| {
            byte >= 0x20
                && byte != b'"'
                && byte != b'\\'
                && !inside.is_first(byte)
                && !(body.entities && byte == b'&')
        };
        let mut plain = Box::new([false; 256]);
        for byte in 0..=u8::MAX {
            plain[usize::from(byte)] = is_plain(byte);
        }
        Self {
            plain,
            call_open,
            call_end,
            parameter_end: Markers::from_texts([body.parameter.end.as_str()], ()),
            value_open: Markers::from_texts([body.value_open.as_str()], ()),
            inside,
            follows,
        }
    }
}

impl Frame {
    #[inline]
    fn is_plain(&self, byte: u8) -> bool {
        self.plain[usize::from(byte)]
    }
}

/// Deltas up to this length are looked at byte by byte.
const SHORT: usize = 32;

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
    HeaderEnd,
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

/// Where a value ends.
enum End {
    /// Not within these bytes, all of which are data.
    Beyond(usize),
    /// After these bytes; the closer is that long.
    Here(usize, usize, Inside),
}

impl Reader {
    /// See [`super::Reader::is_in_argument`].
    pub(super) fn is_in_argument(&self) -> bool {
        self.at == At::Value && self.kind == Kind::Text
    }

    #[inline]
    pub(super) fn next(&mut self, text: &str, body: &Tagged, context: &mut Context<'_>) -> Token {
        let Some(frame) = &context.form.frame else { return Token::Fail };
        match self.at {
            At::Value => self.read_value(text, body, frame, context),
            At::Start => self.start(text, body, frame, context),
            At::Header => self.header(text, body, frame, context),
            At::HeaderEnd => self.header_end(text, frame, context),
            At::Inside => self.inside(text, frame, context),
            At::Key => self.key(text, body, frame, context),
            At::KeyEnd => self.key_end(text, body, frame, context),
            At::ValueOpen => self.value_open(text, frame, context),
            At::ValueStart => self.value_start(text, body, frame, context),
            At::Cdata => self.cdata(text, context),
            At::ValueEnd => self.value_end(text, frame, context),
            At::Json => self.json(text, context),
            At::Close => self.close(text, frame, context),
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
                unescape_into(name, context.name);
            }
            None => context.name.push_str(header.trim().trim_matches(['"', '\''])),
        }
        let is_name = !context.name.is_empty()
            && !context.name.contains(['<', '>', '\n', '{', '}', '"'])
            && (body.call.attribute.is_some() || !context.name.contains(' '));
        if !is_name {
            return Token::Fail;
        }
        if header.trim_end().ends_with('/') {
            // A tag that closes itself: there are no parameters.
            self.at = At::HeaderEnd;
            self.was_odd = false;
            self.kind = Kind::Held;
        } else {
            self.at = At::HeaderEnd;
            self.kind = Kind::Text;
        }
        self.count = 0;
        Token::Name(len)
    }

    fn header_end(&mut self, text: &str, frame: &Frame, context: &mut Context<'_>) -> Token {
        let closes_itself = self.kind == Kind::Held;
        self.at = if closes_itself { At::Close } else { At::Inside };
        match frame.call_end.starting(text, true) {
            Found::Marker { len, meaning: true, .. } if closes_itself => {
                self.at = At::Over(Completion::Whole);
                context.scratch.clear();
                context.scratch.push_str("{}");
                Token::Converted(len)
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
            Found::Marker { meaning: Inside::Outside | Inside::Cdata, .. } => {
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
                unescape_into(name, &mut self.key);
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
        if body.value_open.is_empty() { self.name_key(len, context) } else { Token::Markup(len) }
    }

    /// Writes the parameter's name.
    fn name_key(&mut self, len: usize, context: &mut Context<'_>) -> Token {
        context.scratch.clear();
        context.scratch.push_str(if self.count == 0 { "{\"" } else { ", \"" });
        escape_into(&self.key, context.scratch);
        context.scratch.push_str("\": ");
        self.count += 1;
        Token::Converted(len)
    }

    fn key_end(&mut self, text: &str, body: &Tagged, frame: &Frame, _context: &mut Context<'_>) -> Token {
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
                self.name_key(len, context)
            }
            Found::Perhaps(_) => Token::More,
            // A name without a value is no parameter.
            Found::Nothing => self.inside(text, frame, context),
        }
    }

    fn value_start(&mut self, text: &str, body: &Tagged, frame: &Frame, context: &mut Context<'_>) -> Token {
        if text.is_empty() && !context.is_last {
            return Token::More;
        }
        let types = self.types.unwrap_or_else(|| {
            let schema = context.tools.schema(context.name);
            schema.map_or(Types::ANY, |schema| schema.property(&self.key))
        });
        self.types = Some(types);
        self.seen = 0;
        self.prober = typed::Prober::default();
        self.last = b'\n';
        self.at = At::Value;
        self.kind = if types.is_only_string() || types.is_none() { Kind::Text } else { Kind::Held };
        let trims = body.trim == Trim::LineBreak && text.starts_with('\n');
        if self.kind == Kind::Text {
            context.scratch.clear();
            context.scratch.push('"');
            return Token::Converted(usize::from(trims));
        }
        if trims { Token::Markup(1) } else { self.read_value(text, body, frame, context) }
    }

    #[inline]
    fn read_value(&mut self, text: &str, body: &Tagged, frame: &Frame, context: &mut Context<'_>) -> Token {
        match self.kind {
            Kind::Text => {
                // Most deltas are a few plain bytes: one look at each is all they need.
                if text.len() <= SHORT && !text.is_empty() && text.bytes().all(|byte| frame.is_plain(byte)) {
                    self.last = text.as_bytes()[text.len() - 1];
                    return Token::Argument(text.len());
                }
                let (data, closer) = match self.find_end(text, 0, body, frame, context.is_last) {
                    End::Beyond(data) => (data, None),
                    End::Here(data, len, what) => (data, Some((len, what))),
                };
                self.text(&text[..data], closer, body, context)
            }
            Kind::Literal => self.literal(text, body, frame, context),
            Kind::Held => self.held(text, body, frame, context),
        }
    }

    /// A piece of a string.
    #[inline]
    fn text(
        &mut self,
        data: &str,
        closer: Option<(usize, Inside)>,
        body: &Tagged,
        context: &mut Context<'_>,
    ) -> Token {
        if body.entities
            && let Some(at) = memchr::memchr(b'&', data.as_bytes())
        {
            return self.entity(data, at, closer.is_some(), context);
        }
        if data.is_empty() {
            return match closer {
                Some((_, Inside::Cdata)) => {
                    self.at = At::Cdata;
                    Token::Markup("<![CDATA[".len())
                }
                Some(_) => self.end_string(context),
                None if context.is_last => self.end_string_cut(context),
                None => Token::More,
            };
        }
        self.last = data.as_bytes()[data.len() - 1];
        if data.bytes().all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\') {
            return Token::Argument(data.len());
        }
        context.scratch.clear();
        escape_into(data, context.scratch);
        Token::Converted(data.len())
    }

    fn end_string(&mut self, context: &mut Context<'_>) -> Token {
        context.scratch.clear();
        context.scratch.push('"');
        self.at = At::ValueEnd;
        Token::Converted(0)
    }

    fn end_string_cut(&mut self, context: &mut Context<'_>) -> Token {
        context.scratch.clear();
        context.scratch.push_str("\"}");
        self.at = At::Over(Completion::Cut);
        Token::Converted(0)
    }

    /// A character entity at `at`, or what stands before it.
    fn entity(&mut self, data: &str, at: usize, is_ended: bool, context: &mut Context<'_>) -> Token {
        const LONGEST: usize = 10;
        context.scratch.clear();
        if at > 0 {
            escape_into(&data[..at], context.scratch);
            return Token::Converted(at);
        }
        let semicolon = data.bytes().take(LONGEST).position(|byte| byte == b';');
        let Some(end) = semicolon else {
            if data.len() < LONGEST && !is_ended && !context.is_last {
                return Token::More;
            }
            context.scratch.push('&');
            return Token::Converted(1);
        };
        let mut plain = String::new();
        unescape_into(&data[..=end], &mut plain);
        escape_into(&plain, context.scratch);
        Token::Converted(end + 1)
    }

    fn cdata(&mut self, text: &str, context: &mut Context<'_>) -> Token {
        const CLOSE: &str = "]]>";
        let end = memchr::memmem::find(text.as_bytes(), CLOSE.as_bytes());
        let safe = match end {
            Some(0) => {
                self.at = At::Value;
                return Token::Markup(CLOSE.len());
            }
            Some(end) => end,
            None if context.is_last => text.len(),
            None => text.trim_end_matches([']', '>']).len().max(text.len().saturating_sub(CLOSE.len() - 1)),
        };
        let safe = (0..=safe).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        if safe == 0 {
            return if context.is_last { self.end_string_cut(context) } else { Token::More };
        }
        context.scratch.clear();
        escape_into(&text[..safe], context.scratch);
        Token::Converted(safe)
    }

    /// A value of a type that is told when it is complete, or when it cannot be anything but a string.
    fn held(&mut self, text: &str, body: &Tagged, frame: &Frame, context: &mut Context<'_>) -> Token {
        let types = self.types.unwrap_or(Types::ANY);
        let end = self.find_end(text, self.seen, body, frame, context.is_last);
        let (data, is_ended) = match end {
            End::Here(_, _, Inside::Cdata) => {
                self.kind = Kind::Text;
                context.scratch.clear();
                context.scratch.push('"');
                return Token::Converted(0);
            }
            End::Beyond(data) => (data, false),
            End::Here(data, ..) => (data, true),
        };
        match self.prober.probe(&text[..data], types) {
            typed::Prospect::Open if is_ended || context.is_last => {
                context.scratch.clear();
                typed::convert(&text[..data], types, context.scratch);
                self.at = At::ValueEnd;
                if !is_ended {
                    context.scratch.push('}');
                    self.at = At::Over(Completion::Cut);
                }
                self.seen = 0;
                Token::Converted(data)
            }
            typed::Prospect::Open => {
                self.seen = data;
                Token::More
            }
            typed::Prospect::String => {
                self.kind = Kind::Text;
                self.seen = 0;
                context.scratch.clear();
                context.scratch.push('"');
                Token::Converted(0)
            }
            typed::Prospect::Literal => {
                self.kind = Kind::Literal;
                self.seen = 0;
                self.literal = Some(Literal::value());
                Token::Markup(0)
            }
        }
    }

    fn literal(&mut self, text: &str, body: &Tagged, frame: &Frame, context: &mut Context<'_>) -> Token {
        let Some(literal) = &mut self.literal else { return Token::Fail };
        context.scratch.clear();
        match literal.next(text, Syntax::default(), context.is_last, context.scratch) {
            Piece::Took(len) => Token::Converted(len),
            Piece::Done(len) => {
                // What stands between the value and its closer is left out.
                self.kind = Kind::Literal;
                self.literal = None;
                self.at = At::ValueEnd;
                Token::Converted(len)
            }
            Piece::More if !context.is_last => Token::More,
            Piece::More | Piece::Bad => {
                literal.close(context.scratch);
                self.literal = None;
                self.at = At::ValueEnd;
                let _ = (body, frame);
                Token::Converted(0)
            }
        }
    }

    /// At the closer of a value.
    fn value_end(&mut self, text: &str, frame: &Frame, context: &mut Context<'_>) -> Token {
        match frame_space(text, context.is_last) {
            Some(0) => {}
            Some(space) => return Token::Markup(space),
            None => return Token::More,
        }
        match frame.inside.starting(text, context.is_last) {
            Found::Perhaps(_) => Token::More,
            Found::Marker { len, meaning: Inside::ValueClose, .. } => {
                self.at = At::Inside;
                Token::Markup(len)
            }
            _ if text.is_empty() && !context.is_last => Token::More,
            _ => self.inside(text, frame, context),
        }
    }

    /// Arguments as one JSON object in place of parameters.
    fn json(&mut self, text: &str, context: &mut Context<'_>) -> Token {
        let (taken, progress) = self.value.read(text, &context.form.closers, context.is_last);
        match progress {
            Progress::Odd => return Token::Odd("the arguments are not JSON"),
            Progress::Open => {}
            Progress::Complete => self.at = At::Close,
            Progress::Cut => self.at = At::Over(Completion::Cut),
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
            _ if text.is_empty() && !context.is_last => {
                self.at = At::Close;
                Token::More
            }
            _ => Token::Markup(0),
        }
    }

    /// Ends the arguments with a closer of `len` bytes.
    fn finish(&mut self, context: &mut Context<'_>, len: usize, completion: Completion) -> Token {
        context.scratch.clear();
        context.scratch.push_str(if self.count == 0 { "{}" } else { "}" });
        self.at = At::Over(completion);
        Token::Converted(len)
    }

    /// Where the value ends that `text` goes on with; its first `from` bytes are known to be data.
    #[inline]
    fn find_end(&self, text: &str, from: usize, body: &Tagged, frame: &Frame, is_last: bool) -> End {
        let mut from = from.min(text.len());
        loop {
            match frame.inside.find(&text[from..], is_last) {
                Found::Nothing => return End::Beyond(self.without_break(text, text.len(), body, is_last)),
                Found::Perhaps(at) => return End::Beyond(self.without_break(text, from + at, body, is_last)),
                Found::Marker { at, len, meaning } => {
                    let at = from + at;
                    let before = if at == 0 { self.last } else { text.as_bytes()[at - 1] };
                    match is_end(&text[at + len..], before, meaning, body, frame, is_last) {
                        Some(true) => {
                            let data = if body.trim == Trim::LineBreak && text[..at].ends_with('\n') {
                                at - 1
                            } else {
                                at
                            };
                            return End::Here(data, len, meaning);
                        }
                        Some(false) => from = at + 1,
                        None => return End::Beyond(self.without_break(text, at, body, is_last)),
                    }
                }
            }
        }
    }

    /// The last line break may belong to the frame, so it waits for what comes.
    #[inline]
    fn without_break(&self, text: &str, len: usize, body: &Tagged, is_last: bool) -> usize {
        let holds =
            body.trim == Trim::LineBreak && text[..len].ends_with('\n') && !(is_last && len < text.len());
        if holds { len - 1 } else { len }
    }
}

/// Whether a tag ends a value; `rest` follows it, and `before` is the byte in front of it. Nothing: more
/// text is needed.
fn is_end(rest: &str, before: u8, what: Inside, body: &Tagged, frame: &Frame, is_last: bool) -> Option<bool> {
    if body.closer == Closer::Always {
        return Some(true);
    }
    let begins_line = before == b'\n';
    let followed = |markers: &Markers<()>| {
        let after = &rest[leading_space(rest)..];
        match markers.starting(after, is_last) {
            Found::Marker { .. } => Some(true),
            Found::Perhaps(_) => None,
            Found::Nothing if after.is_empty() => is_last.then_some(true),
            Found::Nothing => Some(false),
        }
    };
    match what {
        Inside::Cdata => Some(true),
        Inside::ValueClose => followed(&frame.follows),
        Inside::Parameter => Some(begins_line),
        Inside::CallClose if !begins_line => Some(false),
        Inside::CallClose => followed(&frame.follows),
        Inside::Outside => Some(begins_line),
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

/// How long the header of a tag is.
enum TagLen {
    Known(usize),
    More,
    /// It has no end, or none near enough.
    Never,
}

/// The length of a tag's header: up to its end, which does not count inside quotes.
fn tag_len<M: Copy>(text: &str, ends: &Markers<M>, is_quoted: bool, is_last: bool) -> TagLen {
    let window = head(text, LONGEST_HEADER);
    let is_last = is_last && window.len() == text.len();
    let mut from = 0;
    loop {
        match ends.find(&window[from..], is_last) {
            Found::Marker { at, .. } => {
                let at = from + at;
                let quotes = text[..at].bytes().filter(|&byte| byte == b'"').count();
                if is_quoted && quotes % 2 == 1 {
                    from = at + 1;
                    continue;
                }
                return if at <= LONGEST_HEADER { TagLen::Known(at) } else { TagLen::Never };
            }
            Found::Perhaps(at) if from + at <= LONGEST_HEADER => return TagLen::More,
            Found::Nothing if text.len() <= LONGEST_HEADER && !is_last => return TagLen::More,
            Found::Perhaps(_) | Found::Nothing => return TagLen::Never,
        }
    }
}

/// The value of an attribute in the header of a tag, quoted or not.
pub(super) fn attribute_of<'t>(header: &'t str, attribute: &str) -> Option<&'t str> {
    let mut rest = header;
    loop {
        let at = rest.find(attribute)?;
        let is_whole = at == 0 || rest[..at].ends_with(|before: char| before.is_whitespace());
        let after = rest[at + attribute.len()..].trim_start();
        if let (true, Some(value)) = (is_whole, after.strip_prefix('=')) {
            let value = value.trim_start();
            return Some(match value.chars().next() {
                Some(quote @ ('"' | '\'')) => value[1..].split(quote).next().unwrap_or_default(),
                _ => value.split(|end: char| end.is_whitespace() || end == '/').next().unwrap_or_default(),
            });
        }
        rest = &rest[at + attribute.len()..];
    }
}

/// Appends `text` with its character entities decoded.
fn unescape_into(mut text: &str, out: &mut String) {
    while let Some(at) = text.find('&') {
        out.push_str(&text[..at]);
        text = &text[at..];
        let end = text.find(';').filter(|&end| end <= 10);
        let decoded = end.and_then(|end| match &text[1..end] {
            "amp" => Some('&'),
            "lt" => Some('<'),
            "gt" => Some('>'),
            "quot" => Some('"'),
            "apos" => Some('\''),
            code => {
                let hex = code.strip_prefix("#x").and_then(|hex| u32::from_str_radix(hex, 16).ok());
                let number = code.strip_prefix('#').and_then(|number| number.parse().ok());
                hex.or(number).and_then(char::from_u32)
            }
        });
        match (decoded, end) {
            (Some(decoded), Some(end)) => {
                out.push(decoded);
                text = &text[end + 1..];
            }
            _ => {
                out.push('&');
                text = &text[1..];
            }
        }
    }
    out.push_str(text);
}
