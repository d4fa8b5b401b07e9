//! The position that the visible text of a response has reached, in terms of Markdown and JSON: text in a fence, in
//! inline code, in a quotation or in a JSON string is shown and not meant.

use super::markers::is_line;
use super::quotation::{QuotationKind, QuotationTracker, begins_mark, is_caseless, opens_clause};
use crate::json::{JsonScanner, ScanStatus};

/// Follows the visible text of a response, from the start of a line.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TextPosition {
    /// The byte that the open fence is made of, and how many of them.
    fence: Option<(u8, usize)>,
    line: LineStart,
    /// How far the line is indented.
    indent: usize,
    /// How many backticks opened inline code on this line, and how many stand last.
    ticks: (usize, usize),
    /// The end of the quotation that markup was found in.
    quote: QuoteEnd,
    /// Whether the line before was blank, or indented code, and words stand before it.
    follows_blank: bool,
    has_words: bool,
    /// The last bytes.
    last: [u8; 4],
    quotation: QuotationTracker,
    /// The JSON value that the text is in.
    json: Option<JsonScanner>,
}

/// The end of a quotation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum QuoteEnd {
    #[default]
    None,
    /// The same sign, or the line.
    Line(u8),
    /// The same sign, three times.
    Block(u8),
    /// `)"`, of C++, and `"#`, of Rust.
    Raw(&'static [u8; 2]),
    /// A backtick, or a blank line.
    Code,
}

/// The beginning of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LineStart {
    #[default]
    Blank,
    /// A run of these bytes, which may become a fence.
    Fence(u8, usize),
    /// Text that follows such a run.
    Info(u8, usize, bool),
    /// A quotation, or a row of a table.
    Quotation,
    /// The sign of a line that a patch adds or takes away, if markup follows at once.
    Sign,
    Words,
}

/// The position of a marker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum MarkerPosition {
    Plain,
    /// First on its line.
    #[default]
    LineStart,
    /// In a quotation, inline code or a JSON string.
    Quoted,
    /// In a JSON value that is no call.
    Json,
    /// In a code block that began earlier.
    Code,
    /// First on a line of an indented block.
    Indented,
    /// In a quotation of any script, or a code container of any markup.
    Enclosed,
    /// Behind the sign that the lines of a listing begin with.
    Listed,
}

impl MarkerPosition {
    /// Whether it is shown, unless the response ends with it.
    pub(super) fn is_shown(self) -> bool {
        matches!(self, Self::Enclosed | Self::Listed)
    }
}

/// The indentation from which on a line is code, where a blank line stands before it.
const CODE_INDENT: usize = 4;

impl TextPosition {
    /// Whether nothing matters before a line or code begins, but for the last bytes.
    pub(super) fn is_quiet(&self) -> bool {
        self.line == LineStart::Words
            && self.json.is_none()
            && self.ticks.1 == 0
            && self.quote == QuoteEnd::None
            && self.quotation.is_quiet()
    }

    /// The text goes on with `text`, which is quiet, and holds no quotation mark.
    #[inline]
    pub(super) fn pass_plain(&mut self, text: &str) {
        if self.quotation.is_calm()
            && let Some(last) = text.as_bytes().last_chunk()
        {
            self.last = *last;
        } else {
            self.pass(text);
        }
    }

    /// The text goes on with `text`, which is quiet.
    #[cold]
    pub(super) fn pass(&mut self, text: &str) {
        if self.fence.is_none() {
            let before = if text.is_ascii() { '\0' } else { self.letter_before() };
            self.quotation.pass(text, before);
        }
        match text.as_bytes().last_chunk() {
            Some(last) => self.last = *last,
            None => text.bytes().for_each(|byte| self.push_last(byte)),
        }
    }

    /// The text goes on with `text`.
    pub(super) fn follow(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if self.is_quiet() && !text.bytes().any(is_line) {
            return self.pass(text);
        }
        let mut json_from = 0;
        for (at, byte) in text.bytes().enumerate() {
            let may_matter = begins_mark(byte) || !byte.is_ascii() && self.quotation.ends_in_mark();
            if may_matter && text.is_char_boundary(at) && self.fence.is_none() {
                let letter = text[at..].chars().next().map_or(0, char::len_utf8);
                self.quotation.marks(&text[at..at + letter], self.letter_before());
            }
            if self.line == LineStart::Blank && matches!(byte, b'{' | b'[') && self.fence.is_none() {
                self.follow_json(&text[json_from..at]);
                json_from = at;
                self.begin_json();
            }
            self.byte(byte);
        }
        self.follow_json(&text[json_from..]);
    }

    fn follow_json(&mut self, text: &str) {
        if let Some(scanner) = &mut self.json {
            scanner.push(text);
            if matches!(scanner.status(), ScanStatus::Complete | ScanStatus::Broken) {
                self.json = None;
            }
        }
    }

