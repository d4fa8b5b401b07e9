//! A certain call, and what follows it.

use super::super::bodies::Token;
use super::super::markers::{Found, Markers};
use super::super::plan::{Meaning, Opener};
use super::super::spec::Body;
use super::super::table::ELEMENT;
use super::opening::Opening;
use super::prose::Place;
use super::{Ahead, Run, State, Step};
use crate::event::{Completion, EventSink, NoticeCode};

const AFTER_DAMAGE: &str =
    "the call stands behind a damaged one whose end is in doubt, and may be a part of it";

impl Run {
    /// Shows a token of a certain call.
    #[inline]
    pub(super) fn show(&mut self, token: Token, form: usize, text: &str, sink: &mut EventSink<'_>) -> Step {
        match token {
            Token::Argument(len) => self.emitter.argument(&text[..len], len, sink),
            Token::Converted(len) => self.emitter.argument(&self.shared.scratch, len, sink),
            Token::NoArguments(len) => self.emitter.argument("{}", len, sink),
            Token::Id(len) => self.emitter.identity(&self.shared.id, len, sink),
            Token::More => return Step::Wait,
            Token::Markup(len) | Token::Empty(len) => {
                self.fences += usize::from(text[..len].starts_with("```"));
                self.emitter.markup(&text[..len], sink);
            }
            Token::End(completion) => {
                self.end_call(completion, sink);
                let State::Call { form, reader } =
                    std::mem::replace(&mut self.state, State::Prose(Place::Text))
                else {
                    return Step::Wait;
                };
                return self.open(Opening { form, reader, ..Opening::default() });
            }
            Token::Odd(detail) => {
                self.was_odd = true;
                self.emitter.notice(NoticeCode::MalformedCall, detail, sink);
            }
            Token::Done | Token::Name(_) | Token::Fail => {
                if token != Token::Done {
                    let detail = "a call is damaged beyond reading";
                    self.emitter.notice(NoticeCode::MalformedCall, detail, sink);
                    self.was_odd = true;
                    self.shared.in_doubt = true;
                }
                self.end_call(Completion::Cut, sink);
                self.state = State::After { form, is_closed: false };
                self.open_gap(false);
                return Step::Took(0);
            }
        }
        Step::Took(token.len())
    }

    pub(super) fn end_call(&mut self, completion: Completion, sink: &mut EventSink<'_>) {
        if completion == Completion::Cut && !self.was_odd {
            self.emitter.notice(NoticeCode::IncompleteArguments, "a call is cut in its arguments", sink);
        }
        if self.shared.in_doubt && !self.was_odd {
            self.emitter.notice(NoticeCode::MalformedCall, "the end of a value is in doubt", sink);
        }
        let is_refused = self.has_damage && !self.accepts_after_damage;
        self.has_damage |= self.shared.in_doubt || completion == Completion::Cut;
        let is_whole = completion == Completion::Whole;
        self.emitter.end(if is_whole && is_refused { Completion::AfterDamage } else { completion }, sink);
    }

