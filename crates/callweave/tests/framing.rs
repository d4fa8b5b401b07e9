//! The laws of the framing layer, over its own cases, the recorded corpus and hostile input.
//!
//! A case is a folder `tests/data/framing/<framing>/<case>/` with `input` (bytes) or `messages.jsonl`
//! (messages of an AWS event stream, built here), optionally `limits.json`, and `frames.jsonl`: one
//! frame per line and, where the stream fails, the error last. `BLESS=1` rewrites the expected files.

#[path = "support/aws.rs"]
mod aws;
#[path = "support/shared.rs"]
mod shared;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use callweave::framing::{Frame, FrameKind, Framer, Framing, StreamLimits};
use callweave::json::Value;
use callweave::{Error, ErrorKind};

/// Everything that came out, and how the stream ended.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    frames: Vec<Owned>,
    error: Option<Error>,
}

/// A frame that outlives its push.
#[derive(Debug, PartialEq)]
struct Owned {
    event: Option<String>,
    data: String,
    id: Option<String>,
    offset: u64,
    kind: FrameKind,
    is_lossy: bool,
}

impl From<Frame<'_>> for Owned {
    fn from(frame: Frame<'_>) -> Self {
        let Frame { event, data, id, offset, data_offset: _, kind, is_lossy } = frame;
        Self {
            event: event.map(str::to_owned),
            data: data.into(),
            id: id.map(str::to_owned),
            offset,
            kind,
            is_lossy,
        }
    }
}

impl Owned {
    fn to_json(&self) -> Value {
        let mut value = Value::object([("offset", self.offset.into())]);
        if let Some(event) = &self.event {
            value["event"] = event.as_str().into();
        }
        if let Some(id) = &self.id {
            value["id"] = id.as_str().into();
        }
        if self.kind == FrameKind::Error {
            value["kind"] = "error".into();
        }
        if self.is_lossy {
            value["is_lossy"] = true.into();
        }
        value["data"] = self.data.as_str().into();
        value
    }
}

/// Pushes the pieces and does not finish.
fn push_all<'p>(framer: &mut Framer, pieces: impl IntoIterator<Item = &'p [u8]>) -> Outcome {
    let mut outcome = Outcome::default();
    for piece in pieces {
        let result = framer.push(piece, &mut |frame: Frame<'_>| outcome.frames.push(frame.into()));
        if let Err(error) = result {
            outcome.error = Some(error);
            break;
        }
    }
    outcome
}

fn run<'p>(mut framer: Framer, pieces: impl IntoIterator<Item = &'p [u8]>) -> Outcome {
    let mut outcome = push_all(&mut framer, pieces);
    let result = framer.finish(&mut |frame: Frame<'_>| outcome.frames.push(frame.into()));
    if let Err(error) = result {
        assert!(outcome.error.is_none(), "an error is told once");
        outcome.error = Some(error);
    }
    outcome
}

/// Cuts `bytes` into pieces of random lengths, many of them short, some of them empty.
fn random_pieces<'b>(mut bytes: &'b [u8], random: &mut Random) -> Vec<&'b [u8]> {
    let mut pieces = Vec::new();
    while !bytes.is_empty() {
        let scale = [1, 8, 64, 512, 4096][random.below(5)];
        let (piece, rest) = bytes.split_at(random.below(scale + 1).min(bytes.len()));
        pieces.push(piece);
        bytes = rest;
    }
    pieces
}

/// A small generator of random numbers (SplitMix64), so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }
}

/// The number of frames whose data stand in the stream where they say.
fn standing<'p>(
    name: &str,
    bytes: &[u8],
    mut framer: Framer,
    pieces: impl IntoIterator<Item = &'p [u8]>,
) -> usize {
    let mut count = 0;
    let mut look = |frame: Frame<'_>| {
        let Some(start) = frame.data_offset else { return };
        let stands = bytes[start as usize..].starts_with(frame.data.as_bytes());
        assert!(stands, "{name}: {:?} does not stand at byte {start}", frame.data);
        count += 1;
    };
    let pushed = pieces.into_iter().try_for_each(|piece| framer.push(piece, &mut look));
    let _ = pushed.and_then(|()| framer.finish(&mut look));
    count
}

