//! Calls that a registered function finds between two markers.

use super::super::markers::Found;
use super::super::matcher::{Matched, Matcher};
use super::{Context, Token};
use crate::event::Completion;

/// Reads the calls between one pair of markers.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Reader {
    /// How much of the text holds no closer.
    seen: usize,
    calls: Option<std::vec::IntoIter<Matched>>,
    current: Option<Matched>,
    step: Step,
    /// How much of the piece has been told.
    told: usize,
    len: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Step {
    #[default]
    Between,
    Name,
    Arguments,
    End,
}

impl Reader {
    pub(super) fn next(&mut self, text: &str, matcher: &Matcher, context: &mut Context<'_>) -> Token {
        if self.calls.is_none() {
            let len = match context.form.closers.find(&text[self.seen..], context.is_last) {
                Found::Marker { at, .. } => self.seen + at,
                Found::Perhaps(at) => {
                    self.seen += at;
                    return Token::More;
                }
                Found::Nothing if context.is_last => text.len(),
                Found::Nothing => {
                    self.seen = text.len();
                    return Token::More;
                }
            };
            match matcher.find(&text[..len]) {
                Ok(calls) if !calls.is_empty() => {
                    self.calls = Some(calls.into_iter());
                    self.len = len;
                }
                Ok(_) => return Token::Fail,
                Err(detail) => {
                    *context.complaint = Some(detail);
                    return Token::Fail;
                }
            }
        }
        self.tell(context)
    }

    fn tell(&mut self, context: &mut Context<'_>) -> Token {
        match (self.step, &self.current) {
            (Step::Between, _) => {
                let next = self.calls.as_mut().and_then(Iterator::next);
                let upto = next.as_ref().map_or(self.len, |call| call.start);
                let skipped = upto - self.told;
                self.told = upto;
                self.current = next;
                self.step = Step::Name;
                Token::Markup(skipped)
            }
            (_, None) => Token::Done,
            (Step::Name, Some(call)) => {
                context.name.clear();
                context.name.push_str(&call.name);
                self.step = Step::Arguments;
                Token::Name(0)
            }
            (Step::Arguments, Some(call)) => {
                context.scratch.clear();
                context.scratch.push_str(if call.arguments.is_empty() { "{}" } else { &call.arguments });
                self.step = Step::End;
                let len = call.end - call.start;
                self.told = call.end;
                Token::Converted(len)
            }
            (Step::End, Some(_)) => {
                self.step = Step::Between;
                Token::End(Completion::Whole)
            }
        }
    }
}
