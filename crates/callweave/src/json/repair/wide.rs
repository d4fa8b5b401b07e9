//! Full-width punctuation between tokens: `｛＂a＂：1，＂b＂：2｝`.
//!
//! Chinese and Japanese keyboards have these signs on the same keys. In strings and in text without quotes they are
//! text; only where both neighbours are tokens do they stand for the signs of JSON.

use super::RepairChangeKind;
use super::ahead::is_key_byte;
use super::bare::{literal, number};
use super::encoded::UnescapedText;
use super::noise::NoisySource;

/// The maximum length of words that are looked back at.
const LONGEST_WORDS: usize = 64;

/// The token before a position.
#[derive(Clone, Copy)]
enum TextBefore {
    /// Nothing, or text that is no token.
    Nothing,
    Opener,
    Closer,
    /// A colon or comma.
    Sign,
    String,
    /// Words without quotes that begin here.
    Words(usize),
}

/// The text with the signs of JSON for the full-width ones between tokens; `None` if there are none. Up to
/// `sound` the text is JSON beyond doubt.
pub(super) fn narrow(text: &str, sound: usize) -> Option<UnescapedText<'_>> {
    // All of them begin with the same byte, which is rare in other texts.
    memchr::memchr(0xEF, &text.as_bytes()[sound..])?;
    let source = NoisySource::new(text);
    let mut narrowed = UnescapedText::new(text);
    let mut before = TextBefore::Nothing;
    let mut depth = usize::from(sound > 0);
    let mut at = sound;
    while let Some(c) = source.char(at) {
        let end = at + c.len_utf8();
        if is_opening_quote(&source, before, at) {
            let Some(close) = source.closing_quote(at) else { break };
            at = close + source.quote(close).map_or(1, |(_, length)| length);
            before = TextBefore::String;
            continue;
        }
        let sign = match narrow_sign(c) {
            Some((sign, replacement, kind)) if is_sign(&source, before, sign, depth, at, end) => {
                narrowed.push(at, end, replacement, kind);
                sign
            }
            Some(_) => ' ',
            None => c,
        };
        match sign {
            '{' | '[' => {
                depth += 1;
                before = TextBefore::Opener;
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                before = TextBefore::Closer;
            }
            ':' | ',' => before = TextBefore::Sign,
            _ if c.is_whitespace() => {}
            _ => {
                before = match before {
                    TextBefore::Words(start) => TextBefore::Words(start),
                    TextBefore::String | TextBefore::Closer => TextBefore::Nothing,
                    TextBefore::Nothing | TextBefore::Opener | TextBefore::Sign => TextBefore::Words(at),
                }
            }
        }
        at = end;
    }
    narrowed.finish()
}

fn narrow_sign(c: char) -> Option<(char, &'static str, RepairChangeKind)> {
    Some(match c {
        '：' => (':', ":", RepairChangeKind::Colon),
        '，' => (',', ",", RepairChangeKind::Comma),
        '｛' => ('{', "{", RepairChangeKind::Stray),
        '｝' => ('}', "}", RepairChangeKind::Stray),
        '［' => ('[', "[", RepairChangeKind::Stray),
        '］' => (']', "]", RepairChangeKind::Stray),
        _ => return None,
    })
}

/// Whether a string begins at `at`: an apostrophe after a word does not begin one.
fn is_opening_quote(source: &NoisySource<'_>, before: TextBefore, at: usize) -> bool {
    match source.byte(at) {
        Some(b'\'' | b'`') => {
            matches!(before, TextBefore::Opener | TextBefore::Sign) && source.quote(at).is_some()
        }
        _ => source.quote(at).is_some(),
    }
}

/// Whether the full-width form of `sign` from `at` to `end` stands between tokens.
fn is_sign(
    source: &NoisySource<'_>,
    before: TextBefore,
    sign: char,
    depth: usize,
    at: usize,
    end: usize,
) -> bool {
    let next = source.ascii_space(end);
    // Longer words are neither a number nor a name, and looking back stays cheap.
    let words =
        |start: usize| if at - start <= LONGEST_WORDS { source.text[start..at].trim_end() } else { "" };
    let is_after_value = || match before {
        TextBefore::String | TextBefore::Closer => true,
        TextBefore::Words(start) => literal(words(start)).is_some() || number(words(start)).is_some(),
        TextBefore::Nothing | TextBefore::Opener | TextBefore::Sign => false,
    };
    match sign {
        ':' => {
            let is_after_key = match before {
                TextBefore::String => true,
                TextBefore::Words(start) => !words(start).is_empty() && words(start).bytes().all(is_key_byte),
                TextBefore::Nothing | TextBefore::Opener | TextBefore::Closer | TextBefore::Sign => false,
            };
            depth > 0 && is_after_key && is_value(source, next)
        }
        ',' => {
            depth > 0
                && is_after_value()
                && (is_value(source, next) || is_closer(source, next) || is_key(source, next))
        }
        '{' | '[' => is_value(source, next) || is_closer(source, next) || is_key(source, next),
        _ => depth > 0 && (is_after_value() || matches!(before, TextBefore::Opener | TextBefore::Sign)),
    }
}

/// Whether a string, number, literal or container begins at `at`.
fn is_value(source: &NoisySource<'_>, at: usize) -> bool {
    let Some(c) = source.char(at) else { return false };
    let word = || source.bytes[at..].iter().take(16).take_while(|byte| byte.is_ascii_alphabetic()).count();
    matches!(c, '{' | '[' | '｛' | '［' | '-' | '0'..='9')
        || source.quote(at).is_some()
        || literal(&source.text[at..at + word()]).is_some()
}

fn is_closer(source: &NoisySource<'_>, at: usize) -> bool {
    matches!(source.char(at), Some('}' | ']' | '｝' | '］'))
}

/// Whether a key without quotes and a colon stand at `at`.
fn is_key(source: &NoisySource<'_>, at: usize) -> bool {
    let is_part = |&(_, c): &(usize, char)| c != '：' && (c == '_' || c.is_alphanumeric());
    let rest = source.text.get(at..).unwrap_or_default();
    let length: usize = rest.char_indices().take_while(is_part).map(|(_, c)| c.len_utf8()).sum();
    length > 0 && matches!(source.char(source.ascii_space(at + length)), Some(':' | '：'))
}
