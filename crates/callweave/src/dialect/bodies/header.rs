//! Calls as a name, a separator and the arguments as JSON.

use super::super::markers::Found;
use super::super::spec::{Header, HeaderName};
use super::super::table::kimi_k2;
use super::value::{Progress, Value};
use super::{Context, Token, fence_len, head, leading_space};
use crate::event::Completion;
use crate::json::Tape;

/// Names are not longer than this; a header that is, is none.
const LONGEST_NAME: usize = 256;

/// Reads one call.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Reader {
    at: At,
    value: Value,
    /// How much of the arguments was read to find the name.
    seen: usize,
    /// Whether nothing but the name has come.
    is_bare_name: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    #[default]
    Before,
    Name,
    /// After the name: a separator, an id, or the arguments.
    After,
    Id,
    /// The header gave a counter only: the arguments have to tell which tool is meant.
    Nameless,
    /// Before the arguments, after the separator.
    Lead,
    Argument,
    Over(Completion),
    Done,
}

impl Reader {
    /// A reader of the arguments of a call whose name is known.
    pub(in super::super) fn of_arguments() -> Self {
        Self { at: At::Lead, ..Self::default() }
    }

    /// See [`super::Reader::is_in_argument`].
    pub(super) fn is_in_argument(&self) -> bool {
        self.at == At::Argument
    }

    #[inline]
    pub(super) fn is_in_string(&self) -> bool {
        self.at == At::Argument && self.value.is_in_string()
    }

    pub(super) fn next(&mut self, text: &str, body: &Header, context: &mut Context<'_>) -> Token {
        match self.at {
            At::Before => self.before(text, body, context),
            At::Name => self.name(text, body, context),
            At::After => self.after(text, context),
            At::Id => self.id(text, context),
            At::Nameless => self.nameless(text, context),
            At::Lead => self.lead(text, context),
            At::Argument => self.argument(text, context),
            At::Over(completion) => {
                self.at = At::Done;
                Token::End(completion)
            }
            At::Done => Token::Done,
        }
    }

    fn before(&mut self, text: &str, body: &Header, context: &mut Context<'_>) -> Token {
        let space = leading_space(text);
        if space > 0 {
            return Token::Markup(space);
        }
        match context.form.before.starting(text, context.is_last) {
            Found::Perhaps(_) if !text.is_empty() => Token::More,
            Found::Marker { len, .. } => {
                self.at = At::Name;
                Token::Markup(len)
            }
            _ if text.is_empty() => more_or(context, Token::Fail),
            _ => {
                self.at = At::Name;
                self.name(text, body, context)
            }
        }
    }

    fn name(&mut self, text: &str, body: &Header, context: &mut Context<'_>) -> Token {
        // No name begins so, and what does is found at once.
        if text.starts_with(['<', '{', '[', '"']) {
            return Token::Fail;
        }
        let window = head(text, LONGEST_NAME);
        let is_last = context.is_last && window.len() == text.len();
        let len = match context.form.ends.find(window, is_last) {
            Found::Marker { at, .. } => at,
            _ if is_last => text.len(),
            Found::Perhaps(at) if at <= LONGEST_NAME => return Token::More,
            Found::Nothing if text.len() <= LONGEST_NAME => return Token::More,
            _ => return Token::Fail,
        };
        let written = text[..len].trim();
        let is_name = !written.is_empty()
            && len <= LONGEST_NAME
            && !written.contains(['\n', '{', '}', '<', '>', '"'])
            && (!written.contains(' ') || context.tools.contains(written));
        if !is_name {
            return Token::Fail;
        }
        context.id.clear();
        context.name.clear();
        match body.name {
            HeaderName::Plain => context.name.push_str(written),
            HeaderName::Numbered => {
                context.id.push_str(written);
                let name = kimi_k2::numbered(written, context.tools);
                if name.bytes().all(|byte| byte.is_ascii_digit()) && !context.tools.is_empty() {
                    self.at = At::Nameless;
                    return Token::Id(len);
                }
                context.name.push_str(name);
            }
        }
        self.at = At::After;
        self.is_bare_name = true;
        Token::Name(len)
    }

