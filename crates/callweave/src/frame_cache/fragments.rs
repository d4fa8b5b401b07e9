//! Templates of a frame's fragments, with holes in place of the values that change.

use super::fit::{FrameHole, HoleKind, HolePieces, PinnedHoles};
use super::probe::Probe;
use crate::event::{AttachmentKind, CallKind, FinishReason, Sink, TokenCounts};
use crate::fragment::{
    BlockAddress, BlockKey, ExtraScope, Fragment, FragmentArguments, FragmentKind, FragmentSink, ReadUsage,
    TextChannel, UsageReport,
};
use crate::json::{Opaque, Str};
use crate::weave::AppendTarget;

/// A fragment that every frame of the template gives. There are many templates where many streams are open, so the
/// texts of all fragments share one string, [`FragmentTemplates::fixed`].
struct FragmentTemplate {
    choice: u32,
    key: Option<TemplateKey>,
    kind: TemplateKind,
    /// The holes in it.
    holes: PinnedHoles,
    /// Whether it is not new in a frame that follows another of the same template, whatever the number of the block key
    /// there: then it depends on no hole and belongs to no block.
    is_quiet: bool,
    /// Whether it is not new in a frame that continues the same block, if its holes have the same contents as before.
    is_steady: bool,
}

/// The block key of a fragment.
#[derive(Clone, Copy, PartialEq)]
struct TemplateKey {
    address: BlockAddress,
    /// Whether its number stands in the hole for that.
    is_numbered: bool,
}

/// The fragment templates of a frame.
#[derive(Default)]
pub(super) struct FragmentTemplates {
    list: Vec<FragmentTemplate>,
    /// The texts that are the same in every frame.
    fixed: String,
}

/// The kinds of fragments that frames of a template may consist of.
enum TemplateKind {
    Start {
        id: Option<TemplateText>,
        model: Option<TemplateText>,
        wire_type: TemplateText,
    },
    Choice,
    Open {
        channel: TextChannel,
        wire_type: TemplateText,
    },
    Text {
        channel: TextChannel,
        wire_type: TemplateText,
        text: TemplateText,
    },
    Call {
        id: Option<TemplateText>,
        name: Option<TemplateText>,
        kind: CallKind,
        wire_type: TemplateText,
        arguments: Option<TemplateText>,
    },
    Attach {
        level: ExtraScope,
        on: TemplateText,
        kind: AttachmentKind,
        wire_type: TemplateText,
        value: TemplateText,
    },
    Usage {
        wire_type: TemplateText,
        raw: TemplateText,
        counters: TemplateCounters,
    },
    Finish {
        reason: FinishReason,
        raw: Option<TemplateText>,
    },
    End,
    Progress {
        wire_type: TemplateText,
        value: Option<TemplateText>,
    },
    Detail {
        key: TemplateText,
        value: TemplateText,
    },
    Extra {
        level: ExtraScope,
        path: &'static str,
        key: TemplateText,
        value: TemplateText,
    },
}

/// The counters of a [`UsageReport`].
enum TemplateCounters {
    Known(Box<TokenCounts>),
    Read(ReadUsage),
}

/// A text in a fragment. Frames that have templates are short.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum TemplateText {
    /// The same in every frame: its range in [`FragmentTemplates::fixed`].
    Fixed { start: u16, end: u16, is_escaped: bool },
    /// The contents of that hole.
    Hole(u8),
    /// A piece of the frame from `lead` bytes before a hole to `trail` bytes behind the same or a later one.
    Around { first: u8, lead: u16, last: u8, trail: u16 },
}

impl TemplateText {
    fn is_fixed(self) -> bool {
        matches!(self, Self::Fixed { .. })
    }

    /// The holes in it.
    fn holes(self) -> PinnedHoles {
        match self {
            Self::Fixed { .. } => PinnedHoles::NONE,
            Self::Hole(at) => PinnedHoles::NONE.and(at.into()),
            Self::Around { first, last, .. } => {
                (first..=last).fold(PinnedHoles::NONE, |holes, at| holes.and(at.into()))
            }
        }
    }
}

/// The contents of a frame's holes, for its fragments.
#[derive(Clone, Copy)]
pub(super) struct HoleContents<'f> {
    pub(super) frame: &'f [u8],
    pub(super) pieces: &'f HolePieces,
    /// The number of the block key, if it stands in a hole.
    pub(super) number: Option<i64>,
    /// Whether the frame before had the same template: then much of this one is not new.
    pub(super) is_repeat: bool,
}

