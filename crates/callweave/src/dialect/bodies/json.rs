//! Calls as JSON objects: one, several in a list, or nested the way APIs write them.

use super::super::markers::Found;
use super::super::spec::Json;
use super::super::tools::Tools;
use super::literal::{Literal, Syntax};
use super::value::{Progress, Value};
use super::{Context, Token, fence_len, key_into, leading_space, quoted_len};
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
    /// Whether the object has members that say nothing about a call.
    has_others: bool,
    /// Whether the tool's parameters stand beside its name, each a member of the call.
    is_flat: bool,
    /// The parameter whose value is due.
    parameter: String,
    /// Whether the call has ended and nobody was told yet.
    is_over: bool,
    is_cut: bool,
    /// For objects that are written as Python writes them.
    literal: Option<Literal>,
}

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

#[derive(Clone, Copy, Debug)]
struct Level {
    is_list: bool,
    /// Whether this object is a call of its own (and not part of the one around it).
    is_call: bool,
    /// Whether calls were read inside it.
    held_calls: bool,
}

impl Level {
    const LIST: Self = Self { is_list: true, is_call: false, held_calls: false };
    const CALL: Self = Self { is_list: false, is_call: true, held_calls: false };
    const PART: Self = Self { is_list: false, is_call: false, held_calls: false };
}

impl Reader {
    /// See [`super::Reader::is_in_argument`].
    pub(in crate::dialect) fn is_in_argument(&self) -> bool {
        self.at == At::Argument
    }

    #[inline]
    pub(in crate::dialect) fn is_in_string(&self) -> bool {
        self.at == At::Argument && self.value.is_in_string()
    }

