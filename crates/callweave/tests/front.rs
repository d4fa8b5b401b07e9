//! The functions at the front of the crate: text, bodies and names, as a first guess would use them.

use callweave::{Decoder, ErrorKind, FinishReason, InvalidReason, Message, Tools, decode, extract};
use serde_json::json;

fn tools() -> Tools {
    Tools::from_json(&json!([{"name": "look", "parameters": {"type": "object", "required": ["at"],
        "properties": {"at": {"type": "string"}, "times": {"type": "integer"}}}}]))
}

/// The only call, as name and arguments.
#[track_caller]
fn only_call(message: &Message) -> (&str, &str) {
    let calls: Vec<_> = message.tool_calls().collect();
    assert_eq!(calls.len(), 1, "{message:?}");
    assert_eq!(calls[0].invalid(), None);
    (&calls[0].name, calls[0].arguments())
}

#[test]
fn calls_of_any_dialect_are_found_repaired_and_coerced() {
    for text in [
        "<tool_call>{\"name\": \"look\", \"arguments\": {at: 'sky', times: '2',}}</tool_call>",
        "[look(at='sky', times='2')]",
        "[TOOL_CALLS]look[ARGS]{\"at\": \"sky\", \"times\": \"2\"}",
        "<|channel|>commentary to=functions.look <|constrain|>json<|message|>{\"at\": \"sky\", \"times\": \"2\"}<|call|>",
        "<tool_call>\n<function=look>\n<parameter=at>\nsky\n</parameter>\n<parameter=times>\n2\n</parameter>\n\
         </function>\n</tool_call>",
        "{\"name\": \"look\", \"arguments\": {\"at\": \"sky\", \"times\": \"2\"}}",
    ] {
        let message = extract(text, &tools());
        let (name, arguments) = only_call(&message);
        let arguments: serde_json::Value = serde_json::from_str(arguments).expect("JSON");
        assert_eq!((name, arguments), ("look", json!({"at": "sky", "times": 2})), "{text}");
        assert_eq!(message.finish_reason(), Some(FinishReason::ToolCalls), "{text}");
    }
}

#[test]
fn text_and_reasoning_are_told_apart_from_calls() {
    let message = extract(
        "<think>Up.</think>Sure.<tool_call>{\"name\": \"look\", \"arguments\": {}}</tool_call>",
        &Tools::default(),
    );
    assert_eq!((&*message.text(), &*message.reasoning()), ("Sure.", "Up."));
    assert_eq!(only_call(&message), ("look", "{}"));
    let message = extract("No call.", &tools());
    assert_eq!((&*message.text(), message.tool_calls().count()), ("No call.", 0));
    assert_eq!(message.finish_reason(), Some(FinishReason::Stop));
    assert_eq!(extract("", &tools()).tool_calls().count(), 0);
}

/// A call that is truncated, calls another tool or does not fit the schema is there, and says why it cannot be run.
#[test]
fn a_call_that_cannot_be_run_says_why() {
    let reason = |text: &str| {
        let message = extract(text, &tools());
        let call = message.tool_calls().next().expect("a call");
        let invalid = call.invalid().expect("it cannot be run");
        assert!(call.error_result().is_some_and(|result| result.contains(&invalid.to_string())), "{text}");
        // A serialized message is read back.
        let json = serde_json::to_string(&message).expect("JSON");
        assert!(json.contains(&format!("\"invalid\":{{\"reason\":\"{}\"", invalid.reason)), "{json}");
        assert_eq!(serde_json::from_str::<Message>(&json).expect("a message"), message);
        invalid.reason
    };
    let call = |name: &str, arguments: &str| {
        format!("<tool_call>{{\"name\": \"{name}\", \"arguments\": {arguments}}}</tool_call>")
    };
    assert_eq!(reason(&call("jump", "{\"at\": \"sky\"}")), InvalidReason::UnknownTool);
    assert_eq!(reason(&call("look", "[1]")), InvalidReason::NotAnObject);
    assert_eq!(
        reason("<tool_call>{\"name\": \"look\", \"arguments\": {\"at\": \"sk"),
        InvalidReason::Incomplete
    );
    #[cfg(feature = "schema")]
    assert_eq!(reason(&call("look", "{\"times\": 2}")), InvalidReason::SchemaMismatch);
}

/// The same of calls that a protocol has a place for, streamed or not.
#[test]
fn native_calls_are_checked_against_the_tools() {
    let body = json!({"object": "chat.completion", "choices": [{"index": 0, "finish_reason": "tool_calls", "message":
        {"role": "assistant", "tool_calls": [{"id": "a", "type": "function", "function":
            {"name": "jump", "arguments": "{}"}}]}}]});
    let message =
        Decoder::builder().tools(tools()).build().decode(body.to_string().as_bytes()).expect("a body");
    let invalid = message.tool_calls().next().and_then(|call| call.invalid()).expect("it cannot be run");
    assert_eq!(
        (invalid.reason, invalid.to_string().as_str()),
        (InvalidReason::UnknownTool, "the tool \"jump\" was not declared")
    );
    assert_eq!(
        decode(body.to_string().as_bytes()).expect("a body").tool_calls().next().expect("a call").invalid(),
        None
    );
}

#[test]
fn a_dialect_is_named_and_an_unknown_one_is_an_error() {
    let body = json!({"object": "chat.completion", "choices": [{"index": 0, "finish_reason": "stop",
        "message": {"content": "<tool_call>{\"name\": \"look\", \"arguments\": {}}</tool_call>"}}]});
    let body = body.to_string();
    for name in ["auto", "hermes"] {
        let message = Decoder::builder().dialect(name).build().decode(body.as_bytes()).expect("a body");
        assert_eq!(only_call(&message), ("look", "{}"), "{name}");
    }
    let unknown = || Decoder::builder().dialect("hermess");
    let mut events = Vec::new();
    let mut frames = unknown().build_for_frames();
    frames.push_value(&json!({}), &mut events);
    let errors = [
        unknown().build().decode(body.as_bytes()).expect_err("no such dialect"),
        unknown().build().finish(&mut events).expect_err("no such dialect"),
        unknown().extract("text").expect_err("no such dialect"),
        frames.finish(&mut events).expect_err("no such dialect"),
    ];
    for error in errors {
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (ErrorKind::Unknown, "no dialect is called \"hermess\"; did you mean \"hermes\"?")
        );
    }
}

#[test]
fn reasons_are_printed_as_the_output_spells_them() {
    assert_eq!(FinishReason::ContentFilter.to_string(), "content_filter");
    assert_eq!(InvalidReason::AfterDamage.to_string(), "after_damage");
    assert_eq!(callweave::event::NoticeCode::InvalidUtf8.to_string(), "invalid_utf8");
    assert_eq!(callweave::event::CallKind::Builtin.to_string(), "builtin");
    assert_eq!(callweave::event::BlockCompletion::AfterDamage.to_string(), "after_damage");
    assert_eq!(ErrorKind::Upstream.to_string(), "upstream");
}
