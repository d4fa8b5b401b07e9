//! How calls are written between markers: readers that turn text into tokens.
//!
//! A reader is handed the text that has not been taken yet and returns one [`BodyToken`] at a time. It never looks
//! back: all that it must remember is in its state, so that text may come in pieces of any size. It does not know
//! whether its tokens are shown at once or kept until the call is certain; that is up to the engine.

mod children;
mod header;
pub(super) mod json;
pub(super) mod literal;
mod matched;
mod python;
mod tagged;
pub(super) mod tags;
pub(super) mod typed;
pub(super) mod value;

use super::markers::{MarkerMatch, MarkerSet};
use super::matcher::CallMatcher;
use super::spec::{CallBody, CallForm};
use super::table;
use super::tools::Tools;
use crate::event::BlockCompletion;
use crate::json::escape_into;

/// The token that a reader found at the start of the text it was handed. Numbers count bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyToken {
    /// Too little text to say anything. Never returned when no more will come.
    More,
    /// Syntax.
    Markup(usize),
    /// The tool's name; it is in [`BodyContext::name`], and an id that came with it in [`BodyContext::id`].
    Name(usize),
    /// The call's id; it is in [`BodyContext::id`].
    Id(usize),
    /// Argument text, as it stands.
    Argument(usize),
    /// Argument text made from these bytes; it is in [`BodyContext::scratch`].
    Converted(usize),
    /// These bytes say that there are no arguments, or nothing does.
    NoArguments(usize),
    /// The call is over.
    End(BlockCompletion),
    /// The body is over.
    Done,
    /// The body says that there are no calls; it is this long.
    Empty(usize),
    /// Something is not as it should be; reading goes on.
    Odd(&'static str),
    /// This is no call, or cannot be read further.
    Fail,
}

impl BodyToken {
    /// How many bytes it accounts for.
    pub(super) fn len(self) -> usize {
        match self {
            Self::Markup(len) | Self::Name(len) | Self::Id(len) | Self::Empty(len) => len,
            Self::Argument(len) | Self::Converted(len) | Self::NoArguments(len) => len,
            Self::More | Self::End(_) | Self::Done | Self::Odd(_) | Self::Fail => 0,
        }
    }
}

/// The state that readers share and fill.
pub(super) struct BodyContext<'c> {
    pub(super) form: &'c CompiledForm,
    pub(super) tools: &'c Tools,
    pub(super) name: &'c mut String,
    pub(super) id: &'c mut String,
    pub(super) scratch: &'c mut String,
    /// The complaint to report about a matcher that failed.
    pub(super) complaint: &'c mut Option<String>,
    /// How often the rest of the text was looked through for the end of a value.
    pub(super) looks: &'c mut u32,
    /// Whether no more text will come.
    pub(super) is_last: bool,
    /// Whether the end of a value, and so of the call, is in doubt: a later call may be a part of it.
    pub(super) in_doubt: &'c mut bool,
    /// Whether the call is not quite written as its grammar has it, and was read nevertheless.
    pub(super) is_repaired: &'c mut bool,
    /// How the call ended, once a reader says so: that is emitted after the token it returns.
    pub(super) ended: Option<BlockCompletion>,
}

impl BodyContext<'_> {
    /// Argument text made from `len` bytes.
    pub(super) fn made(&mut self, len: usize, text: &str) -> BodyToken {
        self.scratch.clear();
        self.scratch.push_str(text);
        BodyToken::Converted(len)
    }

    /// A piece of a string, as it stands where JSON writes it the same.
    #[inline]
    pub(super) fn string(&mut self, piece: &str) -> BodyToken {
        if piece.bytes().all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\') {
            return BodyToken::Argument(piece.len());
        }
        self.scratch.clear();
        escape_into(piece, self.scratch);
        BodyToken::Converted(piece.len())
    }

    /// The key of a member of the arguments, made from `len` bytes.
    pub(super) fn key(&mut self, len: usize, is_first: bool, key: &str) -> BodyToken {
        self.scratch.clear();
        self.scratch.push_str(if is_first { "{\"" } else { ", \"" });
        escape_into(key, self.scratch);
        self.scratch.push_str("\": ");
        BodyToken::Converted(len)
    }

    /// The tool's name, read from `len` bytes.
    pub(super) fn named(&mut self, len: usize, name: &str) -> BodyToken {
        self.name.clear();
        self.name.push_str(name);
        BodyToken::Name(len)
    }

    /// Whether a name may be written like this.
    pub(super) fn may_name(&self, name: &str) -> bool {
        !name.is_empty()
            && !name.contains(['\n', '{', '}', '<', '>', '"'])
            && (!name.contains(' ') || self.tools.contains(name))
    }

    /// Returns that more text is needed, or `token` where none will come.
    pub(super) fn more_or(&self, token: BodyToken) -> BodyToken {
        if self.is_last { token } else { BodyToken::More }
    }
}

