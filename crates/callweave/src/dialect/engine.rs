//! The state machine that all dialects share.
//!
//! Text is looked at from a cursor; what has been accounted for is never seen again, and what may still
//! change its meaning (the beginning of a marker, a call that is not certain yet) stays in front of the
//! cursor. A call is certain once its name is known; until then its tokens are kept in a log, and if it
//! turns out to be none, the text comes back as text.

use std::sync::Arc;

use super::bodies::{After, Compiled, Context, Reader, Token};
use super::channel::{LONGEST_HEADER, Route};
use super::emit::Emitter;
use super::markers::{Found, Markers};
use super::matcher::{Matched, Matcher};
use super::plan::{Live, Meaning, Opener, Plan};
use super::spec::{Body, Start};
use super::tools::Tools;
use crate::event::{CallKind, Completion, EventSink, NoticeCode, Span};

/// The state of reading one text stream.
#[derive(Debug)]
pub(super) struct Engine {
    plan: Arc<Plan>,
    run: Run,
}

#[derive(Debug)]
struct Run {
    state: State,
    emitter: Emitter,
    tools: Arc<Tools>,
    /// The dialect that the text has settled on, where it had to decide.
    dialect: Option<usize>,
    /// Whether only white space has come since the last piece of markup.
    is_gap: bool,
    /// Whether white space in the gap is never text.
    is_frame: bool,
    /// How much of the gap was seen to be white space.
    gap_seen: usize,
    has_text: bool,
    /// The visible text so far, as long as it may turn out to be a thought that the prompt opened.
    lead: Option<String>,
    /// What the visible text is shown behind.
    continues: String,
    has_fence: bool,
    was_odd: bool,
    vain: Vain,
    log: Vec<Entry>,
    name: String,
    id: String,
    scratch: String,
    complaint: Option<String>,
}

/// Bare bodies that were read in vain. Inside one, the next is tried; how often must be bounded, or deep
/// nesting would be read over and over.
#[derive(Debug, Default)]
struct Vain {
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

    fn is_enough_at(&self, offset: u64) -> bool {
        offset < self.until && self.bytes > Self::TIMES * (self.until - self.from)
    }
}

#[derive(Debug)]
enum State {
    Prose(Place),
    /// In the header of a message, or perhaps in one that the prompt began.
    Header {
        is_given: bool,
    },
    /// A call that is not certain yet.
    Opening(Opening),
    /// A certain call.
    Call {
        form: usize,
        reader: Reader,
    },
    /// Right after a body of this form; whether a closer has come.
    After {
        form: usize,
        is_closed: bool,
    },
}

/// What prose is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
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

#[derive(Debug)]
struct Opening {
    /// How long the white space before the opener is, and the opener.
    before: (usize, usize),
    /// Where the body begins.
    start: usize,
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
}

/// A token that is kept until the call is certain.
#[derive(Debug)]
enum Entry {
    Markup(usize),
    Name(usize),
    Id(usize),
    Argument(usize),
    Converted(usize, String),
}

/// What a step did.
enum Step {
    /// It accounted for this many bytes, or changed the state.
    Took(usize),
    /// It accounted for this many bytes, which were all, and nothing is pending.
    Rest(usize),
    /// It needs more text.
    Wait,
}

impl Engine {
    pub(super) fn new(plan: Arc<Plan>, tools: Arc<Tools>, start: Option<Start>, choice: u32) -> Self {
        let live = plan.live(None);
        let only = match &*plan.dialects {
            [only] => Some(only),
            _ => None,
        };
        let default = only.map_or(Start::Text, |only| only.starts_in);
        let begins_in_header =
            live.messages.as_ref().is_some_and(|messages| messages.grammar.begins_with.is_some());
        let state = match start.unwrap_or(default) {
            Start::Reasoning if !live.thoughts.is_empty() => State::Prose(Place::Thought(0)),
            _ if begins_in_header && only.is_some() => State::Header { is_given: true },
            _ => State::Prose(Place::Text),
        };
        let may_be_thought = start.is_none() && !live.thoughts.is_empty();
        let run = Run {
            state,
            emitter: Emitter::new(choice),
            tools,
            dialect: None,
            is_gap: true,
            is_frame: false,
            gap_seen: 0,
            has_text: false,
            vain: Vain::default(),
            lead: may_be_thought.then(String::new),
            continues: only.map_or_else(String::new, |only| only.continues.clone()),
            has_fence: false,
            was_odd: false,
            log: Vec::new(),
            name: String::new(),
            id: String::new(),
            scratch: String::new(),
            complaint: None,
        };
        Self { plan, run }
    }

