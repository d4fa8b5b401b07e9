//! Repair of JSON that models break.
//!
//! The input is text that should be one JSON document; the output is a [`RepairedJson`]: a [`RepairVerdict`], valid
//! JSON text, and every [`RepairChange`] with its position in the input, so that replaying the changes over the input
//! gives the text. Valid JSON is recognised by one scan and returned untouched, byte for byte. A truncated document is
//! closed only on request and is never passed off as complete. Numbers are passed on as written and members stay in
//! their order.
//!
//! ```
//! use callweave::json::repair::{RepairVerdict, repair};
//!
//! let repaired = repair("{city: 'Oslo', days: 3,}");
//! assert_eq!(repaired.verdict, RepairVerdict::Repaired);
//! assert_eq!(repaired.text, r#"{"city": "Oslo", "days": 3}"#);
//!
//! let cut = repair(r#"{"city": "Os"#);
//! assert_eq!(cut.verdict, RepairVerdict::Incomplete);
//! assert_eq!(cut.text, "");
//! assert_eq!(cut.closed(), Some(r#"{"city": "Os"}"#));
//! ```
//!
//! # Decisions where sources disagree
//!
//! - A member without a value becomes `null`; at the end of a text that is only a
//!   [prefix](RepairOptions::prefix) it is left out, because its value is still to come.
//! - Text without any quotes, brackets or further lines is a string (a [`ChangeClass::Guess`]); text of
//!   several lines without JSON in it is [`HopelessReason::NoJson`]. Nothing but white space is [`HopelessReason::Empty`].
//! - Prose around a document is dropped. Where fenced blocks hold JSON, only these count.
//! - Several documents become an array. An empty `{}` or `[]` glued to another document is dropped:
//!   it is the placeholder that some providers send before the arguments.
//! - A backslash before a letter that makes no escape stays, since models forget to escape patterns, paths and
//!   formulas; so does one before punctuation (`\*`, `\.`). Before a quote or a `_` it is removed. Where such a
//!   backslash stands, `\b` and `\f` are no control characters either, and in a string that begins like `C:\` no letter
//!   makes an escape. A damaged `\u` escape cannot be guessed and is [`HopelessReason::DamagedEscape`].
//! - A quote inside a string ends it only if the text behind it can follow a string there. JSON that was pasted into a
//!   string without escapes belongs to that string up to its last bracket.
//! - Brackets amid text without quotes belong to it up to their match. `name(…)` wraps a value only if it
//!   holds exactly one; a call of several arguments is text.
//! - Full-width punctuation stands for the signs of JSON between tokens, and is text in all other places.

mod ahead;
mod bare;
mod document;
mod encoded;
mod escape;
mod noise;
mod parser;
mod plain;
mod quote;
mod strict;
mod string;
mod wide;

use std::borrow::Cow;

use parser::{ParseStop, RepairParser};

/// Repairs `text` with the default [`RepairOptions`].
pub fn repair(text: &str) -> RepairedJson<'_> {
    RepairOptions::new().repair(text)
}

/// The changes that a repair may make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepairOptions {
    is_prefix: bool,
    closes: bool,
    searches_prose: bool,
    drops_unfinished: bool,
    allowed: ChangeClass,
}

impl Default for RepairOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl RepairOptions {
    /// Allows every change, and does not close a truncated document.
    pub fn new() -> Self {
        Self {
            is_prefix: false,
            closes: false,
            searches_prose: true,
            drops_unfinished: false,
            allowed: ChangeClass::Guess,
        }
    }

    /// Takes the text as the beginning of a longer one. An open string is then one that still grows, never one whose
    /// quote was forgotten, a member whose value has not begun is left out, and a literal that has begun is completed.
    pub fn prefix(self) -> Self {
        Self { is_prefix: true, ..self }
    }

    /// Puts the closed text of a truncated document into [`RepairedJson::text`]. Its verdict stays
    /// [`RepairVerdict::Incomplete`].
    pub fn close_truncated(self) -> Self {
        Self { closes: true, ..self }
    }

    /// Leaves out an unfinished string at the end of the text, instead of keeping its beginning.
    pub fn drop_unfinished_strings(self) -> Self {
        Self { drops_unfinished: true, ..self }
    }

    /// Takes the text for JSON from its start to its end: prose or fences around it are refused.
    pub fn without_prose(self) -> Self {
        Self { searches_prose: false, ..self }
    }

    /// Allows changes up to `class` only; a text that needs more is [`RepairVerdict::Hopeless`].
    pub fn allow(self, class: ChangeClass) -> Self {
        Self { allowed: class, ..self }
    }

