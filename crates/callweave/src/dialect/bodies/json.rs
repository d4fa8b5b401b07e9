//! Calls as JSON objects: one, several in a list, or nested the way APIs write them.

use super::super::markers::MarkerMatch;
use super::super::spec::{CallBody, JsonBody};
use super::super::table;
use super::super::tools::Tools;
use super::literal::{LiteralReader, LiteralSyntax};
use super::value::{ValueProgress, ValueReader};
use super::{BodyContext, BodyToken, fence_len, leading_space, quoted_len};
use crate::event::BlockCompletion;
use crate::json::{PendingSurrogate, Str};

/// Reads one JSON value that holds calls.
#[derive(Clone, Debug, Default)]
pub(in crate::dialect) struct JsonCallReader {
    at: JsonCallState,
    stack: Vec<JsonLevel>,
    value: ValueReader,
    surrogate: PendingSurrogate,
    seen: usize,
    has_name: bool,
    has_arguments: bool,
    has_fence: bool,
    has_elements: bool,
    /// How many calls have ended.
    calls: usize,
    /// Whether the object has members that say nothing about a call.
    has_others: bool,
    /// Whether the tool's parameters stand beside its name, each a member of the call.
    is_flat: bool,
    /// The parameter whose value is due.
    parameter: String,
    /// For objects that are written as Python writes them.
    literal: Option<LiteralReader>,
    /// Whether no marker stands before it, so that the first key that no call has decides.
    is_unmarked: bool,
    /// Whether a line break came before the call.
    begins_line: bool,
    /// Whether nothing of the object was read but its brace.
    is_fresh: bool,
    /// The last token between brackets.
    last: LastToken,
    /// Whether the dialect itself has single quotes.
    has_single_quotes: bool,
}

/// The last token between brackets, which says where JSON has a comma.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LastToken {
    #[default]
    Bracket,
    Comma,
    Value,
}

/// The maximum length of the words before a call, between its markers, and that of comments.
const LONGEST_LEAD: usize = 120;
/// The maximum length of such words where they do not stand on lines of their own.
const LONGEST_LEAD_OF_LINE: usize = 32;
const LONGEST_COMMENT: usize = 1 << 12;

/// Quotes that text processors make of straight ones.
const CURLY: [char; 9] = ['“', '”', '„', '‟', '‘', '’', '«', '»', '＂'];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum JsonCallState {
    #[default]
    Start,
    Element,
    Key,
    Colon(KeyRole),
    Value(KeyRole),
    Skip,
    Argument,
    /// Inside arguments that are written as a string.
    Quoted,
    /// Inside arguments that are written as Python writes them.
    Literal,
    /// After the last bracket.
    Done,
}

/// The role of a key, which says how its value is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyRole {
    Name,
    Arguments,
    Id,
    /// The name, or an object that holds name and arguments.
    Function,
    /// A call or a list of calls.
    Calls,
    /// A parameter of the tool.
    Parameter,
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JsonLevel {
    List,
    /// An object that is a call of its own; how many calls had ended before it.
    Call(usize),
    /// An object that is part of the call around it.
    Part,
}

impl JsonCallReader {
    /// A reader of a value that no marker stands before.
    pub(super) fn unmarked() -> Self {
        Self { is_unmarked: true, ..Self::default() }
    }

    #[inline]
    pub(in crate::dialect) fn is_in_string(&self) -> bool {
        self.at == JsonCallState::Argument && self.value.is_in_string()
    }

    pub(super) fn next(&mut self, text: &str, context: &mut BodyContext<'_>) -> BodyToken {
        let CallBody::Json(body) = &context.form.form.body else { return BodyToken::Fail };
        self.next_in(body, text, context)
    }

