//! Faults of models in names and arguments.

use callweave::Value;
use callweave::event::CallKind;
use callweave::json::{Object, escape_into};

use super::plan::{DemoPlan, PlannedCall};
use super::table::{ArgumentHabit, NameHabit};

/// The arguments as the model writes them, as the text of a member; none where they stand as an object.
pub(super) fn arguments(call: &PlannedCall, plan: &DemoPlan, fault: ArgumentHabit) -> Option<String> {
    let Value::Object(members) = &call.arguments else { return Some(sound(call)) };
    Some(match fault {
        ArgumentHabit::Sound => sound(call),
        ArgumentHabit::Broken => careless(&call.arguments),
        ArgumentHabit::Cut => cut(&sound(call)),
        ArgumentHabit::Texts => texts(members).to_string(),
        ArgumentHabit::Object => return None,
        ArgumentHabit::Empty => String::new(),
        ArgumentHabit::LackingOnce if plan.is_reasked => sound(call),
        ArgumentHabit::Lacking | ArgumentHabit::LackingOnce => {
            let mut members = members.clone();
            members.retain(|key, _| !call.required.iter().any(|required| required == key));
            Value::Object(members).to_string()
        }
    })
}

/// The arguments as they should be.
pub(super) fn sound(call: &PlannedCall) -> String {
    match (&call.arguments, call.kind) {
        (Value::String(text), CallKind::Custom) => text.clone(),
        (arguments, _) => arguments.to_string(),
    }
}

/// The name as the model writes it.
pub(super) fn name(declared: &str, fault: NameHabit) -> String {
    match fault {
        NameHabit::Declared => declared.to_owned(),
        NameHabit::Unknown => format!("{declared}_of_mine"),
        NameHabit::Case => {
            let mut begins = true;
            let capital = |char: char| {
                let other = if begins { char.to_ascii_uppercase() } else { char };
                begins = !char.is_alphanumeric();
                other
            };
            let capitals: String = declared.chars().map(capital).collect();
            if capitals == declared { declared.to_uppercase() } else { capitals }
        }
    }
}

/// Bare keys, single quotes and a comma too many.
fn careless(value: &Value) -> String {
    match value {
        Value::String(text) => {
            let mut quoted = String::from("'");
            let mut rest = text.as_str();
            while let Some((before, after)) = rest.split_once(['\'', '"']) {
                escape_into(before, &mut quoted);
                // A quote of the other kind needs no escape there.
                quoted.push_str(if rest[before.len()..].starts_with('"') { "\"" } else { "\\'" });
                rest = after;
            }
            escape_into(rest, &mut quoted);
            quoted + "'"
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(careless).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(members) if members.is_empty() => "{,}".to_owned(),
        Value::Object(members) => {
            let is_word = |key: &str| key.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_');
            let members = members.iter().map(|(key, value)| match is_word(key) {
                true => format!("{key}: {}", careless(value)),
                false => format!("{}: {}", careless(&key.into()), careless(value)),
            });
            format!("{{{},}}", members.collect::<Vec<_>>().join(", "))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// Truncates inside the last text, else before the end.
fn cut(text: &str) -> String {
    let bare = text.trim_end_matches(['}', ']']);
    let inside = bare.strip_suffix('"').unwrap_or(bare);
    let opening = inside.rfind('"').map_or(1, |quote| quote + 1);
    let shown = inside.len() - inside.len().saturating_sub(opening) / 2;
    let end = (opening..=shown).rev().find(|&end| inside.is_char_boundary(end)).unwrap_or(1);
    inside[..end.min(inside.len())].to_owned()
}

/// Turns all values that are not strings into strings.
fn texts(members: &Object) -> Value {
    let mut members = members.clone();
    for value in members.values_mut() {
        if !value.is_string() && !value.is_null() {
            *value = value.to_string().into();
        }
    }
    Value::Object(members)
}
