//! Calls as JSON objects: one, several in a list, or nested the way APIs write them.

use super::super::markers::Found;
use super::super::spec::{Body, Json};
use super::super::table;
use super::super::tools::Tools;
use super::literal::{Literal, Syntax};
use super::value::{Progress, Value};
use super::{Context, Token, fence_len, leading_space, quoted_len};
use crate::event::Completion;
use crate::json::{Str, Surrogate};

/// Reads one JSON value that holds calls.
#[derive(Clone, Debug, Default)]
pub(in crate::dialect) struct Reader {
    at: At,
    stack: Vec<Level>,
    value: Value,
    surrogate: Surrogate,
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
    literal: Option<Literal>,
    /// Whether no marker stands before it, so that the first key that no call has decides.
    is_unmarked: bool,
    /// Whether a line break came before the call.
    begins_line: bool,
    /// Whether nothing of the object was read but its brace.
    is_fresh: bool,
}

/// Words before a call, between its markers, are not longer than this, nor are comments longer than that.
const LONGEST_LEAD: usize = 120;
/// Nor than this, where they do not stand on lines of their own.
const LONGEST_LEAD_OF_LINE: usize = 32;
const LONGEST_COMMENT: usize = 1 << 12;

/// Quotes that text processors make of straight ones.
const CURLY: [char; 9] = ['“', '”', '„', '‟', '‘', '’', '«', '»', '＂'];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    #[default]
    Start,
    Element,
    Key,
    Colon(Role),
    Value(Role),
    Skip,
    Argument,
    /// Inside arguments that are written as a string.
    Quoted,
    /// Inside arguments that are written as Python writes them.
    Literal,
    /// After the last bracket.
    Done,
}

/// What a key says about its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
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
enum Level {
    List,
    /// An object that is a call of its own; how many calls had ended before it.
    Call(usize),
    /// An object that is part of the call around it.
    Part,
}

impl Reader {
    /// A reader of a value that no marker stands before.
    pub(super) fn unmarked() -> Self {
        Self { is_unmarked: true, ..Self::default() }
    }

    #[inline]
    pub(in crate::dialect) fn is_in_string(&self) -> bool {
        self.at == At::Argument && self.value.is_in_string()
    }

    pub(super) fn next(&mut self, text: &str, context: &mut Context<'_>) -> Token {
        let Body::Json(body) = &context.form.form.body else { return Token::Fail };
        self.next_in(body, text, context)
    }

