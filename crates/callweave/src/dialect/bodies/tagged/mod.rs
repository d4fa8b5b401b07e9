//! Calls with every parameter in a tag of its own, its value written raw.
//!
//! Values become JSON text as they come: strings are escaped piece by piece; a value whose type is not
//! certain is held only as long as it may still be something else than a string.

mod end;
mod frame;
mod nested;
mod value;

use self::frame::{TagRole, direct_name};
use super::super::markers::MarkerMatch;
use super::super::table::{self, minicpm5::entities::unescape_into};
use super::literal::LiteralReader;
use super::tags::{TagLen, attribute_of, tag_len};
use super::value::{ValueProgress, ValueReader};
use super::{BodyContext, BodyToken, leading_space, typed};
use crate::event::BlockCompletion;
use crate::json::schema::TypeSet;

pub(in super::super) use self::frame::TagMarkers;

/// A line break that a model spelled out; between tags it is one.
const WRITTEN_BREAK: &str = "\\n";

/// Reads one call.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct TaggedReader {
    at: TaggedState,
    key: String,
    /// How its tag is spelled, if otherwise.
    spelling: Option<usize>,
    types: Option<TypeSet>,
    kind: ValueOutput,
    literal: Option<LiteralReader>,
    value: ValueReader,
    /// How far a held value was looked at.
    seen: usize,
    looked: end::Lookahead,
    /// How many bytes in front are known to be data of the value.
    clear: usize,
    /// Whether a value ended where its closer does not fit, or without one.
    has_unfit_end: bool,
    /// Whether the marker that stands around calls was read right before this one.
    is_wrapped: bool,
    /// Whether a line break before the closer belongs to the frame.
    trims: bool,
    /// Whether the parameter may hold all arguments as one object.
    wraps: bool,
    /// Finds the types that a held value may still have.
    prober: typed::TypeProber,
    /// The byte before the text in front, where that is part of a value; a line break at its start.
    last: u8,
    count: usize,
    was_odd: bool,
    /// Whether the value may hold values, as a list or an object, and how many of them are open.
    may_nest: bool,
    is_list: bool,
    depth: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum TaggedState {
    #[default]
    Start,
    Header,
    /// After a tag that closes itself.
    Whole,
    Inside,
    /// In the tag of a parameter.
    Key,
    /// Between a parameter's name and its value.
    ValueOpen,
    /// At the start of a value.
    ValueStart,
    Value,
    /// In a value that holds values.
    Nested,
    Cdata,
    /// After the value, at its closer.
    ValueEnd,
    /// Arguments as one JSON object.
    Json,
    Close,
    /// Among parameters that come too late.
    Surplus,
    Done,
}

/// How the value that is being read is passed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ValueOutput {
    /// As a string, piece by piece.
    #[default]
    Text,
    /// As a literal, piece by piece.
    Literal,
    /// When it is complete.
    Held,
}

impl TaggedReader {
    /// A reader of a call behind the marker that stands around calls.
    pub(super) fn wrapped() -> Self {
        Self { is_wrapped: true, ..Self::default() }
    }

    pub(super) fn of_name() -> Self {
        Self { at: TaggedState::Header, ..Self::default() }
    }

    #[inline]
    pub(super) fn is_in_string(&self) -> bool {
        self.at == TaggedState::Value && self.kind == ValueOutput::Text
    }

    /// Data came that is no line break.
    #[inline]
    pub(super) fn leave_line_start(&mut self) {
        self.last = 0;
    }

    #[inline]
    pub(super) fn next(&mut self, text: &str, context: &mut BodyContext<'_>) -> BodyToken {
        let Some(frame) = &context.form.frame else { return BodyToken::Fail };
        match self.at {
            TaggedState::Value => self.read_value(text, frame, context),
            TaggedState::Start => self.start(text, frame, context),
            TaggedState::Header => self.header(text, frame, context),
            TaggedState::Whole => self.finish(context, 0, BlockCompletion::Complete),
            TaggedState::Inside => self.inside(text, frame, context),
            TaggedState::Key => self.key(text, frame, context),
            TaggedState::ValueOpen => self.value_open(text, frame, context),
            TaggedState::ValueStart => self.value_start(text, frame, context),
            TaggedState::Nested => self.nested(text, frame, context),
            TaggedState::Cdata => self.cdata(text, context),
            TaggedState::ValueEnd => self.value_end(text, frame, context),
            TaggedState::Json => self.json(text, context),
            TaggedState::Close => self.close(text, frame, context),
            TaggedState::Surplus => self.surplus(text, frame, context),
            TaggedState::Done => BodyToken::Done,
        }
    }

