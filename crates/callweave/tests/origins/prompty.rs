//! Prompty: `process` and `process_stream`; the spans where a row asks for them.

use callweave::compat::prompty::{ApiType, PromptAgent, StreamItem, process, process_stream};
use serde_json::{Value, json};

/// Our answer; none where the row asks for spans and the library is built without them.
pub(crate) fn answer(row: &Value) -> Option<Value> {
    let agent = agent(row);
    match row["op"].as_str().expect("an operation") {
        "process" => Some(match process(&agent, &row["input"]["response"]) {
            Ok(result) => json!({ "result": result }),
            Err(error) => json!({"error": error.detail()}),
        }),
        "process_stream" if row["options"]["trace"] == true => traced(|| stream(&agent, row)),
        "process_stream" => Some(stream(&agent, row)),
        operation => panic!("the operation {operation} is not known"),
    }
}

fn agent(row: &Value) -> PromptAgent {
    let agent = PromptAgent::new(row["input"]["provider"].as_str().expect("a provider"));
    let agent = match row["input"]["api_type"].as_str() {
        Some("embedding") => agent.api(ApiType::Embeddings),
        Some("image") => agent.api(ApiType::Images),
        Some("responses") => agent.api(ApiType::Responses),
        _ => agent,
    };
    if row["options"]["outputs"] == true { agent.with_outputs() } else { agent }
}

fn stream(agent: &PromptAgent, row: &Value) -> Value {
    let events = row["input"]["events"].as_array().expect("a list of events");
    let chunks = events.iter().map(|event| match event["kind"].as_str() {
        Some("provider") => Ok(event["value"].clone()),
        _ => Err(event["message"].as_str().unwrap_or("the transport failed").to_owned()),
    });
    let items = match process_stream(agent, chunks) {
        Ok(items) => items,
        Err(error) => return json!({"error": error.detail()}),
    };
    let mut told = Vec::<StreamItem>::new();
    for item in items {
        match item {
            Ok(item) => told.push(item),
            Err(failure) => {
                // A row that expects a failure need not ask what came before.
                let told = row["expected"].get("items").map(|_| told);
                return json!({"items": told, "error": failure.to_string()});
            }
        }
    }
    json!({ "items": told })
}

#[cfg(feature = "tracing")]
fn traced(run: impl FnOnce() -> Value) -> Option<Value> {
    let (mut answer, spans) = crate::spans::recorded(run);
    let spans = spans.iter().map(
        |span| json!({"name": span.name, "result_count": crate::spans::attribute(span, "result_count")}),
    );
    answer["spans"] = spans.collect();
    Some(answer)
}

#[cfg(not(feature = "tracing"))]
fn traced(_: impl FnOnce() -> Value) -> Option<Value> {
    None
}
