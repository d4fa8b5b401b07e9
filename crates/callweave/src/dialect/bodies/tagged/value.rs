//! The values of parameters: written raw, passed on as JSON as they come.

use super::super::super::markers::Found;
use super::super::super::spec::{Tagged, Trim};
use super::super::literal::{Literal, Piece, Syntax};
use super::super::tags::unescape_into;
use super::super::{Context, Token, leading_space, typed};
use super::end::{End, Looked, Scene};
use super::frame::{Frame, Inside};
use super::{At, Kind, Reader, frame_space};
use crate::event::Completion;
use crate::json::escape_into;
use crate::json::schema::Types;

impl Reader {
    pub(super) fn value_start(
        &mut self,
        text: &str,
        body: &Tagged,
        frame: &Frame,
        context: &mut Context<'_>,
    ) -> Token {
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
        let types = self.types.unwrap_or_else(|| {
            let schema = context.tools.schema(context.name);
            schema.map_or(Types::ANY, |schema| schema.property(&self.key))
        });
        self.types = Some(types);
        self.seen = 0;
        self.looked = Looked::default();
        self.prober = typed::Prober::default();
        self.last = b'\n';
        self.at = At::Value;
        self.kind = if types.is_only_string() || types.is_none() { Kind::Text } else { Kind::Held };
        let space = match text {
            _ if body.trim == Trim::None => 0,
            _ if text.starts_with("\r\n") => 2,
            _ => usize::from(text.starts_with('\n')),
        };
        // A line break before the closer belongs to the frame where one stands after the opener, too.
        self.trims = space > 0;
        if self.kind == Kind::Text {
            context.scratch.clear();
            context.scratch.push('"');
            return Token::Converted(space);
        }
        if space > 0 { Token::Markup(space) } else { self.read_value(text, body, frame, context) }
    }

    #[inline]
    pub(super) fn read_value(
        &mut self,
        text: &str,
        body: &Tagged,
        frame: &Frame,
        context: &mut Context<'_>,
    ) -> Token {
        let token = match self.kind {
            Kind::Text => {
                let (data, closer) = match self.find_end(text, 0, &mut Scene::new(body, frame, context)) {
                    End::Beyond(data) => (data, None),
                    End::Here(data, len, what) => (data, Some((len, what))),
                };
                self.text(&text[..data], closer, body, context)
            }
            Kind::Literal => self.literal(text, body, frame, context),
            Kind::Held => self.held(text, body, frame, context),
        };
        if let Token::Argument(len @ 1..) | Token::Converted(len @ 1..) | Token::Markup(len @ 1..) = token {
            self.last = text.as_bytes()[len - 1];
        }
        token
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

    pub(super) fn cdata(&mut self, text: &str, context: &mut Context<'_>) -> Token {
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
        let end = self.find_end(text, self.seen, &mut Scene::new(body, frame, context));
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
        let (data, is_ended) = match self.find_end(text, 0, &mut Scene::new(body, frame, context)) {
            End::Beyond(data) => (data, context.is_last),
            End::Here(data, ..) => (data, true),
        };
        let Some(literal) = &mut self.literal else { return Token::Fail };
        context.scratch.clear();
        match literal.next(&text[..data], Syntax::default(), is_ended, context.scratch) {
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
}