/// A form with its markers made ready for searching.
#[derive(Debug)]
pub(super) struct CompiledForm {
    pub(super) form: CallForm,
    /// Which of the plan's dialects it belongs to.
    pub(super) dialect: usize,
    pub(super) closers: MarkerSet<()>,
    /// The markers that may stand before a name, that end it, and that may follow it (an id, if true).
    pub(super) before: MarkerSet<()>,
    pub(super) ends: MarkerSet<()>,
    follows: MarkerSet<bool>,
    /// The tags of a tagged body.
    frame: Option<tagged::TagMarkers>,
    /// Bytes that are data inside a string of the body, and read the same in JSON.
    plain: Box<[bool; 256]>,
}

impl CompiledForm {
    pub(super) fn new(form: CallForm, dialect: usize) -> Self {
        let closers = MarkerSet::new().with(&form.close, ());
        let (mut before, mut ends, mut follows) = (MarkerSet::new(), closers.clone(), MarkerSet::new());
        match &form.body {
            CallBody::Header(body) => {
                before.add_all(&body.before, ());
                for text in body.id.iter().chain(&body.after) {
                    ends.add(text, ());
                    follows.add(text, body.id.as_ref() == Some(text));
                }
                ends.add("{", ());
            }
            CallBody::Braces(body) => {
                before.add_all(&body.before, ());
                ends.add_all(["{", "("], ());
            }
            _ => {}
        }
        let frame = match &form.body {
            CallBody::Tagged(body) => Some(tagged::TagMarkers::new(&form, body)),
            _ => None,
        };
        let ends_string = |byte: u8| match &form.body {
            CallBody::Json(_) | CallBody::Header(_) => closers.is_first(byte),
            CallBody::Matched(_) | CallBody::Children(_) => false,
            CallBody::Tagged(body) => {
                frame.as_ref().is_some_and(|frame| frame.inside.is_first(byte))
                    || body.entities && byte == b'&'
            }
            CallBody::Python {} => byte == b'\'',
            CallBody::Braces(body) => {
                matches!(byte, b'\'' | b'}') || body.quote.as_bytes().first() == Some(&byte)
            }
            CallBody::Elements(body) => body.prefix.as_bytes().first() == Some(&byte),
            CallBody::Fields(_) => byte == b'<',
        };
        let mut plain = Box::new([false; 256]);
        for byte in b' '..=u8::MAX {
            plain[usize::from(byte)] = !matches!(byte, b'"' | b'\\') && !ends_string(byte);
        }
        Self { form, dialect, closers, before, ends, follows, frame, plain }
    }

    /// The matcher of a form that has no markers: it is to be given the complete text.
    pub(super) fn whole_text_matcher(&self) -> Option<&CallMatcher> {
        match &self.form.body {
            CallBody::Matched(matcher) if self.form.open.is_empty() => Some(matcher),
            _ => None,
        }
    }

    /// Whether the body itself is the only sign of a call.
    pub(super) fn is_bare(&self) -> bool {
        self.form.open.is_empty() && matches!(self.form.body, CallBody::Json(_) | CallBody::Python {})
    }

    /// Whether closing brackets at the start of `text`, and the form's closer after them, end the call: the text
    /// ends there, or the next call begins. `None`: more text is needed.
    pub(super) fn is_closed_by(&self, text: &str, is_last: bool) -> Option<bool> {
        let rest = text.trim_start_matches(['}', ']', ')', '\n', ' ']);
        let after = match self.closers.starting(rest, is_last) {
            MarkerMatch::Marker { len, .. } => rest[len..].trim_ascii_start(),
            MarkerMatch::Perhaps(_) => return None,
            MarkerMatch::Nothing if rest.is_empty() && !is_last => return None,
            MarkerMatch::Nothing => return Some(false),
        };
        let opens = |open: &String| after.starts_with(open.as_str());
        let may_open = |open: &String| open.starts_with(after);
        match after.is_empty() {
            true if is_last => Some(true),
            true => None,
            false if self.form.open.iter().any(opens) => Some(true),
            false if !is_last && self.form.open.iter().any(may_open) => None,
            false => Some(false),
        }
    }

    /// Whether it may as well stand in prose: without a marker, or in a fence.
    pub(super) fn may_be_quoted(&self) -> bool {
        self.is_bare() || self.form.open.iter().any(|open| open.starts_with("```"))
    }
}

/// A reader of any body.
#[derive(Clone, Debug)]
pub(super) struct BodyReader {
    kind: BodyReaderKind,
    /// How the call ended, if that was not emitted yet.
    pub(super) ended: Option<BlockCompletion>,
}

macro_rules! readers {
    ($($kind:ident: $reader:ty),* $(,)?) => {
        #[derive(Clone, Debug)]
        enum BodyReaderKind {
            $($kind($reader),)*
        }

        impl BodyReaderKind {
            fn new(body: &CallBody) -> Self {
                match body {
                    $(CallBody::$kind { .. } => Self::$kind(<$reader>::default()),)*
                }
            }

            #[inline(always)]
            fn is_in_string(&self) -> bool {
                match self {
                    $(Self::$kind(reader) => reader.is_in_string(),)*
                }
            }

            #[inline]
            fn next(&mut self, text: &str, context: &mut BodyContext<'_>) -> BodyToken {
                match self {
                    $(Self::$kind(reader) => reader.next(text, context),)*
                }
            }
        }
    };
}

