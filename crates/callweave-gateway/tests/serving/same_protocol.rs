//! A response in the client's own protocol is passed on in full: extra fields of the provider stay, even where a call
//! was repaired.

use serde_json::{Value, json};

use crate::scripted_upstream::{Far, Then, whole};
use crate::support::{Got, chat, messages, post, responses};

/// Finds the leaves of a value that the other lacks or has otherwise. A null says nothing.
fn lacking(value: &Value, other: &Value, path: &str, found: &mut Vec<String>) {
    match (value, other) {
        (Value::Object(members), Value::Object(others)) => {
            for (name, value) in members {
                let path = format!("{path}/{name}");
                match others.get(name) {
                    Some(other) => lacking(value, other, &path, found),
                    None if value.is_null() => {}
                    None => found.push(path),
                }
            }
        }
        (Value::Array(values), Value::Array(others)) if values.len() == others.len() => {
            for (at, (value, other)) in values.iter().zip(others).enumerate() {
                lacking(value, other, &format!("{path}/{at}"), found);
            }
        }
        _ if value == other => {}
        _ => found.push(path.to_owned()),
    }
}

const BROKEN: &str = "{city: 'Oslo', days: 1,}";

fn chat_answer() -> Value {
    json!({"id": "chatcmpl-1", "object": "chat.completion", "created": 1700000000, "model": "x",
        "system_fingerprint": "fp_1", "service_tier": "default", "provider": "Somebody", "x_groq": {"id": "req_1"},
        "own": {"deep": [1, 2]}, "prompt_filter_results": [{"prompt_index": 0}],
        "choices": [{"index": 0, "finish_reason": "tool_calls", "native_finish_reason": "tool_calls", "logprobs": null,
            "content_filter_results": {"hate": {"filtered": false}}, "own_choice": 1,
            "message": {"role": "assistant", "content": "Let me see.", "refusal": null, "annotations": [], "own_message": "m",
                "reasoning_content": "Hm.",
                "tool_calls": [{"id": "call_1", "type": "function", "extra_content": {"google": {"thought_signature": "s"}},
                    "function": {"name": "get_weather", "arguments": BROKEN}}]}}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13, "queue_time": 0.5,
            "prompt_tokens_details": {"cached_tokens": 4, "audio_tokens": 0}, "cost": 0.25}})
}

fn messages_answer() -> Value {
    json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "x", "stop_reason": "tool_use",
        "stop_sequence": null, "container": {"id": "c1", "expires_at": "2026-01-01T00:00:00Z"}, "own": [1],
        "context_management": {"applied_edits": []}, "stop_details": null,
        "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "sig"},
            {"type": "text", "text": "Let me see.", "citations": null, "own_text": 1},
            {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "caller": {"type": "direct"},
                "input": {"city": "Oslo", "days": "1"}},
        ],
        "usage": {"input_tokens": 10, "output_tokens": 3, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 0,
            "service_tier": "standard", "cache_creation": {"ephemeral_5m_input_tokens": 0}, "server_tool_use": null}})
}

fn responses_answer() -> Value {
    json!({"id": "resp_1", "object": "response", "created_at": 1700000000, "status": "completed", "model": "x", "error": null,
        "incomplete_details": null, "instructions": null, "service_tier": "default", "own": {"deep": 1}, "metadata": {"a": "b"},
        "max_tool_calls": null, "prompt_cache_key": "k", "safety_identifier": null, "store": true, "truncation": "disabled",
        "parallel_tool_calls": true, "previous_response_id": null, "temperature": 1.0, "tool_choice": "auto", "tools": [], "top_p": 1.0,
        "output": [
            {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "e"},
            {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "phase": "commentary",
                "content": [{"type": "output_text", "text": "Let me see.", "annotations": [], "logprobs": []}]},
            {"id": "fc_1", "type": "function_call", "status": "completed", "call_id": "call_1", "name": "get_weather",
                "arguments": BROKEN, "own_call": 1},
        ],
        "usage": {"input_tokens": 10, "output_tokens": 3, "total_tokens": 13, "input_tokens_details": {"cached_tokens": 4},
            "output_tokens_details": {"reasoning_tokens": 0}, "own_usage": 1}})
}