    /// Right after a body: closers, separators, and further bodies under the same opener.
    pub(super) fn after(
        &mut self,
        form: usize,
        is_closed: bool,
        Ahead { plan, text, is_last }: Ahead<'_>,
        sink: &mut EventSink<'_>,
    ) -> Step {
        let compiled = &plan.forms[form];
        let space = self.gap(text);
        let rest = &text[space..];
        if rest.is_empty() && !is_last {
            self.gap_seen = space;
            return Step::Wait;
        }
        if self.fences > 0 && rest.len() < 3 && "```".starts_with(rest) && !is_last {
            return Step::Wait;
        }
        if self.fences > 0 && rest.starts_with("```") {
            self.fences -= 1;
            return self.pass(&text[..space + 3], sink);
        }
        let live = &plan.live;
        let turn_of = |opener: &Opener| opener.forms.iter().position(|other| other.form == form);
        let begins_body =
            |opener: &Opener| turn_of(opener).is_some_and(|turn| opener.forms[turn].is_part_of_body);
        let opens = match live.text.starting(rest, is_last) {
            Found::Perhaps(_) => return Step::Wait,
            // The beginning of a body is no other opener.
            Found::Marker { meaning: Meaning::Open(at), .. } if begins_body(&live.openers[at]) => 0,
            Found::Marker { len, meaning: Meaning::Open(_), .. } => len,
            _ => 0,
        };
        // The form's own closers, and those of all others.
        for (closers, is_own) in [(&compiled.closers, true), (&live.closers, false)] {
            match closers.starting(rest, is_last) {
                Found::Perhaps(_) => return Step::Wait,
                Found::Marker { len, .. } if len >= opens && !(is_own && is_closed && is_fence(rest)) => {
                    self.state = State::After { form, is_closed: is_closed || is_own };
                    return self.pass(&text[..space + len], sink);
                }
                Found::Marker { .. } | Found::Nothing => {}
            }
        }
        // A closer that is cut with the answer, or one of something else in place of the form's own.
        let is_begun = |closers: &Markers<()>| matches!(closers.starting(rest, false), Found::Perhaps(_));
        if is_last && rest.len() > 1 && (is_begun(&compiled.closers) || is_begun(&live.closers)) {
            return self.pass(text, sink);
        }
        // What ends an element of some tool may be the end of a value that this call stands in.
        let is_element = matches!(compiled.form.body, Body::Children(_));
        let is_tagged = compiled.form.open.iter().any(|open| open == ELEMENT);
        if is_element || is_tagged || !is_closed && !compiled.form.close.is_empty() {
            match foreign_closer(rest, is_last) {
                None => return Step::Wait,
                Some(0) => {}
                Some(len) if is_element && self.shared.tools.names(&rest[2..len - 1]) => {}
                Some(len) => {
                    self.emitter.notice(
                        NoticeCode::StrayMarkup,
                        "the closer of something else ends a call",
                        sink,
                    );
                    return self.pass(&text[..space + len], sink);
                }
            }
        }
        match surplus(rest, [&compiled.closers, &live.closers], is_last) {
            Some(0) => {}
            // Without its opener, what closes more than it opened is the end of some code.
            Some(_) if self.is_in_block && matches!(compiled.form.body, Body::Python {}) => {}
            Some(len) => {
                self.emitter.notice(NoticeCode::StrayMarkup, "more brackets close than were opened", sink);
                return self.pass(&text[..space + len], sink);
            }
            None => return Step::Wait,
        }
        let goes_on = match compiled.form.body {
            Body::Json(_) => match rest.strip_prefix([';', ',']).map(str::trim_ascii_start) {
                None => rest.starts_with(['{', '[']),
                Some("") if !is_last => return Step::Wait,
                Some(next) if next.starts_with('{') => {
                    return self.pass(&text[..text.len() - next.len()], sink);
                }
                Some(_) => false,
            },
            Body::Braces(ref body) => body.before.iter().any(|word| word.len() > 1 && rest.starts_with(word)),
            _ => false,
        };
        let own = live.openers.iter().enumerate().find_map(|(at, opener)| Some((at, turn_of(opener)?)));
        if goes_on
            && opens <= 1
            && let Some((opener, turn)) = own
        {
            return self.open(Opening::of(plan, (space, 0), (opener, turn), Place::Text));
        }
        self.owed = Some(form).filter(|_| !is_closed);
        self.fences = if self.is_doubted { self.fences } else { 0 };
        self.state = State::Prose(Place::Text);
        self.open_gap(false);
        Step::Took(0)
    }

    /// Syntax between two bodies.
    fn pass(&mut self, markup: &str, sink: &mut EventSink<'_>) -> Step {
        self.emitter.markup(markup, sink);
        self.gap_seen = 0;
        Step::Took(markup.len())
    }

    /// Says what is to be known of a call that has begun.
    pub(super) fn flag_begun(&mut self, sink: &mut EventSink<'_>) {
        if self.has_damage {
            self.emitter.notice_of_block(NoticeCode::AfterDamage, AFTER_DAMAGE, sink);
        }
        self.flag_unknown(sink);
    }

    pub(super) fn flag_unknown(&mut self, sink: &mut EventSink<'_>) {
        if !self.shared.tools.is_empty() && !self.shared.tools.contains(&self.shared.name) {
            let detail = format!("the tool {:?} was not declared", self.shared.name);
            self.emitter.notice(NoticeCode::UnknownTool, detail, sink);
        }
    }
}

/// Whether `text` begins with a fence: the same marker opens and closes, so one too many opens again.
fn is_fence(text: &str) -> bool {
    text.starts_with("```") || text.starts_with("~~~")
}

/// The length of a closing tag at the start of `text`, of whatever it is. Nothing: more text is needed.
fn foreign_closer(text: &str, is_last: bool) -> Option<usize> {
    const LONGEST: usize = 64;
    let Some(rest) = text.strip_prefix("</") else {
        return if text == "<" && !is_last { None } else { Some(0) };
    };
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.:".contains(byte);
    let name = rest.bytes().take(LONGEST).take_while(|byte| is_name(byte)).count();
    match rest.as_bytes().get(name) {
        None if !is_last => None,
        Some(b'>') if name > 0 => Some(name + 3),
        _ => Some(0),
    }
}

/// How many bytes of closing brackets stand between a body and its closer, or that of the dialect. Nothing: more text is
/// needed.
fn surplus(text: &str, closers: [&Markers<()>; 2], is_last: bool) -> Option<usize> {
    let len = text.bytes().take_while(|byte| matches!(byte, b'}' | b']')).count();
    if len == 0 {
        return Some(0);
    }
    let rest = text[len..].trim_ascii_start();
    for closers in closers {
        match closers.starting(rest, is_last) {
            Found::Marker { .. } => return Some(len),
            Found::Perhaps(_) => return None,
            Found::Nothing => {}
        }
    }
    match rest.is_empty() {
        true if is_last => Some(len),
        true => None,
        false => Some(0),
    }
}
