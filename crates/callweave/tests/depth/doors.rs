//! Every door: texts of any depth, and values in memory deeper than any parser makes them.

use std::borrow::Cow;

use callweave::compat::ex_athena::{self, ProviderCapabilities};
use callweave::compat::loose::LooseDecoder;
use callweave::compat::nous::ToolCallAccumulator;
use callweave::compat::prompty::{self, PromptAgent, process, process_bytes, process_stream};
use callweave::compat::req_llm::ChunkAccumulator;
use callweave::compat::tool_call_aggregator::{
    IngestMessageOptions, ToolCallAggregator, extract_use_tool_blocks,
};
use callweave::dialect::{DialectRegistry, Tools};
use callweave::json::AsValue;
use callweave::json::partial::{PartialValue, UnfinishedValues};
use callweave::json::repair::{self, repair};
use callweave::json::schema::{CoerceOptions, MissingMembers, Schema, TextCompleteness};
use callweave::message::ToolCall;
use callweave::teach::{self, CallWriter, augment_system_prompt};

use serde_json::{Map, Value, json};

use super::laws::boundary;
use super::nesting::nested;
use super::{NEEDLE, STACK, on_a_stack_of};

/// The stack of a thread, for what walks values in memory together with schemas.
const STACK_OF_A_THREAD: usize = 2 << 20;

const LEVELS: usize = 6_000;

/// A value that is never dropped: the drop of a deep one is its owner's, and recurses.
struct Deep(std::mem::ManuallyDrop<Value>);

impl std::ops::Deref for Deep {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.0
    }
}

impl AsValue for Deep {
    fn as_value(&self) -> Cow<'_, callweave::json::Value> {
        (**self).as_value()
    }
}

/// `wrap` around itself, many times.
fn deep(wrap: impl Fn(Value) -> Value) -> Deep {
    let value = (0..LEVELS).fold(json!({NEEDLE: 0}), |value, _| wrap(value));
    Deep(std::mem::ManuallyDrop::new(value))
}

fn member(key: &str, value: Value) -> Value {
    Value::Object(Map::from_iter([(key.to_owned(), value)]))
}

/// `{key: value, …}` without a copy of the value, which is dropped by nobody.
fn object<'v>(members: impl IntoIterator<Item = (&'v str, Value)>) -> Deep {
    let members = members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    Deep(std::mem::ManuallyDrop::new(Value::Object(members)))
}

impl Deep {
    fn take(self) -> Value {
        std::mem::ManuallyDrop::into_inner(self.0)
    }
}

/// Shapes of depth: lists, objects, and the words in which the doors look for more.
fn values() -> Vec<Deep> {
    let mut values = vec![deep(|value| Value::Array(vec![value]))];
    for key in ["a", "message", "delta", "function", "arguments", "response", "content", "items", "metadata"]
    {
        values.push(deep(|value| member(key, value)));
    }
    values
}

/// Texts of depth: JSON, truncated JSON, JSON in other notations, markup.
fn texts() -> Vec<String> {
    let mut texts = Vec::new();
    for (open, close) in [
        ("[", "]"),
        ("{\"a\":", "}"),
        ("{'a':", "}"),
        ("{a:[", "]}"),
        ("(", ")"),
        ("f(", ")"),
        ("{\"name\":\"f\",\"arguments\":", "}"),
        ("<use_tool><name>f</name><args>", "</args></use_tool>"),
        ("<tool_call>", "</tool_call>"),
        ("~~~tool_call\n", "\n~~~\n"),
        ("```json\n", "\n```\n"),
        ("/*", "*/"),
        ("\u{ff5b}\"a\"\u{ff1a}", "\u{ff5d}"),
    ] {
        let core = format!("{{\"{NEEDLE}\":0}}");
        texts.push(nested(open, &core, close, LEVELS / 4));
        texts.push(nested(open, &core, "", LEVELS / 4));
        texts.push(format!("Look: {}", nested(open, &core, close, LEVELS / 4)));
    }
    // One escaping more at each level.
    let mut text = NEEDLE.to_owned();
    while text.len() < 1 << 16 {
        text = json!([text]).to_string();
    }
    texts.push(text);
    texts
}

fn call(arguments: &str) -> ToolCall {
    ToolCall::new("c", "f", arguments)
}

