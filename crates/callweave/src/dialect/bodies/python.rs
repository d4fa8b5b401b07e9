//! Calls as Python writes them: `[name(key=value), …]`, or one per line.

use super::literal::{LiteralReader, LiteralSyntax};
use super::{BodyContext, BodyToken, leading_space};

const LONGEST_NAME: usize = 128;

/// Reads a list of calls.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct PythonReader {
    at: PythonState,
    is_list: bool,
    literal: Option<LiteralReader>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum PythonState {
    #[default]
    Start,
    /// Before a name.
    Name,
    /// At the parenthesis after a name.
    Open,
    Arguments,
    /// After a call.
    Next,
    Done,
}

impl PythonReader {
    #[inline]
    pub(super) fn is_in_string(&self) -> bool {
        self.at == PythonState::Arguments && self.literal.as_ref().is_some_and(LiteralReader::is_in_string)
    }

    pub(super) fn next(&mut self, text: &str, context: &mut BodyContext<'_>) -> BodyToken {
        match self.at {
            PythonState::Arguments => return self.arguments(text, context),
            PythonState::Open => return self.open(context),
            PythonState::Done => return BodyToken::Done,
            PythonState::Start | PythonState::Name | PythonState::Next => {}
        }
        let space = leading_space(text);
        if space > 0 {
            return BodyToken::Markup(space);
        }
        let Some(&byte) = text.as_bytes().first() else {
            return match (context.is_last, self.at) {
                (false, _) => BodyToken::More,
                (true, PythonState::Next) => BodyToken::Done,
                (true, _) => BodyToken::Fail,
            };
        };
        match (self.at, byte) {
            (PythonState::Start, b'[') => {
                self.is_list = true;
                self.at = PythonState::Name;
                BodyToken::Markup(1)
            }
            (PythonState::Start, _) if context.form.is_bare() => BodyToken::Fail,
            (PythonState::Next, b']') if self.is_list => {
                self.at = PythonState::Done;
                BodyToken::Markup(1)
            }
            // A call may stand inside `print(…)`.
            (PythonState::Next, b')') if !self.is_list => BodyToken::Markup(1),
            (PythonState::Start | PythonState::Name, b'p') if !self.is_list && text.starts_with("print(") => {
                BodyToken::Markup(6)
            }
            (PythonState::Start | PythonState::Name, b'p')
                if !self.is_list && !context.is_last && "print(".starts_with(text) =>
            {
                BodyToken::More
            }
            (PythonState::Next, b',' | b';') => {
                self.at = PythonState::Name;
                BodyToken::Markup(1)
            }
            (PythonState::Next, _) if self.is_list => BodyToken::Fail,
            (PythonState::Name, b']') if self.is_list => {
                self.at = PythonState::Done;
                if self.literal.is_none() { BodyToken::Empty(1) } else { BodyToken::Markup(1) }
            }
            (PythonState::Next, _) if !is_name_byte(byte) => {
                self.at = PythonState::Done;
                BodyToken::Done
            }
            _ => self.name(text, context),
        }
    }

    /// A name counts once its parenthesis and the first thing inside it have been seen: prose has
    /// brackets and parentheses too.
    fn name(&mut self, text: &str, context: &mut BodyContext<'_>) -> BodyToken {
        let bytes = text.as_bytes();
        let len = bytes.iter().take_while(|&&byte| is_name_byte(byte)).count();
        if len == 0 || len > LONGEST_NAME || bytes[0].is_ascii_digit() {
            return BodyToken::Fail;
        }
        let Some(&paren) = bytes.get(len) else {
            return if context.is_last { BodyToken::Fail } else { BodyToken::More };
        };
        if paren != b'(' {
            return BodyToken::Fail;
        }
        let is_call = match first_argument(&text[len + 1..], self.is_list) {
            None if !context.is_last => return BodyToken::More,
            // Truncated where it still may be one: between markers it is.
            None => !context.form.is_bare(),
            Some(is_argument) => is_argument,
        };
        if !is_call {
            return BodyToken::Fail;
        }
        // Llama calls the method of a tool: `name.call(…)`.
        let written = &text[..len];
        let name = written.strip_suffix(".call").filter(|_| !context.tools.contains(written));
        self.at = PythonState::Open;
        context.named(len, name.unwrap_or(written))
    }

    fn open(&mut self, context: &mut BodyContext<'_>) -> BodyToken {
        self.at = PythonState::Arguments;
        self.literal = Some(LiteralReader::arguments());
        context.made(1, "{")
    }

    #[inline]
    fn arguments(&mut self, text: &str, context: &mut BodyContext<'_>) -> BodyToken {
        let Some(literal) = &mut self.literal else { return BodyToken::Fail };
        let syntax = LiteralSyntax { line_ends_call: !self.is_list, ..LiteralSyntax::default() };
        let (token, ended) = literal.token(text, syntax, context);
        if ended.is_some() {
            self.at = PythonState::Next;
            context.ended = ended;
        }
        token
    }
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-') || byte >= 0x80
}

/// Whether `text` goes on as a call does after its parenthesis: with a key and the beginning of a value, or
/// with the end, and in a list with what may follow there. `None`: more text is needed.
fn first_argument(text: &str, is_list: bool) -> Option<bool> {
    let rest = &text.as_bytes()[leading_space(text)..];
    if *rest.first()? == b')' {
        return if is_list {
            rest[1..].trim_ascii_start().first().map(|next| b",];".contains(next))
        } else {
            Some(true)
        };
    }
    let key = rest.iter().take_while(|&&byte| is_name_byte(byte)).count();
    let mut rest = rest[key..].trim_ascii_start();
    if *rest.first()? != b'=' || key == 0 {
        return Some(false);
    }
    rest = rest[1..].trim_ascii_start();
    rest.first().map(|byte| !matches!(byte, b')' | b',' | b'='))
}
