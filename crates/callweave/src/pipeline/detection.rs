//! Frames → the events that the weave makes of them, in the protocol that the frames turn out to be in.
//!
//! Frames before the response that may come from others (keep-alives, status lines, text) are held until a frame
//! identifies the protocol beyond doubt; a frame that may turn out to be an error or the truncated end of the input is
//! held, too. At the end of the input the best guess counts.

use crate::event::{Event, EventKind, EventSink, Notice, NoticeCode};
use crate::fragment::{ExtraScope, Fragment, FragmentKind, FragmentSink};
use crate::frame_cache::FrameCache;
use crate::framing::{Frame, FrameKind, is_field};
use crate::json::{self, JsonKind, Str, Tape, TapeNode as Value, repair};
use crate::protocol::{
    DetectionEvidence, ErrorContext, Protocol, ProtocolFrame, TABLE, report, report_body, report_text,
};
use crate::truncated::{PrecedingFrames, TruncatedFrame, TruncatedRemains};
use crate::weave::Weave;
use crate::{Error, ErrorKind, Result};

/// Frames → the events that the weave makes of them.
#[derive(Default)]
pub(super) struct FrameReader {
    pub(super) protocol: Option<&'static Protocol>,
    /// The possible protocols; any, where none is named.
    candidates: Vec<&'static Protocol>,
    pub(super) weave: Weave,
    /// Frames whose meaning depends on later ones.
    held: Vec<HeldFrame>,
    held_bytes: usize,
    /// The number of frames that there was no room to hold.
    left_out: u64,
    /// The number of frames so far.
    pub(super) frames: u64,
    /// Whether some frame was JSON.
    has_json: bool,
    /// Whether some frame was damaged.
    has_damage: bool,
    /// Whether the caller named the protocol.
    is_named: bool,
    /// Whether some frame was the protocol's beyond doubt.
    is_confirmed: bool,
    /// The protocol that frames outside the known one seem to be in.
    resembles: Option<&'static Protocol>,
    pub(super) cache: FrameCache,
}

struct HeldFrame {
    event: Option<String>,
    data: String,
    offset: u64,
    meaning: HeldMeaning,
}

impl HeldFrame {
    fn input<'h>(&'h self, value: Value<'h>) -> ProtocolFrame<'h> {
        ProtocolFrame { event: self.event.as_deref(), value }
    }
}

/// The possible meanings of a held frame.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HeldMeaning {
    /// JSON without certain meaning, and the protocol that claims it.
    Json(Option<&'static Protocol>),
    /// JSON with a text in it: an error, unless a response follows. The protocol that claims it.
    Words(Option<&'static Protocol>),
    /// No JSON: damage, an error, or the truncated end of the input.
    Text,
    /// The end marker.
    Done,
}

/// The input that follows the held frames.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AfterHeld {
    Answer,
    Nothing,
}

/// The maximum number of frames, and below of their bytes, that are held before a response. The first frame always is.
const MAX_HELD: usize = 64;
const MAX_HELD_BYTES: usize = 1 << 20;

impl FrameReader {
    pub(super) fn new(
        protocol: Option<&'static Protocol>,
        candidates: Vec<&'static Protocol>,
        cache: FrameCache,
        weave: Weave,
    ) -> Self {
        Self { protocol, candidates, is_named: protocol.is_some(), cache, weave, ..Self::default() }
    }

    pub(super) fn push(&mut self, frame: &Frame<'_>, sink: &mut EventSink<'_>) {
        self.frames += 1;
        if frame.is_lossy {
            let detail = "bytes that are not UTF-8 were replaced";
            let notice = Notice::new(NoticeCode::InvalidUtf8, frame.offset, detail);
            sink.put(Event::new(0, EventKind::Notice(notice)));
        }
        let data = frame.data.trim_ascii();
        if data.is_empty() {
            return;
        }
        let may_be_known = frame.kind == FrameKind::Data && self.is_steady();
        if may_be_known && self.cache.push_frame(frame, data, &mut self.weave, sink) {
            return;
        }
        self.cache.interrupt();
        if frame.kind == FrameKind::Error {
            return self.fail(frame, sink);
        }
        if data == "[DONE]" {
            match self.held.is_empty() {
                true => self.end_response(frame.offset, sink),
                false => self.hold(frame, data, HeldMeaning::Done, sink),
            }
            return;
        }
        if frame.kind == FrameKind::Stray {
            // The response itself is complete.
            if !self.weave.is_over() {
                self.hold(frame, data, HeldMeaning::Text, sink);
            }
            return;
        }
        if !self.push_json(frame, data, sink) {
            self.push_text(frame, data, sink);
        }
    }

