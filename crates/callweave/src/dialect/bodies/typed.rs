//! A value written raw, given the types that its place allows.

use super::literal::{Literal, Piece, Syntax, is_json, word_into};
use crate::json::schema::Types;
use crate::json::{Scanner, Status, Str, escape_into};

/// What the beginning of a value may still become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prospect {
    /// Not certain yet.
    Open,
    /// Nothing but a string.
    String,
    /// An object or array, to be read as it comes.
    Literal,
}

/// What a value that begins with `text` may still become.
pub(super) fn prospect(text: &str, types: Types) -> Prospect {
    let begun = text.trim_start();
    let Some(first) = begun.chars().next() else { return Prospect::Open };
    let may_be_string = types.allows_string();
    let containers =
        Types::OBJECT.overlaps(types) && first == '{' || Types::ARRAY.overlaps(types) && first == '[';
    if containers && !may_be_string {
        // Models sometimes escape a whole container; that shows at its first quote.
        return match begun.find(['"', '\'', '\\']) {
            Some(at) if begun.as_bytes()[at] == b'\\' => Prospect::Open,
            Some(_) => Prospect::Literal,
            None => Prospect::Open,
        };
    }
    if !may_be_string {
        return Prospect::Open;
    }
    if containers {
        let mut scanner = Scanner::new();
        let taken = scanner.push(begun);
        let goes_on = match scanner.status() {
            Status::Complete => begun[taken..].trim().is_empty(),
            Status::Broken => begun.as_bytes().get(taken) == Some(&b'\'') && taken < 64,
            Status::Empty | Status::Open => true,
        };
        return if goes_on { Prospect::Open } else { Prospect::String };
    }
    let word = begun.trim_end();
    let starts = |words: &[&str]| words.iter().any(|other| other.starts_with(word));
    let may_be = (Types::NULL.overlaps(types) && starts(&["null", "None"]))
        || (Types::BOOLEAN.overlaps(types) && starts(&["true", "false", "True", "False"]))
        || (Types::NUMBER.overlaps(types) && word.len() < 64 && word.bytes().all(is_number_byte))
        || (types.is_any() && first == '"' && word.len() < 4096);
    if may_be { Prospect::Open } else { Prospect::String }
}

fn is_number_byte(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E')
}

/// Appends a complete value as JSON.
pub(super) fn convert(text: &str, types: Types, out: &mut String) {
    let word = text.trim();
    if word.is_empty() && !types.allows_string() {
        out.push_str(if types.allows_null() { "null" } else { "\"\"" });
        return;
    }
    let begin = out.len();
    let allows = |kind: Types| kind.overlaps(types);
    match word {
        "null" | "None" if allows(Types::NULL) => out.push_str("null"),
        "true" | "True" | "TRUE" if allows(Types::BOOLEAN) => out.push_str("true"),
        "false" | "False" | "FALSE" if allows(Types::BOOLEAN) => out.push_str("false"),
        _ if word.starts_with(['{', '[']) && allows(container(word)) => literal_into(word, out),
        _ if allows(Types::NUMBER)
            && word.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first)) =>
        {
            if is_json(word) {
                out.push_str(word);
            } else if !types.allows_string() {
                word_into(word, out);
            }
        }
        _ if types.is_any() && word.starts_with('"') && is_json(word) => out.push_str(word),
        _ => {}
    }
    if out.len() == begin {
        out.push('"');
        escape_into(text, out);
        out.push('"');
    }
}

fn container(word: &str) -> Types {
    if word.starts_with('{') { Types::OBJECT } else { Types::ARRAY }
}

/// Appends an object or array, if `word` can be read as one.
fn literal_into(word: &str, out: &mut String) {
    if is_json(word) {
        out.push_str(word);
        return;
    }
    if word.contains("\\\"") {
        let unescaped = Str::Escaped(word).to_cow();
        if is_json(&unescaped) {
            out.push_str(&unescaped);
            return;
        }
    }
    let begin = out.len();
    let mut literal = Literal::value();
    let mut at = 0;
    loop {
        match literal.next(&word[at..], Syntax::default(), true, out) {
            Piece::Took(len) if len > 0 => at += len,
            Piece::Done(len) if at + len == word.len() => return,
            _ => {
                out.truncate(begin);
                return;
            }
        }
    }
}
