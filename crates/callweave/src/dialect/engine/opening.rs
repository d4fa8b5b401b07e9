//! A call that is not certain yet: its tokens are kept, and shown once its name is known.

use super::super::bodies::{BodyReader, BodyToken, CompiledForm};
use super::super::evidence::{ArgumentEvidence, CallEvidence, CallVerdict, MarkerStrength, may_be_name};
use super::super::markers::MarkerMatch;
use super::super::plan::{DialectPlan, FormCandidate, MarkerMeaning};
use super::super::position::MarkerPosition;
use super::super::quotation::is_container;
use super::super::table;
use super::super::tools::Tools;
use super::doubt::{DoubtReason, LONGEST};
use super::prose::ProseKind;
use super::{EngineContext, EngineRun, EngineState, EngineStep, PendingText};
use crate::event::{BlockCompletion, ByteSpan, CallKind, EventSink, NoticeCode};
use crate::json::repair::repair;
use crate::json::{JsonKind, Tape};

#[derive(Debug, Default)]
pub(super) struct OpeningCandidate {
    /// How long the white space before the opener is, and the opener.
    pub(super) before: (usize, usize),
    /// Where the body begins.
    pub(super) start: usize,
    /// How far the reader has come from there.
    pub(super) at: usize,
    /// Which of the live openers, and which of its forms; none for a further call of the same body.
    pub(super) opener: Option<(usize, usize)>,
    pub(super) form: usize,
    pub(super) reader: BodyReader,
    /// The kind of prose it stands in.
    pub(super) place: ProseKind,
    pub(super) standing: MarkerPosition,
    pub(super) follows_tag: bool,
    pub(super) has_name: bool,
    /// The beginning of the arguments.
    pub(super) head: String,
    /// Whether the reader said that there are none.
    pub(super) has_none: bool,
    /// The damage that the reader found in them, and how the call ended nevertheless.
    pub(super) damage: Option<&'static str>,
    pub(super) ended: Option<BlockCompletion>,
    /// Which form read a name and then damage, and whether it is tried again because no other form fits.
    pub(super) damaged: Option<usize>,
    pub(super) is_last_try: bool,
    pub(super) fences: usize,
    /// The reason why it was taken for text, where its name was known.
    pub(super) reason: Option<&'static str>,
}

impl EngineRun {
    pub(super) fn open(&mut self, opening: OpeningCandidate) -> EngineStep {
        self.log.clear();
        self.shared.id.clear();
        self.shared.in_doubt = false;
        self.shared.is_repaired = false;
        self.state = EngineState::Opening(opening);
        EngineStep::Took(0)
    }

