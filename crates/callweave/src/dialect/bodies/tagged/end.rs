//! Where a value ends: at its closer, and not at what is quoted in it.

use super::super::super::markers::Found;
use super::super::Context;
use super::Reader;
use super::frame::{Frame, Inside, name_in};

/// Where a value ends.
pub(super) enum End {
    /// Not within these bytes, all of which are data.
    Beyond(usize),
    /// After these bytes, with that.
    Here(usize, Inside),
}

impl Frame {
    /// Whether a closer before `rest` is one. Nothing: more text is needed.
    fn is_confirmed(&self, closer: Inside, rest: &str, is_last: bool) -> Option<bool> {
        if self.is_special { Some(true) } else { self.is_followed(closer, rest, is_last) }
    }

    /// Whether the tool declares the parameter whose tag begins before `rest`, if that is known at all.
    /// The outer nothing: more text is needed.
    #[expect(clippy::option_option, reason = "what is not known yet and what is never known differ")]
    fn declares_parameter(&self, rest: &str, context: &Context<'_>) -> Option<Option<bool>> {
        let name = name_in(rest, &self.body.parameter, &self.parameter_end, context.is_last)?;
        Some(context.tools.declares(context.name, name))
    }

    /// Whether the tool whose tag begins before `rest` may be called. Nothing: more text is needed.
    fn may_call(&self, rest: &str, context: &Context<'_>) -> Option<bool> {
        if context.tools.is_empty() {
            return Some(true);
        }
        let name = name_in(rest, &self.body.call, &self.call_end, context.is_last)?;
        Some(context.tools.contains(name))
    }

    /// The length of the line break that `text` ends with, where it may belong to the frame.
    fn break_len(&self, text: &str) -> usize {
        match self.body.is_on_lines {
            false => 0,
            true if text.ends_with("\r\n") => 2,
            true => usize::from(text.ends_with('\n')),
        }
    }

    /// How many of the first `len` bytes are data for certain: the last line break waits for what comes.
    fn without_break(&self, text: &str, len: usize, is_last: bool) -> usize {
        if !self.body.is_on_lines || (is_last && len < text.len()) {
            return len;
        }
        let begun = usize::from(text[..len].ends_with('\r'));
        len - begun.max(self.break_len(&text[..len]))
    }
}

/// Whether a tag ends a value.
#[derive(Clone, Copy)]
enum IsEnd {
    Yes,
    /// No, nor does anything before this place.
    NotBefore(usize),
    /// More text is needed.
    More,
}

/// What was seen behind a tag that may end an unclosed value.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Looked {
    /// How many bytes from the tag on; none: it was not looked at yet.
    far: usize,
    /// How many parameters are open there.
    open: usize,
    /// Whether one was closed.
    has_closed: bool,
}

/// How often the end of a text may be looked for from such tags: else many would cost as many times its length.
const MOST_LOOKS: u32 = 64;

impl Reader {
    /// Where the value ends that `text` goes on with; its first `from` bytes are known to be data.
    #[inline]
    pub(super) fn find_end(&mut self, text: &str, from: usize, context: &mut Context<'_>) -> End {
        let Some(frame) = &context.form.frame else { return End::Beyond(text.len()) };
        let mut from = from.min(text.len());
        loop {
            match frame.inside.find(&text[from..], context.is_last) {
                Found::Nothing => return End::Beyond(frame.without_break(text, text.len(), context.is_last)),
                Found::Perhaps(at) => {
                    return End::Beyond(frame.without_break(text, from + at, context.is_last));
                }
                Found::Marker { at, len, meaning } => {
                    let at = from + at;
                    match self.is_end(text, (at, len), meaning, frame, context) {
                        IsEnd::Yes => {
                            // A tag that begins a line has the break before it; but a file may end with one.
                            let is_data = meaning == Inside::ValueClose && !self.trims;
                            let len_of_break = if is_data { 0 } else { frame.break_len(&text[..at]) };
                            return End::Here(at - len_of_break, meaning);
                        }
                        IsEnd::NotBefore(next) => from = next,
                        IsEnd::More => return End::Beyond(frame.without_break(text, at, context.is_last)),
                    }
                }
            }
        }
    }

