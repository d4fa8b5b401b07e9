//! From a response's text to the value that a schema requires.

use super::coerce::{CoercionTrial, ValueCoercer};
use super::graph::SchemaGraph;
use super::scalar::SearchReach;
use super::{CoerceOptions, CoercedValue, SchemaProblem, StepBudget, TextCompleteness, TypeSet};
use crate::json::partial::{PartialValue, UnfinishedValues};
use crate::json::repair::{self, RepairVerdict};
use crate::json::{ScanStatus, Value};

/// The maximum number of pieces of a text that are tried.
const MAX_PIECES: usize = 64;
/// The cost of taking the JSON inside a text for the value; that JSON has to fit the schema.
const TEXT_AROUND: u32 = 1000;

pub(super) fn read(graph: &SchemaGraph, text: &str, options: CoerceOptions) -> CoercedValue {
    let mut budget = StepBudget::default();
    let is_choice = graph.choices(SchemaGraph::ROOT, &mut budget).is_ok_and(|choices| choices.is_some());
    let is_free_text = graph.node(SchemaGraph::ROOT).types == TypeSet::STRING && !is_choice;
    if is_free_text {
        // Text that is a JSON string is a document that fits; any other text is the string itself.
        return CoercedValue::new(CoercionTrial::default(), || match text.parse() {
            Ok(document @ Value::String(_)) => document,
            _ => text.into(),
        });
    }
    let mut best: Option<(CoercionTrial, Value)> = None;
    for (candidate, surcharge) in candidates(text, options.extent) {
        let mut trial = ValueCoercer::new(graph, options, SearchReach::Prose, &mut budget)
            .fit(SchemaGraph::ROOT, &candidate)
            .unwrap_or_else(|spent| CoercionTrial::failed(SchemaProblem::unchecked(&spent.into())));
        if surcharge == TEXT_AROUND && best.is_some() && !trial.problems.is_empty() {
            continue;
        }
        trial.cost = trial.cost.saturating_add(surcharge);
        if best.as_ref().is_none_or(|(best, _)| trial.cost < best.cost) {
            best = Some((trial, candidate));
        }
    }
    let (trial, candidate) = best.expect("the text itself is a candidate");
    CoercedValue::new(trial, || candidate)
}

/// The value of a text that is JSON or can be repaired to be. A truncated text is the beginning of a longer one and is
/// closed where it ends.
pub(super) fn mended(text: &str) -> Option<Value> {
    let whole = repair::repair(text);
    if whole.verdict == RepairVerdict::Incomplete {
        return begun(text);
    }
    whole.closed()?.parse().ok()
}

fn begun(text: &str) -> Option<Value> {
    repair::RepairOptions::new().prefix().repair(text).closed()?.parse().ok()
}

/// The values that a text could mean, likeliest first, each with the cost of that reading.
fn candidates(text: &str, extent: TextCompleteness) -> Vec<(Value, u32)> {
    let as_text = Value::String(text.to_owned());
    if let Ok(value) = text.parse::<Value>() {
        // A document that does not fit is not the text of one of its own members.
        let is_document = value.is_object() || value.is_array();
        let as_text = (!is_document).then_some((as_text, TEXT_AROUND));
        return [(value, 0)].into_iter().chain(as_text).collect();
    }
    let pieces = pieces(text);
    let mut found = Vec::new();
    if extent == TextCompleteness::Prefix {
        found.extend(pieces.first().and_then(|piece| growing(piece)).map(|value| (value, 0)));
    }
    let is_plain = pieces.is_empty();
    let mut values: Vec<Value> = pieces.into_iter().filter_map(mended).collect();
    if is_plain {
        found.push((as_text, 1));
        found.extend(mended(text).map(|value| (value, 3)));
        return found;
    }
    found.extend(mended(text).map(|value| (value, 1)));
    found.extend(values.iter().map(|value| (value.clone(), 1)));
    if values.len() > 1 {
        found.push((Value::Array(std::mem::take(&mut values).into()), 1));
    }
    found.push((as_text, TEXT_AROUND));
    found
}

/// The value of a text that still grows: its complete parts, and a string as far as it has come.
fn growing(text: &str) -> Option<Value> {
    let mut partial = PartialValue::new(UnfinishedValues::Strings);
    partial.push(text);
    if partial.status() == ScanStatus::Broken { begun(text) } else { partial.into_value() }
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