impl FragmentTemplates {
    /// Emits the fragments of a frame with those contents.
    #[inline(always)]
    pub(super) fn emit(&self, contents: &HoleContents<'_>, sink: &mut FragmentSink<'_>) {
        for template in &self.list {
            if !(contents.is_repeat && template.is_quiet) {
                sink.put(self.fragment(template, contents));
            }
        }
    }

    /// The text of the template of that number, if it is the same in every frame.
    pub(super) fn fixed_text(&self, at: u16) -> Str<'_> {
        let text = match self.list[usize::from(at)].kind {
            TemplateKind::Text { text, .. } | TemplateKind::Call { arguments: Some(text), .. } => {
                self.fixed(text)
            }
            _ => None,
        };
        text.unwrap_or(Str::Plain(""))
    }

    fn fixed(&self, text: TemplateText) -> Option<Str<'_>> {
        let TemplateText::Fixed { start, end, is_escaped } = text else { return None };
        let text = &self.fixed[usize::from(start)..usize::from(end)];
        Some(if is_escaped { Str::Escaped(text) } else { Str::Plain(text) })
    }

    #[inline(always)]
    fn str<'f>(&'f self, text: TemplateText, contents: &HoleContents<'f>) -> Str<'f> {
        match text {
            TemplateText::Fixed { .. } => self.fixed(text).unwrap_or(Str::Plain("")),
            TemplateText::Hole(at) => contents.pieces[usize::from(at)].str(contents.frame),
            TemplateText::Around { first, lead, last, trail } => {
                let [first, last] = [first, last].map(|at| contents.pieces[usize::from(at)]);
                let around = &contents.frame[first.start - usize::from(lead)..last.end + usize::from(trail)];
                // Checked when it was matched: neither bound stands inside a character.
                Str::Plain(std::str::from_utf8(around).unwrap_or_default())
            }
        }
    }

    #[inline(always)]
    fn fragment<'f>(&'f self, template: &FragmentTemplate, contents: &HoleContents<'f>) -> Fragment<'f> {
        let text = |text: &TemplateText| self.str(*text, contents).written();
        let opaque = |text: &TemplateText| Opaque::from(self.str(*text, contents));
        let may_be = |text: &Option<TemplateText>| text.as_ref().map(opaque);
        let part = match &template.kind {
            TemplateKind::Text { channel, wire_type, text: own } => {
                FragmentKind::Text { channel: *channel, wire_type: text(wire_type), text: opaque(own) }
            }
            TemplateKind::Call { id, name, kind, wire_type, arguments } => FragmentKind::Call {
                id: may_be(id),
                name: may_be(name),
                kind: *kind,
                wire_type: text(wire_type),
                arguments: may_be(arguments).map(FragmentArguments::Text),
            },
            TemplateKind::Start { id, model, wire_type } => {
                FragmentKind::Start { id: may_be(id), model: may_be(model), wire_type: text(wire_type) }
            }
            TemplateKind::Choice => FragmentKind::Choice,
            TemplateKind::Open { channel, wire_type } => {
                FragmentKind::Open { channel: *channel, wire_type: text(wire_type) }
            }
            TemplateKind::Attach { level, on, kind, wire_type, value } => FragmentKind::Attach {
                level: *level,
                on: text(on),
                kind: *kind,
                wire_type: text(wire_type),
                value: opaque(value),
            },
            TemplateKind::Usage { wire_type, raw, counters } => {
                let usage = match counters {
                    TemplateCounters::Known(counters) => UsageReport::new(**counters, text(raw)),
                    TemplateCounters::Read(read) => UsageReport::in_raw(text(raw), *read),
                };
                FragmentKind::Usage { wire_type: text(wire_type), usage }
            }
            TemplateKind::Finish { reason, raw } => {
                FragmentKind::Finish { reason: *reason, raw: may_be(raw) }
            }
            TemplateKind::End => FragmentKind::End,
            TemplateKind::Progress { wire_type, value } => {
                FragmentKind::Progress { wire_type: text(wire_type), value: may_be(value) }
            }
            TemplateKind::Detail { key, value } => {
                FragmentKind::Detail { key: text(key), value: opaque(value) }
            }
            TemplateKind::Extra { level, path, key, value } => {
                FragmentKind::Extra { level: *level, path, key: text(key), value: opaque(value) }
            }
        };
        let key = template.key.map(|TemplateKey { address, is_numbered }| match contents.number {
            Some(index) if is_numbered => BlockAddress { index, ..address },
            _ => address,
        });
        Fragment { choice: template.choice, key: key.map(BlockKey::from), part }
    }

    /// Finds out which of them are new only once.
    fn settle(&mut self, place: Option<u8>) {
        for at in 0..self.list.len() {
            let template = &mut self.list[at];
            let texts = template.kind.texts().into_iter().flatten();
            template.holes = texts.fold(PinnedHoles::NONE, |holes, text| holes.and_all(text.holes()));
            if let (Some(TemplateKey { is_numbered: true, .. }), Some(hole)) = (template.key, place) {
                template.holes = template.holes.and(hole.into());
            }
            let template = &self.list[at];
            if template.lasts() {
                let mut others = self.list.iter().enumerate().filter(|(other, _)| *other != at);
                let is_disputed = others.any(|(_, other)| self.are_disputed(template, other));
                let is_quiet = !is_disputed && template.holes.is_empty() && !template.is_of_block();
                let template = &mut self.list[at];
                (template.is_steady, template.is_quiet) = (!is_disputed, is_quiet);
            }
        }
    }

    /// Whether both are about the same extra field, so that each makes the other new.
    fn are_disputed(&self, one: &FragmentTemplate, other: &FragmentTemplate) -> bool {
        match (&one.kind, &other.kind) {
            (TemplateKind::Start { .. }, TemplateKind::Start { .. }) => true,
            (
                TemplateKind::Extra { path, key, .. },
                TemplateKind::Extra { path: other_path, key: other_key, .. },
            ) => path == other_path && self.fixed(*key) == self.fixed(*other_key),
            _ => false,
        }
    }
}

