//! Calls as a name, a separator and the arguments as JSON.

use super::super::markers::MarkerMatch;
use super::super::table::kimi_k2;
use super::value::{ValueProgress, ValueReader};
use super::{BodyContext, BodyToken, fence_len, head, leading_space};
use crate::event::BlockCompletion;

/// The maximum length of a name; a longer header is none.
const LONGEST_NAME: usize = 256;

/// Reads one call.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct HeaderReader {
    at: HeaderState,
    value: ValueReader,
    /// How much of the arguments was read to find the name.
    seen: usize,
    /// Whether nothing but the name has come.
    is_bare_name: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum HeaderState {
    #[default]
    Before,
    Name,
    /// After the name: a separator, an id, or the arguments.
    After,
    Id,
    /// The header gave a counter only: the arguments have to show which tool is meant.
    Nameless,
    /// Before the arguments, after the separator.
    Lead,
    Argument,
    Done,
}

impl HeaderReader {
    /// A reader of the arguments of a call whose name is known.
    pub(in super::super) fn of_arguments() -> Self {
        Self { at: HeaderState::Lead, ..Self::default() }
    }

    #[inline]
    pub(super) fn is_in_string(&self) -> bool {
        self.at == HeaderState::Argument && self.value.is_in_string()
    }

    pub(super) fn next(&mut self, text: &str, context: &mut BodyContext<'_>) -> BodyToken {
        match self.at {
            HeaderState::Before => self.before(text, context),
            HeaderState::Name => self.name(text, context),
            HeaderState::After => self.after(text, context),
            HeaderState::Id => self.id(text, context),
            HeaderState::Nameless => self.nameless(text, context),
            HeaderState::Lead => self.lead(text, context),
            HeaderState::Argument => self.argument(text, context),
            HeaderState::Done => BodyToken::Done,
        }
    }

    fn before(&mut self, text: &str, context: &mut BodyContext<'_>) -> BodyToken {
        let space = leading_space(text);
        if space > 0 {
            return BodyToken::Markup(space);
        }
        match context.form.before.starting(text, context.is_last) {
            MarkerMatch::Perhaps(_) if !text.is_empty() => BodyToken::More,
            MarkerMatch::Marker { len, .. } => {
                self.at = HeaderState::Name;
                context.id.clear();
                context.id.push_str(&text[..len]);
                BodyToken::Markup(len)
            }
            _ if text.is_empty() => context.more_or(BodyToken::Fail),
            _ => {
                self.at = HeaderState::Name;
                self.name(text, context)
            }
        }
    }

