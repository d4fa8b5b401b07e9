//! From an answer's text to the value that a schema wants.

use serde_json::Value;

use super::coerce::{Coercer, Trial};
use super::graph::Graph;
use super::scalar::Reach;
use super::{Extent, Fit, Options, Types};
use crate::json::partial::{Growing, Partial};

/// How many pieces of a text are tried.
const MAX_PIECES: usize = 64;

pub(super) fn read(graph: &Graph, text: &str, options: Options) -> Fit {
    let is_free_text = graph.node(Graph::ROOT).types == Types::STRING && graph.choices(Graph::ROOT).is_none();
    if is_free_text {
        return Fit::new(Trial::default(), || text.into());
    }
    let mut best: Option<(Trial, Value)> = None;
    for (candidate, surcharge) in candidates(text, options.extent) {
        let mut trial = Coercer::new(graph, options, Reach::Prose, &candidate).fit(Graph::ROOT, &candidate);
        trial.cost = trial.cost.saturating_add(surcharge);
        if best.as_ref().is_none_or(|(best, _)| trial.cost < best.cost) {
            best = Some((trial, candidate));
        }
    }
    let (trial, candidate) = best.expect("the text itself is a candidate");
    Fit::new(trial, || candidate)
}

/// The value of a text that is JSON or can be mended to be.
pub(super) fn mended(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok()
}

/// What could be meant by a text, likeliest first, each with what it costs to believe so.
fn candidates(text: &str, extent: Extent) -> Vec<(Value, u32)> {
    let mut found = Vec::new();
    if extent == Extent::Prefix {
        found.extend(pieces(text).first().and_then(|piece| begun(piece)).map(|value| (value, 0)));
    }
    if let Ok(value) = serde_json::from_str(text) {
        found.push((value, 0));
    } else {
        let pieces: Vec<Value> = pieces(text).into_iter().filter_map(mended).collect();
        found.extend(mended(text).map(|value| (value, 1)));
        if pieces.len() > 1 {
            found.extend(pieces.iter().map(|piece| (piece.clone(), 1)));
            found.push((Value::Array(pieces), 1));
        } else {
            found.extend(pieces.into_iter().map(|piece| (piece, 1)));
        }
    }
    // Where there is JSON, the text around it is hardly the value.
    let surcharge = if found.is_empty() { 2 } else { 1000 };
    found.push((Value::String(text.to_owned()), surcharge));
    found
}

/// The value of a text that has only begun, numbers at its end left out.
fn begun(text: &str) -> Option<Value> {
    let mut partial = Partial::new(Growing::Strings);
    partial.push(text);
    if partial.status() == crate::json::Status::Broken { mended(text) } else { partial.into_value() }
}

/// The outermost bracketed pieces of a text, the last one perhaps without its end.
fn pieces(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut depth = 0usize;
    let mut start = 0;
    let mut bytes = text.bytes().enumerate();
    let mut is_in_string = false;
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'\\' if is_in_string => drop(bytes.next()),
            b'"' if depth > 0 => is_in_string = !is_in_string,
            _ if is_in_string => {}
            b'{' | b'[' => {
                if depth == 0 {
                    start = at;
                }
                depth += 1;
            }
            b'}' | b']' if depth > 0 => {
                depth -= 1;
                if depth == 0 {
                    found.push(&text[start..=at]);
                }
            }
            _ => {}
        }
        if found.len() == MAX_PIECES {
            return found;
        }
    }
    if depth > 0 {
        found.push(&text[start..]);
    }
    found
}
