//! Framing: any split gives the same frames and the same error, and emitted frames stay.
//!
//! The first bytes choose the framing, the limits and the cuts; the rest is the stream.

use callweave::Error;
use callweave::framing::{Frame, FrameKind, Framer, Framing, StreamLimits};

use super::aws;

/// The members of a frame, detached.
type Owned = (Option<String>, String, Option<String>, u64, FrameKind, bool);

#[derive(Debug, Default, PartialEq)]
struct Outcome {
    frames: Vec<Owned>,
    error: Option<Error>,
}

impl Outcome {
    fn take(&mut self, frame: Frame<'_>) {
        let Frame { event, data, id, offset, data_offset: _, kind, is_lossy } = frame;
        if let Some(last) = self.frames.last() {
            assert!(last.3 < offset, "frames stand one after the other");
        }
        self.frames.push((
            event.map(str::to_owned),
            data.to_owned(),
            id.map(str::to_owned),
            offset,
            kind,
            is_lossy,
        ));
    }
}

fn push_all<'p>(framer: &mut Framer, pieces: impl IntoIterator<Item = &'p [u8]>) -> Outcome {
    let mut outcome = Outcome::default();
    for piece in pieces {
        if let Err(error) = framer.push(piece, &mut |frame: Frame<'_>| outcome.take(frame)) {
            outcome.error = Some(error);
            break;
        }
    }
    outcome
}

fn run<'p>(mut framer: Framer, pieces: impl IntoIterator<Item = &'p [u8]>) -> Outcome {
    let mut outcome = push_all(&mut framer, pieces);
    let result = framer.finish(&mut |frame: Frame<'_>| outcome.take(frame));
    outcome.error = outcome.error.or(result.err());
    assert!(framer.framing().is_some() || outcome.error.is_some(), "an ended stream has a framing");
    outcome
}

/// Pieces as long as `cuts` say, round and round; the first is not empty, so there is an end.
fn cut(mut bytes: &[u8], cuts: [u8; 4]) -> Vec<&[u8]> {
    let mut pieces = Vec::new();
    let [first, second, third, fourth] = cuts.map(|length| usize::from(length % 32));
    for length in [first.max(1), second, third, fourth].into_iter().cycle() {
        let (piece, rest) = bytes.split_at(length.min(bytes.len()));
        pieces.push(piece);
        bytes = rest;
        if bytes.is_empty() {
            break;
        }
    }
    pieces
}

/// A stream of AWS messages with right checksums; of each line the part before a tab is its headers.
fn messages(bytes: &[u8]) -> Vec<u8> {
    let mut stream = Vec::new();
    for line in bytes.split(|&byte| byte == b'\n') {
        let tab = line.iter().position(|&byte| byte == b'\t').unwrap_or(0);
        let (headers, payload) = line.split_at(tab);
        stream.extend(aws::message(headers, payload));
    }
    stream
}

/// Checks one input.
pub(crate) fn check(input: &[u8]) {
    let Some((&[choice, limit, ref cuts @ ..], bytes)) = input.split_first_chunk::<6>() else { return };
    let cuts: [u8; 4] = *cuts;
    let limits = match limit {
        0..128 => StreamLimits::default(),
        _ => {
            let limit = usize::from(limit - 128);
            StreamLimits { line: limit, frame: limit / 2 + 1, total: 10 * limit as u64 + 1 }
        }
    };
    let framer = || match choice % 6 {
        0 => Framer::new(Framing::Sse, limits),
        1 => Framer::new(Framing::JsonLines, limits),
        2 => Framer::new(Framing::JsonValues, limits),
        3 | 4 => Framer::new(Framing::AwsEventStream, limits),
        _ => Framer::detect(limits),
    };
    let messages = if choice % 6 == 4 { messages(bytes) } else { Vec::new() };
    let bytes = if choice % 6 == 4 { &messages } else { bytes };

    let whole = run(framer(), [bytes]);
    assert_eq!(run(framer(), cut(bytes, cuts)), whole, "split");
    assert_eq!(run(framer(), bytes.chunks(1)), whole, "byte by byte");
    let head = &bytes[..usize::from(cuts[0]).min(bytes.len())];
    let emitted = push_all(&mut framer(), [head]).frames;
    assert!(whole.frames.starts_with(&emitted), "prefix");
    run(framer(), [head]);
}
