//! The markers of a tagged body, made ready for searching.

use super::super::super::markers::{Found, Markers};
use super::super::super::spec::{Form, Tag, Tagged};
use super::super::super::table::minicpm5::entities;
use super::super::leading_space;
use super::super::tags::{TagLen, attribute_of, tag_len};
use super::WRITTEN_BREAK;

/// The markers of a tagged body, made ready for searching.
#[derive(Debug)]
pub(in super::super::super) struct Frame {
    pub(super) body: Tagged,
    /// Whether its tags are special tokens, which are never data.
    pub(super) is_special: bool,
    pub(super) call_open: Markers<()>,
    pub(super) call_end: Markers<bool>,
    pub(super) parameter_end: Markers<()>,
    pub(super) value_open: Markers<()>,
    pub(in super::super) inside: Markers<Inside>,
    /// What may follow a closer that is to be confirmed.
    follows: Markers<()>,
    /// What may follow the end of a call: another call, too.
    follows_call: Markers<()>,
}

/// What may stand inside a call, or end a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Inside {
    Parameter,
    ValueClose,
    CallClose,
    /// The opener of another call.
    CallOpen,
    /// A closer of the form.
    Outside,
    Cdata,
}

impl Frame {
    pub(in super::super) fn new(form: &Form, body: &Tagged) -> Self {
        let (parameter, call) = (openings(&body.parameter), openings(&body.call));
        let mut call_end = Markers::new().with([&body.call.end], true);
        if body.call.attribute.is_none() && body.call.end.starts_with('>') {
            // A name is over where it cannot go on, its bracket forgotten.
            call_end.add_all(["\n", "<"], false);
        } else if body.call.attribute.is_none() {
            call_end.add(&body.parameter.open, false);
            call_end.add_all(body.call_close.iter().chain(&form.close), false);
            if body.call.end.is_empty() {
                call_end.add_all(["\n", WRITTEN_BREAK], true);
            }
        }
        let inside = Markers::new()
            .with(&parameter, Inside::Parameter)
            .with([&body.value_close], Inside::ValueClose)
            .with(&body.call_close, Inside::CallClose)
            .with(&form.close, Inside::Outside)
            .with(&call, Inside::CallOpen)
            .with(body.entities.then_some(entities::CDATA), Inside::Cdata);
        let closers = body.call_close.iter().chain(&form.close);
        let follows = Markers::new().with(&parameter, ()).with([&body.value_close], ()).with(closers, ());
        Self {
            body: body.clone(),
            is_special: body.value_close.contains(['|', '｜']),
            follows_call: follows.clone().with(call.iter().chain(&form.open), ()),
            call_open: Markers::new().with(&call, ()),
            call_end,
            parameter_end: Markers::new().with([&body.parameter.end], ()),
            value_open: Markers::new().with([&body.value_open], ()),
            inside,
            follows,
        }
    }

    /// Whether a tag of the frame, or the end of the text, follows a closer. Nothing: more text is needed.
    pub(super) fn is_followed(&self, closer: Inside, rest: &str, is_last: bool) -> Option<bool> {
        let follows = if closer == Inside::CallClose { &self.follows_call } else { &self.follows };
        let rest = &rest[leading_space(rest)..];
        match follows.starting(rest, false) {
            Found::Marker { .. } => Some(true),
            Found::Perhaps(_) => is_last.then_some(true),
            Found::Nothing if rest.is_empty() => is_last.then_some(true),
            Found::Nothing => Some(false),
        }
    }
}

/// The texts that a tag begins with: its word ends where its attributes begin.
fn openings(tag: &Tag) -> Vec<String> {
    match &tag.attribute {
        Some(_) => [" ", "\n", "\t"].map(|space| format!("{}{space}", tag.open)).to_vec(),
        None => vec![tag.open.clone()],
    }
}

/// The name in a tag, the beginning of which stands before `rest`. Nothing: more text is needed.
pub(super) fn name_in<'t, M: Copy>(
    rest: &'t str,
    tag: &Tag,
    ends: &Markers<M>,
    is_last: bool,
) -> Option<&'t str> {
    let header = match tag_len(rest, ends, tag.attribute.is_some(), is_last) {
        TagLen::Known(len) => &rest[..len],
        TagLen::More => return None,
        TagLen::Never => return Some(""),
    };
    Some(match &tag.attribute {
        Some(attribute) => attribute_of(header, attribute).unwrap_or_default(),
        None => header.trim().trim_matches(['"', '\'']),
    })
}
