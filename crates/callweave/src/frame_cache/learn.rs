//! Learning: a frame that was read in full becomes a template, if the frames before it show which values change.

use super::fit::{FrameHole, HoleKind, common_end, common_start, fit, is_place};
use super::fragments::{AppendPattern, FragmentRecorder};
use super::probe::Probe;
use super::template::{FrameTemplate, TemplateSkeleton};
use super::{FrameCache, FramedTemplate, HoleSpan, MAX_HOLES, MAX_TEMPLATES};
use crate::framing::Frame;
use crate::json::{Inspected, JsonKind, TapeLeaf, TapeNode, with_spare_tape};
use crate::protocol::{Protocol, ProtocolFrame};

/// The maximum length of a frame. Longer frames bring something new each time.
const LONGEST: usize = 2048;
/// The maximum number of uninspected values in a frame.
const MAX_LEAVES: usize = 32;
/// The length written around the data of most frames, beside their name, and by how much the next may be longer.
const FRAMING: usize = "event: \ndata: \n\n".len() + 24;
/// The number of frames compared in vain after which most are not compared any more.
const PATIENCE: u32 = 8;

/// A frame that may become a template.
#[derive(Default)]
pub(super) struct PreviousFrame {
    /// The number of values and keys in it.
    size: usize,
    /// The frame itself, if the one before it had as many: nothing is recorded before the third. For frames that come
    /// only twice a template would come too late, and short streams would pay for it.
    text: String,
    event: Option<String>,
}

/// A frame that was read in full.
#[derive(Clone, Copy)]
struct ReadFrame<'r, 'a> {
    protocol: &'r Protocol,
    input: &'r ProtocolFrame<'a>,
    frame: &'r Frame<'a>,
    data: &'a str,
}

impl FrameCache {
    /// Learns from a frame that this protocol read in full.
    #[inline]
    pub(crate) fn learn<'a>(
        &mut self,
        protocol: &Protocol,
        input: &ProtocolFrame<'a>,
        frame: &Frame<'a>,
        data: &'a str,
    ) {
        self.interrupt();
        if self.is_off {
            return;
        }
        if self.rest > 0 {
            self.rest -= 1;
            return;
        }
        if data.len() > LONGEST {
            return;
        }
        let size = input.value.size();
        let previous = self.previous.get_or_insert_default();
        if self.templates.is_empty() && previous.size != size {
            // Most responses that are too short for templates end before two frames in a row are alike.
            previous.size = size;
            return previous.text.clear();
        }
        self.compare_and_note(&ReadFrame { protocol, input, frame, data });
    }

    /// Compares a frame with the templates and with the frame before, or notes it for the next.
    #[inline(never)]
    fn compare_and_note(&mut self, read: &ReadFrame<'_, '_>) {
        let similar = self.templates.iter().map(|template| template.is_like(read));
        let similar = similar.enumerate().fold(0_u8, |all, (at, is_like)| all | u8::from(is_like) << at);
        let is_like_previous = self.previous.as_ref().is_some_and(|previous| previous.is_like(read));
        if similar > 0 || is_like_previous {
            if self.compare(read, similar, is_like_previous) {
                self.vain = 0;
                return;
            }
            self.vain += 1;
            if self.vain >= PATIENCE {
                // The pause doubles each time: the cost of comparing in vain must not grow with the stream.
                self.rest = 1 << (self.vain - PATIENCE).min(16);
            }
        }
        let previous = self.previous.get_or_insert_default();
        let size = read.input.value.size();
        previous.text.clear();
        if std::mem::replace(&mut previous.size, size) == size {
            // With room for the bytes that most framings write around it, since it may become a template's text.
            previous.text.reserve(read.data.len() + FRAMING + read.input.event.map_or(0, str::len));
            previous.text.push_str(read.data);
            replace(&mut previous.event, read.input.event);
        }
    }

    /// Compares the frame with the templates whose bits are set, and with the frame before; returns whether a template
    /// was learned.
    fn compare(&mut self, read: &ReadFrame<'_, '_>, similar: u8, is_like_previous: bool) -> bool {
        let (value, data) = (read.input.value, read.data);
        let templates = || self.templates.iter().enumerate().rev().filter(|(at, _)| similar >> at & 1 == 1);
        let previous = self.previous.as_ref().filter(|_| is_like_previous);
        if similar == 0
            && let Some(previous) = previous
            && let Some(hole) = only_hole(value, data, &previous.text)
        {
            let mut holes = Vec::with_capacity(2);
            holes.push(hole);
            return self.keep(read, None, holes);
        }
        let mut room = [FrameHole::new(0, 0, HoleKind::Blank); MAX_LEAVES];
        let Some(all) = possible_holes(value, data, &mut room) else { return false };
        let by_template = templates().find_map(|(at, template)| {
            let own = &template.text[template.data.clone()];
            let difference = FrameDifference::of(all, data, own, Some(template))?;
            difference.has_more.then_some((Some(at), difference.holes))
        });
        let by_previous =
            || Some((None, FrameDifference::of(all, data, previous?.text.as_bytes(), None)?.holes));
        let Some((at, holes)) = by_template.or_else(by_previous) else { return false };
        self.keep(read, at, holes)
    }

    /// Keeps the template of a frame with those holes, instead of a known one, or besides all of them.
    fn keep(&mut self, read: &ReadFrame<'_, '_>, at: Option<usize>, mut holes: Vec<FrameHole>) -> bool {
        let ReadFrame { protocol, input, frame, data } = *read;
        let (skeleton, place) = TemplateSkeleton::of(input.value);
        // The number of a block key changes seldom, but it may. Where there are too many other holes, it is none.
        let place =
            place.filter(|leaf| holes.len() < MAX_HOLES && is_place(data.as_bytes(), leaf.start, leaf.end));
        if let Some(TapeLeaf { start, end, .. }) = place {
            let before = holes.partition_point(|own| own.start() < start);
            holes.iter_mut().for_each(|own| own.make_room(before));
            holes.insert(before, FrameHole::new(start, end, HoleKind::Place));
        }
        if holes.len() > MAX_HOLES {
            return false;
        }
        let Some(probe) = Probe::new(data, &holes) else { return false };
        let mut recorder = FragmentRecorder::new(&probe);
        let is_read = with_spare_tape(|tape| {
            let value = tape.parse(probe.text());
            value.map(|value| protocol.decode(&ProtocolFrame { value, ..*input }, &mut recorder)).is_ok()
        });
        let Some(fragments) = recorder.finish().filter(|_| is_read) else { return false };
        let mut append = AppendPattern::of(&fragments, &holes, probe.place());
        if let (Some(append), Some(leaf)) = (&mut append, place)
            && let Ok(number) = data[leaf.start..leaf.end].parse()
        {
            append.go_to(number);
        }
        // A frame that is no longer compared lends its memory.
        let previous = self.previous.take_if(|_| at.is_none()).unwrap_or_default();
        let (mut text, mut event) = (previous.text.into_bytes(), previous.event);
        text.clear();
        text.extend_from_slice(data.as_bytes());
        replace(&mut event, input.event);
        let template = FrameTemplate {
            event,
            text,
            data: 0..data.len(),
            skeleton,
            is_placed: false,
            before: 0,
            holes,
            fragments,
            append,
            place: probe.place(),
        };
        let number = match at {
            Some(at) => {
                self.templates[at] = template;
                at
            }
            None => {
                if self.templates.len() == MAX_TEMPLATES {
                    self.templates.remove(0);
                }
                // Few streams have more than one or two, and many are open at the same time.
                self.templates.reserve_exact(1);
                self.templates.push(template);
                self.templates.len() - 1
            }
        };
        self.framed = Some(FramedTemplate::new(number, frame, data));
        // The frame was emitted in full: one that follows it continues it.
        self.latest = Some(number);
        (self.is_again, self.is_pinned) = (false, false);
        true
    }
}