    /// Takes a value without framing as the next frame; its position is the number of frames before it.
    pub(super) fn push_complete(&mut self, value: Value<'_>, sink: &mut EventSink<'_>) {
        let (data, kind, offset) = (value.raw(), FrameKind::Data, self.frames);
        self.frames += 1;
        let frame = Frame { event: None, data, id: None, offset, data_offset: None, kind, is_lossy: false };
        self.push_value_of(&frame, data, value, sink);
    }

    /// Whether a known frame needs no other treatment: nothing is held, and the response goes on.
    pub(super) fn is_steady(&self) -> bool {
        !self.cache.is_empty() && self.held.is_empty() && !self.weave.is_over()
    }

    /// Takes the JSON of a frame; returns false if it is not JSON.
    fn push_json(&mut self, frame: &Frame<'_>, data: &str, sink: &mut EventSink<'_>) -> bool {
        json::with_spare_tape(|tape| {
            let value = tape.parse(data);
            value.map(|value| self.push_value_of(frame, data, value, sink)).is_ok()
        })
    }

    fn push_value_of(&mut self, frame: &Frame<'_>, data: &str, value: Value<'_>, sink: &mut EventSink<'_>) {
        // Protocols know keys in their usual spelling.
        if let Some(plain) = value.with_plain_keys() {
            self.push_json(frame, &plain, sink);
            return;
        }
        self.has_json = true;
        let input = ProtocolFrame { event: frame.event, value };
        let has_words = has_words(&input);
        if let Some(next) = self.successor(&input) {
            self.release(AfterHeld::Answer, sink);
            self.weave.begin_anew(sink);
            self.cache.clear();
            self.protocol = Some(next);
            return self.decode(next, &input, frame.offset, sink);
        }
        let is_plain = self.held.is_empty() && !has_words;
        if let Some(known) = self.protocol.filter(|_| is_plain && self.is_confirmed) {
            return self.decode_and_learn(known, &input, frame, data, sink);
        }
        match (self.claim(&input), self.protocol) {
            (Some((DetectionEvidence::Strong, found)), _) => {
                self.protocol = Some(found);
                self.is_confirmed = true;
                self.cache.clear();
                self.release(AfterHeld::Answer, sink);
                self.decode(found, &input, frame.offset, sink);
            }
            (claim, known) => {
                let claimant = known.or(claim.map(|(_, claimant)| claimant));
                let meaning =
                    if has_words { HeldMeaning::Words(claimant) } else { HeldMeaning::Json(claimant) };
                self.hold(frame, data, meaning, sink);
            }
        }
    }

