//! The scripted model says what it should, in every dialect and protocol.

use callweave::dialect::{DialectRegistry, ExtractOptions};
use callweave::event::FinishReason;
use callweave::json::schema::Schema;
use callweave::protocol::Protocol;
use callweave::request::RequestOptions;
use callweave::teach::{PromptOptions, teach};
use callweave::{Decoder, Message, Tools, Value};
use callweave_gateway::demo::{self, DemoScript, ScriptStep};
use serde_json::json;

fn tools() -> Value {
    tools_json().into()
}

fn tools_json() -> serde_json::Value {
    json!([{"type": "function", "function": {"name": "get_weather", "description": "The weather.", "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}}},
        "required": ["city", "days"],
    }}}])
}

/// A chat request of these messages, in the protocol of the model.
fn request(model: &str, mut chat: Value, tools: &Value) -> Vec<u8> {
    if let Value::Object(members) = &mut chat {
        members.insert("model", model);
        if tools.as_array().is_some_and(|tools| !tools.is_empty()) {
            members.insert("tools", tools.clone());
        }
    }
    let protocol = demo::protocol(model).expect("a model of the table");
    let from = Protocol::named("openai-chat").expect("a protocol of that name");
    let options = RequestOptions::default();
    let written = from.translate_request(chat, protocol, &options).expect("a request that can be written");
    written.body.to_string().into_bytes()
}

fn ask(model: &str, chat: serde_json::Value, tools: &Value, is_streamed: bool) -> DemoScript {
    demo::response(model, &request(model, chat.into(), tools), is_streamed).expect("a model of the table")
}

fn user(text: &str) -> serde_json::Value {
    json!({"messages": [{"role": "user", "content": text}]})
}

/// Reads a response as a careful client does.
fn read(model: &str, script: &DemoScript, tools: &Value) -> Message {
    let dialect = ExtractOptions::new("auto").expect("auto is always there");
    let builder = Decoder::builder().protocol(demo::protocol(model).expect("a model"));
    let builder = builder.dialect(dialect).tools(Tools::from_json(tools)).repair().coerce();
    builder.build().decode(&script.bytes()).unwrap_or_else(|error| panic!("{model}: {error}"))
}

fn calls(message: &Message) -> Vec<(String, Value)> {
    message
        .tool_calls()
        .map(|call| (call.name.clone(), call.arguments().parse().unwrap_or(Value::Null)))
        .collect()
}

/// Models whose responses never come to an end.
const BREAKING: [&str; 4] = ["error-mid-stream", "abrupt-end", "cut-call", "garbage"];

const QUESTION: &str = "What is the weather in Paris for 3 days?";

#[test]
fn every_model_calls_the_tool_that_it_is_given() {
    let paris: Value = json!({"city": "Paris", "days": 3}).into();
    let mut count = 0;
    for model in demo::models().filter(|model| !BREAKING.contains(model)) {
        let sound = |message: &Message| {
            let found = calls(message);
            let is_parallel = found.len() == 2;
            assert!(!found.is_empty(), "{model}: {message:?}");
            assert_eq!(
                (found[0].0.as_str(), found[0].1.get("city")),
                ("get_weather", paris.get("city")),
                "{model}"
            );
            assert_eq!(found[0].1.get("days"), paris.get("days"), "{model}");
            assert!(!is_parallel || found[1].1["city"] == "Paris 2", "{model}: {found:?}");
            assert_eq!(message.finish_reason(), Some(FinishReason::ToolCalls), "{model}");
        };
        let messages = [true, false]
            .map(|is_streamed| read(model, &ask(model, user(QUESTION), &tools(), is_streamed), &tools()));
        match model {
            "think-tags" | "reasoning" => messages.iter().for_each(|message| {
                assert_eq!(calls(message), [], "{model}");
                assert_eq!(message.reasoning().trim(), "I need no tool for that.", "{model}");
                assert!(message.text().contains("Paris"), "{model}");
            }),
            "silence" | "slow" => {
                assert!(messages.iter().all(|message| message.text().contains("Paris")), "{model}")
            }
            "truncated" => {
                assert!(messages.iter().all(|message| message.finish_reason() == Some(FinishReason::Length)));
            }
            "empty-arguments" | "lacking-arguments" | "lacking-once" => {
                assert!(
                    messages
                        .iter()
                        .all(|message| calls(message) == [("get_weather".to_owned(), json!({}).into())])
                );
            }
            "unknown-tool" => assert!(calls(&messages[0])[0].0.starts_with("get_weather_"), "{model}"),
            _ if model.starts_with("status-") => {
                assert!(messages.iter().all(|message| message.error().is_some()), "{model}");
            }
            _ => {
                messages.iter().for_each(sound);
                count += 1;
            }
        }
    }
    assert!(count >= 70, "only {count} models call");
}

