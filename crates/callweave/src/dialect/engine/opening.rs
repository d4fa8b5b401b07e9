//! A call that is not certain yet: its tokens are kept, and shown once its name is known.

use super::super::bodies::{Compiled, Reader, Token};
use super::super::evidence::{Arguments, Evidence, Strength, Verdict, may_be_name};
use super::super::markers::Found;
use super::super::plan::{Meaning, Plan};
use super::super::position::Standing;
use super::super::tools::Tools;
use super::prose::Place;
use super::{Run, Shared, State, Step};
use crate::event::{CallKind, Completion, EventSink, NoticeCode, Span};

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
    pub(super) standing: Standing,
    has_name: bool,
    /// What the arguments begin with.
    head: String,
    /// Whether the reader said that there are none.
    has_none: bool,
    /// What the reader found odd in them.
    damage: Option<&'static str>,
    /// Which form read a name and then damage, and whether it is tried again because no other form fits.
    damaged: Option<usize>,
    is_last_try: bool,
    fences: usize,
    /// Why it was taken for text, where its name was known.
    reason: Option<&'static str>,
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
            standing: Standing::LineStart,
            has_name: false,
            head: String::new(),
            has_none: false,
            damage: None,
            damaged: None,
            is_last_try: false,
            fences: 0,
            reason: None,
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
                    opening.fences += usize::from(text[from..from + len].starts_with("```"));
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
                    opening.follow(&text[from..from + len]);
                    self.log.push(Entry::Argument(len));
                    len
                }
                Token::Converted(len) => {
                    opening.follow(&self.shared.scratch);
                    self.log.push(Entry::Converted(len, self.shared.scratch.clone()));
                    len
                }
                Token::NoArguments(len) => {
                    opening.has_none = true;
                    self.log.push(Entry::Converted(len, "{}".to_owned()));
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
                    self.fences += opening.fences;
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
                // What is cut after its name is a call that was cut.
                Token::End(Completion::Cut) if opening.has_name && is_last && compiled.opens_strongly() => {
                    let is_vouched = self.is_named || self.shared.tools.find(&self.shared.name).is_some();
                    if is_vouched && may_be_name(&self.shared.name) {
                        return self.commit(compiled, text, sink);
                    }
                    return self.give_up(plan, text, is_last, sink);
                }
                Token::Odd(detail) if opening.is_damage(plan) => {
                    // What is odd only because the input ends is not damaged but cut.
                    opening.damage = Some(detail).filter(|_| !is_last);
                    0
                }
                Token::End(_) | Token::Done | Token::Fail | Token::Odd(_) | Token::Empty(_) => {
                    return self.give_up(plan, text, is_last, sink);
                }
            };
            opening.at += len;
            if !opening.has_name {
                continue;
            }
            let Some((opener, _)) = opening.opener else { return self.commit(compiled, text, sink) };
            let strength = plan.live.openers[opener].strength;
            let Some(arguments) = opening.arguments(strength, &self.shared.name, &self.shared.tools) else {
                continue;
            };
            let (standing, place, space) = (opening.standing, opening.place, opening.before.0);
            let evidence = Evidence {
                standing,
                name: &self.shared.name,
                arguments,
                ..self.evidence(strength, &self.position, place)
            };
            let (verdict, reason) = evidence.verdict();
            let offset = self.emitter.offset() + space as u64;
            match verdict {
                Verdict::Call => return self.commit(compiled, text, sink),
                Verdict::Doubt if self.is_trusting => return self.commit(compiled, text, sink),
                Verdict::Doubt if offset >= self.settled => return self.doubt(place, space, true),
                Verdict::Doubt | Verdict::Text => {
                    let State::Opening(opening) = &mut self.state else { return Step::Wait };
                    opening.reason = opening.reason.or(Some(reason));
                    return self.give_up(plan, text, is_last, sink);
                }
            }
        }
    }

    /// What looked like a call is none: the next form is tried, or the opener becomes text.
    fn give_up(&mut self, plan: &Plan, text: &str, is_last: bool, sink: &mut EventSink<'_>) -> Step {
        let State::Opening(opening) = &mut self.state else { return Step::Wait };
        self.log.clear();
        if let Some(complaint) = self.shared.complaint.take() {
            self.emitter.notice(NoticeCode::Matcher, complaint, sink);
        }
        let place = opening.place;
        let Some((which, turn)) = opening.opener else {
            self.emitter.notice(
                NoticeCode::MalformedCall,
                "a list of calls goes on with something else",
                sink,
            );
            self.state = State::After { form: opening.form, is_closed: false };
            self.open_gap(false);
            return Step::Took(0);
        };
        let opener = &plan.live.openers[which];
        let (space, len) = opening.before;
        // Under an opener that stays open, only its own form goes on.
        let is_first = len > 0;
        let next = match opening.damaged {
            Some(damaged) if turn + 1 == opener.forms.len() && !opening.is_last_try => {
                opening.is_last_try = true;
                damaged
            }
            _ if opening.is_last_try => opener.forms.len(),
            _ => turn + 1,
        };
        if let Some(&candidate) = opener.forms.get(next).filter(|_| is_first) {
            let form = candidate.form;
            opening.opener = Some((which, next));
            opening.start = if candidate.is_part_of_body { space } else { space + len };
            opening.form = form;
            opening.reader = Reader::new(&plan.forms[form].form);
            opening.at = 0;
            opening.has_name = false;
            opening.head.clear();
            opening.has_none = false;
            opening.damage = None;
            opening.fences = 0;
            return Step::Took(0);
        }
        // An opener that nothing follows, beside a call.
        if is_last && self.calls > 0 && self.is_gap && len > 1 && text[space + len..].trim_ascii().is_empty()
        {
            self.emitter.markup(text, sink);
            self.state = State::Prose(place);
            return Step::Took(text.len());
        }
        // The same special token twice: the second is the opener.
        if let Some(rest) = text.get(space + len..).filter(|_| len > 1) {
            let rest = rest.trim_ascii_start();
            match plan.live.text.starting(rest, is_last) {
                Found::Perhaps(_) if opener.text.starts_with(rest) => return Step::Wait,
                Found::Marker { meaning: Meaning::Open(same), .. } if same == which => {
                    self.emitter.markup(&text[..space + len], sink);
                    self.state = State::Prose(place);
                    self.open_gap(false);
                    return Step::Took(space + len);
                }
                _ => {}
            }
        }
        self.vain += (opening.start + opening.at) as u64;
        if len == 1 && !self.is_trusting {
            // What it holds is no call either.
            self.position.begin_json();
        }
        if let Some(reason) = opening.reason {
            let detail = format!("what looks like a call of {:?} is text: {reason}", self.shared.name);
            self.emitter.notice(NoticeCode::Other, detail, sink);
        }
        self.state = State::Prose(place);
        if len == 0 {
            self.settled = self.settled.max(self.emitter.offset() + space as u64 + 1);
            return Step::Took(0);
        }
        let len = space + len;
        let space = if self.is_gap { space } else { 0 };
        self.words(&text[..len], space, place, sink);
        Step::Took(len)
    }

    /// The call is certain: everything that was kept is shown.
    fn commit(&mut self, compiled: &Compiled, text: &str, sink: &mut EventSink<'_>) -> Step {
        let State::Opening(opening) = std::mem::replace(&mut self.state, State::Prose(Place::Text)) else {
            return Step::Wait;
        };
        self.dialect.get_or_insert(compiled.dialect);
        self.fences += opening.fences;
        self.calls += 1;
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
                // The id is told with the name.
                Entry::Markup(len) | Entry::Id(len) => {
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
        self.was_odd = opening.damage.is_some();
        if let Some(detail) = opening.damage {
            self.emitter.notice(NoticeCode::MalformedCall, detail, sink);
        }
        self.state = State::Call { form: opening.form, reader: opening.reader };
        self.close_gap();
        Step::Took(opening.start + opening.at)
    }

    /// A declared tool is called by the name under which it was declared.
    fn settle_name(&mut self) {
        let Shared { tools, name, .. } = &mut self.shared;
        if let Some(declared) = tools.find(name).filter(|declared| declared != name) {
            *name = declared.to_owned();
        }
    }
}

