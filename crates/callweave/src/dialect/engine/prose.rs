//! Prose: visible text, reasoning and messages, and the markers that stand in them.

use super::super::bodies::{BodyReader, boundary};
use super::super::channel::{LONGEST_HEADER, MessageRoute};
use super::super::evidence::{
    ArgumentEvidence, CallEvidence, CallVerdict, MarkerStrength, is_filler, may_be_name,
};
use super::super::markers::{MarkerMatch, MarkerSet};
use super::super::plan::{LiveMarkers, MarkerMeaning};
use super::super::position::{MarkerPosition, TextPosition};
use super::super::quotation::is_container;
use super::super::table::{self, ELEMENT};
use super::doubt::DoubtReason;
use super::opening::OpeningCandidate;
use super::{EngineRun, EngineState, EngineStep, PendingText};
use crate::event::{CallKind, DeltaKind, EventSink, NoticeCode};

/// The number of bytes looked at at once where a line may begin with a declared name.
const REACH: usize = 1024;

/// The maximum number of times that a text is read in vain in search of calls.
const MAX_VAIN: u64 = 64;
/// The number of bytes that count as read before the text begins: a short one may be looked at as often as it likes.
const FREE: u64 = 1024;

/// The maximum length of the counter of a header.
const SHORT_COUNTER: usize = 8;

/// The kind of prose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ProseKind {
    #[default]
    Text,
    /// Which of the live reasoning markers.
    Thought(usize),
    /// The visible text of a message.
    Message,
    /// A message with reasoning.
    MessageThought,
    /// A message with calls.
    MessageCalls,
    /// A message for nobody.
    MessageNothing,
}

impl ProseKind {
    #[inline]
    pub(super) fn is_reasoning(self) -> bool {
        matches!(self, Self::Thought(_) | Self::MessageThought)
    }

    #[inline]
    fn markers(self, live: &LiveMarkers) -> &MarkerSet<MarkerMeaning> {
        match (self, &live.messages) {
            (Self::Text, _) => &live.text,
            (Self::Thought(which), _) => &live.reasoning[which],
            (Self::MessageCalls, Some(messages)) => &messages.calls,
            (Self::Message | Self::MessageThought | Self::MessageNothing, Some(messages)) => &messages.prose,
            _ => &live.text,
        }
    }
}

impl EngineRun {
    /// Takes `text` if it only goes on with a line of prose: the common case.
    #[inline]
    pub(super) fn takes_as_is(&mut self, live: &LiveMarkers, text: &str, sink: &mut EventSink<'_>) -> bool {
        let Some(place) = self.calm.filter(|place| place.markers(live).spare(text)) else { return false };
        self.position.pass_plain(text);
        self.go_on(place, text, sink);
        true
    }

    /// Takes the part of `text` that only goes on with a line of prose, if it is all but a last byte that may begin a
    /// marker. Returns its length; none if it must be looked at.
    pub(super) fn take_most(
        &mut self,
        live: &LiveMarkers,
        text: &str,
        sink: &mut EventSink<'_>,
    ) -> Option<usize> {
        let place = self.calm?;
        let taken = place.markers(live).spared(text)?;
        if taken > 0 {
            self.position.pass(&text[..taken]);
            self.go_on(place, &text[..taken], sink);
        }
        Some(taken)
    }

    #[inline(always)]
    fn go_on(&mut self, place: ProseKind, text: &str, sink: &mut EventSink<'_>) {
        self.emitter.go_on(text, text.len(), sink);
        if let Some(lead) = self.lead.as_mut().filter(|_| !place.is_reasoning()) {
            lead.push_str(text);
        }
    }