fn gemini_answer() -> Value {
    json!({"responseId": "r1", "modelVersion": "x", "own": {"deep": 1}, "createTime": "2026-01-01T00:00:00Z",
        "promptFeedback": {"safetyRatings": []},
        "candidates": [{"index": 0, "finishReason": "STOP", "avgLogprobs": -0.5, "own_candidate": 1,
            "safetyRatings": [{"category": "HARM", "probability": "LOW"}],
            "content": {"role": "model", "parts": [
                {"text": "Let me see.", "thoughtSignature": "t"},
                {"functionCall": {"id": "f1", "name": "get_weather", "args": {"city": "Oslo", "days": "1"}}, "thoughtSignature": "s"}]}}],
        "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 3, "totalTokenCount": 13, "serviceTier": "standard",
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 10}]}})
}

fn ollama_answer() -> Value {
    json!({"model": "x", "created_at": "2026-01-01T00:00:00Z", "done": true, "done_reason": "stop", "own": 1,
        "message": {"role": "assistant", "content": "Let me see.", "own_message": 1, "tool_calls": [
            {"id": "c1", "own_call": 1, "function": {"index": 0, "name": "get_weather", "arguments": {"city": "Oslo", "days": "1"}}}]},
        "total_duration": 5, "load_duration": 1, "prompt_eval_count": 10, "prompt_eval_duration": 2, "eval_count": 3,
        "eval_duration": 2})
}

/// Repairs the calls; everything else stays.
fn mended(mut answer: Value) -> Value {
    fn walk(value: &mut Value) {
        match value {
            Value::String(text) if text == BROKEN => *text = "{\"city\":\"Oslo\",\"days\":1}".to_owned(),
            Value::String(_) => {}
            Value::Array(values) => values.iter_mut().for_each(walk),
            Value::Object(members) => {
                if members.get("days").is_some_and(|days| *days == "1") {
                    members.insert("days".to_owned(), json!(1));
                }
                members.values_mut().for_each(walk);
            }
            _ => {}
        }
    }
    walk(&mut answer);
    answer
}

/// The same call, however its arguments are spaced.
fn spaced(mut body: Value) -> Value {
    for path in ["/choices/0/message/tool_calls/0/function/arguments", "/output/2/arguments"] {
        if let Some(Value::String(text)) = body.pointer_mut(path) {
            *text = text.replace(": ", ":").replace(", ", ",");
        }
    }
    body
}

fn contents() -> Value {
    let schema =
        json!({"type": "OBJECT", "properties": {"city": {"type": "STRING"}, "days": {"type": "INTEGER"}}});
    json!({"contents": [{"role": "user", "parts": [{"text": "Weather in Oslo?"}]}],
        "tools": [{"functionDeclarations": [{"name": "get_weather", "parameters": schema}]}]})
}

async fn asked(protocol: &str, path: &str, body: &Value, dialect: &str, answer: (String, Then)) -> Got {
    let far = Far::start(vec![answer]).await;
    let gateway = far.gateway(&format!("protocol = \"{protocol}\"\nretries = 0\ndialect = \"{dialect}\""));
    let got = post(&gateway, path, body).await;
    assert_eq!(got.status, 200, "{protocol}: {}", got.text);
    got
}

