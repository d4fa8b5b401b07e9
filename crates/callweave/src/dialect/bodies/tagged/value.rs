//! The values of parameters: written raw, passed on as JSON as they come.

use super::super::super::markers::MarkerMatch;
use super::super::super::table::minicpm5::entities;
use super::super::literal::{LiteralProgress, LiteralReader, LiteralSyntax};
use super::super::{BodyContext, BodyToken, leading_space, typed};
use super::end::{Lookahead, ValueEnd};
use super::frame::{TagMarkers, TagRole};
use super::{TaggedReader, TaggedState, ValueOutput, frame_space};
use crate::event::BlockCompletion;
use crate::json::schema::TypeSet;

impl TaggedReader {
    pub(super) fn value_start(
        &mut self,
        text: &str,
        frame: &TagMarkers,
        context: &mut BodyContext<'_>,
    ) -> BodyToken {
        if (text.is_empty() || text == "\r") && !context.is_last {
            return BodyToken::More;
        }
        if self.wraps {
            let space = leading_space(text);
            return match text.as_bytes().get(space) {
                None if !context.is_last => BodyToken::More,
                Some(b'{') => {
                    self.at = TaggedState::Json;
                    BodyToken::Markup(space)
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
                return BodyToken::More;
            }
            if rest.starts_with(open) || rest.starts_with(&frame.body.value_close) {
                (self.at, self.seen, self.depth) = (TaggedState::Nested, 0, 0);
                return self.nested(text, frame, context);
            }
        }
        let types = self.types.unwrap_or_else(|| {
            let schema = context.tools.schema(context.name);
            schema.map_or(TypeSet::ANY, |schema| schema.property(&self.key))
        });
        self.types = Some(types);
        self.seen = 0;
        self.looked = Lookahead::default();
        self.clear = 0;
        self.prober = typed::TypeProber::default();
        self.last = b'\n';
        self.at = TaggedState::Value;
        self.kind =
            if types.is_only_string() || types.is_none() { ValueOutput::Text } else { ValueOutput::Held };
        let space = match text {
            _ if !frame.body.is_on_lines => 0,
            _ if text.starts_with("\r\n") => 2,
            _ => usize::from(text.starts_with('\n')),
        };
        // A line break before the closer belongs to the frame where one stands after the opener, too.
        self.trims = space > 0;
        if self.kind == ValueOutput::Text {
            return context.made(space, "\"");
        }
        if space > 0 { BodyToken::Markup(space) } else { self.read_value(text, frame, context) }
    }

    #[inline]
    pub(super) fn read_value(
        &mut self,
        text: &str,
        frame: &TagMarkers,
        context: &mut BodyContext<'_>,
    ) -> BodyToken {
        let token = match self.kind {
            ValueOutput::Text => {
                let (data, closer) = match self.find_end(text, 0, context) {
                    ValueEnd::Beyond(data) => (data, None),
                    ValueEnd::Here(data, what) => (data, Some(what)),
                };
                self.text(&text[..data], closer, frame, context)
            }
            ValueOutput::Literal => self.literal(text, context),
            ValueOutput::Held => self.held(text, context),
        };
        if let BodyToken::Argument(len @ 1..)
        | BodyToken::Converted(len @ 1..)
        | BodyToken::Markup(len @ 1..) = token
        {
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
        closer: Option<TagRole>,
        frame: &TagMarkers,
        context: &mut BodyContext<'_>,
    ) -> BodyToken {
        if frame.body.entities
            && let Some(at) = memchr::memchr(b'&', data.as_bytes())
        {
            return entities::read(data, at, closer.is_some(), context);
        }
        if data.is_empty() {
            return match closer {
                Some(TagRole::Cdata) => {
                    self.at = TaggedState::Cdata;
                    BodyToken::Markup(entities::CDATA.len())
                }
                Some(_) => self.end_string(context),
                None if context.is_last => self.end_string_cut(context),
                None => BodyToken::More,
            };
        }
        context.string(data)
    }

    fn end_string(&mut self, context: &mut BodyContext<'_>) -> BodyToken {
        self.at = TaggedState::ValueEnd;
        context.made(0, "\"")
    }

    fn end_string_cut(&mut self, context: &mut BodyContext<'_>) -> BodyToken {
        self.end(BlockCompletion::Truncated, context);
        context.made(0, "\"}")
    }

    pub(super) fn cdata(&mut self, text: &str, context: &mut BodyContext<'_>) -> BodyToken {
        match entities::cdata_len(text, context.is_last) {
            (0, true) => {
                self.at = TaggedState::Value;
                BodyToken::Markup(entities::CDATA_END.len())
            }
            (0, false) if context.is_last => self.end_string_cut(context),
            (0, false) => BodyToken::More,
            (len, _) => context.string(&text[..len]),
        }
    }

    /// Reads a value whose type is decided when it is complete, or when it cannot be anything but a string.
    fn held(&mut self, text: &str, context: &mut BodyContext<'_>) -> BodyToken {
        let types = self.types.unwrap_or(TypeSet::ANY);
        let end = self.find_end(text, self.seen, context);
        let (data, is_ended) = match end {
            ValueEnd::Here(_, TagRole::Cdata) => {
                self.kind = ValueOutput::Text;
                return context.made(0, "\"");
            }
            ValueEnd::Beyond(data) => (data, false),
            ValueEnd::Here(data, ..) => (data, true),
        };
        match self.prober.probe(&text[..data], types) {
            typed::PossibleType::Open if is_ended || context.is_last => {
                context.scratch.clear();
                typed::convert(&text[..data], types, context.scratch);
                self.at = TaggedState::ValueEnd;
                if !is_ended {
                    context.scratch.push('}');
                    self.end(BlockCompletion::Truncated, context);
                }
                self.seen = 0;
                BodyToken::Converted(data)
            }
            typed::PossibleType::Open => {
                self.seen = data;
                BodyToken::More
            }
            typed::PossibleType::String => {
                self.kind = ValueOutput::Text;
                self.seen = 0;
                context.made(0, "\"")
            }
            typed::PossibleType::Literal => {
                self.kind = ValueOutput::Literal;
                self.seen = 0;
                self.literal = Some(LiteralReader::value());
                BodyToken::Markup(0)
            }
        }
    }

    fn literal(&mut self, text: &str, context: &mut BodyContext<'_>) -> BodyToken {
        let (data, is_ended) = match self.find_end(text, 0, context) {
            ValueEnd::Beyond(data) => (data, context.is_last),
            ValueEnd::Here(data, ..) => (data, true),
        };
        let Some(literal) = &mut self.literal else { return BodyToken::Fail };
        context.scratch.clear();
        match literal.next(
            &text[..data],
            LiteralSyntax { is_last: is_ended, ..LiteralSyntax::default() },
            context.scratch,
        ) {
            LiteralProgress::Took(len) => BodyToken::Converted(len),
            LiteralProgress::Done(len) => {
                // Text between the value and its closer is left out.
                self.literal = None;
                self.at = TaggedState::ValueEnd;
                BodyToken::Converted(len)
            }
            LiteralProgress::More if !is_ended => BodyToken::More,
            LiteralProgress::More | LiteralProgress::Bad => {
                literal.close(context.scratch);
                self.literal = None;
                self.at = TaggedState::ValueEnd;
                BodyToken::Converted(0)
            }
        }
    }

    /// At the closer of a value.
    pub(super) fn value_end(
        &mut self,
        text: &str,
        frame: &TagMarkers,
        context: &mut BodyContext<'_>,
    ) -> BodyToken {
        if let Some(token) = frame_space(text, context.is_last) {
            return token;
        }
        match frame.inside.starting(text, context.is_last) {
            MarkerMatch::Perhaps(_) => BodyToken::More,
            MarkerMatch::Marker { len, meaning: TagRole::ValueClose, .. } => {
                self.at = TaggedState::Inside;
                BodyToken::Markup(len)
            }
            _ if text.is_empty() && !context.is_last => BodyToken::More,
            _ => self.inside(text, frame, context),
        }
    }
}
