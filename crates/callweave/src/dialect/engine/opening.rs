//! A call that is not certain yet: its tokens are kept, and shown once its name is known.

use super::super::bodies::{Compiled, Reader, Token};
use super::super::plan::Plan;
use super::prose::Place;
use super::{Run, State, Step};
use crate::event::{CallKind, EventSink, NoticeCode, Span};

#[derive(Debug)]
pub(super) struct Opening {
    /// How long the white space before the opener is, and the opener.
    before: (usize, usize),
    /// Where the body begins.
    pub(super) start: usize,
    /// How far the reader has come from there.
    at: usize,
    /// Which of the live openers, and which of its forms; none for a further call of the same body.
    opener: Option<(usize, usize)>,
    form: usize,
    reader: Reader,
    /// Where it stands.
    place: Place,
    has_name: bool,
    /// How many bytes of arguments are in the log.
    arguments: usize,
    has_fence: bool,
}

/// A token that is kept until the call is certain.
#[derive(Debug)]
pub(super) enum Entry {
    Markup(usize),
    Name(usize),
    Id(usize),
    Argument(usize),
    Converted(usize, String),
}

/// Bare bodies that were read in vain. Inside one, the next is tried; how often must be bounded, or deep
/// nesting would be read over and over.
#[derive(Debug, Default)]
pub(super) struct Vain {
    from: u64,
    until: u64,
    bytes: u64,
}

impl Vain {
    /// How many times over a text may be read.
    const TIMES: u64 = 64;

    fn add(&mut self, from: u64, until: u64) {
        if from >= self.until {
            *self = Self { from, until, bytes: 0 };
        }
        self.until = self.until.max(until);
        self.bytes += until - from;
    }

    pub(super) fn is_enough_at(&self, offset: u64) -> bool {
        offset < self.until && self.bytes > Self::TIMES * (self.until - self.from)
    }
}

impl Run {
    pub(super) fn open(
        &mut self,
        before: (usize, usize),
        opener: Option<(usize, usize)>,
        form: usize,
        reader: Reader,
        place: Place,
    ) {
        self.log.clear();
        self.shared.id.clear();
        self.state = State::Opening(Opening {
            before,
            start: before.0 + before.1,
            at: 0,
            opener,
            form,
            reader,
            place,
            has_name: false,
            arguments: 0,
            has_fence: false,
        });
    }

    pub(super) fn opening(
        &mut self,
        plan: &Plan,
        text: &str,
        is_last: bool,
        sink: &mut EventSink<'_>,
    ) -> Step {
        let State::Opening(opening) = &mut self.state else { return Step::Wait };
        let compiled = &plan.forms[opening.form];
        loop {
            let from = opening.start + opening.at;
            let mut context = self.shared.context(compiled, is_last);
            let token = opening.reader.next(&text[from..], &mut context);
            let len = match token {
                Token::More => return Step::Wait,
                Token::Markup(len) => {
                    opening.has_fence |= text[from..from + len].starts_with("```");
                    self.log.push(Entry::Markup(len));
                    len
                }
                Token::Name(len) => {
                    opening.has_name = true;
                    self.log.push(Entry::Name(len));
                    len
                }
                Token::Id(len) => {
                    self.log.push(Entry::Id(len));
                    len
                }
                Token::Argument(len) => {
                    opening.arguments += text[from..from + len].trim().len();
                    self.log.push(Entry::Argument(len));
                    len
                }
                Token::Converted(len) => {
                    opening.arguments += self.shared.scratch.len();
                    self.log.push(Entry::Converted(len, self.shared.scratch.clone()));
                    len
                }
                Token::Done if opening.opener.is_none() => {
                    // The body had no further call.
                    let (form, len) = (opening.form, opening.at);
                    self.emitter.markup(&text[..len], sink);
                    self.state = State::After { form, is_closed: false };
                    self.open_gap(false);
                    return Step::Took(len);
                }
                // Between markers, an empty list of calls is syntax; alone it may be anything.
                Token::Empty(len) if opening.opener.is_some() && !compiled.is_bare() => {
                    let (form, len) = (opening.form, from + len);
                    self.has_fence |= opening.has_fence;
                    self.log.clear();
                    self.emitter.end_reasoning(sink);
                    self.emitter.markup(&text[..len], sink);
                    self.state = State::After { form, is_closed: false };
                    self.open_gap(false);
                    return Step::Took(len);
                }
                Token::Empty(len) if opening.opener.is_none() => {
                    self.log.push(Entry::Markup(len));
                    len
                }
                Token::End(_) | Token::Done | Token::Fail | Token::Odd(_) | Token::Empty(_) => {
                    return self.give_up(plan, text, sink);
                }
            };
            opening.at += len;
            // How much of the arguments has to be seen before it is certain that this is a call.
            let candidate = opening.opener.map(|(opener, turn)| {
                let forms = &plan.live(self.dialect).openers[opener].forms;
                (forms[turn], opening.before.1 > 0 && forms.len() > turn + 1)
            });
            let is_tag = candidate.is_some_and(|(candidate, _)| candidate.is_part_of_body);
            let needed = match candidate {
                None => 0,
                Some(_) if compiled.is_bare() => 2,
                Some(_) if compiled.may_be_quoted() && (is_tag || compiled.is_json()) => 1,
                // What else the same opener may open is tried before it is too late.
                Some((_, has_rivals)) => usize::from(has_rivals),
            };
            if opening.has_name && opening.arguments >= needed {
                let is_known = self.shared.tools.contains(&self.shared.name);
                let is_free = self.shared.tools.is_empty() && !plan.is_auto();
                let may_be_prose =
                    opening.opener.is_some() && compiled.is_bare() && !is_free && self.has_text;
                let is_inner = is_tag && compiled.may_be_quoted() && !compiled.form.open.is_empty();
                // A tag that stands in the middle of a line, without the marker around it, is quoted.
                let begins_line = self.begins_line || text[..opening.before.0].contains('\n');
                if (may_be_prose || is_inner && !begins_line) && !is_known {
                    return self.give_up(plan, text, sink);
                }
                return self.commit(compiled, text, sink);
            }
        }
    }