    pub(super) fn opening(&mut self, ahead: PendingText<'_>, sink: &mut EventSink<'_>) -> EngineStep {
        let PendingText { plan, text, is_last } = ahead;
        loop {
            let EngineState::Opening(opening) = &mut self.state else { return EngineStep::Wait };
            let compiled = &plan.forms[opening.form];
            let from = opening.start + opening.at;
            let mut context = self.shared.context(compiled, is_last);
            let token = opening.reader.next(&text[from..], &mut context);
            match token {
                BodyToken::More => return EngineStep::Wait,
                BodyToken::Markup(len) => {
                    opening.fences += usize::from(text[from..from + len].starts_with("```"));
                }
                BodyToken::Name(_) => opening.has_name = true,
                BodyToken::Id(_) => {}
                BodyToken::Argument(len) => opening.follow(&text[from..from + len]),
                BodyToken::Converted(_) => opening.follow(&self.shared.scratch),
                BodyToken::NoArguments(_) => opening.has_none = true,
                BodyToken::Done if opening.opener.is_none() => {
                    // The body had no further call.
                    let (form, len) = (opening.form, opening.at);
                    return self.enter(
                        &text[..len],
                        EngineState::After { form, is_closed: false },
                        false,
                        sink,
                    );
                }
                // Between markers, an empty list of calls is syntax; alone it may be anything.
                BodyToken::Empty(len) if opening.opener.is_some() && !compiled.is_bare() => {
                    let (form, len) = (opening.form, from + len);
                    self.fences += opening.fences;
                    self.log.clear();
                    self.emitter.end_reasoning(sink);
                    return self.enter(
                        &text[..len],
                        EngineState::After { form, is_closed: false },
                        false,
                        sink,
                    );
                }
                BodyToken::Empty(_) if opening.opener.is_none() => {}
                // A call that is truncated after its name is a truncated call.
                BodyToken::End(BlockCompletion::Truncated)
                    if opening.has_name && opening.damage.is_none() && is_last && opening.is_marked(plan) =>
                {
                    let is_vouched =
                        plan.is_named(compiled) || self.shared.tools.find(&self.shared.name).is_some();
                    if (is_vouched || opening.head.starts_with('{')) && may_be_name(&self.shared.name) {
                        return self.commit(compiled, text, sink);
                    }
                    return self.give_up(ahead, sink);
                }
                // A damaged body was read to its end, to be repaired.
                BodyToken::End(completion) if opening.damage.is_some() && opening.ended.is_none() => {
                    opening.ended = Some(completion);
                    opening.reader.ended = Some(completion);
                }
                BodyToken::Odd(detail) if opening.is_damage(plan) => {
                    // A body that is odd only because the input ends is not damaged but truncated.
                    opening.damage = Some(detail).filter(|_| !is_last || opening.damaged.is_some());
                }
                BodyToken::End(_)
                | BodyToken::Done
                | BodyToken::Fail
                | BodyToken::Odd(_)
                | BodyToken::Empty(_) => {
                    return self.give_up(ahead, sink);
                }
            }
            opening.at += token.len();
            let is_made = matches!(token, BodyToken::Converted(_));
            self.log.push((token, if is_made { self.shared.scratch.clone() } else { String::new() }));
            if !opening.has_name {
                continue;
            }
            let Some((opener, turn)) = opening.opener else { return self.commit(compiled, text, sink) };
            let strength = opening.strength(plan.live.openers[opener].strength_of(turn), text);
            let Some(mut arguments) = opening.arguments(strength, &self.shared.name, &self.shared.tools)
            else {
                continue;
            };
            if opening.ended == Some(BlockCompletion::Complete) && is_normalized(&opening.head, &self.shared)
            {
                arguments = ArgumentEvidence::Begun;
            }
            let OpeningCandidate { standing, follows_tag, place, .. } = *opening;
            let space = opening.before.0;
            let may_go_on = opening.ended.is_none() && opening.at < LONGEST;
            let is_tag =
                text[space..].starts_with('<') && !plan.live.openers[opener].text.contains(['|', '｜']);
            let evidence = CallEvidence {
                standing,
                follows_tag,
                name: &self.shared.name,
                is_named: plan.is_named(compiled),
                is_tag,
                arguments,
                is_spoken: self.calls > 0 && self.dialect == Some(compiled.dialect),
                ..self.evidence(strength, &self.position, place)
            };
            let (verdict, reason) = evidence.verdict();
            // A trusting reader finds no call without its opener that nobody declared.
            let is_lost =
                strength == MarkerStrength::Missing && self.shared.tools.find(&self.shared.name).is_none();
            if verdict == CallVerdict::Text && may_go_on && evidence.is_worth_mending() {
                continue;
            }
            let offset = self.emitter.offset() + space as u64;
            match verdict {
                CallVerdict::Call => return self.commit(compiled, text, sink),
                CallVerdict::Doubt if self.is_trusting && !is_lost => {
                    return self.commit(compiled, text, sink);
                }
                CallVerdict::Doubt if offset >= self.settled && !self.is_trusting => {
                    return self.doubt(place, space, DoubtReason::Openerless);
                }
                CallVerdict::Doubt | CallVerdict::Text => {
                    let EngineState::Opening(opening) = &mut self.state else { return EngineStep::Wait };
                    opening.reason = opening.reason.or(Some(reason));
                    return self.give_up(ahead, sink);
                }
            }
        }
    }

