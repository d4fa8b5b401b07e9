//! A frame that was truncated by the end of the input, and its readable part.
//!
//! The JSON text is closed where it ends ([`TruncatedFrame::of`]), and the fragments of that value are emitted as far
//! as they are known to be complete ([`TruncatedRemains`]): texts as far as they came; ids and names only if complete;
//! the part of a call's arguments that came, marked as truncated; and nothing that would say that the response came to
//! its end: a truncated response has not finished, unless it had refused to go on.

use std::ops::Range;

use crate::event::{FinishReason, NoticeCode, Sink};
use crate::fragment::{
    BlockAddress, BlockKey, ExtraScope, Fragment, FragmentArguments, FragmentKind, FragmentSink, TextChannel,
};
use crate::json::repair::{RepairOptions, RepairVerdict};
use crate::json::{JsonScanner, Opaque, ScanStatus};
use crate::protocol::Protocol;

/// The closed text of a truncated frame.
pub(crate) struct TruncatedFrame {
    /// Valid JSON.
    pub(crate) text: String,
    /// The length of the part that had come.
    cut: usize,
}

impl TruncatedFrame {
    /// Closes a JSON object or array that is not complete; none if the text is neither.
    pub(crate) fn of(data: &str) -> Option<Self> {
        let mut scanner = JsonScanner::new();
        scanner.push(data);
        if !data.starts_with(['{', '[']) || scanner.status() != ScanStatus::Open {
            return None;
        }
        let mut came = data;
        if !scanner.is_in_string() {
            // The rest of a number or a literal is unknown.
            came = data.trim_end_matches(|sign: char| sign.is_ascii_alphanumeric() || "+-.".contains(sign));
        }
        let closed = RepairOptions::new().prefix().close_truncated().without_prose().repair(came);
        if closed.verdict != RepairVerdict::Incomplete {
            return None;
        }
        let text = closed.text.into_owned();
        let cut = text.bytes().zip(came.bytes()).take_while(|(own, given)| own == given).count();
        Some(Self { text, cut })
    }

    /// The range of a piece in the text.
    fn range(&self, piece: &str) -> Option<Range<usize>> {
        let start = (piece.as_ptr() as usize).checked_sub(self.text.as_ptr() as usize)?;
        let end = start.checked_add(piece.len())?;
        (end <= self.text.len()).then_some(start..end)
    }

    /// Whether members that had not come may say more of the text.
    fn is_open_behind(&self, text: Opaque<'_>) -> bool {
        self.range(text.reveal_json())
            .is_some_and(|range| range.end >= self.cut || !self.is_closed_after(range.end))
    }

    /// Whether all of the string had come, its closing quote too.
    fn has(&self, text: &str) -> bool {
        self.range(text).is_none_or(|range| range.end < self.cut)
    }

    fn whole<'f>(&self, text: Option<Opaque<'f>>) -> Option<Opaque<'f>> {
        text.filter(|text| self.has(text.reveal_json()))
    }

    /// Whether the extra field had come; of an item or a block also all fields that stand with it, which may say how it
    /// is to be read.
    fn tells(&self, level: ExtraScope, value: &str) -> bool {
        let is_told = |end| match level {
            ExtraScope::Response | ExtraScope::Choice => end <= self.cut,
            ExtraScope::Item | ExtraScope::Block | ExtraScope::Next => {
                end <= self.cut && self.is_closed_after(end)
            }
        };
        self.range(value).is_none_or(|range| is_told(range.end))
    }

    /// The part of a call's arguments that came, and whether it is incomplete.
    fn arguments<'f>(&'f self, call: &FragmentKind<'f>) -> (Option<FragmentArguments<'f>>, bool) {
        let FragmentKind::Call { id, name, arguments, .. } = *call else { return (None, false) };
        let written = match arguments {
            Some(FragmentArguments::Text(text) | FragmentArguments::Complete(text)) => {
                self.range(text.reveal_json())
            }
            Some(FragmentArguments::Value(json)) => match self.range(json.reveal_json()) {
                Some(range) if range.end > self.cut => {
                    let came = self.text.get(range.start..self.cut).unwrap_or_default();
                    return (Some(FragmentArguments::Text(came.into())), true);
                }
                range => range,
            },
            Some(FragmentArguments::Leaf { .. } | FragmentArguments::Opening { .. }) | None => None,
        };
        let others = [id, name].into_iter().flatten().filter_map(|text| self.range(text.reveal_json()));
        let end = written.iter().cloned().chain(others).map(|range| range.end).max();
        let is_truncated = end.is_some_and(|end| end >= self.cut || !self.is_closed_after(end));
        // A complete call without arguments has none; the arguments of a truncated one are unknown.
        let is_made = written.is_none() && matches!(arguments, Some(FragmentArguments::Value(_)));
        let arguments =
            if is_truncated && is_made { Some(FragmentArguments::Text("".into())) } else { arguments };
        (arguments, is_truncated)
    }

    /// Whether the object was closed that holds the value ending at `end`.
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

