//! Finds where a value ends: at a closer that is followed by what the grammar has there, and not at a quoted one.
//!
//! A tag that may end the value and does not fit is looked behind: if a closer that fits comes later, the text before
//! that is data, and so are examples whose tags balance. If none comes, the value ended there, and the text that
//! follows is in doubt.

use super::super::super::markers::MarkerMatch;
use super::super::{BodyContext, boundary};
use super::TaggedReader;
use super::frame::{TagMarkers, TagRole};

/// Where a value ends.
pub(super) enum ValueEnd {
    /// Not within these bytes, all of which are data.
    Beyond(usize),
    /// After these bytes, with that.
    Here(usize, TagRole),
}

impl TagMarkers {
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
enum EndVerdict {
    Yes,
    /// No, nor does anything before this position.
    NotBefore(usize),
    /// More text is needed.
    More,
}

/// The findings behind a tag that may end a value and does not fit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lookahead {
    /// How many bytes from the tag on; none: it was not looked at yet.
    far: usize,
    /// How many parameters are open there, and whether they are counted: those of an example are.
    open: usize,
    counts: bool,
    /// Whether one was closed, and its call goes on.
    has_closed: bool,
    /// Whether the tag is none of a value.
    is_strong: bool,
}

/// How often the rest of a text may be looked through from such tags: else many would cost as many times its length.
const MAX_LOOKS: u32 = 64;

/// The maximum distance looked behind such a tag.
const LONGEST_LOOK: usize = 1 << 18;

