//! Tracks text that is shown and not meant, besides Markdown: quotation marks of any script, code containers of other
//! markups, and listings. The tables say which; markup in any of them is a call only if the response ends with it.

/// A quotation mark that opens, and those that close it.
const MARKS: [(char, &str); 29] = [
    ('“', "”"),
    ('„', "“”"),
    ('‟', "”"),
    ('⹂', "”“‟"),
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
    ('＂', "＂"),
    ('＇', "＇"),
    ('❝', "❞"),
    ('❛', "❜"),
    ('\u{1f676}', "\u{1f677}"),
    ('⸂', "⸃"),
    ('⸄', "⸅"),
    ('⸉', "⸊"),
    ('⸌', "⸍"),
    ('⸜', "⸝"),
    ('⸠', "⸡"),
    // Marks that close as a rule and open in some languages (»so«, ”so”): behind no word, and before one.
    ('»', "«»"),
    ('›', "‹›"),
    ('”', "”"),
];
/// The index of the first mark that closes as a rule.
const FIRST_BOTH: usize = 26;

/// The mark that may stand for a letter as well (’90s): it opens only right before markup, behind no word.
const APOSTROPHE: char = '’';

/// A code container: how it begins, what may follow that at once, how it ends, and whether it stands in a line.
struct CodeContainer {
    open: &'static str,
    follows: &'static str,
    close: &'static str,
    is_inline: bool,
}

const fn block(open: &'static str, follows: &'static str, close: &'static str) -> CodeContainer {
    CodeContainer { open, follows, close, is_inline: false }
}

const fn inline(open: &'static str, follows: &'static str, close: &'static str) -> CodeContainer {
    CodeContainer { open, follows, close, is_inline: true }
}

/// Behind the name of a tag.
const TAG: &str = "> \t\n";
/// Behind the word in brackets of a forum, and in those of a wiki.
const BRACKET: &str = "]= ";
const BRACE: &str = "}:";
/// Behind the name of an environment.
const NAME: &str = "}*";

/// In lower case.
const CONTAINERS: [CodeContainer; 37] = [
    // Declarations of tools, in prompts that are repeated.
    block("<tools", TAG, "</tools>"),
    block("<pre", TAG, "</pre>"),
    block("<textarea", TAG, "</textarea>"),
    block("<xmp", TAG, "</xmp>"),
    block("<listing", TAG, "</listing>"),
    block("<blockquote", TAG, "</blockquote>"),
    block("<!--", "", "-->"),
    block("<![cdata[", "", "]]>"),
    block("<script", TAG, "</script>"),
    block("<style", TAG, "</style>"),
    block("<template", TAG, "</template>"),
    block("<example", TAG, "</example>"),
    // Of wikis.
    block("<nowiki", TAG, "</nowiki>"),
    block("<syntaxhighlight", TAG, "</syntaxhighlight>"),
    block("<source", TAG, "</source>"),
    block("<file", TAG, "</file>"),
    inline("<code", TAG, "</code>"),
    inline("<samp", TAG, "</samp>"),
    inline("<kbd", TAG, "</kbd>"),
    inline("<tt", TAG, "</tt>"),
    inline("<q", TAG, "</q>"),
    block("[code", BRACKET, "[/code]"),
    block("[quote", BRACKET, "[/quote]"),
    block("[pre", BRACKET, "[/pre]"),
    block("[noparse", BRACKET, "[/noparse]"),
    block("[icode", BRACKET, "[/icode]"),
    block("[tt", BRACKET, "[/tt]"),
    block("{code", BRACE, "{code}"),
    block("{noformat", BRACE, "{noformat}"),
    block("{quote", BRACE, "{quote}"),
    block("\\begin{verbatim", NAME, "\\end{verbatim"),
    block("\\begin{filecontents", NAME, "\\end{filecontents"),
    block("\\begin{lstlisting", NAME, "\\end{lstlisting"),
    block("\\begin{minted", NAME, "\\end{minted"),
    block("\\begin{alltt", NAME, "\\end{alltt"),
    block("\\begin{quote", NAME, "\\end{quote"),
    block("\\begin{comment", NAME, "\\end{comment"),
];