impl FragmentTemplate {
    /// Whether it is new only once, as long as it stays the same. Counts are not: they may come too late, each time.
    fn lasts(&self) -> bool {
        match &self.kind {
            TemplateKind::Start { .. } | TemplateKind::Choice => true,
            TemplateKind::Extra { key, .. } => key.is_fixed(),
            _ => false,
        }
    }

    /// Whether it is an extra field of a block.
    fn is_of_block(&self) -> bool {
        matches!(self.kind, TemplateKind::Extra { level: ExtraScope::Block | ExtraScope::Next, .. })
    }

    fn is_numbered(&self) -> bool {
        self.key.is_some_and(|key| key.is_numbered)
    }
}

impl TemplateKind {
    /// The texts in it.
    fn texts(&self) -> [Option<TemplateText>; 4] {
        match *self {
            Self::Start { id, model, wire_type } => [id, model, Some(wire_type), None],
            Self::Choice | Self::End => [None; 4],
            Self::Open { wire_type, .. } => [Some(wire_type), None, None, None],
            Self::Text { wire_type, text, .. } => [Some(wire_type), Some(text), None, None],
            Self::Call { id, name, wire_type, arguments, .. } => [id, name, Some(wire_type), arguments],
            Self::Attach { on, wire_type, value, .. } => [Some(on), Some(wire_type), Some(value), None],
            Self::Usage { wire_type, raw, .. } => [Some(wire_type), Some(raw), None, None],
            Self::Finish { raw, .. } => [raw, None, None, None],
            Self::Progress { wire_type, value } => [Some(wire_type), value, None, None],
            Self::Detail { key, value } | Self::Extra { key, value, .. } => {
                [Some(key), Some(value), None, None]
            }
        }
    }
}

/// The only news of a frame that continues a block: text, or the arguments of a call, to append.
pub(super) struct AppendPattern {
    pub(super) choice: u32,
    pub(super) target: AppendTarget,
    /// Whether the number of the block key stands in a hole.
    is_numbered: bool,
    /// The number of its fragment template.
    pub(super) template: u16,
    /// The hole of the text, if it is not always the same.
    pub(super) hole: Option<u8>,
    /// Whether that is the only hole that is not pinned, and a text.
    pub(super) is_alone: bool,
    /// The hole behind it, if there is only one more, and it is for blanks.
    pub(super) padding: Option<u8>,
    /// Whether the frame has extra fields of the block, too: they are not new only after a frame that found the block
    /// begun.
    pub(super) has_extra: bool,
    /// The holes that other fragments use: only as long as they have the same contents as in the frame before, the text
    /// is all there is to emit. Servers count the seconds in every chunk.
    pub(super) pinned: PinnedHoles,
}

