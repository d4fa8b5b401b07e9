//! ExAthena: `{"text", "tool_calls"}` and capabilities → the calls, or the error of the only ones.

use callweave::compat::ex_athena::{ParsedCall, ProviderCapabilities, TextParser, extract};
use callweave::message::InvalidReason;
use callweave::teach::{PromptOptions, augment_system_prompt};
use serde_json::{Value, json};

pub(crate) fn answer(row: &Value) -> Option<Value> {
    match row["op"].as_str() {
        Some("extract") => Some(extracted(row)),
        Some("augment_prompt") => Some(prompted(row)),
        _ => None,
    }
}

fn extracted(row: &Value) -> Value {
    let options = &row["options"];
    let capabilities = options.get("capabilities").cloned().unwrap_or_else(|| json!({}));
    let mut capabilities: ProviderCapabilities =
        serde_json::from_value(capabilities).expect("known capabilities");
    capabilities.forced = options.get("parser").and_then(|name| serde_json::from_value(name.clone()).ok());
    match extract(&row["input"], &capabilities) {
        Err(error) => json!({"error": error.to_string()}),
        Ok(found) => shown(&found),
    }
}

/// The origin's newest parser of structured calls shows a damaged call as one with a marked argument; its parser of
/// fences has an error for the complete text, which we show where no call of it can be used.
fn shown(found: &[ParsedCall]) -> Value {
    let is_fence = |found: &ParsedCall| found.parser == TextParser::TextTagged;
    let faults = || found.iter().filter_map(|found| found.call.invalid());
    if let Some(first) = faults().next()
        && found.iter().all(is_fence)
        && faults().count() == found.len()
    {
        let is_nameless = first.reason == InvalidReason::NoName;
        return json!({"error": if is_nameless { "missing_tool_name" } else { "invalid_arguments" }});
    }
    let call = |ParsedCall { call, .. }: &ParsedCall| match call.object() {
        Ok(arguments) => json!({"id": call.id, "name": call.name, "arguments": arguments}),
        Err(_) => {
            let name = if call.name.is_empty() { "unknown" } else { &call.name };
            json!({"id": null, "name": name, "arguments": {"__invalid_json__": call.raw_arguments}})
        }
    };
    json!({"ok": found.iter().map(call).collect::<Vec<_>>()})
}

/// The row's own demands if the prompt meets them, else the prompt.
fn prompted(row: &Value) -> Value {
    let (input, demands) = (&row["input"], &row["expected"]);
    let options = match row["options"]["compact"].as_bool() {
        Some(true) => PromptOptions::default().compact(),
        _ => PromptOptions::default(),
    };
    let prompt = augment_system_prompt(input["existing"].as_str(), &input["tools"], &options);
    let texts = |key: &str| match &demands[key] {
        Value::String(text) => vec![text.as_str()],
        list => list.as_array().into_iter().flatten().filter_map(Value::as_str).collect(),
    };
    // The parts stand in the order in which they are listed.
    let mut from = Some(0);
    for part in texts("contains") {
        from = from.and_then(|from| prompt[from..].find(part).map(|at| from + at));
    }
    let is_met = from.is_some()
        && texts("not_contains").iter().all(|part| !prompt.contains(part))
        && texts("starts_with").iter().all(|part| prompt.starts_with(part))
        && texts("not_starts_with").iter().all(|part| !prompt.starts_with(part));
    if is_met { demands.clone() } else { json!({"prompt": prompt}) }
}
