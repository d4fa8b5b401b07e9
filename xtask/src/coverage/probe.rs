//! Changes the value at a path and compares the decoded responses.

use callweave::event::{Event, EventKind};
use callweave::json::Value;

use super::path::Path;
use super::recorded::{Content, RecordedFrame, Recording, Recordings, decode};
use super::rows::{Row, What};

/// The effect of a change at the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Effect {
    /// Nothing was ever there that could be lost.
    Silent,
    /// None at all.
    None,
    /// Only extra fields change.
    Kept,
    /// Something else changes.
    Read,
}

/// The outcome of a probe.
pub(crate) struct Probe {
    pub(crate) effect: Effect,
    /// No recording has the path.
    pub(crate) is_made: bool,
    /// The recording that was changed last.
    pub(crate) place: String,
}

/// The maximum number of occurrences of a path that are tried before it counts as lost, or as not read; only a few of
/// them in one recording, since they are much alike there.
const TRIES: usize = 24;
const TRIES_WHEN_KEPT: usize = 4;
const TRIES_IN_ONE: usize = 3;

/// Probes a row: the strongest effect that a change has on any of its occurrences.
pub(crate) fn probe(row: &Row, recordings: &Recordings) -> Probe {
    let mut best = Probe { effect: Effect::Silent, is_made: false, place: String::new() };
    if matches!(row.what, What::Nothing) {
        return best;
    }
    let mut tries = 0;
    for recording in recordings.of(row) {
        let all = (0..recording.frames.len()).flat_map(|at| occurrences(row, recording, at));
        for occurrence in all.take(TRIES_IN_ONE) {
            tries += 1;
            let effect = occurrence.effect();
            if effect > best.effect {
                best = Probe { effect, is_made: false, place: occurrence.place() };
            }
            let enough = match best.effect {
                Effect::Read => 1,
                Effect::Kept => TRIES_WHEN_KEPT,
                Effect::None | Effect::Silent => TRIES,
            };
            if tries >= enough {
                return best;
            }
        }
    }
    if tries == 0 { made(row, recordings).unwrap_or(best) } else { best }
}

/// An occurrence of a row's subject in a recording.
struct Occurrence<'r> {
    recording: &'r Recording,
    at: usize,
    spot: Spot<'r>,
}

enum Spot<'r> {
    /// The complete frame.
    Frame,
    /// The frame, which is no JSON.
    Text,
    /// The nth value at a path of the frame.
    Value { path: Path<'r>, nth: usize, value: &'r Value },
}

/// Every place of one frame that has what the row speaks of.
fn occurrences<'r>(row: &'r Row, recording: &'r Recording, at: usize) -> Vec<Occurrence<'r>> {
    let frame = &recording.frames[at];
    let spots: Vec<Spot<'r>> = match &row.what {
        What::Frame(name) if frame.event.as_deref() == Some(name) => vec![Spot::Frame],
        What::Text(text) => match &frame.content {
            Content::Text(own) if own.trim() == text || text == "nonjson" => vec![Spot::Text],
            _ => Vec::new(),
        },
        what @ (What::Value { .. } | What::Word { .. }) => {
            let (Some(path), Some(json)) = (frame.path(what), frame.content.json()) else {
                return Vec::new();
            };
            let found = Path::read(path).find(json).into_iter().enumerate();
            let found = found.filter(|(_, value)| what.is(value)).take(TRIES_IN_ONE);
            found.map(|(nth, value)| Spot::Value { path: Path::read(path), nth, value }).collect()
        }
        What::Frame(_) | What::Nothing => Vec::new(),
    };
    spots.into_iter().map(|spot| Occurrence { recording, at, spot }).collect()
}

impl Occurrence<'_> {
    fn effect(&self) -> Effect {
        match &self.spot {
            Spot::Frame => without(self.recording, self.at),
            Spot::Text => ending(self.recording, &self.recording.frames[self.at]),
            Spot::Value { path, nth, value } => changed(path, self.recording, self.at, *nth, value),
        }
    }

    fn place(&self) -> String {
        format!("{} frame {}", self.recording.file, self.at)
    }
}

