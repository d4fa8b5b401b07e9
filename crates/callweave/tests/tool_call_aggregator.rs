//! The acceptance criteria of the aggregator, each as a test of its name.

use callweave::compat::tool_call_aggregator::{IngestMessageOptions, ParsedTextBlock, ToolCallAggregator};
use serde_json::{Value, json};

const EMIT: IngestMessageOptions = IngestMessageOptions { emit_if_missing: true };
const SILENT: IngestMessageOptions = IngestMessageOptions { emit_if_missing: false };

/// A chat delta with one piece of a call.
fn piece(index: u32, name: Option<&str>, arguments: Option<&str>) -> Value {
    let mut function = serde_json::Map::new();
    function.extend(name.map(|name| ("name".to_owned(), json!(name))));
    function.extend(arguments.map(|text| ("arguments".to_owned(), json!(text))));
    json!({"tool_calls": [{"index": index, "function": function}]})
}

fn calls(aggregator: &ToolCallAggregator, choice: u32) -> Vec<(String, String, String)> {
    let own = |text: &str| text.to_owned();
    let snapshot = aggregator.snapshot(choice);
    snapshot.iter().map(|call| (own(call.id), own(call.name), own(call.arguments()))).collect()
}

fn call(id: &str, name: &str, arguments: &str) -> (String, String, String) {
    (id.to_owned(), name.to_owned(), arguments.to_owned())
}

#[test]
fn criterion_1_streaming_partials() {
    let mut aggregator = ToolCallAggregator::new();
    let ingested = aggregator.ingest_delta(&piece(0, Some("look"), None), None);
    assert!(ingested.updated, "the name alone is told at once");
    let first = json!([{"id": "tool_0_0", "type": "function", "function": {"name": "look"}}]);
    assert_eq!(json!(ingested.deltas), first);

    let mut whole = String::new();
    for chunk in ["{\"at\"", ":\"s", "ky", "\"}"] {
        whole.push_str(chunk);
        let ingested = aggregator.ingest_delta(&piece(0, None, Some(chunk)), None);
        assert!(ingested.updated);
        let delta =
            json!([{"id": "tool_0_0", "type": "function", "function": {"name": "look"}, "arguments": whole}]);
        assert_eq!(json!(ingested.deltas), delta);
        assert_eq!(ingested.deltas[0].increment, Some(chunk));
    }
}

#[test]
fn criterion_1_a_name_in_pieces_is_told_as_it_grows_and_joined() {
    let mut aggregator = ToolCallAggregator::new();
    aggregator.ingest_delta(&piece(0, Some("get_"), None), None);
    let ingested = aggregator.ingest_delta(&piece(0, Some("weather"), Some("{}")), None);
    assert_eq!(ingested.deltas[0].call.name, "get_weather");
    let grown = json!({"index": 0, "function": {"name": "get_weather", "arguments": "{}"}});
    assert_eq!(ingested.deltas[0].to_cumulative(), grown);
    assert_eq!(calls(&aggregator, 0), [call("tool_0_0", "get_weather", "{}")]);
}

#[test]
fn criterion_2_final_snapshot() {
    let mut aggregator = ToolCallAggregator::new();
    for payload in [
        piece(0, Some("look"), Some("{\"at\":")),
        piece(0, None, Some("\"sky\"}")),
        piece(1, Some("wait"), None),
    ] {
        aggregator.ingest_delta(&payload, None);
    }
    let records = json!([
        {"id": "tool_0_0", "type": "function", "function": {"name": "look"}, "arguments": "{\"at\":\"sky\"}"},
        {"id": "tool_0_1", "type": "function", "function": {"name": "wait"}, "arguments": ""},
    ]);
    assert_eq!(json!(aggregator.snapshot(None)), records);
}