/// Commands whose argument stands between two of the sign that follows them.
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

/// The beginnings of the lines of a listing, before a blank: signs of comments, and prompts.
const SIGNS: [&str; 18] = [
    "#", "//", "///", "//!", "/*", "/**", ";", ";;", "--", "%", "REM", ":", "$", ">>>", "...", "(gdb)",
    "bc.", "bc..",
];

/// Blocks between lines: the beginning of the first, and the beginning of the last, or its ending if that is a comment.
const BLOCKS: [(&str, &str); 9] = [
    ("#+begin_", "#+end_"),
    ("@example", "@end "),
    ("@smallexample", "@end "),
    ("@verbatim", "@end "),
    ("@lisp", "@end "),
    ("=begin", "=end"),
    (".nf", ".fi"),
    (".EX", ".EE"),
    ("/*", COMMENT_END),
];
const COMMENT_END: &str = "*/";

/// The endings of the line before an indented block of YAML.
const BLOCK_SCALARS: [&str; 6] = [": |", ": |-", ": |+", ": >", ": >-", ": >+"];
/// The separators between the number of a line and the line, besides blanks.
const BEHIND_NUMBERS: [&str; 4] = ["|", "│", "┃", "→"];

/// Whether a tag of that name is one of the containers.
pub(super) fn is_container(name: &str) -> bool {
    let is_open = |container: &CodeContainer| {
        container.open.strip_prefix('<').is_some_and(|open| open.eq_ignore_ascii_case(name))
    };
    CONTAINERS.iter().any(is_open)
}

/// Bytes that a quotation mark may begin with. Those of most scripts are none of them.
pub(super) const fn begins_mark(byte: u8) -> bool {
    matches!(byte, 0xc2 | 0xe2 | 0xe3 | 0xef | 0xf0)
}

/// Bytes that a container may begin with.
pub(super) const fn begins_container(byte: u8) -> bool {
    matches!(byte, b'<' | b'[' | b'{' | b'\\')
}

const HEAD: usize = 48;
const TOKEN: usize = 20;

/// Follows the visible text of a response as far as it may be shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct QuotationTracker {
    enclosure: OpenEnclosure,
    /// How much of the closer has come.
    matched: usize,
    /// The bytes that may become the beginning of a container.
    token: [u8; TOKEN],
    token_len: usize,
    /// The beginning of the line, and how long the line is, up to one more than that.
    head: [u8; HEAD],
    head_len: usize,
    /// Which of [`MARKS`] is open.
    mark: Option<u8>,
    /// Which mark stands last that opens only behind no word.
    last_mark: Option<char>,
    /// Whether the line before is blank.
    follows_blank: bool,
    /// Whether the line before announces a delimited block.
    follows_attribute: bool,
    /// Whether markup of this line was shown, so that the rest of the line is.
    is_line_shown: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OpenEnclosure {
    None,
    /// One of [`CONTAINERS`], and whether it began a line: then only its closer ends it.
    Container(u8, bool),
    /// Up to this sign, in the line.
    Verbatim(u8),
    /// Up to a line of this many of these, and whether it is certain that they delimit.
    Delimited(u8, usize, bool),
    /// Up to a line that ends one of [`BLOCKS`].
    Block(u8),
    /// Lines that are indented further, once a blank one has come.
    Indented(usize, bool),
    /// Lines of a patch.
    Patch,
}

/// The way in which text is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QuotationKind {
    /// In a line of a patch.
    Quoted,
    /// In a quotation or a code container.
    Enclosed,
    /// Behind the sign that the lines of a listing begin with.
    Listed,
}

impl Default for QuotationTracker {
    fn default() -> Self {
        Self {
            enclosure: OpenEnclosure::None,
            matched: 0,
            token: [0; TOKEN],
            token_len: 0,
            head: [0; HEAD],
            head_len: 0,
            mark: None,
            last_mark: None,
            follows_blank: true,
            follows_attribute: false,
            is_line_shown: false,
        }
    }
}