/// The effect of leaving a frame out.
fn without(recording: &Recording, left_out: usize) -> Effect {
    let frames = recording.frames.iter().enumerate().filter(|(at, _)| *at != left_out);
    compare(&recording.events, &decode(&recording.protocol, frames.map(|(_, frame)| frame)))
}

/// The effect of a frame that is no JSON, right after the first frame: the response it ends has not ended yet.
fn ending(recording: &Recording, frame: &RecordedFrame) -> Effect {
    let first = || recording.frames.iter().take(1);
    let [with, without] = [true, false].map(|is_there| {
        let frames = first().chain(is_there.then_some(frame));
        decode(&recording.protocol, frames)
    });
    compare(&with, &without)
}

/// The effect of changing the `nth` value at the path, which is `value`.
fn changed(path: &Path<'_>, recording: &Recording, at: usize, nth: usize, value: &Value) -> Effect {
    let mut best = Effect::Silent;
    for other in others(value) {
        let events = recording.decode_changed(at, |json| path.replace(json, nth, &other));
        best = best.max(compare(&recording.events, &events));
        if best == Effect::Read {
            break;
        }
    }
    best
}

/// No recording has the path: a frame that has it is made from one that has the most of it.
fn made(row: &Row, recordings: &Recordings) -> Option<Probe> {
    let mut best: Option<(usize, &Recording, usize, Path<'_>)> = None;
    for recording in recordings.of(row) {
        for (at, frame) in recording.frames.iter().enumerate() {
            let (Some(path), Some(json)) = (frame.path(&row.what), frame.content.json()) else { continue };
            let path = Path::read(path);
            let depth = path.depth_in(json);
            if best.as_ref().is_none_or(|(known, ..)| depth > *known) {
                best = Some((depth, recording, at, path));
            }
        }
    }
    let (_, recording, at, path) = best?;
    let with = |value: &Value| recording.decode_changed(at, |json| path.put(json, value));
    let sample = row.what.sample();
    let before = with(&sample);
    let effect = others(&sample).iter().map(|other| compare(&before, &with(other))).max()?;
    Some(Probe { effect, is_made: true, place: format!("made from {} frame {at}", recording.file) })
}

/// Returns the difference between two decodings of nearly the same response.
fn compare(before: &[Event<'static>], after: &[Event<'static>]) -> Effect {
    let told = |events: &'_ [Event<'static>]| -> Vec<Event<'static>> {
        events.iter().filter(|event| !matches!(event.body, EventKind::Extra { .. })).cloned().collect()
    };
    if before == after {
        Effect::None
    } else if told(before) == told(after) {
        Effect::Kept
    } else {
        Effect::Read
    }
}

/// Values to put in the place of `value`; none where it says nothing.
fn others(value: &Value) -> Vec<Value> {
    match value {
        Value::Null => Vec::new(),
        Value::Bool(is) => vec![Value::Bool(!is)],
        Value::Number(number) => {
            let whole = number.as_f64().unwrap_or_default() as i64;
            vec![whole.saturating_add(1).into(), whole.saturating_add(1000).into()]
        }
        Value::String(text) if text.is_empty() => Vec::new(),
        Value::String(text) => vec![format!("{text}x").into(), "another".into()],
        Value::Array(_) if !says_something(value) => Vec::new(),
        Value::Object(_) if !says_something(value) => Vec::new(),
        Value::Array(elements) => {
            let first = elements.iter().position(says_something).unwrap_or_default();
            let with = |other| {
                let mut elements = elements.clone();
                elements[first] = other;
                Value::Array(elements)
            };
            let leaves = others(&elements[first]).into_iter().map(with);
            [Value::Array(Default::default())].into_iter().chain(leaves).collect()
        }
        Value::Object(members) => {
            let mut all = vec![Value::Object(Default::default())];
            for (key, value) in members.iter().filter(|(_, value)| says_something(value)) {
                if let Some(other) = others(value).into_iter().next() {
                    let mut members = members.clone();
                    members.insert(key, other);
                    all.push(Value::Object(members));
                }
            }
            all
        }
    }
}

/// Whether there is anything in the value but nulls and emptiness.
fn says_something(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(_) | Value::Number(_) => true,
        Value::String(text) => !text.is_empty(),
        Value::Array(elements) => elements.iter().any(says_something),
        Value::Object(members) => members.values().any(says_something),
    }
}