    fn start(&mut self, text: &str, frame: &TagMarkers, context: &mut BodyContext<'_>) -> BodyToken {
        let space = leading_space(text);
        if space > 0 {
            return BodyToken::Markup(space);
        }
        if text.is_empty() {
            return context.more_or(BodyToken::Fail);
        }
        match frame.call_open.starting(text, context.is_last) {
            MarkerMatch::Marker { len, .. } => {
                self.at = TaggedState::Header;
                BodyToken::Markup(len)
            }
            MarkerMatch::Perhaps(_) => BodyToken::More,
            MarkerMatch::Nothing if frame.body.call.open.is_empty() => {
                self.at = TaggedState::Header;
                self.header(text, frame, context)
            }
            // `<tool_call>function=f>`: a bracket too few.
            MarkerMatch::Nothing => {
                match frame.body.call.open.strip_prefix('<').filter(|_| self.is_wrapped) {
                    Some(open) if text.starts_with(open) => {
                        self.at = TaggedState::Header;
                        BodyToken::Markup(open.len())
                    }
                    Some(open) if open.starts_with(text) => context.more_or(BodyToken::Fail),
                    _ => BodyToken::Fail,
                }
            }
        }
    }

    /// The tag with the name.
    fn header(&mut self, text: &str, frame: &TagMarkers, context: &mut BodyContext<'_>) -> BodyToken {
        if frame.body.call.attribute.is_none() && text.starts_with(['<', '{', '[']) {
            return BodyToken::Fail;
        }
        let len = match tag_len(text, &frame.call_end, frame.body.call.attribute.is_some(), context.is_last) {
            TagLen::Known(len) => len,
            TagLen::More => return BodyToken::More,
            TagLen::Never => return BodyToken::Fail,
        };
        let header = &text[..len];
        context.name.clear();
        context.id.clear();
        match &frame.body.call.attribute {
            Some(attribute) => {
                let Some(name) = attribute_of(header, attribute) else { return BodyToken::Fail };
                unescape_into(name.trim(), context.name);
                context.id.push_str(attribute_of(header, "id").unwrap_or_default());
            }
            None if context.tools.contains(header.trim()) => context.name.push_str(header.trim()),
            None => context.name.push_str(direct_name(header)),
        }
        let is_name = !context.name.is_empty()
            && !context.name.contains(['<', '>', '\n', '{', '}', '"'])
            && (frame.body.call.attribute.is_some() || !context.name.contains(' '));
        if !is_name {
            return BodyToken::Fail;
        }
        let end = match frame.call_end.starting(&text[len..], true) {
            MarkerMatch::Marker { len, meaning: true, .. } => len,
            _ => 0,
        };
        // A tag that closes itself has no parameters.
        let is_complete = end > 0 && header.trim_end().ends_with('/');
        self.at = if is_complete { TaggedState::Whole } else { TaggedState::Inside };
        self.count = 0;
        BodyToken::Name(len + end)
    }

    /// Between parameters.
    fn inside(&mut self, text: &str, frame: &TagMarkers, context: &mut BodyContext<'_>) -> BodyToken {
        self.at = TaggedState::Inside;
        if let Some(token) = frame_space(text, context.is_last) {
            return token;
        }
        if text.is_empty() {
            return if context.is_last {
                self.finish(context, 0, BlockCompletion::Truncated)
            } else {
                BodyToken::More
            };
        }
        match frame.inside.starting(text, context.is_last) {
            MarkerMatch::Perhaps(_) => BodyToken::More,
            MarkerMatch::Marker { len, meaning: TagRole::Parameter, .. } => {
                (self.at, self.spelling) = (TaggedState::Key, None);
                BodyToken::Markup(len)
            }
            MarkerMatch::Marker { len, meaning: TagRole::Spelled(which), .. } => {
                match frame.is_spelled_parameter(which, &text[len..], &self.key, context.is_last, context) {
                    None => BodyToken::More,
                    Some(true) => {
                        (self.at, self.spelling) = (TaggedState::Key, Some(which));
                        BodyToken::Markup(len)
                    }
                    Some(false) => self.between(text, frame, context),
                }
            }
            // A closer too many.
            MarkerMatch::Marker { len, meaning: TagRole::ValueClose, .. } => BodyToken::Markup(len),
            MarkerMatch::Marker { len, meaning: TagRole::CallClose, .. } => {
                self.finish(context, len, BlockCompletion::Complete)
            }
            // `<tool_call>f<tool_call>key</arg_key>`: the wrong opener.
            MarkerMatch::Marker { len, meaning: TagRole::CallOpen, .. }
                if frame.is_parameter(&text[len..], context.is_last) != Some(false) =>
            {
                if frame.is_parameter(&text[len..], context.is_last).is_none() {
                    return BodyToken::More;
                }
                (self.at, self.spelling) = (TaggedState::Key, None);
                BodyToken::Markup(len)
            }
            MarkerMatch::Marker { meaning, .. } => {
                // A call that follows a value, in place of the end of the value's call, may be a part of the value.
                *context.in_doubt |= meaning == TagRole::CallOpen && self.count > 0;
                self.finish(context, 0, BlockCompletion::Complete)
            }
            // Nothing says that the call goes on.
            MarkerMatch::Nothing if self.has_unfit_end => self.finish(context, 0, BlockCompletion::Truncated),
            MarkerMatch::Nothing if text.starts_with('{') && self.count == 0 && !self.was_odd => {
                self.at = TaggedState::Json;
                self.json(text, context)
            }
            MarkerMatch::Nothing => self.between(text, frame, context),
        }
    }

