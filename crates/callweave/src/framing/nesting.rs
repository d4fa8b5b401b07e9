//! The end of a JSON value, found by its quotes and brackets alone; whether it is JSON is checked elsewhere.

use std::mem;

use memchr::memchr2;

use crate::json::lane::{ByteLane, first};

/// Finds the end of a value that opens with a bracket or a quote, in pieces of any size.
///
/// Only brackets of the kind that opened the value are counted: in JSON they alone determine its end, and where the
/// other kind is out of balance the end is still found.
#[derive(Clone, Copy, Debug)]
pub(super) struct BracketNesting {
    pub(super) open: u8,
    close: u8,
    depth: usize,
    is_in_string: bool,
    is_escaped: bool,
}

/// The reason why reading stopped, with the number of bytes read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NestingStop {
    /// The end of the value.
    End(usize),
    /// A line that begins with a brace: inside an object, or inside any string.
    Line(usize),
    /// The end of the bytes.
    Open,
}

/// The reason why the reading of lanes stopped, before these bytes.
enum NestingStep<'b> {
    End(&'b [u8]),
    Line(&'b [u8]),
    /// In a string that is long.
    Long(&'b [u8]),
    /// The last bytes are fewer than a lane.
    Few(&'b [u8]),
}

/// The maximum number of lanes of a string looked at before the rest is searched: a search pays only in long strings.
const SHORT: usize = 8;

impl BracketNesting {
    /// A reader before a value whose first byte is `{`, `[` or `"`.
    pub(super) fn new(first: u8) -> Self {
        let (open, close) = if first == b'[' { (b'[', b']') } else { (b'{', b'}') };
        Self { open, close, depth: 0, is_in_string: false, is_escaped: false }
    }

    /// Reads on; returns the number of bytes up to the end of the value, if it ended.
    pub(super) fn end(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut from = 0;
        loop {
            match self.read(&bytes[from..]) {
                NestingStop::End(length) => return Some(from + length),
                NestingStop::Line(length) => from += length,
                NestingStop::Open => return None,
            }
        }
    }

    /// Reads on up to the end of the value, of the bytes, or of the line before one that begins with a brace.
    pub(super) fn read(&mut self, bytes: &[u8]) -> NestingStop {
        let [first, after @ ..] = bytes else { return NestingStop::Open };
        // Escaped or not, a line break ends a line.
        let is_skipped = mem::take(&mut self.is_escaped) && *first != b'\n';
        let fresh = if is_skipped { after } else { bytes };
        let mut rest = fresh;
        loop {
            let step = match self.open {
                b'{' => self.read_lanes::<b'{'>(fresh, rest),
                _ => self.read_lanes::<b'['>(fresh, rest),
            };
            match step {
                NestingStep::End(rest) => return NestingStop::End(bytes.len() - rest.len()),
                NestingStep::Line(rest) => return NestingStop::Line(bytes.len() - rest.len()),
                NestingStep::Long(string) => {
                    let run = memchr2(b'"', b'\n', string).unwrap_or(string.len());
                    rest = &string[run..];
                }
                NestingStep::Few(few) => {
                    let before = fresh.len() - few.len();
                    self.is_escaped = self.is_in_string && is_escape(&fresh[..before]);
                    return self.read_few(bytes, few);
                }
            }
        }
    }

    /// Passes over strings a lane at a time, and between them looks at quotes and brackets only. `rest` is the rest of
    /// `bytes`. Hardly anything is called from here, because that would cost the registers that hold the masks.
    #[inline(never)]
    fn read_lanes<'b, const OPEN: u8>(&mut self, bytes: &'b [u8], mut rest: &'b [u8]) -> NestingStep<'b> {
        let Self { mut depth, mut is_in_string, .. } = *self;
        let step = 'step: loop {
            if is_in_string {
                'string: loop {
                    for _ in 0..SHORT {
                        let Some((lane, after)) = ByteLane::split_first(rest) else {
                            break 'step NestingStep::Few(rest);
                        };
                        let found = lane.quotes();
                        if found == 0 {
                            rest = after;
                            continue;
                        }
                        let at = first(found);
                        let (string, byte) = (rest, rest[at]);
                        rest = &rest[at + 1..];
                        // Only quotes are checked for an escape: nothing else ends a string.
                        if byte == b'"' {
                            let is_plain = at > 0 && string[at - 1] != b'\\';
                            if is_plain || !is_escape(&bytes[..bytes.len() - rest.len() - 1]) {
                                break 'string;
                            }
                        }
                        if byte == b'\n' && rest.starts_with(b"{") {
                            break 'step NestingStep::Line(rest);
                        }
                        continue 'string;
                    }
                    break 'step NestingStep::Long(rest);
                }
                is_in_string = false;
                if depth == 0 {
                    break NestingStep::End(rest);
                }
                // Mostly the next string follows at once.
                if let [b':' | b',', b'"', after @ ..] = rest {
                    rest = after;
                    is_in_string = true;
                    continue;
                }
            }
            'between: loop {
                let Some((lane, after)) = ByteLane::split_first(rest) else {
                    break 'step NestingStep::Few(rest);
                };
                let mut found = lane.brackets(OPEN);
                while found != 0 {
                    // Control characters are marked, too.
                    let at = first(found);
                    let byte = rest[at];
                    if byte == b'"' {
                        rest = &rest[at + 1..];
                        break 'between;
                    }
                    if byte == OPEN {
                        if OPEN == b'{' && is_begin_of_line(bytes, bytes.len() - rest.len() + at) {
                            break 'step NestingStep::Line(&rest[at..]);
                        }
                        depth += 1;
                    } else if byte == OPEN + 2 {
                        depth -= 1;
                        if depth == 0 {
                            break 'step NestingStep::End(&rest[at + 1..]);
                        }
                    }
                    found &= found - 1;
                }
                rest = after;
            }
            is_in_string = true;
        };
        (self.depth, self.is_in_string) = (depth, is_in_string);
        step
    }

    /// Reads the last of the bytes.
    #[inline(never)]
    fn read_few(&mut self, bytes: &[u8], few: &[u8]) -> NestingStop {
        for (&byte, place) in few.iter().zip(bytes.len() - few.len()..) {
            let asks_for_lines = self.open == b'{' || self.is_in_string;
            if byte == b'{' && asks_for_lines && is_begin_of_line(bytes, place) {
                return NestingStop::Line(place);
            }
            match byte {
                _ if mem::take(&mut self.is_escaped) => continue,
                b'\\' if self.is_in_string => {
                    self.is_escaped = true;
                    continue;
                }
                b'"' => self.is_in_string = !self.is_in_string,
                _ if self.is_in_string => continue,
                _ if byte == self.open => self.depth += 1,
                _ if byte == self.close => self.depth -= 1,
                _ => continue,
            }
            if self.depth == 0 && !self.is_in_string {
                return NestingStop::End(place + 1);
            }
        }
        NestingStop::Open
    }
}