#[test]
fn criterion_3_single_and_multi_forms() {
    let mut aggregator = ToolCallAggregator::new();
    let legacy =
        json!({"choices": [{"index": 0, "delta": {"function_call": {"name": "look", "arguments": "{"}}}]});
    let ingested = aggregator.ingest_delta(&legacy, None);
    let tool_calls = json!([{"index": 0, "id": "tool_0_0", "type": "function", "function": {"name": "look", "arguments": "{"}}]);
    assert_eq!(ingested.to_tool_calls(None), tool_calls);
    assert_eq!(ingested.to_function_call(None), Some(json!({"name": "look", "arguments": "{"}).into()));

    let more = json!({"choices": [{"index": 0, "delta": {"function_call": {"arguments": "}"}}}]});
    let ingested = aggregator.ingest_delta(&more, None);
    assert_eq!(ingested.to_tool_calls(None), json!([{"index": 0, "function": {"arguments": "}"}}]));
    assert_eq!(ingested.to_function_call(None), Some(json!({"arguments": "}"}).into()));

    let whole = json!({"name": "look", "arguments": "{}"});
    assert_eq!(aggregator.function_call(None), Some(whole.clone().into()));
    assert_eq!(
        aggregator.tool_calls(None),
        json!([{"id": "tool_0_0", "type": "function", "function": whole}])
    );
}

#[test]
fn criterion_4_multi_call_ordering() {
    let mut aggregator = ToolCallAggregator::new();
    // The first has no arguments yet, the second is complete: their order is that of the list.
    aggregator.ingest_delta(
        &json!({"toolCalls": [
            {"index": 5, "function": {"name": "first"}},
            {"index": 2, "function": {"name": "second", "arguments": "{}"}},
        ]}),
        None,
    );
    aggregator.ingest_delta(&piece(0, Some("third"), Some("{}")), None);
    let found = calls(&aggregator, 0);
    let expected = [("tool_0_0", "first"), ("tool_0_1", "second"), ("tool_0_2", "third")];
    assert!(found.iter().map(|call| (call.0.as_str(), call.1.as_str())).eq(expected), "{found:?}");
}

#[test]
fn criterion_5_choice_support() {
    let mut aggregator = ToolCallAggregator::new();
    aggregator.ingest_delta(&piece(0, Some("one"), Some("{}")), 1);
    assert!(aggregator.has_calls(1) && !aggregator.has_calls(None));
    aggregator.ingest_delta(&piece(0, Some("zero"), Some("{}")), None);
    // Where the payload names its choices, those count.
    let chunk = json!({"choices": [
        {"index": 1, "delta": {"tool_calls": [{"index": 1, "function": {"name": "one more", "arguments": "{}"}}]}},
        {"index": 2, "delta": {"tool_calls": [{"index": 0, "function": {"name": "two", "arguments": "{}"}}]}},
    ]});
    aggregator.ingest_delta(&chunk, None);
    assert_eq!(calls(&aggregator, 0), [call("tool_0_0", "zero", "{}")]);
    assert_eq!(calls(&aggregator, 1), [call("tool_1_0", "one", "{}"), call("tool_1_1", "one more", "{}")]);
    assert_eq!(calls(&aggregator, 2), [call("tool_2_0", "two", "{}")]);
}

#[test]
fn criterion_6_textual_fallback() {
    let mut aggregator = ToolCallAggregator::new();
    let block = "<use_tool>\n  <name>tide</name>\n  <args>{\"harbour\":\"Å\"}</args>\n</use_tool>";
    let text = format!("So: {block} and <b>noise</b> {block} tail");
    let blocks = aggregator.extract_use_tool_blocks(&text);
    assert_eq!(blocks.len(), 2);
    for found in &blocks {
        assert_eq!((found.name.as_str(), found.args_text.as_str()), ("tide", "{\"harbour\":\"Å\"}"));
        assert_eq!(&text[found.index_start..found.index_end], block);
    }
    assert_eq!(blocks[1].tail(&text), " tail");
    assert!(aggregator.extract_use_tool_blocks("<use_tool><name>a</name>").is_empty());

    aggregator.register_text_pattern("bang", |buffer: &str| {
        let Some(start) = buffer.find('!') else { return Vec::new() };
        vec![ParsedTextBlock::new(start..buffer.len(), &buffer[start + 1..], "{}")]
    });
    aggregator.register_text_pattern("nonsense", |_: &str| vec![ParsedTextBlock::new(7..999_999, "x", "{}")]);
    aggregator.register_text_pattern("panics", |_: &str| panic!("a matcher's own fault"));
    assert_eq!(aggregator.extract_use_tool_blocks(&text), blocks, "the built-in pattern is as before");
    let message = json!({"message": {"content": [{"type": "text", "text": block}, {"type": "text", "text": " then !stop"}]}});
    assert!(aggregator.ingest_message(&message, None, EMIT).updated);
    let expected = [call("tool_0_0", "tide", "{\"harbour\":\"Å\"}"), call("tool_0_1", "stop", "{}")];
    assert_eq!(calls(&aggregator, 0), expected);
    assert!(!aggregator.ingest_message(&message, None, EMIT).updated, "told once");
    assert_eq!(calls(&aggregator, 0), expected);
}

