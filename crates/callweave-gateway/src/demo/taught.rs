//! Requests that teach tools in words, as a model that was taught understands them.

use callweave::Value;
use callweave::dialect::{Dialect, ExtractOptions, Extraction};
use callweave::json::Array;
use callweave::message::ToolCall;
use callweave::teach::CallWriter;

/// Returns a chat request with native tools, calls and results in the place of those in words. A request that declares
/// its tools is left as it is.
pub(super) fn understood(mut body: Value, dialect: &Dialect) -> Value {
    let Some(messages) =
        body.get("messages").and_then(Value::as_array).filter(|_| body.get("tools").is_none())
    else {
        return body;
    };
    let tools: Array =
        messages.iter().filter(|it| is_of(it, "system")).flat_map(|it| tools(&text(it))).collect();
    let Some(writer) = CallWriter::new(dialect).ok().filter(|_| tools.iter().next().is_some()) else {
        return body;
    };
    let reading = ExtractOptions::with_dialects(vec![dialect.clone()]);
    let mut told = Vec::new();
    let mut open: Vec<ToolCall> = Vec::new();
    for (number, message) in messages.iter().enumerate() {
        let text = text(message);
        let results: Vec<ToolCall> = std::mem::take(&mut open);
        if is_of(message, "assistant") {
            let calls = Extraction::of(&text, &reading).calls.into_iter().enumerate();
            open = calls.map(|(at, call)| tool_call(format!("told_{number}_{at}"), call)).collect();
        }
        match (&open[..], &results[..]) {
            ([_, ..], _) => told.push(said(&open)),
            ([], [_, ..]) if is_of(message, "user") => {
                told.extend(results.iter().map(|call| result(call, &text, &writer)));
            }
            _ => told.push(message.clone()),
        }
    }
    if let Some(members) = body.as_object_mut() {
        members.insert("messages", told);
        members.insert("tools", tools);
    }
    body
}

fn is_of(message: &Value, role: &str) -> bool {
    message.get("role").is_some_and(|own| own == role)
}

fn text(message: &Value) -> String {
    let content = message.get("content");
    let parts = content.and_then(Value::as_array).into_iter().flatten().filter_map(|part| part.get("text"));
    content.into_iter().chain(parts).filter_map(Value::as_str).collect::<Vec<_>>().join("\n")
}

/// The tools whose declarations stand in a text, as JSON or as a list of names with schemas.
fn tools(text: &str) -> Vec<Value> {
    let first = |text: &str| serde_json::Deserializer::from_str(text).into_iter::<Value>().next()?.ok();
    let declared = text.match_indices("{\"type\":\"function\"").filter_map(|(at, _)| first(&text[at..]));
    let listed = text.split("\n- `").skip(1).filter_map(|rest| {
        let (name, rest) = rest.split_once('`')?;
        let (_, schema) = rest.split_once("Schema: ")?;
        let function = Value::object([("name", name.into()), ("parameters", first(schema)?)]);
        Some(Value::object([("type", "function".into()), ("function", function)]))
    });
    declared.chain(listed).collect()
}

fn tool_call(id: String, call: ToolCall) -> ToolCall {
    let mut made = ToolCall::new(id, call.name, call.raw_arguments);
    made.has_made_id = true;
    made
}

fn said(calls: &[ToolCall]) -> Value {
    let call = |call: &ToolCall| {
        let function =
            [("name", call.name.as_str().into()), ("arguments", call.raw_arguments.as_str().into())];
        let function = Value::object(function);
        Value::object([("id", call.id.as_str().into()), ("type", "function".into()), ("function", function)])
    };
    Value::object([("role", "assistant".into()), ("tool_calls", calls.iter().map(call).collect())])
}

/// Returns the text at the position where the dialect shows a result; the complete text if there is no such position.
fn result(call: &ToolCall, text: &str, writer: &CallWriter) -> Value {
    let shown = writer.render_result(call, "\0");
    let told = shown.split_once('\0').and_then(|(before, after)| {
        let (_, rest) = text.split_once(before)?;
        Some(if after.is_empty() { rest } else { rest.split(after).next().unwrap_or(rest) })
    });
    Value::object([
        ("role", "tool".into()),
        ("tool_call_id", call.id.as_str().into()),
        ("content", told.unwrap_or(text).into()),
    ])
}
