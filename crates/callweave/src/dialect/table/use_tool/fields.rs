//! Calls as one element whose children are fields: `<use_tool><name>…</name><args>{…}</args></use_tool>`.

use serde::Deserialize;

use crate::dialect::check;
use crate::dialect::spec::{Body, Json, one_or_many};
use crate::dialect::bodies::json;
use crate::dialect::bodies::tags::attribute_of;
use crate::dialect::bodies::typed::{self, Prober, Prospect};
use crate::dialect::bodies::value::{Progress, Value};
use crate::dialect::bodies::{Context, Token, head, leading_space};
use crate::event::Completion;
use crate::json::escape_into;
use crate::json::schema::Types;

/// See [`Body::Fields`]. The form's opener is the beginning of the tag (`<use_tool`), because the tag may
/// hold the name in an attribute.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Fields {
    /// The child that holds the name.
    pub name: String,
    /// The children that hold all arguments as JSON.
    #[serde(deserialize_with = "one_or_many")]
    pub arguments: Vec<String>,
    /// The closing tag.
    pub close: String,
}


impl Fields {
    pub(in crate::dialect) fn check(&self, of: &dyn Fn(&str) -> String) -> check::Checked {
        check::filled(&of("name"), &self.name)?;
        self.arguments.iter().try_for_each(|child| check::filled(&of("arguments"), child))?;
        check::marker(&of("close"), &self.close)
    }
}

const LONGEST_TAG: usize = 512;

/// Reads one call.
#[derive(Clone, Debug, Default)]
pub(in crate::dialect) struct Reader {
    at: At,
    field: String,
    /// The closing tag of the field.
    closer: String,
    value: Value,
    /// What the field that is open may still become.
    prober: Prober,
    has_name: bool,
    /// How many fields have become arguments.
    count: usize,
    has_arguments: bool,
    /// For a body that is JSON.
    json: json::Reader,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
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

impl Reader {
    #[inline]
    pub(in crate::dialect) fn is_in_string(&self) -> bool {
        match self.at {
            At::Text => true,
            At::Arguments => self.value.is_in_string(),
            At::Json => self.json.is_in_string(),
            _ => false,
        }
    }

    pub(in crate::dialect) fn next(&mut self, text: &str, context: &mut Context<'_>) -> Token {
        let Body::Fields(body) = &context.form.form.body else { return Token::Fail };
        match self.at {
            At::Header => self.header(text, context),
            At::HeaderEnd { closes_itself } => {
                let len = text.find('>').map_or(0, |end| end + 1);
                self.at = At::Children;
                if closes_itself { self.finish(len, Completion::Whole, context) } else { Token::Markup(len) }
            }
            At::Children => self.children(text, body, context),
            At::Name => self.name(text, context),
            At::Arguments => self.arguments(text, context),
            At::Field => self.field(text, context),
            At::Text => self.text(text, context),
            At::FieldEnd => self.field_end(text, body, context),
            At::Json => self.json.next_in(&Json::default(), text, context),
            At::Done => Token::Done,
        }
    }

    /// The opening tag, which may hold the name.
    fn header(&mut self, text: &str, context: &mut Context<'_>) -> Token {
        let Some(end) = head(text, LONGEST_TAG).find('>').filter(|&end| end <= LONGEST_TAG) else {
            return if context.is_last || text.len() > LONGEST_TAG { Token::Fail } else { Token::More };
        };
        let header = &text[..end];
        if !header.is_empty() && !header.starts_with(char::is_whitespace) {
            return Token::Fail;
        }
        let name = attribute_of(header, "name").filter(|name| !name.is_empty());
        self.at = At::HeaderEnd { closes_itself: name.is_some() && header.ends_with('/') };
        let Some(name) = name else { return Token::Markup(end) };
        context.name.clear();
        context.name.push_str(name);
        self.has_name = true;
        Token::Name(end)
    }