#[test]
fn criterion_6_structured_calls_come_before_text() {
    let mut aggregator = ToolCallAggregator::new();
    let message = json!({"choices": [{"message": {
        "content": "<use_tool><name>a</name></use_tool>",
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "b", "arguments": "{}"}}],
    }}]});
    aggregator.ingest_message(&message, None, EMIT);
    assert_eq!(calls(&aggregator, 0), [call("c", "b", "{}")]);
}

#[test]
fn criterion_7_robustness() {
    let mut aggregator = ToolCallAggregator::new();
    let deltas = [
        piece(0, Some("a"), Some("{\"x\":")),
        json!({"content": "text"}),
        piece(1, Some("b"), Some("{\"y\"")),
        json!(null),
        piece(0, None, Some(" 1")),
        json!([1, "two", [[]], {"type": "response.output_text.delta", "delta": "x"}]),
        piece(1, None, Some(": 1, bad")),
        json!({"tool_calls": [null, 7], "function_call": "f", "choices": {"0": 1}}),
        piece(0, None, Some("1}")),
    ];
    for delta in &deltas {
        aggregator.ingest_delta(delta, None);
    }
    // "1" after "1" is 11; text that is no JSON stays as it is.
    assert_eq!(
        calls(&aggregator, 0),
        [call("tool_0_0", "a", "{\"x\": 11}"), call("tool_0_1", "b", "{\"y\": 1, bad")]
    );
    aggregator.reset_turn();
    assert!(aggregator.snapshot(None).is_empty());
}

#[test]
fn criterion_7_memory_is_the_arguments_and_is_freed() {
    let held = |run: &mut dyn FnMut()| allocation_counter::measure(run).bytes_current;
    let mut aggregator = ToolCallAggregator::new();
    let text = json!({"choices": [{"index": 0, "delta": {"content": "x".repeat(1000)}}]});
    let call = piece(0, None, Some(&"y".repeat(100)));
    aggregator.ingest_delta(&piece(0, Some("f"), Some("{\"k\":\"")), None);
    aggregator.ingest_delta(&text, None);
    let of_text = held(&mut || {
        for _ in 0..1000 {
            aggregator.ingest_delta(&text, None);
        }
    });
    assert!(of_text < 1000, "{of_text} bytes are held of a megabyte of text");
    let of_arguments = held(&mut || {
        for _ in 0..1000 {
            aggregator.ingest_delta(&call, None);
        }
    });
    assert!(of_arguments < 300_000, "{of_arguments} bytes are held of 100 kB of arguments");
    let after = held(&mut || aggregator.reset_turn());
    assert!(after <= -of_arguments, "{after} of {of_arguments} bytes are freed");
}

#[test]
fn criterion_7_a_delta_costs_what_it_brings() {
    let mut aggregator = ToolCallAggregator::new();
    aggregator.ingest_delta(&piece(0, Some("f"), Some("{\"k\":\"")), None);
    let delta = piece(0, None, Some("0123456789"));
    let mut allocated = |count: usize| {
        let run = || (0..count).for_each(|_| assert!(aggregator.ingest_delta(&delta, None).updated));
        allocation_counter::measure(run).bytes_total
    };
    let (few, many) = (allocated(1000), allocated(10_000));
    assert!(many < few * 30, "{few} bytes for 1000 deltas, {many} for 10000");
}

#[test]
fn criterion_8_purity() {
    // The same payloads give the same results, and looking changes nothing.
    let run = || {
        let mut aggregator = ToolCallAggregator::new();
        let mut answers = Vec::new();
        for payload in [piece(0, Some("a"), Some("{")), piece(0, None, Some("}")), json!({"content": "x"})] {
            answers.push(json!(aggregator.ingest_delta(&payload, None)));
            answers.push(json!([
                aggregator.snapshot(None),
                aggregator.has_calls(None),
                aggregator.tool_calls(None)
            ]));
            answers.push(json!(aggregator.snapshot(None)));
        }
        answers
    };
    assert_eq!(run(), run());
}

