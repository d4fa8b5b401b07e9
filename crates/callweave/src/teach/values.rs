//! Values in the notations of the dialects.

use crate::dialect::{ElementsBody, TaggedBody};
use crate::json::schema::TypeSet;
use crate::json::{Object, Value, escape_into};

/// How much care is taken that no value looks like a marker, or like a value of another type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EscapingCare {
    /// Values are written as one would write them.
    Plain,
    /// Characters that may be part of a marker are escaped, and a text that may be something else is quoted.
    Careful,
}

/// Appends a value as JSON.
pub(super) fn json_into(value: &Value, care: EscapingCare, out: &mut String) {
    match value {
        Value::String(text) => string_into(text, care, out),
        Value::Array(items) => {
            list_into(items, ('[', ']'), out, |item, out| json_into(item, care, out));
        }
        Value::Object(members) => list_into(members, ('{', '}'), out, |(key, value), out| {
            string_into(key, care, out);
            out.push_str(": ");
            json_into(value, care, out);
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => out.push_str(&value.to_string()),
    }
}

fn string_into(text: &str, care: EscapingCare, out: &mut String) {
    out.push('"');
    match care {
        EscapingCare::Plain => escape_into(text, out),
        EscapingCare::Careful => {
            for char in text.chars() {
                match u8::try_from(char) {
                    Ok(byte @ (b'<' | b'>' | b'[' | b']' | b'`' | b'~' | b'|' | b'{' | b'}' | b'&')) => {
                        out.push_str(&format!("\\u{byte:04x}"));
                    }
                    _ => escape_into(char.encode_utf8(&mut [0; 4]), out),
                }
            }
        }
    }
    out.push('"');
}

fn list_into<T>(
    items: impl IntoIterator<Item = T>,
    (open, close): (char, char),
    out: &mut String,
    mut write: impl FnMut(T, &mut String),
) {
    out.push(open);
    for (at, item) in items.into_iter().enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        write(item, out);
    }
    out.push(close);
}

/// Appends a value as a Python literal.
pub(super) fn python_into(value: &Value, care: EscapingCare, out: &mut String) {
    match value {
        Value::Null => out.push_str("None"),
        Value::Bool(true) => out.push_str("True"),
        Value::Bool(false) => out.push_str("False"),
        Value::Number(number) => out.push_str(number.as_str()),
        Value::String(text) => string_into(text, care, out),
        Value::Array(items) => list_into(items, ('[', ']'), out, |item, out| python_into(item, care, out)),
        Value::Object(members) => list_into(members, ('{', '}'), out, |(key, value), out| {
            string_into(key, care, out);
            out.push_str(": ");
            python_into(value, care, out);
        }),
    }
}

/// Appends keyword arguments, without the parentheses.
pub(super) fn keywords_into(arguments: &Object, care: EscapingCare, out: &mut String) {
    for (at, (key, value)) in arguments.iter().enumerate() {
        out.push_str(if at > 0 { ", " } else { "" });
        out.push_str(key);
        out.push('=');
        python_into(value, care, out);
    }
}

/// Appends a value with bare keys, its texts between the dialect's own quotes.
pub(super) fn braces_into(value: &Value, quote: &str, care: EscapingCare, out: &mut String) {
    let quoted = |text: &str, out: &mut String| match care {
        EscapingCare::Plain => [quote, text, quote].iter().for_each(|part| out.push_str(part)),
        EscapingCare::Careful => string_into(text, care, out),
    };
    match value {
        Value::String(text) => quoted(text, out),
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                braces_into(item, quote, care, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            for (at, (key, value)) in members.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                let is_word = key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
                if is_word && !key.is_empty() {
                    out.push_str(key);
                } else {
                    quoted(key, out);
                }
                out.push(':');
                braces_into(value, quote, care, out);
            }
            out.push('}');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => out.push_str(&value.to_string()),
    }
}

/// Appends nested elements.
pub(super) fn elements_into(members: &Object, body: &ElementsBody, care: EscapingCare, out: &mut String) {
    for (key, value) in members {
        element_into(key, value, body, care, out);
    }
}

fn element_into(name: &str, value: &Value, body: &ElementsBody, care: EscapingCare, out: &mut String) {
    let prefix = &body.prefix;
    out.push_str(&format!("{prefix}<{name}>"));
    match value {
        Value::Object(members) if !members.is_empty() => elements_into(members, body, care, out),
        Value::Array(items) if !items.is_empty() => {
            items.iter().for_each(|item| element_into(&body.item, item, body, care, out));
        }
        Value::String(text) if care == EscapingCare::Careful && may_be_other(text) => {
            string_into(text, care, out)
        }
        Value::String(text) => out.push_str(text),
        other => out.push_str(&other.to_string()),
    }
    out.push_str(&format!("{prefix}</{name}>"));
}

/// The value of a tagged parameter, and the attribute that gives its type.
pub(super) fn tagged(
    value: &Value,
    types: TypeSet,
    body: &TaggedBody,
    care: EscapingCare,
) -> (String, String) {
    let mut out = String::new();
    let attribute = match body.type_attribute.as_deref() {
        None => String::new(),
        Some("string") => format!(" string=\"{}\"", value.is_string()),
        Some(name) => format!(" {name}=\"{}\"", type_name(value)),
    };
    let is_told = body.type_attribute.is_some();
    match value {
        Value::String(text) if body.entities => {
            // In a section of its own a text is nothing else, regardless of its look.
            let needs_section =
                care == EscapingCare::Careful || text.contains(['<', '&']) || may_be_other(text);
            if needs_section {
                out.push_str(&format!("<![CDATA[{}]]>", text.replace("]]>", "]]]]><![CDATA[>")));
            } else {
                out.push_str(text);
            }
        }
        Value::String(text) => {
            let is_free = types.is_any() && !is_told;
            if is_free && (may_be_other(text) || care == EscapingCare::Careful) {
                string_into(text, care, &mut out);
            } else {
                out.push_str(text);
            }
        }
        other => json_into(other, care, &mut out),
    }
    (out, attribute)
}

/// Whether a text without quotes may be taken for a value of another type.
fn may_be_other(text: &str) -> bool {
    let wire_type = text.trim();
    wire_type.is_empty()
        || wire_type.starts_with(['{', '[', '"', '+', '-', '.'])
        || wire_type.starts_with(|first: char| first.is_ascii_digit())
        || ["null", "none", "true", "false"].iter().any(|other| wire_type.eq_ignore_ascii_case(other))
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
