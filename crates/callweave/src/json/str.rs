//! A string as it is written in JSON, decoded only when its text is needed.

use std::borrow::Cow;
use std::fmt;

use super::lane::{self, ByteLane, WIDTH};
use super::word::{backslash_end, plain_end};

/// The contents of a JSON string, without its quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Str<'a> {
    /// The text itself: it has no escapes.
    Plain(&'a str),
    /// The text as written, with escapes still in it.
    Escaped(&'a str),
}

/// The first half of a surrogate pair whose second half has not come yet.
///
/// Providers divide `\ud83d\ude00` between two deltas; code that appends deltas keeps one of these per block and passes
/// it to [`Str::decode_into`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PendingSurrogate(Option<u16>);

impl PendingSurrogate {
    /// Whether a half is being held.
    pub fn is_pending(self) -> bool {
        self.0.is_some()
    }

    /// Gives up on the second half: a held first half becomes U+FFFD.
    pub fn flush_into(&mut self, out: &mut String) {
        if self.0.take().is_some() {
            out.push(char::REPLACEMENT_CHARACTER);
        }
    }
}

impl<'a> Str<'a> {
    /// Whether there is no text.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.written().is_empty()
    }

    /// The text as written, with its escapes.
    #[inline]
    pub fn written(self) -> &'a str {
        match self {
            Self::Plain(text) | Self::Escaped(text) => text,
        }
    }

    /// Whether the text is `other`. Escaped strings are decoded for this.
    #[inline]
    pub fn is(self, other: &str) -> bool {
        match self {
            Self::Plain(text) => text == other,
            Self::Escaped(_) => self.to_cow() == other,
        }
    }

    /// The text; a lone surrogate becomes U+FFFD.
    pub fn to_cow(self) -> Cow<'a, str> {
        match self {
            Self::Plain(text) => Cow::Borrowed(text),
            Self::Escaped(text) => {
                // The decoded text is never longer.
                let mut out = String::with_capacity(text.len());
                let mut surrogate = PendingSurrogate::default();
                self.decode_into(&mut out, &mut surrogate);
                surrogate.flush_into(&mut out);
                Cow::Owned(out)
            }
        }
    }

    /// The text, in `scratch` if it has to be decoded; a lone surrogate becomes U+FFFD.
    pub fn decode<'s>(self, scratch: &'s mut String) -> &'s str
    where
        'a: 's,
    {
        match self {
            Self::Plain(text) => text,
            Self::Escaped(_) => {
                scratch.clear();
                let mut surrogate = PendingSurrogate::default();
                self.decode_into(scratch, &mut surrogate);
                surrogate.flush_into(scratch);
                scratch
            }
        }
    }

    /// Calls `read` with the text, which is decoded in `scratch` if it has to be; a lone surrogate becomes U+FFFD.
    pub(crate) fn read<T>(self, scratch: &mut String, read: impl FnOnce(&str) -> T) -> T {
        let Self::Escaped(written) = self else { return read(self.written()) };
        // As bytes, which are written a lane at a time and then checked, because escapes are many and close together.
        let mut bytes = std::mem::take(scratch).into_bytes();
        bytes.clear();
        bytes.resize(written.len() + WIDTH, 0);
        let length = unescape_lanes(written.as_bytes(), &mut bytes, unicode);
        let text = length.and_then(|length| simdutf8::basic::from_utf8(bytes.get(..length)?).ok());
        let result = match text {
            Some(text) => read(text),
            None => read(&self.to_cow()),
        };
        bytes.clear();
        *scratch = String::from_utf8(bytes).unwrap_or_default();
        result
    }

    /// Calls `read` with the text, if it is short and has only short escapes, as most pieces of texts: that needs no
    /// memory.
    #[inline]
    pub(crate) fn read_short<T>(self, read: impl FnOnce(&str) -> T) -> Option<T> {
        const LONGEST: usize = 4 * WIDTH;
        let written = self.written().as_bytes();
        if written.len() > LONGEST {
            return None;
        }
        let mut room = [0; LONGEST + WIDTH];
        let length = unescape_lanes(written, &mut room, |_| None)?;
        std::str::from_utf8(room.get(..length)?).ok().map(read)
    }

    /// Appends the text to `out`. A first surrogate half at the very end is held in `surrogate`,
    /// and one held from before is joined with a second half at the very start.
    pub fn decode_into(self, out: &mut String, surrogate: &mut PendingSurrogate) {
        match self {
            Self::Plain(text) => {
                if !text.is_empty() {
                    surrogate.flush_into(out);
                }
                out.push_str(text);
            }
            Self::Escaped(text) => unescape(text, out, surrogate),
        }
    }
}

