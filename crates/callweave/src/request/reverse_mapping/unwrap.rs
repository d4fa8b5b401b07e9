//! Free text that was wrapped as the one argument of a function.

use crate::json::{JsonContainer, JsonScanner, ScanStatus, ScanToken, ScanVisitor};

/// Finds the text in `{"input": "…"}` while it grows. Models also write another key, the text alone, or no JSON at all:
/// the first string counts, and a text that is no JSON is taken as it is.
#[derive(Debug, Default)]
pub(super) struct InputUnwrapper {
    scanner: Option<JsonScanner>,
    is_raw: bool,
    /// The text before any string.
    held: String,
    found: ScannedInput,
}

/// The scanner's findings.
#[derive(Debug, Default)]
struct ScannedInput {
    depth: usize,
    is_inside: bool,
    is_over: bool,
    /// The first half of a surrogate pair.
    half: Option<u16>,
    text: String,
}

impl InputUnwrapper {
    pub(super) fn push(&mut self, text: &str) {
        if self.is_raw {
            self.found.text.push_str(text);
            return;
        }
        if !self.found.is_inside && !self.found.is_over {
            self.held.push_str(text);
        }
        let scanner = self.scanner.get_or_insert_with(JsonScanner::new);
        let before = self.found.text.len();
        scanner.push_to(text, &mut self.found);
        let has_string = self.found.is_inside || self.found.is_over;
        if scanner.status() == ScanStatus::Broken && !has_string {
            self.is_raw = true;
            self.found.text.truncate(before);
            self.found.text.push_str(&std::mem::take(&mut self.held));
        } else if has_string {
            self.held.clear();
        }
    }

    /// Ends the input. Without any string the complete input is the text, except for an empty object.
    pub(super) fn finish(&mut self) {
        if !self.is_raw && !self.found.is_over && !self.found.is_inside {
            let held = std::mem::take(&mut self.held);
            if held.split_whitespace().collect::<String>() != "{}" {
                self.found.text.push_str(&held);
            }
        }
        self.found.settle();
    }

    pub(super) fn take(&mut self) -> String {
        std::mem::take(&mut self.found.text)
    }
}

impl ScannedInput {
    /// Replaces a half of a surrogate pair that nothing completes.
    fn settle(&mut self) {
        if self.half.take().is_some() {
            self.text.push(char::REPLACEMENT_CHARACTER);
        }
    }
}

impl ScanVisitor for ScannedInput {
    fn open(&mut self, _: JsonContainer, _: usize) {
        self.depth += 1;
    }

    fn close(&mut self, _: JsonContainer, _: usize) {
        self.depth = self.depth.saturating_sub(1);
    }

    fn begin(&mut self, token: ScanToken, _: usize) {
        self.is_inside = token == ScanToken::String && self.depth <= 1 && !self.is_over;
    }

    fn text(&mut self, run: &str) {
        if self.is_inside {
            self.settle();
            self.text.push_str(run);
        }
    }

    fn escape(&mut self, unit: u16, _: usize) {
        if !self.is_inside {
            return;
        }
        let half = self.half.take();
        match (half, unit) {
            (Some(high), 0xdc00..=0xdfff) => {
                let pair = char::decode_utf16([high, unit]).next().and_then(Result::ok);
                self.text.push(pair.unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            (half, unit) => {
                self.half = half;
                self.settle();
                match char::from_u32(u32::from(unit)) {
                    Some(character) => self.text.push(character),
                    None if unit < 0xdc00 => self.half = Some(unit),
                    None => self.text.push(char::REPLACEMENT_CHARACTER),
                }
            }
        }
    }

    fn end(&mut self, _: ScanToken, _: usize) {
        if self.is_inside {
            self.settle();
            self.is_inside = false;
            self.is_over = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unwrapped(pieces: &[&str]) -> String {
        let mut unwrap = InputUnwrapper::default();
        let mut whole = String::new();
        for piece in pieces {
            unwrap.push(piece);
            whole.push_str(&unwrap.take());
        }
        unwrap.finish();
        whole + &unwrap.take()
    }

    #[test]
    fn free_text_is_found_in_any_cut() {
        let cases = [
            (r#"{"input": "a\n\"b\" \ud83d\ude00 é"}"#, "a\n\"b\" 😀 é"),
            (r#" {"patch":"x","other":"y"} "#, "x"),
            (r#""alone""#, "alone"),
            ("*** Begin Patch\n{x}", "*** Begin Patch\n{x}"),
            (r#"{"n": 5}"#, r#"{"n": 5}"#),
            ("{}", ""),
            (r#"{"input": "cut"#, "cut"),
            (r#"{"input": "half \ud83d"#, "half \u{fffd}"),
        ];
        for (text, expected) in cases {
            assert_eq!(unwrapped(&[text]), expected, "{text}");
            for cut in (0..text.len()).filter(|cut| text.is_char_boundary(*cut)) {
                let (head, tail) = text.split_at(cut);
                assert_eq!(unwrapped(&[head, tail]), expected, "{text} cut at {cut}");
            }
        }
    }

    #[test]
    fn free_text_flows() {
        let mut unwrap = InputUnwrapper::default();
        unwrap.push(r#"{"input": "be"#);
        assert_eq!(unwrap.take(), "be");
        unwrap.push("gin");
        assert_eq!(unwrap.take(), "gin");
    }
}
