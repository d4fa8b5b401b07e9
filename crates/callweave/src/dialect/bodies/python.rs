//! Calls as Python writes them: `[name(key=value), …]`, or one per line.

use super::literal::{Literal, Syntax};
use super::{Context, Token, leading_space};

const LONGEST_NAME: usize = 128;

/// Reads a list of calls.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Reader {
    at: At,
    is_list: bool,
    literal: Option<Literal>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
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

impl Reader {
    #[inline]
    pub(super) fn is_in_string(&self) -> bool {
        self.at == At::Arguments && self.literal.as_ref().is_some_and(Literal::is_in_string)
    }

    pub(super) fn next(&mut self, text: &str, context: &mut Context<'_>) -> Token {
        match self.at {
            At::Arguments => return self.arguments(text, context),
            At::Open => return self.open(context),
            At::Done => return Token::Done,
            At::Start | At::Name | At::Next => {}
        }
        let space = leading_space(text);
        if space > 0 {
            return Token::Markup(space);
        }
        let Some(&byte) = text.as_bytes().first() else {
            return match (context.is_last, self.at) {
                (false, _) => Token::More,
                (true, At::Next) => Token::Done,
                (true, _) => Token::Fail,
            };
        };
        match (self.at, byte) {
            (At::Start, b'[') => {
                self.is_list = true;
                self.at = At::Name;
                Token::Markup(1)
            }
            (At::Start, _) if context.form.is_bare() => Token::Fail,
            (At::Next, b']') if self.is_list => {
                self.at = At::Done;
                Token::Markup(1)
            }
            // What is called may be printed.
            (At::Next, b')') if !self.is_list => Token::Markup(1),
            (At::Start | At::Name, b'p') if !self.is_list && text.starts_with("print(") => Token::Markup(6),
            (At::Start | At::Name, b'p')
                if !self.is_list && !context.is_last && "print(".starts_with(text) =>
            {
                Token::More
            }
            (At::Next, b',' | b';') => {
                self.at = At::Name;
                Token::Markup(1)
            }
            (At::Next, _) if self.is_list => Token::Fail,
            (At::Name, b']') if self.is_list => {
                self.at = At::Done;
                if self.literal.is_none() { Token::Empty(1) } else { Token::Markup(1) }
            }
            (At::Next, _) if !is_name_byte(byte) => {
                self.at = At::Done;
                Token::Done
            }
            _ => self.name(text, context),
        }
    }

    /// A name counts once its parenthesis and the first thing inside it have been seen: prose has
    /// brackets and parentheses too.
    fn name(&mut self, text: &str, context: &mut Context<'_>) -> Token {
        let bytes = text.as_bytes();
        let len = bytes.iter().take_while(|&&byte| is_name_byte(byte)).count();
        if len == 0 || len > LONGEST_NAME || bytes[0].is_ascii_digit() {
            return Token::Fail;
        }
        let Some(&paren) = bytes.get(len) else {
            return if context.is_last { Token::Fail } else { Token::More };
        };
        if paren != b'(' {
            return Token::Fail;
        }
        let is_call = match first_argument(&text[len + 1..], self.is_list) {
            None if !context.is_last => return Token::More,
            // Cut where it still may be one: between markers it is.
            None => !context.form.is_bare(),
            Some(is_argument) => is_argument,
        };
        if !is_call {
            return Token::Fail;
        }
        // Llama calls the method of a tool: `name.call(…)`.
        let written = &text[..len];
        let name = written.strip_suffix(".call").filter(|_| !context.tools.contains(written));
        self.at = At::Open;
        context.named(len, name.unwrap_or(written))
    }

    fn open(&mut self, context: &mut Context<'_>) -> Token {
        self.at = At::Arguments;
        self.literal = Some(Literal::arguments());
        context.made(1, "{")
    }

    #[inline]
    fn arguments(&mut self, text: &str, context: &mut Context<'_>) -> Token {
        let Some(literal) = &mut self.literal else { return Token::Fail };
        let syntax = Syntax { line_ends_call: !self.is_list, ..Syntax::default() };
        let (token, ended) = literal.token(text, syntax, context);
        if ended.is_some() {
            self.at = At::Next;
            context.ended = ended;
        }
        token
    }
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-') || byte >= 0x80
}

/// Whether `text` goes on as a call does after its parenthesis: with a key and the beginning of a value, or
/// with the end, and in a list with what may follow there. Nothing: more text is needed.
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