    /// Something else than a parameter, among parameters.
    fn between(&mut self, text: &str, frame: &TagMarkers, context: &BodyContext<'_>) -> BodyToken {
        if !self.was_odd {
            self.was_odd = true;
            return BodyToken::Odd("text stands between the parameters of a call");
        }
        let first = text.chars().next().map_or(0, char::len_utf8);
        match frame.inside.find(&text[first..], context.is_last) {
            MarkerMatch::Marker { at, .. } | MarkerMatch::Perhaps(at) => BodyToken::Markup(first + at),
            MarkerMatch::Nothing => BodyToken::Markup(text.len()),
        }
    }

    /// The tag of a parameter.
    fn key(&mut self, text: &str, frame: &TagMarkers, context: &mut BodyContext<'_>) -> BodyToken {
        let (tag, ends) = frame.spelling(self.spelling);
        let len = match tag_len(text, ends, tag.attribute.is_some(), context.is_last) {
            TagLen::Known(len) => len,
            TagLen::More => return BodyToken::More,
            TagLen::Never => {
                // No parameter follows.
                self.at = TaggedState::Inside;
                self.was_odd = true;
                return BodyToken::Odd("a parameter has no name");
            }
        };
        let header = &text[..len];
        self.key.clear();
        match &tag.attribute {
            Some(attribute) => {
                let name = attribute_of(header, attribute).unwrap_or(header.trim());
                unescape_into(name.trim(), &mut self.key);
            }
            None => self.key.push_str(direct_name(header)),
        }
        let is_complete = header.trim_end().ends_with('/') && tag.end == ">";
        let told = frame.body.type_attribute.as_deref().and_then(|attribute| attribute_of(header, attribute));
        self.types = match told {
            None | Some("false") => None,
            Some("true" | "raw") => Some(TypeSet::STRING),
            Some(name) => Some(TypeSet::named(name)),
        };
        self.may_nest = matches!(told, Some("dict" | "list"));
        self.is_list = told == Some("list");
        let is_direct = frame.body.value_open.is_empty();
        self.at = if is_direct { TaggedState::ValueStart } else { TaggedState::ValueOpen };
        self.wraps = self.count == 0
            && table::WRAPPERS.contains(&self.key.as_str())
            && context.tools.declares(context.name, &self.key) == Some(false);
        let len = len
            + match ends.starting(&text[len..], true) {
                MarkerMatch::Marker { len, .. } => len,
                _ => 0,
            };
        if is_complete && is_direct {
            // `<parameter=k/>` has an empty value.
            self.at = TaggedState::Inside;
            self.wraps = false;
            let token = self.name_key(len, context);
            context.scratch.push_str("\"\"");
            return token;
        }
        if is_direct { self.name_key(len, context) } else { BodyToken::Markup(len) }
    }

    /// Writes the parameter's name, unless it may hold all arguments.
    fn name_key(&mut self, len: usize, context: &mut BodyContext<'_>) -> BodyToken {
        if self.wraps {
            return BodyToken::Markup(len);
        }
        self.count += 1;
        context.key(len, self.count == 1, &self.key)
    }

