//! Tools shared by the tests of several layers: the laws of the event stream, and the location of data.

#![allow(dead_code, reason = "each test file uses its part")]

use std::fs;
use std::path::{Path, PathBuf};

use callweave::accumulator::Accumulator;
use callweave::event::{Event, EventKind, Sink};
use callweave::grammar::EventValidator;
use callweave::message::Message;
use callweave::pipeline::Decoder;
use callweave::protocol::Protocol;
use serde_json::Value;

/// The result of decoding.
pub(crate) struct Decoded {
    /// The events, adjacent deltas merged.
    pub(crate) events: Vec<Event<'static>>,
    /// The number of events emitted when the last byte was pushed, before the finish.
    pub(crate) before_finish: usize,
    /// The message of the last response; most inputs hold one.
    pub(crate) message: Message,
    /// The messages of all responses.
    pub(crate) messages: Vec<Message>,
    pub(crate) faults: Vec<String>,
    pub(crate) error: Option<callweave::Error>,
    pub(crate) protocol: Option<&'static str>,
}

/// Decodes `bytes` split at `cuts` (ascending), checking the grammar on the way.
pub(crate) fn decode_truncated(protocol: Option<&'static Protocol>, bytes: &[u8], cuts: &[usize]) -> Decoded {
    let mut decoder = match protocol {
        Some(protocol) => Decoder::new(protocol),
        None => Decoder::detect(),
    };
    let mut events: Vec<Event<'static>> = Vec::new();
    let mut accumulator = Accumulator::new();
    let mut validator = EventValidator::new();
    let mut sink = |event: Event<'_>| {
        validator.put(event.clone());
        accumulator.put(event.clone());
        merge(&mut events, event);
    };
    let mut error = None;
    let mut from = 0;
    for &cut in cuts.iter().chain([&bytes.len()]) {
        if error.is_none() {
            error = decoder.push(&bytes[from..cut], &mut sink).err();
            from = cut;
        }
    }
    let mut counted = 0;
    let finished = decoder.finish(&mut |event: Event<'_>| {
        counted += 1;
        sink(event);
    });
    let error = error.or(finished.err());
    let before_finish = events.len().saturating_sub(counted);
    let mut faults = validator.faults().to_vec();
    if error.is_none() {
        faults = validator.finish();
    }
    let protocol = decoder.protocol().map(|protocol| protocol.name);
    let messages = accumulator.take_all();
    let message = messages.last().cloned().unwrap_or_default();
    Decoded { events, before_finish, message, messages, faults, error, protocol }
}

/// Appends an event, merging a delta into the delta of the same block right before it.
pub(crate) fn merge(events: &mut Vec<Event<'static>>, event: Event<'_>) {
    if let (
        Some(Event { body: EventKind::Delta { block: known, text: all, .. }, source, .. }),
        EventKind::Delta { block, text, .. },
    ) = (events.last_mut(), &event.body)
        && known == block
    {
        all.to_mut().push_str(text);
        source.end = source.end.max(event.source.end);
        return;
    }
    events.push(event.into_owned());
}

/// Cuts for the split law: each single one if there are few, else a spread of them; and all at once.
pub(crate) fn cut_lists(length: usize, most: usize) -> Vec<Vec<usize>> {
    let step = (length / most).max(1);
    let mut lists: Vec<Vec<usize>> = (0..=length).step_by(step).map(|cut| vec![cut]).collect();
    lists.push((1..length).collect());
    // A fixed walk with uneven steps, so that several cuts fall into one frame.
    let mut at = 0;
    let mut walk = Vec::new();
    let mut state = 0x9E37_79B9_u64;
    while at < length {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        at += 1 + (state >> 33) as usize % 97;
        if at < length {
            walk.push(at);
        }
    }
    lists.push(walk);
    lists
}

/// Checks the laws of grammar, split and prefix on one input; `most` bounds the number of single cuts.
pub(crate) fn check_laws(
    name: &str,
    protocol: Option<&'static Protocol>,
    bytes: &[u8],
    most: usize,
) -> Decoded {
    let whole = decode_truncated(protocol, bytes, &[]);
    assert!(whole.faults.is_empty(), "{name}: grammar: {:#?}", whole.faults);
    for cuts in cut_lists(bytes.len(), most) {
        let cut = decode_truncated(protocol, bytes, &cuts);
        let is_same = cut.events == whole.events && cut.error == whole.error;
        assert!(
            is_same,
            "{name}: split at {:?}…: {:#?} {:?}\n≠ {:#?} {:?}",
            &cuts[..cuts.len().min(8)],
            cut.events,
            cut.error,
            whole.events,
            whole.error
        );
    }
    let step = (bytes.len() / most).max(1);
    for end in (0..bytes.len()).step_by(step) {
        let prefix = decode_truncated(protocol, &bytes[..end], &[]);
        assert!(prefix.faults.is_empty(), "{name}: prefix of {end}: {:#?}", prefix.faults);
        check_prefix(name, end, &prefix, &whole);
    }
    whole
}