fn unescape(text: &str, out: &mut String, surrogate: &mut PendingSurrogate) {
    let bytes = text.as_bytes();
    // The decoded text is never longer.
    out.reserve(text.len());
    // The text that is not copied yet begins at `from`, and has no backslash that counts before `at`.
    let (mut from, mut at) = (0, 0);
    loop {
        at = backslash_end(bytes, at);
        if at > from {
            surrogate.flush_into(out);
            out.push_str(&text[from..at]);
        }
        let plain = match bytes.get(at + 1) {
            // An escaped character that stands for itself is copied with the text behind it.
            Some(b'"' | b'\\' | b'/') => {
                (from, at) = (at + 1, at + 2);
                continue;
            }
            Some(b'n') => '\n',
            Some(b't') => '\t',
            Some(b'r') => '\r',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'u') => {
                let unit = text.get(at + 2..at + 6).and_then(|hex| u16::from_str_radix(hex, 16).ok());
                match unit {
                    Some(unit) => {
                        push_unit(unit, out, surrogate);
                        at += 6;
                    }
                    // Not an escape after all: keep it as it was written.
                    None => {
                        surrogate.flush_into(out);
                        out.push_str("\\u");
                        at += 2;
                    }
                }
                from = at;
                continue;
            }
            Some(byte) if byte.is_ascii() => *byte as char,
            None if at == bytes.len() => return,
            _ => {
                surrogate.flush_into(out);
                out.push('\\');
                at += 1;
                from = at;
                continue;
            }
        };
        surrogate.flush_into(out);
        out.push(plain);
        at += 2;
        from = at;
    }
}

/// The byte that the letter of a short escape stands for; zero for all others.
const SHORT: [u8; 256] = {
    let mut table = [0; 256];
    let escapes = *b"\"\"\\\\//b\x08f\x0Cn\nr\rt\t";
    let mut at = 0;
    while at < escapes.len() {
        table[escapes[at] as usize] = escapes[at + 1];
        at += 2;
    }
    table
};

/// Writes the text over `out`, from its beginning, and returns its length; none if some escape is invalid. The decoded
/// text is never longer; but complete lanes are written, and there must be room for one more. `long` reads the escape
/// at the start of a text that is not short, and returns its length.
#[inline(always)]
fn unescape_lanes(
    text: &[u8],
    out: &mut [u8],
    long: impl Fn(&[u8]) -> Option<(char, usize)>,
) -> Option<usize> {
    let (mut at, mut to) = (0, 0);
    loop {
        let place = match text.get(at..at + WIDTH) {
            Some(lane) => {
                out.get_mut(to..to + WIDTH)?.copy_from_slice(lane);
                let found = ByteLane::at(lane, 0)?.backslashes();
                if found == 0 {
                    (at, to) = (at + WIDTH, to + WIDTH);
                    continue;
                }
                lane::first(found)
            }
            None => {
                let rest = text.get(at..)?;
                let place = rest.iter().position(|byte| *byte == b'\\');
                let plain = &rest[..place.unwrap_or(rest.len())];
                out[to..to + plain.len()].copy_from_slice(plain);
                match place {
                    Some(place) => place,
                    None => return Some(to + plain.len()),
                }
            }
        };
        (at, to) = (at + place, to + place);
        match SHORT[usize::from(*text.get(at + 1)?)] {
            0 => {
                let (character, length) = long(text.get(at..)?)?;
                to += character.encode_utf8(&mut out[to..]).len();
                at += length;
            }
            plain => {
                out[to] = plain;
                (at, to) = (at + 2, to + 1);
            }
        }
    }
}

/// The character of the escape that the text begins with, and the length of the escape.
#[cold]
fn unicode(text: &[u8]) -> Option<(char, usize)> {
    let unit = |text: &[u8]| {
        let digits = text.strip_prefix(b"\\u")?.first_chunk::<4>()?;
        let digit = |value: u32, byte: &u8| Some(value << 4 | char::from(*byte).to_digit(16)?);
        digits.iter().try_fold(0, digit)
    };
    let first = unit(text)?;
    if let (0xD800..=0xDBFF, Some(second @ 0xDC00..=0xDFFF)) = (first, text.get(6..).and_then(unit)) {
        return char::from_u32(0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00)).map(|pair| (pair, 12));
    }
    Some((char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER), 6))
}

