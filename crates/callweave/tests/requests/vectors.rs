//! The expectations of other gateways for a translation.
//!
//! A row says how to compare: `exact`, `subset` (every member that is expected is there), or `paths`. Where two wires
//! say the same in two ways (a text, or a list of one text; null, or nothing), either is right. Rows that we answer
//! otherwise are in `data/aside/translation.txt`, with the reason and our answer.

use std::collections::BTreeMap;
use std::fs;

use callweave::Value;
use callweave::json::Object;
use callweave::request::RequestOptions;

use super::protocol;
use super::record::Record;
use super::shared;
use super::survival::lost_in_silence;

/// The number of rows of a pair of protocols that are as expected.
#[derive(Default)]
pub(super) struct Score {
    all: usize,
    good: usize,
    contested: usize,
    agreed: usize,
}

impl Score {
    pub(super) fn count(&mut self, is_contested: bool, is_good: bool) {
        let (all, good) = if is_contested {
            (&mut self.contested, &mut self.agreed)
        } else {
            (&mut self.all, &mut self.good)
        };
        *all += 1;
        *good += usize::from(is_good);
    }
}

/// Prints all scores; most rows must be as expected.
pub(super) fn print(scores: &BTreeMap<(String, String), Score>, least: usize) {
    let (mut all, mut good) = (0, 0);
    for ((from, to), score) in scores {
        let Score { all: count, good: right, contested, agreed } = score;
        println!("{from} → {to}: {right} of {count} as expected, {agreed} of {contested} contested");
        all += count;
        good += right;
    }
    println!("all: {good} of {all} ({:.1} %)", 100.0 * good as f64 / all as f64);
    assert!(good * 100 >= all * least, "fewer than {least} %");
}

#[test]
fn requests_are_translated_as_others_expect() {
    let Some(path) = shared::find("vectors/translation.jsonl") else { return };
    let text = fs::read_to_string(path).expect("the rows");
    let mut record = Record::open("translation");
    let mut scores: BTreeMap<(String, String), Score> = BTreeMap::new();
    let mut losses = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let row: Value = line.parse().expect("a row");
        let is_refused = row["kind"] == "error" && row["match"] == "semantic";
        if row["kind"] != "request" && !is_refused {
            continue;
        }
        let name = |key: &str| row[key].as_str().expect("a name").to_owned();
        let (from, to) = (name("from"), name("to"));
        let (Some(source), Some(target)) = (protocol(&from), protocol(&to)) else { continue };
        let request = source.read_request(row["input"].clone()).expect("a request");
        // A body that a server would refuse is reported, so that a gateway may refuse it.
        let written = target.write_request(&request, &RequestOptions::default()).expect("a body");
        let (body, is_told) = (written.body, written.losses.iter().any(|loss| loss.is_malformed));
        let difference = if is_refused {
            (!is_told).then(|| "what is malformed is not told".to_owned())
        } else {
            difference(&row, &body)
        };
        // Where others' ways are doubtful, ours may differ, but not in silence.
        let silent = lost_in_silence(&request, target);
        if !silent.is_empty() {
            losses.push(format!("row {}: {silent:?} in {}", number + 1, row["input"]));
        }
        let is_contested = row["contested"] == true;
        // Where the provider refuses what is expected, ours has to differ: such rows are set aside, and do not count.
        let is_refused = record.reason(&(number + 1).to_string()).is_some_and(|why| why.contains("refuse"));
        if is_contested || difference.is_none() || !is_refused {
            scores.entry((from, to)).or_default().count(is_contested, difference.is_none());
        }
        if is_contested {
            continue;
        }
        if let Some(difference) = difference {
            let row_name = (number + 1).to_string();
            record.see(&row_name, &body, || {
                format!(
                    "{difference}\n  in {}\n  expected {}\n  notes {}",
                    row["input"], row["expected"], row["notes"]
                )
            });
        }
    }
    assert!(losses.is_empty(), "losses that are not named:\n{}", losses.join("\n"));
    // Most that differ are decided otherwise: operators stay in their place, the user speaks first, ids are short, and
    // limits have the name that all servers know.
    record.close();
    print(&scores, 90);
}

/// Returns the difference from the row's expectation.
pub(super) fn difference(row: &Value, body: &Value) -> Option<String> {
    let expected = &row["expected"];
    if let Some(absent) = row["absent"].as_array() {
        for path in absent.iter().filter_map(Value::as_str) {
            if find(body, path).is_some_and(|value| !value.is_null()) {
                return Some(format!("{path} should be absent"));
            }
        }
    }
    match row["match"].as_str()? {
        "exact" => {
            let (mut body, mut expected) = (body.clone(), expected.clone());
            for path in row["free"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                remove(&mut body, path);
                remove(&mut expected, path);
            }
            // Some gateways name the model in the URL.
            for key in ["model", "stream"] {
                if expected.get(key).is_none() || body.get(key).is_none() {
                    remove(&mut body, &format!("/{key}"));
                    remove(&mut expected, &format!("/{key}"));
                }
            }
            compare(&normal(&expected), &normal(&body), "", true)
        }
        "subset" => compare(&normal(expected), &normal(body), "", false),
        "paths" => {
            for (path, value) in expected["paths"].as_object().into_iter().flatten() {
                let Some(found) = find(body, path) else { return Some(format!("{path} is missing")) };
                if let Some(difference) =
                    compare(&normal_at(path, value), &normal_at(path, &found), path, true)
                {
                    return Some(difference);
                }
            }
            for (path, length) in expected["lengths"].as_object().into_iter().flatten() {
                let found = find(body, path).and_then(|value| value.as_array().map(|list| list.len()));
                if found.unwrap_or(0) as u64 != length.as_u64()? {
                    return Some(format!("{path} has {found:?} elements, not {length}"));
                }
            }
            for path in expected["present"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                if find(body, path).is_none() {
                    return Some(format!("{path} is missing"));
                }
            }
            for (path, texts) in expected["contains"].as_object().into_iter().flatten() {
                let found = find(body, path).map(|value| value.to_string()).unwrap_or_default();
                for text in texts.as_array().into_iter().flatten().filter_map(Value::as_str) {
                    if !found.contains(text) {
                        return Some(format!("{path} does not contain {text:?}"));
                    }
                }
            }
            None
        }
        _ => {
            let choice = &body["tool_choice"];
            let is_met = match expected["must"].as_str()? {
                // Servers that are not OpenAI's know no narrower choice: the other tools are left out.
                must if must.starts_with("a call is required and the allowed set is both functions") => {
                    *choice == "required" && body["tools"].as_array().is_some_and(|all| all.len() == 2)
                }
                "no call is forced" => {
                    *choice == "auto" && body["tools"].as_array().is_some_and(|all| all.len() == 1)
                }
                _ => false,
            };
            (!is_met).then(|| "not what a reader expects".to_owned())
        }
    }
}