/// The fields that are lost all the same. Chat is spoken by many servers, and its encoder keeps no extra fields in a
/// normalized response; where text is read in a dialect, a signature that comes before it has no block yet; and the time is the
/// gateway's.
const SET_ASIDE: &[(&str, &[&str])] = &[
    (
        "openai-chat",
        &[
            "/choices/0/content_filter_results",
            "/choices/0/message/annotations",
            "/choices/0/message/own_message",
            "/choices/0/message/tool_calls/0/extra_content",
            "/choices/0/native_finish_reason",
            "/choices/0/own_choice",
            "/own",
            "/prompt_filter_results",
            "/provider",
            "/service_tier",
            "/system_fingerprint",
            "/usage/cost",
            "/usage/prompt_tokens_details/audio_tokens",
            "/usage/queue_time",
            "/x_groq",
        ],
    ),
    ("openai-responses", &["/usage/own_usage"]),
    ("gemini-generatecontent, read", &["/candidates/0/content/parts/0/thoughtSignature"]),
    ("ollama", &["/created_at"]),
];

#[tokio::test]
async fn whole_answers_keep_what_only_their_provider_says() {
    for (protocol, path, body, answer) in [
        ("openai-chat", "/v1/chat/completions", chat("x", false), chat_answer()),
        ("anthropic-messages", "/v1/messages", messages("x", false), messages_answer()),
        ("openai-responses", "/v1/responses", responses("x", false), responses_answer()),
        ("gemini-generatecontent", "/v1beta/models/x:generateContent", contents(), gemini_answer()),
        ("ollama", "/api/chat", chat("x", false), ollama_answer()),
    ] {
        for (dialect, read) in [("none", ""), ("auto", ", read")] {
            let got = asked(protocol, path, &body, dialect, whole(200, &answer)).await;
            let mut found = Vec::new();
            lacking(&mended(answer.clone()), &spaced(got.json()), "", &mut found);
            let of = |name: String| {
                SET_ASIDE.iter().filter(move |(own, _)| *own == name).flat_map(|(_, all)| *all)
            };
            let mut expected: Vec<&str> = of(protocol.to_owned()).copied().collect();
            if !read.is_empty() {
                expected.extend(of(format!("{protocol}{read}")));
            }
            found.sort();
            expected.sort();
            assert_eq!(found, expected, "{protocol} {dialect}: {}", got.text);
        }
    }
}

