//! Places in a JSON value, and what they look like with something deep in them.

use serde_json::Value;

/// A step into a value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    Key(String),
    Index(usize),
}

/// Every place in `value`, the value itself first.
pub(crate) fn places(value: &Value) -> Vec<Vec<Step>> {
    let mut found = Vec::new();
    let mut open = vec![(Vec::new(), value)];
    while let Some((path, value)) = open.pop() {
        let step = |step| [path.clone(), vec![step]].concat();
        match value {
            Value::Array(items) => {
                open.extend(items.iter().enumerate().map(|(at, item)| (step(Step::Index(at)), item)));
            }
            Value::Object(members) => {
                open.extend(members.iter().map(|(key, value)| (step(Step::Key(key.clone())), value)));
            }
            _ => {}
        }
        found.push(path);
    }
    found
}

/// A path in words; the numbers of elements do not matter.
pub(crate) fn shape(path: &[Step]) -> String {
    path.iter()
        .map(|step| match step {
            Step::Key(key) => format!(".{key}"),
            Step::Index(_) => "[]".to_owned(),
        })
        .collect()
}

/// The text of `value` before and after the place at `path`.
pub(crate) fn around(value: &Value, path: &[Step]) -> (String, String) {
    const HOLE: &str = "\u{1}hole\u{1}";
    let mut value = value.clone();
    *at_mut(&mut value, path) = HOLE.into();
    let text = value.to_string();
    let (before, after) = text.split_once(&Value::from(HOLE).to_string()).expect("the hole stands somewhere");
    (before.to_owned(), after.to_owned())
}

pub(crate) fn at_mut<'v>(value: &'v mut Value, path: &[Step]) -> &'v mut Value {
    path.iter().fold(value, |value, step| match step {
        Step::Key(key) => &mut value[key.as_str()],
        Step::Index(at) => &mut value[*at],
    })
}

/// `core` in `levels` of these openers and closers.
pub(crate) fn nested(open: &str, core: &str, close: &str, levels: usize) -> String {
    format!("{}{core}{}", open.repeat(levels), close.repeat(levels))
}

/// The ways to nest something at the place `path` of `value`: openers and closers. Lists, objects, lists of objects;
/// and the wire's own structures inside themselves, with the members beside, so that a reader that decides by them goes
/// on into the depth: the value around the place, once more in that place; and the value in the place, once more under
/// every key that led there.
pub(crate) fn nestings(value: &Value, path: &[Step]) -> Vec<(String, String)> {
    let mut found = vec![("[".to_owned(), "]".to_owned())];
    // The complete value, and the nearest parts.
    let is_near = |&cut: &usize| cut == 0 || path.len() - cut <= 4;
    for cut in (0..path.len()).filter(is_near) {
        let inner = &path[cut..];
        found.push(around(&pruned(at(value, &path[..cut]), inner), inner));
    }
    let own = at(value, path);
    for cut in (1..=path.len()).filter(is_near) {
        let Step::Key(key) = &path[cut - 1] else { continue };
        if own.is_object() {
            let mut again = pruned(own, &[]);
            again[key] = pruned(at(value, &path[..cut]), &path[cut..]);
            let inner = [&[Step::Key(key.clone())], &path[cut..]].concat();
            found.push(around(&again, &inner));
        }
    }
    if let Some(Step::Key(key)) = path.iter().rev().find(|step| matches!(step, Step::Key(_))) {
        let key = Value::from(key.as_str());
        found.push((format!("{{{key}:"), "}".to_owned()));
        found.push((format!("[{{{key}:"), "}]".to_owned()));
    }
    found.sort();
    found.dedup();
    found
}

fn at<'v>(value: &'v Value, path: &[Step]) -> &'v Value {
    path.iter().fold(value, |value, step| match step {
        Step::Key(key) => &value[key.as_str()],
        Step::Index(at) => &value[*at],
    })
}

/// The value with nothing beside the way along `path`, and at its end, but short scalars.
fn pruned(value: &Value, path: &[Step]) -> Value {
    let mut value = value.clone();
    let mut at = &mut value;
    for step in path {
        prune(at, Some(step));
        at = match (at, step) {
            (Value::Array(items), Step::Index(index)) => &mut items[*index],
            (Value::Object(members), Step::Key(key)) => &mut members[key.as_str()],
            _ => unreachable!("the path leads through containers"),
        };
    }
    prune(at, None);
    value
}

fn prune(value: &mut Value, kept: Option<&Step>) {
    let is_short = |value: &Value| !value.is_array() && !value.is_object() && value.to_string().len() < 60;
    match value {
        Value::Array(items) => {
            // Elements keep their numbers.
            items.truncate(kept.map_or(0, |step| if let Step::Index(at) = step { at + 1 } else { 0 }));
            let last = items.len().saturating_sub(1);
            items[..last].fill(Value::Null);
        }
        Value::Object(members) => members
            .retain(|key, value| is_short(value) || kept.is_some_and(|step| *step == Step::Key(key.clone()))),
        _ => {}
    }
}
