//! Prose: visible text, thoughts and messages, and the markers that stand in them.

use super::super::bodies::Reader;
use super::super::channel::{LONGEST_HEADER, Route};
use super::super::markers::{Found, Markers};
use super::super::plan::{Live, Meaning, Plan};
use super::{Run, State, Step};
use crate::event::{CallKind, EventSink, NoticeCode};

/// What prose is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Text,
    /// Which of the live thoughts.
    Thought(usize),
    /// The visible text of a message.
    Message,
    /// A message with thoughts.
    MessageThought,
    /// A message with calls.
    MessageCalls,
    /// A message for nobody.
    MessageNothing,
}

impl Place {
    fn is_thought(self) -> bool {
        matches!(self, Self::Thought(_) | Self::MessageThought)
    }

    fn markers(self, live: &Live) -> &Markers<Meaning> {
        match (self, &live.messages) {
            (Self::Thought(which), _) => &live.thoughts[which],
            (Self::MessageCalls, Some(messages)) => &messages.calls,
            (Self::Message | Self::MessageThought | Self::MessageNothing, Some(messages)) => &messages.prose,
            _ => &live.text,
        }
    }
}

impl Run {
    pub(super) fn prose(
        &mut self,
        plan: &Plan,
        place: Place,
        text: &str,
        is_last: bool,
        sink: &mut EventSink<'_>,
    ) -> Step {
        if text.is_empty() {
            return Step::Wait;
        }
        let live = plan.live(self.dialect);
        let space = if self.is_gap { self.gap(text) } else { 0 };
        if space == text.len() {
            if !is_last {
                self.gap_seen = space;
                return Step::Wait;
            }
            let is_all = self.emitter.is_untouched() && !place.is_thought() && !self.is_frame;
            if is_all {
                self.emitter.text(text, sink)
            } else {
                self.emitter.markup(text, sink)
            }
            return Step::Took(space);
        }
        let words = match place.markers(live).find(&text[space..], is_last) {
            Found::Nothing => text.len() - space,
            Found::Perhaps(at) => at,
            Found::Marker { at: 0, len, meaning } => {
                return self.marker(plan, live, meaning, place, (space, len), text, sink);
            }
            Found::Marker { at, .. } => at,
        };
        if words == 0 {
            self.gap_seen = space;
            return Step::Wait;
        }
        self.words(&text[..space + words], space, place, sink);
        Step::Took(space + words)
    }

    /// How many bytes of white space the gap goes on for.
    pub(super) fn gap(&self, text: &str) -> usize {
        let seen = self.gap_seen.min(text.len());
        seen + text[seen..].bytes().take_while(u8::is_ascii_whitespace).count()
    }

    /// Prose, the first `space` bytes of which are the white space of a gap.
    pub(super) fn words(&mut self, text: &str, space: usize, place: Place, sink: &mut EventSink<'_>) {
        let (space, words) = text.split_at(if self.is_frame || place.is_thought() { space } else { 0 });
        self.emitter.markup(space, sink);
        if place == Place::MessageNothing {
            self.emitter.markup(words, sink);
        } else if place.is_thought() {
            self.emitter.reasoning(words, sink);
        } else {
            self.visible(words, sink);
        }
        let line = words.trim_end_matches([' ', '\t']);
        if !line.is_empty() {
            self.begins_line = line.ends_with('\n');
        }
        self.close_gap();
    }

    fn visible(&mut self, words: &str, sink: &mut EventSink<'_>) {
        if self.emitter.is_untouched() && !self.continues.is_empty() {
            self.emitter.text_of_prompt(&self.continues, sink);
        }
        self.has_text = true;
        self.emitter.text(words, sink);
        if let Some(lead) = &mut self.lead {
            lead.push_str(words);
        }
    }

    pub(super) fn open_gap(&mut self, is_frame: bool) {
        self.is_gap = true;
        self.begins_line = true;
        self.is_frame = is_frame;
        self.gap_seen = 0;
    }

    pub(super) fn close_gap(&mut self) {
        self.is_gap = false;
        self.is_frame = false;
        self.gap_seen = 0;
    }

