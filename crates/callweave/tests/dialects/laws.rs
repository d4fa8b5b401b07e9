//! The laws that every dialect obeys, as functions over a text.

use callweave::dialect::{ExtractOptions, Extractor};
use callweave::event::{ByteSpan, Event, EventKind, Sink};
use callweave::grammar::EventValidator;

/// The events of a text that comes in these pieces, adjacent deltas merged.
pub(crate) fn events<'d>(
    deltas: impl IntoIterator<Item = &'d str>,
    options: &ExtractOptions,
) -> Vec<Event<'static>> {
    let mut events = Vec::new();
    let mut extractor = Extractor::new(options);
    for delta in deltas {
        extractor.push(delta, &mut events);
    }
    extractor.finish(&mut events);
    merged(events)
}

fn merged(events: Vec<Event<'static>>) -> Vec<Event<'static>> {
    let mut merged: Vec<Event<'static>> = Vec::new();
    for event in events {
        if let Some(last) = merged.last_mut() {
            let touches = last.source.end == event.source.start || event.source.is_empty();
            let joined = match (&mut last.body, &event.body) {
                (EventKind::Delta { block, text, .. }, EventKind::Delta { block: next, text: more, .. })
                    if block == next =>
                {
                    text.to_mut().push_str(more);
                    true
                }
                (EventKind::Markup { text }, EventKind::Markup { text: more }) if touches => {
                    text.to_mut().push_str(more);
                    true
                }
                _ => false,
            };
            if joined {
                if last.source.is_empty() {
                    last.source = event.source;
                }
                last.source.end = last.source.end.max(event.source.end);
                continue;
            }
        }
        merged.push(event);
    }
    merged
}

/// The events are well formed, and the blocks are numbered in order.
pub(crate) fn check_grammar(events: &[Event<'_>]) {
    let (mut validator, mut next) = (EventValidator::of_blocks(), 0);
    for event in events {
        if let EventKind::BlockStart { block, .. } = &event.body {
            assert_eq!(block.0, next, "a block's number is used once, in order");
            next += 1;
        }
        validator.put(event.clone());
    }
    let faults = validator.finish();
    assert!(faults.is_empty(), "{faults:#?}\n{events:#?}");
}

/// The sources of the events tile the text.
pub(crate) fn check_conservation(text: &str, events: &[Event<'_>]) {
    let mut spans: Vec<ByteSpan> =
        events.iter().map(|event| event.source).filter(|span| !span.is_empty()).collect();
    spans.sort_by_key(|span| span.start);
    let mut at = 0;
    for span in spans {
        assert_eq!(span.start, at, "a gap or an overlap in {text:?}: {events:#?}");
        at = span.end;
    }
    assert_eq!(at as usize, text.len(), "the end is not accounted for in {text:?}");
}

/// Cuts `text` at pseudo-random places.
pub(crate) fn cut(text: &str, seed: u64) -> Vec<&str> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let mut len = (state % 9) as usize + 1;
        while len < rest.len() && !rest.is_char_boundary(len) {
            len += 1;
        }
        let (piece, more) = rest.split_at(len.min(rest.len()));
        pieces.push(piece);
        rest = more;
    }
    pieces
}

/// All cuts of a text give the same events; the events are well formed and tile it. Returns them.
pub(crate) fn check(text: &str, options: &ExtractOptions) -> Result<Vec<Event<'static>>, String> {
    let whole = events([text], options);
    check_grammar(&whole);
    check_conservation(text, &whole);
    let chars: Vec<&str> = text.char_indices().map(|(at, char)| &text[at..at + char.len_utf8()]).collect();
    let mut ways = vec![("characters", chars)];
    for seed in 1..4 {
        ways.push(("random cuts", cut(text, seed)));
    }
    for (way, pieces) in ways {
        let other = events(pieces, options);
        if other != whole {
            let at = other.iter().zip(&whole).position(|(one, other)| one != other);
            let at = at.unwrap_or(other.len().min(whole.len()));
            return Err(format!(
                "{way} differ at {at}:\n  whole {:?}\n  cut   {:?}",
                whole.get(at),
                other.get(at)
            ));
        }
    }
    Ok(whole)
}

/// Every prefix finishes without a panic, well formed, and accounts for all of its bytes. [`check`] implies that
/// nothing is taken back: the pieces of a split are prefixes too.
pub(crate) fn check_prefixes(text: &str, options: &ExtractOptions) {
    for (at, _) in text.char_indices() {
        let prefix = &text[..at];
        let found = events([prefix], options);
        check_grammar(&found);
        check_conservation(prefix, &found);
    }
}
