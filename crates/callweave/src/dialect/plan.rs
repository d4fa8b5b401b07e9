//! Dialects made ready for reading: all forms compiled, and the markers that are live in each state.

use super::bodies::CompiledForm;
use super::channel::ChannelRules;
use super::evidence::MarkerStrength;
use super::markers::{MarkerSet, in_ascii};
use super::spec::{CallBody, CallsInReasoning, Dialect, ReasoningMarkers};
use super::table::{self, ELEMENT, SUFFIX};

/// One dialect, or several among which the text decides.
#[derive(Debug)]
pub(super) struct DialectPlan {
    /// The dialects that were asked for, and behind them others whose calls are found, too.
    pub(super) dialects: Vec<Dialect>,
    /// How many were asked for.
    pub(super) own: usize,
    pub(super) forms: Vec<CompiledForm>,
    pub(super) live: LiveMarkers,
    /// Whether a dialect that was asked for has reasoning.
    pub(super) has_reasoning: bool,
    /// Whether matchers are to be given the complete text, so that nothing is read before its end.
    pub(super) waits_for_all: bool,
}

/// The markers that are live in the states of the engine.
#[derive(Debug)]
pub(super) struct LiveMarkers {
    pub(super) text: MarkerSet<MarkerMeaning>,
    /// For each pair of reasoning markers.
    pub(super) reasoning: Vec<MarkerSet<MarkerMeaning>>,
    /// Which of them the prompt may have opened.
    pub(super) given: usize,
    /// For the messages of a grammar of channels.
    pub(super) messages: Option<MessageMarkers>,
    pub(super) openers: Vec<CallOpener>,
    /// The markers that are never text right after a call: all closers, and tokens that end a response.
    pub(super) closers: MarkerSet<()>,
    /// Openers of forms in which the name stands first, and the markers that follow it there, for where they are
    /// missing.
    pub(super) nameless: Vec<(usize, MarkerSet<()>)>,
}

/// The markers that are live inside messages.
#[derive(Debug)]
pub(super) struct MessageMarkers {
    pub(super) grammar: &'static ChannelRules,
    pub(super) dialect: usize,
    /// The form of calls whose name stands in the header.
    pub(super) form: usize,
    pub(super) prose: MarkerSet<MarkerMeaning>,
    pub(super) calls: MarkerSet<MarkerMeaning>,
    /// The markers that end a header, if true, and those that show that nothing did.
    pub(super) headers: MarkerSet<bool>,
}

/// The meaning of a marker in text or in reasoning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MarkerMeaning {
    /// A call may begin: which of [`LiveMarkers::openers`].
    Open(usize),
    /// Reasoning begins: which of [`LiveMarkers::reasoning`].
    Think(usize),
    /// Reasoning ends.
    Unthink,
    /// A special token that is never text, or one that prose has too unless markup stands before it.
    Drop { is_tag: bool },
    /// A token that ends responses: text unless one ends with it, or other markup follows.
    Stop,
    /// A marker that closes calls: text unless one is still to be closed.
    Close,
    /// A fence.
    Fence,
    /// A message begins with its header.
    Header,
    /// A message ends.
    End,
}

/// Something that may open a call.
#[derive(Debug)]
pub(super) struct CallOpener {
    pub(super) text: String,
    pub(super) strength: MarkerStrength,
    /// The forms it may open, in the order in which they are tried.
    pub(super) forms: Vec<FormCandidate>,
}

/// A form that an opener may open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FormCandidate {
    pub(super) form: usize,
    /// Whether the opener is part of the body.
    pub(super) is_part_of_body: bool,
    /// How much the opener says for this form, if less or more than for the first.
    pub(super) strength: Option<MarkerStrength>,
}

impl CallOpener {
    /// How much it says for one of its forms.
    pub(super) fn strength_of(&self, turn: usize) -> MarkerStrength {
        self.forms.get(turn).and_then(|candidate| candidate.strength).unwrap_or(self.strength)
    }
}

