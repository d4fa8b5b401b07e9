//! Where our design decided otherwise than an origin does. A decision is told by what a row does, not by the
//! row's name, so that it holds for every row of that kind.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

pub(crate) struct Decision {
    system: &'static str,
    applies: fn(&Value) -> bool,
    pub(crate) why: &'static str,
}

const DECISIONS: &[Decision] = &[
    Decision {
        system: "exathena",
        applies: |row| row["expected"].get("error").is_some(),
        why: "one bad call is an error of that call and never loses the good ones",
    },
    Decision {
        system: "nous",
        applies: renames_a_number,
        why: "an index reused with a new id and name is a new call; pieces of a name are joined",
    },
    Decision {
        system: "nous",
        applies: |row| named_calls(row).iter().filter(|call| call.get("index").is_none()).count() > 1,
        why: "a missing index never merges two calls",
    },
    Decision {
        system: "reqllm",
        applies: |row| chunks(row).any(|chunk| chunk.pointer("/metadata/usage/total_tokens").is_some()),
        why: "a provider's own total is kept",
    },
    Decision { system: "reqllm", applies: shares_a_number, why: "two calls never share a buffer" },
    Decision {
        system: "codex",
        applies: |row| objects(row).any(|object| object.get("arguments").is_some_and(Value::is_object)),
        why: "arguments are always JSON text: an object on the wire is serialised, not dropped",
    },
    Decision {
        system: "codex",
        applies: resends_a_text,
        why: "a repeated fragment is data; a resent text is recognised only where appending is lexically \
              impossible or the prefix is long",
    },
    Decision {
        system: "codex",
        applies: |row| {
            objects(row).any(|object| object.get("item").is_some_and(|item| item.get("id").is_some()))
        },
        why: "a provider's id is kept",
    },
];

/// The decision that explains why our answer to a row differs.
pub(crate) fn find(row: &Value) -> Option<&'static Decision> {
    DECISIONS.iter().find(|decision| row["system"] == decision.system && (decision.applies)(row))
}

fn chunks(row: &Value) -> impl Iterator<Item = &Value> {
    row["input"]["chunks"].as_array().into_iter().flatten()
}

/// The fragments of Nous, lists taken apart, that name a tool.
fn named_calls(row: &Value) -> Vec<&Value> {
    let fragments = row["input"]["fragments"].as_array().into_iter().flatten();
    let pieces = fragments.flat_map(|fragment| match fragment {
        Value::Array(partials) => partials.iter().collect(),
        other => vec![other],
    });
    pieces.filter(|piece| name_of(piece).is_some()).collect()
}

fn name_of(piece: &Value) -> Option<&str> {
    piece.pointer("/function/name").or_else(|| piece.get("name"))?.as_str()
}

fn renames_a_number(row: &Value) -> bool {
    let mut names = HashMap::new();
    named_calls(row).into_iter().any(|call| {
        let number = call.get("index").or_else(|| call.get("_index")).and_then(Value::as_i64);
        number.is_some_and(|number| *names.entry(number).or_insert(name_of(call)) != name_of(call))
    })
}

fn shares_a_number(row: &Value) -> bool {
    let mut numbers = HashSet::new();
    chunks(row)
        .filter(|chunk| chunk["type"] == "tool_call")
        .any(|chunk| !numbers.insert(chunk["metadata"]["index"].as_i64().unwrap_or(0)))
}

/// All objects in a row's steps.
fn objects(row: &Value) -> impl Iterator<Item = &Value> {
    let mut found = Vec::new();
    let mut queue = vec![&row["input"]["steps"]];
    while let Some(value) = queue.pop() {
        match value {
            Value::Array(values) => queue.extend(values.iter().rev()),
            Value::Object(members) => {
                found.push(value);
                queue.extend(members.values().rev());
            }
            _ => {}
        }
    }
    found.into_iter()
}

fn resends_a_text(row: &Value) -> bool {
    let texts: Vec<_> =
        objects(row).filter_map(|object| object.get("arguments").or(object.get("delta"))?.as_str()).collect();
    let is_part =
        |one: &str, other: &str| !one.is_empty() && (other.starts_with(one) || one.starts_with(other));
    texts.iter().enumerate().any(|(at, text)| texts[..at].iter().any(|earlier| is_part(earlier, text)))
}