/// Appends the character of a UTF-16 unit; a first half waits in `surrogate` for its second.
pub(super) fn push_unit(unit: u16, out: &mut String, surrogate: &mut PendingSurrogate) {
    match (surrogate.0.take(), unit) {
        (Some(high), 0xDC00..=0xDFFF) => {
            let code = 0x10000 + ((u32::from(high) - 0xD800) << 10) + (u32::from(unit) - 0xDC00);
            out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        (held, 0xD800..=0xDBFF) => {
            if held.is_some() {
                out.push(char::REPLACEMENT_CHARACTER);
            }
            surrogate.0 = Some(unit);
        }
        (held, _) => {
            if held.is_some() {
                out.push(char::REPLACEMENT_CHARACTER);
            }
            out.push(char::from_u32(u32::from(unit)).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
    }
}

/// Appends `text` to `out` as the contents of a JSON string (without quotes).
pub fn escape_into(text: &str, out: &mut String) {
    escape_to(text, out).expect("a string takes everything");
}

/// Appends `text` as the inside of a JSON string.
pub(crate) fn escape_bytes(text: &str, out: &mut Vec<u8>) {
    escape_to(text, &mut EscapedBytes(out)).expect("a vector takes everything");
}

/// A text written as its bytes.
struct EscapedBytes<'o>(&'o mut Vec<u8>);

impl fmt::Write for EscapedBytes<'_> {
    #[inline]
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// Writes `text` as the inside of a JSON string.
#[inline]
pub(in crate::json) fn escape_to(text: &str, out: &mut impl fmt::Write) -> fmt::Result {
    let mut from = 0;
    loop {
        let end = plain_end(text.as_bytes(), from);
        out.write_str(&text[from..end])?;
        let Some(&byte) = text.as_bytes().get(end) else { return Ok(()) };
        escape_byte(byte, out)?;
        from = end + 1;
    }
}

/// Writes a byte that cannot stand in a JSON string as it is.
fn escape_byte(byte: u8, out: &mut impl fmt::Write) -> fmt::Result {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.write_str(match byte {
        b'"' => "\\\"",
        b'\\' => "\\\\",
        b'\n' => "\\n",
        b'\r' => "\\r",
        b'\t' => "\\t",
        0x08 => "\\b",
        0x0C => "\\f",
        _ => {
            out.write_str("\\u00")?;
            out.write_char(HEX[usize::from(byte >> 4)] as char)?;
            return out.write_char(HEX[usize::from(byte & 15)] as char);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_cut_between_two_deltas_is_joined() {
        let (mut out, mut surrogate) = (String::new(), PendingSurrogate::default());
        Str::Escaped("a\\ud83d").decode_into(&mut out, &mut surrogate);
        assert_eq!(out, "a");
        assert!(surrogate.is_pending());
        Str::Escaped("\\ude00b").decode_into(&mut out, &mut surrogate);
        assert_eq!(out, "a😀b");
    }

    #[test]
    fn lone_halves_become_replacement_characters() {
        assert_eq!(Str::Escaped("\\ud83dx\\ude00").to_cow(), "\u{fffd}x\u{fffd}");
        assert_eq!(Str::Escaped("\\ud83d\\ud83d\\ude00").to_cow(), "\u{fffd}😀");
    }

    /// Decoding a lane at a time gives the same text as decoding escape by escape, wherever the escapes are.
    #[test]
    fn lanes_are_decoded_as_escapes_are() {
        let mut scratch = String::from("left of another");
        let escapes = [
            "\\n",
            "\\\"",
            "\\\\",
            "\\/",
            "\\b\\f\\r\\t",
            "\\u00e9",
            "\\u20AC",
            "\\u0000",
            "\\ud83d\\ude00",
            "\\ud83d",
            "\\ude00",
            "\\ud83d\\ud83d\\ude00",
            "\\ud83dx",
            "\\ud83d\\n",
            "\\x",
            "\\u12",
            "\\u12g4",
            "\\",
            "\\é",
            "é",
            "",
        ];
        for before in 0..35 {
            for after in [0, 1, 5, 13, 14, 15, 16, 17, 33] {
                for one in escapes {
                    for other in escapes {
                        let text = format!("{}{one}{}{other}", "é".repeat(before), "b".repeat(after));
                        let expected = Str::Escaped(&text).to_cow();
                        Str::Escaped(&text).read(&mut scratch, |read| assert_eq!(read, expected, "{text}"));
                        assert_eq!(scratch, "");
                        let short =
                            Str::Escaped(&text).read_short(|read| assert_eq!(read, expected, "{text}"));
                        let are_short = [one, other]
                            .iter()
                            .all(|escape| escapes[..5].contains(escape) || !escape.contains('\\'));
                        assert!(!are_short || text.len() > 64 || short.is_some(), "{text}");
                        // A `\u` escape may be half of a pair, whose other half is yet to come.
                        assert!(!one.contains("\\u") || short.is_none(), "{text}");
                    }
                }
            }
        }
    }

    #[test]
    fn escaping_and_decoding_are_inverse() {
        let text = "\u{0}\u{1f}\"\\\n\r\t\u{8}\u{c}/é😀";
        let mut written = String::new();
        escape_into(text, &mut written);
        assert_eq!(Str::Escaped(&written).to_cow(), text);
        assert_eq!(serde_json::from_str::<String>(&format!("\"{written}\"")).ok().as_deref(), Some(text));
    }
}