impl QuotationTracker {
    /// Whether nothing but quotation marks and the end of the line can change anything.
    #[inline]
    pub(super) fn is_quiet(&self) -> bool {
        self.token_len == 0 && self.enclosure == OpenEnclosure::None
    }

    /// Whether a mark stands last that opens only before a word.
    #[inline]
    pub(super) fn ends_in_mark(&self) -> bool {
        self.last_mark.is_some()
    }

    /// Whether text that holds no byte that matters by itself, and no quotation mark, changes nothing.
    #[inline]
    pub(super) fn is_calm(&self) -> bool {
        self.head_len > HEAD && self.last_mark.is_none()
    }

    /// The line goes on with `text`, which holds no byte that matters by itself; `before` stood last.
    pub(super) fn pass(&mut self, text: &str, before: char) {
        if self.head_len <= HEAD {
            text.bytes().for_each(|byte| self.push_head(byte));
        }
        match text.is_ascii() {
            true => self.leave_mark(text.chars().next().unwrap_or(' ')),
            false => self.marks(text, before),
        }
    }

    /// Lets a mark open if a word follows it.
    fn leave_mark(&mut self, next: char) {
        if let Some(last) = self.last_mark.take().filter(|_| next.is_alphanumeric() && self.mark.is_none()) {
            let opens = MARKS[FIRST_BOTH..].iter().position(|(open, _)| *open == last);
            self.mark = opens.map(|at| (FIRST_BOTH + at) as u8);
        }
    }