    /// Reads on, with the keys of `body`.
    pub(in crate::dialect) fn next_in(
        &mut self,
        body: &JsonBody,
        text: &str,
        context: &mut BodyContext<'_>,
    ) -> BodyToken {
        self.has_single_quotes = body.single_quotes;
        match self.at {
            JsonCallState::Argument => return self.argument(text, context),
            JsonCallState::Quoted => return self.quoted(text, context),
            JsonCallState::Literal => return self.literal(text, context),
            JsonCallState::Skip => return self.skip(text, context),
            JsonCallState::Done => return BodyToken::Done,
            _ => {}
        }
        let space = leading_space(text);
        if space > 0 {
            self.begins_line |= text[..space].contains('\n');
            return BodyToken::Markup(space);
        }
        let Some(&byte) = text.as_bytes().first() else {
            return self.cut_or_more(context);
        };
        match (self.at, byte) {
            (
                JsonCallState::Start
                | JsonCallState::Element
                | JsonCallState::Key
                | JsonCallState::Colon(_)
                | JsonCallState::Value(_),
                b'/' | b'#',
            ) => match comment_len(text, context.is_last) {
                Some(0) => BodyToken::Fail,
                Some(len) => {
                    *context.is_repaired = true;
                    BodyToken::Markup(len)
                }
                None => BodyToken::More,
            },
            // A brace twice, as templates have it.
            (JsonCallState::Key, b'{') if self.is_fresh => {
                *context.is_repaired = true;
                self.is_fresh = false;
                self.stack.push(JsonLevel::Part);
                BodyToken::Markup(1)
            }
            (JsonCallState::Start | JsonCallState::Element, b'a'..=b'z' | b'A'..=b'Z' | 0x80..)
                if !self.is_unmarked =>
            {
                match lead_len(text, self.begins_line, context.is_last) {
                    Some(0) => BodyToken::Fail,
                    Some(len) => BodyToken::Markup(len),
                    None => BodyToken::More,
                }
            }
            (JsonCallState::Element, b'`') => match fence_len(text, context.is_last) {
                Some(0) => BodyToken::Fail,
                Some(len) => BodyToken::Markup(len),
                None => BodyToken::More,
            },
            (JsonCallState::Start, b'`') if !self.has_fence => match fence_len(text, context.is_last) {
                Some(0) => BodyToken::Fail,
                Some(len) => {
                    self.has_fence = true;
                    BodyToken::Markup(len)
                }
                None => BodyToken::More,
            },
            (JsonCallState::Start | JsonCallState::Element, b'{') => {
                *context.is_repaired |= self.last == LastToken::Value;
                self.open_call()
            }
            (JsonCallState::Start, b'[') => self.open_list(),
            (JsonCallState::Element | JsonCallState::Key, b',') => {
                *context.is_repaired |= self.last != LastToken::Value;
                self.last = LastToken::Comma;
                BodyToken::Markup(1)
            }
            (JsonCallState::Element, b']') => {
                let is_empty = self.stack.len() == 1 && !self.has_elements;
                self.stack.pop();
                self.settle();
                if is_empty { BodyToken::Empty(1) } else { BodyToken::Markup(1) }
            }
            (JsonCallState::Key, b'}') => {
                *context.is_repaired |= self.last == LastToken::Comma;
                self.close(body, context)
            }
            (JsonCallState::Key, b'"' | b'\'') => self.key(text, body, context),
            (JsonCallState::Key, _) if text.starts_with(CURLY) => self.key(text, body, context),
            (JsonCallState::Key, b'a'..=b'z' | b'A'..=b'Z' | b'_') => self.key(text, body, context),
            (JsonCallState::Colon(role), b':' | b'=') => {
                *context.is_repaired |= byte == b'=';
                self.at = JsonCallState::Value(role);
                BodyToken::Markup(1)
            }
            // A colon too few.
            (JsonCallState::Colon(role), b'"' | b'\'' | b'{' | b'[') => {
                *context.is_repaired = true;
                self.at = JsonCallState::Value(role);
                BodyToken::Markup(0)
            }
            (JsonCallState::Value(role), _) => self.begin_value(role, byte, text, context),
            // The form's closer, before the last bracket.
            (JsonCallState::Key | JsonCallState::Element, _) => {
                match context.form.closers.starting(text, context.is_last) {
                    MarkerMatch::Perhaps(_) => BodyToken::More,
                    MarkerMatch::Marker { .. } if self.has_name && self.has_arguments => {
                        (self.at, self.has_name) = (JsonCallState::Done, false);
                        context.ended = Some(BlockCompletion::Complete);
                        BodyToken::Odd("a closing bracket is missing")
                    }
                    MarkerMatch::Marker { .. } | MarkerMatch::Nothing => BodyToken::Fail,
                }
            }
            _ => BodyToken::Fail,
        }
    }

