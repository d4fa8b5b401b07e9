//! A frame that was cut by the end of the input: what of it can be read.
//!
//! The JSON text is closed where it ends ([`Truncated::of`]), and the fragments of that value are told as far
//! as they are known to be whole ([`Remains`]): texts as far as they came; ids and names only whole; of a call
//! what came of its arguments, so that it is marked as cut; and nothing that would say that the answer came to its
//! end: who was cut off has not finished, unless it had refused to go on.

use std::ops::Range;

use crate::event::{FinishReason, NoticeCode, Sink};
use crate::fragment::{Arguments, Channel, Fragment, FragmentSink, Level, Part, Place};
use crate::json::repair::{RepairOptions, Verdict};
use crate::json::{Scanner, Status, Str};
use crate::protocol::Protocol;

/// The closed text of a frame that was cut.
pub(crate) struct Truncated {
    /// Valid JSON.
    pub(crate) text: String,
    /// How much of it had come.
    cut: usize,
}

impl Truncated {
    /// Closes a JSON object or array that is not complete; nothing if the text is none.
    pub(crate) fn of(data: &str) -> Option<Self> {
        let mut scanner = Scanner::new();
        scanner.push(data);
        if !data.starts_with(['{', '[']) || scanner.status() != Status::Open {
            return None;
        }
        let mut came = data;
        if !scanner.is_in_string() {
            // Nobody knows how a number or a word would have gone on.
            came = data.trim_end_matches(|sign: char| sign.is_ascii_alphanumeric() || "+-.".contains(sign));
        }
        let closed = RepairOptions::new().prefix().close_truncated().without_prose().repair(came);
        if closed.verdict != Verdict::Incomplete {
            return None;
        }
        let text = closed.text.into_owned();
        let cut = text.bytes().zip(came.bytes()).take_while(|(own, given)| own == given).count();
        Some(Self { text, cut })
    }

    /// Where in the text a piece of it stands.
    fn range(&self, piece: &str) -> Option<Range<usize>> {
        let start = (piece.as_ptr() as usize).checked_sub(self.text.as_ptr() as usize)?;
        let end = start.checked_add(piece.len())?;
        (end <= self.text.len()).then_some(start..end)
    }

    /// Whether members that had not come may say more of the text.
    fn is_open_behind(&self, text: Str<'_>) -> bool {
        self.range(text.written())
            .is_some_and(|range| range.end >= self.cut || !self.is_closed_after(range.end))
    }

    /// Whether all of the string had come, its closing quote too.
    fn has(&self, text: Str<'_>) -> bool {
        self.range(text.written()).is_none_or(|range| range.end < self.cut)
    }

    fn whole<'f>(&self, text: Option<Str<'f>>) -> Option<Str<'f>> {
        text.filter(|text| self.has(*text))
    }

    /// Whether the value that only the protocol knows had come; of an item or a block also all that stands with it,
    /// which may say how it is to be read.
    fn tells(&self, level: Level, value: &str) -> bool {
        let is_told = |end| match level {
            Level::Answer | Level::Choice => end <= self.cut,
            Level::Item | Level::Block | Level::Next => end <= self.cut && self.is_closed_after(end),
        };
        self.range(value).is_none_or(|range| is_told(range.end))
    }

    /// What came of the arguments of a call, and whether that is not all.
    fn arguments<'f>(&'f self, call: &Part<'f>) -> (Option<Arguments<'f>>, bool) {
        let Part::Call { id, name, arguments, .. } = *call else { return (None, false) };
        let written = match arguments {
            Some(Arguments::Text(text) | Arguments::Whole(text)) => self.range(text.written()),
            Some(Arguments::Value(json)) => match self.range(json) {
                Some(range) if range.end > self.cut => {
                    let came = self.text.get(range.start..self.cut).unwrap_or_default();
                    return (Some(Arguments::Text(Str::Plain(came))), true);
                }
                range => range,
            },
            Some(Arguments::Leaf { .. } | Arguments::Opening { .. }) | None => None,
        };
        let others = [id, name].into_iter().flatten().filter_map(|text| self.range(text.written()));
        let end = written.iter().cloned().chain(others).map(|range| range.end).max();
        let is_cut = end.is_some_and(|end| end >= self.cut || !self.is_closed_after(end));
        // Without any, a whole call has none; of a cut one nobody knows.
        let is_made = written.is_none() && matches!(arguments, Some(Arguments::Value(_)));
        let arguments = if is_cut && is_made { Some(Arguments::Text(Str::Plain(""))) } else { arguments };
        (arguments, is_cut)
    }

    /// Whether the object that holds what ends at `end` was closed.
    fn is_closed_after(&self, end: usize) -> bool {
        let mut is_in_string = self.text.as_bytes().get(end) == Some(&b'"');
        let mut is_escaped = false;
        for (at, byte) in self.text.bytes().enumerate().take(self.cut).skip(end) {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = is_in_string,
                // The quote at the end of a string is where the search begins.
                b'"' => is_in_string = at != end && !is_in_string,
                b'}' if !is_in_string => return true,
                _ => {}
            }
        }
        false
    }
}

