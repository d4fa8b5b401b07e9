//! What shows text instead of meaning it, besides Markdown: quotation marks of any script, code containers of other
//! markups, and listings. The tables say which; markup in any of them is a call only if the response ends with it.

/// A quotation mark that opens, and those that close it.
const MARKS: [(char, &str); 17] = [
    ('“', "”"),
    ('„', "“”"),
    ('‟', "”"),
    ('‘', "’"),
    ('‚', "‘’"),
    ('‛', "’"),
    ('«', "»"),
    ('‹', "›"),
    ('「', "」"),
    ('『', "』"),
    ('｢', "｣"),
    ('﹁', "﹂"),
    ('﹃', "﹄"),
    ('〝', "〞〟"),
    ('❝', "❞"),
    ('❛', "❜"),
    ('\u{1f676}', "\u{1f677}"),
];

/// Marks that close as a rule and open in some languages (»so«, ”so”): they open right before markup, behind no word.
const BOTH: [char; 5] = ['»', '›', '”', '’', '＂'];

/// A code container: how it begins, what may follow that at once, how it ends, and whether it stands in a line.
struct Container {
    open: &'static str,
    follows: &'static str,
    close: &'static str,
    is_inline: bool,
}

const fn block(open: &'static str, follows: &'static str, close: &'static str) -> Container {
    Container { open, follows, close, is_inline: false }
}

const fn inline(open: &'static str, follows: &'static str, close: &'static str) -> Container {
    Container { open, follows, close, is_inline: true }
}

/// Behind the name of a tag.
const TAG: &str = "> \t\n";
/// Behind the word in brackets of a forum, and in those of a wiki.
const BRACKET: &str = "]= ";
const BRACE: &str = "}:";
/// Behind the name of an environment.
const NAME: &str = "}*";

/// In lower case.
const CONTAINERS: [Container; 25] = [
    // Declarations of tools, in prompts that are told.
    block("<tools", TAG, "</tools>"),
    block("<pre", TAG, "</pre>"),
    block("<textarea", TAG, "</textarea>"),
    block("<xmp", TAG, "</xmp>"),
    block("<listing", TAG, "</listing>"),
    block("<blockquote", TAG, "</blockquote>"),
    block("<!--", "", "-->"),
    inline("<code", TAG, "</code>"),
    inline("<samp", TAG, "</samp>"),
    inline("<kbd", TAG, "</kbd>"),
    inline("<tt", TAG, "</tt>"),
    inline("<q", TAG, "</q>"),
    block("[code", BRACKET, "[/code]"),
    block("[quote", BRACKET, "[/quote]"),
    block("[pre", BRACKET, "[/pre]"),
    block("[noparse", BRACKET, "[/noparse]"),
    block("{code", BRACE, "{code}"),
    block("{noformat", BRACE, "{noformat}"),
    block("{quote", BRACE, "{quote}"),
    block("\\begin{verbatim", NAME, "\\end{verbatim"),
    block("\\begin{lstlisting", NAME, "\\end{lstlisting"),
    block("\\begin{minted", NAME, "\\end{minted"),
    block("\\begin{alltt", NAME, "\\end{alltt"),
    block("\\begin{quote", NAME, "\\end{quote"),
    block("\\begin{comment", NAME, "\\end{comment"),
];

/// Commands whose argument stands between two of whatever sign follows them.
const VERBATIM: [&str; 2] = ["\\verb", "\\lstinline"];

/// Directives of reStructuredText, and of what extends it, whose indented block is code.
const DIRECTIVES: [&str; 9] = [
    "code",
    "code-block",
    "sourcecode",
    "parsed-literal",
    "highlight",
    "prompt",
    "testcode",
    "testoutput",
    "console",
];

/// What the lines of a listing begin with, before a blank: signs of comments, and prompts.
const SIGNS: [&str; 11] = ["#", "//", "///", "//!", ";", ";;", "--", "%", ":", "$", ">>>"];
/// What stands between the number of a line and the line, besides blanks.
const BEHIND_NUMBERS: [&str; 4] = ["|", "│", "┃", "→"];

/// Bytes that a container may begin with.
pub(super) const fn begins_container(byte: u8) -> bool {
    matches!(byte, b'<' | b'[' | b'{' | b'\\')
}

const HEAD: usize = 48;
const TOKEN: usize = 20;