/// The value at a pointer; `#json` after a step reads the text there as JSON.
fn find(value: &Value, path: &str) -> Option<Value> {
    match path.split_once("#json") {
        None => value.pointer(path).cloned(),
        Some((outer, inner)) => {
            let text = value.pointer(outer)?.as_str()?.to_owned();
            text.parse::<Value>().ok()?.pointer(inner).cloned()
        }
    }
}

fn remove(value: &mut Value, path: &str) {
    let Some((parent, last)) = path.rsplit_once('/') else { return };
    let mut place = value;
    for key in parent.split('/').skip(1) {
        let next = match place {
            Value::Array(list) => key.parse::<usize>().ok().and_then(|at| list.get_mut(at)),
            place => place.get_mut(key),
        };
        let Some(next) = next else { return };
        place = next;
    }
    if let Some(object) = place.as_object_mut() {
        object.remove(last);
    }
}

fn normal_at(path: &str, value: &Value) -> Value {
    let key = path.rsplit('/').next().unwrap_or_default();
    let whole = Value::object([(key, value.clone())]);
    normal(&whole).get(key).cloned().unwrap_or_default()
}

/// Normalizes equal content: no nulls, a lone text for a list of one text, arguments as JSON, `strict: false` and empty
/// objects for nothing.
fn normal(value: &Value) -> Value {
    match value {
        Value::Array(list) => list.iter().map(normal).collect::<Vec<_>>().into(),
        Value::Object(object) => {
            let mut out = Object::new();
            for (key, value) in object {
                let value = normal(value);
                let says_nothing = value.is_null()
                    || ["strict", "disable_parallel_tool_use"].contains(&key) && value == false
                    || key == "description" && value == ""
                    || ["annotations", "logprobs"].contains(&key)
                        && value.as_array().is_some_and(|list| list.is_empty());
                if says_nothing {
                    continue;
                }
                let value = match (key, &value) {
                    ("content" | "system" | "output", Value::Array(list)) if !list.is_empty() => {
                        let texts: Option<String> = list.iter().map(lone_text).collect();
                        texts.map_or(value.clone(), Value::from)
                    }
                    ("arguments" | "schema", Value::String(text)) => {
                        text.parse().map_or(value.clone(), |value| normal(&value))
                    }
                    // One server's word for what others call `reasoning_content`.
                    _ => value,
                };
                let key = if key == "reasoning" && value.is_string() { "reasoning_content" } else { key };
                out.insert(key, value);
            }
            out.into()
        }
        Value::Number(number) => Value::from(number.as_f64()),
        value => value.clone(),
    }
}

fn lone_text(part: &Value) -> Option<&str> {
    let object = part.as_object()?;
    let is_text = object.len() == 2 && object["type"].as_str().is_some_and(|word| word.ends_with("text"))
        || object.len() == 1;
    object.get("text").filter(|_| is_text)?.as_str()
}

/// The position at which two values differ; members that are not expected count only where all must be equal.
fn compare(expected: &Value, actual: &Value, path: &str, is_exact: bool) -> Option<String> {
    match (expected, actual) {
        (Value::Object(expected), Value::Object(actual)) => {
            let extra = actual.keys().find(|key| is_exact && !expected.contains_key(key));
            if let Some(key) = extra {
                return Some(format!("{path}/{key} is not expected: {}", actual[key]));
            }
            expected.iter().find_map(|(key, value)| match actual.get(key) {
                Some(actual) => compare(value, actual, &format!("{path}/{key}"), is_exact),
                None if value.as_object().is_some_and(Object::is_empty) => None,
                None => Some(format!("{path}/{key} is missing")),
            })
        }
        (Value::Array(expected), Value::Array(actual)) => {
            if expected.len() != actual.len() {
                return Some(format!("{path} has {} elements, not {}", actual.len(), expected.len()));
            }
            let mut pairs = expected.iter().zip(actual.iter()).enumerate();
            pairs.find_map(|(at, (expected, actual))| {
                compare(expected, actual, &format!("{path}/{at}"), is_exact)
            })
        }
        // Values that a gateway makes by itself.
        (Value::String(own), _) if own == "[id]" || own == "[date]" => None,
        (expected, actual) if expected == actual => None,
        (expected, actual) => Some(format!("{path}: {expected} is {actual}")),
    }
}