    /// Whether it is a quote of the dialect.
    fn is_quote(&self, byte: u8) -> bool {
        byte == b'"' || byte == b'\'' && self.has_single_quotes
    }

    fn open_call(&mut self) -> BodyToken {
        self.has_elements = true;
        self.stack.push(JsonLevel::Call(self.calls));
        self.has_name = false;
        self.has_arguments = false;
        self.has_others = false;
        self.is_flat = false;
        self.is_fresh = true;
        self.last = LastToken::Bracket;
        self.at = JsonCallState::Key;
        BodyToken::Markup(1)
    }

    fn open_list(&mut self) -> BodyToken {
        self.last = LastToken::Bracket;
        self.stack.push(JsonLevel::List);
        self.at = JsonCallState::Element;
        BodyToken::Markup(1)
    }

    fn key(&mut self, text: &str, body: &JsonBody, context: &mut BodyContext<'_>) -> BodyToken {
        self.is_fresh = false;
        let is_bare = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let bare = text.bytes().take_while(|byte| is_name(byte)).count();
        let len = if is_bare {
            Some((bare, 0)).filter(|_| bare < text.len())
        } else {
            string_len(text, &mut self.seen)
        };
        let Some((len, quote)) = len else {
            return self.cut_or_more(context);
        };
        let key = match is_bare {
            true => &text[..len],
            false => Str::Escaped(inside(text, len, quote)).decode(context.scratch),
        };
        // `"name="f"`: the sign stands before the quote.
        let signless = key.trim_end_matches(['=', ':']);
        let has_sign = signless.len() < key.len();
        *context.is_repaired |= has_sign
            || !text.bytes().next().is_some_and(|first| self.is_quote(first))
            || self.last == LastToken::Value;
        let key = if has_sign { signless } else { key };
        if text.starts_with('\'') && self.literal.is_none() {
            self.literal = Some(LiteralReader::value());
        }
        let is_call = matches!(self.stack.last(), Some(JsonLevel::Call(_)));
        let is_name = body.name.is_empty() || !self.has_arguments && context.tools.contains(key);
        if is_name && is_call && !self.has_name {
            self.has_name = true;
            self.at = JsonCallState::Colon(KeyRole::Arguments);
            let key = key.to_owned();
            return context.named(len, &key);
        }
        let is = |keys: &[String]| keys.iter().any(|other| other == key);
        let role = match key {
            _ if is(&body.name) => KeyRole::Name,
            _ if is(&body.arguments) => KeyRole::Arguments,
            _ if is(&body.id) => KeyRole::Id,
            "function" => KeyRole::Function,
            "tool_calls" | "tool_call" | "function_call" => KeyRole::Calls,
            _ if is_call && self.is_parameter(key, context.tools, context.name) => KeyRole::Parameter,
            // As the agents of frameworks write it.
            "action" if !self.has_name => KeyRole::Name,
            "action_input" => KeyRole::Arguments,
            _ => KeyRole::Other,
        };
        if role == KeyRole::Parameter {
            self.parameter.clear();
            self.parameter.push_str(key);
        }
        self.has_others |= role == KeyRole::Other && key != "type";
        if self.has_others && self.is_unmarked && self.calls == 0 && !self.has_arguments {
            return BodyToken::Fail;
        }
        // The description of a tool, of which a schema follows.
        if role == KeyRole::Other && !self.has_arguments && table::DECLARING.contains(&key) {
            return BodyToken::Fail;
        }
        self.at = if has_sign { JsonCallState::Value(role) } else { JsonCallState::Colon(role) };
        BodyToken::Markup(len)
    }

