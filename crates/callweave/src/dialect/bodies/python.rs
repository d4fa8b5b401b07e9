//! Calls as Python writes them: `[name(key=value), …]`, or one per line.

use super::super::spec::Python;
use super::literal::{Literal, Piece, Syntax};
use super::{Context, Token, leading_space};
use crate::event::Completion;

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
    Over(Completion),
    Done,
}

impl Reader {
    /// See [`super::Reader::is_in_argument`].
    pub(super) fn is_in_argument(&self) -> bool {
        self.at == At::Arguments
    }

    #[inline]
    pub(super) fn is_in_string(&self) -> bool {
        self.is_in_argument() && self.literal.as_ref().is_some_and(Literal::is_in_string)
    }

    pub(super) fn next(&mut self, text: &str, body: &Python, context: &mut Context<'_>) -> Token {
        match self.at {
            At::Arguments => return self.arguments(text, context),
            At::Open => return self.open(context),
            At::Over(completion) => {
                self.at = At::Next;
                return Token::End(completion);
            }
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
            (At::Start, _) if !body.bare => Token::Fail,
            (At::Next, b']') if self.is_list => {
                self.at = At::Done;
                Token::Markup(1)
            }
            (At::Next, b',' | b';') => {
                self.at = At::Name;
                Token::Markup(1)
            }
            (At::Next, _) if self.is_list => Token::Fail,
            (At::Name, b']') if self.is_list => {
                self.at = At::Done;
                Token::Markup(1)
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
        let more = |needed: Token| if context.is_last { Token::Fail } else { needed };
        if len == 0 || len > LONGEST_NAME || bytes[0].is_ascii_digit() {
            return Token::Fail;
        }
        let Some(&paren) = bytes.get(len) else { return more(Token::More) };
        if paren != b'(' {
            return Token::Fail;
        }
        let mut at = len + 1 + leading_space(&text[len + 1..]);
        match bytes.get(at) {
            None => return more(Token::More),
            Some(b')') => {}
            Some(_) => {
                let key = bytes[at..].iter().take_while(|&&byte| is_name_byte(byte)).count();
                at += key + leading_space(&text[at + key..]);
                match bytes.get(at) {
                    None => return more(Token::More),
                    Some(b'=') if key > 0 => {}
                    Some(_) => return Token::Fail,
                }
                at += 1 + leading_space(&text[at + 1..]);
                match bytes.get(at) {
                    None => return more(Token::More),
                    Some(b')' | b',' | b'=') => return Token::Fail,
                    Some(_) => {}
                }
            }
        }
        context.name.clear();
        context.name.push_str(&text[..len]);
        self.at = At::Open;
        Token::Name(len)
    }

    fn open(&mut self, context: &mut Context<'_>) -> Token {
        context.scratch.clear();
        context.scratch.push('{');
        self.at = At::Arguments;
        self.literal = Some(Literal::arguments());
        Token::Converted(1)
    }

    #[inline]
    fn arguments(&mut self, text: &str, context: &mut Context<'_>) -> Token {
        let Some(literal) = &mut self.literal else { return Token::Fail };
        context.scratch.clear();
        match literal.next(text, Syntax::default(), context.is_last, context.scratch) {
            Piece::More if context.is_last && !text.is_empty() => Token::Markup(text.len()),
            Piece::More if context.is_last => {
                literal.close(context.scratch);
                self.at = At::Over(Completion::Cut);
                Token::Converted(0)
            }
            Piece::More => Token::More,
            Piece::Took(len) => Token::Converted(len),
            Piece::Done(len) => {
                self.at = At::Over(Completion::Whole);
                Token::Converted(len)
            }
            Piece::Bad => Token::Fail,
        }
    }
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-') || byte >= 0x80
}