fn events(frames: &[Value], is_named: bool) -> (String, Then) {
    let frame = |frame: &Value| match frame["type"].as_str().filter(|_| is_named) {
        Some(name) => format!("event: {name}\ndata: {frame}\n\n"),
        None => format!("data: {frame}\n\n"),
    };
    let text: String = frames.iter().map(frame).collect();
    (format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n{text}"), Then::Close)
}

/// Every member that only the provider has, anywhere in the frames.
fn told(frames: &[Value], name: &str) -> Option<Value> {
    fn find(value: &Value, name: &str) -> Option<Value> {
        match value {
            Value::Object(members) => {
                members.get(name).cloned().or_else(|| members.values().find_map(|value| find(value, name)))
            }
            Value::Array(values) => values.iter().find_map(|value| find(value, name)),
            _ => None,
        }
    }
    frames.iter().find_map(|frame| find(frame, name))
}

#[tokio::test]
async fn streams_keep_what_only_their_provider_says() {
    let mut start = messages_answer();
    (start["content"], start["stop_reason"]) = (json!([]), json!(null));
    let anthropic_frames = [
        json!({"type": "message_start", "message": start, "own_event": 1}),
        json!({"type": "content_block_start", "index": 0, "content_block":
            {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {}, "caller": {"type": "direct"}}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": BROKEN}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": null, "container": {"id": "c2"}},
            "context_management": {"applied_edits": []},
            "usage": {"output_tokens": 3, "own_usage": 2}}),
        json!({"type": "message_stop"}),
    ];
    let mut found = Vec::new();
    for (protocol, path, body, frames, names) in [
        (
            "anthropic-messages",
            "/v1/messages",
            messages("x", true),
            &anthropic_frames[..],
            &["container", "own", "context_management", "caller", "service_tier", "own_usage"][..],
        ),
        (
            "gemini-generatecontent",
            "/v1beta/models/x:streamGenerateContent?alt=sse",
            contents(),
            &[gemini_answer()][..],
            &[
                "responseId",
                "own",
                "own_candidate",
                "avgLogprobs",
                "safetyRatings",
                "thoughtSignature",
                "promptTokensDetails",
                "serviceTier",
                "createTime",
            ][..],
        ),
    ] {
        let got =
            asked(protocol, path, &body, "auto", events(frames, protocol == "anthropic-messages")).await;
        let written = got.frames();
        for name in names {
            let (sent, kept) = (told(frames, name), told(&written, name));
            if kept != sent {
                found.push(format!("{protocol} {name}: {sent:?} became {kept:?}"));
            }
        }
        assert!(got.text.contains("Oslo") && !got.text.contains("'Oslo'"), "{protocol}: {}", got.text);
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// A message of Responses is an item, and so is a call that stands in its text.
#[tokio::test]
async fn text_stays_in_its_item_and_calls_leave_it() {
    let item = |text: &str| {
        json!({"id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}]})
    };
    let call = "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\", \"days\": 1}}</tool_call>";
    let reasoning = json!({"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "e"});
    for (text, kinds) in [
        ("Hello there.".to_owned(), &["reasoning", "message"][..]),
        (call.to_owned(), &["reasoning", "function_call"]),
        (format!("So: {call}"), &["reasoning", "message", "function_call"]),
    ] {
        let complete_item = item(&text);
        let pieces: Vec<&str> = text.split_inclusive(' ').collect();
        let mut opened = complete_item.clone();
        (opened["content"], opened["status"]) = (json!([]), json!("in_progress"));
        let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": []});
        let response = |status: &str, output: &[&Value]| json!({"id": "resp_1", "object": "response", "model": "x", "status": status, "output": output});
        let mut frames = vec![
            json!({"type": "response.created", "response": response("in_progress", &[])}),
            json!({"type": "response.output_item.added", "output_index": 0, "item": reasoning}),
            json!({"type": "response.output_item.done", "output_index": 0, "item": reasoning}),
            json!({"type": "response.output_item.added", "output_index": 1, "item": opened}),
            json!({"type": "response.content_part.added", "output_index": 1, "item_id": "msg_1", "content_index": 0, "part": part("")}),
        ];
        frames.extend(pieces.iter().map(|piece| {
            json!({"type": "response.output_text.delta", "output_index": 1, "item_id": "msg_1", "content_index": 0, "delta": piece})
        }));
        frames.extend([
            json!({"type": "response.output_text.done", "output_index": 1, "item_id": "msg_1", "content_index": 0, "text": text}),
            json!({"type": "response.content_part.done", "output_index": 1, "item_id": "msg_1", "content_index": 0, "part": part(&text)}),
            json!({"type": "response.output_item.done", "output_index": 1, "item": complete_item}),
            json!({"type": "response.completed", "response": response("completed", &[&reasoning, &complete_item])}),
        ]);
        for is_streamed in [false, true] {
            let answer = match is_streamed {
                true => events(&frames, true),
                false => whole(200, &response("completed", &[&reasoning, &complete_item])),
            };
            let path = "/v1/responses";
            let got = asked("openai-responses", path, &responses("x", is_streamed), "auto", answer).await;
            let body = match is_streamed {
                true => got.frames().last().expect("a frame")["response"].clone(),
                false => got.json(),
            };
            let output = body["output"].as_array().expect("a list");
            let found: Vec<_> = output.iter().map(|item| item["type"].as_str().expect("a type")).collect();
            assert_eq!(found, kinds, "{is_streamed}: {}", got.text);
            let message = output.iter().find(|item| item["type"] == "message");
            assert!(message.is_none_or(|message| message["id"] == "msg_1"), "{}", got.text);
            if is_streamed {
                let added = got.text.matches("event: response.output_item.added").count();
                assert_eq!(added, kinds.len(), "{}", got.text);
                let is_plain = kinds.len() == 2 && message.is_some();
                let deltas = got.text.matches("event: response.output_text.delta").count();
                assert!(!is_plain || deltas > 1, "text does not flow: {}", got.text);
            }
        }
    }
}
