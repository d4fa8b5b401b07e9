//! Calls as one element whose children are fields: `<use_tool><name>…</name><args>{…}</args></use_tool>`.

use serde::Deserialize;

use crate::dialect::check;
use crate::dialect::spec::{CallBody, JsonBody, one_or_many};
use crate::dialect::bodies::json;
use crate::dialect::bodies::tags::attribute_of;
use crate::dialect::bodies::typed::{self, TypeProber, PossibleType};
use crate::dialect::bodies::value::{ValueProgress, ValueReader};
use crate::dialect::bodies::{BodyContext, BodyToken, head, leading_space};
use crate::event::BlockCompletion;
use crate::json::escape_into;
use crate::json::schema::TypeSet;

/// See [`CallBody::Fields`]. The form's opener is the beginning of the tag (`<use_tool`), because the tag may
/// hold the name in an attribute.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FieldsBody {
    /// The child that holds the name.
    pub name: String,
    /// The children that hold all arguments as JSON.
    #[serde(deserialize_with = "one_or_many")]
    pub arguments: Vec<String>,
    /// The closing tag.
    pub close: String,
}


impl FieldsBody {
    pub(in crate::dialect) fn check(&self, of: &dyn Fn(&str) -> String) -> check::SpecResult {
        check::filled(&of("name"), &self.name)?;
        self.arguments.iter().try_for_each(|child| check::filled(&of("arguments"), child))?;
        check::marker(&of("close"), &self.close)
    }
}

const LONGEST_TAG: usize = 512;

/// Reads one call.
#[derive(Clone, Debug, Default)]
pub(in crate::dialect) struct FieldsReader {
    at: FieldsState,
    field: String,
    /// The closing tag of the field.
    closer: String,
    value: ValueReader,
    /// Finds the types that the open field may still have.
    prober: TypeProber,
    has_name: bool,
    /// How many fields have become arguments.
    count: usize,
    has_arguments: bool,
    /// For a body that is JSON.
    json: json::JsonCallReader,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum FieldsState {
    #[default]
    Header,
    HeaderEnd {
        closes_itself: bool,
    },
    Children,
    /// In the field that holds the name.
    Name,
    /// In the field that holds all arguments.
    Arguments,
    /// At the start of any other field, and in one that is a string.
    Field,
    Text,
    /// At the closing tag of a field.
    FieldEnd,
    /// In a JSON object that holds name and arguments.
    Json,
    Done,
}

impl FieldsReader {
    #[inline]
    pub(in crate::dialect) fn is_in_string(&self) -> bool {
        match self.at {
            FieldsState::Text => true,
            FieldsState::Arguments => self.value.is_in_string(),
            FieldsState::Json => self.json.is_in_string(),
            _ => false,
        }
    }

    pub(in crate::dialect) fn next(&mut self, text: &str, context: &mut BodyContext<'_>) -> BodyToken {
        let CallBody::Fields(body) = &context.form.form.body else { return BodyToken::Fail };
        match self.at {
            FieldsState::Header => self.header(text, context),
            FieldsState::HeaderEnd { closes_itself } => {
                let len = text.find('>').map_or(0, |end| end + 1);
                self.at = FieldsState::Children;
                if closes_itself { self.finish(len, BlockCompletion::Complete, context) } else { BodyToken::Markup(len) }
            }
            FieldsState::Children => self.children(text, body, context),
            FieldsState::Name => self.name(text, context),
            FieldsState::Arguments => self.arguments(text, context),
            FieldsState::Field => self.field(text, context),
            FieldsState::Text => self.text(text, context),
            FieldsState::FieldEnd => self.field_end(text, body, context),
            FieldsState::Json => self.json.next_in(&JsonBody::default(), text, context),
            FieldsState::Done => BodyToken::Done,
        }
    }

