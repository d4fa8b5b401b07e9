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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fragment::BlockKey;

    /// A frame with a text, a number, the same text again, and blanks at its end.
    fn probe() -> Probe {
        let data = r#"{"a":"x","b":{"c":7,"d":"x"},"e":"f"  }"#;
        let hole = |piece: &str, from: usize, kind| {
            let start = from + data[from..].find(piece).expect("a piece");
            FrameHole::new(start, start + piece.len(), kind)
        };
        let holes = [
            hole("x", 0, HoleKind::Text),
            hole("7", 0, HoleKind::Place),
            hole("x", 10, HoleKind::SameAs(0)),
            hole("  ", 0, HoleKind::Blank),
        ];
        Probe::new(data, &holes).expect("no marker in it")
    }

    #[test]
    fn texts_are_found_by_their_markers() {
        let probe = probe();
        assert_eq!(probe.find("f"), None);
        let contents = |at: usize| &probe.text[probe.spots[at].0..probe.spots[at].1];
        assert_eq!(probe.find(contents(0)), Some(Some(TemplateText::Hole(0))));
        assert_eq!(probe.find(contents(1)), Some(Some(TemplateText::Hole(1))));
        let object = &probe.text[probe.spots[1].0 - 5..probe.spots[2].1 + 2];
        let around = TemplateText::Around { first: 1, lead: 5, last: 2, trail: 2 };
        assert_eq!(probe.find(object), Some(Some(around)));
        assert_eq!(probe.find(&format!("{}, but not of the frame", contents(0))), Some(None));
        let number = contents(1).parse().expect("a number");
        assert!(probe.is_number(BlockAddress::at(number)) && !probe.is_number(BlockAddress::at(7)));
        let named = BlockKey::named("a").reveal();
        assert!(!probe.is_number(BlockAddress { index: number, ..named }));
    }

    #[test]
    fn a_complete_frame_ends_in_blanks_that_change() {
        let data = r#"{"a":"b" }"#;
        let probe = Probe::new(data, &[FrameHole::new(8, 9, HoleKind::Blank)]).expect("no marker in it");
        assert_eq!((probe.find(data), probe.find("b")), (Some(None), None));
    }

    #[test]
    fn what_looks_like_a_marker_is_not_replaced_by_one() {
        assert!(Probe::new(&format!("{{\"a\":\"{STEM}0\"}}"), &[]).is_none());
    }
}