    /// The protocol of the next response, if the one before is over and the caller did not name its protocol: a
    /// recording may hold responses of several.
    fn successor(&self, input: &ProtocolFrame<'_>) -> Option<&'static Protocol> {
        let known = self.protocol.filter(|_| self.is_confirmed && !self.is_named && self.weave.is_over())?;
        if (known.recognise)(input) == Some(DetectionEvidence::Strong) {
            return None;
        }
        let candidates = if self.candidates.is_empty() { TABLE } else { &self.candidates };
        match Protocol::weigh(candidates, input) {
            Some((DetectionEvidence::Strong, next)) => Some(next),
            _ => None,
        }
    }

    /// The protocol that the frame belongs to: the known one, or one of the candidates.
    fn claim(&mut self, input: &ProtocolFrame<'_>) -> Option<(DetectionEvidence, &'static Protocol)> {
        let Some(known) = self.protocol else {
            let candidates = if self.candidates.is_empty() { TABLE } else { &self.candidates };
            return Protocol::weigh(candidates, input);
        };
        let claim = (known.recognise)(input).map(|evidence| (evidence, known));
        if claim.is_none() && !self.is_confirmed && self.frames <= MAX_HELD as u64 {
            let found = Protocol::weigh(TABLE, input);
            self.resembles = self.resembles.or(found.map(|(_, protocol)| protocol));
        }
        claim
    }

    fn decode(
        &mut self,
        protocol: &Protocol,
        input: &ProtocolFrame<'_>,
        offset: u64,
        sink: &mut EventSink<'_>,
    ) {
        self.weave.push_frame(offset, |fragments| protocol.decode(input, fragments), sink);
    }

    /// Reads a frame, and learns its template where that may be of use: frames after the end are read in full each time.
    fn decode_and_learn(
        &mut self,
        protocol: &Protocol,
        input: &ProtocolFrame<'_>,
        frame: &Frame<'_>,
        data: &str,
        sink: &mut EventSink<'_>,
    ) {
        if self.weave.is_over() {
            return self.decode(protocol, input, frame.offset, sink);
        }
        self.weave.push(frame.offset, |fragments| protocol.decode(input, fragments), sink);
        self.cache.learn(protocol, input, frame, data);
    }

    fn end_response(&mut self, offset: u64, sink: &mut EventSink<'_>) {
        self.weave.push(offset, |fragments| fragments.put(Fragment::new(FragmentKind::Done)), sink);
    }

    /// Takes the next frame as decoded JSON.
    pub(super) fn push_value(&mut self, value: &json::Value, sink: &mut EventSink<'_>) {
        json::with_spare_tape(|tape| match tape.lay_out(value) {
            Ok(value) => self.push_complete(value, sink),
            Err(_) => self.frames += 1,
        });
    }

    pub(super) fn finish(&mut self, sink: &mut EventSink<'_>) -> Result<()> {
        if self.frames == 0 {
            return Err(Error::new(ErrorKind::Unknown, "the input is empty"));
        }
        self.untear(sink);
        let named = self.protocol.filter(|_| !self.is_confirmed);
        let claimed = self.held.iter().find_map(|held| match held.meaning {
            HeldMeaning::Json(claimant) | HeldMeaning::Words(claimant) => claimant,
            HeldMeaning::Text | HeldMeaning::Done => None,
        });
        self.protocol = self.protocol.or(claimed);
        if self.protocol.is_none() && self.is_unknown() {
            let what = "the protocol cannot be told from the input";
            return Err(Error::new(ErrorKind::Unknown, what));
        }
        let words = self.last_words();
        self.release(AfterHeld::Nothing, sink);
        self.interrupt(&words, sink);
        let is_empty = self.weave.is_empty();
        self.weave.finish(sink);
        match named.filter(|_| is_empty && self.has_json) {
            Some(named) => Err(self.not_of(named)),
            None => Ok(()),
        }
    }

    /// Takes the text that ends an input of JSON: a proxy's error page or sentence.
    fn last_words(&mut self) -> Vec<HeldFrame> {
        let is_words = |held: &HeldFrame| {
            let data = held.data.trim_ascii_start();
            held.meaning == HeldMeaning::Text && !data.starts_with(['{', '[']) && !is_field(data.as_bytes())
        };
        let count = self.held.iter().rev().take_while(|held| is_words(held)).count();
        // Where text came between frames before, the last text is damage, too.
        let count = if self.has_json && !self.has_damage { count } else { 0 };
        self.held.split_off(self.held.len() - count)
    }

    /// Handles a text by which something other than the provider ended the input: it is an error of an unfinished
    /// response, and damage after a finished one.
    fn interrupt(&mut self, words: &[HeldFrame], sink: &mut EventSink<'_>) {
        let Some(first) = words.first() else { return };
        if self.weave.is_over() {
            for HeldFrame { data, offset, .. } in words {
                self.weave.push(*offset, |fragments| fragments.put(damage(data)), sink);
            }
            return;
        }
        let lines: Vec<_> = words.iter().map(|held| held.data.as_str()).collect();
        let (text, context) = (lines.join("\n"), ErrorContext::default());
        self.weave.push_frame(first.offset, |fragments| report_text(&text, context, fragments), sink);
    }

    /// Whether there is JSON that no protocol claims and that reports no error either.
    fn is_unknown(&self) -> bool {
        let mut tape = Tape::new();
        let has_error = |value: Value<'_>| report_body(value, &mut |_: Fragment<'_>| {});
        let mut is_nobodys = |held: &HeldFrame| {
            held.meaning == HeldMeaning::Json(None) && !tape.parse(&held.data).is_ok_and(has_error)
        };
        (self.has_json && self.left_out > 0) || self.held.iter().any(&mut is_nobodys)
    }