    /// The opening tag, which may hold the name.
    fn header(&mut self, text: &str, context: &mut BodyContext<'_>) -> BodyToken {
        let Some(end) = head(text, LONGEST_TAG).find('>').filter(|&end| end <= LONGEST_TAG) else {
            return if context.is_last || text.len() > LONGEST_TAG { BodyToken::Fail } else { BodyToken::More };
        };
        let header = &text[..end];
        if !header.is_empty() && !header.starts_with(char::is_whitespace) {
            return BodyToken::Fail;
        }
        let name = attribute_of(header, "name").filter(|name| !name.is_empty());
        self.at = FieldsState::HeaderEnd { closes_itself: name.is_some() && header.ends_with('/') };
        let Some(name) = name else { return BodyToken::Markup(end) };
        context.name.clear();
        context.name.push_str(name);
        self.has_name = true;
        BodyToken::Name(end)
    }

    fn children(&mut self, text: &str, body: &FieldsBody, context: &mut BodyContext<'_>) -> BodyToken {
        let space = leading_space(text);
        if space > 0 {
            return BodyToken::Markup(space);
        }
        if text.is_empty() {
            return if context.is_last { self.finish(0, BlockCompletion::Truncated, context) } else { BodyToken::More };
        }
        if text.starts_with('{') && self.count == 0 && !self.has_arguments {
            if !self.has_name {
                self.at = FieldsState::Json;
                return BodyToken::Markup(0);
            }
            // The arguments without a field of their own, up to the end of the call.
            self.closer.clone_from(&body.close);
            self.value = ValueReader::default();
            self.at = FieldsState::Arguments;
            return self.arguments(text, context);
        }
        if !text.starts_with('<') {
            return if self.has_name { self.finish(0, BlockCompletion::Truncated, context) } else { BodyToken::Fail };
        }
        let Some(end) = head(text, LONGEST_TAG).find('>').filter(|&end| end <= LONGEST_TAG) else {
            return match context.is_last {
                _ if text.len() > LONGEST_TAG => BodyToken::Fail,
                true => BodyToken::Markup(text.len()),
                false => BodyToken::More,
            };
        };
        let tag = &text[1..end];
        if text[..=end] == *body.close {
            return if self.has_name {
                self.finish(end + 1, BlockCompletion::Complete, context)
            } else {
                BodyToken::Fail
            };
        }
        if tag.starts_with('/') {
            return BodyToken::Markup(end + 1);
        }
        self.field.clear();
        self.field.push_str(tag.trim());
        self.closer.clear();
        self.closer.push_str("</");
        self.closer.push_str(&self.field);
        self.closer.push('>');
        if self.field == body.name {
            self.at = FieldsState::Name;
            return BodyToken::Markup(end + 1);
        }
        if body.arguments.contains(&self.field) && self.count == 0 {
            self.at = FieldsState::Arguments;
            self.value = ValueReader::default();
            return BodyToken::Markup(end + 1);
        }
        self.count += 1;
        self.prober = TypeProber::default();
        self.at = FieldsState::Field;
        context.key(end + 1, self.count == 1, &self.field)
    }

    /// Where the field that is open ends, or how much of it is certain.
    fn end_of_field(&self, text: &str, is_last: bool) -> (usize, bool) {
        let closer = self.closer.as_str();
        match memchr::memmem::find(text.as_bytes(), closer.as_bytes()) {
            Some(at) => (at, true),
            None if is_last => (text.len(), false),
            None => {
                let held = (1..closer.len().min(text.len() + 1)).rev().find(|&len| {
                    text.is_char_boundary(text.len() - len) && closer.starts_with(&text[text.len() - len..])
                });
                (text.len() - held.unwrap_or(0), false)
            }
        }
    }

    fn name(&mut self, text: &str, context: &mut BodyContext<'_>) -> BodyToken {
        let (len, is_ended) = self.end_of_field(text, context.is_last);
        if len > LONGEST_TAG || !is_ended {
            return if context.is_last || len > LONGEST_TAG { BodyToken::Fail } else { BodyToken::More };
        }
        let name = text[..len].trim();
        self.at = FieldsState::FieldEnd;
        if name.is_empty() || self.has_name {
            return BodyToken::Markup(len);
        }
        context.name.clear();
        context.name.push_str(name);
        self.has_name = true;
        BodyToken::Name(len)
    }