impl TaggedReader {
    /// Returns where the value ends that `text` goes on with; its first `from` bytes are known to be data.
    #[inline]
    pub(super) fn find_end(&mut self, text: &str, from: usize, context: &mut BodyContext<'_>) -> ValueEnd {
        let Some(frame) = &context.form.frame else { return ValueEnd::Beyond(text.len()) };
        let mut from = from.max(self.clear).min(text.len());
        loop {
            match frame.inside.find(&text[from..], context.is_last) {
                MarkerMatch::Nothing => {
                    return ValueEnd::Beyond(frame.without_break(text, text.len(), context.is_last));
                }
                MarkerMatch::Perhaps(at) => {
                    return ValueEnd::Beyond(frame.without_break(text, from + at, context.is_last));
                }
                MarkerMatch::Marker { at, len, meaning } => {
                    let at = from + at;
                    match self.is_end(text, (at, len), meaning, frame, context) {
                        EndVerdict::Yes => {
                            // A tag that begins a line has the break before it; but a file may end with one.
                            let is_data = meaning == TagRole::ValueClose && !self.trims;
                            let len_of_break = if is_data { 0 } else { frame.break_len(&text[..at]) };
                            return ValueEnd::Here(at - len_of_break, meaning);
                        }
                        EndVerdict::NotBefore(next) => {
                            from = next;
                            self.clear = self.clear.max(next);
                        }
                        EndVerdict::More => {
                            return ValueEnd::Beyond(frame.without_break(text, at, context.is_last));
                        }
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
        what: TagRole,
        frame: &TagMarkers,
        context: &mut BodyContext<'_>,
    ) -> EndVerdict {
        let before = if at == 0 { self.last } else { text.as_bytes()[at - 1] };
        let is_placed = frame.is_special || before == b'\n';
        let rest = &text[at + len..];
        let is_data = EndVerdict::NotBefore(at + 1);
        // Markup quoted in a value names other tools and parameters, as a rule.
        let is_known = match what {
            TagRole::Cdata => return EndVerdict::Yes,
            TagRole::ValueClose => {
                match frame.fits(what, rest, (self.is_wrapped, &self.key), context.is_last, context) {
                    None => return EndVerdict::More,
                    Some(true) => return EndVerdict::Yes,
                    Some(false) => true,
                }
            }
            // Where tags stand on lines of their own, one in the middle of a line is data.
            TagRole::Parameter if !is_placed && frame.body.value_open.is_empty() => return is_data,
            TagRole::CallOpen | TagRole::Outside if !is_placed && frame.body.is_on_lines => {
                return is_data;
            }
            TagRole::CallClose => {
                match frame.fits(what, rest, (self.is_wrapped, &self.key), context.is_last, context) {
                    None => return EndVerdict::More,
                    Some(false) => return is_data,
                    // Behind a name in an element, values have no closer as a rule.
                    Some(true) if self.spelling.is_some_and(|which| frame.is_element(which)) => {
                        return EndVerdict::Yes;
                    }
                    Some(true) => true,
                }
            }
            TagRole::Parameter => match frame.parameter_name(rest, context.is_last) {
                None => return EndVerdict::More,
                // Nobody gives one parameter twice and forgets to close it.
                Some("") => return is_data,
                Some(name) if name == self.key => false,
                Some(name) => context.tools.declares(context.name, name) != Some(false),
            },
            // A value whose closer is missing: the next one begins with its name in an element, as this one did.
            TagRole::Spelled(which) => {
                return match frame.is_spelled_parameter(which, rest, &self.key, context.is_last, context) {
                    None => EndVerdict::More,
                    Some(true) if self.spelling == Some(which) && frame.is_element(which) => EndVerdict::Yes,
                    Some(_) => is_data,
                };
            }
            TagRole::CallOpen => match frame.may_call(rest, context) {
                None => return EndVerdict::More,
                Some(may_call) => may_call,
            },
            TagRole::Outside => true,
        };
        if self.looked.far == 0 {
            let open = usize::from(what == TagRole::Parameter);
            let counts = matches!(what, TagRole::Parameter | TagRole::CallOpen);
            let is_strong = !matches!(what, TagRole::ValueClose | TagRole::Parameter);
            self.looked = Lookahead { far: len, open, counts, has_closed: false, is_strong };
        }
        let outcome = self.look_on(text, at, is_known, frame, context);
        match outcome {
            EndVerdict::More => return outcome,
            EndVerdict::Yes => {
                self.has_unfit_end = true;
                // Where the next parameter follows, it is the same call that goes on.
                *context.in_doubt |= what != TagRole::Parameter;
            }
            EndVerdict::NotBefore(_) => {}
        }
        self.looked.far = 0;
        outcome
    }

    /// Whether the value ends with the tag at `at`: unless a closer that fits comes later, after as many closers as
    /// openers of what is quoted before it.
    fn look_on(
        &mut self,
        text: &str,
        at: usize,
        is_known: bool,
        frame: &TagMarkers,
        context: &mut BodyContext<'_>,
    ) -> EndVerdict {
        let looked = &mut self.looked;
        let is_data = EndVerdict::NotBefore(at + 1);
        let is_over = if is_known { EndVerdict::Yes } else { is_data };
        if *context.looks > MAX_LOOKS {
            return is_over;
        }
        let end = boundary(text, at + LONGEST_LOOK);
        let is_far = end < text.len();
        let (text, is_last) = (&text[..end], context.is_last && !is_far);
        loop {
            let from = at + looked.far;
            let (next, len, meaning) = match frame.inside.find(&text[from..], is_last || is_far) {
                MarkerMatch::Marker { at, len, meaning } => (from + at, len, meaning),
                MarkerMatch::Nothing | MarkerMatch::Perhaps(_) if is_last || is_far => {
                    *context.looks += 1;
                    // A closer of the call that nothing follows up, and another call, are more than words of a file.
                    return if is_last || looked.is_strong { is_over } else { is_data };
                }
                MarkerMatch::Perhaps(next) => {
                    looked.far += next;
                    return EndVerdict::More;
                }
                MarkerMatch::Nothing => {
                    looked.far = text.len() - at;
                    return EndVerdict::More;
                }
            };
            looked.far = next - at;
            let rest = &text[next + len..];
            match meaning {
                TagRole::ValueClose if looked.open > 0 => match frame.is_followed(rest, is_last || is_far) {
                    None => return EndVerdict::More,
                    Some(true) => (looked.open, looked.has_closed) = (looked.open - 1, true),
                    Some(false) => {}
                },
                TagRole::ValueClose => {
                    match frame.fits(meaning, rest, (self.is_wrapped, &self.key), is_last || is_far, context)
                    {
                        None => return EndVerdict::More,
                        Some(true) => return EndVerdict::NotBefore(next),
                        Some(false) => {}
                    }
                }
                TagRole::Parameter => match frame.parameter_name(rest, is_last || is_far) {
                    None => return EndVerdict::More,
                    Some("") => {}
                    // The closer before it was the value's.
                    Some(name)
                        if looked.open == 0
                            && looked.has_closed
                            && !is_known
                            && context.tools.declares(context.name, name) == Some(true) =>
                    {
                        return is_data;
                    }
                    Some(_) => looked.open += usize::from(looked.counts),
                },
                TagRole::CallOpen => {
                    // First on its line, or right behind another tag.
                    let is_placed = !frame.body.is_on_lines || text[..next].ends_with(['\n', '>']);
                    looked.counts |= is_placed;
                    looked.has_closed = false;
                }
                // A quotation ends with its call.
                TagRole::CallClose => (looked.counts, looked.has_closed) = (looked.open > 0, false),
                TagRole::Outside | TagRole::Cdata | TagRole::Spelled(_) => {}
            }
            looked.far += len;
        }
    }
}