    fn not_of(&self, named: &Protocol) -> Error {
        let mut what = format!("nothing in the input is {}", named.name);
        if let Some(other) = self.resembles {
            what.push_str(&format!("; it looks like {}", other.name));
        }
        Error::new(ErrorKind::Unknown, what)
    }

    /// Keeps a frame until its meaning is clear.
    fn hold(&mut self, frame: &Frame<'_>, data: &str, meaning: HeldMeaning, sink: &mut EventSink<'_>) {
        let is_full = self.held.len() >= MAX_HELD || self.held_bytes + data.len() > MAX_HELD_BYTES;
        if is_full && !self.held.is_empty() {
            if self.protocol.is_none() {
                // Repeated frames, such as keep-alives, do not count as left out.
                let is_repeat = |held: &HeldFrame| held.data == data && held.event.as_deref() == frame.event;
                self.left_out += u64::from(!self.held.iter().any(is_repeat));
                return;
            }
            self.release(AfterHeld::Nothing, sink);
        }
        self.held_bytes += data.len();
        let (event, data) = (frame.event.map(Into::into), data.to_owned());
        self.held.push(HeldFrame { event, data, offset: frame.offset, meaning });
    }

    /// Reads the held frames, now that it is clear what follows.
    fn release(&mut self, then: AfterHeld, sink: &mut EventSink<'_>) {
        let held = std::mem::take(&mut self.held);
        self.held_bytes = 0;
        let mut tape = Tape::new();
        // A frame before a response is no error, unless an end comes between.
        let mut is_followed = then == AfterHeld::Answer;
        let mut followed: Vec<_> = held
            .iter()
            .rev()
            .map(|held| {
                match held.meaning {
                    HeldMeaning::Done => is_followed = false,
                    HeldMeaning::Json(Some(claimant)) if !is_followed => {
                        let tells = |value| tells(claimant, &held.input(value), is_content);
                        is_followed = tape.parse(&held.data).is_ok_and(tells);
                    }
                    HeldMeaning::Json(_) | HeldMeaning::Words(_) | HeldMeaning::Text => {}
                }
                is_followed
            })
            .collect();
        followed.reverse();
        for (at, (held, is_followed)) in held.iter().zip(followed).enumerate() {
            let HeldFrame { data, offset, meaning, .. } = held;
            let input = tape.parse(data).ok().map(|value| held.input(value));
            match (*meaning, input) {
                (HeldMeaning::Done, _) => self.end_response(*offset, sink),
                (HeldMeaning::Json(_) | HeldMeaning::Words(_), Some(input))
                    if is_followed && self.is_extra(*meaning, &input) =>
                {
                    self.weave.push(*offset, |fragments| pass_on(input.value, fragments), sink);
                }
                (HeldMeaning::Json(claimant) | HeldMeaning::Words(claimant), Some(input)) => {
                    let confirmed = self.protocol.filter(|_| self.is_confirmed);
                    let protocol = confirmed.or(claimant).or(self.protocol);
                    let has_words = matches!(meaning, HeldMeaning::Words(_));
                    let read = |fragments: &mut FragmentSink<'_>| {
                        read_doubtful(protocol, &input, has_words, fragments);
                    };
                    self.weave.push_frame(*offset, read, sink);
                }
                (_, _) if !is_followed && at == 0 && !self.has_json => {
                    self.weave.push_frame(
                        *offset,
                        |fragments| report_text(data, ErrorContext::default(), fragments),
                        sink,
                    );
                }
                (_, _) => {
                    self.has_damage = true;
                    self.weave.push(*offset, |fragments| fragments.put(damage(data)), sink);
                }
            }
        }
        if self.left_out > 0 {
            let detail =
                format!("frames before the answer were left out: {}", std::mem::take(&mut self.left_out));
            sink.put(Event::new(0, EventKind::Notice(Notice::new(NoticeCode::Other, 0, detail))));
        }
    }

    /// Whether a frame before the response is not of its protocol.
    fn is_extra(&self, meaning: HeldMeaning, input: &ProtocolFrame<'_>) -> bool {
        let is_of = |protocol: &Protocol| (protocol.recognise)(input).is_some();
        matches!(meaning, HeldMeaning::Words(_))
            || !self.protocol.filter(|_| self.is_confirmed).is_none_or(is_of)
    }

    /// Handles a frame that the framing itself marks as an error.
    fn fail(&mut self, frame: &Frame<'_>, sink: &mut EventSink<'_>) {
        let words = self.protocol.map_or(&[][..], |protocol| protocol.errors);
        let context = ErrorContext { words, code: frame.event.map(Str::Plain), ..ErrorContext::default() };
        self.weave.push_frame(frame.offset, |fragments| report_text(frame.data, context, fragments), sink);
    }

    /// Handles a frame that is not JSON. Where only the notation is wrong (`NaN`, a comma too many) it is read all the
    /// same. Else it is damage if a response came before or comes after, the truncated end of the input if nothing
    /// comes after, and a plain-text error if there is nothing else.
    fn push_text(&mut self, frame: &Frame<'_>, data: &str, sink: &mut EventSink<'_>) {
        let mut mended = lossless().repair(data);
        let with_text = damaged_escape(&mended.verdict).map(|at| with_escapes_as_text(data, at));
        if let Some(text) = &with_text {
            mended = lossless().repair(text);
        }
        let is_read =
            matches!(mended.verdict, repair::RepairVerdict::Valid | repair::RepairVerdict::Repaired);
        if is_read && mended.text.starts_with('{') {
            let (code, detail) = match with_text {
                None => (NoticeCode::Repaired, "a frame is not quite JSON"),
                Some(_) => {
                    (NoticeCode::MalformedFrame, "an escape in a frame is damaged and was read as text")
                }
            };
            sink.put(Event::new(0, EventKind::Notice(Notice::new(code, frame.offset, detail))));
            if self.push_json(frame, &mended.text, sink) {
                return;
            }
        }
        self.hold(frame, frame.data, HeldMeaning::Text, sink);
    }

    /// Reads the available part of a last frame that the end of the input truncated.
    fn untear(&mut self, sink: &mut EventSink<'_>) {
        let Some(HeldFrame { event, data, offset, .. }) =
            self.held.pop_if(|held| held.meaning == HeldMeaning::Text)
        else {
            return;
        };
        let torn = TruncatedFrame::of(data.trim_ascii());
        let mut tape = Tape::new();
        if let Some(torn) = &torn
            && let Ok(value) = tape.parse(&torn.text)
        {
            let input = ProtocolFrame { event: event.as_deref(), value };
            let claim = self.claim(&input);
            let is_certain = claim.is_some_and(|(evidence, _)| evidence == DetectionEvidence::Strong);
            if let Some(protocol) = self.protocol.or(claim.map(|(_, claimant)| claimant)) {
                self.protocol = Some(protocol);
                self.has_json = true;
                self.is_confirmed |= is_certain;
                self.release(if is_certain { AfterHeld::Answer } else { AfterHeld::Nothing }, sink);
                let came =
                    if self.weave.is_empty() { PrecedingFrames::Nothing } else { PrecedingFrames::Something };
                let decode = |fragments: &mut FragmentSink<'_>| {
                    let mut remains = TruncatedRemains::new(torn, protocol, came, fragments);
                    protocol.decode(&input, &mut remains);
                    remains.finish();
                };
                return self.weave.push_frame(offset, decode, sink);
            }
        }
        self.held.push(HeldFrame { event, data, offset, meaning: HeldMeaning::Text });
    }
}

