//! A strict check: is this text JSON already?
//!
//! The same grammar as [`Tape`](crate::json::Tape) without the notes, and stricter in one point:
//! half a surrogate pair is refused, because most readers of the result would refuse it.

use crate::json::word::{digits_end, next_byte, plain_end};

/// Whether `text` is one JSON value with nothing but white space around it.
pub(super) fn is_valid(text: &str) -> bool {
    check(text).is_ok()
}

/// Checks that `text` is one JSON value with nothing but white space around it. If it is not, returns the position up
/// to which it is beyond doubt: two commas before the error, because a quote that seemed to end a string may have been
/// part of it.
pub(super) fn check(text: &str) -> Result<(), usize> {
    let mut reader = StrictReader::new(text.as_bytes(), 0);
    let outcome = reader.document();
    outcome.ok_or(reader.commas.0)
}

/// Reads the beginning of a JSON text, which is known to be sound up to the comma at `end`, and returns the containers
/// that are open there: the position of each opening bracket, outermost first.
pub(super) fn open_containers(bytes: &[u8], end: usize) -> Vec<usize> {
    let mut open = Vec::new();
    let mut at = 0;
    while at < end {
        match bytes[at] {
            b'{' | b'[' => open.push(at),
            b'}' | b']' => _ = open.pop(),
            b'"' => {
                at = string(bytes, at).unwrap_or(end);
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    open
}

/// The end of the number at `at`, if one stands there.
pub(super) fn number_end(bytes: &[u8], at: usize) -> Option<usize> {
    let mut reader = StrictReader::new(bytes, at + 1);
    reader.number(*bytes.get(at)?)?;
    Some(reader.at)
}

/// The end of the string whose quote stands at `at`, if it is one as JSON writes it.
pub(super) fn string(bytes: &[u8], at: usize) -> Option<usize> {
    let mut reader = StrictReader::new(bytes, at + 1);
    reader.string()?;
    Some(reader.at)
}

struct StrictReader<'t> {
    bytes: &'t [u8],
    at: usize,
    /// The positions of the last two commas.
    commas: (usize, usize),
}

impl<'t> StrictReader<'t> {
    fn new(bytes: &'t [u8], at: usize) -> Self {
        Self { bytes, at, commas: (0, 0) }
    }

    #[inline(always)]
    fn document(&mut self) -> Option<()> {
        let mut open: Vec<u8> = Vec::new();
        loop {
            // A value is due.
            match self.token()? {
                b'{' => {
                    if self.token_is(b'}') {
                        // An empty object is a complete value.
                    } else {
                        open.push(b'}');
                        self.key()?;
                        continue;
                    }
                }
                b'[' => {
                    if !self.token_is(b']') {
                        open.push(b']');
                        continue;
                    }
                }
                b'"' => self.string()?,
                b't' => self.rest(b"rue")?,
                b'f' => self.rest(b"alse")?,
                b'n' => self.rest(b"ull")?,
                first @ (b'-' | b'0'..=b'9') => self.number(first)?,
                _ => return None,
            }
            // A value has ended.
            loop {
                let Some(&closer) = open.last() else {
                    return next_byte(self.bytes, self.at).1.is_none().then_some(());
                };
                match self.token()? {
                    b',' => {
                        self.commas = (self.commas.1, self.at - 1);
                        if closer == b'}' {
                            self.key()?;
                        }
                        break;
                    }
                    byte if byte == closer => {
                        open.pop();
                    }
                    _ => return None,
                }
            }
        }
    }

    /// The next byte that is no white space, taken.
    #[inline]
    fn token(&mut self) -> Option<u8> {
        let (at, byte) = next_byte(self.bytes, self.at);
        self.at = at + 1;
        byte
    }

    /// Takes the next byte that is no white space if it is `wanted`.
    #[inline]
    fn token_is(&mut self, wanted: u8) -> bool {
        let (at, byte) = next_byte(self.bytes, self.at);
        let is_wanted = byte == Some(wanted);
        self.at = if is_wanted { at + 1 } else { at };
        is_wanted
    }

    #[inline(always)]
    fn key(&mut self) -> Option<()> {
        if !self.token_is(b'"') {
            return None;
        }
        self.string()?;
        self.token_is(b':').then_some(())
    }

    #[inline(always)]
    fn rest(&mut self, letters: &[u8]) -> Option<()> {
        self.bytes[self.at..].starts_with(letters).then(|| self.at += letters.len())
    }

    #[inline(always)]
    fn string(&mut self) -> Option<()> {
        loop {
            self.at = plain_end(self.bytes, self.at);
            match *self.bytes.get(self.at)? {
                b'"' => {
                    self.at += 1;
                    return Some(());
                }
                b'\\' => match *self.bytes.get(self.at + 1)? {
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => self.at += 2,
                    b'u' => self.at += unicode_escape(&self.bytes[self.at..])?,
                    _ => return None,
                },
                _ => return None,
            }
        }
    }

    #[inline(always)]
    fn digits(&mut self) -> Option<()> {
        let from = self.at;
        self.at = digits_end(self.bytes, from);
        (self.at > from).then_some(())
    }

    #[inline(always)]
    fn number(&mut self, first: u8) -> Option<()> {
        let first = if first == b'-' {
            self.at += 1;
            *self.bytes.get(self.at - 1)?
        } else {
            first
        };
        match first {
            b'0' => {}
            b'1'..=b'9' => _ = self.digits(),
            _ => return None,
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.bytes.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.bytes.get(self.at) {
                self.at += 1;
            }
            self.digits()?;
        }
        Some(())
    }
}

/// The length of the `\u` escape (or pair of them) at the start of `bytes`, if it means a character.
pub(super) fn unicode_escape(bytes: &[u8]) -> Option<usize> {
    match unit(bytes)? {
        0xD800..=0xDBFF => match unit(bytes.get(6..)?)? {
            0xDC00..=0xDFFF => Some(12),
            _ => None,
        },
        0xDC00..=0xDFFF => None,
        _ => Some(6),
    }
}

/// The code unit of the `\u` escape at the start of `bytes`.
pub(super) fn unit(bytes: &[u8]) -> Option<u16> {
    let hex = bytes.get(..6)?.strip_prefix(b"\\u")?;
    hex.iter().try_fold(0u16, |unit, &byte| Some(unit << 4 | (byte as char).to_digit(16)? as u16))
}

#[cfg(test)]
mod tests {
    use super::is_valid;

    #[test]
    fn accepts_exactly_what_serde_json_accepts() {
        for text in [
            "",
            " ",
            "{}",
            " [ ] ",
            "[[]]",
            "[{}]",
            "{\"a\":{}}",
            "0",
            "-0.5e-7",
            "-",
            "1.",
            "1e",
            "01",
            "-01",
            "1e+",
            "[1,2]",
            "[1,]",
            "[,1]",
            "{\"a\":1,}",
            "{\"a\"}",
            "{\"a\":1 \"b\":2}",
            "nul",
            "null",
            "true x",
            "\"\\x\"",
            "\"\\ud83d\\ude00\"",
            "\"\\ud83d\"",
            "\"\\ude00\"",
            "\"\\ud83d\\n\"",
            "\"\\u12g4\"",
            "\"\t\"",
            "[",
            "{",
            "]",
            "[}",
            "{]",
            "[1}",
            "\u{feff}1",
            "\"\u{7f}\"",
            "[1] 2",
            "tru",
            "{\"a\":[1,{\"b\":null}],\"c\":\"d\"} ",
        ] {
            assert_eq!(is_valid(text), serde_json::from_str::<serde_json::Value>(text).is_ok(), "{text:?}");
        }
    }
}