    /// Reads on, with the keys of `body`.
    pub(in crate::dialect) fn next_in(
        &mut self,
        body: &Json,
        text: &str,
        context: &mut Context<'_>,
    ) -> Token {
        match self.at {
            At::Argument => return self.argument(text, context),
            At::Quoted => return self.quoted(text, context),
            At::Literal => return self.literal(text, context),
            At::Skip => return self.skip(text, context),
            At::Done => return Token::Done,
            _ => {}
        }
        let space = leading_space(text);
        if space > 0 {
            self.begins_line |= text[..space].contains('\n');
            return Token::Markup(space);
        }
        let Some(&byte) = text.as_bytes().first() else {
            return self.cut_or_more(context);
        };
        match (self.at, byte) {
            (At::Start | At::Element | At::Key | At::Colon(_) | At::Value(_), b'/' | b'#') => {
                match comment_len(text, context.is_last) {
                    Some(0) => Token::Fail,
                    Some(len) => Token::Markup(len),
                    None => Token::More,
                }
            }
            // A brace twice, as templates have it.
            (At::Key, b'{') if self.is_fresh => {
                self.is_fresh = false;
                self.stack.push(Level::Part);
                Token::Markup(1)
            }
            (At::Start | At::Element, b'a'..=b'z' | b'A'..=b'Z' | 0x80..) if !self.is_unmarked => {
                match lead_len(text, self.begins_line, context.is_last) {
                    Some(0) => Token::Fail,
                    Some(len) => Token::Markup(len),
                    None => Token::More,
                }
            }
            (At::Element, b'`') => match fence_len(text, context.is_last) {
                Some(0) => Token::Fail,
                Some(len) => Token::Markup(len),
                None => Token::More,
            },
            (At::Start, b'`') if !self.has_fence => match fence_len(text, context.is_last) {
                Some(0) => Token::Fail,
                Some(len) => {
                    self.has_fence = true;
                    Token::Markup(len)
                }
                None => Token::More,
            },
            (At::Start | At::Element, b'{') => self.open_call(),
            (At::Start, b'[') => self.open_list(),
            (At::Element, b',') => Token::Markup(1),
            (At::Element, b']') => {
                let is_empty = self.stack.len() == 1 && !self.has_elements;
                self.stack.pop();
                self.settle();
                if is_empty { Token::Empty(1) } else { Token::Markup(1) }
            }
            (At::Key, b',') => Token::Markup(1),
            (At::Key, b'}') => self.close(body, context),
            (At::Key, b'"' | b'\'') => self.key(text, body, context),
            (At::Key, _) if text.starts_with(CURLY) => self.key(text, body, context),
            (At::Key, b'a'..=b'z' | b'A'..=b'Z' | b'_') => self.key(text, body, context),
            (At::Colon(role), b':' | b'=') => {
                self.at = At::Value(role);
                Token::Markup(1)
            }
            // A colon too few.
            (At::Colon(role), b'"' | b'\'' | b'{' | b'[') => {
                self.at = At::Value(role);
                Token::Markup(0)
            }
            (At::Value(role), _) => self.begin_value(role, byte, text, context),
            // The form's closer, before the last bracket.
            (At::Key | At::Element, _) => match context.form.closers.starting(text, context.is_last) {
                Found::Perhaps(_) => Token::More,
                Found::Marker { .. } if self.has_name && self.has_arguments => {
                    (self.at, self.has_name) = (At::Done, false);
                    context.ended = Some(Completion::Whole);
                    Token::Odd("a closing bracket is missing")
                }
                Found::Marker { .. } | Found::Nothing => Token::Fail,
            },
            _ => Token::Fail,
        }
    }

    fn open_call(&mut self) -> Token {
        self.has_elements = true;
        self.stack.push(Level::Call(self.calls));
        self.has_name = false;
        self.has_arguments = false;
        self.has_others = false;
        self.is_flat = false;
        self.is_fresh = true;
        self.at = At::Key;
        Token::Markup(1)
    }

    fn open_list(&mut self) -> Token {
        self.stack.push(Level::List);
        self.at = At::Element;
        Token::Markup(1)
    }

    fn key(&mut self, text: &str, body: &Json, context: &mut Context<'_>) -> Token {
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
        let key = if has_sign { signless } else { key };
        if text.starts_with('\'') && self.literal.is_none() {
            self.literal = Some(Literal::value());
        }
        let is_call = matches!(self.stack.last(), Some(Level::Call(_)));
        let is_name = body.name.is_empty() || !self.has_arguments && context.tools.contains(key);
        if is_name && is_call && !self.has_name {
            self.has_name = true;
            self.at = At::Colon(Role::Arguments);
            let key = key.to_owned();
            return context.named(len, &key);
        }
        let is = |keys: &[String]| keys.iter().any(|other| other == key);
        let role = match key {
            _ if is(&body.name) => Role::Name,
            _ if is(&body.arguments) => Role::Arguments,
            _ if is(&body.id) => Role::Id,
            "function" => Role::Function,
            "tool_calls" | "tool_call" | "function_call" => Role::Calls,
            _ if is_call && self.is_parameter(key, context.tools, context.name) => Role::Parameter,
            // As the agents of frameworks write it.
            "action" if !self.has_name => Role::Name,
            "action_input" => Role::Arguments,
            _ => Role::Other,
        };
        if role == Role::Parameter {
            self.parameter.clear();
            self.parameter.push_str(key);
        }
        self.has_others |= role == Role::Other && key != "type";
        if self.has_others && self.is_unmarked && self.calls == 0 && !self.has_arguments {
            return Token::Fail;
        }
        // The description of a tool, of which a schema follows.
        if role == Role::Other && !self.has_arguments && table::DECLARING.contains(&key) {
            return Token::Fail;
        }
        self.at = if has_sign { At::Value(role) } else { At::Colon(role) };
        Token::Markup(len)
    }

