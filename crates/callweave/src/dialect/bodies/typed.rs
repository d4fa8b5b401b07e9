//! A value written raw, given the types that its place allows.

use super::literal::{Literal, Piece, Syntax, is_json, word_into};
use crate::json::schema::Types;
use crate::json::{Scanner, Status, Str, escape_into};

/// What the beginning of a value may still become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::dialect) enum Prospect {
    /// Not certain yet.
    Open,
    /// Nothing but a string.
    String,
    /// An object or array, to be read as it comes.
    Literal,
}

/// Finds out what a growing value may still become. Every byte is looked at once.
#[derive(Clone, Debug, Default)]
pub(in crate::dialect) struct Prober {
    /// Where the value begins, after white space.
    start: Option<usize>,
    seen: usize,
    scanner: Scanner,
}

/// Words that are values are not longer than this, white space after them included.
const LONGEST_WORD: usize = 4096;

impl Prober {
    /// What a value that begins with `text` may still become. Later texts begin with earlier ones.
    pub(in crate::dialect) fn probe(&mut self, text: &str, types: Types) -> Prospect {
        let start = match self.start {
            Some(start) => start,
            None => {
                let seen = self.seen.min(text.len());
                let space = text[seen..].bytes().take_while(u8::is_ascii_whitespace).count();
                self.seen = seen + space;
                if self.seen == text.len() {
                    return Prospect::Open;
                }
                *self.start.insert(self.seen)
            }
        };
        let first = text.as_bytes()[start];
        let is_container = (types.overlaps(Types::OBJECT) && first == b'{')
            || (types.overlaps(Types::ARRAY) && first == b'[');
        match (is_container, types.allows_string()) {
            (true, false) => self.container(text),
            (true, true) => self.container_or_string(text, start),
            (false, false) => Prospect::Open,
            (false, true) => word(&text[start..], types),
        }
    }

    /// Models sometimes escape a whole container; that shows at its first quote.
    fn container(&mut self, text: &str) -> Prospect {
        let rest = &text.as_bytes()[self.seen..];
        match memchr::memchr3(b'"', b'\'', b'\\', rest) {
            Some(at) if rest[at] == b'\\' => Prospect::Open,
            Some(_) => Prospect::Literal,
            None => {
                self.seen = text.len();
                Prospect::Open
            }
        }
    }

    /// A container that stops being JSON is a string, unless Python wrote it.
    fn container_or_string(&mut self, text: &str, start: usize) -> Prospect {
        let rest = &text[self.seen..];
        if self.scanner.status() != Status::Complete && self.scanner.status() != Status::Broken {
            self.seen += self.scanner.push(rest);
        }
        let rest = &text[self.seen..];
        let goes_on = match self.scanner.status() {
            Status::Complete => {
                let space = rest.bytes().take_while(u8::is_ascii_whitespace).count();
                self.seen += space;
                space == rest.len()
            }
            Status::Broken => rest.starts_with('\'') && self.seen - start < 64,
            Status::Empty | Status::Open => true,
        };
        if goes_on { Prospect::Open } else { Prospect::String }
    }
}

fn word(begun: &str, types: Types) -> Prospect {
    if begun.len() > LONGEST_WORD {
        return Prospect::String;
    }
    let word = begun.trim_end();
    let starts = |words: &[&str]| words.iter().any(|other| other.starts_with(word));
    let may_be = (types.overlaps(Types::NULL) && starts(&["null", "None"]))
        || (types.overlaps(Types::BOOLEAN) && starts(&["true", "false", "True", "False"]))
        || (types.overlaps(Types::NUMBER) && word.len() < 64 && word.bytes().all(is_number_byte))
        || (types.is_any() && word.starts_with('"'));
    if may_be { Prospect::Open } else { Prospect::String }
}

fn is_number_byte(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E')
}

/// Appends a complete value as JSON.
pub(in crate::dialect) fn convert(text: &str, types: Types, out: &mut String) {
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
        _ if word.starts_with('{') && allows(Types::OBJECT)
            || word.starts_with('[') && allows(Types::ARRAY) =>
        {
            literal_into(word, out);
            // Python's set becomes a list only where a list is wanted.
            let is_set = word.starts_with('{') && out[begin..].starts_with('[');
            if is_set && (types.allows_string() || !allows(Types::ARRAY)) {
                out.truncate(begin);
            }
        }
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
        match literal.next(&word[at..], Syntax { is_last: true, ..Syntax::default() }, out) {
            Piece::Took(len) if len > 0 => at += len,
            Piece::Done(len) if at + len == word.len() => return,
            _ => {
                out.truncate(begin);
                return;
            }
        }
    }
}
