//! JSON: the result of repair is JSON, stays as it is when repaired again, and follows from the changes; valid JSON is
//! left alone and read as serde_json reads it; and no split of the text changes the result.
//!
//! The first bytes choose the cuts; the rest is the text.

use callweave::json::partial::{PartialValue, UnfinishedValues};
use callweave::json::repair::{ChangeClass, RepairOptions, RepairVerdict, apply};
use callweave::json::{JsonScanner, ScanStatus, Tape, Value};

/// The depth that serde_json reads by default; our own readers do not stop there.
const MAX_BRACKETS: usize = 127;

fn options() -> [RepairOptions; 5] {
    let new = RepairOptions::new();
    [
        new,
        new.prefix().close_truncated(),
        new.drop_unfinished_strings().close_truncated(),
        new.without_prose(),
        new.allow(ChangeClass::Structural),
    ]
}

/// Pieces as long as `cuts` say, round and round, each ending after a character.
fn cut(text: &str, cuts: [u8; 4]) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut from = 0;
    for length in cuts.map(|length| usize::from(length % 32)).into_iter().cycle() {
        let end = (from + length.max(1)..text.len()).find(|&end| text.is_char_boundary(end));
        let end = end.unwrap_or(text.len());
        pieces.push(&text[from..end]);
        from = end;
        if from == text.len() {
            break;
        }
    }
    pieces
}

fn check_repair(text: &str, is_valid: bool) {
    for options in options() {
        let repaired = options.repair(text);
        if is_valid {
            assert_eq!(repaired.verdict, RepairVerdict::Valid, "{text:?}");
        }
        let Some(closed) = repaired.closed() else { continue };
        assert_eq!(apply(text, &repaired.changes), closed, "the changes replay, {text:?}");
        if repaired.verdict == RepairVerdict::Valid {
            assert_eq!(closed, text);
            continue;
        }
        assert!(serde_json::from_str::<Value>(closed).is_ok(), "{text:?} became {closed:?}");
        let again = options.repair(closed);
        assert_eq!((again.verdict, &*again.text), (RepairVerdict::Valid, closed), "idempotent, {text:?}");
    }
}

/// Returns the scanner's result for the pieces up to where it stops.
fn scan(pieces: &[&str]) -> (usize, ScanStatus, bool, u32) {
    let mut scanner = JsonScanner::new();
    let mut taken = 0;
    for piece in pieces {
        let here = scanner.push(piece);
        taken += here;
        if here < piece.len() {
            break;
        }
    }
    let status = scanner.finish();
    (taken, status, scanner.is_strict(), scanner.depth())
}

fn partial(pieces: &[&str], growing: UnfinishedValues) -> (ScanStatus, Option<Value>) {
    let mut partial = PartialValue::new(growing);
    for piece in pieces {
        if partial.push(piece) < piece.len() {
            break;
        }
    }
    (partial.finish(), partial.into_value())
}

/// Checks what the module says for one input.
pub(crate) fn check(input: &[u8]) {
    let Some((cuts, text)) = input.split_first_chunk::<4>() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let pieces = cut(text, *cuts);
    let brackets = text.bytes().filter(|byte| matches!(byte, b'{' | b'[')).count();
    let is_valid = serde_json::from_str::<serde_json::Value>(text).is_ok();
    let value = text.parse::<Value>().ok().filter(|_| is_valid);

    check_repair(text, is_valid);

    let scanned = scan(&[text]);
    assert_eq!(scan(&pieces), scanned, "{text:?} in {pieces:?}");
    for growing in [UnfinishedValues::Hidden, UnfinishedValues::Strings, UnfinishedValues::StringsAndNumbers]
    {
        let (status, read) = partial(&[text], growing);
        let (cut_status, cut_read) = partial(&pieces, growing);
        assert_eq!((cut_status, status), (scanned.1, scanned.1), "{text:?} in {pieces:?}");
        // How far a long number is followed while it grows depends on the pieces it comes in.
        if growing != UnfinishedValues::StringsAndNumbers || status == ScanStatus::Complete {
            assert_eq!(cut_read, read, "{text:?} in {pieces:?}");
        }
        if value.is_some() {
            assert_eq!(read, value, "{text:?}");
        }
    }
    let (taken, status, is_strict, _) = scanned;
    let is_complete = status == ScanStatus::Complete && is_strict && text[taken..].trim_ascii().is_empty();
    let mut tape = Tape::new();
    let taped = tape.parse(text);
    if brackets <= MAX_BRACKETS {
        assert!(taped.is_err() || is_complete, "{text:?}");
        assert!(value.is_none() || taped.is_ok(), "{text:?}");
    }
}
