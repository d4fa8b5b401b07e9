//! Character entities and CDATA sections, as XML has them.

use crate::dialect::bodies::{BodyContext, BodyToken};
use crate::json::escape_into;

pub(in crate::dialect) const CDATA: &str = "<![CDATA[";
pub(in crate::dialect) const CDATA_END: &str = "]]>";

/// The maximum length of an entity.
const LONGEST: usize = 10;

/// Reads the entity at `at` in a string, or what stands before it. `is_ended`: nothing more of the string comes.
pub(in crate::dialect) fn read(data: &str, at: usize, is_ended: bool, context: &mut BodyContext<'_>) -> BodyToken {
    if at > 0 {
        return context.string(&data[..at]);
    }
    let Some(end) = data.bytes().take(LONGEST).position(|byte| byte == b';') else {
        let is_begun = data.len() < LONGEST && !is_ended && !context.is_last;
        return if is_begun { BodyToken::More } else { context.made(1, "&") };
    };
    let mut plain = String::new();
    unescape_into(&data[..=end], &mut plain);
    context.scratch.clear();
    escape_into(&plain, context.scratch);
    BodyToken::Converted(end + 1)
}

/// How much of `text` is the inside of a CDATA section, and whether its end follows.
pub(in crate::dialect) fn cdata_len(text: &str, is_last: bool) -> (usize, bool) {
    match text.find(CDATA_END) {
        Some(end) => (end, true),
        None if is_last => (text.len(), false),
        None => {
            let held = text.bytes().rev().take(CDATA_END.len() - 1).take_while(|&byte| byte == b']').count();
            (text.len() - held, false)
        }
    }
}

/// Appends `text` with its character entities decoded.
pub(in crate::dialect) fn unescape_into(mut text: &str, out: &mut String) {
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
