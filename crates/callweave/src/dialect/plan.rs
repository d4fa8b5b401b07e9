//! Dialects made ready for reading: all forms compiled, and the markers that are live in each state.

use std::sync::OnceLock;

use super::bodies::Compiled;
use super::channel::Grammar;
use super::markers::{Markers, SUFFIX};
use super::spec::{Body, CallsInThoughts, Dialect};

/// One dialect, or several among which the text decides.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) dialects: Vec<Dialect>,
    pub(super) forms: Vec<Compiled>,
    /// The live markers: first those of all dialects together, then those of each alone.
    sets: Vec<OnceLock<Live>>,
    rule: Option<CallsInThoughts>,
}

/// The markers that are live in the states of the engine.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) text: Markers<Meaning>,
    /// For each thought.
    pub(super) thoughts: Vec<Markers<Meaning>>,
    /// Which of them the prompt may have opened.
    pub(super) given: usize,
    /// For the messages of a grammar of channels.
    pub(super) messages: Option<Messages>,
    pub(super) openers: Vec<Opener>,
}

/// The markers that are live inside messages.
#[derive(Debug)]
pub(super) struct Messages {
    pub(super) grammar: &'static Grammar,
    pub(super) dialect: usize,
    /// The form of calls whose name stands in the header.
    pub(super) form: usize,
    pub(super) prose: Markers<Meaning>,
    pub(super) calls: Markers<Meaning>,
}

/// What a marker means in text or in a thought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// A call may begin: which of [`Live::openers`].
    Open(usize),
    /// A thought begins: which of [`Live::thoughts`].
    Think(usize),
    /// A thought ends.
    Unthink,
    /// A special token that is never text.
    Drop,
    /// A message begins with its header.
    Header,
    /// A message ends.
    End,
}

/// Something that may open a call.
#[derive(Debug)]
pub(super) struct Opener {
    text: String,
    /// The forms it may open, in the order in which they are tried.
    pub(super) forms: Vec<Candidate>,
}

/// A form that an opener may open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) form: usize,
    /// Whether the opener is part of the body.
    pub(super) is_part_of_body: bool,
}

impl Plan {
    pub(super) fn new(dialects: Vec<Dialect>, rule: Option<CallsInThoughts>) -> Self {
        let mut forms = Vec::new();
        for (index, dialect) in dialects.iter().enumerate() {
            forms.extend(dialect.forms.iter().map(|form| Compiled::new(form.clone(), index)));
        }
        let count = if dialects.len() > 1 { dialects.len() + 1 } else { 1 };
        Self { dialects, forms, sets: (0..count).map(|_| OnceLock::new()).collect(), rule }
    }

    /// Whether the text has to decide between several dialects.
    pub(super) fn is_auto(&self) -> bool {
        self.dialects.len() > 1
    }

    /// The live markers of `dialect`, or of all of them.
    pub(super) fn live(&self, dialect: Option<usize>) -> &Live {
        let index = match dialect {
            Some(dialect) if self.is_auto() => dialect + 1,
            _ => 0,
        };
        self.sets[index].get_or_init(|| self.build(dialect.filter(|_| self.is_auto())))
    }

