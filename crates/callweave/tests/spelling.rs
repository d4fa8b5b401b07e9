//! Numbers as they were written and members in their order, on every way through the library.

use callweave::accumulator::Accumulator;
use callweave::compat::ex_athena::{ProviderCapabilities, extract};
use callweave::compat::nous::ToolCallAccumulator;
use callweave::compat::prompty::{Processed, PromptAgent, process};
use callweave::compat::req_llm::ChunkAccumulator;
use callweave::compat::tool_call_aggregator::{IngestMessageOptions, ToolCallAggregator};
use callweave::dialect::{ExtractOptions as Reading, Extraction};
use callweave::event::Event;
use callweave::json::partial::PartialValue;
use callweave::json::repair::repair;
use callweave::json::schema::Schema;
use callweave::json::{Object, Value};
use callweave::pipeline::{Decoder, FrameDecoder, decode};

const WRITTEN: &str =
    r#"{"z":12345678901234567890123,"a":[1.50,1e5,-0,1E+2,1e400],"m":{"y":null,"b":0.10,"a":-0.0},"b":true}"#;

fn value(text: &str) -> Value {
    text.parse().expect("JSON")
}

/// The same text inside another JSON text: as it is, or as a string.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// A response of Anthropic's that has the value as a call's input and as an extra field.
fn answer() -> String {
    format!(
        r#"{{"id":"m","type":"message","role":"assistant","model":"x","stop_reason":"tool_use","odd":{WRITTEN},"content":[{{"type":"tool_use","id":"t","name":"f","input":{WRITTEN}}}],"usage":{{"input_tokens":1,"output_tokens":2,"zone":{WRITTEN}}}}}"#
    )
}

#[test]
fn decoded_answers() {
    let mut events: Vec<Event<'static>> = Vec::new();
    let mut decoder = Decoder::detect();
    decoder.push(answer().as_bytes(), &mut events).expect("an answer");
    decoder.finish(&mut events).expect("an answer");
    let told: Vec<String> = events.iter().map(|event| serde_json::to_string(event).expect("JSON")).collect();
    let with = |kind: &str| {
        let start = format!("\"type\":\"{kind}\"");
        told.iter().filter(|event| event.contains(&start) && event.contains(WRITTEN)).count()
    };
    assert_eq!((with("start"), with("usage")), (1, 1), "{told:#?}");

    let message = decode(answer().as_bytes()).expect("an answer");
    let call = message.tool_calls().next().expect("a call");
    assert_eq!(call.arguments(), WRITTEN);
    assert_eq!(call.object().expect("an object").to_string(), WRITTEN);
    let text = serde_json::to_string(&message).expect("JSON");
    assert_eq!(text.matches(WRITTEN).count(), 2, "{text}");
    assert!(text.contains(&quoted(WRITTEN)), "{text}");
    // A value of ours can hold all that was printed; pretty or not.
    let pretty: Value = serde_json::to_string_pretty(&message).expect("JSON").parse().expect("JSON");
    assert_eq!(pretty.to_string(), text);
    assert_eq!(Value::of(&message).expect("JSON").to_string(), text);
}

#[test]
fn decoded_values() {
    let mut decoder = FrameDecoder::detect();
    let mut accumulator = Accumulator::new();
    decoder.push_value(&value(&answer()), &mut accumulator);
    decoder.finish(&mut accumulator).expect("an answer");
    assert_eq!(accumulator.message().tool_calls().next().map(|call| call.arguments()), Some(WRITTEN));
}

#[test]
fn extraction() {
    let structured = value(&format!(r#"{{"tool_calls":[{{"name":"f","arguments":{WRITTEN}}}]}}"#));
    let fenced = format!("~~~tool_call\n{{\"name\":\"f\",\"arguments\":{WRITTEN}}}\n~~~");
    for reply in [structured, Value::object([("text", fenced.into())])] {
        let found = extract(&reply, &ProviderCapabilities::default()).expect("a reply");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].call.arguments(), WRITTEN);
        assert!(serde_json::to_string(&found).expect("JSON").contains(&quoted(WRITTEN)));
    }
    let text = format!("<tool_call>{{\"name\":\"f\",\"arguments\":{WRITTEN}}}</tool_call>");
    let found = Extraction::of(&text, &Reading::new("hermes").expect("a dialect"));
    assert_eq!(found.calls[0].arguments(), WRITTEN);
}

#[test]
fn repair_and_partial_values() {
    let broken = WRITTEN.replace("\"z\"", "z").replace("true}", "True,}");
    assert_eq!(value(&repair(&broken).text).to_string(), WRITTEN);
    let mut partial = PartialValue::default();
    for letter in WRITTEN.split_inclusive(|_: char| true) {
        partial.push(letter);
    }
    assert_eq!(partial.value().map(ToString::to_string).as_deref(), Some(WRITTEN));
}

