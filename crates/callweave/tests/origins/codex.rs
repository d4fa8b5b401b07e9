//! The codex aggregator: steps replayed, blocks in text, and what its handlers decide.

use callweave::compat::tool_call_aggregator::policy::{
    BackendFinish, CallPresence, ChatFinishReason, FinishSource, StopMode, StopPolicy, resolve,
};
use callweave::compat::tool_call_aggregator::{
    IngestDeltaResult, IngestMessageOptions, ToolCallAggregator, ToolCallDelta, use_tool_blocks,
};
use serde_json::{Map, Value, json};

pub(crate) fn answer(row: &Value) -> Value {
    let input = &row["input"];
    match (row["op"].as_str(), row["options"]["unit"].as_str()) {
        (Some("use_tool_blocks"), _) => blocks(input),
        (_, None) => replay(row),
        (_, Some("finish_reason")) => list(&input["raw"], read_reason),
        (_, Some("finish_resolve")) => list(&input["cases"], resolve_reason),
        (_, Some("stop_policy")) => list(&input["cases"], stop),
        (_, Some(unit)) => panic!("the unit {unit} is not known"),
    }
}

fn list(cases: &Value, answer: fn(&Value) -> Value) -> Value {
    cases.as_array().expect("a list of cases").iter().map(answer).collect()
}

fn choice(value: &Value) -> Option<u32> {
    // Choices that are none count as the first.
    value.as_u64().and_then(|number| u32::try_from(number).ok())
}

fn replay(row: &Value) -> Value {
    let mut aggregator = ToolCallAggregator::new();
    let mut results = Vec::new();
    for step in row["input"]["steps"].as_array().expect("a list of steps") {
        let (payload, choice) = (&step["payload"], choice(&step["choice_index"]));
        results.push(match step["call"].as_str() {
            Some("ingest_delta") => rendered(&aggregator.ingest_delta(payload, choice)),
            Some("ingest_message") => {
                let options = IngestMessageOptions { emit_if_missing: step["emit_if_missing"] == true };
                rendered(&aggregator.ingest_message(payload, choice, options))
            }
            Some("reset_turn") => {
                aggregator.reset_turn();
                Value::Null
            }
            other => panic!("the step {other:?} is not known"),
        });
    }
    let asked = row["options"]["snapshot_choices"].as_array().cloned().unwrap_or_else(|| vec![json!(0)]);
    let snapshots: Map<String, Value> =
        asked.iter().map(|asked| (asked.to_string(), aggregator.tool_calls(choice(asked)).into())).collect();
    json!({
        "results": results,
        "snapshots": snapshots,
        "has_calls": aggregator.choices().next().is_some(),
        "supports_parallel": aggregator.supports_parallel_calls(),
    })
}

fn rendered(ingested: &IngestDeltaResult<'_>) -> Value {
    let deltas: Vec<_> = ingested.deltas.iter().map(ToolCallDelta::to_cumulative).collect();
    json!({"updated": ingested.updated, "deltas": deltas})
}

fn blocks(input: &Value) -> Value {
    let text = input["text"].as_str().expect("a text");
    let from = input["start_at"].as_u64().unwrap_or(0) as usize;
    // The rows count in UTF-16 units.
    let bytes = |units: usize| {
        let mut counted = 0;
        let is_before = |(_, character): &(usize, char)| {
            counted += character.len_utf16();
            counted <= units
        };
        text.char_indices()
            .take_while(is_before)
            .last()
            .map_or(0, |(at, character)| at + character.len_utf8())
    };
    let units = |bytes: usize| text[..bytes].encode_utf16().count();
    let found = use_tool_blocks(text, bytes(from));
    let blocks: Vec<_> = found
        .blocks
        .iter()
        .map(|block| {
            let range = block.utf16(text);
            let fields: Map<String, Value> =
                block.fields.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
            json!({
                "name": block.name,
                "args_text": block.args_text,
                "index_start": range.start,
                "index_end": range.end,
                "fields": fields,
            })
        })
        .collect();
    json!({"blocks": blocks, "next_pos": units(found.next)})
}

fn read_reason(raw: &Value) -> Value {
    match ChatFinishReason::read(raw.as_str()) {
        BackendFinish::Missing => json!({"reason": null, "unknown": false}),
        BackendFinish::Unknown => json!({"reason": null, "unknown": true}),
        BackendFinish::Known(reason) => json!({"reason": reason, "unknown": false}),
    }
}

fn resolve_reason(case: &Value) -> Value {
    let said: Vec<_> = case["records"]
        .as_array()
        .expect("a list of records")
        .iter()
        .filter_map(|record| match ChatFinishReason::read(record[0].as_str()) {
            BackendFinish::Known(reason) => Some((reason, source(record[1].as_str().unwrap_or("")))),
            BackendFinish::Missing | BackendFinish::Unknown => None,
        })
        .collect();
    let calls = match (case["has_tool_calls"] == true, case["has_function_call"] == true) {
        (true, _) => CallPresence::Tools,
        (false, true) => CallPresence::Function,
        (false, false) => CallPresence::None,
    };
    let (reason, source) = resolve(&said, calls);
    json!({"reason": reason, "source": source})
}

fn source(name: &str) -> FinishSource {
    match name {
        "token_count" => FinishSource::TokenCount,
        "stream_idle_timeout" => FinishSource::StreamIdleTimeout,
        "tool_cutoff" => FinishSource::ToolCutoff,
        "provider" => FinishSource::Provider,
        "task_complete" => FinishSource::TaskComplete,
        "finalizer" => FinishSource::Finalizer,
        _ => FinishSource::Fallback,
    }
}

fn stop(case: &Value) -> Value {
    let mode = case["mode"].as_str().and_then(StopMode::named);
    let count = |key: &str| case[key].as_u64().map(|count| count as usize);
    let mut policy = StopPolicy::after(mode.unwrap_or(StopMode::All));
    policy.is_on = case["enforce"].as_bool();
    policy.max_calls = count("max");
    let in_choice = count("choice").and(count("choice_count"));
    json!({"cut_now": policy.stops_now(count("total").unwrap_or(0), in_choice)})
}