    /// A JSON value begins here, which is no call.
    pub(super) fn begin_json(&mut self) {
        self.json.get_or_insert_with(JsonScanner::new);
    }

    /// Marks this position as quoted, and the text that follows up to the closing quote.
    pub(super) fn begin_quotation(&mut self) {
        match self.opens_quote() {
            // Inline code goes on over lines.
            QuoteEnd::None
                if self.ticks.0 > 0 && self.ticks.1 == 0 || self.ticks.0 == 0 && self.ticks.1 > 0 =>
            {
                self.quote = QuoteEnd::Code;
            }
            QuoteEnd::None => {}
            quote => self.quote = quote,
        }
        self.quotation.keep_line(self.line == LineStart::Blank, self.indent);
    }

    /// The letter that stands last.
    fn letter_before(&self) -> char {
        last_letter(&self.last)
    }

    fn push_last(&mut self, byte: u8) {
        let [_, one, two, three] = self.last;
        self.last = [one, two, three, byte];
    }

    fn byte(&mut self, byte: u8) {
        // A backslash keeps a quotation open, at the end of a line, too.
        let is_free = self.last[3] != b'\\';
        self.push_last(byte);
        let is_over = match self.quote {
            QuoteEnd::None => false,
            QuoteEnd::Line(sign) => (byte == sign || byte == b'\n') && is_free,
            QuoteEnd::Block(sign) => self.last[1..] == [sign; 3],
            QuoteEnd::Raw(end) => self.last.ends_with(end),
            QuoteEnd::Code => byte == b'`' || self.last.ends_with(b"\n\n"),
        };
        self.quote = if is_over { QuoteEnd::None } else { self.quote };
        if byte != b'\n' && self.fence.is_none() {
            let is_inline = self.ticks.0 > 0 || self.ticks.1 > 0;
            self.quotation.byte(byte, self.line == LineStart::Blank, self.indent, is_inline);
        }
        if byte == b'\n' {
            return self.end_line();
        }
        let is_space = matches!(byte, b' ' | b'\t' | b'\r');
        self.line = match self.line {
            LineStart::Blank if is_space => {
                self.indent += if byte == b'\t' { CODE_INDENT } else { 1 };
                LineStart::Blank
            }
            LineStart::Blank if matches!(byte, b'`' | b'~') && self.indent < CODE_INDENT => {
                LineStart::Fence(byte, 1)
            }
            LineStart::Blank if matches!(byte, b'>' | b'|') && self.indent < CODE_INDENT => {
                LineStart::Quotation
            }
            LineStart::Blank if matches!(byte, b'+' | b'-') && self.indent == 0 => LineStart::Sign,
            LineStart::Sign if matches!(byte, b'<' | b'[' | b'{') => LineStart::Quotation,
            LineStart::Fence(run, len) if byte == run => LineStart::Fence(run, len + 1),
            LineStart::Fence(run, len @ 3..) => LineStart::Info(run, len, is_space),
            LineStart::Info(run, len, is_blank) => LineStart::Info(run, len, is_blank && is_space),
            LineStart::Fence(..) | LineStart::Blank | LineStart::Sign => LineStart::Words,
            line => line,
        };
        match (byte, self.ticks) {
            (b'`', (open, run)) => self.ticks = (open, run + 1),
            (_, (_, 0)) => {}
            (_, (0, run)) => self.ticks = (run, 0),
            (_, (open, run)) => self.ticks = (if open == run { 0 } else { open }, 0),
        }
    }

    fn end_line(&mut self) {
        let run = match self.line {
            LineStart::Fence(run, len @ 3..) => Some((run, len, true)),
            LineStart::Info(run, len, is_blank) => Some((run, len, is_blank)),
            _ => None,
        };
        self.fence = match (self.fence, run) {
            (None, Some((run, len, _))) => Some((run, len)),
            (Some((open, least)), Some((run, len, true))) if open == run && len >= least => None,
            (fence, _) => fence,
        };
        if self.fence.is_some() || run.is_some() {
            self.quotation.skip_line();
        } else {
            let [_, one, two, _] = self.last;
            self.quotation.end_line([one, two], self.indent);
        }
        let is_code = self.indent >= CODE_INDENT && self.follows_blank;
        self.has_words |= self.line != LineStart::Blank;
        self.follows_blank = self.has_words && (self.line == LineStart::Blank || is_code);
        (self.line, self.indent, self.ticks) = (LineStart::Blank, 0, (0, 0));
    }

    /// Whether what comes next is first on its line.
    pub(super) fn begins_line(&self) -> bool {
        self.line == LineStart::Blank && self.indent == 0
    }

