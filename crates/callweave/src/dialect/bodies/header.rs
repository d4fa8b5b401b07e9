//! Calls as a name, a separator and the arguments as JSON.

use super::super::markers::Found;
use super::super::table::kimi_k2;
use super::value::{Progress, Value};
use super::{Context, Token, fence_len, head, leading_space};
use crate::event::Completion;

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
    Done,
}

impl Reader {
    /// A reader of the arguments of a call whose name is known.
    pub(in super::super) fn of_arguments() -> Self {
        Self { at: At::Lead, ..Self::default() }
    }

    #[inline]
    pub(super) fn is_in_string(&self) -> bool {
        self.at == At::Argument && self.value.is_in_string()
    }

    pub(super) fn next(&mut self, text: &str, context: &mut Context<'_>) -> Token {
        match self.at {
            At::Before => self.before(text, context),
            At::Name => self.name(text, context),
            At::After => self.after(text, context),
            At::Id => self.id(text, context),
            At::Nameless => self.nameless(text, context),
            At::Lead => self.lead(text, context),
            At::Argument => self.argument(text, context),
            At::Done => Token::Done,
        }
    }

    fn before(&mut self, text: &str, context: &mut Context<'_>) -> Token {
        let space = leading_space(text);
        if space > 0 {
            return Token::Markup(space);
        }
        match context.form.before.starting(text, context.is_last) {
            Found::Perhaps(_) if !text.is_empty() => Token::More,
            Found::Marker { len, .. } => {
                self.at = At::Name;
                context.id.clear();
                context.id.push_str(&text[..len]);
                Token::Markup(len)
            }
            _ if text.is_empty() => context.more_or(Token::Fail),
            _ => {
                self.at = At::Name;
                self.name(text, context)
            }
        }
    }

    fn name(&mut self, text: &str, context: &mut Context<'_>) -> Token {
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
        if len > LONGEST_NAME || !context.may_name(written) {
            return Token::Fail;
        }
        self.at = At::After;
        self.is_bare_name = true;
        let is_counter = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let (name, counter) = match written.rsplit_once(':') {
            Some((name, counter)) if is_counter(counter) && !context.tools.contains(written) => (name, true),
            _ => (written, false),
        };
        // A name that is counted is the call's id as well, with what stands before it.
        let is_nameless = is_counter(name) && !context.tools.is_empty();
        if counter || is_nameless {
            context.id.push_str(written);
        } else {
            context.id.clear();
        }
        if is_nameless {
            self.at = At::Nameless;
            return Token::Id(len);
        }
        context.named(len, name)
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
        let (taken, progress) = self.value.read(&text[self.seen..], context);
        self.seen += taken;
        match progress {
            Progress::Open if !context.is_last => return Token::More,
            Progress::Complete => {}
            _ => return Token::Fail,
        }
        let Some(name) = kimi_k2::only_tool(&text[..self.seen], context.tools) else { return Token::Fail };
        self.value = Value::default();
        self.at = At::Lead;
        context.named(0, name)
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
            Found::Marker { .. } => {
                self.end(Completion::Whole, context);
                return Token::NoArguments(0);
            }
            Found::Nothing if context.is_last && Self::may_go_on(text, context) => {
                // Where no closer is to come, a tool's name alone is a call; else who knows what is missing.
                let is_whole = self.is_bare_name
                    && context.form.form.close.is_empty()
                    && context.tools.contains(context.name);
                let is_whole = is_whole && text.is_empty();
                self.end(if is_whole { Completion::Whole } else { Completion::Cut }, context);
                return Token::NoArguments(text.len());
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

    /// Whether a text that ends here may have gone on with a fence or a closer.
    fn may_go_on(text: &str, context: &Context<'_>) -> bool {
        "```".starts_with(text) || matches!(context.form.closers.starting(text, false), Found::Perhaps(_))
    }

    #[inline]
    fn argument(&mut self, text: &str, context: &mut Context<'_>) -> Token {
        let (token, progress) = self.value.token(text, context);
        match progress {
            Progress::Open | Progress::Odd => {}
            Progress::Complete | Progress::Closed => self.end(Completion::Whole, context),
            Progress::Cut => self.end(Completion::Cut, context),
        }
        token
    }

    fn end(&mut self, completion: Completion, context: &mut Context<'_>) {
        self.at = At::Done;
        context.ended = Some(completion);
    }
}
