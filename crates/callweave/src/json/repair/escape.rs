//! Backslashes in strings, and their intended meaning.

use super::noise::QuoteKind;
use super::parser::{ParseStep, ParseStop, RepairParser};
use super::quote::StringReading;
use super::{HopelessReason, RepairChangeKind, strict};

/// The reading of backslashes before letters, in a string that a model perhaps forgot to escape.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum BackslashReading {
    /// As in JSON.
    Escapes,
    /// The string has some that JSON does not know: `\b` belongs to a pattern and `\f` to a formula.
    Pattern,
    /// The string begins like `C:\`: none of them makes an escape.
    Path,
}

/// The escapes of control characters in a string.
#[rustfmt::skip]
pub(super) const CONTROLS: [&str; 32] = [
    "\\u0000", "\\u0001", "\\u0002", "\\u0003", "\\u0004", "\\u0005", "\\u0006", "\\u0007",
    "\\b", "\\t", "\\n", "\\u000b", "\\f", "\\r", "\\u000e", "\\u000f",
    "\\u0010", "\\u0011", "\\u0012", "\\u0013", "\\u0014", "\\u0015", "\\u0016", "\\u0017",
    "\\u0018", "\\u0019", "\\u001a", "\\u001b", "\\u001c", "\\u001d", "\\u001e", "\\u001f",
];

impl RepairParser<'_> {
    /// Whether the backslash at `at` is text, although JSON would take it for an escape.
    pub(super) fn is_plain_backslash(&self, reading: &mut StringReading, at: usize) -> bool {
        let Some(byte @ (b'b' | b'f' | b'n' | b'r' | b't')) = self.source.byte(at + 1) else { return false };
        match *reading.backslashes.get_or_insert_with(|| self.backslashes(reading.open, reading.start)) {
            BackslashReading::Escapes => false,
            BackslashReading::Pattern => matches!(byte, b'b' | b'f'),
            BackslashReading::Path => true,
        }
    }

    /// The reading of the backslashes of the string from `start` to the next quote.
    fn backslashes(&self, open: QuoteKind, start: usize) -> BackslashReading {
        if let [drive, b':', b'\\', next, ..] = self.source.bytes[start..]
            && drive.is_ascii_alphabetic()
            && next.is_ascii_alphabetic()
        {
            return BackslashReading::Path;
        }
        let mut at = start;
        while let Some(byte) = self.source.byte(at) {
            match (byte, self.source.byte(at + 1)) {
                (b'\\', Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' | b'u')) => at += 2,
                (b'\\', Some(b'\'' | b'`' | b'_' | b'\n' | b'\r') | None) => at += 2,
                (b'\\', Some(_)) => return BackslashReading::Pattern,
                _ if self.source.quote(at).is_some_and(|(quote, _)| open.is_closed_by(quote)) => break,
                _ => at += 1,
            }
        }
        BackslashReading::Escapes
    }

    /// Reads the escape at `at` and returns its end.
    pub(super) fn escape(&mut self, at: usize) -> ParseStep<usize> {
        let Some(byte) = self.source.byte(at + 1) else {
            self.change(at, at + 1, "", RepairChangeKind::Cut);
            return Ok(at + 1);
        };
        Ok(match byte {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => at + 2,
            b'u' => return self.unicode_escape(at),
            b'\n' | b'\r' => {
                self.change(at, at + 2, CONTROLS[usize::from(byte)], RepairChangeKind::Escape);
                at + 2
            }
            b'\'' | b'`' | b'_' => {
                self.change(at, at + 1, "", RepairChangeKind::Escape);
                // The character is text now, whatever it is.
                at + 2
            }
            _ => {
                self.change(at, at, "\\", RepairChangeKind::Escape);
                at + 1
            }
        })
    }

    fn unicode_escape(&mut self, at: usize) -> ParseStep<usize> {
        let rest = &self.source.bytes[at..];
        if let Some(length) = strict::unicode_escape(rest) {
            return Ok(at + length);
        }
        if let Some(unit) = strict::unit(rest) {
            if (0xD800..0xDC00).contains(&unit) && rest.len() < 12 && is_cut_escape(&rest[6..]) {
                self.change(at, self.source.len(), "", RepairChangeKind::Cut);
                return Ok(self.source.len());
            }
            self.change(at, at + 6, "\\ufffd", RepairChangeKind::Surrogate);
            return Ok(at + 6);
        }
        let word: &[u8] = &rest[2..rest.len().min(6)];
        let hex = word.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        if hex == word.len() && rest.len() < 6 {
            self.change(at, self.source.len(), "", RepairChangeKind::Cut);
            return Ok(self.source.len());
        }
        // `\users` or `\underline` is a word with a backslash, not a character that was meant.
        let is_word = word.first().is_some_and(u8::is_ascii_lowercase)
            && word
                .iter()
                .take_while(|byte| byte.is_ascii_alphabetic())
                .any(|byte| !byte.is_ascii_hexdigit());
        if is_word {
            self.change(at, at, "\\", RepairChangeKind::Escape);
            return Ok(at + 1);
        }
        Err(ParseStop::Hopeless(HopelessReason::DamagedEscape, at))
    }
}

/// Whether `bytes` may be the beginning of a `\u` escape that the end of the text truncated.
fn is_cut_escape(bytes: &[u8]) -> bool {
    bytes
        .iter()
        .zip(b"\\u0000")
        .all(|(&byte, &form)| if form == b'0' { byte.is_ascii_hexdigit() } else { byte == form })
}