    fn after(&mut self, text: &str, context: &mut Context<'_>) -> Token {
        match context.form.follows.starting(text, context.is_last) {
            Found::Marker { len, meaning: is_id, .. } => {
                self.at = if is_id { At::Id } else { At::Lead };
                self.is_bare_name = false;
                Token::Markup(len)
            }
            Found::Perhaps(_) => Token::More,
            Found::Nothing => {
                self.at = At::Lead;
                self.lead(text, context)
            }
        }
    }

    /// Finds the only declared tool that takes these arguments.
    fn nameless(&mut self, text: &str, context: &mut Context<'_>) -> Token {
        if self.seen == 0 {
            match context.form.follows.starting(text, context.is_last) {
                Found::Marker { len, .. } => return Token::Markup(len),
                Found::Perhaps(_) => return Token::More,
                Found::Nothing => {}
            }
        }
        let (taken, progress) = self.value.read(&text[self.seen..], context.form, context.is_last);
        self.seen += taken;
        match progress {
            Progress::Open if !context.is_last => return Token::More,
            Progress::Complete => {}
            _ => return Token::Fail,
        }
        let mut tape = Tape::new();
        let Ok(arguments) = tape.parse(&text[..self.seen]) else { return Token::Fail };
        let keys = arguments.members().map(|(key, _)| key);
        let Some(name) = context.tools.only_with(keys) else { return Token::Fail };
        context.name.clear();
        context.name.push_str(name);
        self.value = Value::default();
        self.at = At::Lead;
        Token::Name(0)
    }

    fn id(&mut self, text: &str, context: &mut Context<'_>) -> Token {
        let brace = memchr::memchr(b'{', text.as_bytes());
        let len = match (context.form.follows.find(text, context.is_last), brace) {
            (Found::Marker { at, .. }, brace) => at.min(brace.unwrap_or(at)),
            (Found::Nothing, Some(brace)) => brace,
            _ if context.is_last => text.len(),
            _ => return Token::More,
        };
        context.id.clear();
        context.id.push_str(text[..len].trim());
        self.at = At::After;
        Token::Id(len)
    }

    fn lead(&mut self, text: &str, context: &mut Context<'_>) -> Token {
        let space = leading_space(text);
        if space > 0 {
            return Token::Markup(space);
        }
        match fence_len(text, context.is_last) {
            None => return Token::More,
            Some(0) => {}
            Some(len) => return Token::Markup(len),
        }
        match context.form.closers.starting(text, context.is_last) {
            Found::Perhaps(_) => return Token::More,
            Found::Marker { .. } => return self.empty(Completion::Whole),
            Found::Nothing if text.is_empty() && context.is_last => {
                // Where no closer is to come, a tool's name alone is a call; else who knows what is missing.
                let is_whole = self.is_bare_name
                    && context.form.form.close.is_empty()
                    && context.tools.contains(context.name);
                return self.empty(if is_whole { Completion::Whole } else { Completion::Cut });
            }
            Found::Nothing if text.is_empty() => return Token::More,
            Found::Nothing => {}
        }
        if !text.starts_with(['{', '[']) {
            self.value = Value::damaged();
        }
        self.at = At::Argument;
        self.argument(text, context)
    }

    /// A call without arguments.
    fn empty(&mut self, completion: Completion) -> Token {
        self.at = At::Over(completion);
        Token::NoArguments(0)
    }

    #[inline]
    fn argument(&mut self, text: &str, context: &mut Context<'_>) -> Token {
        let (taken, progress) = self.value.read(text, context.form, context.is_last);
        match progress {
            Progress::Odd => return Token::Odd("the arguments are not JSON"),
            Progress::Open => {}
            Progress::Complete => self.at = At::Over(Completion::Whole),
            Progress::Cut => self.at = At::Over(Completion::Whole),
        }
        if taken > 0 {
            return Token::Argument(taken);
        }
        if self.at != At::Argument {
            return Token::Markup(0);
        }
        if !context.is_last {
            return Token::More;
        }
        self.at = At::Done;
        Token::End(if self.value.finish() { Completion::Whole } else { Completion::Cut })
    }
}

fn more_or(context: &Context<'_>, token: Token) -> Token {
    if context.is_last { token } else { Token::More }
}
