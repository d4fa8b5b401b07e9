//! A certain call, and the text that follows it.

use super::super::bodies::BodyToken;
use super::super::markers::{MarkerMatch, MarkerSet};
use super::super::plan::{CallOpener, MarkerMeaning};
use super::super::spec::CallBody;
use super::super::table::ELEMENT;
use super::opening::OpeningCandidate;
use super::prose::ProseKind;
use super::{EngineRun, EngineState, EngineStep, PendingText};
use crate::event::{BlockCompletion, EventSink, NoticeCode};

const AFTER_DAMAGE: &str =
    "the call stands behind a damaged one whose end is in doubt, and may be a part of it";

const NOT_QUITE_JSON: &str = "a call in the text is not quite JSON";

impl EngineRun {
    /// Shows a token of a certain call.
    #[inline]
    pub(super) fn show(
        &mut self,
        token: BodyToken,
        form: usize,
        text: &str,
        sink: &mut EventSink<'_>,
    ) -> EngineStep {
        match token {
            BodyToken::Argument(len) => self.emitter.argument(&text[..len], len, sink),
            BodyToken::Converted(len) => self.emitter.argument(&self.shared.scratch, len, sink),
            BodyToken::NoArguments(len) => self.emitter.argument("{}", len, sink),
            BodyToken::Id(len) => self.emitter.identity(&self.shared.id, len, sink),
            BodyToken::More => return EngineStep::Wait,
            BodyToken::Markup(len) | BodyToken::Empty(len) => {
                self.fences += usize::from(text[..len].starts_with("```"));
                self.emitter.markup(&text[..len], sink);
            }
            BodyToken::End(completion) => {
                self.end_call(completion, sink);
                let EngineState::Call { form, reader } =
                    std::mem::replace(&mut self.state, EngineState::Prose(ProseKind::Text))
                else {
                    return EngineStep::Wait;
                };
                return self.open(OpeningCandidate { form, reader, ..OpeningCandidate::default() });
            }
            BodyToken::Odd(detail) => {
                self.was_odd = true;
                self.emitter.notice(NoticeCode::MalformedCall, detail, sink);
            }
            BodyToken::Done | BodyToken::Name(_) | BodyToken::Fail => {
                if token != BodyToken::Done {
                    let detail = "a call is damaged beyond reading";
                    self.emitter.notice(NoticeCode::MalformedCall, detail, sink);
                    self.was_odd = true;
                    self.shared.in_doubt = true;
                }
                self.end_call(BlockCompletion::Truncated, sink);
                self.state = EngineState::After { form, is_closed: false };
                self.open_gap(false);
                return EngineStep::Took(0);
            }
        }
        EngineStep::Took(token.len())
    }

    pub(super) fn end_call(&mut self, completion: BlockCompletion, sink: &mut EventSink<'_>) {
        if completion == BlockCompletion::Truncated && !self.was_odd {
            self.emitter.notice(NoticeCode::IncompleteArguments, "a call is cut in its arguments", sink);
        }
        if self.shared.in_doubt && !self.was_odd {
            self.emitter.notice(NoticeCode::MalformedCall, "the end of a value is in doubt", sink);
        }
        let is_refused = self.has_damage && !self.accepts_after_damage;
        self.has_damage |= self.shared.in_doubt || completion == BlockCompletion::Truncated;
        let is_complete = completion == BlockCompletion::Complete;
        if is_complete && std::mem::take(&mut self.shared.is_repaired) {
            self.emitter.notice_of_block(NoticeCode::Repaired, NOT_QUITE_JSON, sink);
        }
        self.emitter
            .end(if is_complete && is_refused { BlockCompletion::AfterDamage } else { completion }, sink);
    }