impl AppendPattern {
    /// The append pattern of a frame in which the steady fragments change nothing, if there is one. The number of the
    /// block key, if there is a hole for it, stands in that one.
    pub(super) fn of(templates: &FragmentTemplates, holes: &[FrameHole], place: Option<u8>) -> Option<Self> {
        let list = &templates.list;
        let mut news = list.iter().enumerate().filter(|(_, template)| !template.is_steady);
        let (Some((at, own)), None) = (news.next(), news.next()) else { return None };
        // A field of a block must belong to this block, and not to the next.
        let is_of_it = |(other_at, other): (usize, &FragmentTemplate)| match other.kind {
            TemplateKind::Extra { level: ExtraScope::Next, .. } => {
                other.choice == own.choice && other_at < at
            }
            TemplateKind::Extra { level: ExtraScope::Block, .. } => {
                other.key == own.key && other.choice == own.choice
            }
            _ => true,
        };
        if !list.iter().enumerate().all(is_of_it) {
            return None;
        }
        let (target, text) = match own.kind {
            TemplateKind::Text { text, .. } => (AppendTarget::Text(own.key.map(|key| key.address)), text),
            TemplateKind::Call { id: None, name: None, arguments: Some(text), .. } => {
                (AppendTarget::Arguments, text)
            }
            _ => return None,
        };
        let hole = match text {
            TemplateText::Hole(hole) => Some(hole),
            TemplateText::Fixed { .. } => None,
            TemplateText::Around { .. } => return None,
        };
        let steady = list.iter().filter(|template| template.is_steady);
        let pinned = steady.fold(PinnedHoles::NONE, |pinned, template| pinned.and_all(template.holes));
        // Another block key is another block.
        let place = place.filter(|_| own.is_numbered());
        let pinned = place.map_or(pinned, |hole| pinned.and(hole.into()));
        let is_text = |at: usize| hole.is_some_and(|hole| usize::from(hole) == at);
        // A hole that equals another, or the text itself, cannot stay while that changes.
        let is_free = |(at, own): (usize, &FrameHole)| match own.kind {
            HoleKind::SameAs(other) => !pinned.has(at) && !pinned.has(other.into()),
            _ => !pinned.has(at) || !is_text(at),
        };
        if !holes.iter().enumerate().all(is_free) {
            return None;
        }
        let mut free = holes.iter().enumerate().filter(|(at, _)| !pinned.has(*at));
        let is_text = |(at, own): (usize, &FrameHole)| is_text(at) && own.kind == HoleKind::Text;
        let (first, second, third) = (free.next(), free.next(), free.next());
        let has_text = first.is_some_and(is_text);
        let padding = second.filter(|(_, own)| has_text && third.is_none() && own.kind == HoleKind::Blank);
        Some(Self {
            choice: own.choice,
            target,
            is_numbered: own.is_numbered(),
            template: at.try_into().ok()?,
            hole,
            is_alone: has_text && second.is_none(),
            padding: padding.map(|(at, _)| at as u8),
            has_extra: list.iter().any(FragmentTemplate::is_of_block),
            pinned,
        })
    }

    /// Continues at another number of the block key, if that stands in a hole.
    pub(super) fn go_to(&mut self, number: i64) {
        if let AppendTarget::Text(Some(address)) = &mut self.target
            && self.is_numbered
        {
            address.index = number;
        }
    }
}

/// Makes templates of the fragments of a [`Probe`].
pub(super) struct FragmentRecorder<'p> {
    probe: &'p Probe,
    templates: FragmentTemplates,
    /// Whether a fragment came that has no template.
    has_failed: bool,
}

impl<'p> FragmentRecorder<'p> {
    pub(super) fn new(probe: &'p Probe) -> Self {
        Self { probe, templates: FragmentTemplates::default(), has_failed: false }
    }

    /// The templates, if every fragment has one.
    pub(super) fn finish(mut self) -> Option<FragmentTemplates> {
        if self.has_failed {
            return None;
        }
        self.templates.settle(self.probe.place());
        // No more memory than they need: many streams are open at the same time.
        self.templates.list.shrink_to_fit();
        self.templates.fixed.shrink_to_fit();
        Some(self.templates)
    }