#[test]
fn data_that_stand_in_the_stream_say_where() {
    let sse = b"event: a\ndata: {}\n\n: b\ndata: data: {\"c\":1} \r\ndata:\n\ndata:[1]\nid: 7\n\n{\"d\":2}\n\n\xF2data: {}\n\n";
    for (framing, bytes, count) in [
        (Framing::Sse, &sse[..], 3),
        (Framing::JsonLines, b"{}\n {\"a\":1} \r\ndata: {}\n{\xFF}\n", 3),
        (Framing::JsonValues, b" {}{\"a\":1} [1]", 3),
    ] {
        let framer = || Framer::new(framing, StreamLimits::default());
        assert_eq!(standing(framing.name(), bytes, framer(), [bytes]), count, "{framing}");
        standing(framing.name(), bytes, framer(), bytes.chunks(1));
    }
}

/// Split: every single split, byte by byte and random splits give the result of the complete input. Prefix: everything
/// a stream has emitted up to any byte, it has emitted for good, and its end is orderly.
fn hold_laws(name: &str, bytes: &[u8], framer: impl Fn() -> Framer) -> Outcome {
    let whole = run(framer(), [bytes]);
    assert_eq!(run(framer(), bytes.chunks(1)), whole, "{name}: byte by byte");
    standing(name, bytes, framer(), [bytes]);
    standing(name, bytes, framer(), bytes.chunks(1));
    let mut random = Random(bytes.len() as u64);
    for round in 0..20 {
        standing(name, bytes, framer(), random_pieces(bytes, &mut random));
        assert_eq!(run(framer(), random_pieces(bytes, &mut random)), whole, "{name}: random cuts {round}");
    }
    for cut in 0..=bytes.len() {
        let (head, tail) = bytes.split_at(cut);
        assert_eq!(run(framer(), [head, tail]), whole, "{name}: cut at {cut}");
        let emitted = push_all(&mut framer(), [head]).frames;
        assert!(whole.frames.starts_with(&emitted), "{name}: {cut} bytes emit what the whole does not");
        run(framer(), [head]);
    }
    whole
}