    fn value_open(&mut self, text: &str, frame: &TagMarkers, context: &mut BodyContext<'_>) -> BodyToken {
        if let Some(token) = frame_space(text, context.is_last) {
            return token;
        }
        match frame.value_open.starting(text, context.is_last) {
            MarkerMatch::Marker { len, .. } => {
                self.at = TaggedState::ValueStart;
                self.name_key(len, context)
            }
            MarkerMatch::Perhaps(_) => BodyToken::More,
            MarkerMatch::Nothing if text.is_empty() && !context.is_last => BodyToken::More,
            // A value whose opener was forgotten; but a name without a value is no parameter.
            MarkerMatch::Nothing => match frame.inside.starting(text, context.is_last) {
                MarkerMatch::Perhaps(_) => BodyToken::More,
                MarkerMatch::Nothing if !text.is_empty() => {
                    self.at = TaggedState::ValueStart;
                    self.name_key(0, context)
                }
                _ => self.inside(text, frame, context),
            },
        }
    }

    /// Arguments as one JSON object in place of parameters.
    fn json(&mut self, text: &str, context: &mut BodyContext<'_>) -> BodyToken {
        let (token, progress) = self.value.token(text, context);
        match progress {
            ValueProgress::Open | ValueProgress::Odd => {}
            ValueProgress::Complete | ValueProgress::Closed => self.at = TaggedState::Close,
            ValueProgress::Cut => self.end(BlockCompletion::Truncated, context),
        }
        token
    }

    /// After JSON arguments: the closer of the call.
    fn close(&mut self, text: &str, frame: &TagMarkers, context: &mut BodyContext<'_>) -> BodyToken {
        let space = leading_space(text);
        if space > 0 {
            return BodyToken::Markup(space);
        }
        let len = match frame.inside.starting(text, context.is_last) {
            MarkerMatch::Perhaps(_) => return BodyToken::More,
            MarkerMatch::Nothing if text.is_empty() && !context.is_last => return BodyToken::More,
            MarkerMatch::Marker { meaning: TagRole::Parameter, .. } => {
                self.at = TaggedState::Surplus;
                return BodyToken::Odd("a parameter follows arguments that are complete");
            }
            // Of the parameter that held all arguments.
            MarkerMatch::Marker { len, meaning: TagRole::ValueClose, .. } => return BodyToken::Markup(len),
            MarkerMatch::Marker { len, meaning: TagRole::CallClose, .. } => len,
            _ => 0,
        };
        self.end(BlockCompletion::Complete, context);
        BodyToken::Markup(len)
    }

    /// Skips what follows complete arguments, up to the end of the call.
    fn surplus(&mut self, text: &str, frame: &TagMarkers, context: &mut BodyContext<'_>) -> BodyToken {
        let len = match frame.inside.find(text, context.is_last) {
            MarkerMatch::Marker { at: 0, len, meaning: TagRole::CallClose } => len,
            MarkerMatch::Marker { at: 0, meaning: TagRole::CallOpen | TagRole::Outside, .. } => 0,
            MarkerMatch::Marker { at: 0, len, .. } => return BodyToken::Markup(len),
            MarkerMatch::Perhaps(0) => return BodyToken::More,
            MarkerMatch::Marker { at, .. } | MarkerMatch::Perhaps(at) => return BodyToken::Markup(at),
            MarkerMatch::Nothing if text.is_empty() && !context.is_last => return BodyToken::More,
            MarkerMatch::Nothing if text.is_empty() => 0,
            MarkerMatch::Nothing => return BodyToken::Markup(text.len()),
        };
        self.end(BlockCompletion::Complete, context);
        BodyToken::Markup(len)
    }

    /// Ends the arguments with a closer of `len` bytes.
    fn finish(
        &mut self,
        context: &mut BodyContext<'_>,
        len: usize,
        completion: BlockCompletion,
    ) -> BodyToken {
        self.end(completion, context);
        if self.count == 0 { BodyToken::NoArguments(len) } else { context.made(len, "}") }
    }

    fn end(&mut self, completion: BlockCompletion, context: &mut BodyContext<'_>) {
        self.at = TaggedState::Done;
        context.ended = Some(completion);
    }
}

/// The white space between tags, if any stands there.
fn frame_space(text: &str, is_last: bool) -> Option<BodyToken> {
    let space = leading_space(text);
    match &text[space..] {
        rest if rest.starts_with(WRITTEN_BREAK) => Some(BodyToken::Markup(space + WRITTEN_BREAK.len())),
        "\\" if space == 0 && !is_last => Some(BodyToken::More),
        _ => (space > 0).then_some(BodyToken::Markup(space)),
    }
}