    /// Gives up a candidate that is no call: the next form is tried, or the opener becomes text.
    fn give_up(&mut self, ahead: PendingText<'_>, sink: &mut EventSink<'_>) -> EngineStep {
        let PendingText { plan, text, is_last } = ahead;
        let EngineState::Opening(opening) = &mut self.state else { return EngineStep::Wait };
        self.log.clear();
        if let Some(complaint) = self.shared.complaint.take() {
            self.emitter.notice(NoticeCode::Matcher, complaint, sink);
        }
        let place = opening.place;
        let Some((which, turn)) = opening.opener else {
            let detail = "a list of calls goes on with something else";
            self.emitter.notice(NoticeCode::MalformedCall, detail, sink);
            let state = EngineState::After { form: opening.form, is_closed: false };
            return self.enter("", state, false, sink);
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
        if is_first && next < opener.forms.len() {
            let OpeningCandidate { standing, follows_tag, damaged, is_last_try, reason, .. } = *opening;
            let next = OpeningCandidate::of(plan, (space, len), (which, next), place);
            return self.open(OpeningCandidate {
                standing,
                follows_tag,
                damaged,
                is_last_try,
                reason,
                ..next
            });
        }
        // An opener that nothing follows, beside a call.
        if is_last && self.calls > 0 && self.is_gap && len > 1 && text[space + len..].trim_ascii().is_empty()
        {
            self.emitter.markup(text, sink);
            self.state = EngineState::Prose(place);
            return EngineStep::Took(text.len());
        }
        // The same special token twice: the second is the opener.
        if let Some(rest) = text.get(space + len..).filter(|_| len > 1) {
            let rest = rest.trim_ascii_start();
            let before = text.len() - rest.len();
            match plan.live.text.starting(rest, is_last) {
                MarkerMatch::Perhaps(_) if opener.text.starts_with(rest) => return EngineStep::Wait,
                // If that is none either, both are text.
                MarkerMatch::Marker { len, meaning: MarkerMeaning::Open(same), .. } if same == which => {
                    let OpeningCandidate { standing, .. } = *opening;
                    let next = OpeningCandidate::of(plan, (before, len), (which, 0), place);
                    return self.open(OpeningCandidate { standing, ..next });
                }
                _ => {}
            }
        }
        // `<invoke>{`: no tag of that name, but one around an object.
        let element = live_element(plan).filter(|element| *element != which && !self.shared.tools.is_empty());
        if let Some(element) = element
            && let Some(len) = element_len(&text[space..])
        {
            match text[space + len..].trim_ascii_start().chars().next() {
                None if !is_last => return EngineStep::Wait,
                Some('{' | '[') => {
                    let OpeningCandidate { standing, .. } = *opening;
                    let next = OpeningCandidate::of(plan, (space, len), (element, 0), place);
                    return self.open(OpeningCandidate { standing, follows_tag: true, ..next });
                }
                _ => {}
            }
        }
        let reason = opening.reason;
        self.vain += (opening.start + opening.at) as u64;
        // A fence of a dialect's own may hold another dialect's call.
        if table::FENCES.iter().any(|fence| opener.text.starts_with(fence)) {
            let mut position = self.position;
            position.follow(&text[..space]);
            let offset = self.emitter.offset() + space as u64;
            let is_first = place == ProseKind::Text && position.may_open_fence() && offset >= self.settled;
            let is_vouched = self.is_named || !self.shared.tools.is_empty();
            if self.is_doubted {
                self.state = EngineState::Prose(place);
                return self.doubted_fence(space + table::FENCES[0].len(), ahead, sink);
            } else if is_first && is_vouched && !self.is_trusting {
                return self.doubt(place, space, DoubtReason::Block);
            }
        }
        if len == 1 && !self.is_trusting {
            // The JSON value holds no call either.
            self.position.begin_json();
        }
        if let Some(reason) = reason {
            let detail = format!("what looks like a call of {:?} is text: {reason}", self.shared.name);
            self.emitter.notice(NoticeCode::Judged, detail, sink);
        }
        self.state = EngineState::Prose(place);
        if len == 0 {
            self.settled = self.settled.max(self.emitter.offset() + space as u64 + 1);
            return EngineStep::Took(0);
        }
        let len = space + len;
        let is_space = self.is_gap && text[..space].trim_ascii().is_empty();
        self.words(&text[..len], if is_space { space } else { 0 }, place, sink);
        EngineStep::Took(len)
    }

    /// Emits everything that was kept, once the call is certain.
    fn commit(&mut self, compiled: &CompiledForm, text: &str, sink: &mut EventSink<'_>) -> EngineStep {
        let EngineState::Opening(opening) =
            std::mem::replace(&mut self.state, EngineState::Prose(ProseKind::Text))
        else {
            return EngineStep::Wait;
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
        let mut early: Vec<(ByteSpan, &str)> = Vec::new();
        let mut has_begun = false;
        let mut at = 0;
        for (token, made) in &log {
            let len = token.len();
            let argument = match token {
                BodyToken::Argument(_) => Some(&body[at..at + len]),
                BodyToken::Converted(_) => Some(made.as_str()),
                BodyToken::NoArguments(_) => Some("{}"),
                BodyToken::Name(_) => {
                    self.emitter.call(&self.shared.name, &self.shared.id, CallKind::Function, len, sink);
                    has_begun = true;
                    self.flag_begun(sink);
                    early.drain(..).for_each(|(span, text)| self.emitter.argument_from(span, text, sink));
                    None
                }
                BodyToken::Odd(detail) => {
                    if opening.damage.is_some() {
                        self.emitter.notice(NoticeCode::MalformedCall, *detail, sink);
                    }
                    None
                }
                // The id is emitted with the name.
                _ => {
                    self.emitter.markup(&body[at..at + len], sink);
                    None
                }
            };
            match argument {
                Some(text) if has_begun => self.emitter.argument(text, len, sink),
                Some(text) => early.push((self.emitter.advance(len), text)),
                None => {}
            }
            at += len;
        }
        self.log = log;
        self.log.clear();
        self.shared.id.clear();
        self.was_odd = opening.damage.is_some();
        self.state = EngineState::Call { form: opening.form, reader: opening.reader };
        self.close_gap();
        EngineStep::Took(opening.start + opening.at)
    }

    /// Calls a declared tool by the name under which it was declared.
    fn settle_name(&mut self) {
        let EngineContext { tools, name, .. } = &mut self.shared;
        if let Some(declared) = tools.find(name).filter(|declared| declared != name) {
            *name = declared.to_owned();
        }
    }
}

/// Returns the opener that is a tag of any name.
fn live_element(plan: &DialectPlan) -> Option<usize> {
    plan.live.openers.iter().position(|opener| opener.text == table::ELEMENT)
}

/// The length of the tag without attributes that `text` begins with, unless it holds code.
fn element_len(text: &str) -> Option<usize> {
    let rest = text.strip_prefix('<')?;
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.:".contains(byte);
    let name = rest.bytes().take_while(|byte| is_name(byte)).count();
    (rest[name..].starts_with('>') && !is_container(&rest[..name])).then_some(name + 2)
}

/// The beginning of a tool's schema, without blanks.
const SCHEMA: &str = "{\"type\":\"object\"";

/// Whether damaged arguments can be repaired, and are the tool's own then.
fn is_normalized(arguments: &str, shared: &EngineContext) -> bool {
    let (mended, mut tape) = (repair(arguments), Tape::new());
    let Ok(arguments) = tape.parse(&mended.text) else { return false };
    if shared.tools.is_empty() {
        return arguments.kind() == JsonKind::Object && arguments.members().next().is_some();
    }
    let tool = shared.tools.find(&shared.name).unwrap_or(&shared.name);
    let is_own = |key: &str| shared.tools.declares(tool, key) == Some(true);
    arguments.kind() == JsonKind::Object && arguments.members().all(|(key, _)| is_own(key))
}

impl OpeningCandidate {
    /// Returns how much its marker says: a word that its body follows at once, as in `functools[{`, is none of a
    /// sentence.
    fn strength(&self, strength: MarkerStrength, text: &str) -> MarkerStrength {
        let is_body = text[self.start..].starts_with(['{', '[']) && self.start > self.before.0;
        // Nor is one that a special token of its header follows.
        let follows = is_body || text[self.start..self.start + self.at].contains("<|");
        if strength == MarkerStrength::Word && follows { MarkerStrength::Strong } else { strength }
    }

    /// Whether a marker stands before it.
    fn is_marked(&self, plan: &DialectPlan) -> bool {
        let strength = self.opener.map(|(opener, turn)| plan.live.openers[opener].strength_of(turn));
        !matches!(strength, Some(MarkerStrength::Bare | MarkerStrength::Missing | MarkerStrength::Start))
            && !plan.forms[self.form].form.open.is_empty()
    }

    /// One of the forms that an opener may open.
    pub(super) fn of(
        plan: &DialectPlan,
        before: (usize, usize),
        opener: (usize, usize),
        place: ProseKind,
    ) -> Self {
        let FormCandidate { form, is_part_of_body, .. } = plan.live.openers[opener.0].forms[opener.1];
        let start = before.0 + if is_part_of_body { 0 } else { before.1 };
        let form_of_body = &plan.forms[form].form;
        let reader = if is_part_of_body {
            BodyReader::of_body(form_of_body)
        } else {
            BodyReader::behind_opener(form_of_body)
        };
        Self { before, start, opener: Some(opener), form, reader, place, ..Self::default() }
    }

    /// Whether an oddity is damage: the name is known, and no other form fits better.
    fn is_damage(&mut self, plan: &DialectPlan) -> bool {
        let is_only = |(opener, turn): (usize, usize)| plan.live.openers[opener].forms.len() == turn + 1;
        let is_known = self.has_name && !self.reader.is_tagged();
        if is_known && !self.is_last_try && !self.opener.is_none_or(is_only) {
            self.damaged = self.damaged.or(self.opener.map(|(_, turn)| turn));
            return false;
        }
        is_known
    }

    /// Keeps the beginning of the arguments, and all of them if they are damaged.
    fn follow(&mut self, text: &str) {
        // Longer than any key, which has to end before it can be looked up, however the text is split.
        const ENOUGH: usize = 8 << 10;
        if self.head.len() < ENOUGH || self.damage.is_some() {
            self.head.push_str(if self.head.is_empty() { text.trim_start() } else { text });
        }
    }

    /// Returns the evidence that the arguments give so far; none: they have not begun.
    fn arguments(&self, strength: MarkerStrength, name: &str, tools: &Tools) -> Option<ArgumentEvidence> {
        if self.has_none {
            // A call in a tag of its own, under an opener, says that it has none.
            let is_framed = self.start > self.before.0 && self.reader.is_tagged();
            return Some(if is_framed { ArgumentEvidence::Begun } else { ArgumentEvidence::Absent });
        }
        if self.damage.is_some() {
            // Damaged text may be no argument at all.
            return match self.head.bytes().next() {
                None if self.ended.is_none() => None,
                Some(first) if first.is_ascii_alphabetic() || first >= 0x80 => Some(ArgumentEvidence::Words),
                _ => Some(ArgumentEvidence::Damaged),
            };
        }
        if self.head.is_empty() {
            return None;
        }
        let tool = tools.find(name).unwrap_or(name);
        let flat: String = self.head.split_ascii_whitespace().collect();
        if flat.starts_with(SCHEMA) && tools.declares(tool, "type") != Some(true) {
            return Some(ArgumentEvidence::Schema);
        }
        if SCHEMA.starts_with(&flat) {
            return None;
        }
        if matches!(strength, MarkerStrength::Strong | MarkerStrength::Inner) {
            return Some(ArgumentEvidence::Begun);
        }
        if "null".starts_with(self.head.as_str()) {
            return (self.head == "null").then_some(ArgumentEvidence::Begun);
        }
        let Some(rest) = self.head.strip_prefix('{') else { return Some(ArgumentEvidence::Foreign) };
        let rest = rest.trim_start();
        if tools.declares(tool, "").is_none() {
            return (!rest.is_empty()).then_some(ArgumentEvidence::Begun);
        }
        let Some(key) = rest.strip_prefix('"') else {
            return (!rest.is_empty()).then_some(ArgumentEvidence::Begun);
        };
        let (key, _) = key.split_once('"')?;
        let is_own = tools.declares(tool, key) != Some(false);
        Some(if is_own { ArgumentEvidence::Begun } else { ArgumentEvidence::Foreign })
    }
}