impl DialectPlan {
    pub(super) fn new(mut dialects: Vec<Dialect>, others: &[Dialect]) -> Self {
        let own = dialects.len();
        let is_other = |other: &&Dialect| dialects.iter().all(|dialect| dialect.name != other.name);
        let others: Vec<Dialect> = others.iter().filter(is_other).cloned().collect();
        dialects.extend(others);
        let mut forms = Vec::new();
        for (index, dialect) in dialects.iter().enumerate() {
            forms.extend(dialect.forms.iter().map(|form| CompiledForm::new(form.clone(), index)));
        }
        let live = build(&dialects, own, &forms);
        let has_reasoning = dialects[..own].iter().any(|dialect| !dialect.reasoning.is_empty());
        let waits_for_all = forms.iter().any(|compiled| compiled.whole_text_matcher().is_some());
        Self { dialects, own, forms, live, has_reasoning, waits_for_all }
    }

    /// Whether the text has to decide between several dialects.
    pub(super) fn is_auto(&self) -> bool {
        self.own > 1
    }

    /// The dialect, where one was asked for.
    pub(super) fn only(&self) -> Option<&Dialect> {
        self.dialects.first().filter(|_| self.own == 1)
    }

    /// Whether the caller said that the text is in the dialect of that form.
    pub(super) fn is_named(&self, form: &CompiledForm) -> bool {
        self.own == 1 && form.dialect == 0
    }
}