    fn name(&mut self, text: &str, context: &mut BodyContext<'_>) -> BodyToken {
        // No name begins so, and what does is found at once.
        if text.starts_with(['<', '{', '[', '"']) {
            return BodyToken::Fail;
        }
        let window = head(text, LONGEST_NAME);
        let is_last = context.is_last && window.len() == text.len();
        let len = match context.form.ends.find(window, is_last) {
            MarkerMatch::Marker { at, .. } => at,
            _ if is_last => text.len(),
            MarkerMatch::Perhaps(at) if at <= LONGEST_NAME => return BodyToken::More,
            MarkerMatch::Nothing if text.len() <= LONGEST_NAME => return BodyToken::More,
            _ => return BodyToken::Fail,
        };
        let written = text[..len].trim();
        if len > LONGEST_NAME || !context.may_name(written) {
            return BodyToken::Fail;
        }
        self.at = HeaderState::After;
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
            self.at = HeaderState::Nameless;
            return BodyToken::Id(len);
        }
        context.named(len, name)
    }

    fn after(&mut self, text: &str, context: &mut BodyContext<'_>) -> BodyToken {
        match context.form.follows.starting(text, context.is_last) {
            MarkerMatch::Marker { len, meaning: is_id, .. } => {
                self.at = if is_id { HeaderState::Id } else { HeaderState::Lead };
                self.is_bare_name = false;
                BodyToken::Markup(len)
            }
            MarkerMatch::Perhaps(_) => BodyToken::More,
            MarkerMatch::Nothing => {
                self.at = HeaderState::Lead;
                self.lead(text, context)
            }
        }
    }

    /// Finds the only declared tool that takes these arguments.
    fn nameless(&mut self, text: &str, context: &mut BodyContext<'_>) -> BodyToken {
        if self.seen == 0 {
            match context.form.follows.starting(text, context.is_last) {
                MarkerMatch::Marker { len, .. } => return BodyToken::Markup(len),
                MarkerMatch::Perhaps(_) => return BodyToken::More,
                MarkerMatch::Nothing => {}
            }
        }
        let (taken, progress) = self.value.read(&text[self.seen..], context);
        self.seen += taken;
        match progress {
            ValueProgress::Open if !context.is_last => return BodyToken::More,
            ValueProgress::Complete => {}
            _ => return BodyToken::Fail,
        }
        let Some(name) = kimi_k2::only_tool(&text[..self.seen], context.tools) else {
            return BodyToken::Fail;
        };
        self.value = ValueReader::default();
        self.at = HeaderState::Lead;
        context.named(0, name)
    }

    fn id(&mut self, text: &str, context: &mut BodyContext<'_>) -> BodyToken {
        let brace = memchr::memchr(b'{', text.as_bytes());
        let len = match (context.form.follows.find(text, context.is_last), brace) {
            (MarkerMatch::Marker { at, .. }, brace) => at.min(brace.unwrap_or(at)),
            (MarkerMatch::Nothing, Some(brace)) => brace,
            _ if context.is_last => text.len(),
            _ => return BodyToken::More,
        };
        context.id.clear();
        context.id.push_str(text[..len].trim());
        self.at = HeaderState::After;
        BodyToken::Id(len)
    }

    fn lead(&mut self, text: &str, context: &mut BodyContext<'_>) -> BodyToken {
        let space = leading_space(text);
        if space > 0 {
            return BodyToken::Markup(space);
        }
        match fence_len(text, context.is_last) {
            None => return BodyToken::More,
            Some(0) => {}
            Some(len) => return BodyToken::Markup(len),
        }
        match context.form.closers.starting(text, context.is_last) {
            MarkerMatch::Perhaps(_) => return BodyToken::More,
            MarkerMatch::Marker { .. } => {
                self.end(BlockCompletion::Complete, context);
                return BodyToken::NoArguments(0);
            }
            MarkerMatch::Nothing if context.is_last && Self::may_go_on(text, context) => {
                // Where no closer is to come, a tool's name alone is a call; else it is unknown what is missing.
                let is_complete = self.is_bare_name
                    && context.form.form.close.is_empty()
                    && context.tools.contains(context.name);
                let is_complete = is_complete && text.is_empty();
                self.end(
                    if is_complete { BlockCompletion::Complete } else { BlockCompletion::Truncated },
                    context,
                );
                return BodyToken::NoArguments(text.len());
            }
            MarkerMatch::Nothing if text.is_empty() => return BodyToken::More,
            MarkerMatch::Nothing => {}
        }
        if !text.starts_with(['{', '[']) {
            self.value = ValueReader::damaged();
        }
        self.at = HeaderState::Argument;
        self.argument(text, context)
    }

    /// Whether a text that ends here may have gone on with a fence or a closer.
    fn may_go_on(text: &str, context: &BodyContext<'_>) -> bool {
        "```".starts_with(text)
            || matches!(context.form.closers.starting(text, false), MarkerMatch::Perhaps(_))
    }

    #[inline]
    fn argument(&mut self, text: &str, context: &mut BodyContext<'_>) -> BodyToken {
        let (token, progress) = self.value.token(text, context);
        match progress {
            ValueProgress::Open | ValueProgress::Odd => {}
            ValueProgress::Complete | ValueProgress::Closed => self.end(BlockCompletion::Complete, context),
            ValueProgress::Cut => self.end(BlockCompletion::Truncated, context),
        }
        token
    }

    fn end(&mut self, completion: BlockCompletion, context: &mut BodyContext<'_>) {
        self.at = HeaderState::Done;
        context.ended = Some(completion);
    }
}
