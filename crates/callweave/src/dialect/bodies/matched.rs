//! Calls that a registered function finds between two markers.

use super::super::markers::MarkerMatch;
use super::super::matcher::MatchedCall;
use super::super::spec::CallBody;
use super::{BodyContext, BodyToken};
use crate::event::BlockCompletion;

/// Reads the calls between one pair of markers.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct MatchedReader {
    /// How much of the text holds no closer.
    seen: usize,
    /// The tokens still to be emitted, with the names and arguments.
    tokens: Option<std::vec::IntoIter<(BodyToken, String)>>,
}

impl MatchedReader {
    /// The function is given complete texts, so that nothing comes as it is written.
    pub(super) fn is_in_string(&self) -> bool {
        false
    }

    pub(super) fn next(&mut self, text: &str, context: &mut BodyContext<'_>) -> BodyToken {
        let Some(tokens) = &mut self.tokens else { return self.find(text, context) };
        match tokens.next() {
            Some((BodyToken::Name(len), name)) => context.named(len, &name),
            Some((BodyToken::Converted(len), arguments)) => {
                context.ended = Some(BlockCompletion::Complete);
                context.made(len, &arguments)
            }
            Some((token, _)) => token,
            None => BodyToken::Done,
        }
    }

    fn find(&mut self, text: &str, context: &mut BodyContext<'_>) -> BodyToken {
        let CallBody::Matched(matcher) = &context.form.form.body else { return BodyToken::Fail };
        let len = match context.form.closers.find(&text[self.seen..], context.is_last) {
            MarkerMatch::Marker { at, .. } => self.seen + at,
            MarkerMatch::Nothing if context.is_last => text.len(),
            MarkerMatch::Nothing => {
                self.seen = text.len();
                return BodyToken::More;
            }
            MarkerMatch::Perhaps(at) => {
                self.seen += at;
                return BodyToken::More;
            }
        };
        let calls = match matcher.find(&text[..len]) {
            Ok(calls) if !calls.is_empty() => calls,
            Ok(_) => return BodyToken::Fail,
            Err(detail) => {
                *context.complaint = Some(detail);
                return BodyToken::Fail;
            }
        };
        let (mut tokens, mut told) = (Vec::new(), 0);
        for MatchedCall { start, end, name, arguments } in calls {
            let arguments = if arguments.is_empty() { "{}".to_owned() } else { arguments };
            tokens.push((BodyToken::Markup(start - told), String::new()));
            tokens.push((BodyToken::Name(0), name));
            tokens.push((BodyToken::Converted(end - start), arguments));
            told = end;
        }
        tokens.push((BodyToken::Markup(len - told), String::new()));
        self.tokens = Some(tokens.into_iter());
        BodyToken::Markup(0)
    }
}
