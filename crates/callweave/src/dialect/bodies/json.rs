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
            return Token::Markup(space);
        }
        let Some(&byte) = text.as_bytes().first() else {
            return self.cut_or_more(context);
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
        self.at = At::Key;
        Token::Markup(1)
    }

    fn open_list(&mut self) -> Token {
        self.stack.push(Level::List);
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
            return self.cut_or_more(context);
        };
        let key = match is_bare {
            true => &text[..len],
            false => Str::Escaped(&text[1..len - 1]).decode(context.scratch),
        };
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
            _ => Role::Other,
        };
        if role == Role::Parameter {
            self.parameter.clear();
            self.parameter.push_str(key);
        }
        self.has_others |= role == Role::Other && key != "type";
        if self.has_others && self.is_unmarked && self.calls == 0 {
            return Token::Fail;
        }
        // The description of a tool, of which a schema follows.
        if role == Role::Other && !self.has_arguments && table::DECLARING.contains(&key) {
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
                    return self.cut_or_more(context);
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