    pub(in crate::dialect) fn next(&mut self, text: &str, body: &Json, context: &mut Context<'_>) -> Token {
        if self.is_over {
            self.is_over = false;
            return Token::End(if self.is_cut { Completion::Cut } else { Completion::Whole });
        }
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
            return Token::Markup(space);
        }
        let Some(&byte) = text.as_bytes().first() else {
            return if context.is_last { self.cut() } else { Token::More };
        };
        match (self.at, byte) {
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
            (At::Key, b'a'..=b'z' | b'A'..=b'Z' | b'_') => self.key(text, body, context),
            (At::Colon(role), b':' | b'=') => {
                self.at = At::Value(role);
                Token::Markup(1)
            }
            (At::Value(role), _) => self.begin_value(role, byte, text, context),
            // The form's closer, before the last bracket.
            (At::Key | At::Element, _) => match context.form.closers.starting(text, context.is_last) {
                Found::Perhaps(_) => Token::More,
                Found::Marker { .. } if self.has_name && self.has_arguments => {
                    (self.at, self.is_over, self.has_name) = (At::Done, true, false);
                    Token::Odd("a closing bracket is missing")
                }
                Found::Marker { .. } | Found::Nothing => Token::Fail,
            },
            _ => Token::Fail,
        }
    }

    fn open_call(&mut self) -> Token {
        self.has_elements = true;
        self.stack.push(Level::CALL);
        self.has_name = false;
        self.has_arguments = false;
        self.has_others = false;
        self.is_flat = false;
        self.at = At::Key;
        Token::Markup(1)
    }

    fn open_list(&mut self) -> Token {
        self.stack.push(Level::LIST);
        self.at = At::Element;
        Token::Markup(1)
    }

    fn key(&mut self, text: &str, body: &Json, context: &mut Context<'_>) -> Token {
        let is_bare = !text.starts_with(['"', '\'']);
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let bare = text.bytes().take_while(|byte| is_name(byte)).count();
        let len = if is_bare {
            Some(bare).filter(|&len| len < text.len())
        } else {
            quoted_len(text, &mut self.seen)
        };
        let Some(len) = len else {
            return if context.is_last { self.cut() } else { Token::More };
        };
        let key = match is_bare {
            true => &text[..len],
            false => Str::Escaped(&text[1..len - 1]).decode(context.scratch),
        };
        if text.starts_with('\'') && self.literal.is_none() {
            self.literal = Some(Literal::value());
        }
        let is_call = self.stack.last().is_some_and(|level| level.is_call);
        let is_name = body.name_is_key || !self.has_arguments && context.tools.contains(key);
        if is_name && is_call && !self.has_name {
            context.name.clear();
            context.name.push_str(key);
            self.has_name = true;
            self.at = At::Colon(Role::Arguments);
            return Token::Name(len);
        }
        let is = |keys: &[String]| keys.iter().any(|other| other == key);
        let role = match key {
            _ if is(&body.name) => Role::Name,
            _ if is(&body.arguments) => Role::Arguments,
            _ if is(&body.id) => Role::Id,
            "function" => Role::Function,
            "tool_calls" | "tool_call" | "function_call" => Role::Calls,
            _ if is_call && self.is_parameter(key, context.tools, context.name) => Role::Parameter,
            _ => Role::Other,
        };
        if role == Role::Parameter {
            self.parameter.clear();
            self.parameter.push_str(key);
        }
        self.has_others |= role == Role::Other && key != "type";
        if self.has_others && context.form.is_bare() && !self.stack.iter().any(|level| level.held_calls) {
            return Token::Fail;
        }
        self.at = At::Colon(role);
        Token::Markup(len)
    }

    /// Whether `key` is a parameter that the declared tool has, where no arguments were read before.
    fn is_parameter(&self, key: &str, tools: &Tools, name: &str) -> bool {
        self.has_name && (self.is_flat || !self.has_arguments) && tools.declares(name, key) == Some(true)
    }

    fn begin_value(&mut self, role: Role, byte: u8, text: &str, context: &mut Context<'_>) -> Token {
        match (role, byte) {
            (Role::Name | Role::Function, b'"' | b'\'') if !self.has_name => {
                let Some(len) = quoted_len(text, &mut self.seen) else {
                    return if context.is_last { self.cut() } else { Token::More };
                };
                context.name.clear();
                let mut surrogate = Surrogate::default();
                Str::Escaped(&text[1..len - 1]).decode_into(context.name, &mut surrogate);
                surrogate.flush_into(context.name);
                self.has_name = true;
                self.settle();
                Token::Name(len)
            }
            (Role::Name, _) if !self.has_name => Token::Fail,
            (Role::Function | Role::Name, b'{') if role == Role::Function => {
                self.stack.push(Level::PART);
                self.at = At::Key;
                Token::Markup(1)
            }
            (Role::Calls, b'[') if !self.has_name => self.open_list(),
            (Role::Calls, b'{') if !self.has_name => self.open_call(),
            (Role::Id, b'"' | b'\'') => {
                let Some(len) = quoted_len(text, &mut self.seen) else {
                    return if context.is_last { self.cut() } else { Token::More };
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
                context.scratch.clear();
                key_into(!self.is_flat, &self.parameter, context.scratch);
                (self.is_flat, self.has_arguments) = (true, true);
                self.value = Value::default();
                self.at = At::Argument;
                Token::Converted(0)
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
        let (taken, progress) = self.value.read(text, context.form, context.is_last);
        match progress {
            Progress::Odd => return Token::Odd("the arguments are not JSON"),
            Progress::Open => {}
            Progress::Complete => self.settle(),
            Progress::Cut if taken == 0 => {
                self.at = At::Done;
                return Token::End(Completion::Whole);
            }
            Progress::Cut => {}
        }
        if taken > 0 {
            self.has_arguments = true;
            return Token::Argument(taken);
        }
        if self.at != At::Argument {
            // A number is known to be complete only when something else follows it.
            return Token::Markup(0);
        }
        if !context.is_last { Token::More } else { self.cut() }
    }

    /// Passes on the inside of a string that holds the arguments, decoded.
    fn quoted(&mut self, text: &str, context: &mut Context<'_>) -> Token {
        let bytes = text.as_bytes();
        let mut at = 0;
        loop {
            match memchr::memchr2(b'"', b'\\', &bytes[at..]) {
                None => at = bytes.len(),
                Some(found) => {
                    at += found;
                    if bytes[at] == b'\\' {
                        let len = if bytes.get(at + 1) == Some(&b'u') { 6 } else { 2 };
                        if at + len <= bytes.len() && text.is_char_boundary(at + len) {
                            at += len;
                            continue;
                        }
                    } else if at == 0 && self.surrogate.is_pending() {
                        context.scratch.clear();
                        self.surrogate.flush_into(context.scratch);
                        return Token::Converted(0);
                    } else if at == 0 {
                        self.settle();
                        return Token::Markup(1);
                    }
                }
            }
            break;
        }
        if at == 0 {
            return match (context.is_last, bytes.len()) {
                (false, _) => Token::More,
                (true, 0) => self.cut(),
                (true, left) => Token::Markup(left),
            };
        }
        context.scratch.clear();
        Str::Escaped(&text[..at]).decode_into(context.scratch, &mut self.surrogate);
        self.has_arguments |= !context.scratch.is_empty();
        Token::Converted(at)
    }

    fn literal(&mut self, text: &str, context: &mut Context<'_>) -> Token {
        let Some(literal) = &mut self.literal else { return Token::Fail };
        let (token, ended) = literal.token(text, Syntax::default(), context);
        match ended {
            Some(Completion::Cut) => {
                self.has_name = false;
                self.at = At::Done;
                (self.is_over, self.is_cut) = (true, true);
            }
            Some(_) => self.settle(),
            None => {}
        }
        self.has_arguments |= matches!(token, Token::Converted(1..));
        token
    }

    fn skip(&mut self, text: &str, context: &mut Context<'_>) -> Token {
        let (taken, progress) = self.value.read(text, context.form, context.is_last);
        match progress {
            Progress::Odd => return Token::Fail,
            Progress::Complete => self.settle(),
            Progress::Open | Progress::Cut => {}
        }
        match (taken, context.is_last) {
            (0, _) if self.at != At::Skip => Token::Markup(0),
            (0, true) => self.cut(),
            (0, false) => Token::More,
            _ => Token::Markup(taken),
        }
    }

    /// A closing brace.
    fn close(&mut self, body: &Json, context: &mut Context<'_>) -> Token {
        let Some(level) = self.stack.pop() else { return Token::Fail };
        if !level.is_call {
            self.settle();
            return Token::Markup(1);
        }
        if self.has_name && self.has_others && !self.has_arguments && !context.form.may_be_quoted() {
            self.has_others = false;
            self.stack.push(level);
            return Token::Odd("a call has members beside its name, and no arguments");
        }
        let is_in_list = self.stack.iter().any(|level| level.is_list);
        self.settle();
        if !self.has_name {
            // Something else may stand in a list of calls; alone it is no call at all.
            return if level.held_calls || is_in_list { Token::Markup(1) } else { Token::Fail };
        }
        let may_be_quoted = context.form.may_be_quoted();
        if may_be_quoted && !self.has_arguments && (self.has_others || !body.arguments_optional) {
            return Token::Fail;
        }
        for level in &mut self.stack {
            level.held_calls = true;
        }
        self.is_over = true;
        self.has_name = false;
        if self.has_arguments && !self.is_flat {
            return Token::Markup(1);
        }
        if !self.is_flat {
            return Token::NoArguments(1);
        }
        context.scratch.clear();
        context.scratch.push('}');
        Token::Converted(1)
    }

    /// Goes on in whatever is open now.
    fn settle(&mut self) {
        self.at = match self.stack.last() {
            None => At::Done,
            Some(level) if level.is_list => At::Element,
            Some(_) => At::Key,
        };
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