impl Opening {
    /// Whether what is odd is damage: the name is known, and no other form fits better.
    fn is_damage(&mut self, plan: &Plan) -> bool {
        let is_only = |(opener, turn): (usize, usize)| plan.live.openers[opener].forms.len() == turn + 1;
        let is_known = self.has_name && !matches!(self.reader, Reader::Tagged(_));
        if is_known && !self.is_last_try && !self.opener.is_none_or(is_only) {
            self.damaged = self.damaged.or(self.opener.map(|(_, turn)| turn));
            return false;
        }
        is_known
    }

    /// Keeps the beginning of the arguments.
    fn follow(&mut self, text: &str) {
        const ENOUGH: usize = 256;
        if self.head.len() < ENOUGH {
            self.head.push_str(if self.head.is_empty() { text.trim_start() } else { text });
        }
    }

    /// What the arguments say so far. Nothing: they have not begun.
    fn arguments(&self, strength: Strength, name: &str, tools: &Tools) -> Option<Arguments> {
        if self.has_none {
            // A call in a tag of its own, under an opener, says that it has none.
            let is_framed = self.start > self.before.0 && matches!(self.reader, Reader::Tagged(_));
            return Some(if is_framed { Arguments::Begun } else { Arguments::Absent });
        }
        if self.damage.is_some() {
            return Some(Arguments::Damaged);
        }
        if self.head.is_empty() {
            return None;
        }
        let tool = tools.find(name).unwrap_or(name);
        if matches!(strength, Strength::Strong | Strength::Inner) {
            return Some(Arguments::Begun);
        }
        if "null".starts_with(self.head.as_str()) {
            return (self.head == "null").then_some(Arguments::Begun);
        }
        let Some(rest) = self.head.strip_prefix('{') else { return Some(Arguments::Foreign) };
        let rest = rest.trim_start();
        if tools.declares(tool, "").is_none() {
            return (!rest.is_empty()).then_some(Arguments::Begun);
        }
        let Some(key) = rest.strip_prefix('"') else {
            return (!rest.is_empty()).then_some(Arguments::Begun);
        };
        let (key, _) = key.split_once('"')?;
        let is_own = tools.declares(tool, key) != Some(false);
        Some(if is_own { Arguments::Begun } else { Arguments::Foreign })
    }
}