    /// Whether a tag of any kind stands last, or before the last line break.
    pub(super) fn follows_tag(&self) -> bool {
        let last = if self.last[3] == b'\n' { self.last[2] } else { self.last[3] };
        matches!(last, b'>' | b';')
    }

    /// Whether a letter stands right before what comes next.
    pub(super) fn is_behind_letter(&self) -> bool {
        self.letter_before().is_alphanumeric()
    }

    /// Whether a letter and a blank stand before what comes next.
    pub(super) fn is_behind_word(&self) -> bool {
        last_letter(&self.last[..3]).is_alphanumeric()
    }

    /// Whether words and a blank stand before what comes next, on its line.
    pub(super) fn is_among_words(&self) -> bool {
        self.last[3] == b' ' && self.standing() == MarkerPosition::Plain
    }

    /// Whether a fence may open here: first on a line, in no other.
    pub(super) fn may_open_fence(&self) -> bool {
        self.line == LineStart::Blank
            && self.indent < CODE_INDENT
            && self.fence.is_none()
            && self.json.is_none()
    }

    /// The quotation that a quote opens which stands last, if nothing before it lets it close.
    fn opens_quote(&self) -> QuoteEnd {
        let [_, before, middle, sign] = self.last;
        match sign {
            b'(' if self.last.ends_with(b"R\"(") => QuoteEnd::Raw(b")\""),
            b'"' if self.last.ends_with(b"r#\"") => QuoteEnd::Raw(b"\"#"),
            b'{' if self.last.ends_with(b"ttt{") || middle == sign => QuoteEnd::Line(b'}'),
            // Verbatim text of Org and Textile.
            b'=' | b'~' | b'@' if matches!(middle, 0 | b' ' | b'\n' | b'\t' | b'(') => QuoteEnd::Line(sign),
            b'"' | b'\'' if before == sign && middle == sign => QuoteEnd::Block(sign),
            // No blank stands before a quotation where a script has none.
            b'"' | b'\'' if middle >= 0x80 && opens_clause(last_letter(&self.last[..3])) => {
                QuoteEnd::Line(sign)
            }
            b'"' | b'\''
                if !middle.is_ascii_alphanumeric()
                    && !matches!(middle, b'.' | b'!' | b'?' | b',' | b')' | b'>' | b'}' | b']' | 0x80..) =>
            {
                QuoteEnd::Line(sign)
            }
            _ => QuoteEnd::None,
        }
    }

    /// Whether a quote stands last of which no blank shows whether it opens or closes.
    fn follows_doubtful_quote(&self) -> bool {
        matches!(self.last[3], b'"' | b'\'') && is_caseless(last_letter(&self.last[..3]))
    }

    /// Returns the position of the text that comes next.
    pub(super) fn standing(&self) -> MarkerPosition {
        let is_inline = match self.ticks {
            (open, 0) => open > 0,
            (open, run) => open != run,
        };
        let is_code = self.indent >= CODE_INDENT && self.follows_blank;
        let is_first = self.line == LineStart::Blank;
        let showing = if is_inline { None } else { self.quotation.showing(is_first, self.indent) };
        match (self.line, &self.json) {
            _ if self.quote != QuoteEnd::None => MarkerPosition::Quoted,
            (_, Some(scanner)) if scanner.is_in_string() => MarkerPosition::Quoted,
            // A closing fence is over where something else follows it on its line.
            (LineStart::Fence(run, len), _)
                if self.fence.is_some_and(|(open, least)| open == run && len >= least) =>
            {
                MarkerPosition::Plain
            }
            _ if self.fence.is_some() => MarkerPosition::Code,
            (LineStart::Quotation | LineStart::Sign, _) => MarkerPosition::Quoted,
            _ if showing == Some(QuotationKind::Quoted) => MarkerPosition::Quoted,
            _ if showing == Some(QuotationKind::Enclosed) => MarkerPosition::Enclosed,
            _ if showing == Some(QuotationKind::Listed) => MarkerPosition::Listed,
            (LineStart::Blank, None) if is_code => MarkerPosition::Indented,
            (LineStart::Blank, None) => MarkerPosition::LineStart,
            _ if is_code => MarkerPosition::Code,
            (LineStart::Fence(..) | LineStart::Info(..), _) => MarkerPosition::Code,
            _ if is_inline || self.opens_quote() != QuoteEnd::None => MarkerPosition::Quoted,
            _ if self.follows_doubtful_quote() => MarkerPosition::Enclosed,
            (_, Some(_)) => MarkerPosition::Json,
            _ => MarkerPosition::Plain,
        }
    }
}

/// The letter that the bytes end with.
fn last_letter(bytes: &[u8]) -> char {
    let letter = |from: usize| std::str::from_utf8(&bytes[from..]).ok()?.chars().next();
    (0..bytes.len()).rev().find_map(letter).unwrap_or('\0')
}