#[test]
fn extract_and_aggregate() {
    on_a_stack_of(STACK, || {
        let tools = Tools::default();
        for text in texts() {
            let reply = json!({"text": text, "tool_calls": [{"name": "f", "arguments": text}]});
            let found =
                ex_athena::extract(&reply, &ProviderCapabilities::default()).expect("the shape is right");
            assert_eq!(found[0].call.raw_arguments, text);
            ex_athena::text_tagged::parse(&text);
            ex_athena::markup::parse(&text, &tools);
            ex_athena::raw_json::parse(&text, &tools);
            extract_use_tool_blocks(&text);
            let mut aggregator = ToolCallAggregator::new();
            aggregator.ingest_message(
                &json!({"content": text}),
                None,
                IngestMessageOptions { emit_if_missing: true },
            );
            aggregator.ingest_delta(
                &json!({"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": text}}]}),
                None,
            );
            assert!(aggregator.tool_calls(None).to_string().contains(NEEDLE));
        }
        for value in values() {
            let given = object([("name", json!("f")), ("arguments", value.take())]);
            let found = ex_athena::native::parse([&*given]);
            assert!(found[0].call.raw_arguments.contains(NEEDLE));
            let calls = object([("tool_calls", Value::Array(vec![given.take()]))]);
            let found =
                ex_athena::extract(&calls, &ProviderCapabilities::default()).expect("the shape is right");
            assert!(found[0].call.raw_arguments.contains(NEEDLE));
            let mut aggregator = ToolCallAggregator::new();
            aggregator.ingest_message(&calls, None, IngestMessageOptions { emit_if_missing: true });
            aggregator.ingest_delta(&calls, None);
            assert!(aggregator.tool_calls(None).to_string().contains(NEEDLE));
        }
        for value in values() {
            let mut aggregator = ToolCallAggregator::new();
            aggregator.ingest_delta(&value, None);
            aggregator.ingest_message(&value, None, IngestMessageOptions { emit_if_missing: true });
        }
    });
}

#[test]
fn loose_fragments() {
    on_a_stack_of(STACK, || {
        let shapes: [fn(Value) -> Deep; 8] = [
            |value| object([("name", json!("f")), ("arguments", member("a", value))]),
            |value| object([("id", json!("i")), ("name", json!("f")), ("input", member("a", value))]),
            |value| object([("type", json!("tool_call")), ("name", json!("f")), ("arguments", value)]),
            |value| {
                object([("type", json!("content")), ("text", json!("x")), ("metadata", member("a", value))])
            },
            |value| object([("type", json!("meta")), ("metadata", member("usage", member("a", value)))]),
            |value| {
                object([
                    ("type", json!("meta")),
                    ("metadata", member("annotations", Value::Array(vec![value]))),
                ])
            },
            |value| {
                let list = member("reasoning_details", Value::Array(vec![value]));
                object([("type", json!("meta")), ("metadata", list)])
            },
            |value| {
                let call = object([("index", json!(0)), ("function", member("arguments", value))]);
                Deep(std::mem::ManuallyDrop::new(Value::Array(vec![call.take()])))
            },
        ];
        for shape in shapes {
            for value in values() {
                let fragment = shape(value.take());
                let mut message = callweave::accumulator::Accumulator::new();
                let mut loose = LooseDecoder::new();
                assert!(loose.push(&fragment, &mut message).is_some());
                loose.finish(&mut message);
                let message = message.take();
                serde_json::to_string(&message).expect("messages serialise");
                let shown = format!("{message:?}");
                assert!(shown.contains(NEEDLE), "{}", &shown[..shown.len().min(300)]);
                let mut nous = ToolCallAccumulator::new();
                serde_json::to_string(&nous.feed(&fragment).finalize()).expect("calls serialise");
                let mut reqllm = ChunkAccumulator::new();
                reqllm.push(&fragment);
                reqllm.finalize_tool_calls_for_response();
                reqllm.finalize_reasoning_details();
                reqllm.finalize_usage();
            }
        }
        for text in texts() {
            let mut nous = ToolCallAccumulator::new();
            nous.feed(&json!([{"index": 0, "function": {"name": "f", "arguments": text}}]));
            let calls = serde_json::to_string(&nous.finalize()).expect("calls serialise");
            assert!(calls.contains(NEEDLE));
        }
    });
}

#[test]
fn processing() {
    on_a_stack_of(STACK, || {
        for provider in ["openai", "anthropic", "gemini", "vertex", "ollama", "cohere", "bedrock", "mistral"]
        {
            let agent = || PromptAgent::new(provider).with_outputs().capturing_content();
            for value in values() {
                let _ = process(&agent(), &value);
                let data = Value::Array(vec![value.take()]);
                let listed = object([("object", json!("list")), ("data", data)]);
                let _ = process(&agent().api(prompty::ApiType::Embeddings), &listed);
                let _ = process(&agent().api(prompty::ApiType::Images), &listed);
            }
        }
        for text in texts() {
            let body = json!({"choices": [{"message": {"content": text}}]});
            let found = process(&PromptAgent::new("openai").with_outputs().capturing_content(), &body);
            let found = serde_json::to_string(&found.expect("an answer")).expect("results serialise");
            assert!(found.contains(NEEDLE));
            let chunk = json!({"choices": [{"delta": {"content": text}}]});
            let chunks = [Ok::<_, std::io::Error>(chunk.clone())];
            let items = process_stream(&PromptAgent::new("openai"), chunks).expect("a known provider");
            assert_eq!(items.count(), 1);
            let bytes = format!("data: {chunk}\n\n");
            let pieces = bytes.as_bytes().chunks(1000).map(Ok::<_, std::io::Error>);
            assert!(
                process_bytes(&PromptAgent::new("openai"), pieces).expect("a known provider").count() > 0
            );
        }
    });
}