    fn arguments(&mut self, text: &str, context: &mut BodyContext<'_>) -> BodyToken {
        if !self.has_arguments {
            let space = leading_space(text);
            if space > 0 {
                return BodyToken::Markup(space);
            }
        }
        // JSON ends where it says; only what is none ends at the tag.
        let is_object = self.has_arguments || text.starts_with(['{', '[']);
        let (len, is_ended) = match self.value.is_json() && is_object {
            true => (text.len(), false),
            false => self.end_of_field(text, context.is_last),
        };
        let (token, progress) = self.value.token(&text[..len], context);
        self.has_arguments |= matches!(token, BodyToken::Argument(_));
        match progress {
            ValueProgress::Complete | ValueProgress::Closed => self.at = FieldsState::FieldEnd,
            ValueProgress::Open | ValueProgress::Cut if is_ended && len == 0 => self.at = FieldsState::FieldEnd,
            ValueProgress::Cut => return self.finish(0, BlockCompletion::Truncated, context),
            ValueProgress::Open | ValueProgress::Odd => {}
        }
        if token == BodyToken::More && is_ended { BodyToken::Markup(0) } else { token }
    }

    fn field(&mut self, text: &str, context: &mut BodyContext<'_>) -> BodyToken {
        let schema = context.tools.schema(context.name);
        let types = schema.map_or(TypeSet::ANY, |schema| schema.property(&self.field));
        let (len, is_ended) = self.end_of_field(text, context.is_last);
        if types.is_only_string() || self.prober.probe(&text[..len], types) == PossibleType::String {
            context.scratch.clear();
            context.scratch.push('"');
            self.at = FieldsState::Text;
            return BodyToken::Converted(0);
        }
        if !is_ended && !context.is_last {
            return BodyToken::More;
        }
        context.scratch.clear();
        typed::convert(text[..len].trim(), types, context.scratch);
        self.at = FieldsState::FieldEnd;
        BodyToken::Converted(len)
    }

    fn text(&mut self, text: &str, context: &mut BodyContext<'_>) -> BodyToken {
        let (len, is_ended) = self.end_of_field(text, context.is_last);
        context.scratch.clear();
        if len == 0 {
            if !is_ended && !context.is_last {
                return BodyToken::More;
            }
            context.scratch.push('"');
            self.at = FieldsState::FieldEnd;
            return BodyToken::Converted(0);
        }
        escape_into(&text[..len], context.scratch);
        BodyToken::Converted(len)
    }

    fn field_end(&mut self, text: &str, body: &FieldsBody, context: &mut BodyContext<'_>) -> BodyToken {
        let (len, is_ended) = self.end_of_field(text, context.is_last);
        if is_ended && self.closer == body.close {
            return self.finish(len + self.closer.len(), BlockCompletion::Complete, context);
        }
        if is_ended {
            self.at = FieldsState::Children;
            return BodyToken::Markup(len + self.closer.len());
        }
        match (context.is_last, len) {
            (true, 0) => self.finish(0, BlockCompletion::Truncated, context),
            (_, 0) => BodyToken::More,
            (_, len) => BodyToken::Markup(len),
        }
    }

    fn finish(&mut self, len: usize, completion: BlockCompletion, context: &mut BodyContext<'_>) -> BodyToken {
        self.at = FieldsState::Done;
        context.ended = Some(completion);
        if self.has_arguments && self.count == 0 {
            return BodyToken::Markup(len);
        }
        if self.count == 0 {
            return BodyToken::NoArguments(len);
        }
        context.scratch.clear();
        context.scratch.push('}');
        BodyToken::Converted(len)
    }
}