    pub(super) fn prose(
        &mut self,
        place: ProseKind,
        ahead: PendingText<'_>,
        sink: &mut EventSink<'_>,
    ) -> EngineStep {
        let PendingText { plan, text, is_last } = ahead;
        if text.is_empty() {
            return EngineStep::Wait;
        }
        let live = &plan.live;
        let space = if self.is_gap { self.gap(text) } else { 0 };
        if space == text.len() {
            if !is_last {
                self.gap_seen = space;
                return EngineStep::Wait;
            }
            let is_all = self.emitter.is_untouched() && !place.is_reasoning() && !self.is_frame;
            match is_all {
                true => self.emitter.prose(DeltaKind::Text, text, space, sink),
                false => self.emitter.markup(text, sink),
            }
            return EngineStep::Took(space);
        }
        // A line may begin with a declared name.
        let may_be_nameless =
            place == ProseKind::Text && !live.nameless.is_empty() && !self.shared.tools.is_empty();
        let is_first = may_be_nameless && (self.position.begins_line() || text[..space].contains('\n'));
        if is_first && self.emitter.offset() + space as u64 >= self.settled {
            match self.nameless(live, &text[space..], is_last) {
                Some(None) => {}
                Some(Some(opener)) => {
                    let opening = OpeningCandidate::of(plan, (space, 0), (opener, 0), place);
                    let reader = BodyReader::of_name(&plan.forms[opening.form].form);
                    return self.open(OpeningCandidate { reader, ..opening });
                }
                None => {
                    self.gap_seen = space;
                    return EngineStep::Wait;
                }
            }
        }
        let rest = &text[space..];
        // Looked for up to the end of the text, it would be looked for anew from every marker on the way.
        let reach = if may_be_nameless { boundary(rest, REACH) } else { rest.len() };
        let line = if may_be_nameless { memchr::memchr(b'\n', &rest.as_bytes()[..reach]) } else { None };
        let end = line.map_or(reach, |line| line + 1);
        let (words, is_all) = match place.markers(live).find_up_to(rest, end, is_last) {
            MarkerMatch::Nothing => (end, end == rest.len()),
            MarkerMatch::Perhaps(at) => (at, true),
            MarkerMatch::Marker { at: 0, len, meaning } => {
                return self.marker(meaning, place, (space, len), ahead, sink);
            }
            MarkerMatch::Marker { at, .. } => (at, false),
        };
        let words = line.filter(|line| *line < words).map_or(words, |line| line + 1);
        if words == 0 {
            self.gap_seen = space;
            return EngineStep::Wait;
        }
        self.words(&text[..space + words], space, place, sink);
        if !is_all || is_last || line.is_some() {
            return EngineStep::Took(space + words);
        }
        self.calm = Some(place).filter(|_| place != ProseKind::MessageNothing && self.position.is_quiet());
        EngineStep::Rest(space + words)
    }