/// Follows the visible text of a response as far as it may be shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quotation {
    enclosure: Enclosure,
    /// How much of the closer has come.
    matched: usize,
    /// What may become the beginning of a container.
    token: [u8; TOKEN],
    token_len: usize,
    /// The beginning of the line, and how long the line is, up to one more than that.
    head: [u8; HEAD],
    head_len: usize,
    /// Which of [`MARKS`] is open.
    mark: Option<u8>,
    /// Whether one of [`BOTH`] stands last, behind no word.
    ends_in_mark: bool,
    /// Whether the line before announces a delimited block.
    follows_attribute: bool,
    /// Whether markup of this line was shown, so that the rest of the line is.
    is_line_shown: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Enclosure {
    None,
    /// One of [`CONTAINERS`], and whether it began a line: then only its closer ends it.
    Container(u8, bool),
    /// Up to this sign, in the line.
    Verbatim(u8),
    /// Up to a line of so many of these.
    Delimited(u8, usize),
    /// Up to a line that ends such a block.
    Org,
    /// Lines that are indented further, once a blank one has come.
    Indented(usize, bool),
    /// Lines of a patch.
    Patch,
}

/// How something is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Showing {
    /// In a quotation or a code container.
    Enclosed,
    /// Behind what the lines of a listing begin with.
    Listed,
}

impl Default for Quotation {
    fn default() -> Self {
        Self {
            enclosure: Enclosure::None,
            matched: 0,
            token: [0; TOKEN],
            token_len: 0,
            head: [0; HEAD],
            head_len: 0,
            mark: None,
            ends_in_mark: false,
            follows_attribute: false,
            is_line_shown: false,
        }
    }
}

impl Quotation {
    /// Whether nothing but quotation marks and the end of the line can change anything.
    #[inline]
    pub(super) fn is_quiet(&self) -> bool {
        self.token_len == 0 && self.enclosure == Enclosure::None
    }

    /// Whether ASCII that holds no byte that matters by itself changes nothing.
    #[inline]
    pub(super) fn is_calm(&self) -> bool {
        self.head_len > HEAD && !self.ends_in_mark
    }

    /// The line goes on with `text`, which holds no byte that matters by itself; `before` stood last.
    pub(super) fn pass(&mut self, text: &str, before: u8) {
        if self.head_len <= HEAD {
            text.bytes().for_each(|byte| self.push_head(byte));
        }
        match text.is_ascii() {
            true => self.ends_in_mark = false,
            false => self.marks(text, before),
        }
    }

    /// Looks for quotation marks.
    pub(super) fn marks(&mut self, text: &str, before: u8) {
        let mut before = char::from(if before < 0x80 { before } else { b'x' });
        for letter in text.chars() {
            self.ends_in_mark = false;
            if !letter.is_ascii() {
                let closes = |mark: u8| MARKS[usize::from(mark)].1.contains(letter);
                match self.mark {
                    Some(mark) if closes(mark) => self.mark = None,
                    Some(_) => {}
                    None => {
                        let opens = MARKS.iter().position(|(open, _)| *open == letter);
                        self.mark = opens.map(|at| at as u8);
                        let is_free = before.is_whitespace() || matches!(before, '\0' | '(' | ':' | '=');
                        self.ends_in_mark = is_free && BOTH.contains(&letter);
                    }
                }
            }
            before = letter;
        }
    }

    fn push_head(&mut self, byte: u8) {
        if let Some(free) = self.head.get_mut(self.head_len) {
            *free = byte;
        }
        self.head_len = (self.head_len + 1).min(HEAD + 1);
    }

    /// The text goes on with a byte that is no line break, behind so much indentation; `is_first` if nothing but blanks
    /// stands before it on its line, and `is_code` if it stands in inline code.
    pub(super) fn byte(&mut self, byte: u8, is_first: bool, indent: usize, is_code: bool) {
        self.push_head(byte);
        self.ends_in_mark &= !byte.is_ascii();
        let is_blank = matches!(byte, b' ' | b'\t' | b'\r');
        match self.enclosure {
            Enclosure::None => {
                if !is_code {
                    self.begin(byte, is_first);
                }
            }
            Enclosure::Container(which, _) => {
                let close = CONTAINERS[usize::from(which)].close.as_bytes();
                self.matched = matched(close, self.matched, byte.to_ascii_lowercase());
                if self.matched == close.len() {
                    (self.enclosure, self.matched) = (Enclosure::None, 0);
                }
            }
            Enclosure::Verbatim(sign) if byte == sign => self.enclosure = Enclosure::None,
            Enclosure::Indented(least, is_open) if is_first && !is_blank => {
                // Options of a directive stand right under it, as deep as its block.
                if indent <= least || !is_open && byte != b':' {
                    self.enclosure = Enclosure::None;
                    self.begin(byte, true);
                }
            }
            Enclosure::Patch if is_first && indent == 0 && !b"+-@\\ ".contains(&byte) && !is_blank => {
                self.enclosure = Enclosure::None;
                self.begin(byte, true);
            }
            Enclosure::Verbatim(_)
            | Enclosure::Delimited(..)
            | Enclosure::Org
            | Enclosure::Indented(..)
            | Enclosure::Patch => {}
        }
    }