    /// Reads `text`, which begins where the last call stopped, and tells how much of it is accounted
    /// for. With `is_last` no more will come, and all of it is.
    #[inline]
    pub(super) fn read(&mut self, text: &str, is_last: bool, sink: &mut EventSink<'_>) -> usize {
        let mut at = 0;
        loop {
            match self.run.step(&self.plan, &text[at..], is_last, sink) {
                Step::Took(taken) => at += taken,
                Step::Rest(taken) => return at + taken,
                Step::Wait => return at,
            }
        }
    }

    /// Shows calls that a matcher found in the whole text; what stands between them is read as usual.
    pub(super) fn read_around(&mut self, text: &str, calls: &[Matched], sink: &mut EventSink<'_>) {
        let mut at = 0;
        for call in calls {
            self.read(&text[at..call.start], true, sink);
            let run = &mut self.run;
            run.name.clone_from(&call.name);
            run.emitter.call(&call.name, "", CallKind::Function, 0, sink);
            run.flag_unknown(sink);
            let arguments = if call.arguments.is_empty() { "{}" } else { &call.arguments };
            run.emitter.argument(arguments, call.end - call.start, sink);
            run.emitter.end(Completion::Whole, sink);
            run.state = State::Prose(Place::Text);
            run.open_gap(false);
            at = call.end;
        }
        self.read(&text[at..], true, sink);
    }

    /// Tells of a matcher that failed.
    pub(super) fn complain(&mut self, detail: String, sink: &mut EventSink<'_>) {
        self.run.emitter.notice(NoticeCode::Matcher, detail, sink);
    }

    /// The matchers that are to be given the whole text.
    pub(super) fn whole_text_matchers(&self) -> impl Iterator<Item = &Matcher> {
        self.plan.forms.iter().filter_map(|compiled| match &compiled.form.body {
            Body::Matched(matcher) if compiled.form.open.is_empty() => Some(matcher),
            _ => None,
        })
    }

    /// Ends what is open. All text must have been read as the last.
    pub(super) fn finish(&mut self, sink: &mut EventSink<'_>) {
        self.run.emitter.end(Completion::Whole, sink);
    }

    /// The dialect that the text has settled on.
    pub(super) fn dialect(&self) -> Option<&str> {
        let index = if self.plan.is_auto() { self.run.dialect? } else { 0 };
        self.plan.dialects.get(index).map(|dialect| dialect.name.as_str())
    }
}

impl Run {
    #[inline]
    fn step(&mut self, plan: &Plan, text: &str, is_last: bool, sink: &mut EventSink<'_>) -> Step {
        match &mut self.state {
            State::Call { form, reader } => {
                let form = *form;
                let mut context = Context {
                    form: &plan.forms[form],
                    tools: &self.tools,
                    name: &mut self.name,
                    id: &mut self.id,
                    scratch: &mut self.scratch,
                    complaint: &mut self.complaint,
                    is_last,
                };
                let token = reader.next(text, &mut context);
                // The common case of a long argument: no second look at what is exhausted.
                let is_through = |len: usize| len == text.len() && !is_last && reader.is_in_argument();
                match token {
                    Token::Argument(len) if is_through(len) => {
                        self.emitter.argument(text, len, sink);
                        Step::Rest(len)
                    }
                    Token::Converted(len) if is_through(len) => {
                        self.emitter.argument(&self.scratch, len, sink);
                        Step::Rest(len)
                    }
                    token => self.show(token, form, text, sink),
                }
            }
            State::Prose(place) => {
                let place = *place;
                self.prose(plan, place, text, is_last, sink)
            }
            State::Header { is_given } => {
                let is_given = *is_given;
                self.header(plan, is_given, text, is_last, sink)
            }
            State::Opening(_) => self.opening(plan, text, is_last, sink),
            State::After { form, is_closed } => {
                let (form, is_closed) = (*form, *is_closed);
                self.after(plan, form, is_closed, text, is_last, sink)
            }
        }
    }