    /// Looks for quotation marks.
    pub(super) fn marks(&mut self, text: &str, mut before: char) {
        for letter in text.chars() {
            if self.last_mark.is_some() {
                self.leave_mark(letter);
            }
            if may_be_mark(letter) {
                match self.mark {
                    Some(mark) if MARKS[usize::from(mark)].1.contains(letter) => self.mark = None,
                    Some(_) => {}
                    None => {
                        let opens = MARKS[..FIRST_BOTH].iter().position(|(open, _)| *open == letter);
                        self.mark = opens.map(|at| at as u8);
                        let is_free = before.is_whitespace() || opens_clause(before);
                        self.last_mark = match may_close_and_open(letter) {
                            true if is_free => Some(letter),
                            // No blank shows there whether it opens.
                            true if is_caseless(before) => Some(APOSTROPHE),
                            _ => None,
                        };
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

    /// Takes the next byte, which is no line break, behind that much indentation; `is_first` if nothing but blanks
    /// stands before it on its line, and `is_code` if it stands in inline code.
    pub(super) fn byte(&mut self, byte: u8, is_first: bool, indent: usize, is_code: bool) {
        self.push_head(byte);
        if byte.is_ascii() && self.last_mark.is_some() {
            self.leave_mark(char::from(byte));
        }
        let is_blank = matches!(byte, b' ' | b'\t' | b'\r');
        match self.enclosure {
            OpenEnclosure::None => {
                if !is_code {
                    self.begin(byte, is_first);
                }
            }
            OpenEnclosure::Container(which, _) => {
                let close = CONTAINERS[usize::from(which)].close.as_bytes();
                self.matched = matched(close, self.matched, byte.to_ascii_lowercase());
                if self.matched == close.len() {
                    (self.enclosure, self.matched) = (OpenEnclosure::None, 0);
                }
            }
            OpenEnclosure::Verbatim(sign) if byte == sign => self.enclosure = OpenEnclosure::None,
            OpenEnclosure::Indented(least, is_open) if is_first && !is_blank => {
                // Options of a directive stand right under it, as deep as its block.
                if indent <= least || !is_open && byte != b':' {
                    self.enclosure = OpenEnclosure::None;
                    self.begin(byte, true);
                }
            }
            OpenEnclosure::Patch if is_first && indent == 0 && !b"+-@\\ ".contains(&byte) && !is_blank => {
                self.enclosure = OpenEnclosure::None;
                self.begin(byte, true);
            }
            OpenEnclosure::Verbatim(_)
            | OpenEnclosure::Delimited(..)
            | OpenEnclosure::Block(_)
            | OpenEnclosure::Indented(..)
            | OpenEnclosure::Patch => {}
        }
    }

    /// Whether the possible beginning of a container is still one with one more byte.
    fn may_go_on(&self, byte: u8) -> bool {
        let mut token = self.token;
        let Some(free) = token.get_mut(self.token_len).filter(|_| self.token_len > 0) else { return false };
        *free = byte;
        may_open(&token[..=self.token_len])
    }

    /// Begins a possible container.
    fn begin(&mut self, byte: u8, is_first: bool) {
        if begins_container(byte) && !self.may_go_on(byte) {
            (self.token[0], self.token_len) = (byte, 1);
            // The beginning of its token shows whether it begins the line.
            self.matched = usize::from(is_first);
            return;
        }
        if self.token_len == 0 {
            return;
        }
        let begins_line = self.matched == 1;
        let opened = &self.token[..self.token_len];
        let is_open = |container: &CodeContainer| {
            container.open.as_bytes() == opened && container.follows.as_bytes().contains(&byte)
        };
        let which = CONTAINERS.iter().position(is_open);
        let is_sign = !byte.is_ascii_alphanumeric() && !byte.is_ascii_whitespace() && byte != b'{';
        let is_verbatim = is_sign && VERBATIM.iter().any(|open| open.as_bytes() == opened);
        if let Some(which) = which {
            (self.enclosure, self.token_len, self.matched) =
                (OpenEnclosure::Container(which as u8, begins_line), 0, 0);
        } else if is_verbatim {
            (self.enclosure, self.token_len, self.matched) = (OpenEnclosure::Verbatim(byte), 0, 0);
        } else if self.token_len < TOKEN {
            self.token[self.token_len] = byte.to_ascii_lowercase();
            self.token_len += 1;
            let token = &self.token[..self.token_len];
            let whole = |container: &CodeContainer| {
                container.follows.is_empty() && container.open.as_bytes() == token
            };
            if let Some(which) = CONTAINERS.iter().position(whole) {
                (self.enclosure, self.token_len, self.matched) =
                    (OpenEnclosure::Container(which as u8, begins_line), 0, 0);
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
        let is_complete = self.head_len <= HEAD;
        let words = line.trim_ascii();
        let is_blank = words.is_empty() && is_complete;
        let delimiter = words.first().copied().filter(|first| {
            is_complete
                && words.len() >= 4
                && b"-.+=".contains(first)
                && words.iter().all(|byte| byte == first)
        });
        let begins = |start: &str| {
            words.get(..start.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(start.as_bytes()))
        };
        let is_commented = |close: &str| close == COMMENT_END && last == *b"*/";
        let mut is_attribute = false;
        match self.enclosure {
            OpenEnclosure::None => {
                // Dashes alone are a rule, and other signs may stand under a title.
                let is_opened =
                    |byte: u8| byte == b'.' || self.follows_attribute || byte != b'-' && self.follows_blank;
                let block = BLOCKS.iter().position(|(open, close)| begins(open) && !is_commented(close));
                if let Some(byte) = delimiter.filter(|byte| is_opened(*byte)) {
                    let is_certain = byte == b'.' || self.follows_attribute;
                    self.enclosure = OpenEnclosure::Delimited(byte, words.len(), is_certain);
                } else if let Some(block) = block {
                    self.enclosure = OpenEnclosure::Block(block as u8);
                } else if BLOCK_SCALARS.iter().any(|end| words.ends_with(end.as_bytes()) && is_complete) {
                    self.enclosure = OpenEnclosure::Indented(indent, true);
                } else if begins("@@ ") || begins("diff --git ") {
                    self.enclosure = OpenEnclosure::Patch;
                } else if is_directive(words) || last == *b"::" && !is_blank {
                    self.enclosure = OpenEnclosure::Indented(indent, false);
                }
                is_attribute = words.starts_with(b"[") && last[1] == b']'
                    || words.starts_with(b".") && words.get(1).is_some_and(u8::is_ascii_alphabetic);
            }
            OpenEnclosure::Container(which, begins_line) => {
                let is_inline = CONTAINERS[usize::from(which)].is_inline;
                if !begins_line && (is_inline || is_blank) {
                    (self.enclosure, self.matched) = (OpenEnclosure::None, 0);
                }
            }
            OpenEnclosure::Verbatim(_) => self.enclosure = OpenEnclosure::None,
            OpenEnclosure::Delimited(byte, len, _) if delimiter == Some(byte) && words.len() == len => {
                self.enclosure = OpenEnclosure::None;
            }
            // Behind a rule, a blank line stands as a rule.
            OpenEnclosure::Delimited(_, _, false) if is_blank => self.enclosure = OpenEnclosure::None,
            OpenEnclosure::Delimited(byte, len, false) => {
                self.enclosure = OpenEnclosure::Delimited(byte, len, true)
            }
            OpenEnclosure::Block(block) => {
                let close = BLOCKS[usize::from(block)].1;
                if is_commented(close) || close != COMMENT_END && begins(close) {
                    self.enclosure = OpenEnclosure::None;
                }
            }
            OpenEnclosure::Indented(least, _) if is_blank => {
                self.enclosure = OpenEnclosure::Indented(least, true)
            }
            OpenEnclosure::Delimited(..) | OpenEnclosure::Indented(..) | OpenEnclosure::Patch => {}
        }
        if is_blank {
            self.mark = None;
        }
        (self.follows_attribute, self.follows_blank) = (is_attribute, is_blank);
        (self.head_len, self.last_mark, self.is_line_shown) = (0, None, false);
    }

    /// Markup comes next that is text: if a listing shows it, or a pair of signs that may stand in it, so is the line.
    pub(super) fn keep_line(&mut self, is_first: bool, indent: usize) {
        self.is_line_shown |= matches!(self.enclosure, OpenEnclosure::Verbatim(_))
            || self.showing(is_first, indent) == Some(QuotationKind::Listed);
    }

    /// A line of a fenced block ends.
    pub(super) fn skip_line(&mut self) {
        (self.head_len, self.token_len, self.matched) = (0, 0, 0);
        (self.mark, self.last_mark, self.follows_blank) = (None, None, false);
    }

    /// Returns how the next text is shown, if it is, behind that much indentation; `is_first` if it is first on its
    /// line.
    pub(super) fn showing(&self, is_first: bool, indent: usize) -> Option<QuotationKind> {
        let is_enclosed = match self.enclosure {
            OpenEnclosure::None => false,
            OpenEnclosure::Indented(least, is_open) => is_open && !(is_first && indent <= least),
            OpenEnclosure::Patch => {
                return (self.head_len > 0).then_some(QuotationKind::Quoted);
            }
            OpenEnclosure::Container(..)
            | OpenEnclosure::Verbatim(_)
            | OpenEnclosure::Delimited(..)
            | OpenEnclosure::Block(_) => true,
        };
        if is_enclosed || self.mark.is_some() || self.last_mark.is_some() {
            return Some(QuotationKind::Enclosed);
        }
        if self.is_line_shown {
            return Some(QuotationKind::Listed);
        }
        if is_stamped(&self.head[..self.head_len.min(HEAD)]) {
            return Some(QuotationKind::Listed);
        }
        let prefix = self.head.get(..self.head_len)?;
        let prefix = std::str::from_utf8(prefix).ok()?;
        is_listing(prefix).then_some(QuotationKind::Listed)
    }
}

/// Whether a letter may be one of the marks, by its block.
#[inline]
fn may_be_mark(letter: char) -> bool {
    matches!(
        letter,
        '«' | '»'
            | '\u{2018}'..='\u{201f}'
            | '‹'
            | '›'
            | '❛'..='❞'
            | '\u{2e02}'..='\u{2e42}'
            | '「'..='』'
            | '〝'..='〟'
            | '﹁'..='﹄'
            | '＂'
            | '＇'
            | '｢'
            | '｣'
            | '\u{1f676}'
            | '\u{1f677}'
    )
}

/// Whether a quotation may begin behind that sign without a blank.
pub(super) fn opens_clause(before: char) -> bool {
    matches!(before, '\0' | '(' | ':' | '=' | '（' | '：' | '，' | '、' | '＝')
}

/// Whether a letter is one of a script without case; most of these have no blanks between words.
pub(super) fn is_caseless(letter: char) -> bool {
    letter.is_alphabetic() && !letter.is_lowercase() && !letter.is_uppercase()
}

/// Whether a mark closes as a rule, and may open behind no word.
fn may_close_and_open(letter: char) -> bool {
    letter == APOSTROPHE || MARKS[FIRST_BOTH..].iter().any(|(open, _)| *open == letter)
}

/// How much of a closer has come with one more byte.
fn matched(close: &[u8], so_far: usize, byte: u8) -> usize {
    let fits = |len: &usize| close[*len - 1] == byte && close[..so_far].ends_with(&close[..*len - 1]);
    (1..=so_far + 1).rev().find(fits).unwrap_or(0)
}

/// Whether a container may begin like `token`.
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

/// Whether the lines of a listing begin like this: with a number, the sign of a comment, a prompt, or a location in a
/// file.
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
            ":" => true,
            sign => BEHIND_NUMBERS.contains(&sign),
        };
    }
    is_place(words) || is_prompt(words)
}

/// Whether a line begins with a time, as those of logs do: `2024-05-01 12:00:01`, `[12:00:01]`.
fn is_stamped(line: &[u8]) -> bool {
    let begins = |line: &[u8], form: &[u8]| {
        let fits =
            |(byte, sign): (&u8, &u8)| if *sign == b'0' { byte.is_ascii_digit() } else { byte == sign };
        line.len() > form.len() && line.iter().zip(form).all(fits)
    };
    let line = line.trim_ascii_start();
    let line = line.strip_prefix(b"[").unwrap_or(line);
    begins(line, b"00:00:00") || begins(line, b"0000-00-00 00:00") || begins(line, b"0000-00-00T00:00")
}

/// Whether it is a prompt: `me@host:~$`, `PS C:\>`, `mysql>`, `In [3]:`.
fn is_prompt(words: &str) -> bool {
    if words.starts_with("PS ") && words.ends_with('>') {
        return true;
    }
    if let Some(number) = words.strip_prefix("In [").and_then(|rest| rest.strip_suffix("]:")) {
        return number.bytes().all(|byte| byte.is_ascii_digit());
    }
    let Some(name) = words.strip_suffix(['$', '#', '%', '>']) else { return false };
    let is_shell = name.contains('@') || name.contains(":\\");
    let is_program = words.ends_with('>') && name.bytes().all(|byte| byte.is_ascii_lowercase());
    !name.is_empty() && !words.contains(char::is_whitespace) && (is_shell || is_program)
}

/// Whether it is a location in a file, as searching has it: `src/a.rs:12:`, `a.txt:`, `a.txt-3-`, `docs/README:3:7:`.
fn is_place(words: &str) -> bool {
    let Some(mut path) = words.strip_suffix([':', '-']) else { return false };
    let mut is_numbered = false;
    for _ in 0..2 {
        let bare = path.trim_end_matches(|digit: char| digit.is_ascii_digit());
        if let Some(rest) = bare.strip_suffix([':', '-']).filter(|_| bare.len() < path.len()) {
            (path, is_numbered) = (rest, true);
        }
    }
    let name = path.rsplit('/').next().unwrap_or(path);
    let has_suffix = name.rsplit_once('.').is_some_and(|(stem, suffix)| {
        !suffix.is_empty()
            && suffix.len() <= 5
            && !stem.ends_with('.')
            && suffix.bytes().all(|byte| byte.is_ascii_alphanumeric())
    });
    let is_file = has_suffix || is_numbered && path.contains('/') && !name.is_empty();
    !path.contains(char::is_whitespace) && is_file && !path.contains("://")
}
