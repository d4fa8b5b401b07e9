//! The provider's responses, in its own protocol.

use callweave::Value;
use callweave::protocol::Protocol;
use callweave::request::ToolKind;

use super::json;

/// A call as the model makes it.
pub(super) struct Made {
    pub(super) name: String,
    pub(super) namespace: Option<String>,
    pub(super) input: String,
    pub(super) is_custom: bool,
}

/// Calls of all tools that a body declares.
pub(super) fn calls(target: &Protocol, body: &Value, wrapped: &[String]) -> Vec<Made> {
    let request = target.read_request(body.clone()).expect("a request");
    let mut open: Vec<_> = request.tools.iter().rev().map(|tool| (tool, None)).collect();
    let mut made = Vec::new();
    while let Some((tool, namespace)) = open.pop() {
        let is_wrapped = wrapped.contains(&tool.name);
        match &tool.kind {
            ToolKind::Group(members) => {
                let name = Some(tool.name.clone()).filter(|name| !name.is_empty());
                open.extend(members.iter().rev().map(|member| (member, name.clone())));
            }
            ToolKind::Custom { .. } => made.push(Made {
                name: tool.name.clone(),
                namespace,
                input: "*** Begin \"Patch\"\n".to_owned(),
                is_custom: true,
            }),
            _ if is_wrapped => made.push(Made {
                name: tool.name.clone(),
                namespace,
                input: r#"{"input": "*** Begin \"Patch\"\n"}"#.to_owned(),
                is_custom: false,
            }),
            _ => made.push(Made {
                name: tool.name.clone(),
                namespace,
                input: r#"{"q": "é"}"#.to_owned(),
                is_custom: false,
            }),
        }
    }
    made
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Returns the provider's response: reasoning, a word, and calls; and its seals.
pub(super) fn answer(
    upstream: &str,
    round: usize,
    made: &[Made],
    is_streamed: bool,
) -> (Vec<u8>, Vec<String>) {
    let seal = format!("c2VhbA{round}+/");
    let text = match upstream {
        "openai-chat" => return (chat_answer(round, made, is_streamed), Vec::new()),
        "openai-responses" => responses_answer(round, made, is_streamed, &seal),
        "anthropic-messages" => anthropic_answer(round, made, is_streamed, &seal),
        _ => gemini_answer(made, is_streamed, &seal),
    };
    (text, vec![seal])
}

fn chat_answer(round: usize, made: &[Made], is_streamed: bool) -> Vec<u8> {
    let calls: Vec<String> = made
        .iter()
        .enumerate()
        .map(|(at, call)| {
            let (kind, key) = if call.is_custom { ("custom", "input") } else { ("function", "arguments") };
            format!(
                r#"{{"index": {at}, "id": "call_{round}_{at}", "type": "{kind}", "{kind}": {{"name": "{}", "{key}": {}}}}}"#,
                call.name,
                quoted(&call.input)
            )
        })
        .collect();
    let calls = calls.join(",");
    if !is_streamed {
        return format!(
            r#"{{"id": "c{round}", "object": "chat.completion", "created": 1, "model": "m", "choices": [{{"index": 0, "finish_reason": "tool_calls",
            "message": {{"role": "assistant", "reasoning_content": "think {round}", "content": "so", "tool_calls": [{calls}]}}}}]}}"#
        )
        .into_bytes();
    }
    let deltas = [
        format!(r#"{{"role": "assistant", "reasoning_content": "think {round}"}}"#),
        r#"{"content": "so"}"#.to_owned(),
        format!(r#"{{"tool_calls": [{calls}]}}"#),
    ];
    let mut out = String::new();
    for delta in deltas {
        out += &format!(
            "data: {{\"id\": \"c{round}\", \"object\": \"chat.completion.chunk\", \"created\": 1, \"model\": \"m\", \"choices\": [{{\"index\": 0, \"delta\": {delta}, \"finish_reason\": null}}]}}\n\n"
        );
    }
    out += &format!(
        "data: {{\"id\": \"c{round}\", \"object\": \"chat.completion.chunk\", \"created\": 1, \"model\": \"m\", \"choices\": [{{\"index\": 0, \"delta\": {{}}, \"finish_reason\": \"tool_calls\"}}]}}\n\ndata: [DONE]\n\n"
    );
    out.into_bytes()
}

fn responses_answer(round: usize, made: &[Made], is_streamed: bool, seal: &str) -> Vec<u8> {
    let mut items = vec![
        format!(
            r#"{{"type": "reasoning", "id": "rs_{round}", "summary": [{{"type": "summary_text", "text": "think {round}"}}], "encrypted_content": "{seal}"}}"#
        ),
        format!(
            r#"{{"type": "message", "id": "msg_{round}", "role": "assistant", "status": "completed", "content": [{{"type": "output_text", "text": "so", "annotations": []}}]}}"#
        ),
    ];
    for (at, call) in made.iter().enumerate() {
        let (kind, key) =
            if call.is_custom { ("custom_tool_call", "input") } else { ("function_call", "arguments") };
        let namespace =
            call.namespace.as_ref().map(|name| format!(r#""namespace": "{name}", "#)).unwrap_or_default();
        items.push(format!(
            r#"{{"type": "{kind}", "id": "fc_{round}_{at}", "call_id": "call_{round}_{at}", "status": "completed", {namespace}"name": "{}", "{key}": {}}}"#,
            call.name,
            quoted(&call.input)
        ));
    }
    let body = format!(
        r#"{{"id": "resp_{round}", "object": "response", "created_at": 1, "status": "completed", "model": "m", "output": [{}]}}"#,
        items.join(",")
    );
    if !is_streamed {
        return body.into_bytes();
    }
    let mut out = format!(
        "event: response.created\ndata: {{\"type\": \"response.created\", \"response\": {{\"id\": \"resp_{round}\", \"object\": \"response\", \"created_at\": 1, \"status\": \"in_progress\", \"model\": \"m\", \"output\": []}}}}\n\n"
    );
    for (at, item) in items.iter().enumerate() {
        for word in ["added", "done"] {
            out += &format!(
                "event: response.output_item.{word}\ndata: {{\"type\": \"response.output_item.{word}\", \"output_index\": {at}, \"item\": {item}}}\n\n"
            );
        }
    }
    let body = json(&body).to_string();
    out += &format!(
        "event: response.completed\ndata: {{\"type\": \"response.completed\", \"response\": {body}}}\n\n"
    );
    out.into_bytes()
}

fn anthropic_answer(round: usize, made: &[Made], is_streamed: bool, seal: &str) -> Vec<u8> {
    if !is_streamed {
        let calls: Vec<String> = made
            .iter()
            .enumerate()
            .map(|(at, call)| {
                format!(
                    r#"{{"type": "tool_use", "id": "toolu_{round}_{at}", "name": "{}", "input": {}}}"#,
                    call.name, call.input
                )
            })
            .collect();
        return format!(
            r#"{{"id": "m{round}", "type": "message", "role": "assistant", "model": "m", "stop_reason": "tool_use", "stop_sequence": null, "usage": {{"input_tokens": 1, "output_tokens": 1}},
            "content": [{{"type": "thinking", "thinking": "think {round}", "signature": "{seal}"}}, {{"type": "text", "text": "so"}}, {}]}}"#,
            calls.join(",")
        )
        .into_bytes();
    }
    let mut events = vec![format!(
        r#"{{"type": "message_start", "message": {{"id": "m{round}", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": null, "stop_sequence": null, "usage": {{"input_tokens": 1, "output_tokens": 1}}}}}}"#
    )];
    let mut block = |at: usize, start: &str, deltas: &[String]| {
        events.push(format!(r#"{{"type": "content_block_start", "index": {at}, "content_block": {start}}}"#));
        for delta in deltas {
            events.push(format!(r#"{{"type": "content_block_delta", "index": {at}, "delta": {delta}}}"#));
        }
        events.push(format!(r#"{{"type": "content_block_stop", "index": {at}}}"#));
    };
    block(
        0,
        r#"{"type": "thinking", "thinking": "", "signature": ""}"#,
        &[
            r#"{"type": "thinking_delta", "thinking": "think "}"#.to_owned(),
            format!(r#"{{"type": "thinking_delta", "thinking": "{round}"}}"#),
            format!(r#"{{"type": "signature_delta", "signature": "{seal}"}}"#),
        ],
    );
    block(1, r#"{"type": "text", "text": ""}"#, &[r#"{"type": "text_delta", "text": "so"}"#.to_owned()]);
    for (at, call) in made.iter().enumerate() {
        let start = format!(
            r#"{{"type": "tool_use", "id": "toolu_{round}_{at}", "name": "{}", "input": {{}}}}"#,
            call.name
        );
        let middle = call.input.char_indices().nth(5).map_or(0, |(at, _)| at);
        let (head, tail) = call.input.split_at(middle);
        let deltas = [head, tail]
            .map(|piece| format!(r#"{{"type": "input_json_delta", "partial_json": {}}}"#, quoted(piece)));
        block(at + 2, &start, &deltas);
    }
    events.push(r#"{"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": null}, "usage": {"output_tokens": 2}}"#.to_owned());
    events.push(r#"{"type": "message_stop"}"#.to_owned());
    let mut out = String::new();
    for event in events {
        out += &format!("event: {}\ndata: {event}\n\n", json(&event)["type"].as_str().expect("a type"));
    }
    out.into_bytes()
}

/// Gemini gives no ids here, and so repeats those that are made.
fn gemini_answer(made: &[Made], is_streamed: bool, seal: &str) -> Vec<u8> {
    let mut parts = vec![r#"{"text": "think", "thought": true}"#.to_owned(), r#"{"text": "so"}"#.to_owned()];
    for (at, call) in made.iter().enumerate() {
        let signature = if at == 0 { format!(r#", "thoughtSignature": "{seal}""#) } else { String::new() };
        parts.push(format!(
            r#"{{"functionCall": {{"name": "{}", "args": {}}}{signature}}}"#,
            call.name, call.input
        ));
    }
    let chunk = |parts: &[String], finish: &str| {
        json(&format!(
            r#"{{"candidates": [{{"index": 0, "content": {{"role": "model", "parts": [{}]}}{finish}}}], "modelVersion": "m", "responseId": "r"}}"#,
            parts.join(",")
        ))
        .to_string()
    };
    let finish = r#", "finishReason": "STOP""#;
    if !is_streamed {
        return chunk(&parts, finish).into_bytes();
    }
    let (said, called) = parts.split_at(2);
    format!("data: {}\n\ndata: {}\n\n", chunk(said, ""), chunk(called, finish)).into_bytes()
}