#[test]
fn prompts() {
    on_a_stack_of(STACK, || {
        for value in values() {
            let schema = object([("type", json!("object")), ("properties", member("a", value.take()))]);
            let tool = object([("name", json!("f")), ("parameters", schema.take())]);
            let tools = Deep(std::mem::ManuallyDrop::new(Value::Array(vec![tool.take()])));
            let full = augment_system_prompt(None, &tools, &teach::PromptOptions::default());
            assert!(full.contains(NEEDLE));
            augment_system_prompt(None, &tools, &teach::PromptOptions::default().compact());
            let typed = teach::PromptOptions::new("harmony").expect("a built-in dialect");
            augment_system_prompt(None, &tools, &typed);
            let declared = Tools::from_json(&tools);
            assert!(declared.contains("f"));
        }
        // As deep as an object in memory can be, and deeper.
        for levels in [100, LEVELS] {
            for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
                let arguments = format!("{{\"a\":{}}}", nested(open, "0", close, levels));
                for dialect in DialectRegistry::builtin().dialects() {
                    let Ok(writer) = CallWriter::new(dialect) else { continue };
                    let _ = writer.render_call(&call(&arguments));
                    writer.render_result(&call(&arguments), &arguments);
                    let chat = &callweave::protocol::OPENAI_CHAT;
                    let told = format!(
                        r#"{{"messages":[{{"role":"assistant","tool_calls":[{{"id":"a","type":"function",
                        "function":{{"name":"f","arguments":{}}}}}]}}]}}"#,
                        callweave::json::Value::from(arguments.as_str()),
                    );
                    let request = chat.read_request(told.parse().expect("JSON")).expect("a request");
                    teach::teach(request, &teach::PromptOptions::of(dialect).expect("it can be written"));
                }
            }
        }
    });
}

#[test]
fn repairing() {
    on_a_stack_of(STACK, || {
        for text in texts() {
            for options in [
                repair::RepairOptions::new(),
                repair::RepairOptions::new().prefix().close_truncated(),
                repair::RepairOptions::new().without_prose().drop_unfinished_strings(),
            ] {
                let found = options.repair(&text);
                // A text that is too deep is refused, and the verdict says so.
                assert!(
                    found.closed().is_some()
                        || matches!(found.verdict, repair::RepairVerdict::Hopeless { .. })
                );
            }
            assert!(call(&text).object().is_err(), "too deep for a value in memory, or no object");
        }
        assert!(matches!(
            repair(&nested("{a:", "1", "}", 10_000)).verdict,
            repair::RepairVerdict::Hopeless { .. }
        ));
    });
}

#[test]
fn growing_values() {
    on_a_stack_of(STACK, || {
        for text in texts() {
            let is_json = callweave::json::Tape::new().parse(&text).is_ok();
            for growing in
                [UnfinishedValues::Hidden, UnfinishedValues::Strings, UnfinishedValues::StringsAndNumbers]
            {
                let mut partial = PartialValue::new(growing);
                let mut rest = text.as_str();
                while !rest.is_empty() {
                    let (piece, after) = rest.split_at(boundary(rest, 1000));
                    partial.push(piece);
                    let _ = partial.path().to_string();
                    rest = after;
                }
                partial.finish();
                let shown = partial.value().map(ToString::to_string).unwrap_or_default();
                assert!(!is_json || shown.contains(NEEDLE), "{}", &text[..60]);
            }
        }
        // Truncated anywhere, the text of a value that is too deep is complete.
        let text = format!("{{\"x\":{},\"y\":1}}", nested("[", "{\"z\":2}", "]", 200));
        let mut partial = PartialValue::new(UnfinishedValues::Hidden);
        text.split_inclusive(['[', ':']).for_each(|piece| {
            partial.push(piece);
        });
        let value = partial.into_value().expect("a value");
        assert_eq!(value["y"], 1);
        let deepest = (0..PartialValue::MAX_DEPTH - 1).fold(&value["x"], |value, _| &value[0]);
        let kept = 200 - (PartialValue::MAX_DEPTH - 1);
        assert_eq!(*deepest, nested("[", "{\"z\":2}", "]", kept));
    });
}