#[test]
fn criterion_9_id_stability() {
    let mut aggregator = ToolCallAggregator::new();
    assert_eq!(aggregator.ingest_delta(&piece(0, Some("a"), None), None).deltas[0].call.id, "tool_0_0");
    // The provider's id comes late: the client keeps the one it knows, the handler learns the other.
    let late = json!({"tool_calls": [{"index": 0, "id": "late", "function": {"arguments": "{}"}}]});
    let ingested = aggregator.ingest_delta(&late, None);
    assert_eq!((ingested.deltas[0].call.id, ingested.deltas[0].call.provider_id), ("tool_0_0", Some("late")));
    assert_eq!(ingested.to_tool_calls(None), json!([{"index": 0, "function": {"arguments": "{}"}}]));
    // By that id it is found again.
    let whole = json!({"tool_calls": [{"id": "late", "function": {"name": "a", "arguments": "{}"}}]});
    aggregator.ingest_message(&whole, None, SILENT);
    aggregator.ingest_delta(&piece(1, Some("a"), Some("{}")), None);
    assert_eq!(calls(&aggregator, 0), [call("tool_0_0", "a", "{}"), call("tool_0_1", "a", "{}")]);
}

#[test]
fn criterion_10_non_stream_assembly() {
    let mut aggregator = ToolCallAggregator::new();
    let message = json!({"message": {
        "tool_calls": [
            {"id": "m1", "index": 0, "function": {"name": "tide", "arguments": "{\"day\":"}},
            {"id": "m2", "index": 1, "function": {"name": "moon"}},
        ],
        "function_call": {"name": "wind", "arguments": "{\"knots\":9}"},
    }});
    assert!(!aggregator.ingest_message(&message, None, SILENT).updated);
    let fuller =
        json!({"message": {"tool_calls": [{"id": "m1", "function": {"arguments": "{\"day\":\"1 May\"}"}}]}});
    aggregator.ingest_message(&fuller, None, SILENT);
    let found = calls(&aggregator, 0);
    assert_eq!(found[0], call("m1", "tide", "{\"day\":\"1 May\"}"));
    assert_eq!(found[1], call("m2", "moon", ""));
    assert_eq!((found[2].1.as_str(), found[2].2.as_str()), ("wind", "{\"knots\":9}"));
    // Emitted later, all of them, and once.
    let names: Vec<_> = aggregator
        .ingest_message(&json!({}), None, EMIT)
        .deltas
        .iter()
        .map(|delta| delta.call.name.to_owned())
        .collect();
    assert_eq!(names, ["tide", "moon", "wind"]);
    assert!(!aggregator.ingest_message(&json!({}), None, EMIT).updated);
}

#[test]
fn responses_events_and_codex_notifications_bring_calls() {
    let mut aggregator = ToolCallAggregator::new();
    for payload in [
        json!({"type": "response.output_item.added", "item": {"id": "fc_1", "call_id": "a", "type": "function_call", "name": "one"}}),
        json!({"msg": {"type": "output_item.added", "item": {"id": "fc_2", "call_id": "b", "type": "function_call", "name": "two"}}}),
        json!({"type": "response.function_call_arguments.delta", "item_id": "fc_1", "delta": "{\"k\":"}),
        json!({"type": "response.function_call_arguments.delta", "item_id": "fc_2", "delta": "{}"}),
        json!({"type": "response.function_call_arguments.delta", "item_id": "fc_1", "delta": "1}"}),
        json!({"type": "response.function_call_arguments.done", "item_id": "fc_1", "arguments": "{\"k\":1}"}),
        json!({"method": "item/started", "params": {"item": {"type": "commandExecution", "id": "x", "command": "ls"}}}),
        json!({"method": "item/tool/call", "id": 3, "params": {"callId": "c", "tool": "three", "arguments": {"z": 0}}}),
        json!({"type": "response.completed", "response": {"object": "response", "output": [
            {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "one", "arguments": "{\"k\":1}"},
        ]}}),
    ] {
        aggregator.ingest_delta(&payload, None);
    }
    let expected = [call("a", "one", "{\"k\":1}"), call("b", "two", "{}"), call("c", "three", "{\"z\":0}")];
    assert_eq!(calls(&aggregator, 0), expected);
}