#[test]
fn cases() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/framing");
    let folders: BTreeSet<_> = subfolders(&root).iter().map(|path| name_of(path)).collect();
    let names: BTreeSet<_> = Framing::ALL.iter().map(|framing| framing.name().to_owned()).collect();
    assert_eq!(folders, names, "every framing has a folder of cases and every folder a framing");

    let mut failures = Vec::new();
    for framing in Framing::ALL {
        for folder in subfolders(&root.join(framing.name())) {
            failures.extend(check_case(framing, &folder));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn check_case(framing: Framing, folder: &Path) -> Option<String> {
    let name = format!("{framing}/{}", name_of(folder));
    let input = match fs::read(folder.join("messages.jsonl")) {
        Ok(messages) => build_messages(&messages),
        Err(_) => fs::read(folder.join("input")).expect("a case has an input"),
    };
    let limits = read_limits(&folder.join("limits.json"));

    let outcome = hold_laws(&name, &input, || Framer::new(framing, limits));
    let detected = hold_laws(&name, &input, || Framer::detect(limits));
    assert_eq!(detected, outcome, "{name}: detection changes nothing");
    assert_eq!(detect(&input, limits), framing, "{name}: detection");

    let mut actual: String = outcome.frames.iter().map(|frame| format!("{}\n", frame.to_json())).collect();
    if let Some(error) = &outcome.error {
        let kind = format!("{:?}", error.kind()).to_lowercase();
        let row = Value::object([
            ("error", kind.into()),
            ("offset", error.offset().into()),
            ("detail", error.detail().into()),
        ]);
        actual += &format!("{row}\n");
    }
    let path = folder.join("frames.jsonl");
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, &actual).expect("the case folder can be written");
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    (expected != actual).then(|| format!("{name}: frames differ (BLESS=1 accepts them):\n{actual}"))
}

fn detect(bytes: &[u8], limits: StreamLimits) -> Framing {
    let mut framer = Framer::detect(limits);
    let mut ended = framer.push(bytes, &mut |_: Frame<'_>| {});
    if ended.is_ok() {
        ended = framer.finish(&mut |_: Frame<'_>| {});
    }
    framer.framing().unwrap_or_else(|| panic!("no framing found, the stream ended with {ended:?}"))
}

fn read_limits(path: &Path) -> StreamLimits {
    let mut limits = StreamLimits::default();
    let Ok(text) = fs::read(path) else { return limits };
    let value: Value = serde_json::from_slice(&text).expect("limits are JSON");
    for (name, limit) in value.as_object().expect("limits are an object") {
        let limit = limit.as_u64().expect("a limit is a number");
        match name {
            "line" => limits.line = limit as usize,
            "frame" => limits.frame = limit as usize,
            "total" => limits.total = limit,
            _ => panic!("unknown limit {name}"),
        }
    }
    limits
}

/// Builds AWS messages from rows `{"headers": [[name, type, value]], "payload", "flip"?, "keep"?}`.
///
/// Header values that are no text, and `payload_hex`, are hexadecimal digits; `flip` is a byte of the
/// message to damage, `keep` how many of its bytes to keep.
fn build_messages(rows: &[u8]) -> Vec<u8> {
    let mut stream = Vec::new();
    for row in serde_json::Deserializer::from_slice(rows).into_iter::<Value>() {
        let row = row.expect("rows are JSON");
        let headers: Vec<u8> =
            row["headers"].as_array().expect("headers are a list").iter().flat_map(build_header).collect();
        let payload = match row["payload"].as_str() {
            Some(text) => text.as_bytes().to_vec(),
            None => unhex(row["payload_hex"].as_str().expect("a payload")),
        };
        let mut message = aws::message(&headers, &payload);
        if let Some(at) = row["flip"].as_u64() {
            message[at as usize] ^= 0x40;
        }
        if let Some(length) = row["keep"].as_u64() {
            message.truncate(length as usize);
        }
        stream.extend(message);
    }
    stream
}

fn build_header(header: &Value) -> Vec<u8> {
    const BYTES: u8 = 6;
    const TEXT: u8 = 7;
    let name = header[0].as_str().expect("a name");
    let kind = header[1].as_u64().expect("a type") as u8;
    let value = header[2].as_str().expect("a value");
    let value = if kind == TEXT { value.as_bytes().to_vec() } else { unhex(value) };
    let mut bytes = vec![name.len() as u8];
    bytes.extend(name.bytes());
    bytes.push(kind);
    if matches!(kind, BYTES | TEXT) {
        bytes.extend((value.len() as u16).to_be_bytes());
    }
    bytes.extend(value);
    bytes
}

fn unhex(digits: &str) -> Vec<u8> {
    let pair = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal digits");
    (0..digits.len()).step_by(2).map(pair).collect()
}

fn subfolders(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let paths = entries.map(|entry| entry.expect("readable").path());
    let mut folders: Vec<_> = paths.filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

fn name_of(path: &Path) -> String {
    path.file_name().expect("has a name").to_string_lossy().into_owned()
}

/// Every recorded response: the framing is detected, splits change nothing, and the frames are as many as the
/// recording's index says.
#[test]
fn corpus() {
    let Some(root) = shared::find("corpus") else { return };
    let index = fs::read_to_string(root.join("INDEX.jsonl")).expect("the corpus has an index");
    let mut random = Random(1);
    for row in index.lines() {
        let row: Value = serde_json::from_str(row).expect("the index is JSON");
        let name = row["file"].as_str().expect("a file name");
        let bytes = fs::read(root.join(name)).expect("the file is there");
        let framing = recorded_framing(row["framing"].as_str().expect("a framing"), &bytes);
        assert_eq!(detect(&bytes, StreamLimits::default()), framing, "{name}");

        let framer = || Framer::detect(StreamLimits::default());
        let whole = run(framer(), [&bytes[..]]);
        assert_eq!(run(Framer::new(framing, StreamLimits::default()), [&bytes[..]]), whole, "{name}: named");
        assert_eq!(run(framer(), bytes.chunks(1)), whole, "{name}: byte by byte");
        for _ in 0..3 {
            assert_eq!(run(framer(), random_pieces(&bytes, &mut random)), whole, "{name}: random cuts");
        }
        if let Some(lengths) = row["network_chunk_lengths"].as_array() {
            let mut rest = &bytes[..];
            let recorded = lengths.iter().map(|length| {
                let length = length.as_u64().expect("a length") as usize;
                rest.split_off(..length).expect("the lengths add up to the file")
            });
            assert_eq!(run(framer(), recorded), whole, "{name}: as the network cut it");
        }

        let is_truncated = name.ends_with("bedrock-bedrock-broken.eventstream");
        assert_eq!(whole.error.is_some(), is_truncated, "{name}: {:?}", whole.error);
        assert_eq!(Some(whole.frames.len() as u64), row["events"].as_u64(), "{name}: frames");
    }
}

/// Every response of our own cases: splits change nothing.
#[test]
fn own_responses() {
    let mut random = Random(1);
    let mut count = 0;
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/protocol");
    for case in subfolders(&data).iter().flat_map(|protocol| subfolders(protocol)) {
        let files = fs::read_dir(&case).expect("a case").map(|entry| entry.expect("readable").path());
        let mut inputs = files.filter(|path| path.file_stem().is_some_and(|stem| stem == "input"));
        let bytes = fs::read(inputs.next().expect("an input")).expect("the file is there");
        let name = case.display();
        let framer = || Framer::detect(StreamLimits::default());
        let whole = run(framer(), [&bytes[..]]);
        assert_eq!(run(framer(), bytes.chunks(1)), whole, "{name}: byte by byte");
        for _ in 0..3 {
            assert_eq!(run(framer(), random_pieces(&bytes, &mut random)), whole, "{name}: random cuts");
        }
        count += 1;
    }
    assert!(count > 100, "{count} cases");
}

/// Returns the framing that the index's words mean for these bytes.
fn recorded_framing(words: &str, bytes: &[u8]) -> Framing {
    match words {
        "sse" => Framing::Sse,
        "aws event stream (binary)" => Framing::AwsEventStream,
        "json array of chunks" => Framing::JsonValues,
        // A body that lies on one line and ends it is a line like any other.
        "whole JSON" if bytes.trim_ascii().contains(&b'\n') || !bytes.ends_with(b"\n") => Framing::JsonValues,
        _ => Framing::JsonLines,
    }
}

/// Pushes the same bytes `count` times and returns how many frames came and how it ended.
fn push_repeatedly(mut framer: Framer, bytes: &[u8], count: usize) -> (usize, callweave::Result<()>) {
    let mut frames = 0;
    let mut sink = |_: Frame<'_>| frames += 1;
    let mut result = Ok(());
    for _ in 0..count {
        result = result.and_then(|()| framer.push(bytes, &mut sink));
    }
    result = result.and_then(|()| framer.finish(&mut sink));
    (frames, result)
}

#[test]
fn a_frame_of_100_megabytes() {
    let piece = [b'x'; 10_000];
    for (framing, head) in
        [(Framing::Sse, "data: "), (Framing::JsonLines, "\""), (Framing::JsonValues, "{\"a\":\"")]
    {
        let begun = |limit| {
            let limits = StreamLimits { line: limit, frame: limit, ..StreamLimits::default() };
            let mut framer = Framer::new(framing, limits);
            framer.push(head.as_bytes(), &mut |_: Frame<'_>| {}).expect("within the limits");
            framer
        };
        assert_eq!(push_repeatedly(begun(200 << 20), &piece, 10_000), (1, Ok(())), "{framing}");

        let mut framer = begun(1 << 20);
        let mut pushed = 0;
        let error = loop {
            pushed += piece.len();
            if let Err(error) = framer.push(&piece, &mut |_: Frame<'_>| {}) {
                break error;
            }
        };
        assert!(pushed <= (1 << 20) + piece.len(), "{framing}: refused only after {pushed} bytes");
        assert_eq!((error.kind(), error.offset()), (ErrorKind::Limit, Some(0)), "{framing}");
    }
}

#[test]
fn a_million_empty_frames() {
    for (framing, bytes, frames) in [
        (Framing::Sse, "data\n\n", 1_000_000),
        (Framing::Sse, "\n\n: \n", 0),
        (Framing::JsonLines, "\n\r\n", 0),
        (Framing::JsonValues, "{} ", 1_000_000),
        (Framing::JsonValues, "[]", 0),
    ] {
        let block = bytes.repeat(1000);
        let framer = Framer::new(framing, StreamLimits::default());
        assert_eq!(push_repeatedly(framer, block.as_bytes(), 1000), (frames, Ok(())), "{framing} {bytes:?}");
    }
}

#[test]
fn deep_nesting_is_counted_not_recursed() {
    for (open, close) in [("{\"a\":", "}"), ("[", "]")] {
        let input = format!("[{}1{}]", open.repeat(1_000_000), close.repeat(1_000_000));
        let framer = Framer::detect(StreamLimits::default());
        assert_eq!(push_repeatedly(framer, input.as_bytes(), 1), (1, Ok(())));
    }
}
