//! The markers of a tagged body, made ready for searching.

use super::super::super::markers::{MarkerMatch, MarkerSet};
use super::super::super::spec::{CallForm, NamedTag, TaggedBody};
use super::super::super::table::minicpm5::entities;
use super::super::tags::{TagLen, attribute_of, tag_len};
use super::super::{BodyContext, leading_space};
use super::WRITTEN_BREAK;

/// The markers of a tagged body, made ready for searching.
#[derive(Debug)]
pub(in super::super::super) struct TagMarkers {
    pub(super) body: TaggedBody,
    /// Whether its tags are special tokens, which are never data.
    pub(super) is_special: bool,
    pub(super) call_open: MarkerSet<()>,
    pub(super) call_end: MarkerSet<bool>,
    pub(super) parameter_end: MarkerSet<()>,
    /// The ends of the tags of other spellings, and whether they count for any parameter.
    spelled_ends: Vec<MarkerSet<()>>,
    is_spelled: bool,
    pub(super) value_open: MarkerSet<()>,
    pub(in super::super) inside: MarkerSet<TagRole>,
    /// The markers that may follow the closer of a quoted value.
    follows: MarkerSet<()>,
    /// Whether a marker closes the frame around calls.
    has_outside: bool,
}

/// The maximum length of a parameter's name where its opener is wrong.
const LONGEST_NAME: usize = 128;

/// The role of a tag that may stand inside a call, or end a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum TagRole {
    Parameter,
    /// Another spelling of its tag: which of them.
    Spelled(usize),
    ValueClose,
    CallClose,
    /// The opener of another call.
    CallOpen,
    /// A closer of the form.
    Outside,
    Cdata,
}

impl TagMarkers {
    pub(in super::super) fn new(form: &CallForm, body: &TaggedBody) -> Self {
        let (parameter, call) = (openings(&body.parameter), openings(&body.call));
        let mut call_end = MarkerSet::new().with([&body.call.end], true);
        if body.call.attribute.is_none() && body.call.end.starts_with('>') {
            // A name is over where it cannot go on, its bracket forgotten.
            call_end.add_all(["\n", "<"], false);
        } else if body.call.attribute.is_none() {
            call_end.add(&body.parameter.open, false);
            call_end.add_all(body.call_close.iter().chain(&form.close), false);
            if body.call.end.is_empty() {
                call_end.add(&body.call.open, false);
                call_end.add_all(["\n", WRITTEN_BREAK], true);
            }
        }
        let inside = MarkerSet::new()
            .with(&parameter, TagRole::Parameter)
            .with([&body.value_close], TagRole::ValueClose)
            .with(&body.call_close, TagRole::CallClose)
            .with(&form.close, TagRole::Outside)
            .with(&call, TagRole::CallOpen)
            .with(body.entities.then_some(entities::CDATA), TagRole::Cdata);
        let spelled = body.spellings.iter().enumerate();
        let inside =
            spelled.fold(inside, |inside, (which, tag)| inside.with(openings(tag), TagRole::Spelled(which)));
        let closers = body.call_close.iter().chain(&form.close);
        let follows = MarkerSet::new().with(&parameter, ()).with([&body.value_close], ()).with(closers, ());
        Self {
            body: body.clone(),
            is_special: body.value_close.contains(['|', '｜']),
            has_outside: !form.close.is_empty(),
            call_open: MarkerSet::new().with(&call, ()),
            call_end,
            parameter_end: MarkerSet::new().with([&body.parameter.end], ()),
            spelled_ends: body.spellings.iter().map(|tag| MarkerSet::new().with([&tag.end], ())).collect(),
            is_spelled: body.spellings.iter().any(|tag| tag.open == body.parameter.open),
            value_open: MarkerSet::new().with([&body.value_open], ()),
            inside,
            follows,
        }
    }

