//! A value written raw, and the types that its position allows.

use super::literal::{LiteralProgress, LiteralReader, LiteralSyntax, is_json, word_into};
use crate::json::schema::TypeSet;
use crate::json::{JsonScanner, ScanStatus, Str, escape_into};

/// The types that the beginning of a value still allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::dialect) enum PossibleType {
    /// Not certain yet.
    Open,
    /// Nothing but a string.
    String,
    /// An object or array, to be read as it comes.
    Literal,
}

/// Finds the types that a growing value may still have. Every byte is looked at once.
#[derive(Clone, Debug, Default)]
pub(in crate::dialect) struct TypeProber {
    /// Where the value begins, after white space.
    start: Option<usize>,
    seen: usize,
    scanner: JsonScanner,
}

/// The maximum length of words that are values, white space after them included.
const LONGEST_WORD: usize = 4096;

impl TypeProber {
    /// Returns the types that a value which begins with `text` may still have. Later texts begin with earlier ones.
    pub(in crate::dialect) fn probe(&mut self, text: &str, types: TypeSet) -> PossibleType {
        let start = match self.start {
            Some(start) => start,
            None => {
                let seen = self.seen.min(text.len());
                let space = text[seen..].bytes().take_while(u8::is_ascii_whitespace).count();
                self.seen = seen + space;
                if self.seen == text.len() {
                    return PossibleType::Open;
                }
                *self.start.insert(self.seen)
            }
        };
        let first = text.as_bytes()[start];
        let is_container = (types.overlaps(TypeSet::OBJECT) && first == b'{')
            || (types.overlaps(TypeSet::ARRAY) && first == b'[');
        match (is_container, types.allows_string()) {
            (true, false) => self.container(text),
            (true, true) => self.container_or_string(text, start),
            (false, false) => PossibleType::Open,
            (false, true) => word(&text[start..], types),
        }
    }

    /// Models sometimes escape a complete container; that shows at its first quote.
    fn container(&mut self, text: &str) -> PossibleType {
        let rest = &text.as_bytes()[self.seen..];
        match memchr::memchr3(b'"', b'\'', b'\\', rest) {
            Some(at) if rest[at] == b'\\' => PossibleType::Open,
            Some(_) => PossibleType::Literal,
            None => {
                self.seen = text.len();
                PossibleType::Open
            }
        }
    }

    /// A container that stops being JSON is a string, unless Python wrote it.
    fn container_or_string(&mut self, text: &str, start: usize) -> PossibleType {
        let rest = &text[self.seen..];
        if self.scanner.status() != ScanStatus::Complete && self.scanner.status() != ScanStatus::Broken {
            self.seen += self.scanner.push(rest);
        }
        let rest = &text[self.seen..];
        let goes_on = match self.scanner.status() {
            ScanStatus::Complete => {
                let space = rest.bytes().take_while(u8::is_ascii_whitespace).count();
                self.seen += space;
                space == rest.len()
            }
            ScanStatus::Broken => rest.starts_with('\'') && self.seen - start < 64,
            ScanStatus::Empty | ScanStatus::Open => true,
        };
        if goes_on { PossibleType::Open } else { PossibleType::String }
    }
}

fn word(begun: &str, types: TypeSet) -> PossibleType {
    if begun.len() > LONGEST_WORD {
        return PossibleType::String;
    }
    let word = begun.trim_end();
    let starts = |words: &[&str]| words.iter().any(|other| other.starts_with(word));
    let may_be = (types.overlaps(TypeSet::NULL) && starts(&["null", "None"]))
        || (types.overlaps(TypeSet::BOOLEAN) && starts(&["true", "false", "True", "False"]))
        || (types.overlaps(TypeSet::NUMBER) && word.len() < 64 && word.bytes().all(is_number_byte))
        || (types.is_any() && word.starts_with('"'));
    if may_be { PossibleType::Open } else { PossibleType::String }
}

fn is_number_byte(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E')
}

/// Appends a complete value as JSON.
pub(in crate::dialect) fn convert(text: &str, types: TypeSet, out: &mut String) {
    let word = text.trim();
    if word.is_empty() && !types.allows_string() {
        out.push_str(if types.allows_null() { "null" } else { "\"\"" });
        return;
    }
    let begin = out.len();
    let allows = |kind: TypeSet| kind.overlaps(types);
    match word {
        "null" | "None" if allows(TypeSet::NULL) => out.push_str("null"),
        "true" | "True" | "TRUE" if allows(TypeSet::BOOLEAN) => out.push_str("true"),
        "false" | "False" | "FALSE" if allows(TypeSet::BOOLEAN) => out.push_str("false"),
        _ if word.starts_with('{') && allows(TypeSet::OBJECT)
            || word.starts_with('[') && allows(TypeSet::ARRAY) =>
        {
            literal_into(word, out);
            // Python's set becomes a list only where a list is wanted.
            let is_set = word.starts_with('{') && out[begin..].starts_with('[');
            if is_set && (types.allows_string() || !allows(TypeSet::ARRAY)) {
                out.truncate(begin);
            }
        }
        _ if allows(TypeSet::NUMBER)
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
    let mut literal = LiteralReader::value();
    let mut at = 0;
    loop {
        match literal.next(&word[at..], LiteralSyntax { is_last: true, ..LiteralSyntax::default() }, out) {
            LiteralProgress::Took(len) if len > 0 => at += len,
            LiteralProgress::Done(len) if at + len == word.len() => return,
            _ => {
                out.truncate(begin);
                return;
            }
        }
    }
}