    /// Whether the tag at these bytes of `text` ends the value.
    fn is_end(
        &mut self,
        text: &str,
        (at, len): (usize, usize),
        what: Inside,
        frame: &Frame,
        context: &mut Context<'_>,
    ) -> IsEnd {
        let before = if at == 0 { self.last } else { text.as_bytes()[at - 1] };
        let is_placed = frame.is_special || before == b'\n';
        let rest = &text[at + len..];
        let is_data = IsEnd::NotBefore(at + 1);
        // What is quoted in a value names other tools and parameters, as a rule.
        let is_known = match what {
            Inside::Cdata => return IsEnd::Yes,
            Inside::ValueClose => {
                let answer = frame.is_confirmed(what, rest, context.is_last);
                return answer.map_or(IsEnd::More, |is_end| if is_end { IsEnd::Yes } else { is_data });
            }
            // Where tags stand on lines of their own, one in the middle of a line is data.
            Inside::Parameter if !is_placed && frame.body.value_open.is_empty() => return is_data,
            Inside::CallOpen | Inside::Outside if !is_placed && frame.body.is_on_lines => {
                return is_data;
            }
            Inside::CallClose => match frame.is_confirmed(what, rest, context.is_last) {
                None => return IsEnd::More,
                Some(false) => return is_data,
                Some(true) => true,
            },
            Inside::Parameter => match frame.declares_parameter(rest, context) {
                None => return IsEnd::More,
                Some(Some(true)) => return IsEnd::Yes,
                Some(is_declared) => is_declared.is_none(),
            },
            Inside::CallOpen => match frame.may_call(rest, context) {
                None => return IsEnd::More,
                Some(may_call) => may_call,
            },
            Inside::Outside => true,
        };
        if self.looked.far == 0 {
            let open = usize::from(what == Inside::Parameter);
            self.looked = Looked { far: len, open, has_closed: false };
        }
        let outcome = self.look_on(text, at, is_known, frame, context);
        if !matches!(outcome, IsEnd::More) {
            self.looked.far = 0;
        }
        outcome
    }

    /// Whether the value ends with the tag at `at`, unclosed: unless its own closer comes later, after as many
    /// closers as openers of what is quoted in it.
    fn look_on(
        &mut self,
        text: &str,
        at: usize,
        is_known: bool,
        frame: &Frame,
        context: &mut Context<'_>,
    ) -> IsEnd {
        let looked = &mut self.looked;
        let is_data = IsEnd::NotBefore(at + 1);
        let is_over = if is_known { IsEnd::Yes } else { is_data };
        if *context.looks > MOST_LOOKS {
            return is_over;
        }
        loop {
            let from = at + looked.far;
            let (next, len, meaning) = match frame.inside.find(&text[from..], context.is_last) {
                Found::Marker { at, len, meaning } => (from + at, len, meaning),
                Found::Nothing if context.is_last => {
                    *context.looks += 1;
                    return is_over;
                }
                Found::Perhaps(next) => {
                    looked.far += next;
                    return IsEnd::More;
                }
                Found::Nothing => {
                    looked.far = text.len() - at;
                    return IsEnd::More;
                }
            };
            looked.far = next - at;
            let rest = &text[next + len..];
            match meaning {
                Inside::ValueClose => match frame.is_confirmed(meaning, rest, context.is_last) {
                    None => return IsEnd::More,
                    Some(true) if looked.open == 0 => return IsEnd::NotBefore(next),
                    Some(true) => (looked.open, looked.has_closed) = (looked.open - 1, true),
                    Some(false) => {}
                },
                Inside::Parameter => match frame.declares_parameter(rest, context) {
                    None => return IsEnd::More,
                    // The closer before it was the value's.
                    Some(Some(true)) if looked.open == 0 && looked.has_closed && !is_known => return is_data,
                    Some(_) => looked.open += 1,
                },
                Inside::CallClose | Inside::CallOpen | Inside::Outside | Inside::Cdata => {}
            }
            looked.far += len;
        }
    }
}