/// Repairs that keep the meaning of a frame.
fn lossless() -> repair::RepairOptions {
    repair::RepairOptions::new().allow(repair::ChangeClass::Lossless).without_prose()
}

/// The position of a damaged `\u` escape.
fn damaged_escape(verdict: &repair::RepairVerdict) -> Option<usize> {
    match verdict {
        repair::RepairVerdict::Hopeless { why: repair::HopelessReason::DamagedEscape, at } => Some(*at),
        _ => None,
    }
}

/// The maximum number of damaged escapes that are looked for in a frame.
const MAX_DAMAGED_ESCAPES: usize = 16;

/// The frame with its damaged escapes, the first of them at `first`, as the letters that stand there: the intended
/// characters are unknown, but all the rest is readable.
fn with_escapes_as_text(data: &str, first: usize) -> String {
    let mut text = data.to_owned();
    let mut damaged = Some(first);
    for _ in 0..MAX_DAMAGED_ESCAPES {
        let Some(at) = damaged else { break };
        text.insert(at, '\\');
        damaged = damaged_escape(&lossless().repair(&text).verdict);
    }
    text
}

/// Whether the frame has only a text that may be an error's: it is one only if no response follows.
fn has_words(input: &ProtocolFrame<'_>) -> bool {
    if !input.value.has_any(["message", "detail"]) {
        return false;
    }
    let is_error = |text: Str<'_>| text.is("error");
    let mut has_words = false;
    for (key, value) in input.value.members() {
        match key {
            "message" if value.kind() == JsonKind::String => has_words = true,
            "detail" => has_words = true,
            "error" | "errors" | "choices" | "method" => return false,
            "type" | "object" if value.str().is_some_and(is_error) => return false,
            _ => {}
        }
    }
    has_words && input.event != Some("error")
}