fn replace(own: &mut Option<String>, event: Option<&str>) {
    match (own, event) {
        (Some(own), Some(event)) => {
            own.clear();
            own.push_str(event);
        }
        (own, event) => *own = event.map(Into::into),
    }
}

impl PreviousFrame {
    #[inline(always)]
    fn is_like(&self, read: &ReadFrame<'_, '_>) -> bool {
        // Most frames have no text yet.
        let is_such = !self.text.is_empty() && self.size == read.input.value.size();
        is_such && self.event.as_deref() == read.input.event && is_alike(self.text.as_bytes(), read)
    }
}

impl FrameTemplate {
    /// Whether a frame may have this template, or one that is made of it.
    fn is_like(&self, read: &ReadFrame<'_, '_>) -> bool {
        let (value, data, own) = (read.input.value, read.data.as_bytes(), &self.text[self.data.clone()]);
        usize::from(self.skeleton.size) == value.size()
            && self.may_be(read.input.event, data)
            && self.skeleton.goes_on(own, value, data)
            && is_alike(own, read)
    }
}

/// Whether it is worthwhile to compare a frame with another: their common start, or else their common end, ends in a
/// value, not in a key or between values. It may also end in the blanks that some put before the last brace.
fn is_alike(other: &[u8], read: &ReadFrame<'_, '_>) -> bool {
    let (value, data) = (read.input.value, read.data.as_bytes());
    if data == other {
        return true;
    }
    let before = common_start(data, other);
    // A text that is not empty does not match an empty one.
    let is_apt = |start: usize| start < before || other.get(before) != Some(&b'"');
    if !value.leaf_at(before).is_some_and(is_apt) {
        return false;
    }
    let after = data.len() - common_end(data, other);
    value.leaf_at(after).is_some() || data.get(after..).is_some_and(|rest| rest.trim_ascii() == b"}")
}