    /// Whether `key` is a parameter that the declared tool has, where no arguments were read before.
    fn is_parameter(&self, key: &str, tools: &Tools, name: &str) -> bool {
        self.has_name && (self.is_flat || !self.has_arguments) && tools.declares(name, key) == Some(true)
    }

    fn begin_value(
        &mut self,
        role: KeyRole,
        byte: u8,
        text: &str,
        context: &mut BodyContext<'_>,
    ) -> BodyToken {
        match (role, byte) {
            (KeyRole::Name | KeyRole::Function, _)
                if !self.has_name && (matches!(byte, b'"' | b'\'') || text.starts_with(CURLY)) =>
            {
                let Some((len, quote)) = string_len(text, &mut self.seen) else {
                    return self.cut_or_more(context);
                };
                *context.is_repaired |= !self.is_quote(byte);
                context.name.clear();
                let mut surrogate = PendingSurrogate::default();
                Str::Escaped(inside(text, len, quote)).decode_into(context.name, &mut surrogate);
                surrogate.flush_into(context.name);
                self.has_name = true;
                self.settle();
                BodyToken::Name(len)
            }
            // A declared name without its quotes, or without the first of them.
            (KeyRole::Name, b'a'..=b'z' | b'A'..=b'Z' | b'_') if !self.has_name => {
                let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.-".contains(byte);
                let len = text.bytes().take_while(|byte| is_name(byte)).count();
                let Some(next) = text.as_bytes().get(len) else { return self.cut_or_more(context) };
                if !context.tools.contains(&text[..len]) {
                    return BodyToken::Fail;
                }
                self.has_name = true;
                self.settle();
                let name = text[..len].to_owned();
                *context.is_repaired = true;
                context.named(len + usize::from(*next == b'"'), &name)
            }
            (KeyRole::Name, _) if !self.has_name => BodyToken::Fail,
            (KeyRole::Function | KeyRole::Name, b'{') if role == KeyRole::Function => {
                self.last = LastToken::Bracket;
                self.stack.push(JsonLevel::Part);
                self.at = JsonCallState::Key;
                BodyToken::Markup(1)
            }
            (KeyRole::Calls, b'[') if !self.has_name => self.open_list(),
            (KeyRole::Calls, b'{') if !self.has_name => self.open_call(),
            (KeyRole::Id, b'"' | b'\'') => {
                let Some(len) = quoted_len(text, &mut self.seen) else {
                    return self.cut_or_more(context);
                };
                *context.is_repaired |= !self.is_quote(byte);
                context.id.clear();
                context.id.push_str(&text[1..len - 1]);
                self.settle();
                BodyToken::Id(len)
            }
            (KeyRole::Arguments, _) if self.literal.is_some() && !self.has_arguments => {
                self.at = JsonCallState::Literal;
                self.literal = Some(LiteralReader::value());
                self.literal(text, context)
            }
            (KeyRole::Arguments, b'"' | b'\'') if !self.has_arguments => {
                *context.is_repaired |= !self.is_quote(byte);
                self.at = JsonCallState::Quoted;
                self.surrogate = PendingSurrogate::default();
                BodyToken::Markup(1)
            }
            (KeyRole::Parameter, _) => {
                let is_first = !self.is_flat;
                (self.is_flat, self.has_arguments) = (true, true);
                self.value = ValueReader::default();
                self.at = JsonCallState::Argument;
                context.key(0, is_first, &self.parameter)
            }
            (KeyRole::Arguments, _) if !self.has_arguments => {
                self.at = JsonCallState::Argument;
                self.value = ValueReader::default();
                self.argument(text, context)
            }
            _ => {
                self.at = JsonCallState::Skip;
                self.value = ValueReader::default();
                self.skip(text, context)
            }
        }
    }