/// Passes on the fragments of a [`TruncatedFrame`] text.
pub(crate) struct TruncatedRemains<'r, 's> {
    frame: &'r TruncatedFrame,
    next: &'r mut FragmentSink<'s>,
    /// The block key of a truncated call: whatever the decoder believes, it has not ended.
    cut_call: Option<(u32, Option<BlockKey>)>,
    /// Whether the meaning of texts is in doubt, because a member behind them may determine it.
    doubts_texts: bool,
    came: PrecedingFrames,
    /// Whether the frame announces an item.
    has_item: bool,
    /// The block key of an item of which the name or the kind had not come.
    lost_item: Option<BlockAddress>,
}

/// The input before the frame. A frame that is all there is of a response is emitted as it seems to be; a piece of a
/// stream is left out where it is in doubt.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum PrecedingFrames {
    Nothing,
    Something,
}

impl<'r, 's> TruncatedRemains<'r, 's> {
    pub(crate) fn new(
        frame: &'r TruncatedFrame,
        protocol: &Protocol,
        came: PrecedingFrames,
        next: &'r mut FragmentSink<'s>,
    ) -> Self {
        let doubts_texts = protocol.kind_follows_text;
        Self { frame, next, cut_call: None, doubts_texts, came, has_item: false, lost_item: None }
    }

    /// Whether it is unknown where in a stream it belongs, or whether it was emitted before.
    fn is_lost(&self, place: Option<BlockKey>) -> bool {
        let is_lost = |place: BlockAddress| place.is_anonymous() || Some(place.owner()) == self.lost_item;
        self.came == PrecedingFrames::Something && place.map(BlockKey::reveal).is_some_and(is_lost)
    }

    fn ends_cut_call(&self, choice: u32, place: Option<BlockKey>) -> bool {
        let item = |place: Option<BlockKey>| place.map(|place| place.reveal().item());
        let is_at = |at| item(at) == item(place) || item(place) == Some(BlockAddress::LAST);
        self.cut_call.is_some_and(|(own, at)| own == choice && is_at(at))
    }

    /// Reports that something is missing.
    pub(crate) fn finish(self) {
        if let Some((choice, place)) = self.cut_call {
            let place = Some(place.unwrap_or(BlockKey::LAST));
            self.next.put(Fragment { choice, key: place, part: FragmentKind::Truncated });
        }
        let detail = "the input was cut off in a frame; what had come of it was read";
        self.next.put(Fragment::new(FragmentKind::Notice {
            code: NoticeCode::Truncated,
            detail,
            text: None,
        }));
    }
}

impl<'f> Sink<Fragment<'f>> for TruncatedRemains<'_, '_> {
    fn put(&mut self, fragment: Fragment<'f>) {
        let Fragment { choice, key: place, part } = fragment;
        let frame = self.frame;
        let part = match part {
            // It is unknown whether that step was taken, or what name the item would have had.
            FragmentKind::Done | FragmentKind::HalfDone | FragmentKind::Progress { .. } => return,
            // The provider has said that it will say no more; it has not come to any other end.
            FragmentKind::Finish {
                reason: FinishReason::ContentFilter | FinishReason::Error,
                raw: Some(raw),
            } if frame.has(raw.reveal_json()) => part,
            FragmentKind::Finish { .. } => return,
            FragmentKind::Item { wire_type, id }
                if frame.range(wire_type).is_none() || id.is_some_and(|id| !frame.has(id.reveal_json())) =>
            {
                self.lost_item = place.map(|place| place.reveal().owner());
                return;
            }
            FragmentKind::Item { wire_type, .. } | FragmentKind::Opaque { wire_type, .. }
                if !frame.has(wire_type) =>
            {
                return;
            }
            FragmentKind::Text { .. } | FragmentKind::Restate { .. } | FragmentKind::Open { .. }
                if self.is_lost(place) =>
            {
                return;
            }
            FragmentKind::Item { .. } => {
                self.has_item = true;
                part
            }
            FragmentKind::End | FragmentKind::ItemEnd if self.ends_cut_call(choice, place) => return,
            FragmentKind::Extra { level, value, .. } if !frame.tells(level, value.reveal_json()) => return,
            FragmentKind::Text { channel: TextChannel::Text, text, .. }
                if self.came == PrecedingFrames::Something
                    && self.doubts_texts
                    && frame.is_open_behind(text) =>
            {
                return;
            }
            FragmentKind::Start { id, model, wire_type } => {
                FragmentKind::Start { id: frame.whole(id), model: frame.whole(model), wire_type }
            }
            FragmentKind::Call { id, name, kind, wire_type, .. } => {
                let (arguments, is_truncated) = frame.arguments(&part);
                let (id, name) = (frame.whole(id), frame.whole(name));
                let is_empty = match arguments {
                    None => true,
                    Some(FragmentArguments::Text(text) | FragmentArguments::Complete(text)) => {
                        text.is_empty() || place.is_none() || self.is_lost(place)
                    }
                    Some(_) => false,
                };
                // The mere mention of a call is no call yet, unless an item was announced for it; nor are
                // arguments whose call had not come.
                if id.is_none() && name.is_none() && is_empty && !self.has_item {
                    return;
                }
                self.next.put(Fragment {
                    choice,
                    key: place,
                    part: FragmentKind::Call { id, name, kind, wire_type, arguments },
                });
                if is_truncated {
                    self.cut_call = Some((choice, place));
                }
                return;
            }
            part => part,
        };
        self.next.put(Fragment { choice, key: place, part });
    }
}