    /// Whether a tag of the frame, or the end of the text, follows the closer of a value. `None`: more text is needed.
    pub(super) fn is_followed(&self, rest: &str, is_last: bool) -> Option<bool> {
        let rest = after_space(rest);
        match self.follows.starting(rest, false) {
            MarkerMatch::Marker { .. } => Some(true),
            MarkerMatch::Perhaps(_) => is_last.then_some(true),
            MarkerMatch::Nothing if rest.is_empty() => is_last.then_some(true),
            MarkerMatch::Nothing => Some(false),
        }
    }

    /// Whether the text behind a closer, of the value of `key` or of the call, is what the grammar has there. `None`:
    /// more text is needed.
    pub(super) fn fits(
        &self,
        closer: TagRole,
        rest: &str,
        (is_wrapped, key): (bool, &str),
        is_last: bool,
        context: &BodyContext<'_>,
    ) -> Option<bool> {
        let rest = after_space(rest);
        let found = match self.inside.starting(rest, false) {
            MarkerMatch::Marker { len, meaning, .. } => Some((meaning, &rest[len..])),
            MarkerMatch::Perhaps(_) => return is_last.then_some(true),
            MarkerMatch::Nothing if rest.is_empty() => return is_last.then_some(true),
            MarkerMatch::Nothing => None,
        };
        match (closer, found) {
            (TagRole::ValueClose, Some((TagRole::Parameter, rest))) => {
                Some(!self.parameter_name(rest, is_last)?.is_empty())
            }
            (TagRole::ValueClose, Some((TagRole::Spelled(which), rest))) => {
                self.is_spelled_parameter(which, rest, key, is_last, context)
            }
            (TagRole::ValueClose, Some((TagRole::CallClose, rest))) => {
                self.fits(TagRole::CallClose, rest, (is_wrapped, key), is_last, context)
            }
            (TagRole::ValueClose, _) => Some(false),
            (
                _,
                Some((
                    TagRole::Parameter | TagRole::Spelled(_) | TagRole::ValueClose | TagRole::CallClose,
                    _,
                )),
            ) => Some(false),
            (TagRole::CallClose, Some((TagRole::Outside, rest))) => {
                self.fits(TagRole::Outside, rest, (is_wrapped, key), is_last, context)
            }
            (_, Some((TagRole::CallOpen, rest))) => self.begins_call(rest, is_last),
            (TagRole::CallClose, found) if is_wrapped && self.has_outside => Some(found.is_some()),
            _ => Some(true),
        }
    }

