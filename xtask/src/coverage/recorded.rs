//! Recorded responses as frames whose JSON can be changed.

use std::collections::BTreeSet;
use std::path::Path;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use callweave::event::Event;
use callweave::framing::{Frame, FrameKind, Framer, StreamLimits};
use callweave::json::Value;
use callweave::pipeline::FrameDecoder;
use callweave::protocol::Protocol;

use super::rows::{Row, What, kind_of};

/// All recordings.
pub(crate) struct Recordings(Vec<Recording>);

/// One recorded response.
pub(crate) struct Recording {
    pub(crate) file: String,
    pub(crate) protocol: String,
    pub(crate) frames: Vec<RecordedFrame>,
    pub(crate) events: Vec<Event<'static>>,
}

pub(crate) struct RecordedFrame {
    pub(crate) event: Option<String>,
    kind: FrameKind,
    pub(crate) content: Content,
    text: String,
}

/// The content of a frame.
#[derive(Clone)]
pub(crate) enum Content {
    Json(Value),
    /// JSON inside an envelope: the payload in the member `bytes`, in base64.
    Wrapped(Value),
    Text(String),
}

impl Recordings {
    pub(crate) fn open(corpus: &Path) -> Result<Self, String> {
        let read = |path: &Path| std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
        let index = read(&corpus.join("INDEX.jsonl"))?;
        let mut recordings = Vec::new();
        for line in String::from_utf8_lossy(&index).lines() {
            let row: Value = serde_json::from_str(line).map_err(|error| format!("the index: {error}"))?;
            let [file, protocol] =
                ["file", "protocol"].map(|key| row[key].as_str().unwrap_or_default().to_owned());
            let bytes = read(&corpus.join(&file))?;
            recordings.push(Recording::new(file, protocol, &bytes));
        }
        // The shortest first: they are decoded again and again.
        recordings.sort_by_key(|recording| recording.frames.len());
        Ok(Self(recordings))
    }

    /// The recordings of a row's protocol, its example first.
    pub(crate) fn of<'r>(&'r self, row: &'r Row) -> impl Iterator<Item = &'r Recording> {
        let is_example = |recording: &&Recording| recording.file == row.example;
        let same = move |recording: &&Recording| recording.protocol == row.protocol;
        let example = self.0.iter().filter(is_example);
        example.chain(self.0.iter().filter(same).filter(move |recording| !is_example(recording)))
    }

    /// Rows for the protocols that were recorded but that the list does not know.
    pub(crate) fn unlisted_rows(&self, listed: &[Row]) -> Vec<Row> {
        let mut rows = Vec::new();
        let mut known = BTreeSet::new();
        for recording in &self.0 {
            if listed.iter().any(|row| row.protocol == recording.protocol) {
                continue;
            }
            for frame in &recording.frames {
                let Some(json) = frame.content.json() else { continue };
                let root = frame.names().next().unwrap_or("$").to_owned();
                walk(&root, json, &mut |text| {
                    if known.insert((recording.protocol.clone(), text.clone())) {
                        rows.push(Row::new(&recording.protocol, &text, &recording.file));
                    }
                });
            }
        }
        rows
    }
}

/// Reports every path below `value`, in the words of the list.
fn walk(path: &str, value: &Value, tell: &mut dyn FnMut(String)) {
    tell(format!("{path}:{}", kind_of(value)));
    match value {
        Value::Object(members) => {
            members.iter().for_each(|(key, value)| walk(&format!("{path}.{key}"), value, tell))
        }
        Value::Array(elements) => elements.iter().for_each(|value| walk(&format!("{path}[]"), value, tell)),
        _ => {}
    }
}

impl Recording {
    fn new(file: String, protocol: String, bytes: &[u8]) -> Self {
        let mut frames = Vec::new();
        let mut framer = Framer::detect(StreamLimits::default());
        let mut sink = |frame: Frame<'_>| frames.push(RecordedFrame::new(&frame));
        // A recording that was truncated in the middle of a frame still has the frames before.
        let _ = framer.push(bytes, &mut sink);
        let _ = framer.finish(&mut sink);
        let mut recording = Self { file, protocol, frames, events: Vec::new() };
        recording.events = decode(&recording.protocol, recording.frames.iter());
        recording
    }

    /// The events, after `change` has had its way with the JSON of one frame.
    pub(crate) fn decode_changed(&self, at: usize, change: impl FnOnce(&mut Value)) -> Vec<Event<'static>> {
        let changed = self.frames[at].changed(change);
        let frames = self.frames.iter().enumerate();
        decode(&self.protocol, frames.map(|(own, frame)| if own == at { &changed } else { frame }))
    }
}

/// Decodes frames of that protocol.
pub(crate) fn decode<'f>(
    protocol: &str,
    frames: impl Iterator<Item = &'f RecordedFrame>,
) -> Vec<Event<'static>> {
    let mut decoder = Protocol::named(protocol).map_or_else(FrameDecoder::detect, FrameDecoder::new);
    let mut events: Vec<Event<'static>> = Vec::new();
    for (at, frame) in frames.enumerate() {
        let frame = Frame {
            event: frame.event.as_deref(),
            data: &frame.text,
            id: None,
            offset: at as u64,
            data_offset: None,
            kind: frame.kind,
            is_lossy: false,
        };
        decoder.push(&frame, &mut events);
    }
    let _ = decoder.finish(&mut events);
    events
}

impl RecordedFrame {
    fn new(frame: &Frame<'_>) -> Self {
        let content = Content::read(frame.data);
        // Written anew, so that a changed frame differs in nothing but the change.
        let text = content.to_text();
        Self { event: frame.event.map(str::to_owned), kind: frame.kind, content, text }
    }

    fn changed(&self, change: impl FnOnce(&mut Value)) -> Self {
        let mut content = self.content.clone();
        if let Content::Json(json) | Content::Wrapped(json) = &mut content {
            change(json);
        }
        let text = content.to_text();
        Self { event: self.event.clone(), kind: self.kind, content, text }
    }

    /// The names that the frame goes by, `$` aside.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let json = self.content.json();
        let words = ["type", "event_type", "method"];
        let inner = words.into_iter().filter_map(move |key| json?.get(key)?.as_str());
        inner.chain(self.event.as_deref())
    }

    /// The row's path below this frame's root, if the frame goes by the row's root.
    pub(crate) fn path<'w>(&self, what: &'w What) -> Option<&'w str> {
        self.names().chain(["$"]).find_map(|name| what.path_below(name))
    }
}

impl Content {
    fn read(text: &str) -> Self {
        let Ok(json) = serde_json::from_str::<Value>(text) else { return Self::Text(text.into()) };
        let payload =
            json.get("bytes").and_then(Value::as_str).and_then(|bytes| BASE64_STANDARD.decode(bytes).ok());
        match payload.and_then(|bytes| serde_json::from_slice(&bytes).ok()) {
            Some(inner) => Self::Wrapped(inner),
            None => Self::Json(json),
        }
    }

    pub(crate) fn json(&self) -> Option<&Value> {
        match self {
            Self::Json(json) | Self::Wrapped(json) => Some(json),
            Self::Text(_) => None,
        }
    }

    fn to_text(&self) -> String {
        match self {
            Self::Json(json) => json.to_string(),
            Self::Wrapped(json) => {
                Value::object([("bytes", BASE64_STANDARD.encode(json.to_string()).into())]).to_string()
            }
            Self::Text(text) => text.clone(),
        }
    }
}