#[test]
fn faults_are_on_the_wire() {
    let wire = |model: &str, is_streamed: bool| {
        let script = ask(model, user(QUESTION), &tools(), is_streamed);
        (script.status, String::from_utf8_lossy(&script.bytes()).into_owned(), script)
    };
    let has = |model: &str, texts: &[&str]| {
        let (_, whole, _) = wire(model, false);
        texts.iter().for_each(|text| assert!(whole.contains(text), "{model}: {text:?} in {whole}"));
    };
    has("hermes", &["<tool_call>"]);
    has("qwen3-coder", &["<function=get_weather>"]);
    has("harmony", &["to=functions.get_weather"]);
    has("broken-json", &["{city: 'Paris', days: 3,}"]);
    has("truncated", &["\"finish_reason\":\"length\""]);
    has("wrong-types", &[r#"\"days\":\"3\""#, r#"\"tags\":\"[\\\""#]);
    has("finish-stop", &["\"finish_reason\":\"stop\"", "tool_calls"]);
    has("object-arguments", &[r#""arguments":{"city":"Paris""#]);
    has("empty-arguments", &[r#""arguments":"""#]);
    has("name-case", &["Get_Weather"]);
    has("think-tags", &["<think>"]);
    has("reasoning", &["reasoning_content"]);
    has("call-beside-thinking", &["<think>", "get_weather"]);
    assert!(!wire("no-ids", true).1.contains("call_demo"));
    assert!(!wire("no-index", true).1.contains(r#""tool_calls":[{"index""#));
    assert!(!wire("same-index", true).1.contains(r#""tool_calls":[{"index":1"#));
    let interleaved = wire("interleaved", true).1;
    let order: Vec<_> = interleaved
        .match_indices(r#""tool_calls":[{"index":"#)
        .map(|(at, text)| &interleaved[at + text.len()..][..1])
        .collect();
    assert_eq!(order[..4], ["0", "1", "0", "1"]);
    for (model, status) in [("status-400", 400), ("status-429", 429), ("status-500", 500)] {
        assert_eq!(wire(model, true).0, status);
    }
    assert!(wire("status-429", true).2.headers.contains(&("retry-after", "7".to_owned())));
    assert!(wire("error-mid-stream", true).1.trim_end().ends_with("}}"));
    for is_streamed in [true, false] {
        assert_eq!(wire("abrupt-end", is_streamed).2.steps.last(), Some(&ScriptStep::Break));
        assert!(wire("silence", is_streamed).2.steps.iter().any(|step| matches!(step, ScriptStep::Wait(_))));
    }
}

#[test]
fn results_are_answered_with_a_text_that_holds_them() {
    for model in demo::models() {
        let chat = json!({"messages": [
            {"role": "user", "content": QUESTION},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "get_weather", "arguments": "{\"city\":\"Paris\",\"days\":3}"}},
            ]},
            {"role": "tool", "tool_call_id": "a", "content": "sunny, 21 degrees"},
        ]});
        if model.starts_with("status-") || BREAKING.contains(&model) {
            continue;
        }
        for is_streamed in [true, false] {
            let message = read(model, &ask(model, chat.clone(), &tools(), is_streamed), &tools());
            assert_eq!(calls(&message), [], "{model}");
            assert!(message.text().contains("sunny, 21 degrees"), "{model}: {}", message.text());
            assert_eq!(message.finish_reason(), Some(FinishReason::Stop), "{model}");
        }
    }
}

#[test]
fn directions_are_followed_one_in_a_turn() {
    let tools: Value = json!([
        {"type": "function", "function": {"name": "write_file", "parameters": {"type": "object", "properties": {"path": {"type": "string"}, "content": {"type": "string"}}}}},
        {"type": "function", "function": {"name": "read_file", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}},
    ]).into();
    let text = "Please do this:\ncall write_file {\"path\": \"/tmp/it's\", \"content\": \"a \\\"b\\\"\\n\"}\n  call read_file {\"path\": \"/tmp/it's\"}\ncall nobody {}";
    let expected = [
        ("write_file", json!({"path": "/tmp/it's", "content": "a \"b\"\n"})),
        ("read_file", json!({"path": "/tmp/it's"})),
    ];
    // Models that spoil their calls are left out; think-tags, reasoning, silence and slow obey like others.
    let spoils = |model: &&str| {
        model.starts_with("status-")
            || BREAKING.contains(model)
            || [
                "truncated",
                "wrong-types",
                "empty-",
                "lacking-",
                "unknown-tool",
                "same-index",
                "no-index",
                "parallel",
                "interleaved",
            ]
            .iter()
            .any(|own| model.starts_with(own))
    };
    let mut cannot = Vec::new();
    for model in demo::models().filter(|model| !spoils(model)) {
        let mut messages = vec![json!({"role": "user", "content": text})];
        let mut ids = Vec::new();
        for (at, (name, arguments)) in expected.iter().enumerate() {
            let message =
                read(model, &ask(model, json!({"messages": messages}), &tools, at % 2 == 0), &tools);
            // Not every dialect has a way to write every text.
            if demo::describe(model) == Some("calls written into the text")
                && calls(&message) != [((*name).to_owned(), arguments.into())]
            {
                cannot.push(model);
                break;
            }
            assert_eq!(calls(&message), [((*name).to_owned(), arguments.into())], "{model}");
            let call = message.tool_calls().next().expect("a call");
            ids.push(call.id.clone());
            let id = format!("id{at}");
            messages.push(json!({"role": "assistant", "content": null, "tool_calls": [
                {"id": id, "type": "function", "function": {"name": call.name, "arguments": call.arguments()}}]}));
            messages.push(json!({"role": "tool", "tool_call_id": id, "content": format!("result {at}")}));
        }
        if cannot.last() == Some(&model) {
            continue;
        }
        let message = read(model, &ask(model, json!({"messages": messages}), &tools, true), &tools);
        assert_eq!(calls(&message), [], "{model}");
        assert!(message.text().contains("result 1"), "{model}: {}", message.text());
        ids.dedup();
        assert!(
            ids.len() == 2 || model == "gemini" || model == "ollama" || ids[0].starts_with("tool_"),
            "{model}: {ids:?}"
        );
    }
    assert!(cannot.len() <= 20, "{cannot:?}");
}

#[test]
fn without_a_direction_nothing_is_called_but_the_weather() {
    let tool = |name: &str| json!({"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}}});
    let tools: Value = json!([tool("bash"), tool("delete_file"), tool("exec_command")]).into();
    let weather: Value = json!([tool("bash"), tool("get_weather")]).into();
    let text = "Please delete the folder /home/me/project with the bash tool, and exec command";
    for model in demo::models().filter(|model| !model.starts_with("status-") && !BREAKING.contains(model)) {
        for is_streamed in [true, false] {
            let message = read(model, &ask(model, user(text), &tools, is_streamed), &tools);
            assert_eq!(calls(&message), [], "{model}");
            assert!(message.text().contains("You said: Please delete"), "{model}: {}", message.text());
            let message = read(model, &ask(model, user(text), &weather, is_streamed), &weather);
            assert!(
                calls(&message).iter().all(|(name, _)| name.to_lowercase().starts_with("get_weather")),
                "{model}"
            );
        }
        let forced = json!({"messages": [{"role": "user", "content": text}], "tool_choice": "required"});
        assert_eq!(calls(&read(model, &ask(model, forced, &tools, true), &tools)), [], "{model}");
    }
}

#[test]
fn what_was_lacking_comes_when_asked_again() {
    let chat = json!({"messages": [
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": null, "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}},
        ]},
        {"role": "tool", "tool_call_id": "a", "content": "invalid: city is required"},
    ]});
    let again = read("lacking-once", &ask("lacking-once", chat, &tools(), true), &tools());
    assert_eq!(calls(&again), [("get_weather".to_owned(), json!({"city": "Paris", "days": 3}).into())]);
}

#[test]
fn arguments_fit_any_schema() {
    let schemas = [
        json!({"type": "object"}),
        json!({}),
        json!({"type": "object", "properties": {"unit": {"enum": ["celsius", "fahrenheit"]}, "kind": {"const": 7}}, "required": ["unit", "kind"]}),
        json!({"type": "object", "properties": {"a": {"type": ["null", "integer"], "minimum": 10, "maximum": 20}}, "required": ["a"]}),
        json!({"type": "object", "$defs": {"node": {"type": "object", "properties": {"name": {"type": "string", "minLength": 80}, "next": {"$ref": "#/$defs/node"}}, "required": ["name"]}},
            "properties": {"list": {"type": "array", "items": {"$ref": "#/$defs/node"}, "minItems": 2}}, "required": ["list"]}),
        json!({"type": "object", "properties": {"when": {"type": "string", "format": "date-time"}, "mail": {"type": "string", "format": "email"}}, "required": ["when", "mail"]}),
        json!({"type": "object", "properties": {"x": {"anyOf": [{"type": "null"}, {"type": "boolean"}]}, "y": {"oneOf": [{"type": "object", "properties": {"z": {"type": "number"}}, "required": ["z"]}]}}, "required": ["x", "y"]}),
        json!({"allOf": [{"type": "object", "properties": {"a": {"type": "string", "maxLength": 2}}, "required": ["a"]}, {"type": "object", "properties": {"b": {"type": "integer"}}, "required": ["b"]}]}),
        json!({"type": "object", "properties": {"deep": {"$ref": "#"}}, "required": ["deep"]}),
    ];
    for (at, schema) in schemas.into_iter().enumerate() {
        let tools: Value =
            json!([{"type": "function", "function": {"name": "weather", "parameters": schema}}]).into();
        let message = read(
            "openai-chat",
            &ask("openai-chat", user("Use it for Paris, with 3."), &tools, false),
            &tools,
        );
        let (_, arguments) = calls(&message).remove(0);
        let problems = Schema::new(&schema).validate(&arguments).expect("a schema");
        // A schema that requires itself without end cannot be filled.
        assert!(problems.is_empty() || at == 8, "{schema}: {arguments} {problems:?}");
    }
}

#[test]
fn without_tools_it_speaks() {
    for model in ["hermes", "openai-chat", "anthropic", "gemini", "ollama", "cohere", "openai-responses"] {
        let none = Value::Array(Default::default());
        let message = read(model, &ask(model, user("Hello there"), &none, true), &none);
        assert_eq!(message.text(), "You said: Hello there", "{model}");
        assert_eq!(calls(&message), [], "{model}");
    }
    let broken = demo::response("anthropic", b"nothing", true).expect("a model of the table");
    assert_eq!(broken.status, 400);
    assert!(demo::response("nobody", b"{}", true).is_none());
}

#[test]
fn what_is_taught_in_words_is_understood() {
    let chat = Protocol::named("openai-chat").expect("a protocol of that name");
    let mut count = 0;
    for dialect in DialectRegistry::builtin().dialects() {
        let model = dialect.name.replace('_', "-");
        let Ok(options) = PromptOptions::of(dialect) else { continue };
        if demo::protocol(&model).is_none_or(|own| own != chat) {
            continue;
        }
        let mut body = json!({"model": model, "tools": tools_json(), "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": QUESTION},
        ]});
        let ask = |body: &serde_json::Value| {
            let taught = teach(chat.read_request(body.into()).expect("a request"), &options);
            let written = chat.write_request(&taught.request, &RequestOptions::default()).expect("a body");
            assert!(written.body.get("tools").is_none());
            let script = demo::response(&model, written.body.to_string().as_bytes(), true).expect("a model");
            let decoder = Decoder::builder().protocol(chat).dialect(taught.reading().clone()).build();
            decoder.decode(&script.bytes()).expect("an answer")
        };
        let called = ask(&body);
        if calls(&called) != [("get_weather".to_owned(), json!({"city": "Paris", "days": 3}).into())] {
            println!("{model} does not understand: {}", called.text());
            continue;
        }
        let call = called.tool_calls().next().expect("a call");
        let messages = body["messages"].as_array_mut().expect("a list");
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": call.name, "arguments": call.arguments()}}]}));
        messages.push(json!({"role": "tool", "tool_call_id": "a", "content": "sunny"}));
        let told = ask(&body);
        // Some dialects begin with reasoning, whatever is said.
        let said = format!("{}{}", told.reasoning(), told.text());
        assert!(said.contains("get_weather answered:") && said.trim().ends_with("sunny"), "{model}: {said}");
        count += 1;
    }
    assert!(count >= 45, "only {count} dialects are understood");
}