#[test]
fn coercion() {
    let schema = Schema::new(&value(
        r#"{"properties":{"n":{"type":"integer"},"id":{"type":"integer"},"p":{"enum":[1.50,2.50]},"t":{"type":"string"}}}"#,
    ));
    let written =
        format!(r#"{{"n":"5","id":"12345678901234567890123","odd":{WRITTEN},"p":"2.50","t":1.50}}"#);
    let fitted = format!(r#"{{"n":5,"id":12345678901234567890123,"odd":{WRITTEN},"p":2.50,"t":"1.50"}}"#);
    assert_eq!(schema.coerce(&value(&written)).value.to_string(), fitted);
    assert_eq!(schema.read(&written.replace("\"n\"", "n")).value.to_string(), fitted);
    let untouched = schema.coerce(&value(WRITTEN));
    assert!(untouched.is_unchanged());
    assert_eq!(untouched.value.to_string(), WRITTEN);
}

/// A validated value stays as it was; problems come in the order of the schema.
#[cfg(feature = "schema")]
#[test]
fn validation() {
    use callweave::json::schema::SchemaPolicy;

    let schema = Schema::new(&value(
        r#"{"properties":{"z":{"type":"integer","minimum":9999999999999999999999},"a":{"items":{"type":"number"}}}}"#,
    ));
    for policy in [SchemaPolicy::Coerce, SchemaPolicy::Validate, SchemaPolicy::Reject] {
        let outcome = schema.apply(policy, &value(WRITTEN)).expect("it fits");
        assert_eq!((outcome.value.to_string().as_str(), outcome.problems.len()), (WRITTEN, 0));
    }
    let problems = schema.validate(&value(r#"{"z":123456789012345678901,"a":["x"]}"#)).expect("a schema");
    assert_eq!(problems.iter().map(|problem| problem.path.as_str()).collect::<Vec<_>>(), ["$.z", "$.a[0]"]);
}

#[test]
fn doors() {
    let Ok(Processed::ToolCalls(calls)) = process(&PromptAgent::new("anthropic"), &value(&answer())) else {
        panic!("a call was made")
    };
    assert_eq!(calls[0].arguments(), WRITTEN);
    let text = Value::object([("type", "text".into()), ("text", WRITTEN.into())]);
    let message = Value::object([
        ("type", "message".into()),
        ("role", "assistant".into()),
        ("content", vec![text].into()),
    ]);
    let structured = process(&PromptAgent::new("anthropic").with_outputs(), &message).expect("an answer");
    assert_eq!(serde_json::to_string(&structured).expect("JSON"), WRITTEN);

    let mut aggregator = ToolCallAggregator::new();
    let calls = format!(r#"{{"tool_calls":[{{"id":"a","function":{{"name":"f","arguments":{WRITTEN}}}}}]}}"#);
    aggregator.ingest_message(&value(&calls), None, IngestMessageOptions::default());
    assert_eq!(
        aggregator.tool_calls(None).to_string(),
        format!(
            r#"[{{"id":"a","type":"function","function":{{"name":"f","arguments":{}}}}}]"#,
            quoted(WRITTEN)
        )
    );

    let whole = format!(r#"{{"id":"a","name":"f","arguments":{WRITTEN},"metadata":{WRITTEN}}}"#);
    let mut nous = ToolCallAccumulator::new();
    nous.feed(&value(&whole));
    assert_eq!(serde_json::to_string(&nous.finalize()).expect("JSON"), format!("[{whole}]"));

    let chunk = format!(
        r#"{{"type":"tool_call","name":"f","arguments":{WRITTEN},"metadata":{{"id":"a","index":0,"odd":{WRITTEN}}}}}"#
    );
    let mut chunks = ChunkAccumulator::new();
    chunks.push(&value(&chunk));
    let call = &chunks.finalize_tool_calls_for_response()[0];
    assert_eq!(
        (call.arguments().to_string(), call.metadata["odd"].to_string()),
        (WRITTEN.into(), WRITTEN.into())
    );
}

#[test]
fn a_call_is_told_once_whatever_the_order_and_twice_if_it_is_spelled_otherwise() {
    let reply = |calls: &[&str]| {
        let calls: Vec<Value> = calls
            .iter()
            .map(|arguments| Value::object([("name", "f".into()), ("arguments", (*arguments).into())]))
            .collect();
        let reply = Value::object([("tool_calls", calls.into())]);
        extract(&reply, &ProviderCapabilities::default()).expect("a reply").len()
    };
    assert_eq!(reply(&[r#"{"a":1,"b":[2]}"#, r#"{"b":[2],"a":1}"#]), 1);
    assert_eq!(reply(&[r#"{"a":1}"#, r#"{"a":1.0}"#]), 2);
}

#[test]
fn large_objects_are_read_in_linear_time() {
    let members: Vec<String> = (0..100_000).map(|number| format!("\"key {number}\":{number}")).collect();
    let text = format!("{{{}}}", members.join(","));
    let object: Object = text.parse().expect("an object");
    assert_eq!((object.len(), &object["key 99999"]), (100_000, &99_999.into()));
    assert_eq!(object.to_string(), text);
    let message = decode(answer().replace(WRITTEN, &text).as_bytes()).expect("an answer");
    assert_eq!(message.tool_calls().next().map(|call| call.arguments()), Some(text.as_str()));
    let extra = message.extra.iter().map(|(_, value)| value.to_value());
    assert_eq!(extra.into_iter().find(|value| value.is_object()), Some(object.into()));
}