    /// Repairs `text`.
    pub fn repair<'a>(&self, text: &'a str) -> RepairedJson<'a> {
        let Err(sound) = strict::check(text) else {
            let (verdict, text) = (RepairVerdict::Valid, Cow::Borrowed(text));
            return RepairedJson { verdict, text, changes: Vec::new(), closed: None };
        };
        let (changes, is_truncated) = match self.parse(text, sound, 0) {
            Ok(found) => found,
            Err((why, at)) => return RepairedJson::hopeless(why, at),
        };
        if let Some(change) = changes.iter().find(|change| !self.allows(change.kind)) {
            return RepairedJson::hopeless(HopelessReason::Forbidden(change.kind), change.at);
        }
        let mended = apply(text, &changes);
        if !strict::is_valid(&mended) {
            debug_assert!(false, "the changes do not give JSON: {text:?} became {mended:?}");
            return RepairedJson::hopeless(HopelessReason::NoJson, 0);
        }
        let (verdict, text, closed) = match (is_truncated, self.closes) {
            (false, _) => (RepairVerdict::Repaired, mended, None),
            (true, true) => (RepairVerdict::Incomplete, mended, None),
            (true, false) => (RepairVerdict::Incomplete, String::new(), Some(mended)),
        };
        RepairedJson { verdict, text: Cow::Owned(text), changes, closed }
    }

    fn allows(&self, kind: RepairChangeKind) -> bool {
        let is_around = matches!(kind, RepairChangeKind::Prose | RepairChangeKind::Fence);
        kind.class() <= self.allowed && (self.searches_prose || !is_around)
    }

    /// The changes that repair `text`, which is beyond doubt up to `sound`, and whether it was truncated.
    fn parse(
        &self,
        text: &str,
        sound: usize,
        level: u8,
    ) -> Result<(Vec<RepairChange>, bool), (HopelessReason, usize)> {
        match wide::narrow(text, sound) {
            Some(narrowed) => {
                let found = self.parse_narrow(&narrowed.text, sound, level);
                let (changes, is_truncated) = found.map_err(|(why, at)| (why, narrowed.place(at)))?;
                Ok((narrowed.compose(changes), is_truncated))
            }
            None => self.parse_narrow(text, sound, level),
        }
    }

    /// The same for a text without full-width signs between its tokens.
    fn parse_narrow(
        &self,
        text: &str,
        sound: usize,
        level: u8,
    ) -> Result<(Vec<RepairChange>, bool), (HopelessReason, usize)> {
        match RepairParser::new(text, *self, sound, level).document() {
            Ok(found) => Ok(found),
            Err(ParseStop::Hopeless(why, at)) => Err((why, at)),
            Err(ParseStop::Encoded) => {
                let decoded = encoded::decode(text);
                let found = self.parse(&decoded.text, 0, level + 1);
                let (changes, is_truncated) = found.map_err(|(why, at)| (why, decoded.place(at)))?;
                Ok((decoded.compose(changes), is_truncated))
            }
        }
    }
}

/// The outcome of repairing a text. See the [module](self).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairedJson<'a> {
    /// The verdict on the document.
    pub verdict: RepairVerdict,
    /// Valid JSON: the input itself if it was valid, else the repaired text. Empty if the verdict is
    /// [`RepairVerdict::Hopeless`], or [`RepairVerdict::Incomplete`] and closing was not asked for.
    pub text: Cow<'a, str>,
    /// The changes, in the order of the input. [`apply`] replays them.
    pub changes: Vec<RepairChange>,
    closed: Option<String>,
}

impl RepairedJson<'_> {
    /// The JSON text, with a truncated document closed where it ends. `None` if hopeless.
    pub fn closed(&self) -> Option<&str> {
        match self.verdict {
            RepairVerdict::Valid | RepairVerdict::Repaired => Some(&self.text),
            RepairVerdict::Incomplete => Some(self.closed.as_deref().unwrap_or(&self.text)),
            RepairVerdict::Hopeless { .. } => None,
        }
    }

    /// The boldest class of all changes, if there are any.
    pub fn class(&self) -> Option<ChangeClass> {
        self.changes.iter().map(|change| change.kind.class()).max()
    }

    fn hopeless(why: HopelessReason, at: usize) -> Self {
        Self {
            verdict: RepairVerdict::Hopeless { why, at },
            text: Cow::Borrowed(""),
            changes: Vec::new(),
            closed: None,
        }
    }
}

/// The verdict on a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RepairVerdict {
    /// It is valid and untouched.
    Valid,
    /// It was complete, but had to be changed.
    Repaired,
    /// It was truncated: it may be closed on request, but something is missing.
    Incomplete,
    /// No document can be recovered.
    Hopeless {
        /// The reason.
        why: HopelessReason,
        /// The byte of the input at which that was noticed.
        at: usize,
    },
}

/// The reason why a text is hopeless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HopelessReason {
    /// There is nothing but white space.
    Empty,
    /// There is text, but none that could be meant as JSON.
    NoJson,
    /// A `\u` escape does not identify a character.
    DamagedEscape,
    /// A value is in an object without a key.
    NoKey,
    /// The document is nested too deeply to be repaired.
    TooDeep,
    /// The repair needs a change of a class that the options forbid.
    Forbidden(RepairChangeKind),
}