    /// Whether `key` is a parameter that the declared tool has, where no arguments were read before.
    fn is_parameter(&self, key: &str, tools: &Tools, name: &str) -> bool {
        self.has_name && (self.is_flat || !self.has_arguments) && tools.declares(name, key) == Some(true)
    }

    fn begin_value(&mut self, role: Role, byte: u8, text: &str, context: &mut Context<'_>) -> Token {
        match (role, byte) {
            (Role::Name | Role::Function, _)
                if !self.has_name && (matches!(byte, b'"' | b'\'') || text.starts_with(CURLY)) =>
            {
                let Some((len, quote)) = string_len(text, &mut self.seen) else {
                    return self.cut_or_more(context);
                };
                context.name.clear();
                let mut surrogate = Surrogate::default();
                Str::Escaped(inside(text, len, quote)).decode_into(context.name, &mut surrogate);
                surrogate.flush_into(context.name);
                self.has_name = true;
                self.settle();
                Token::Name(len)
            }
            // A declared name without its quotes, or without the first of them.
            (Role::Name, b'a'..=b'z' | b'A'..=b'Z' | b'_') if !self.has_name => {
                let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.-".contains(byte);
                let len = text.bytes().take_while(|byte| is_name(byte)).count();
                let Some(next) = text.as_bytes().get(len) else { return self.cut_or_more(context) };
                if !context.tools.contains(&text[..len]) {
                    return Token::Fail;
                }
                self.has_name = true;
                self.settle();
                let name = text[..len].to_owned();
                context.named(len + usize::from(*next == b'"'), &name)
            }
            (Role::Name, _) if !self.has_name => Token::Fail,
            (Role::Function | Role::Name, b'{') if role == Role::Function => {
                self.stack.push(Level::Part);
                self.at = At::Key;
                Token::Markup(1)
            }
            (Role::Calls, b'[') if !self.has_name => self.open_list(),
            (Role::Calls, b'{') if !self.has_name => self.open_call(),
            (Role::Id, b'"' | b'\'') => {
                let Some(len) = quoted_len(text, &mut self.seen) else {
                    return self.cut_or_more(context);
                };
                context.id.clear();
                context.id.push_str(&text[1..len - 1]);
                self.settle();
                Token::Id(len)
            }
            (Role::Arguments, _) if self.literal.is_some() && !self.has_arguments => {
                self.at = At::Literal;
                self.literal = Some(Literal::value());
                self.literal(text, context)
            }
            (Role::Arguments, b'"' | b'\'') if !self.has_arguments => {
                self.at = At::Quoted;
                self.surrogate = Surrogate::default();
                Token::Markup(1)
            }
            (Role::Parameter, _) => {
                let is_first = !self.is_flat;
                (self.is_flat, self.has_arguments) = (true, true);
                self.value = Value::default();
                self.at = At::Argument;
                context.key(0, is_first, &self.parameter)
            }
            (Role::Arguments, _) if !self.has_arguments => {
                self.at = At::Argument;
                self.value = Value::default();
                self.argument(text, context)
            }
            _ => {
                self.at = At::Skip;
                self.value = Value::default();
                self.skip(text, context)
            }
        }
    }

    #[inline]
    fn argument(&mut self, text: &str, context: &mut Context<'_>) -> Token {
        let (token, progress) = self.value.token(text, context);
        self.has_arguments |= matches!(token, Token::Argument(_));
        match progress {
            Progress::Open | Progress::Odd => {}
            Progress::Complete if context.is_last && text.is_empty() => return self.cut(),
            Progress::Complete => self.settle(),
            Progress::Closed => {
                self.at = At::Done;
                context.ended = Some(Completion::Whole);
            }
            Progress::Cut => return self.cut(),
        }
        token
    }