    /// The name of the parameter whose tag begins before `rest`; empty if it has none. `None`: more text is needed.
    pub(super) fn parameter_name<'t>(&self, rest: &'t str, is_last: bool) -> Option<&'t str> {
        let name = name_in(rest, &self.body.parameter, &self.parameter_end, is_last)?;
        Some(if name.contains(['<', '>', '\n']) { "" } else { name })
    }

    /// The tag of a parameter in one of the spellings, and what ends it.
    pub(super) fn spelling(&self, which: Option<usize>) -> (&NamedTag, &MarkerSet<()>) {
        let spelled =
            which.and_then(|which| self.body.spellings.get(which).zip(self.spelled_ends.get(which)));
        spelled.unwrap_or((&self.body.parameter, &self.parameter_end))
    }

    /// Whether a spelling has the parameter's name between two tags.
    pub(super) fn is_element(&self, which: usize) -> bool {
        self.spelling(Some(which)).0.end.starts_with("</")
    }

    /// Whether a tag in another spelling, which begins before `rest`, is that of a parameter: the tool has it, or the
    /// call is spelled otherwise, too; `key` came before it. `None`: more text is needed.
    pub(super) fn is_spelled_parameter(
        &self,
        which: usize,
        rest: &str,
        key: &str,
        is_last: bool,
        context: &BodyContext<'_>,
    ) -> Option<bool> {
        let (tag, ends) = self.spelling(Some(which));
        let name = name_in(rest, tag, ends, is_last)?.trim();
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte >= 0x80 || b"_-.".contains(&byte);
        Some(match self.is_spelled {
            true => !name.is_empty() && name.bytes().all(is_name),
            // Nobody gives one parameter twice.
            false => name != key && context.tools.has_parameter(context.name, name),
        })
    }

    /// Whether the opener of a call stands where that of a parameter should, before `rest`. `None`: more text is
    /// needed.
    pub(super) fn is_parameter(&self, rest: &str, is_last: bool) -> Option<bool> {
        let end = &self.body.parameter.end;
        if !end.starts_with("</") {
            return Some(false);
        }
        let Some(at) = rest.find('<').filter(|at| *at <= LONGEST_NAME) else {
            return if is_last || rest.len() > LONGEST_NAME { Some(false) } else { None };
        };
        let tag = &rest[at..];
        if !is_last && tag.len() < end.len() && end.starts_with(tag) {
            None
        } else {
            Some(tag.starts_with(end))
        }
    }

    /// Whether the tool whose tag begins before `rest` may be called. `None`: more text is needed.
    pub(super) fn may_call(&self, rest: &str, context: &BodyContext<'_>) -> Option<bool> {
        if context.tools.is_empty() {
            return Some(true);
        }
        let name = name_in(rest, &self.body.call, &self.call_end, context.is_last)?;
        Some(context.tools.contains(name))
    }

    /// Whether the tag of a call, which begins before `rest`, is followed by anything but a closer of something else.
    /// `None`: more text is needed.
    fn begins_call(&self, rest: &str, is_last: bool) -> Option<bool> {
        let len = match tag_len(rest, &self.call_end, self.body.call.attribute.is_some(), is_last) {
            TagLen::Known(len) => len,
            TagLen::More => return None,
            TagLen::Never => return Some(false),
        };
        let end = match self.call_end.starting(&rest[len..], true) {
            MarkerMatch::Marker { len, meaning: true, .. } => len,
            _ => 0,
        };
        let rest = after_space(&rest[len + end..]);
        match self.inside.starting(rest, is_last) {
            MarkerMatch::Perhaps(_) => None,
            MarkerMatch::Nothing if rest.is_empty() && !is_last => None,
            MarkerMatch::Marker { meaning: TagRole::ValueClose | TagRole::Outside, .. } => Some(false),
            MarkerMatch::Marker { .. } | MarkerMatch::Nothing => Some(true),
        }
    }
}

/// Returns the text behind the white space between tags.
fn after_space(text: &str) -> &str {
    let rest = &text[leading_space(text)..];
    match rest.strip_prefix(WRITTEN_BREAK) {
        Some(rest) => after_space(rest),
        None => rest,
    }
}

/// The texts that a tag begins with: its word ends where its attributes begin.
fn openings(tag: &NamedTag) -> Vec<String> {
    match &tag.attribute {
        Some(_) => [" ", "\n", "\t"].map(|space| format!("{}{space}", tag.open)).to_vec(),
        None => vec![tag.open.clone()],
    }
}

/// The name in the header of a tag without attributes: in quotes, before others, and without the slash of a tag that
/// closes itself.
pub(super) fn direct_name(header: &str) -> &str {
    let header = header.trim();
    match header.chars().next() {
        Some(quote @ ('"' | '\'')) => header[1..].split(quote).next().unwrap_or_default().trim(),
        _ => header.strip_suffix('/').unwrap_or(header).trim_end().trim_matches(['"', '\'']),
    }
}

/// The name in a tag, the beginning of which stands before `rest`. `None`: more text is needed.
pub(super) fn name_in<'t, M: Copy>(
    rest: &'t str,
    tag: &NamedTag,
    ends: &MarkerSet<M>,
    is_last: bool,
) -> Option<&'t str> {
    let header = match tag_len(rest, ends, tag.attribute.is_some(), is_last) {
        TagLen::Known(len) => &rest[..len],
        TagLen::More => return None,
        TagLen::Never => return Some(""),
    };
    Some(match &tag.attribute {
        Some(attribute) => attribute_of(header, attribute).unwrap_or_default(),
        None => direct_name(header),
    })
}