    fn children(&mut self, text: &str, body: &Fields, context: &mut Context<'_>) -> Token {
        let space = leading_space(text);
        if space > 0 {
            return Token::Markup(space);
        }
        if text.is_empty() {
            return if context.is_last { self.finish(0, Completion::Cut, context) } else { Token::More };
        }
        if text.starts_with('{') && self.count == 0 && !self.has_arguments {
            if !self.has_name {
                self.at = At::Json;
                return Token::Markup(0);
            }
            // The arguments without a field of their own, up to the end of the call.
            self.closer.clone_from(&body.close);
            self.value = Value::default();
            self.at = At::Arguments;
            return self.arguments(text, context);
        }
        if !text.starts_with('<') {
            return if self.has_name { self.finish(0, Completion::Cut, context) } else { Token::Fail };
        }
        let Some(end) = head(text, LONGEST_TAG).find('>').filter(|&end| end <= LONGEST_TAG) else {
            return match context.is_last {
                _ if text.len() > LONGEST_TAG => Token::Fail,
                true => Token::Markup(text.len()),
                false => Token::More,
            };
        };
        let tag = &text[1..end];
        if text[..=end] == *body.close {
            return if self.has_name {
                self.finish(end + 1, Completion::Whole, context)
            } else {
                Token::Fail
            };
        }
        if tag.starts_with('/') {
            return Token::Markup(end + 1);
        }
        self.field.clear();
        self.field.push_str(tag.trim());
        self.closer.clear();
        self.closer.push_str("</");
        self.closer.push_str(&self.field);
        self.closer.push('>');
        if self.field == body.name {
            self.at = At::Name;
            return Token::Markup(end + 1);
        }
        if body.arguments.contains(&self.field) && self.count == 0 {
            self.at = At::Arguments;
            self.value = Value::default();
            return Token::Markup(end + 1);
        }
        self.count += 1;
        self.prober = Prober::default();
        self.at = At::Field;
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

    fn name(&mut self, text: &str, context: &mut Context<'_>) -> Token {
        let (len, is_ended) = self.end_of_field(text, context.is_last);
        if len > LONGEST_TAG || !is_ended {
            return if context.is_last || len > LONGEST_TAG { Token::Fail } else { Token::More };
        }
        let name = text[..len].trim();
        self.at = At::FieldEnd;
        if name.is_empty() || self.has_name {
            return Token::Markup(len);
        }
        context.name.clear();
        context.name.push_str(name);
        self.has_name = true;
        Token::Name(len)
    }

    fn arguments(&mut self, text: &str, context: &mut Context<'_>) -> Token {
        if !self.has_arguments {
            let space = leading_space(text);
            if space > 0 {
                return Token::Markup(space);
            }
        }
        // JSON ends where it says; only what is none ends at the tag.
        let is_object = self.has_arguments || text.starts_with(['{', '[']);
        let (len, is_ended) = match self.value.is_json() && is_object {
            true => (text.len(), false),
            false => self.end_of_field(text, context.is_last),
        };
        let (token, progress) = self.value.token(&text[..len], context);
        self.has_arguments |= matches!(token, Token::Argument(_));
        match progress {
            Progress::Complete | Progress::Closed => self.at = At::FieldEnd,
            Progress::Open | Progress::Cut if is_ended && len == 0 => self.at = At::FieldEnd,
            Progress::Cut => return self.finish(0, Completion::Cut, context),
            Progress::Open | Progress::Odd => {}
        }
        if token == Token::More && is_ended { Token::Markup(0) } else { token }
    }

    fn field(&mut self, text: &str, context: &mut Context<'_>) -> Token {
        let schema = context.tools.schema(context.name);
        let types = schema.map_or(Types::ANY, |schema| schema.property(&self.field));
        let (len, is_ended) = self.end_of_field(text, context.is_last);
        if types.is_only_string() || self.prober.probe(&text[..len], types) == Prospect::String {
            context.scratch.clear();
            context.scratch.push('"');
            self.at = At::Text;
            return Token::Converted(0);
        }
        if !is_ended && !context.is_last {
            return Token::More;
        }
        context.scratch.clear();
        typed::convert(text[..len].trim(), types, context.scratch);
        self.at = At::FieldEnd;
        Token::Converted(len)
    }

    fn text(&mut self, text: &str, context: &mut Context<'_>) -> Token {
        let (len, is_ended) = self.end_of_field(text, context.is_last);
        context.scratch.clear();
        if len == 0 {
            if !is_ended && !context.is_last {
                return Token::More;
            }
            context.scratch.push('"');
            self.at = At::FieldEnd;
            return Token::Converted(0);
        }
        escape_into(&text[..len], context.scratch);
        Token::Converted(len)
    }

    fn field_end(&mut self, text: &str, body: &Fields, context: &mut Context<'_>) -> Token {
        let (len, is_ended) = self.end_of_field(text, context.is_last);
        if is_ended && self.closer == body.close {
            return self.finish(len + self.closer.len(), Completion::Whole, context);
        }
        if is_ended {
            self.at = At::Children;
            return Token::Markup(len + self.closer.len());
        }
        match (context.is_last, len) {
            (true, 0) => self.finish(0, Completion::Cut, context),
            (_, 0) => Token::More,
            (_, len) => Token::Markup(len),
        }
    }

    fn finish(&mut self, len: usize, completion: Completion, context: &mut Context<'_>) -> Token {
        self.at = At::Done;
        context.ended = Some(completion);
        if self.has_arguments && self.count == 0 {
            return Token::Markup(len);
        }
        if self.count == 0 {
            return Token::NoArguments(len);
        }
        context.scratch.clear();
        context.scratch.push('}');
        Token::Converted(len)
    }
}