/// The uninspected values of a frame, if there is room for them. Frames are often compared in vain, which should cost
/// no memory.
fn possible_holes<'r>(
    value: TapeNode<'_>,
    data: &str,
    room: &'r mut [FrameHole; MAX_LEAVES],
) -> Option<&'r [FrameHole]> {
    let mut notes = [0; MAX_LEAVES];
    let mut count = 0;
    for TapeLeaf { note, kind, start, end, seen } in value.leaves().filter(|leaf| leaf.start < leaf.end) {
        let kind = match (seen, kind) {
            (Inspected::All, _) => continue,
            (Inspected::Kind, JsonKind::Number) => HoleKind::Number,
            (Inspected::Kind, _) => HoleKind::Text,
            (Inspected::Place, _) => HoleKind::Place,
            (Inspected::SameAs(other), _) => match notes[..count].iter().position(|note| *note == other) {
                Some(at) => HoleKind::SameAs(at as u8),
                None => continue,
            },
        };
        *room.get_mut(count)? = FrameHole::new(start, end, kind);
        notes[count] = note;
        count += 1;
    }
    // Anthropic pads its frames with blanks before the last brace.
    if let Some(inner) = data.strip_suffix('}') {
        let (start, end) = (inner.trim_end_matches(' ').len(), inner.len());
        *room.get_mut(count)? = FrameHole::new(start, end, HoleKind::Blank);
        count += 1;
    }
    Some(&room[..count])
}

/// The one uninspected text or number in which a frame differs from another, if it differs in nothing else: most
/// templates are made of that, and it is found without a look at the others.
fn only_hole(value: TapeNode<'_>, data: &str, other: &str) -> Option<FrameHole> {
    let (own, other) = (data.as_bytes(), other.as_bytes());
    let most = own.len().min(other.len());
    let before = common_start(own, other);
    let after = common_end(own, other).min(most - before);
    let TapeLeaf { note, kind, start, end, seen } = value.leaf_around(before, own.len() - after)?;
    let kind = if kind == JsonKind::Number { HoleKind::Number } else { HoleKind::Text };
    let hole = FrameHole::new(start, end, kind);
    // A value that equals another cannot change alone.
    let is_alone = seen == Inspected::Kind && !value.has_same(note);
    let is_apt = is_alone && start < end && before + after < own.len().max(other.len());
    let length = fit(own, 0, &[hole], other, &mut [HoleSpan::default(); 1])?;
    (is_apt && length == other.len()).then_some(hole)
}

/// The difference of a frame from another.
struct FrameDifference {
    /// The holes of both, but for the one of a block key.
    holes: Vec<FrameHole>,
    /// Whether it differs where the other's template has no hole.
    has_more: bool,
}

impl FrameDifference {
    /// The ones of `all` holes of a frame in which another frame differs, or which that one's template has already.
    /// None if the other differs elsewhere or in too much.
    fn of(all: &[FrameHole], data: &str, other: &[u8], template: Option<&FrameTemplate>) -> Option<Self> {
        let mut pieces = [HoleSpan::default(); MAX_LEAVES];
        let length = fit(data.as_bytes(), 0, all, other, &mut pieces)?;
        let is_at = |piece: HoleSpan, own: &FrameHole| (own.start(), own.end()) == (piece.start, piece.end);
        let mut is_hole = [false; MAX_LEAVES];
        let (mut places, mut is_elsewhere, mut has_more) = (0, false, false);
        for (at, (hole, piece)) in all.iter().zip(pieces).enumerate() {
            let differs = data.as_bytes()[hole.start()..hole.end()] != other[piece.start..piece.end];
            if hole.kind == HoleKind::Place {
                (places, is_elsewhere) = (places + 1, is_elsewhere | differs);
                continue;
            }
            let is_known =
                template.is_some_and(|template| template.holes.iter().any(|own| is_at(piece, own)));
            has_more |= differs && !is_known;
            is_hole[at] = is_known || differs;
        }
        // A value that equals a hole is a hole, too.
        let mut renamed = [0; MAX_LEAVES];
        let mut holes: Vec<FrameHole> = Vec::with_capacity(2);
        for (at, hole) in all.iter().enumerate() {
            let kind = match hole.kind {
                HoleKind::SameAs(other) if is_hole[usize::from(other)] => {
                    HoleKind::SameAs(renamed[usize::from(other)])
                }
                HoleKind::SameAs(_) => continue,
                kind if is_hole[at] => kind,
                _ => continue,
            };
            is_hole[at] = true;
            renamed[at] = holes.len() as u8;
            holes.push(FrameHole::new(hole.start(), hole.end(), kind));
        }
        // Of several block keys, none is a hole.
        let is_such = length == other.len() && (!is_elsewhere || places == 1);
        is_such.then_some(Self { holes, has_more })
    }
}