fn build(all: &[Dialect], own: usize, forms: &[CompiledForm]) -> LiveMarkers {
    let (is_auto, dialects) = (own > 1, &all[..own]);
    let own_forms = || forms.iter().enumerate().filter(|(_, compiled)| compiled.dialect < own);
    let mut openers: Vec<CallOpener> = Vec::new();
    own_forms().for_each(|(index, compiled)| add_openers(&mut openers, index, compiled));
    let mut lost = Vec::new();
    if !is_auto {
        // The body may have lost its opener.
        let is_json =
            |(_, compiled): &(usize, &CompiledForm)| matches!(compiled.form.body, CallBody::Json(_));
        if let Some((form, _)) = own_forms().find(is_json) {
            let strength = Some(MarkerStrength::Missing);
            let body = FormCandidate { form, is_part_of_body: true, strength };
            lost.extend(["{", "["].map(|text| (text, body)));
        }
    }
    // Of the others, markers that are no word of any prose. They count as they do where the text decides.
    let mut others = Vec::new();
    for (index, compiled) in forms.iter().enumerate().filter(|(_, compiled)| compiled.dialect >= own) {
        add_openers(&mut others, index, compiled);
    }
    for CallOpener { text, strength, forms } in others {
        let is_fence = table::FENCES.iter().any(|fence| text.starts_with(fence));
        if matches!(strength, MarkerStrength::Strong | MarkerStrength::Inner | MarkerStrength::Bare)
            && !is_fence
        {
            let of_others = |candidate: FormCandidate| FormCandidate {
                strength: candidate.strength.or(Some(strength)),
                ..candidate
            };
            forms
                .into_iter()
                .map(of_others)
                .for_each(|other| add_opener(&mut openers, &text, other, strength));
        }
    }
    lost.into_iter().for_each(|(text, body)| add_opener(&mut openers, text, body, MarkerStrength::Missing));
    for opener in 0..openers.len() {
        let CallOpener { text, strength, forms } = &openers[opener];
        let (text, strength, forms) = (in_ascii(text), *strength, forms.clone());
        if text != openers[opener].text {
            forms.into_iter().for_each(|candidate| add_opener(&mut openers, &text, candidate, strength));
        }
    }
    let mut text = MarkerSet::new();
    let messages = messages(dialects, forms, &openers);
    if let Some(MessageMarkers { grammar, .. }) = &messages {
        text.add_all(grammar.starts, MarkerMeaning::Header);
        let tokens = grammar.ends.iter().chain([&grammar.header_end]);
        text.add_all(tokens.filter(|token| !token.trim().is_empty()), MarkerMeaning::Drop { is_tag: false });
    }
    let drop = |token: &str| MarkerMeaning::Drop { is_tag: is_auto && !token.contains(['|', '｜']) };
    let mut reasoning: Vec<(Vec<String>, MarkerSet<MarkerMeaning>)> = Vec::new();
    for dialect in dialects {
        dialect.markup.iter().for_each(|token| text.add(token, drop(token)));
        for ReasoningMarkers { open, close } in &dialect.reasoning {
            let known = reasoning.iter().position(|(opens, _)| opens == open);
            let which = known.unwrap_or(reasoning.len());
            if known.is_none() {
                reasoning.push((open.clone(), MarkerSet::new()));
            }
            for markers in [&mut text, &mut reasoning[which].1] {
                markers.add_all(open, MarkerMeaning::Think(which));
                markers.add_all(close, MarkerMeaning::Unthink);
            }
        }
    }
    // The reasoning markers that the prompt opened are not known where there are several, or none.
    let given = if reasoning.len() == 1 { 0 } else { reasoning.len() };
    if given > 0 || reasoning.is_empty() {
        let all = || dialects.iter().flat_map(|dialect| &dialect.reasoning);
        let markers = MarkerSet::new()
            .with(all().flat_map(|pair| &pair.open), MarkerMeaning::Think(given))
            .with(all().flat_map(|pair| &pair.close), MarkerMeaning::Unthink)
            .with([table::UNTHINK], MarkerMeaning::Unthink);
        reasoning.push((Vec::new(), markers));
    }
    let mut reasoning: Vec<_> = reasoning.into_iter().map(|(_, markers)| markers).collect();
    for (which, opener) in openers.iter().enumerate() {
        let dialect = &all[forms[opener.forms[0].form].dialect];
        if is_auto || all.len() > own || dialect.channels.is_none() {
            text.add(&opener.text, MarkerMeaning::Open(which));
        }
        let is_marked = matches!(opener.strength, MarkerStrength::Strong | MarkerStrength::Inner);
        let ends = |dialect: &Dialect| dialect.calls_in_reasoning == CallsInReasoning::End;
        if ends(dialect) && (is_auto || dialects.iter().all(ends)) && is_marked {
            reasoning.iter_mut().for_each(|markers| markers.add(&opener.text, MarkerMeaning::Open(which)));
        }
    }
    text.add_all(table::FENCES, MarkerMeaning::Fence);
    text.add_all(table::ENDS, MarkerMeaning::Stop);
    let closers = forms.iter().flat_map(|compiled| &compiled.form.close);
    text.add_all(closers.filter(|close| close.starts_with("</")), MarkerMeaning::Close);
    for dialect in dialects.iter().filter(|dialect| dialect.calls_in_reasoning == CallsInReasoning::End) {
        for token in &dialect.markup {
            reasoning.iter_mut().for_each(|markers| markers.add(token, drop(token)));
        }
    }
    let closes = own_forms().flat_map(|(_, compiled)| &compiled.form.close);
    let tokens = closes.chain(dialects.iter().flat_map(|dialect| &dialect.markup));
    let mut closers =
        MarkerSet::new().with(table::ENDS, ()).with(tokens.filter(|token| token.starts_with(['<', '['])), ());
    let mut nameless = Vec::new();
    for (index, compiled) in own_forms() {
        let follows: Vec<&str> = match &compiled.form.body {
            CallBody::Tagged(body) => {
                closers.add_all(&body.call_close, ());
                let is_direct = body.call.attribute.is_none() && !body.value_open.is_empty();
                is_direct.then_some(body.parameter.open.as_str()).into_iter().collect()
            }
            CallBody::Header(body) => {
                body.after.iter().map(String::as_str).filter(|after| after.starts_with(['[', '<'])).collect()
            }
            CallBody::Python {} if !compiled.is_bare() => vec!["("],
            CallBody::Braces(_) => vec!["{"],
            _ => Vec::new(),
        };
        if !follows.is_empty() {
            nameless.push((openers.len(), MarkerSet::new().with(follows, ())));
            let forms = vec![FormCandidate { form: index, is_part_of_body: true, strength: None }];
            openers.push(CallOpener { text: String::new(), strength: MarkerStrength::Missing, forms });
        }
    }
    LiveMarkers { text, reasoning, given, messages, openers, closers, nameless }
}