/// Nothing that was emitted from a prefix is taken back.
pub(crate) fn check_prefix(name: &str, end: usize, prefix: &Decoded, whole: &Decoded) {
    for (at, told) in prefix.events[..prefix.before_finish].iter().enumerate() {
        let kept = match (told, whole.events.get(at)) {
            (
                Event { body: EventKind::Delta { block, text, .. }, .. },
                Some(Event { body: EventKind::Delta { block: same, text: all, .. }, .. }),
            ) => block == same && all.starts_with(text.as_ref()),
            (told, Some(kept)) => told == kept,
            (_, None) => false,
        };
        assert!(kept, "{name}: prefix of {end} told {told:?}, the whole {:?}", whole.events.get(at));
    }
}

/// The last boundary between characters that is not after `at`.
pub(crate) fn boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

/// A message without the facts that its streamed and its complete form cannot both express: numbers, where the parts of
/// a text end, how arguments are spelt, oddities of the way.
pub(crate) fn comparable(message: &Message) -> Value {
    // Numbers may be larger than those of the values here.
    let mut value = Value::from(callweave::json::Value::of(message).expect("messages serialise"));
    let object = value.as_object_mut().expect("a message is an object");
    object.remove("usage");
    object.remove("notices");
    simplify(object);
    for choice in object.get_mut("choices").and_then(Value::as_array_mut).into_iter().flatten() {
        simplify(choice.as_object_mut().expect("a choice is an object"));
    }
    value
}

fn simplify(choice: &mut serde_json::Map<String, Value>) {
    let parse = |value: &mut Value| {
        let text = value.as_str().filter(|text| !text.is_empty()).unwrap_or("{}").to_owned();
        *value = serde_json::from_str(&text).unwrap_or(text.into());
    };
    for call in choice["tool_calls"].as_array_mut().expect("calls are a list") {
        parse(&mut call["arguments"]);
    }
    let mut blocks: Vec<Value> = Vec::new();
    for block in choice["blocks"].as_array().expect("blocks are a list") {
        let mut block = block.clone();
        let members = block.as_object_mut().expect("a block is an object");
        members.remove("index");
        members.remove("block");
        let is_call = block["kind"] == "tool_call";
        if is_call {
            parse(&mut block["text"]);
            // Only a stream emits arguments leaf by leaf.
            if block["wire_type"] == "partialArgs" {
                block["wire_type"] = "functionCall".into();
            }
        }
        match blocks.last_mut() {
            Some(last) if !is_call && last["kind"] == block["kind"] && block["text"].is_string() => {
                let [one, other] = [&*last, &block].map(|block| block["text"].as_str().unwrap_or(""));
                last["text"] = format!("{one}{other}").into();
                if let Some(more) = block["attachments"].as_array() {
                    let mut all = last["attachments"].as_array().cloned().unwrap_or_default();
                    all.extend(more.iter().cloned());
                    last["attachments"] = all.into();
                }
            }
            _ => blocks.push(block),
        }
    }
    choice.insert("blocks".to_owned(), blocks.into());
}

/// The folder of our own cases.
pub(crate) fn data(layer: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(layer)
}

/// The sub-folders, sorted by name.
pub(crate) fn folders(path: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<_> = fs::read_dir(path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    folders
}

/// The last part of a path.
pub(crate) fn name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Compares with an expected file, or writes it when `BLESS` is set.
pub(crate) fn expect(path: &Path, actual: &str) {
    if std::env::var_os("BLESS").is_some() {
        fs::write(path, actual).expect("a writable data folder");
        return;
    }
    let expected = fs::read_to_string(path)
        .unwrap_or_else(|error| panic!("{}: {error} (run once with BLESS=1, then read it)", path.display()));
    assert!(
        expected == actual,
        "{} differs (BLESS=1 writes it anew)\n--- expected\n{expected}\n--- actual\n{actual}",
        path.display()
    );
}