    /// Returns the opener that is missing before a declared name that `text` begins with. The outer `None`: more text
    /// is needed.
    #[expect(clippy::option_option, reason = "what is not known yet and what is not there differ")]
    fn nameless(&self, live: &LiveMarkers, text: &str, is_last: bool) -> Option<Option<usize>> {
        let tools = &self.shared.tools;
        let len =
            text.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(byte)).count();
        let (name, rest) = text.split_at(len);
        if rest.is_empty() && !is_last {
            return if tools.may_begin(name) { None } else { Some(None) };
        }
        if !tools.contains(name) {
            return Some(None);
        }
        let rest = rest.trim_start_matches('\n');
        // The counter of a header.
        let counted =
            rest.strip_prefix(':').map(|rest| rest.trim_start_matches(|digit: char| digit.is_ascii_digit()));
        if counted == Some("") && !is_last && rest.len() < SHORT_COUNTER {
            return None;
        }
        let is_counted = counted.is_some_and(|behind| behind.len() + 1 < rest.len());
        let rest = counted.filter(|_| is_counted).unwrap_or(rest);
        // Code in a block calls functions, too.
        if self.fences > 0 && rest.starts_with('(') {
            return Some(None);
        }
        for (opener, follows) in &live.nameless {
            match follows.starting(rest, is_last) {
                MarkerMatch::Marker { .. } => return Some(Some(*opener)),
                MarkerMatch::Perhaps(_) => return None,
                MarkerMatch::Nothing => {}
            }
        }
        Some(None)
    }

    /// Returns the number of bytes of white space with which the gap goes on.
    pub(super) fn gap(&self, text: &str) -> usize {
        let seen = self.gap_seen.min(text.len());
        seen + text[seen..].bytes().take_while(u8::is_ascii_whitespace).count()
    }

    /// Emits prose, the first `space` bytes of which are the white space of a gap.
    pub(super) fn words(&mut self, text: &str, space: usize, place: ProseKind, sink: &mut EventSink<'_>) {
        let (space, words) = text.split_at(if self.is_frame || place.is_reasoning() { space } else { 0 });
        self.emitter.markup(space, sink);
        match place {
            ProseKind::MessageNothing => self.emitter.markup(words, sink),
            _ if place.is_reasoning() => self.emitter.prose(DeltaKind::Reasoning, words, words.len(), sink),
            _ => self.visible(words, sink),
        }
        self.position.follow(words);
        self.close_gap();
    }

    fn visible(&mut self, words: &str, sink: &mut EventSink<'_>) {
        if self.emitter.is_untouched() {
            // The prompt had already written it.
            self.emitter.prose(DeltaKind::Text, &self.continues, 0, sink);
        }
        self.has_text = true;
        self.emitter.prose(DeltaKind::Text, words, words.len(), sink);
        if let Some(lead) = &mut self.lead {
            lead.push_str(words);
        }
    }

    /// Passes syntax, and enters the state behind it.
    pub(super) fn enter(
        &mut self,
        text: &str,
        to: EngineState,
        is_frame: bool,
        sink: &mut EventSink<'_>,
    ) -> EngineStep {
        self.emitter.markup(text, sink);
        self.state = to;
        self.open_gap(is_frame);
        EngineStep::Took(text.len())
    }

    pub(super) fn open_gap(&mut self, is_frame: bool) {
        (self.is_gap, self.is_frame, self.gap_seen) = (true, is_frame, 0);
        self.position = TextPosition::default();
    }

    pub(super) fn close_gap(&mut self) {
        (self.is_gap, self.is_frame, self.gap_seen) = (false, false, 0);
    }

    fn marker(
        &mut self,
        meaning: MarkerMeaning,
        place: ProseKind,
        (space, len): (usize, usize),
        ahead: PendingText<'_>,
        sink: &mut EventSink<'_>,
    ) -> EngineStep {
        let PendingText { plan, text, is_last } = ahead;
        let live = &plan.live;
        let whole = space + len;
        let mut position = self.position;
        position.follow(&text[..space]);
        let offset = self.emitter.offset() + space as u64;
        // Most tags are called like no tool, and stand before no object.
        if let MarkerMeaning::Open(opener) = meaning
            && live.openers[opener].text == ELEMENT
        {
            let tools = &self.shared.tools;
            let name = &text[space + 1..whole - 1];
            let is_tool = tools.contains(name);
            let may_open = match text[whole..].trim_ascii_start().chars().next() {
                _ if is_tool || tools.is_empty() || is_container(name) => is_tool,
                None if !is_last => return EngineStep::Wait,
                next => matches!(next, Some('{' | '[')),
            };
            if !may_open {
                self.words(&text[..whole], if self.is_gap { space } else { 0 }, place, sink);
                return EngineStep::Took(whole);
            }
        }
        let is_text = match meaning {
            // A text that only looks like calls is not read over and over.
            MarkerMeaning::Open(_) if self.vain > MAX_VAIN * (offset + FREE) => true,
            MarkerMeaning::Open(_) if self.is_trusting => false,
            MarkerMeaning::Fence if self.is_trusting => true,
            MarkerMeaning::Open(opener) => {
                let evidence = self.evidence(live.openers[opener].strength, &position, place);
                match evidence.at_opener().0 {
                    CallVerdict::Call => offset < self.shown,
                    CallVerdict::Text => true,
                    CallVerdict::Doubt if offset < self.settled => true,
                    CallVerdict::Doubt => return self.doubt(place, space, position.standing().into()),
                }
            }
            MarkerMeaning::Fence if self.is_doubted => {
                return self.doubted_fence(whole, ahead, sink);
            }
            MarkerMeaning::Fence => {
                let is_first =
                    place == ProseKind::Text && position.may_open_fence() && offset >= self.settled;
                if is_first && (self.is_named || !self.shared.tools.is_empty()) {
                    return self.doubt(place, space, DoubtReason::Block);
                }
                true
            }
            _ if offset < self.shown => true,
            MarkerMeaning::Close => {
                let owed = self.owed.map(|form| plan.forms[form].closers.starting(&text[space..], true));
                let is_owed = matches!(owed, Some(MarkerMatch::Marker { .. }));
                self.owed = self.owed.filter(|_| !is_owed);
                !is_owed || matches!(position.standing(), MarkerPosition::Quoted | MarkerPosition::Code)
            }
            MarkerMeaning::Drop { is_tag: true }
                if !self.is_gap && !table::ENDS.contains(&&text[space..whole]) =>
            {
                true
            }
            MarkerMeaning::Stop | MarkerMeaning::Drop { is_tag: true }
                if !self.is_gap || meaning == MarkerMeaning::Stop =>
            {
                let rest = text[whole..].trim_ascii_start();
                let ends = match (rest.is_empty(), live.text.starting(rest, is_last)) {
                    (true, _) if is_last => true,
                    (true, _) | (_, MarkerMatch::Perhaps(_)) => return EngineStep::Wait,
                    (_, MarkerMatch::Marker { meaning: MarkerMeaning::Close | MarkerMeaning::Fence, .. }) => {
                        false
                    }
                    (_, MarkerMatch::Marker { meaning: MarkerMeaning::Open(opener), .. }) => {
                        matches!(
                            live.openers[opener].strength,
                            MarkerStrength::Strong | MarkerStrength::Inner
                        )
                    }
                    (_, found) => found != MarkerMatch::Nothing,
                };
                !ends || !matches!(position.standing(), MarkerPosition::Plain | MarkerPosition::LineStart)
            }
            MarkerMeaning::Drop { .. } if place.is_reasoning() => {
                matches!(position.standing(), MarkerPosition::Quoted | MarkerPosition::Code)
            }
            _ if place.is_reasoning() => false,
            // Reasoning opens where nothing was said yet, behind other markup, or with its first word or line: a
            // sentence about the tag goes on behind it.
            MarkerMeaning::Think(_)
                if self.has_text
                    && !self.is_gap
                    && is_tag(&text[space..whole])
                    && matches!(position.standing(), MarkerPosition::Plain | MarkerPosition::LineStart) =>
            {
                let speaks = match text[whole..].chars().next() {
                    _ if position.is_behind_letter() => true,
                    None if !is_last => return EngineStep::Wait,
                    next => !next.is_some_and(|next| next.is_alphanumeric() || next == '\n' || next == '\r'),
                };
                if speaks {
                    (self.lead, self.mentions_reasoning) = (None, true);
                }
                speaks
            }
            MarkerMeaning::Unthink if self.mentions_reasoning => {
                self.mentions_reasoning = false;
                true
            }
            // `Write </think> to end it.`
            MarkerMeaning::Unthink if position.is_among_words() => {
                let mut next = text[whole..].chars();
                let (sign, letter) = (next.next(), next.next());
                if letter.is_none() && !is_last {
                    return EngineStep::Wait;
                }
                let goes_on = match sign {
                    Some(' ') => letter.is_some_and(|letter| {
                        // Where letters have no case, a sentence that is not over goes on.
                        let is_caseless = letter.is_alphabetic() && !letter.is_uppercase();
                        letter.is_lowercase() || is_caseless && position.is_behind_word()
                    }),
                    sign => sign.is_some_and(|sign| ".,;:?!)".contains(sign)),
                };
                self.lead = self.lead.take().filter(|_| !goes_on);
                goes_on
            }
            MarkerMeaning::Drop { .. } | MarkerMeaning::Think(_)
                if !self.is_named && position.standing() == MarkerPosition::Plain =>
            {
                // `The marker <|token|> begins it.`
                match text[whole..].bytes().next() {
                    None if !is_last => return EngineStep::Wait,
                    next => next == Some(b' '),
                }
            }
            _ if self.is_trusting => false,
            _ => match position.standing() {
                MarkerPosition::Quoted | MarkerPosition::Code => true,
                MarkerPosition::Indented | MarkerPosition::Enclosed | MarkerPosition::Listed
                    if self.is_doubted =>
                {
                    false
                }
                MarkerPosition::Indented | MarkerPosition::Enclosed | MarkerPosition::Listed
                    if offset < self.settled =>
                {
                    true
                }
                standing @ (MarkerPosition::Indented | MarkerPosition::Enclosed | MarkerPosition::Listed) => {
                    return self.doubt(place, space, standing.into());
                }
                MarkerPosition::Plain | MarkerPosition::LineStart | MarkerPosition::Json => false,
            },
        };
        if is_text {
            self.position.begin_quotation();
            self.words(&text[..whole], if self.is_gap { space } else { 0 }, place, sink);
            return EngineStep::Took(whole);
        }
        match meaning {
            MarkerMeaning::Open(opener) => {
                let opening = OpeningCandidate::of(plan, (space, len), (opener, 0), place);
                let standing = position.standing();
                let follows_tag = live.openers[opener].text == ELEMENT || position.follows_tag();
                self.open(OpeningCandidate { standing, follows_tag, ..opening })
            }
            MarkerMeaning::Header => {
                self.emitter.markup(&text[..space], sink);
                self.emitter.end_reasoning(sink);
                self.enter("", EngineState::Header { is_given: false }, !self.has_text, sink);
                EngineStep::Took(space)
            }
            MarkerMeaning::Think(_) if place.is_reasoning() && !self.is_gap => {
                // Reasoning inside reasoning: the model quotes its own marker.
                self.words(&text[..whole], 0, place, sink);
                EngineStep::Took(whole)
            }
            MarkerMeaning::Think(which) => {
                self.lead = None;
                self.enter(&text[..whole], EngineState::Prose(ProseKind::Thought(which)), true, sink)
            }
            MarkerMeaning::Unthink | MarkerMeaning::End => {
                if meaning == MarkerMeaning::Unthink && !place.is_reasoning() {
                    self.unthink(sink);
                }
                self.lead = None;
                self.emitter.markup(&text[..whole], sink);
                self.emitter.end_reasoning(sink);
                self.enter("", EngineState::Prose(ProseKind::Text), !self.has_text, sink);
                EngineStep::Took(whole)
            }
            MarkerMeaning::Drop { .. }
            | MarkerMeaning::Stop
            | MarkerMeaning::Close
            | MarkerMeaning::Fence => {
                self.enter(&text[..whole], EngineState::Prose(place), self.is_frame, sink)
            }
        }
    }

    /// Returns the evidence for a candidate at its opener.
    pub(super) fn evidence(
        &self,
        strength: MarkerStrength,
        position: &TextPosition,
        place: ProseKind,
    ) -> CallEvidence<'_> {
        CallEvidence {
            strength,
            standing: position.standing(),
            // Reasoning does not begin with a call that is only shown.
            is_in_reasoning: place.is_reasoning() && self.emitter.is_thinking(),
            is_doubted: self.is_doubted,
            is_in_block: self.is_in_block,
            name: "",
            follows_tag: false,
            is_tag: false,
            arguments: ArgumentEvidence::Unseen,
            tools: &self.shared.tools,
            is_named: self.is_named,
            has_text: self.has_text,
            is_spoken: false,
        }
    }

    /// Ends reasoning that did not begin here: the prompt began it, if nothing else has come yet.
    fn unthink(&mut self, sink: &mut EventSink<'_>) {
        if std::mem::take(&mut self.is_in_reasoning) {
            return;
        }
        match self.lead.take() {
            Some(lead) if lead.is_empty() => {}
            Some(lead) => {
                self.emitter.correct_to_reasoning(&lead, sink);
                self.has_text = false;
            }
            None => self.emitter.notice(NoticeCode::StrayMarkup, "reasoning ends that did not begin", sink),
        }
    }

    /// Reads the header of a message, once it is complete.
    pub(super) fn header(
        &mut self,
        is_given: bool,
        ahead: PendingText<'_>,
        sink: &mut EventSink<'_>,
    ) -> EngineStep {
        let PendingText { plan, text, is_last } = ahead;
        let live = &plan.live;
        let Some(messages) = &live.messages else { return EngineStep::Wait };
        let grammar = messages.grammar;
        if is_given {
            match grammar.may_begin_in_header(text, &self.shared.tools, is_last) {
                None => return EngineStep::Wait,
                Some(true) => {}
                Some(false) => {
                    self.state = EngineState::Prose(ProseKind::Text);
                    return EngineStep::Took(0);
                }
            }
        }
        let begin = &text[..boundary(text, LONGEST_HEADER + grammar.header_end.len())];
        let is_all = is_last || begin.len() < text.len();
        let first =
            grammar.starts.iter().find(|start| text.starts_with(**start)).map_or(0, |start| start.len());
        // The message may have lost what ends its header: then another token comes first.
        let (end, breaks) = match messages.headers.find(&begin[first..], is_all) {
            MarkerMatch::Marker { at, meaning: true, .. } => (Some(first + at), None),
            MarkerMatch::Marker { at, meaning: false, .. } => (None, Some(first + at)),
            MarkerMatch::Perhaps(_) => return EngineStep::Wait,
            MarkerMatch::Nothing if !is_all => return EngineStep::Wait,
            MarkerMatch::Nothing => (None, None),
        };
        let (len, whole) = match end {
            Some(len) => (len, len + grammar.header_end.len()),
            None => {
                self.emitter.notice(NoticeCode::StrayMarkup, "the header of a message has no end", sink);
                let upto = breaks.unwrap_or(begin.len());
                let is_call = |len: &usize| {
                    matches!((grammar.route)(&text[..*len], &self.shared.tools), MessageRoute::Call { .. })
                };
                let Some(len) = begin[..upto].find('{').filter(is_call) else {
                    // The beginning of the header is syntax, and so is a header that begins anew; text follows.
                    let is_header = breaks.is_some_and(|at| text[at..].starts_with(grammar.starts[0]));
                    let cut = if is_header { upto } else { first };
                    self.emitter.markup(&text[..cut], sink);
                    self.state = EngineState::Prose(ProseKind::Text);
                    return EngineStep::Took(cut);
                };
                (len, len)
            }
        };
        self.dialect.get_or_insert(messages.dialect);
        let route = (grammar.route)(&text[..len], &self.shared.tools);
        // Another dialect may have such headers before calls of its own.
        let opens = match (route, live.text.starting(&text[whole..], is_last)) {
            (MessageRoute::Call { .. }, MarkerMatch::Perhaps(_)) if !self.is_named => {
                return EngineStep::Wait;
            }
            (MessageRoute::Call { .. }, MarkerMatch::Nothing)
                if !self.is_named && text.len() == whole && !is_last =>
            {
                return EngineStep::Wait;
            }
            (MessageRoute::Call { .. }, MarkerMatch::Marker { meaning: MarkerMeaning::Open(at), .. }) => {
                live.openers[at].strength == MarkerStrength::Strong
            }
            _ => false,
        };
        let place = match route {
            MessageRoute::Call { .. } if opens => ProseKind::Text,
            MessageRoute::Text => ProseKind::Message,
            MessageRoute::Thought => ProseKind::MessageThought,
            MessageRoute::Calls => ProseKind::MessageCalls,
            MessageRoute::Nothing => {
                self.emitter.notice(NoticeCode::MalformedCall, "arguments are meant for no tool", sink);
                ProseKind::MessageNothing
            }
            // `<|channel|>commentary to=f and then <|message|>` is a sentence.
            MessageRoute::Call { start, end, .. }
                if !may_be_name(&text[start..end])
                    || is_filler(&text[start..end])
                    || text[end..len].trim().contains(' ') && !text[end..len].contains("<|") =>
            {
                self.state = EngineState::Prose(ProseKind::Text);
                self.words(&text[..whole], 0, ProseKind::Text, sink);
                return EngineStep::Took(whole);
            }
            MessageRoute::Call { start, end, kind } => {
                self.emitter.markup(&text[..start], sink);
                self.shared.name.clear();
                self.shared.name.push_str(&text[start..end]);
                self.emitter.call(&self.shared.name, "", kind, end - start, sink);
                self.shared.in_doubt = false;
                if kind == CallKind::Function {
                    self.flag_begun(sink);
                }
                self.emitter.markup(&text[end..whole], sink);
                self.was_odd = false;
                self.calls += 1;
                self.state = EngineState::Call { form: messages.form, reader: BodyReader::default() };
                self.close_gap();
                return EngineStep::Took(whole);
            }
        };
        let is_frame = !self.has_text && !place.is_reasoning();
        self.enter(&text[..whole], EngineState::Prose(place), is_frame, sink)
    }
}

/// Whether a marker is a tag, which sentences have, too, and no special token.
fn is_tag(marker: &str) -> bool {
    marker.starts_with('<') && !marker.contains(['|', '｜'])
}
