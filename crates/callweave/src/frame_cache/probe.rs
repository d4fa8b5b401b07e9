//! A frame with a marker in each of its holes. It is read once, and shows where the texts of its fragments come from.
//!
//! A protocol cannot inspect the values that may be holes ([`Opaque`](crate::json::Opaque)), so it gives the same
//! fragments for the probe as for the frame, with markers in place of the contents.

use super::MAX_HOLES;
use super::fit::{FrameHole, HoleKind};
use super::fragments::TemplateText;
use crate::fragment::BlockAddress;

/// The beginning of all markers; the number of the hole follows. Text and number alike.
const STEM: &str = "867530942610";

/// A frame with markers. See the [module](self).
pub(super) struct Probe {
    text: String,
    /// The ranges of the holes.
    spots: [(usize, usize); MAX_HOLES],
    /// The holes whose marker each of them has: itself, or the one that it equals.
    markers: [usize; MAX_HOLES],
    count: usize,
    /// The hole of the number of a block key.
    place: Option<usize>,
}

impl Probe {
    /// The probe of a frame with those holes, unless something in it looks like a marker.
    pub(super) fn new(data: &str, holes: &[FrameHole]) -> Option<Self> {
        if data.contains(STEM) {
            return None;
        }
        let mut probe = Self {
            text: String::with_capacity(data.len() + holes.len() * (STEM.len() + 1)),
            spots: [(0, 0); MAX_HOLES],
            markers: [0; MAX_HOLES],
            count: holes.len(),
            place: None,
        };
        let mut from = 0;
        for (at, hole) in holes.iter().enumerate() {
            probe.text.push_str(&data[from..hole.start()]);
            let start = probe.text.len();
            probe.markers[at] = at;
            match hole.kind {
                HoleKind::Blank => probe.text.push_str(&data[hole.start()..hole.end()]),
                HoleKind::SameAs(other) => probe.markers[at] = other.into(),
                HoleKind::Place => probe.place = Some(at),
                HoleKind::Text | HoleKind::Number => {}
            }
            if hole.kind != HoleKind::Blank {
                probe.text.push_str(STEM);
                probe.text.push(char::from(b'0' + probe.markers[at] as u8));
            }
            probe.spots[at] = (start, probe.text.len());
            from = hole.end();
        }
        probe.text.push_str(&data[from..]);
        Some(probe)
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The hole of the number of a block key, if there is one.
    pub(super) fn place(&self) -> Option<u8> {
        self.place.map(|at| at as u8)
    }

    /// Whether the number of the block key is the one in the hole for that.
    pub(super) fn is_number(&self, address: BlockAddress) -> bool {
        let marker = self.place.map(|at| &self.text[self.spots[at].0..self.spots[at].1]);
        let number = marker.and_then(|marker| marker.parse().ok());
        number.is_some() && address.wire_number() == number
    }

    /// The holes that a text of a fragment consists of; none if it has no hole in it, `Some(None)` if it is not a piece
    /// of the frame.
    pub(super) fn find(&self, text: &str) -> Option<Option<TemplateText>> {
        match text.find(STEM) {
            Some(at) => Some(self.find_at(text, at)),
            // The complete frame holds the blanks, which have no marker.
            None => (text == self.text).then_some(None),
        }
    }

    /// The holes in a text whose first marker stands at `at`.
    fn find_at(&self, text: &str, at: usize) -> Option<TemplateText> {
        let marker = usize::from(text.as_bytes().get(at + STEM.len())?.checked_sub(b'0')?);
        let mut same = (0..self.count).filter(|&hole| self.markers[hole] == marker);
        if text.len() == STEM.len() + 1 {
            return same.next().map(|hole| TemplateText::Hole(hole as u8));
        }
        same.find_map(|first| {
            let start = self.spots[first].0.checked_sub(at)?;
            let end = start + text.len();
            if self.text.get(start..end) != Some(text) {
                return None;
            }
            let last = (first..self.count).rev().find(|&hole| self.spots[hole].0 < end)?;
            let trail = end.checked_sub(self.spots[last].1)?;
            Some(TemplateText::Around {
                first: first as u8,
                lead: at.try_into().ok()?,
                last: last as u8,
                trail: trail.try_into().ok()?,
            })
        })
    }
}
