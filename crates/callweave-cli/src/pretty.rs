//! JSON text → indented, coloured text, as it grows.
//!
//! Works by tokens, never by values, so it shows a text that is still growing, truncated, or not quite JSON (single
//! quotes, bare words) as well as it can. Nothing but white space is changed.

use anstyle::{AnsiColor, Style};

const KEY: Style = AnsiColor::Cyan.on_default();
const STRING: Style = AnsiColor::Green.on_default();
const LITERAL: Style = AnsiColor::Yellow.on_default();
const PUNCTUATION: Style = Style::new().dimmed();

/// The state of a text that is shown. See the [module](self).
#[derive(Default)]
pub(crate) struct PrettyPrinter {
    /// Columns before each line.
    margin: usize,
    open: Vec<char>,
    /// The quote of the string we are in.
    quote: Option<char>,
    is_escaped: bool,
    latest: LastToken,
    /// The style of the string or word that we are in.
    style: Option<Style>,
}

/// The last token, white space aside.
#[derive(Clone, Copy, Default, PartialEq)]
enum LastToken {
    #[default]
    Nothing,
    Opener,
    Comma,
    Colon,
    /// A string or a closer.
    End,
    /// A number, a literal or a bare word, which may go on.
    Word,
    /// The same and white space after it.
    WordAndSpace,
}

impl PrettyPrinter {
    /// A text whose lines are indented by at least `margin` columns.
    pub(crate) fn new(margin: usize) -> Self {
        Self { margin, ..Self::default() }
    }

    /// Shows the next piece of the text.
    pub(crate) fn push(&mut self, text: &str, out: &mut String) {
        // Every piece closes its style: an interrupt leaves the terminal as it was.
        if let Some(style) = self.style.filter(|_| self.is_inside()) {
            out.push_str(&style.render().to_string());
        }
        text.chars().for_each(|c| self.push_char(c, out));
        if self.is_inside() {
            out.push_str(RESET);
        }
    }

    /// Ends the text, wherever it is.
    pub(crate) fn finish(&mut self) {
        *self = Self::new(self.margin);
    }

    /// Whether a string or a word may go on.
    fn is_inside(&self) -> bool {
        self.quote.is_some() || self.latest == LastToken::Word
    }

    fn push_char(&mut self, c: char, out: &mut String) {
        if let Some(quote) = self.quote {
            return self.push_in_string(c, quote, out);
        }
        match c {
            _ if c.is_whitespace() => {
                if self.latest == LastToken::Word {
                    self.latest = LastToken::WordAndSpace;
                    out.push_str(RESET);
                }
            }
            '{' | '[' => {
                self.begin_value(out);
                self.punctuation(c, out);
                self.open.push(c);
                self.latest = LastToken::Opener;
            }
            '}' | ']' => {
                self.end_word(out);
                self.open.pop();
                if !matches!(self.latest, LastToken::Opener | LastToken::Nothing) {
                    self.new_line(out);
                }
                self.punctuation(c, out);
                self.latest = LastToken::End;
            }
            ',' => {
                self.end_word(out);
                self.punctuation(c, out);
                self.latest = LastToken::Comma;
            }
            ':' => {
                self.end_word(out);
                self.punctuation(c, out);
                out.push(' ');
                self.latest = LastToken::Colon;
            }
            '"' | '\'' => {
                let is_key = self.open.last() == Some(&'{')
                    && matches!(self.latest, LastToken::Opener | LastToken::Comma);
                self.begin_value(out);
                let style = if is_key { KEY } else { STRING };
                out.push_str(&style.render().to_string());
                out.push(c);
                (self.quote, self.style) = (Some(c), Some(style));
            }
            _ => {
                if self.latest != LastToken::Word {
                    self.begin_value(out);
                    out.push_str(&LITERAL.render().to_string());
                    (self.latest, self.style) = (LastToken::Word, Some(LITERAL));
                }
                out.push(visible(c));
            }
        }
    }

    fn push_in_string(&mut self, c: char, quote: char, out: &mut String) {
        match c {
            '\n' => self.new_line(out),
            _ => out.push(visible(c)),
        }
        if self.is_escaped {
            self.is_escaped = false;
        } else if c == '\\' {
            self.is_escaped = true;
        } else if c == quote {
            self.quote = None;
            self.latest = LastToken::End;
            out.push_str(RESET);
        }
    }

    fn begin_value(&mut self, out: &mut String) {
        self.end_word(out);
        match self.latest {
            LastToken::Opener | LastToken::Comma => self.new_line(out),
            // Two values without anything between them: not JSON, but readable.
            LastToken::End | LastToken::Word | LastToken::WordAndSpace => out.push(' '),
            LastToken::Nothing | LastToken::Colon => {}
        }
    }

    fn end_word(&self, out: &mut String) {
        if self.latest == LastToken::Word {
            out.push_str(RESET);
        }
    }

    fn punctuation(&self, c: char, out: &mut String) {
        out.push_str(&PUNCTUATION.render().to_string());
        out.push(c);
        out.push_str(RESET);
    }

    fn new_line(&self, out: &mut String) {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', self.margin + 2 * self.open.len()));
    }
}

/// The escape sequence that ends every style.
const RESET: &str = "\x1b[0m";

/// The character, or a picture of it if it would steer the terminal.
pub(crate) fn visible(c: char) -> char {
    match c {
        '\t' | '\n' => c,
        '\0'..='\x1f' => char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}'),
        '\x7f' => '\u{2421}',
        // The C1 controls, and the marks that turn the writing direction around.
        '\u{80}'..='\u{9f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        _ => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> String {
        let mut out = String::new();
        let mut pretty = PrettyPrinter::new(0);
        text.split_inclusive(|_: char| true).for_each(|piece| pretty.push(piece, &mut out));
        pretty.finish();
        anstream::adapter::strip_str(&out).to_string()
    }

    #[test]
    fn valid_json_looks_as_usual() {
        for json in [
            r#"{"a": [1, {"b": null}, []], "c": {}, "d, {\"": "x: y"}"#,
            r#"[]"#,
            r#""text""#,
            r#"[true, -1.5, [[1]]]"#,
        ] {
            let value: callweave::json::Value = json.parse().expect("valid");
            let expected = format!("{value:#}");
            assert_eq!(plain(json), expected);
            assert_eq!(plain(&value.to_string()), expected);
        }
    }

    #[test]
    fn what_is_not_json_stays_readable() {
        assert_eq!(plain("{city: 'Os, lo', up: yes please,}"), "{\n  city: 'Os, lo',\n  up: yes please,\n}");
        assert_eq!(plain(r#"{"a": "cut"#), "{\n  \"a\": \"cut");
        assert_eq!(plain("]} 1 2}"), "]\n} 1 2\n}");
        assert_eq!(plain(""), "");
    }

    #[test]
    fn styles_are_closed_at_the_end() {
        for text in [r#"{"a": "cut"#, "[1", "tru"] {
            let (mut out, mut pretty) = (String::new(), PrettyPrinter::new(2));
            pretty.push(text, &mut out);
            pretty.finish();
            assert!(out.ends_with(RESET), "{out:?}");
        }
    }

    #[test]
    fn text_cannot_steer_the_terminal() {
        assert_eq!(visible('\x1b'), '␛');
        assert_eq!(visible('\u{9b}'), '\u{fffd}');
        assert_eq!(visible('é'), 'é');
    }
}
