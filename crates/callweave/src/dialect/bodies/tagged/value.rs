//! The values of parameters: written raw, passed on as JSON as they come.

use super::super::super::markers::Found;
use super::super::super::table::minicpm5::entities;
use super::super::literal::{Literal, Piece, Syntax};
use super::super::{Context, Token, leading_space, typed};
use super::end::{End, Looked};
use super::frame::{Frame, Inside};
use super::{At, Kind, Reader, frame_space};
use crate::event::Completion;
use crate::json::schema::Types;

impl Reader {
    pub(super) fn value_start(&mut self, text: &str, frame: &Frame, context: &mut Context<'_>) -> Token {
        if (text.is_empty() || text == "\r") && !context.is_last {
            return Token::More;
        }
        if self.wraps {
            let space = leading_space(text);
            return match text.as_bytes().get(space) {
                None if !context.is_last => Token::More,
                Some(b'{') => {
                    self.at = At::Json;
                    Token::Markup(space)
                }
                _ => {
                    self.wraps = false;
                    self.name_key(0, context)
                }
            };
        }
        if std::mem::take(&mut self.may_nest) {
            let rest = &text[leading_space(text)..];
            let open = &frame.body.parameter.open;
            if !context.is_last && rest.len() < open.len() && open.starts_with(rest) {
                self.may_nest = true;
                return Token::More;
            }
            if rest.starts_with(open) || rest.starts_with(&frame.body.value_close) {
                (self.at, self.seen, self.depth) = (At::Nested, 0, 0);
                return self.nested(text, frame, context);
            }
        }
        let types = self.types.unwrap_or_else(|| {
            let schema = context.tools.schema(context.name);
            schema.map_or(Types::ANY, |schema| schema.property(&self.key))
        });
        self.types = Some(types);
        self.seen = 0;
        self.looked = Looked::default();
        self.clear = 0;
        self.prober = typed::Prober::default();
        self.last = b'\n';
        self.at = At::Value;
        self.kind = if types.is_only_string() || types.is_none() { Kind::Text } else { Kind::Held };
        let space = match text {
            _ if !frame.body.is_on_lines => 0,
            _ if text.starts_with("\r\n") => 2,
            _ => usize::from(text.starts_with('\n')),
        };
        // A line break before the closer belongs to the frame where one stands after the opener, too.
        self.trims = space > 0;
        if self.kind == Kind::Text {
            return context.made(space, "\"");
        }
        if space > 0 { Token::Markup(space) } else { self.read_value(text, frame, context) }
    }

    #[inline]
    pub(super) fn read_value(&mut self, text: &str, frame: &Frame, context: &mut Context<'_>) -> Token {
        let token = match self.kind {
            Kind::Text => {
                let (data, closer) = match self.find_end(text, 0, context) {
                    End::Beyond(data) => (data, None),
                    End::Here(data, what) => (data, Some(what)),
                };
                self.text(&text[..data], closer, frame, context)
            }
            Kind::Literal => self.literal(text, context),
            Kind::Held => self.held(text, context),
        };
        if let Token::Argument(len @ 1..) | Token::Converted(len @ 1..) | Token::Markup(len @ 1..) = token {
            self.last = text.as_bytes()[len - 1];
            self.clear = self.clear.saturating_sub(len);
        }
        token
    }

    /// A piece of a string.
    #[inline]
    fn text(
        &mut self,
        data: &str,
        closer: Option<Inside>,
        frame: &Frame,
        context: &mut Context<'_>,
    ) -> Token {
        if frame.body.entities
            && let Some(at) = memchr::memchr(b'&', data.as_bytes())
        {
            return entities::read(data, at, closer.is_some(), context);
        }
        if data.is_empty() {
            return match closer {
                Some(Inside::Cdata) => {
                    self.at = At::Cdata;
                    Token::Markup(entities::CDATA.len())
                }
                Some(_) => self.end_string(context),
                None if context.is_last => self.end_string_cut(context),
                None => Token::More,
            };
        }
        context.string(data)
    }

    fn end_string(&mut self, context: &mut Context<'_>) -> Token {
        self.at = At::ValueEnd;
        context.made(0, "\"")
    }

    fn end_string_cut(&mut self, context: &mut Context<'_>) -> Token {
        self.end(Completion::Cut, context);
        context.made(0, "\"}")
    }

    pub(super) fn cdata(&mut self, text: &str, context: &mut Context<'_>) -> Token {
        match entities::cdata_len(text, context.is_last) {
            (0, true) => {
                self.at = At::Value;
                Token::Markup(entities::CDATA_END.len())
            }
            (0, false) if context.is_last => self.end_string_cut(context),
            (0, false) => Token::More,
            (len, _) => context.string(&text[..len]),
        }
    }

    /// A value of a type that is told when it is complete, or when it cannot be anything but a string.
    fn held(&mut self, text: &str, context: &mut Context<'_>) -> Token {
        let types = self.types.unwrap_or(Types::ANY);
        let end = self.find_end(text, self.seen, context);
        let (data, is_ended) = match end {
            End::Here(_, Inside::Cdata) => {
                self.kind = Kind::Text;
                return context.made(0, "\"");
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
                    self.end(Completion::Cut, context);
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
                context.made(0, "\"")
            }
            typed::Prospect::Literal => {
                self.kind = Kind::Literal;
                self.seen = 0;
                self.literal = Some(Literal::value());
                Token::Markup(0)
            }
        }
    }

    fn literal(&mut self, text: &str, context: &mut Context<'_>) -> Token {
        let (data, is_ended) = match self.find_end(text, 0, context) {
            End::Beyond(data) => (data, context.is_last),
            End::Here(data, ..) => (data, true),
        };
        let Some(literal) = &mut self.literal else { return Token::Fail };
        context.scratch.clear();
        match literal.next(&text[..data], Syntax { is_last: is_ended, ..Syntax::default() }, context.scratch)
        {
            Piece::Took(len) => Token::Converted(len),
            Piece::Done(len) => {
                // What stands between the value and its closer is left out.
                self.literal = None;
                self.at = At::ValueEnd;
                Token::Converted(len)
            }
            Piece::More if !is_ended => Token::More,
            Piece::More | Piece::Bad => {
                literal.close(context.scratch);
                self.literal = None;
                self.at = At::ValueEnd;
                Token::Converted(0)
            }
        }
    }

    /// At the closer of a value.
    pub(super) fn value_end(&mut self, text: &str, frame: &Frame, context: &mut Context<'_>) -> Token {
        if let Some(token) = frame_space(text, context.is_last) {
            return token;
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
}