#[test]
fn payloads_of_other_protocols_bring_calls() {
    let mut aggregator = ToolCallAggregator::new();
    for payload in [
        json!({"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "tu", "name": "look", "input": {}}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "{\"at\":1}"}}),
        json!({"candidates": [{"content": {"parts": [{"functionCall": {"name": "find", "args": {"q": 2}}}]}}]}),
    ] {
        assert!(aggregator.ingest_delta(&payload, None).updated, "{payload}");
    }
    assert_eq!(
        calls(&aggregator, 0),
        [call("tu", "look", "{\"at\":1}"), call("tool_0_1", "find", "{\"q\":2}")]
    );
}

#[test]
fn a_place_used_again_for_equal_arguments_is_another_call() {
    for legacy in [false, true] {
        let mut aggregator = ToolCallAggregator::new();
        for name in ["list", "status"] {
            let call = json!({"name": name, "arguments": "{}"});
            let payload = match legacy {
                true => json!({"function_call": call}),
                false => json!({"tool_calls": [{"index": 0, "function": call}]}),
            };
            aggregator.ingest_delta(&payload, None);
        }
        assert_eq!(calls(&aggregator, 0), [call("tool_0_0", "list", "{}"), call("tool_0_1", "status", "{}")]);
    }
}

#[test]
fn the_singular_form_beside_the_same_call_is_that_call() {
    let mut aggregator = ToolCallAggregator::new();
    for (name, arguments) in [(Some("f"), None), (None, Some("{\"a\":")), (None, Some("1}"))] {
        let mut payload = piece(0, name, arguments);
        payload["function_call"] = payload["tool_calls"][0]["function"].clone();
        aggregator.ingest_delta(&payload, None);
    }
    assert_eq!(calls(&aggregator, 0), [call("tool_0_0", "f", "{\"a\":1}")]);
    aggregator.ingest_delta(&json!({"function_call": {"name": "g", "arguments": "{}"}}), None);
    assert_eq!(calls(&aggregator, 0).len(), 2, "another one is told");
}

#[test]
fn an_empty_custom_beside_a_function_says_nothing() {
    let mut aggregator = ToolCallAggregator::new();
    let function = json!({"name": "f", "arguments": "{}"});
    let element = json!({"index": 0, "function": function, "custom": {"name": "", "input": ""}});
    aggregator.ingest_delta(&json!({"tool_calls": [element]}), None);
    let snapshot = aggregator.snapshot(None);
    assert_eq!(json!(snapshot[0])["type"], "function");
    assert_eq!((snapshot[0].name, snapshot[0].arguments()), ("f", "{}"));
}

#[test]
fn a_call_that_was_cut_says_so() {
    let mut aggregator = ToolCallAggregator::new();
    aggregator.ingest_delta(&piece(0, Some("f"), Some("{\"a\":")), None);
    assert_eq!(json!(aggregator.snapshot(None)[0])["incomplete"], true);
    aggregator.ingest_delta(&piece(0, None, Some("1}")), None);
    assert_eq!(json!(aggregator.snapshot(None)[0]).get("incomplete"), None);
}

#[test]
fn a_grown_name_is_told_to_clients_that_append_as_what_was_added() {
    let mut aggregator = ToolCallAggregator::new();
    let (mut name, mut arguments) = (String::new(), String::new());
    for payload in [
        piece(0, Some("get_"), None),
        piece(0, Some("weather"), None),
        piece(0, None, Some("{\"city\":")),
        piece(0, None, Some("\"Oslo\"}")),
    ] {
        for delta in serde_json::Value::from(aggregator.ingest_delta(&payload, None).to_tool_calls(None))
            .as_array()
            .expect("a list")
        {
            name.push_str(delta["function"]["name"].as_str().unwrap_or(""));
            arguments.push_str(delta["function"]["arguments"].as_str().unwrap_or(""));
        }
    }
    assert_eq!((name.as_str(), arguments.as_str()), ("get_weather", "{\"city\":\"Oslo\"}"));
}

