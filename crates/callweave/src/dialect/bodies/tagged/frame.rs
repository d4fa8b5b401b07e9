//! The markers of a tagged body, made ready for searching.

use super::super::super::markers::Markers;
use super::super::super::spec::{Form, Tagged};
use super::WRITTEN_BREAK;

/// The markers of a tagged body, made ready for searching.
#[derive(Debug)]
pub(in super::super::super) struct Frame {
    pub(super) call_open: Markers<()>,
    pub(super) call_end: Markers<bool>,
    pub(super) parameter_end: Markers<()>,
    pub(super) value_open: Markers<()>,
    pub(in super::super) inside: Markers<Inside>,
    /// What may follow a closer that is to be confirmed.
    pub(super) follows: Markers<()>,
}

/// What may stand inside a call, or end a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Inside {
    Parameter,
    ValueClose,
    CallClose,
    /// A closer of the form, or the opener of another call.
    Outside,
    Cdata,
}

impl Frame {
    pub(in super::super) fn new(form: &Form, body: &Tagged) -> Self {
        let call_open = Markers::from_texts([body.call.open.as_str()], ());
        let mut call_end = Markers::new();
        call_end.add(&body.call.end, true);
        if body.call.attribute.is_none() && !body.call.end.starts_with('>') {
            call_end.add(&body.parameter.open, false);
            for close in body.call_close.iter().chain(&form.close) {
                call_end.add(close, false);
            }
            if body.call.end.is_empty() {
                call_end.add("\n", true);
                call_end.add(WRITTEN_BREAK, true);
            }
        }
        let mut inside = Markers::new();
        inside.add(&body.parameter.open, Inside::Parameter);
        inside.add(&body.value_close, Inside::ValueClose);
        for close in &body.call_close {
            inside.add(close, Inside::CallClose);
        }
        for close in &form.close {
            inside.add(close, Inside::Outside);
        }
        inside.add(&body.call.open, Inside::Outside);
        if body.entities {
            inside.add("<![CDATA[", Inside::Cdata);
        }
        let mut follows = Markers::new();
        for text in
            [&body.parameter.open, &body.value_close].into_iter().chain(&body.call_close).chain(&form.close)
        {
            follows.add(text, ());
        }
        Self {
            call_open,
            call_end,
            parameter_end: Markers::from_texts([body.parameter.end.as_str()], ()),
            value_open: Markers::from_texts([body.value_open.as_str()], ()),
            inside,
            follows,
        }
    }
}