    /// Passes on the inside of a string that holds the arguments, decoded.
    fn quoted(&mut self, text: &str, context: &mut Context<'_>) -> Token {
        let bytes = text.as_bytes();
        let mut at = 0;
        // Up to the closing quote, or to an escape that is not whole.
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
                return Token::Markup(1);
            }
            (0, None) => return self.cut_or_more(context),
            (0, Some(_)) => return context.more_or(Token::Markup(bytes.len())),
            _ => {
                context.scratch.clear();
                Str::Escaped(&text[..len]).decode_into(context.scratch, &mut self.surrogate);
                self.has_arguments |= !context.scratch.is_empty();
            }
        }
        Token::Converted(len)
    }

    fn literal(&mut self, text: &str, context: &mut Context<'_>) -> Token {
        let Some(literal) = &mut self.literal else { return Token::Fail };
        let (token, ended) = literal.token(text, Syntax::default(), context);
        match ended {
            Some(Completion::Cut) => {
                (self.at, self.has_name) = (At::Done, false);
                context.ended = ended;
            }
            Some(_) => self.settle(),
            None => {}
        }
        self.has_arguments |= matches!(token, Token::Converted(1..));
        token
    }

    fn skip(&mut self, text: &str, context: &mut Context<'_>) -> Token {
        let (token, progress) = self.value.token(text, context);
        match (token, progress) {
            (_, Progress::Odd) => return Token::Fail,
            (_, Progress::Cut) => return self.cut(),
            (_, Progress::Complete) => self.settle(),
            _ => {}
        }
        if let Token::Argument(len) = token { Token::Markup(len) } else { token }
    }

    /// A closing brace.
    fn close(&mut self, body: &Json, context: &mut Context<'_>) -> Token {
        let Some(level) = self.stack.pop() else { return Token::Fail };
        let Level::Call(calls_before) = level else {
            self.settle();
            return Token::Markup(1);
        };
        if self.has_name && self.has_others && !self.has_arguments && !context.form.may_be_quoted() {
            self.has_others = false;
            self.stack.push(level);
            return Token::Odd("a call has members beside its name, and no arguments");
        }
        let is_in_list = self.stack.contains(&Level::List);
        self.settle();
        if !self.has_name {
            // Something else may stand in a list of calls; alone it is no call at all.
            return if self.calls > calls_before || is_in_list { Token::Markup(1) } else { Token::Fail };
        }
        let may_be_quoted = context.form.may_be_quoted();
        if may_be_quoted && !self.has_arguments && (self.has_others || !body.arguments_optional) {
            return Token::Fail;
        }
        self.calls += 1;
        context.ended = Some(Completion::Whole);
        self.has_name = false;
        match self.has_arguments {
            _ if self.is_flat => context.made(1, "}"),
            true => Token::Markup(1),
            false => Token::NoArguments(1),
        }
    }

    /// Goes on in whatever is open now.
    fn settle(&mut self) {
        self.at = match self.stack.last() {
            None => At::Done,
            Some(Level::List) => At::Element,
            Some(_) => At::Key,
        };
    }

    fn cut_or_more(&mut self, context: &Context<'_>) -> Token {
        if context.is_last { self.cut() } else { Token::More }
    }

    /// The text ended before the value did. Whether only brackets are missing nobody knows.
    fn cut(&mut self) -> Token {
        self.at = At::Done;
        match std::mem::take(&mut self.has_name) {
            true => Token::End(Completion::Cut),
            false => Token::Done,
        }
    }
}

/// The length of the string at the start of `text`, whatever its quotes are, and that of one of them, once it is whole.
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

/// As much of a text as has at most so many bytes.
fn beginning(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// What stands between the quotes of a string.
fn inside(text: &str, len: usize, quote: usize) -> &str {
    &text[quote..len - quote]
}

/// The length of a comment at the start of `text`, if one stands there. Nothing where more text is needed to tell.
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

/// The length of the words at the start of `text` that announce a value: `Here: {`. Nothing where more text is needed.
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