    fn str(&mut self, text: Str<'_>) -> Option<TemplateText> {
        let (written, is_escaped) = (text.written(), matches!(text, Str::Escaped(_)));
        if let Some(found) = self.probe.find(written) {
            return found.filter(|_| !is_escaped);
        }
        let fixed = &mut self.templates.fixed;
        let start = u16::try_from(fixed.len()).ok()?;
        let end = u16::try_from(fixed.len() + written.len()).ok()?;
        fixed.push_str(written);
        Some(TemplateText::Fixed { start, end, is_escaped })
    }

    fn text(&mut self, text: &str) -> Option<TemplateText> {
        self.str(Str::Plain(text))
    }

    fn opaque(&mut self, text: Opaque<'_>) -> Option<TemplateText> {
        self.str(text.reveal())
    }

    /// None if there is a text and it cannot be kept.
    fn may_be(&mut self, text: Option<Opaque<'_>>) -> Option<Option<TemplateText>> {
        match text {
            Some(text) => self.opaque(text).map(Some),
            None => Some(None),
        }
    }

    fn kind(&mut self, part: FragmentKind<'_>) -> Option<TemplateKind> {
        Some(match part {
            FragmentKind::Start { id, model, wire_type } => TemplateKind::Start {
                id: self.may_be(id)?,
                model: self.may_be(model)?,
                wire_type: self.text(wire_type)?,
            },
            FragmentKind::Choice => TemplateKind::Choice,
            FragmentKind::Open { channel, wire_type } => {
                TemplateKind::Open { channel, wire_type: self.text(wire_type)? }
            }
            FragmentKind::Text { channel, wire_type, text } => {
                TemplateKind::Text { channel, wire_type: self.text(wire_type)?, text: self.opaque(text)? }
            }
            FragmentKind::Call { id, name, kind, wire_type, arguments } => {
                let arguments = match arguments {
                    None => None,
                    Some(FragmentArguments::Text(text)) => Some(self.opaque(text)?),
                    Some(_) => return None,
                };
                let (id, name) = (self.may_be(id)?, self.may_be(name)?);
                TemplateKind::Call { id, name, kind, wire_type: self.text(wire_type)?, arguments }
            }
            FragmentKind::Attach { level, on, kind, wire_type, value } => {
                let (on, wire_type, value) = (self.text(on)?, self.text(wire_type)?, self.opaque(value)?);
                TemplateKind::Attach { level, on, kind, wire_type, value }
            }
            FragmentKind::Usage { wire_type, usage } => {
                let counters = match usage.reader() {
                    Ok(read) => TemplateCounters::Read(read),
                    Err(counters) => TemplateCounters::Known(Box::new(counters)),
                };
                TemplateKind::Usage {
                    wire_type: self.text(wire_type)?,
                    raw: self.text(usage.raw())?,
                    counters,
                }
            }
            FragmentKind::Finish { reason, raw } => TemplateKind::Finish { reason, raw: self.may_be(raw)? },
            FragmentKind::End => TemplateKind::End,
            FragmentKind::Progress { wire_type, value } => {
                TemplateKind::Progress { wire_type: self.text(wire_type)?, value: self.may_be(value)? }
            }
            FragmentKind::Detail { key, value } => {
                TemplateKind::Detail { key: self.text(key)?, value: self.opaque(value)? }
            }
            FragmentKind::Extra { level, path, key, value } => {
                TemplateKind::Extra { level, path, key: self.text(key)?, value: self.opaque(value)? }
            }
            _ => return None,
        })
    }
}

impl<'f> Sink<Fragment<'f>> for FragmentRecorder<'_> {
    fn put(&mut self, fragment: Fragment<'f>) {
        if self.has_failed {
            return;
        }
        let Fragment { choice, key, part } = fragment;
        let Some(kind) = self.kind(part) else { return self.has_failed = true };
        let key = key
            .map(BlockKey::reveal)
            .map(|address| TemplateKey { address, is_numbered: self.probe.is_number(address) });
        let holes = PinnedHoles::NONE;
        let template = FragmentTemplate { choice, key, kind, holes, is_quiet: false, is_steady: false };
        self.templates.list.push(template);
    }
}