    /// Right after a body: closers, separators, and further bodies under the same opener.
    pub(super) fn after(
        &mut self,
        form: usize,
        is_closed: bool,
        PendingText { plan, text, is_last }: PendingText<'_>,
        sink: &mut EventSink<'_>,
    ) -> EngineStep {
        let compiled = &plan.forms[form];
        let space = self.gap(text);
        let rest = &text[space..];
        if rest.is_empty() && !is_last {
            self.gap_seen = space;
            return EngineStep::Wait;
        }
        if self.fences > 0 && rest.len() < 3 && "```".starts_with(rest) && !is_last {
            return EngineStep::Wait;
        }
        if self.fences > 0 && rest.starts_with("```") {
            self.fences -= 1;
            return self.pass(&text[..space + 3], sink);
        }
        let live = &plan.live;
        let turn_of = |opener: &CallOpener| opener.forms.iter().position(|other| other.form == form);
        let begins_body =
            |opener: &CallOpener| turn_of(opener).is_some_and(|turn| opener.forms[turn].is_part_of_body);
        let opens = match live.text.starting(rest, is_last) {
            MarkerMatch::Perhaps(_) => return EngineStep::Wait,
            // The beginning of a body is no other opener.
            MarkerMatch::Marker { meaning: MarkerMeaning::Open(at), .. }
                if begins_body(&live.openers[at]) =>
            {
                0
            }
            MarkerMatch::Marker { len, meaning: MarkerMeaning::Open(_), .. } => len,
            _ => 0,
        };
        // The form's own closers, and those of all others.
        for (closers, is_own) in [(&compiled.closers, true), (&live.closers, false)] {
            match closers.starting(rest, is_last) {
                MarkerMatch::Perhaps(_) => return EngineStep::Wait,
                MarkerMatch::Marker { len, .. }
                    if len >= opens && !(is_own && is_closed && is_fence(rest)) =>
                {
                    self.state = EngineState::After { form, is_closed: is_closed || is_own };
                    return self.pass(&text[..space + len], sink);
                }
                MarkerMatch::Marker { .. } | MarkerMatch::Nothing => {}
            }
        }
        // A closer that is truncated with the response, or one of something else in place of the form's own.
        let is_begun =
            |closers: &MarkerSet<()>| matches!(closers.starting(rest, false), MarkerMatch::Perhaps(_));
        if is_last && rest.len() > 1 && (is_begun(&compiled.closers) || is_begun(&live.closers)) {
            return self.pass(text, sink);
        }
        // The closing tag of some tool's element may be the end of a value that this call stands in.
        let is_element = matches!(compiled.form.body, CallBody::Children(_));
        let is_tagged = compiled.form.open.iter().any(|open| open == ELEMENT);
        if is_element || is_tagged || !is_closed && !compiled.form.close.is_empty() {
            match foreign_closer(rest, is_last) {
                None => return EngineStep::Wait,
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
            // Without its opener, a text that closes more than it opened is the end of some code.
            Some(_) if self.is_in_block && matches!(compiled.form.body, CallBody::Python {}) => {}
            Some(len) => {
                self.emitter.notice(NoticeCode::StrayMarkup, "more brackets close than were opened", sink);
                return self.pass(&text[..space + len], sink);
            }
            None => return EngineStep::Wait,
        }
        let goes_on = match compiled.form.body {
            CallBody::Json(_) => match rest.strip_prefix([';', ',']).map(str::trim_ascii_start) {
                None => rest.starts_with(['{', '[']),
                Some("") if !is_last => return EngineStep::Wait,
                Some(next) if next.starts_with('{') => {
                    return self.pass(&text[..text.len() - next.len()], sink);
                }
                Some(_) => false,
            },
            CallBody::Braces(ref body) => {
                body.before.iter().any(|word| word.len() > 1 && rest.starts_with(word))
            }
            _ => false,
        };
        let own = live.openers.iter().enumerate().find_map(|(at, opener)| Some((at, turn_of(opener)?)));
        if goes_on
            && opens <= 1
            && let Some((opener, turn)) = own
        {
            return self.open(OpeningCandidate::of(plan, (space, 0), (opener, turn), ProseKind::Text));
        }
        self.owed = Some(form).filter(|_| !is_closed);
        self.fences = if self.is_doubted { self.fences } else { 0 };
        self.state = EngineState::Prose(ProseKind::Text);
        self.open_gap(false);
        EngineStep::Took(0)
    }

    /// Syntax between two bodies.
    fn pass(&mut self, markup: &str, sink: &mut EventSink<'_>) -> EngineStep {
        self.emitter.markup(markup, sink);
        self.gap_seen = 0;
        EngineStep::Took(markup.len())
    }

    /// Reports the notices about a call that has begun.
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

/// Returns the length of any closing tag at the start of `text`. `None`: more text is needed.
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

/// How many bytes of closing brackets stand between a body and its closer, or that of the dialect. `None`: more text is
/// needed.
fn surplus(text: &str, closers: [&MarkerSet<()>; 2], is_last: bool) -> Option<usize> {
    let len = text.bytes().take_while(|byte| matches!(byte, b'}' | b']')).count();
    if len == 0 {
        return Some(0);
    }
    let rest = text[len..].trim_ascii_start();
    for closers in closers {
        match closers.starting(rest, is_last) {
            MarkerMatch::Marker { .. } => return Some(len),
            MarkerMatch::Perhaps(_) => return None,
            MarkerMatch::Nothing => {}
        }
    }
    match rest.is_empty() {
        true if is_last => Some(len),
        true => None,
        false => Some(0),
    }
}