    /// What looked like a call is none: the next form is tried, or the opener becomes text.
    fn give_up(&mut self, plan: &Plan, text: &str, sink: &mut EventSink<'_>) -> Step {
        let State::Opening(opening) = &mut self.state else { return Step::Wait };
        self.log.clear();
        if let Some(complaint) = self.shared.complaint.take() {
            self.emitter.notice(NoticeCode::Matcher, complaint, sink);
        }
        let place = opening.place;
        let Some((opener, turn)) = opening.opener else {
            self.emitter.notice(
                NoticeCode::MalformedCall,
                "a list of calls goes on with something else",
                sink,
            );
            self.state = State::Prose(Place::Text);
            self.open_gap(false);
            return Step::Took(0);
        };
        let opener = &plan.live(self.dialect).openers[opener];
        let (space, len) = opening.before;
        // Under an opener that stays open, only its own form goes on.
        let is_first = len > 0;
        if let Some(&candidate) = opener.forms.get(turn + 1).filter(|_| is_first) {
            let form = candidate.form;
            opening.opener = opening.opener.map(|(opener, turn)| (opener, turn + 1));
            opening.start = if candidate.is_part_of_body { space } else { space + len };
            opening.form = form;
            opening.reader = Reader::new(&plan.forms[form].form);
            opening.at = 0;
            opening.has_name = false;
            opening.arguments = 0;
            opening.has_fence = false;
            return Step::Took(0);
        }
        if plan.forms[opening.form].is_bare() {
            let start = self.emitter.offset();
            let read = (opening.start + opening.at) as u64;
            self.vain.add(start + space as u64, start + read);
        }
        let len = space + len;
        let space = if self.is_gap { space } else { 0 };
        self.state = State::Prose(place);
        self.words(&text[..len], space, place, sink);
        Step::Took(len)
    }

    /// The call is certain: everything that was kept is shown.
    fn commit(&mut self, compiled: &Compiled, text: &str, sink: &mut EventSink<'_>) -> Step {
        let State::Opening(opening) = std::mem::replace(&mut self.state, State::Prose(Place::Text)) else {
            return Step::Wait;
        };
        self.dialect = Some(compiled.dialect);
        self.has_fence |= opening.has_fence;
        self.lead = None;
        self.settle_name();
        self.emitter.end_reasoning(sink);
        let (opener, body) = text.split_at(opening.start);
        self.emitter.markup(opener, sink);
        let log = std::mem::take(&mut self.log);
        let mut early: Vec<(Span, &Entry, usize)> = Vec::new();
        let mut has_begun = false;
        let mut at = 0;
        for entry in &log {
            let len = match entry {
                Entry::Markup(len) => {
                    self.emitter.markup(&body[at..at + len], sink);
                    *len
                }
                Entry::Name(len) => {
                    self.emitter.call(&self.shared.name, &self.shared.id, CallKind::Function, *len, sink);
                    has_begun = true;
                    self.flag_unknown(sink);
                    for &(span, entry, from) in &early {
                        match entry {
                            Entry::Argument(len) => {
                                self.emitter.argument_from(span, &body[from..from + len], sink);
                            }
                            Entry::Converted(_, made) => self.emitter.argument_from(span, made, sink),
                            _ => {}
                        }
                    }
                    *len
                }
                Entry::Id(len) if has_begun => {
                    self.emitter.identity(&self.shared.id, *len, sink);
                    *len
                }
                // The id is told with the name that follows.
                Entry::Id(len) => {
                    self.emitter.markup(&body[at..at + len], sink);
                    *len
                }
                Entry::Argument(len) | Entry::Converted(len, _) if !has_begun => {
                    early.push((self.emitter.advance(*len), entry, at));
                    *len
                }
                Entry::Argument(len) => {
                    self.emitter.argument(&body[at..at + len], *len, sink);
                    *len
                }
                Entry::Converted(len, made) => {
                    self.emitter.argument(made, *len, sink);
                    *len
                }
            };
            at += len;
        }
        drop(early);
        self.log = log;
        self.log.clear();
        self.shared.id.clear();
        self.was_odd = false;
        self.state = State::Call { form: opening.form, reader: opening.reader };
        self.close_gap();
        Step::Took(opening.start + opening.at)
    }

    /// Some models put a namespace before the name of a declared tool.
    fn settle_name(&mut self) {
        if !self.shared.tools.is_empty()
            && !self.shared.tools.contains(&self.shared.name)
            && let Some((space, last)) = self.shared.name.rsplit_once('.')
            && self.shared.tools.contains(last)
        {
            let len = space.len() + 1;
            self.shared.name.drain(..len);
        }
    }
}