    #[expect(clippy::too_many_arguments, reason = "what was found, where, and in what")]
    fn marker(
        &mut self,
        plan: &Plan,
        live: &Live,
        meaning: Meaning,
        place: Place,
        (space, len): (usize, usize),
        text: &str,
        sink: &mut EventSink<'_>,
    ) -> Step {
        let whole = space + len;
        match meaning {
            Meaning::Open(opener) => {
                let form = live.openers[opener].forms[0].form;
                let offset = self.emitter.offset() + space as u64;
                if plan.forms[form].is_bare() && self.vain.is_enough_at(offset) {
                    self.words(&text[..whole], if self.is_gap { space } else { 0 }, place, sink);
                    return Step::Took(whole);
                }
                let reader = Reader::new(&plan.forms[form].form);
                self.open((space, len), Some((opener, 0)), form, reader, place);
                if live.openers[opener].forms[0].is_part_of_body
                    && let State::Opening(opening) = &mut self.state
                {
                    opening.start = space;
                }
                return Step::Took(0);
            }
            Meaning::Header => {
                self.emitter.markup(&text[..space], sink);
                self.emitter.end_reasoning(sink);
                self.state = State::Header { is_given: false };
                self.open_gap(!self.has_text);
                return Step::Took(space);
            }
            Meaning::Think(_) if place.is_thought() && !self.is_gap => {
                // A thought inside a thought: the model quotes its own marker.
                self.words(&text[..whole], 0, place, sink);
                return Step::Took(whole);
            }
            Meaning::Think(which) => {
                self.lead = None;
                self.emitter.markup(&text[..whole], sink);
                self.state = State::Prose(Place::Thought(which));
                self.open_gap(true);
            }
            Meaning::Unthink => {
                if !place.is_thought() {
                    self.unthink(sink);
                }
                self.lead = None;
                self.emitter.markup(&text[..whole], sink);
                self.emitter.end_reasoning(sink);
                self.state = State::Prose(Place::Text);
                self.open_gap(!self.has_text);
            }
            Meaning::End => {
                self.emitter.markup(&text[..whole], sink);
                self.emitter.end_reasoning(sink);
                self.state = State::Prose(Place::Text);
                self.open_gap(!self.has_text);
            }
            Meaning::Drop => {
                self.emitter.markup(&text[..whole], sink);
                self.open_gap(self.is_frame);
            }
        }
        Step::Took(whole)
    }

    /// A thought ends that did not begin here: the prompt began it, if nothing else has come yet.
    fn unthink(&mut self, sink: &mut EventSink<'_>) {
        match self.lead.take() {
            Some(lead) if lead.is_empty() => {}
            Some(lead) => {
                self.emitter.correct_to_reasoning(&lead, sink);
                self.has_text = false;
            }
            None => self.emitter.notice(NoticeCode::StrayMarkup, "a thought ends that did not begin", sink),
        }
    }

    /// In the header of a message: it is read when it is whole.
    pub(super) fn header(
        &mut self,
        plan: &Plan,
        is_given: bool,
        text: &str,
        is_last: bool,
        sink: &mut EventSink<'_>,
    ) -> Step {
        let live = plan.live(self.dialect);
        let Some(messages) = &live.messages else { return Step::Wait };
        let grammar = messages.grammar;
        if is_given {
            match grammar.may_begin_in_header(text, is_last) {
                None => return Step::Wait,
                Some(true) => {}
                Some(false) => {
                    self.state = State::Prose(Place::Text);
                    return Step::Took(0);
                }
            }
        }
        let limit = LONGEST_HEADER + grammar.header_end.len();
        let begin = &text.as_bytes()[..limit.min(text.len())];
        let Some(len) = memchr::memmem::find(begin, grammar.header_end.as_bytes()) else {
            let cut = if text.len() >= limit {
                // Too long for a header: what began it is syntax, what follows is text.
                let start = grammar.starts.iter().find(|start| text.starts_with(**start));
                start.map_or(0, |start| start.len())
            } else if is_last {
                text.len()
            } else {
                return Step::Wait;
            };
            self.emitter.markup(&text[..cut], sink);
            self.emitter.notice(NoticeCode::StrayMarkup, "the header of a message has no end", sink);
            self.state = State::Prose(Place::Text);
            return Step::Took(cut);
        };
        self.dialect = Some(messages.dialect);
        let whole = len + grammar.header_end.len();
        let route = (grammar.route)(&text[..len], &self.shared.tools);
        let place = match route {
            Route::Text => Place::Message,
            Route::Thought => Place::MessageThought,
            Route::Calls => Place::MessageCalls,
            Route::Nothing => {
                self.emitter.notice(NoticeCode::MalformedCall, "arguments are meant for no tool", sink);
                Place::MessageNothing
            }
            Route::Call { start, end, kind } => {
                self.emitter.markup(&text[..start], sink);
                self.shared.name.clear();
                self.shared.name.push_str(&text[start..end]);
                self.emitter.call(&self.shared.name, "", kind, end - start, sink);
                if kind == CallKind::Function {
                    self.flag_unknown(sink);
                }
                self.emitter.markup(&text[end..whole], sink);
                self.was_odd = false;
                self.state = State::Call { form: messages.form, reader: Reader::of_arguments() };
                self.close_gap();
                return Step::Took(whole);
            }
        };
        self.emitter.markup(&text[..whole], sink);
        self.state = State::Prose(place);
        self.open_gap(!self.has_text && !place.is_thought());
        Step::Took(whole)
    }
}