readers! {
    Json: json::JsonCallReader,
    Header: header::HeaderReader,
    Tagged: tagged::TaggedReader,
    Python: python::PythonReader,
    Braces: table::gemma4::braces::BracesReader,
    Elements: table::minimax_m3::elements::ElementsReader,
    Fields: table::use_tool::fields::FieldsReader,
    Children: children::ChildrenReader,
    Matched: matched::MatchedReader,
}

/// A reader of the arguments of a call whose name is known.
impl Default for BodyReader {
    fn default() -> Self {
        Self { kind: BodyReaderKind::Header(header::HeaderReader::of_arguments()), ended: None }
    }
}

impl BodyReader {
    pub(super) fn new(form: &CallForm) -> Self {
        Self { kind: BodyReaderKind::new(&form.body), ended: None }
    }

    /// A reader of a call behind the form's opener.
    pub(super) fn behind_opener(form: &CallForm) -> Self {
        match &form.body {
            CallBody::Tagged(_) => {
                Self { kind: BodyReaderKind::Tagged(tagged::TaggedReader::wrapped()), ended: None }
            }
            _ => Self::new(form),
        }
    }

    /// A reader of a body that begins with the marker it was found by.
    pub(super) fn of_body(form: &CallForm) -> Self {
        match &form.body {
            CallBody::Json(_) => {
                Self { kind: BodyReaderKind::Json(json::JsonCallReader::unmarked()), ended: None }
            }
            _ => Self::new(form),
        }
    }

    /// A reader of a call that begins with its name.
    pub(super) fn of_name(form: &CallForm) -> Self {
        match &form.body {
            CallBody::Tagged(_) => {
                Self { kind: BodyReaderKind::Tagged(tagged::TaggedReader::of_name()), ended: None }
            }
            _ => Self::new(form),
        }
    }

    /// Whether a tag of its own holds every parameter.
    pub(super) fn is_tagged(&self) -> bool {
        matches!(self.kind, BodyReaderKind::Tagged(_))
    }

    /// Whether it stands inside a string, so that it has nothing to say before more text comes.
    #[inline]
    pub(super) fn is_in_string(&self) -> bool {
        self.kind.is_in_string()
    }

    /// Takes a `text` that is argument text as it stands, if it is: the common case of a long
    /// string, for which nothing but its bytes has to be looked at.
    #[inline]
    pub(super) fn takes_as_is(&mut self, text: &str, form: &CompiledForm) -> bool {
        let takes = self.is_in_string() && text.bytes().all(|byte| form.plain[usize::from(byte)]);
        if takes && let BodyReaderKind::Tagged(reader) = &mut self.kind {
            reader.leave_line_start();
        }
        takes
    }

    #[inline]
    pub(super) fn next(&mut self, text: &str, context: &mut BodyContext<'_>) -> BodyToken {
        if let Some(completion) = self.ended.take() {
            return BodyToken::End(completion);
        }
        let token = self.kind.next(text, context);
        self.ended = context.ended.take();
        token
    }
}

/// As much of `text` as can hold something that begins within `limit` bytes, and its end marker.
pub(super) fn head(text: &str, limit: usize) -> &str {
    const LONGEST_MARKER: usize = 64;
    &text[..boundary(text, limit + LONGEST_MARKER)]
}

/// The last boundary between characters that is not after `at`.
pub(super) fn boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

/// How many bytes of JSON white space `text` begins with.
pub(super) fn leading_space(text: &str) -> usize {
    text.bytes().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count()
}

/// Returns the length of the quoted string at the start of `text`, both quotes included, once it is complete. `seen`
/// remembers how far an earlier try came.
fn quoted_len(text: &str, seen: &mut usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let quote = *bytes.first()?;
    let mut at = (*seen).max(1);
    while let Some(found) = memchr::memchr2(quote, b'\\', bytes.get(at..)?) {
        at += found;
        if bytes[at] == quote {
            *seen = 0;
            return Some(at + 1);
        }
        if at + 1 >= bytes.len() {
            *seen = at;
            return None;
        }
        at += 2;
    }
    *seen = bytes.len();
    None
}

/// Returns the length of a code fence at the start of `text` (with its language and line break), if one stands there.
/// `None`: more text is needed.
fn fence_len(text: &str, is_last: bool) -> Option<usize> {
    const FENCE: &str = "```";
    if !text.starts_with(FENCE) {
        let may_become = !is_last && !text.is_empty() && FENCE.starts_with(text);
        return if may_become { None } else { Some(0) };
    }
    let word = text[FENCE.len()..].bytes().take_while(u8::is_ascii_alphanumeric).count();
    let len = FENCE.len() + word;
    if len == text.len() && !is_last { None } else { Some(len) }
}