    /// A container may begin.
    fn begin(&mut self, byte: u8, is_first: bool) {
        if begins_container(byte) && !(byte == b'{' && self.token_len > 1 && self.token[0] == b'\\') {
            (self.token[0], self.token_len) = (byte, 1);
            // Whether it begins the line is told by where its token began.
            self.matched = usize::from(is_first);
            return;
        }
        if self.token_len == 0 {
            return;
        }
        let begins_line = self.matched == 1;
        let opened = &self.token[..self.token_len];
        let is_open = |container: &Container| {
            container.open.as_bytes() == opened && container.follows.as_bytes().contains(&byte)
        };
        let which = CONTAINERS.iter().position(is_open);
        let is_sign = !byte.is_ascii_alphanumeric() && !byte.is_ascii_whitespace() && byte != b'{';
        let is_verbatim = is_sign && VERBATIM.iter().any(|open| open.as_bytes() == opened);
        if let Some(which) = which {
            (self.enclosure, self.token_len, self.matched) =
                (Enclosure::Container(which as u8, begins_line), 0, 0);
        } else if is_verbatim {
            (self.enclosure, self.token_len, self.matched) = (Enclosure::Verbatim(byte), 0, 0);
        } else if self.token_len < TOKEN {
            self.token[self.token_len] = byte.to_ascii_lowercase();
            self.token_len += 1;
            let token = &self.token[..self.token_len];
            let whole =
                |container: &Container| container.follows.is_empty() && container.open.as_bytes() == token;
            if let Some(which) = CONTAINERS.iter().position(whole) {
                (self.enclosure, self.token_len, self.matched) =
                    (Enclosure::Container(which as u8, begins_line), 0, 0);
            } else if !may_open(token) {
                (self.token_len, self.matched) = (0, 0);
            }
        } else {
            (self.token_len, self.matched) = (0, 0);
        }
    }

    /// A line ends. `last` are its last two bytes, `indent` how far it is indented.
    pub(super) fn end_line(&mut self, last: [u8; 2], indent: usize) {
        // A tag may end with its line.
        if self.token_len > 0 {
            self.begin(b'\n', false);
        }
        let line = &self.head[..self.head_len.min(HEAD)];
        let is_whole = self.head_len <= HEAD;
        let words = line.trim_ascii();
        let is_blank = words.is_empty() && is_whole;
        let delimiter = words.first().copied().filter(|first| {
            is_whole && words.len() >= 4 && b"-.+".contains(first) && words.iter().all(|byte| byte == first)
        });
        let begins = |start: &str| {
            line.get(..start.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(start.as_bytes()))
        };
        let mut is_attribute = false;
        match self.enclosure {
            Enclosure::None => {
                let is_opened = |byte: u8| byte == b'.' || self.follows_attribute;
                if let Some(byte) = delimiter.filter(|byte| is_opened(*byte)) {
                    self.enclosure = Enclosure::Delimited(byte, words.len());
                } else if begins("#+begin_") {
                    self.enclosure = Enclosure::Org;
                } else if begins("@@ ") || begins("diff --git ") {
                    self.enclosure = Enclosure::Patch;
                } else if is_directive(words) || last == *b"::" && !is_blank {
                    self.enclosure = Enclosure::Indented(indent, false);
                }
                is_attribute = words.starts_with(b"[") && last[1] == b']'
                    || words.starts_with(b".") && words.get(1).is_some_and(u8::is_ascii_alphabetic);
            }
            Enclosure::Container(which, begins_line) => {
                let is_inline = CONTAINERS[usize::from(which)].is_inline;
                if !begins_line && (is_inline || is_blank) {
                    (self.enclosure, self.matched) = (Enclosure::None, 0);
                }
            }
            Enclosure::Verbatim(_) => self.enclosure = Enclosure::None,
            Enclosure::Delimited(byte, len) if delimiter == Some(byte) && words.len() == len => {
                self.enclosure = Enclosure::None;
            }
            Enclosure::Org if begins("#+end_") => self.enclosure = Enclosure::None,
            Enclosure::Indented(least, _) if is_blank => self.enclosure = Enclosure::Indented(least, true),
            Enclosure::Delimited(..) | Enclosure::Org | Enclosure::Indented(..) | Enclosure::Patch => {}
        }
        if is_blank {
            self.mark = None;
        }
        self.follows_attribute = is_attribute;
        (self.head_len, self.ends_in_mark, self.is_line_shown) = (0, false, false);
    }