/// Whether that protocol finds such a fragment in the frame.
fn tells(protocol: &Protocol, input: &ProtocolFrame<'_>, is_such: fn(&FragmentKind<'_>) -> bool) -> bool {
    let mut is_told = false;
    protocol.decode(input, &mut |fragment: Fragment<'_>| is_told |= is_such(&fragment.part));
    is_told
}

fn is_content(part: &FragmentKind<'_>) -> bool {
    matches!(
        part,
        FragmentKind::Open { .. }
            | FragmentKind::Text { .. }
            | FragmentKind::Restate { .. }
            | FragmentKind::Call { .. }
    )
}

/// Reads a frame by its protocol if that finds anything in it (in a mere text: an error), else as an error that no
/// protocol knows.
fn read_doubtful(
    protocol: Option<&Protocol>,
    input: &ProtocolFrame<'_>,
    has_words: bool,
    fragments: &mut FragmentSink<'_>,
) {
    let is_such: fn(&FragmentKind<'_>) -> bool = match has_words {
        true => |part| matches!(part, FragmentKind::Error(_)),
        false => |part| {
            !matches!(part, FragmentKind::Start { .. } | FragmentKind::Choice | FragmentKind::Extra { .. })
        },
    };
    match protocol {
        Some(protocol) if tells(protocol, input, is_such) => protocol.decode(input, fragments),
        _ if report_body(input.value, fragments) => {}
        _ if has_words => {
            report(input.value, ErrorContext::default(), fragments);
        }
        Some(protocol) => protocol.decode(input, fragments),
        None => {}
    }
}

/// Passes on a frame before the response that says nothing of it.
fn pass_on(value: Value<'_>, fragments: &mut FragmentSink<'_>) {
    for (key, value) in value.members() {
        fragments.put(Fragment::new(FragmentKind::Extra {
            level: ExtraScope::Response,
            path: "",
            key,
            value: value.raw().into(),
        }));
    }
}

fn damage(text: &str) -> Fragment<'_> {
    let detail = "a frame is not JSON";
    Fragment::new(FragmentKind::Notice { code: NoticeCode::MalformedFrame, detail, text: Some(text) })
}