/// The markers of the first grammar of channels.
fn messages(dialects: &[Dialect], forms: &[CompiledForm], openers: &[CallOpener]) -> Option<MessageMarkers> {
    let (index, grammar) = dialects
        .iter()
        .enumerate()
        .filter_map(|(index, dialect)| Some((index, dialect.channels?.grammar())))
        .find(|(_, grammar)| grammar.is_distinct || dialects.len() == 1)?;
    let form = forms.iter().position(|compiled| compiled.dialect == index)?;
    let ends = MarkerSet::new().with(grammar.ends, MarkerMeaning::End);
    let mut calls = ends.clone().with(grammar.starts, MarkerMeaning::Header);
    let prose = if grammar.is_quoting { ends } else { calls.clone() };
    for (which, opener) in openers.iter().enumerate() {
        if forms[opener.forms[0].form].dialect == index {
            calls.add(&opener.text, MarkerMeaning::Open(which));
        }
    }
    let breaks = grammar.ends.iter().chain(grammar.starts.first());
    let headers = MarkerSet::new().with([grammar.header_end], true).with(breaks, false);
    let prose = prose.with(table::ENDS, MarkerMeaning::Stop);
    Some(MessageMarkers { grammar, dialect: index, form, prose, calls, headers })
}

fn add_opener(openers: &mut Vec<CallOpener>, text: &str, candidate: FormCandidate, strength: MarkerStrength) {
    match openers.iter_mut().find(|opener| opener.text == text) {
        Some(opener) => opener.forms.push(candidate),
        None if text.is_empty() => {}
        None => openers.push(CallOpener { text: text.to_owned(), strength, forms: vec![candidate] }),
    }
}

fn add_openers(openers: &mut Vec<CallOpener>, index: usize, compiled: &CompiledForm) {
    let mut add_one = |text: &str, is_part_of_body: bool, strength: MarkerStrength| {
        // A tag of any name says more for one form than for another.
        let own = (text == ELEMENT).then_some(strength);
        let candidate = FormCandidate { form: index, is_part_of_body, strength: own };
        add_opener(openers, text, candidate, strength);
    };
    let mut add = |text: &str, is_part_of_body: bool, strength: MarkerStrength| {
        // Without its suffix a tag may be what other dialects use too, so all of them have to be tried.
        if text.contains(SUFFIX) {
            add_one(&text.replace(SUFFIX, ""), is_part_of_body, strength);
        }
        add_one(text, is_part_of_body, strength);
    };
    let outer = |open: &str| {
        let is_word = open.bytes().all(|byte| byte.is_ascii() && !b"<[|`~".contains(&byte));
        match is_word {
            true => MarkerStrength::Word,
            false if open == ELEMENT => MarkerStrength::Bare,
            false => MarkerStrength::Strong,
        }
    };
    compiled.form.open.iter().for_each(|open| add(open, false, outer(open)));
    let inner = |open: &str| {
        let word = open.trim_start_matches('<').trim_end_matches(['=', ' ']);
        let is_word = word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if is_word && !compiled.form.open.is_empty() { MarkerStrength::Inner } else { MarkerStrength::Strong }
    };
    match &compiled.form.body {
        // A name between two tags is none without the marker around it.
        CallBody::Tagged(body) if body.call.end.starts_with("</") => {}
        CallBody::Tagged(body) => add(&body.call.open, true, inner(&body.call.open)),
        CallBody::Children(body) if !body.call.open.is_empty() => {
            add(&body.call.open, true, inner(&body.call.open));
        }
        // Any markup has such tags: it is looked at by name.
        CallBody::Children(_) if compiled.form.open.is_empty() => add(ELEMENT, true, MarkerStrength::Missing),
        CallBody::Elements(body) => {
            add(&format!("{}{}", body.prefix, body.call.open), true, MarkerStrength::Strong);
        }
        CallBody::Json(_) if compiled.is_bare() => {
            add("{", true, MarkerStrength::Bare);
            add("[", true, MarkerStrength::Bare);
        }
        CallBody::Python {} if compiled.is_bare() => add("[", true, MarkerStrength::Bare),
        CallBody::Header(body) => body.before.iter().for_each(|word| add(word, true, outer(word))),
        CallBody::Braces(body) => {
            let words = body.before.iter().filter(|word| word.len() > 1);
            words.for_each(|word| add(word, true, MarkerStrength::Start));
        }
        _ => {}
    }
}