    #[inline]
    fn argument(&mut self, text: &str, context: &mut BodyContext<'_>) -> BodyToken {
        let (token, progress) = self.value.token(text, context);
        self.has_arguments |= matches!(token, BodyToken::Argument(_));
        match progress {
            ValueProgress::Open | ValueProgress::Odd => {}
            ValueProgress::Complete if context.is_last && text.is_empty() => return self.cut(),
            ValueProgress::Complete => self.settle(),
            ValueProgress::Closed => {
                self.at = JsonCallState::Done;
                context.ended = Some(BlockCompletion::Complete);
            }
            ValueProgress::Cut => return self.cut(),
        }
        token
    }

    /// Passes on the decoded inside of a string that holds the arguments.
    fn quoted(&mut self, text: &str, context: &mut BodyContext<'_>) -> BodyToken {
        let bytes = text.as_bytes();
        let mut at = 0;
        // Up to the closing quote, or to an incomplete escape.
        let len = loop {
            let Some(found) = memchr::memchr2(b'"', b'\\', &bytes[at..]) else { break bytes.len() };
            at += found;
            let escape = if bytes.get(at + 1) == Some(&b'u') { 6 } else { 2 };
            if bytes[at] == b'"' || !text.is_char_boundary(at + escape) {
                break at;
            }
            at += escape;
        };
        match (len, bytes.first()) {
            (0, Some(b'"')) if self.surrogate.is_pending() => {
                context.scratch.clear();
                self.surrogate.flush_into(context.scratch);
            }
            (0, Some(b'"')) => {
                self.settle();
                return BodyToken::Markup(1);
            }
            (0, None) => return self.cut_or_more(context),
            (0, Some(_)) => return context.more_or(BodyToken::Markup(bytes.len())),
            _ => {
                context.scratch.clear();
                Str::Escaped(&text[..len]).decode_into(context.scratch, &mut self.surrogate);
                self.has_arguments |= !context.scratch.is_empty();
            }
        }
        BodyToken::Converted(len)
    }

    fn literal(&mut self, text: &str, context: &mut BodyContext<'_>) -> BodyToken {
        let Some(literal) = &mut self.literal else { return BodyToken::Fail };
        let (token, ended) = literal.token(text, LiteralSyntax::default(), context);
        match ended {
            Some(BlockCompletion::Truncated) => {
                (self.at, self.has_name) = (JsonCallState::Done, false);
                context.ended = ended;
            }
            Some(_) => self.settle(),
            None => {}
        }
        self.has_arguments |= matches!(token, BodyToken::Converted(1..));
        token
    }

    fn skip(&mut self, text: &str, context: &mut BodyContext<'_>) -> BodyToken {
        let (token, progress) = self.value.token(text, context);
        match (token, progress) {
            (_, ValueProgress::Odd) => return BodyToken::Fail,
            (_, ValueProgress::Cut) => return self.cut(),
            (_, ValueProgress::Complete) => self.settle(),
            _ => {}
        }
        if let BodyToken::Argument(len) = token { BodyToken::Markup(len) } else { token }
    }

    /// A closing brace.
    fn close(&mut self, body: &JsonBody, context: &mut BodyContext<'_>) -> BodyToken {
        let Some(level) = self.stack.pop() else { return BodyToken::Fail };
        let JsonLevel::Call(calls_before) = level else {
            self.settle();
            return BodyToken::Markup(1);
        };
        if self.has_name && self.has_others && !self.has_arguments && !context.form.may_be_quoted() {
            self.has_others = false;
            self.stack.push(level);
            return BodyToken::Odd("a call has members beside its name, and no arguments");
        }
        let is_in_list = self.stack.contains(&JsonLevel::List);
        self.settle();
        if !self.has_name {
            // Something else may stand in a list of calls; alone it is no call at all.
            return if self.calls > calls_before || is_in_list {
                BodyToken::Markup(1)
            } else {
                BodyToken::Fail
            };
        }
        let may_be_quoted = context.form.may_be_quoted();
        if may_be_quoted && !self.has_arguments && (self.has_others || !body.arguments_optional) {
            return BodyToken::Fail;
        }
        self.calls += 1;
        context.ended = Some(BlockCompletion::Complete);
        self.has_name = false;
        match self.has_arguments {
            _ if self.is_flat => context.made(1, "}"),
            true => BodyToken::Markup(1),
            false => BodyToken::NoArguments(1),
        }
    }