#[test]
fn a_chunk_is_told_choice_by_choice() {
    let mut aggregator = ToolCallAggregator::new();
    let call =
        |name: &str| json!({"tool_calls": [{"index": 0, "function": {"name": name, "arguments": "{}"}}]});
    let chunk = json!({"choices": [{"index": 0, "delta": call("zero")}, {"index": 1, "delta": call("one")}]});
    let ingested = aggregator.ingest_delta(&chunk, None);
    assert!(ingested.choices().eq([0, 1]));
    for (choice, name) in [(0, "zero"), (1, "one")] {
        let told = ingested.to_tool_calls(choice);
        assert_eq!(
            (told[0]["function"]["name"].as_str(), told.as_array().map(|told| told.len())),
            (Some(name), Some(1))
        );
        let function = json!({"name": name, "arguments": "{}"});
        assert_eq!(ingested.to_function_call(choice), Some(function.into()));
    }
    assert_eq!(ingested.to_tool_calls(2), json!([]));
}

#[test]
fn a_custom_call_is_custom_in_every_shape() {
    let mut aggregator = ToolCallAggregator::new();
    let payload =
        |custom: Value| json!({"tool_calls": [{"index": 0, "id": "c", "type": "custom", "custom": custom}]});
    let ingested = aggregator.ingest_delta(&payload(json!({"name": "patch", "input": "***"})), None);
    let whole = json!({"id": "c", "type": "custom", "custom": {"name": "patch", "input": "***"}});
    let element =
        json!({"index": 0, "id": "c", "type": "custom", "custom": {"name": "patch", "input": "***"}});
    assert_eq!(ingested.to_tool_calls(None), json!([element]));
    assert_eq!(ingested.deltas[0].to_cumulative(), element);
    assert_eq!(json!(ingested.deltas[0]), whole);
    let ingested = aggregator.ingest_delta(&payload(json!({"input": " End"})), None);
    assert_eq!(ingested.to_tool_calls(None), json!([{"index": 0, "custom": {"input": " End"}}]));
    let whole = json!([{"id": "c", "type": "custom", "custom": {"name": "patch", "input": "*** End"}}]);
    assert_eq!(json!(aggregator.snapshot(None)), whole);
    assert_eq!(aggregator.tool_calls(None), whole);
}

#[test]
fn a_piece_that_names_no_call_is_of_the_only_open_one() {
    let anonymous = |text: &str| json!({"tool_calls": [{"function": {"arguments": text}}]});
    let mut aggregator = ToolCallAggregator::new();
    aggregator.ingest_delta(&piece(0, Some("done"), Some("{}")), None);
    aggregator.ingest_delta(&piece(1, Some("open"), Some("{\"a\":")), None);
    aggregator.ingest_delta(&anonymous("1"), None);
    aggregator.ingest_delta(&anonymous("}"), None);
    let expected = [call("tool_0_0", "done", "{}"), call("tool_0_1", "open", "{\"a\":1}")];
    assert_eq!(calls(&aggregator, 0), expected);

    // The only open one need not be the one that was spoken of last.
    let mut aggregator = ToolCallAggregator::new();
    aggregator.ingest_delta(&piece(0, Some("open"), Some("{\"a\":")), None);
    aggregator.ingest_delta(&json!({"name": "done", "type": "function_call", "arguments": "{}"}), None);
    aggregator.ingest_delta(&piece(2, Some("also done"), Some("{}")), None);
    aggregator.ingest_delta(&piece(0, None, Some("1")), None);
    aggregator.ingest_delta(&anonymous("}"), None);
    assert_eq!(calls(&aggregator, 0)[0], call("tool_0_0", "open", "{\"a\":1}"));
}

#[test]
fn a_piece_that_names_no_call_never_mixes_two() {
    let mut aggregator = ToolCallAggregator::new();
    aggregator.ingest_delta(&piece(0, Some("a"), Some("{\"x\":")), None);
    aggregator.ingest_delta(&piece(1, Some("b"), Some("{\"y\":")), None);
    let ingested = aggregator.ingest_delta(&json!({"tool_calls": [{"function": {"arguments": "2}"}}]}), None);
    assert!(ingested.updated, "it is not lost either");
    assert_eq!((ingested.deltas[0].call.ordinal, ingested.deltas[0].call.arguments()), (2, "2}"));
    let found = calls(&aggregator, 0);
    assert_eq!((found[0].2.as_str(), found[1].2.as_str()), ("{\"x\":", "{\"y\":"));
}