impl std::fmt::Display for HopelessReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Empty => f.write_str("the text is empty"),
            Self::NoJson => f.write_str("the text has no JSON in it"),
            Self::DamagedEscape => f.write_str("a unicode escape is damaged"),
            Self::NoKey => f.write_str("a value in an object has no key"),
            Self::TooDeep => f.write_str("the document is nested too deeply"),
            Self::Forbidden(kind) => write!(f, "it takes a forbidden change: {}", kind.label()),
        }
    }
}

/// One difference of the text from the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct RepairChange {
    /// The byte of the input at which it begins.
    pub at: usize,
    /// The byte of the input before which it ends; equal to `at` where text was only added.
    pub end: usize,
    /// The text that replaces it.
    pub replacement: &'static str,
    /// The kind of change.
    pub kind: RepairChangeKind,
}

/// The risk of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChangeClass {
    /// The same data in another notation: quotes, commas, comments, fences, literals.
    Lossless,
    /// The structure was completed or repaired: brackets, colons, several documents.
    Structural,
    /// A part had to be guessed: quotes inside strings, forgotten quotes, left-out junk.
    Guess,
}

macro_rules! change_kinds {
    ($($(#[doc = $doc:literal])+ $kind:ident $class:ident $label:literal,)+) => {
        /// The kind of a [`RepairChange`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum RepairChangeKind {
            $($(#[doc = $doc])+ $kind,)+
        }

        impl RepairChangeKind {
            /// The class of the change.
            pub fn class(self) -> ChangeClass {
                match self {
                    $(Self::$kind => ChangeClass::$class,)+
                }
            }

            /// Its name in words.
            pub fn label(self) -> &'static str {
                match self {
                    $(Self::$kind => $label,)+
                }
            }
        }
    };
}

change_kinds! {
    /// A quote of another kind was replaced, or quotes were put around a key.
    Quote Lossless "quote",
    /// A character in a string was escaped, or an escape that JSON does not have was rewritten.
    Escape Lossless "escape",
    /// A comma, or a semicolon in its place, was added or removed.
    Comma Lossless "comma",
    /// A comment was removed.
    Comment Lossless "comment",
    /// White space that JSON does not know was replaced.
    Space Lossless "white space",
    /// A literal of another language was replaced (`True`, `None`, `undefined`, `NaN`).
    Literal Lossless "literal",
    /// A number was rewritten as JSON writes it (`+1`, `.5`, `1_000`, `2.`).
    Number Lossless "number",
    /// A mark of a fenced block was removed.
    Fence Lossless "fence",
    /// A special token of the model, such as `<|call|>`, was removed.
    Token Lossless "special token",
    /// A function call around a value was removed (JSONP, `ObjectId("…")`).
    Call Lossless "call",
    /// Pieces of a string were joined.
    Concatenation Lossless "concatenation",
    /// One level of escaping of the whole document was taken off.
    Encoding Lossless "encoding",
    /// An ellipsis that stands for left-out items was removed.
    Ellipsis Lossless "ellipsis",
    /// A missing colon was added, or another separator became one.
    Colon Structural "colon",
    /// A missing bracket was added.
    Closer Structural "missing bracket",
    /// A bracket too many was removed, or a wrong one replaced.
    Stray Structural "stray bracket",
    /// Parentheses or the braces of a set became an array.
    Sequence Structural "sequence",
    /// Several documents became an array.
    List Structural "several documents",
    /// Doubled braces became single ones.
    Braces Structural "doubled braces",
    /// An object or array that had ended too early continues.
    Reopened Structural "ended too early",
    /// Braces were put around members that stood without.
    Object Structural "missing braces",
    /// Text around the document was removed.
    Prose Structural "prose",
    /// A quote inside a string was escaped.
    InnerQuote Guess "inner quote",
    /// A missing quote was added at the end of a string.
    EndQuote Guess "missing quote",
    /// Doubled quotes became single ones.
    DoubledQuote Guess "doubled quotes",
    /// Text without quotes became a string.
    Text Guess "unquoted text",
    /// A missing value became `null`, or a sign without digits a zero.
    Missing Guess "missing value",
    /// Text that belongs to no value was removed.
    Junk Guess "junk",
    /// Half a surrogate pair was replaced.
    Surrogate Guess "lone surrogate",
    /// A value truncated in the middle was completed or left out.
    Cut Guess "cut off",
}

/// Replays `changes`, which are in the order of the input, over `input`.
pub fn apply(input: &str, changes: &[RepairChange]) -> String {
    let mut out = Vec::with_capacity(input.len() + changes.len());
    let mut done = 0;
    for change in changes {
        if change.at > done {
            out.extend_from_slice(&input.as_bytes()[done..change.at]);
        }
        // Most replacements are one byte, which is quicker to push than to copy.
        match change.replacement.as_bytes() {
            [] => {}
            &[byte] => out.push(byte),
            bytes => out.extend_from_slice(bytes),
        }
        done = done.max(change.end);
    }
    out.extend_from_slice(&input.as_bytes()[done..]);
    String::from_utf8(out).expect("changes begin and end between characters")
}