    /// Markup comes next that is text: if a listing shows it, or a pair of signs that may stand in it, so is the line.
    pub(super) fn keep_line(&mut self, is_first: bool, indent: usize) {
        self.is_line_shown |= matches!(self.enclosure, Enclosure::Verbatim(_))
            || self.showing(is_first, indent) == Some(Showing::Listed);
    }

    /// A line of a fenced block ends.
    pub(super) fn skip_line(&mut self) {
        (self.head_len, self.token_len, self.matched) = (0, 0, 0);
        (self.mark, self.ends_in_mark) = (None, false);
    }

    /// How what comes next is shown, if it is, behind so much indentation; `is_first` if it is first on its line.
    pub(super) fn showing(&self, is_first: bool, indent: usize) -> Option<Showing> {
        let is_enclosed = match self.enclosure {
            Enclosure::None => false,
            Enclosure::Indented(least, is_open) => is_open && !(is_first && indent <= least),
            Enclosure::Patch => {
                return (self.head_len > 0).then_some(Showing::Listed);
            }
            Enclosure::Container(..) | Enclosure::Verbatim(_) | Enclosure::Delimited(..) | Enclosure::Org => {
                true
            }
        };
        if is_enclosed || self.mark.is_some() || self.ends_in_mark {
            return Some(Showing::Enclosed);
        }
        if self.is_line_shown {
            return Some(Showing::Listed);
        }
        let prefix = self.head.get(..self.head_len)?;
        let prefix = std::str::from_utf8(prefix).ok()?;
        is_listing(prefix).then_some(Showing::Listed)
    }
}

/// How much of a closer has come with one more byte.
fn matched(close: &[u8], so_far: usize, byte: u8) -> usize {
    let fits = |len: &usize| close[*len - 1] == byte && close[..so_far].ends_with(&close[..*len - 1]);
    (1..=so_far + 1).rev().find(fits).unwrap_or(0)
}

/// Whether a container may begin with what `token` begins with.
fn may_open(token: &[u8]) -> bool {
    let opens = CONTAINERS.iter().map(|container| container.open).chain(VERBATIM);
    opens.into_iter().any(|open| open.as_bytes().starts_with(token))
}

/// Whether a line is a directive whose block is code: `.. code-block:: xml`.
fn is_directive(line: &[u8]) -> bool {
    let Some(line) = line.strip_prefix(b".. ") else { return false };
    DIRECTIVES
        .iter()
        .any(|name| line.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b"::")))
}

/// Whether the lines of a listing begin so: with a number, the sign of a comment, a prompt, or a place in a file.
fn is_listing(prefix: &str) -> bool {
    let words = prefix.trim();
    if words.is_empty() {
        return false;
    }
    if SIGNS.contains(&words) {
        return true;
    }
    let number = words.trim_start_matches(|digit: char| digit.is_ascii_digit());
    if number.len() < words.len() {
        let behind = prefix.trim_start().trim_start_matches(|digit: char| digit.is_ascii_digit());
        // `1. ` and `1) ` are items of a list.
        return match behind.trim() {
            "" => behind.contains('\t') || behind.len() > 1,
            ":" => behind == ":",
            sign => BEHIND_NUMBERS.contains(&sign),
        };
    }
    is_place(words)
}

/// Whether it is a place in a file, as searching has it: `src/a.rs:12:`, `a.txt:`, `a.txt-3-`.
fn is_place(words: &str) -> bool {
    let Some(rest) = words.strip_suffix([':', '-']) else { return false };
    let bare = rest.trim_end_matches(|digit: char| digit.is_ascii_digit());
    let path = if bare.len() < rest.len() { bare.strip_suffix([':', '-']).unwrap_or(rest) } else { rest };
    let name = path.rsplit('/').next().unwrap_or(path);
    let has_suffix = name.rsplit_once('.').is_some_and(|(stem, suffix)| {
        !suffix.is_empty()
            && suffix.len() <= 5
            && !stem.ends_with('.')
            && suffix.bytes().all(|byte| byte.is_ascii_alphanumeric())
    });
    !path.contains(char::is_whitespace) && has_suffix && !path.contains("://")
}