    fn prose(
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
    fn gap(&self, text: &str) -> usize {
        let seen = self.gap_seen.min(text.len());
        seen + text[seen..].bytes().take_while(u8::is_ascii_whitespace).count()
    }

    /// Prose, the first `space` bytes of which are the white space of a gap.
    fn words(&mut self, text: &str, space: usize, place: Place, sink: &mut EventSink<'_>) {
        let (space, words) = text.split_at(if self.is_frame || place.is_thought() { space } else { 0 });
        self.emitter.markup(space, sink);
        if place == Place::MessageNothing {
            self.emitter.markup(words, sink);
        } else if place.is_thought() {
            self.emitter.reasoning(words, sink);
        } else {
            self.visible(words, sink);
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

    fn open_gap(&mut self, is_frame: bool) {
        self.is_gap = true;
        self.is_frame = is_frame;
        self.gap_seen = 0;
    }

    fn close_gap(&mut self) {
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
    fn header(
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
        let route = (grammar.route)(&text[..len], &self.tools);
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
                self.name.clear();
                self.name.push_str(&text[start..end]);
                self.emitter.call(&self.name, "", kind, end - start, sink);
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

    fn flag_unknown(&mut self, sink: &mut EventSink<'_>) {
        if !self.tools.is_empty() && !self.tools.contains(&self.name) {
            let detail = format!("the tool {:?} was not declared", self.name);
            self.emitter.notice(NoticeCode::UnknownTool, detail, sink);
        }
    }

    fn open(
        &mut self,
        before: (usize, usize),
        opener: Option<(usize, usize)>,
        form: usize,
        reader: Reader,
        place: Place,
    ) {
        self.log.clear();
        self.id.clear();
        let start = before.0 + before.1;
        let (at, has_name, arguments) = (0, false, 0);
        self.state =
            State::Opening(Opening { before, start, at, opener, form, reader, place, has_name, arguments });
    }

    fn opening(&mut self, plan: &Plan, text: &str, is_last: bool, sink: &mut EventSink<'_>) -> Step {
        let State::Opening(opening) = &mut self.state else { return Step::Wait };
        let compiled = &plan.forms[opening.form];
        loop {
            let from = opening.start + opening.at;
            let mut context = Context {
                form: compiled,
                tools: &self.tools,
                name: &mut self.name,
                id: &mut self.id,
                scratch: &mut self.scratch,
                complaint: &mut self.complaint,
                is_last,
            };
            let token = opening.reader.next(&text[from..], &mut context);
            let len = match token {
                Token::More => return Step::Wait,
                Token::Markup(len) => {
                    if text[from..].starts_with("```") {
                        self.has_fence = true;
                    }
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
                    opening.arguments += self.scratch.len();
                    self.log.push(Entry::Converted(len, self.scratch.clone()));
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
                Token::End(_) | Token::Done | Token::Fail | Token::Odd(_) => {
                    return self.give_up(plan, text, sink);
                }
            };
            opening.at += len;
            let is_certain = opening.has_name
                && (!compiled.is_bare() || opening.opener.is_none() || opening.arguments >= 2);
            if is_certain {
                let may_be_prose = compiled.is_bare() && opening.opener.is_some();
                let is_known = self.tools.contains(&self.name);
                let is_free = self.tools.is_empty() && !plan.is_auto();
                if may_be_prose && !is_known && !is_free && self.has_text {
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
        if let Some(complaint) = self.complaint.take() {
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
                    self.emitter.call(&self.name, &self.id, CallKind::Function, *len, sink);
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
                    self.emitter.identity(&self.id, *len, sink);
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
        self.id.clear();
        self.was_odd = false;
        self.state = State::Call { form: opening.form, reader: opening.reader };
        self.close_gap();
        Step::Took(opening.start + opening.at)
    }

    /// Some models put a namespace before the name of a declared tool.
    fn settle_name(&mut self) {
        if !self.tools.is_empty()
            && !self.tools.contains(&self.name)
            && let Some((space, last)) = self.name.rsplit_once('.')
            && self.tools.contains(last)
        {
            let len = space.len() + 1;
            self.name.drain(..len);
        }
    }

    /// Shows a token of a certain call.
    #[inline]
    fn show(&mut self, token: Token, form: usize, text: &str, sink: &mut EventSink<'_>) -> Step {
        match token {
            Token::Argument(len) => {
                self.emitter.argument(&text[..len], len, sink);
                return Step::Took(len);
            }
            Token::Converted(len) => {
                self.emitter.argument(&self.scratch, len, sink);
                return Step::Took(len);
            }
            Token::More => return Step::Wait,
            Token::Markup(len) => {
                self.has_fence |= text[..len].starts_with("```");
                self.emitter.markup(&text[..len], sink);
                return Step::Took(len);
            }
            Token::Id(len) => {
                self.emitter.identity(&self.id, len, sink);
                return Step::Took(len);
            }
            Token::End(completion) => {
                self.end_call(completion, sink);
                let State::Call { form, reader } =
                    std::mem::replace(&mut self.state, State::Prose(Place::Text))
                else {
                    return Step::Wait;
                };
                self.open((0, 0), None, form, reader, Place::Text);
            }
            Token::Odd(detail) => {
                self.was_odd = true;
                self.emitter.notice(NoticeCode::MalformedCall, detail, sink);
            }
            Token::Done | Token::Name(_) | Token::Fail => {
                if token != Token::Done {
                    let detail = "a call is damaged beyond reading";
                    self.emitter.notice(NoticeCode::MalformedCall, detail, sink);
                }
                self.end_call(Completion::Cut, sink);
                self.state = State::After { form, is_closed: false };
                self.open_gap(false);
            }
        }
        Step::Took(0)
    }

    fn end_call(&mut self, completion: Completion, sink: &mut EventSink<'_>) {
        if completion == Completion::Cut && !self.was_odd {
            self.emitter.notice(NoticeCode::IncompleteArguments, "a call is cut in its arguments", sink);
        }
        self.emitter.end(completion, sink);
    }

    /// Right after a body: closers, separators, and further bodies under the same opener.
    fn after(
        &mut self,
        plan: &Plan,
        form: usize,
        is_closed: bool,
        text: &str,
        is_last: bool,
        sink: &mut EventSink<'_>,
    ) -> Step {
        let compiled = &plan.forms[form];
        let space = self.gap(text);
        let rest = &text[space..];
        if rest.is_empty() && !is_last {
            self.gap_seen = space;
            return Step::Wait;
        }
        if self.has_fence && rest.len() < 3 && "```".starts_with(rest) && !is_last {
            return Step::Wait;
        }
        if self.has_fence && rest.starts_with("```") {
            self.has_fence = false;
            self.emitter.markup(&text[..space + 3], sink);
            self.gap_seen = 0;
            return Step::Took(space + 3);
        }
        let live = plan.live(self.dialect);
        let opens = match live.text.starting(rest, is_last) {
            Found::Perhaps(_) => return Step::Wait,
            Found::Marker { len, meaning: Meaning::Open(_), .. } => len,
            _ => 0,
        };
        match compiled.after.starting(rest, is_last) {
            Found::Perhaps(_) => return Step::Wait,
            Found::Marker { len, meaning, .. } if len >= opens && !(is_closed && is_fence(rest)) => {
                self.emitter.markup(&text[..space + len], sink);
                self.gap_seen = 0;
                self.state = State::After { form, is_closed: is_closed || meaning == After::Close };
                return Step::Took(space + len);
            }
            _ => {}
        }
        let goes_on = match compiled.form.body {
            Body::Json(_) => rest.starts_with('{') || rest.starts_with('['),
            _ => false,
        };
        let is_own = |opener: &Opener| opener.forms.iter().position(|other| other.form == form);
        let own = live.openers.iter().enumerate().find_map(|(at, opener)| Some((at, is_own(opener)?)));
        if goes_on && let Some((opener, turn)) = own {
            self.open((space, 0), Some((opener, turn)), form, Reader::new(&compiled.form), Place::Text);
            return Step::Took(0);
        }
        self.has_fence = false;
        self.state = State::Prose(Place::Text);
        self.open_gap(false);
        Step::Took(0)
    }
}

/// Whether `text` begins with a fence: the same marker opens and closes, so one too many opens again.
fn is_fence(text: &str) -> bool {
    text.starts_with("```") || text.starts_with("~~~")
}