    /// Goes on in the container that is open now.
    fn settle(&mut self) {
        self.last = LastToken::Value;
        self.at = match self.stack.last() {
            None => JsonCallState::Done,
            Some(JsonLevel::List) => JsonCallState::Element,
            Some(_) => JsonCallState::Key,
        };
    }

    fn cut_or_more(&mut self, context: &BodyContext<'_>) -> BodyToken {
        if context.is_last { self.cut() } else { BodyToken::More }
    }

    /// Handles a text that ended before the value did. It is unknown whether only brackets are missing.
    fn cut(&mut self) -> BodyToken {
        self.at = JsonCallState::Done;
        match std::mem::take(&mut self.has_name) {
            true => BodyToken::End(BlockCompletion::Truncated),
            false => BodyToken::Done,
        }
    }
}

/// Returns the length of the string at the start of `text`, in any quotes, and that of one quote, once it is complete.
fn string_len(text: &str, seen: &mut usize) -> Option<(usize, usize)> {
    if text.starts_with(['"', '\'']) {
        return Some((quoted_len(text, seen)?, 1));
    }
    let quote = text.chars().next().map_or(0, char::len_utf8);
    let from = (*seen).clamp(quote, text.len());
    let closes = |letter: char| letter.len_utf8() == quote && CURLY.contains(&letter);
    let Some(end) = text[from..].find(closes) else {
        *seen = text.len();
        return None;
    };
    *seen = 0;
    Some((from + end + quote, quote))
}

/// Returns the beginning of a text, with a maximum number of bytes.
fn beginning(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// Returns the text between the quotes of a string.
fn inside(text: &str, len: usize, quote: usize) -> &str {
    &text[quote..len - quote]
}

/// Returns the length of a comment at the start of `text`, if one stands there. `None`: more text is needed.
fn comment_len(text: &str, is_last: bool) -> Option<usize> {
    let near = beginning(text, LONGEST_COMMENT);
    let end = match text.as_bytes().get(1) {
        _ if text.starts_with('#') => near.find('\n'),
        Some(b'/') => near.find('\n'),
        Some(b'*') => near[2..].find("*/").map(|end| end + 4),
        None if !is_last => return None,
        _ => return Some(0),
    };
    match end {
        None if !is_last && text.len() < LONGEST_COMMENT => None,
        end => Some(end.filter(|&end| end < LONGEST_COMMENT).unwrap_or(0)),
    }
}

/// Returns the length of the words at the start of `text` that announce a value: `Here: {`. `None`: more text is
/// needed.
///
/// Words that follow the marker on its line are a part of a sentence about it, unless they are few.
fn lead_len(text: &str, begins_line: bool, is_last: bool) -> Option<usize> {
    let most = if begins_line { LONGEST_LEAD } else { LONGEST_LEAD_OF_LINE };
    let near = beginning(text, most + 1);
    let end = near.find(['{', '[', '<', '"', '}', ']']);
    let Some(end) = end else {
        return if is_last || text.len() > most { Some(0) } else { None };
    };
    let lead = text[..end].trim_ascii_end().to_ascii_lowercase();
    let is_example = ["example", "e.g."].iter().any(|word| lead.contains(word));
    let is_followed = begins_line && text[..end].trim_end_matches([' ', '\t']).ends_with('\n');
    let is_announced = match lead.bytes().next_back() {
        Some(b':') => is_followed || end <= LONGEST_LEAD_OF_LINE,
        Some(b'.' | b'!') => is_followed,
        _ => false,
    };
    let is_lead = text[end..].starts_with(['{', '[']) && is_announced && !is_example;
    Some(if is_lead { end } else { 0 })
}