/// Whether the byte behind these bytes of a string is escaped. The byte before the string is no backslash.
#[inline]
fn is_escape(before: &[u8]) -> bool {
    let mut is_escape = false;
    for byte in before.iter().rev() {
        if *byte != b'\\' {
            break;
        }
        is_escape = !is_escape;
    }
    is_escape
}

/// Whether a line begins there that is not the first.
fn is_begin_of_line(bytes: &[u8], place: usize) -> bool {
    place > 0 && bytes[place - 1] == b'\n'
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The texts searched for, near misses, and filler between them.
    const PIECES: [&str; 20] = [
        "{",
        "}",
        "[",
        "]",
        "\"",
        "\"",
        "\\",
        "\n",
        "\n{",
        "\n{\"",
        ":\"",
        ",\"",
        "\\\"",
        "y",
        "\u{7f}",
        "\u{e9}",
        "\u{fb}\u{fd}",
        "        ",
        "abcdefghijklmno",
        "a text of more than so many words that the rest of it is searched, up to its end, and not looked at as short ones are",
    ];

    fn inputs() -> impl Iterator<Item = Vec<u8>> {
        let mut state = 1_u64;
        let mut random = move |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        (0..4000).map(move |_| {
            let mut input = ["{", "[", "\"", "{\""][random(4)].to_owned();
            for _ in 0..random(24) {
                input += PIECES[random(PIECES.len())];
            }
            input.into_bytes()
        })
    }

    /// The end, found by looking at one byte after the other, and the lines before it that begin with a brace.
    fn slowly(bytes: &[u8]) -> (Option<usize>, Vec<usize>) {
        let (open, close) = if bytes[0] == b'[' { (b'[', b']') } else { (b'{', b'}') };
        let (mut depth, mut is_in_string, mut is_escaped, mut lines) = (0, false, false, Vec::new());
        for (at, &byte) in bytes.iter().enumerate() {
            if byte == b'{' && at > 0 && bytes[at - 1] == b'\n' && (is_in_string || open == b'{') {
                lines.push(at);
            }
            if mem::take(&mut is_escaped) {
                continue;
            }
            match byte {
                b'\\' => is_escaped = is_in_string,
                b'"' => is_in_string = !is_in_string,
                _ if !is_in_string && byte == open => depth += 1,
                _ if !is_in_string && byte == close => depth -= 1,
                _ => {}
            }
            if depth == 0 && !is_in_string {
                return (Some(at + 1), lines);
            }
        }
        (None, lines)
    }

    #[test]
    fn words_are_read_as_bytes_are() {
        let mut ends = 0;
        for input in inputs() {
            let shown = String::from_utf8_lossy(&input);
            let (end, lines) = slowly(&input);
            ends += usize::from(end.is_some_and(|end| end > 16));
            let (mut nesting, mut from, mut seen) = (BracketNesting::new(input[0]), 0, Vec::new());
            let whole = loop {
                match nesting.read(&input[from..]) {
                    NestingStop::End(length) => break Some(from + length),
                    NestingStop::Line(length) => from += length,
                    NestingStop::Open => break None,
                }
                seen.push(from);
            };
            assert_eq!((whole, seen), (end, lines), "{shown:?}");
            for cut in 0..=input.len() {
                let mut nesting = BracketNesting::new(input[0]);
                let found = nesting.end(&input[..cut]).or_else(|| nesting.end(b""));
                let found = found.or_else(|| nesting.end(&input[cut..]).map(|end| cut + end));
                assert_eq!(found, end, "{shown:?} cut at {cut}");
            }
        }
        assert!(ends > 100, "only {ends} values of more than two words end");
    }
}