/// Schemas that lead back to themselves, in the ways there are.
fn recursive_schemas() -> Vec<Value> {
    let node = |body: Value| json!({"$defs": {"n": body}, "$ref": "#/$defs/n"});
    let again = json!({"$ref": "#/$defs/n"});
    vec![
        json!({"items": {"$ref": "#"}, "additionalProperties": {"$ref": "#"}}),
        node(json!({"anyOf": [
            {"type": "array", "items": again},
            {"type": "object", "additionalProperties": again},
            {"type": ["string", "number", "boolean", "null"]},
        ]})),
        node(json!({"allOf": [{"oneOf": [
            {"type": "array", "items": {"allOf": [again]}},
            {"type": "object", "properties": {"a": {"anyOf": [again, {"type": "null"}]}}},
        ]}]})),
        node(json!({"type": "string"})),
        node(json!({"type": "object", "properties": {"a": again}, "required": ["a"]})),
        json!({"$ref": "#"}),
    ]
}

fn fit(schema: &Schema, value: &Value) {
    for missing in [MissingMembers::Keep, MissingMembers::Empty, MissingMembers::Blank, MissingMembers::Infer]
    {
        let fit = schema.coerce_with(value, CoerceOptions { missing, ..CoerceOptions::default() });
        let _ = fit.value.to_string();
    }
    let _ = schema.validate(value);
}

#[test]
fn schemas() {
    on_a_stack_of(STACK_OF_A_THREAD, || {
        for schema in recursive_schemas() {
            let schema = Schema::new(&schema);
            // As deep as a parser makes them, and deeper.
            for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("{\"a\":[", "]}")] {
                let text = nested(open, "0", close, 126 / open.matches(['{', '[']).count());
                fit(&schema, &serde_json::from_str(&text).expect("not too deep to be read"));
            }
            for value in values() {
                fit(&schema, &value);
                assert!(!schema.coerce(&value).problems.is_empty());
            }
            for text in texts() {
                for extent in [TextCompleteness::Complete, TextCompleteness::Prefix] {
                    schema.read_with(&text, CoerceOptions { extent, ..CoerceOptions::default() });
                }
            }
        }
    });
}

/// Schemas come from servers that nobody knows.
#[test]
fn deep_schemas() {
    on_a_stack_of(STACK_OF_A_THREAD, || {
        let values = [json!(0), json!([[[0]]]), json!({"a": {"a": {"a": []}}})];
        for words in ["items", "not", "additionalProperties"] {
            for levels in [120, LEVELS] {
                let schema = (0..levels).fold(json!({"type": "string"}), |schema, _| member(words, schema));
                let schema = Deep(std::mem::ManuallyDrop::new(schema));
                let schema = Schema::new(&schema);
                values.iter().for_each(|value| fit(&schema, value));
            }
        }
        for words in ["allOf", "anyOf", "oneOf", "prefixItems"] {
            let schema = (0..60)
                .fold(json!({"type": "string"}), |schema, _| member(words, Value::Array(vec![schema])));
            let schema = Schema::new(&schema);
            values.iter().for_each(|value| fit(&schema, value));
        }
    });
}

/// A chain of references is as deep as it is long.
#[test]
fn chains_of_references() {
    on_a_stack_of(STACK_OF_A_THREAD, || {
        let link = |at: usize| json!({"$ref": format!("#/$defs/d{}", at + 1)});
        let inside = |at: usize| json!({"properties": {"a": link(at)}});
        let denied = |at: usize| json!({"not": {"if": link(at)}});
        let links: [&dyn Fn(usize) -> Value; 3] = [&link, &inside, &denied];
        for link in links {
            for length in [10, 100, 5_000] {
                let mut defs: Map<String, Value> =
                    (0..length).map(|at| (format!("d{at}"), link(at))).collect();
                defs.insert(format!("d{length}"), json!({"type": "string"}));
                let schema = Schema::new(&json!({"$defs": defs, "$ref": "#/$defs/d0"}));
                fit(&schema, &json!({"a": {"a": 5}}));
            }
        }
        // Every level of the value is looked at by as many schemas as the chain is long.
        let length = 60;
        let mut defs: Map<String, Value> = (0..length).map(|at| (format!("d{at}"), link(at))).collect();
        defs.insert(format!("d{length}"), json!({"items": {"$ref": "#/$defs/d0"}}));
        let schema = Schema::new(&json!({"$defs": defs, "$ref": "#/$defs/d0"}));
        fit(&schema, &serde_json::from_str(&nested("[", "0", "]", 126)).expect("not too deep to be read"));
        let found = schema.validate(&json!([[[0]]])).expect("the schema is valid");
        assert_eq!(found, []);
    });
}