/// Passes on the fragments of a [`Truncated`] text.
pub(crate) struct Remains<'r, 's> {
    frame: &'r Truncated,
    next: &'r mut FragmentSink<'s>,
    /// The place of a call that was cut: whatever the decoder believes, it has not ended.
    cut_call: Option<(u32, Option<Place>)>,
    /// Whether it is doubted what texts are, because a member behind them may say it.
    doubts_texts: bool,
    came: Came,
    /// Whether the frame announces an item.
    has_item: bool,
    /// The place of an item of which the name or the kind had not come.
    lost_item: Option<Place>,
}

/// What came before the frame. All that there is of a response is told as it seems to be; a piece of a stream is left out
/// where it is in doubt.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Came {
    Nothing,
    Something,
}

impl<'r, 's> Remains<'r, 's> {
    pub(crate) fn new(
        frame: &'r Truncated,
        protocol: &Protocol,
        came: Came,
        next: &'r mut FragmentSink<'s>,
    ) -> Self {
        let doubts_texts = protocol.kind_follows_text;
        Self { frame, next, cut_call: None, doubts_texts, came, has_item: false, lost_item: None }
    }

    /// Whether nobody knows where in a stream it belongs, or whether it was told before.
    fn is_lost(&self, place: Option<Place>) -> bool {
        let is_lost = |place: Place| place.is_anonymous() || Some(place.thing()) == self.lost_item;
        self.came == Came::Something && place.is_some_and(is_lost)
    }

    fn ends_cut_call(&self, choice: u32, place: Option<Place>) -> bool {
        let item = |place: Option<Place>| place.map(Place::item);
        let is_at = |at| item(at) == item(place) || place == Some(Place::LAST);
        self.cut_call.is_some_and(|(own, at)| own == choice && is_at(at))
    }

    /// Says that something is missing.
    pub(crate) fn finish(self) {
        if let Some((choice, place)) = self.cut_call {
            let place = Some(place.unwrap_or(Place::LAST));
            self.next.put(Fragment { choice, place, part: Part::Cut });
        }
        let detail = "the input was cut off in a frame; what had come of it was read";
        self.next.put(Fragment::new(Part::Notice { code: NoticeCode::Truncated, detail, text: None }));
    }
}

impl<'f> Sink<Fragment<'f>> for Remains<'_, '_> {
    fn put(&mut self, fragment: Fragment<'f>) {
        let Fragment { choice, place, part } = fragment;
        let frame = self.frame;
        let part = match part {
            // Nobody knows whether that step was taken, or what the item would have been called.
            Part::Done | Part::HalfDone | Part::Progress { .. } => return,
            // That the provider will say no more it has said; any other end it has not come to.
            Part::Finish { reason: FinishReason::ContentFilter | FinishReason::Error, raw: Some(raw) }
                if frame.has(raw) =>
            {
                part
            }
            Part::Finish { .. } => return,
            Part::Item { word, id } if frame.range(word).is_none() || id.is_some_and(|id| !frame.has(id)) => {
                self.lost_item = place.map(Place::thing);
                return;
            }
            Part::Item { word, .. } | Part::Opaque { word, .. } if !frame.has(Str::Plain(word)) => return,
            Part::Text { .. } | Part::Restate { .. } | Part::Open { .. } if self.is_lost(place) => return,
            Part::Item { .. } => {
                self.has_item = true;
                part
            }
            Part::End | Part::ItemEnd if self.ends_cut_call(choice, place) => return,
            Part::Foreign { level, value, .. } if !frame.tells(level, value) => return,
            Part::Text { channel: Channel::Text, text, .. }
                if self.came == Came::Something && self.doubts_texts && frame.is_open_behind(text) =>
            {
                return;
            }
            Part::Start { id, model, word } => {
                Part::Start { id: frame.whole(id), model: frame.whole(model), word }
            }
            Part::Call { id, name, kind, word, .. } => {
                let (arguments, is_cut) = frame.arguments(&part);
                let (id, name) = (frame.whole(id), frame.whole(name));
                let is_empty = match arguments {
                    None => true,
                    Some(Arguments::Text(text) | Arguments::Whole(text)) => {
                        text.is_empty() || place.is_none() || self.is_lost(place)
                    }
                    Some(_) => false,
                };
                // That something is called somewhere is no call yet, unless an item was announced for it; nor are
                // arguments of which the call had not come.
                if id.is_none() && name.is_none() && is_empty && !self.has_item {
                    return;
                }
                self.next.put(Fragment {
                    choice,
                    place,
                    part: Part::Call { id, name, kind, word, arguments },
                });
                if is_cut {
                    self.cut_call = Some((choice, place));
                }
                return;
            }
            part => part,
        };
        self.next.put(Fragment { choice, place, part });
    }
}