    fn build(&self, only: Option<usize>) -> Live {
        let is_in = |index: usize| only.is_none_or(|only| only == index);
        let mut openers: Vec<Opener> = Vec::new();
        for (index, compiled) in self.forms.iter().enumerate() {
            if is_in(compiled.dialect) {
                add_openers(&mut openers, index, compiled);
            }
        }
        let chosen = || self.dialects.iter().enumerate().filter(|(index, _)| is_in(*index)).map(|(_, it)| it);
        let mut text = Markers::new();
        let messages = self.messages(&is_in, &openers);
        if let Some(messages) = &messages {
            for start in messages.grammar.starts {
                text.add(start, Meaning::Header);
            }
            for token in messages.grammar.ends.iter().chain([&messages.grammar.header_end]) {
                if !token.trim().is_empty() {
                    text.add(token, Meaning::Drop);
                }
            }
        }
        let mut thoughts: Vec<(Vec<String>, Markers<Meaning>)> = Vec::new();
        for dialect in chosen() {
            for token in &dialect.markup {
                text.add(token, Meaning::Drop);
            }
            for thought in &dialect.thoughts {
                let known = thoughts.iter().position(|(opens, _)| *opens == thought.open);
                let which = known.unwrap_or(thoughts.len());
                if known.is_none() {
                    thoughts.push((thought.open.clone(), Markers::new()));
                }
                for open in &thought.open {
                    text.add(open, Meaning::Think(which));
                    thoughts[which].1.add(open, Meaning::Think(which));
                }
                for close in &thought.close {
                    text.add(close, Meaning::Unthink);
                    thoughts[which].1.add(close, Meaning::Unthink);
                }
            }
        }
        // Which thought the prompt opened is not known where there are several, or none.
        let given = if thoughts.len() == 1 { 0 } else { thoughts.len() };
        if given > 0 || thoughts.is_empty() {
            let mut markers = Markers::new();
            for thought in chosen().flat_map(|dialect| &dialect.thoughts) {
                thought.open.iter().for_each(|open| markers.add(open, Meaning::Think(given)));
                thought.close.iter().for_each(|close| markers.add(close, Meaning::Unthink));
            }
            markers.add("</think>", Meaning::Unthink);
            thoughts.push((Vec::new(), markers));
        }
        for (which, opener) in openers.iter().enumerate() {
            if self.dialects[self.forms[opener.forms[0].form].dialect].channels.is_none() {
                text.add(&opener.text, Meaning::Open(which));
            }
            let rule = self
                .rule
                .unwrap_or(self.dialects[self.forms[opener.forms[0].form].dialect].calls_in_thoughts);
            let is_bare = self.forms[opener.forms[0].form].is_bare();
            if rule == CallsInThoughts::End && !is_bare {
                for (_, markers) in &mut thoughts {
                    markers.add(&opener.text, Meaning::Open(which));
                }
            }
        }
        for dialect in chosen().filter(|dialect| dialect.calls_in_thoughts == CallsInThoughts::End) {
            for token in &dialect.markup {
                for (_, markers) in &mut thoughts {
                    markers.add(token, Meaning::Drop);
                }
            }
        }
        let thoughts = thoughts.into_iter().map(|(_, markers)| markers).collect();
        Live { text, thoughts, given, messages, openers }
    }

    /// The markers of the first grammar of channels.
    fn messages(&self, is_in: &dyn Fn(usize) -> bool, openers: &[Opener]) -> Option<Messages> {
        let is_open = self.dialects.iter().enumerate().filter(|(index, _)| is_in(*index)).count() > 1;
        let (index, grammar) = self
            .dialects
            .iter()
            .enumerate()
            .filter(|(index, _)| is_in(*index))
            .filter_map(|(index, dialect)| Some((index, dialect.channels?.grammar())))
            .find(|(_, grammar)| grammar.is_distinct || !is_open)?;
        let form = self.forms.iter().position(|compiled| compiled.dialect == index)?;
        let mut prose = Markers::new();
        for end in grammar.ends {
            prose.add(end, Meaning::End);
        }
        let mut calls = prose.clone();
        if !grammar.is_quoting {
            for start in grammar.starts {
                prose.add(start, Meaning::Header);
            }
        }
        for start in grammar.starts {
            calls.add(start, Meaning::Header);
        }
        for (which, opener) in openers.iter().enumerate() {
            if self.forms[opener.forms[0].form].dialect == index {
                calls.add(&opener.text, Meaning::Open(which));
            }
        }
        Some(Messages { grammar, dialect: index, form, prose, calls })
    }
}

fn add_openers(openers: &mut Vec<Opener>, index: usize, compiled: &Compiled) {
    let mut add_one = |text: &str, is_part_of_body: bool| {
        if text.is_empty() {
            return;
        }
        let candidate = Candidate { form: index, is_part_of_body };
        match openers.iter_mut().find(|opener| opener.text == text) {
            Some(opener) => opener.forms.push(candidate),
            None => openers.push(Opener { text: text.to_owned(), forms: vec![candidate] }),
        }
    };
    let mut add = |text: &str, is_part_of_body: bool| {
        // Without its suffix a tag may be what other dialects use too, so all of them have to be tried.
        if text.contains(SUFFIX) {
            add_one(&text.replace(SUFFIX, ""), is_part_of_body);
        }
        add_one(text, is_part_of_body);
    };
    for open in &compiled.form.open {
        add(open, false);
    }
    match &compiled.form.body {
        Body::Tagged(body) => add(&body.call.open, true),
        Body::Elements(body) => add(&format!("{}{}", body.prefix, body.call.open), true),
        Body::Json(_) if compiled.is_bare() => {
            add("{", true);
            add("[", true);
        }
        Body::Python(_) if compiled.is_bare() => add("[", true),
        _ => {}
    }
}