#[test]
fn options_forbid_parallel_calls_wherever_they_stand() {
    for payload in [
        json!({"parallel_tool_calls": false}),
        json!({"request": {"options": [{"parallelToolCalls": false}]}}),
        json!({"msg": {"response": {"metadata": {"parallel_tool_calls": false}}}}),
    ] {
        let mut aggregator = ToolCallAggregator::new();
        aggregator.ingest_delta(&payload, None);
        assert!(!aggregator.supports_parallel_calls(), "{payload}");
    }
    // A model's arguments are no options.
    let mut aggregator = ToolCallAggregator::new();
    let call = json!({"name": "configure", "arguments": {"parallel_tool_calls": false}});
    aggregator.ingest_delta(&json!({"tool_calls": [{"index": 0, "function": call}]}), None);
    assert!(aggregator.supports_parallel_calls());
}

#[test]
fn blocks_are_told_in_the_words_of_the_story() {
    let block = "<use_tool><name>look</name><args>{}</args></use_tool>";
    let found = json!(ToolCallAggregator::new().extract_use_tool_blocks(block)[0]);
    assert_eq!((&found["indexStart"], &found["indexEnd"]), (&json!(0), &json!(block.len())));
    assert_eq!((&found["name"], &found["argsText"]), (&json!("look"), &json!("{}")));
}

#[test]
fn a_call_that_its_provider_calls_incomplete_is_marked() {
    let item = |status: &str| {
        json!({"object": "response", "status": status, "output": [
            {"type": "function_call", "call_id": "c", "name": "rm", "arguments": "{\"path\":\"/a\"", "status": status}]})
    };
    let mut aggregator = ToolCallAggregator::new();
    aggregator.ingest_message(&item("incomplete"), None, EMIT);
    let record = json!(aggregator.snapshot(None)[0]);
    assert_eq!((&record["incomplete"], &record["arguments"]), (&json!(true), &json!("{\"path\":\"/a\"")));
}

/// Arguments that are complete before their name are one call with it, whether or not the id is repeated.
#[test]
fn criterion_2_arguments_may_come_before_the_name() {
    for repeated in [json!("z"), Value::Null] {
        let mut aggregator = ToolCallAggregator::new();
        let arguments =
            json!({"tool_calls": [{"index": 0, "id": "z", "function": {"arguments": "{\"q\":1}"}}]});
        aggregator.ingest_delta(&arguments, None);
        let name = json!({"tool_calls": [{"index": 0, "id": repeated, "function": {"name": "f"}}]});
        let ingested = aggregator.ingest_delta(&name, None);
        assert_eq!(ingested.deltas.len(), 1);
        assert_eq!(ingested.deltas[0].increment, Some("{\"q\":1}"));
        assert_eq!(calls(&aggregator, 0), [call("z", "f", "{\"q\":1}")], "{repeated}");
        let next =
            json!({"tool_calls": [{"index": 1, "id": "y", "function": {"name": "g", "arguments": "{}"}}]});
        aggregator.ingest_delta(&next, None);
        assert_eq!(calls(&aggregator, 0), [call("z", "f", "{\"q\":1}"), call("y", "g", "{}")], "{repeated}");
    }
}

#[test]
fn calls_announced_together_keep_their_order() {
    let mut aggregator = ToolCallAggregator::new();
    let announced = json!({"tool_calls": [
        {"index": 0, "id": "a", "function": {"name": "one"}},
        {"index": 1, "id": "b", "function": {"name": "two"}},
    ]});
    aggregator.ingest_delta(&announced, None);
    aggregator.ingest_delta(&piece(0, None, Some("{\"x\":0}")), None);
    aggregator.ingest_delta(&piece(1, None, Some("{\"x\":1}")), None);
    assert_eq!(calls(&aggregator, 0), [call("a", "one", "{\"x\":0}"), call("b", "two", "{\"x\":1}")]);
}
