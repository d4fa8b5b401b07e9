//! The scripted model's output on the wire: calls as text in a dialect, or in each protocol's own form.

use serde_json::{Map, Value, json};

use super::plan::Call;
use super::rules::{Conversation, seal};

/// A turn of the model.
pub(crate) struct Speech {
    pub(crate) reasoning: String,
    pub(crate) text: String,
    pub(crate) calls: Vec<Call>,
    /// The number of the turn, for ids.
    pub(crate) number: usize,
}

/// A body, and whether it is a stream of events.
pub(crate) struct Body {
    pub(crate) text: String,
    pub(crate) is_stream: bool,
}

/// Writes what the model says, for one conversation.
pub(crate) type Writer = fn(&Conversation, &Speech) -> Body;

/// The function that writes calls into a model's text.
type Dialect = fn(&[Call]) -> String;

/// Dialects by the names of models that have them. Models of other names call as the protocol has it.
const DIALECTS: [(&str, Dialect); 8] = [
    ("hermes", |calls| {
        each(calls, "\n", |call| format!("<tool_call>\n{}\n</tool_call>", object(call, "arguments")))
    }),
    ("qwen3-coder", |calls| {
        each(calls, "\n", |call| {
            let values = parameters(call, |name, value| {
                format!("<parameter={name}>\n{}\n</parameter>\n", bare(value))
            });
            format!("<tool_call>\n<function={}>\n{values}</function>\n</tool_call>", call.name)
        })
    }),
    ("glm-4.5", |calls| {
        each(calls, "\n", |call| {
            let values = parameters(call, |name, value| {
                format!("<arg_key>{name}</arg_key>\n<arg_value>{}</arg_value>\n", bare(value))
            });
            format!("<tool_call>{}\n{values}</tool_call>", call.name)
        })
    }),
    ("kimi-k2", |calls| {
        // Its numbers begin anew in every turn.
        let calls = calls.iter().enumerate().map(|(at, call)| {
            let arguments = json!(call.arguments);
            format!(
                "<|tool_call_begin|>functions.{}:{at}<|tool_call_argument_begin|>{arguments}<|tool_call_end|>",
                call.name
            )
        });
        format!("<|tool_calls_section_begin|>{}<|tool_calls_section_end|>", calls.collect::<String>())
    }),
    ("gpt-oss", |calls| {
        each(calls, "<|start|>assistant", |call| {
            let arguments = json!(call.arguments);
            format!(
                "<|channel|>commentary to=functions.{} <|constrain|>json<|message|>{arguments}<|call|>",
                call.name
            )
        })
    }),
    ("deepseek-v3.1", |calls| {
        let calls = each(calls, "", |call| {
            format!(
                "<｜tool▁call▁begin｜>{}<｜tool▁sep｜>{}<｜tool▁call▁end｜>",
                call.name,
                json!(call.arguments)
            )
        });
        format!("<｜tool▁calls▁begin｜>{calls}<｜tool▁calls▁end｜>")
    }),
    ("mistral-small", |calls| {
        each(calls, "", |call| format!("[TOOL_CALLS]{}[ARGS]{}", call.name, json!(call.arguments)))
    }),
    ("llama-4-pythonic", |calls| {
        let calls = each(calls, ", ", |call| {
            let values = call.arguments.iter().map(|(name, value)| format!("{name}={}", python(value)));
            format!("{}({})", call.name, values.collect::<Vec<_>>().join(", "))
        });
        format!("[{calls}]")
    }),
];

/// The names of models that call in their text.
pub(crate) fn dialects() -> impl Iterator<Item = &'static str> {
    DIALECTS.iter().map(|(name, _)| *name)
}

fn each(calls: &[Call], between: &str, write: impl Fn(&Call) -> String) -> String {
    calls.iter().map(write).collect::<Vec<_>>().join(between)
}

fn parameters(call: &Call, write: impl Fn(&str, &Value) -> String) -> String {
    call.arguments.iter().map(|(name, value)| write(name, value)).collect()
}

fn object(call: &Call, key: &str) -> String {
    json!({"name": call.name, key: call.arguments}).to_string()
}

/// A value as tags hold it: text as it is.
fn bare(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A value as Python shows it.
fn python(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => {
            let escaped = text.replace('\\', "\\\\").replace('\'', "\\'");
            format!("'{}'", escaped.replace('\n', "\\n").replace('\t', "\\t").replace('\r', "\\r"))
        }
        Value::Array(values) => {
            format!("[{}]", values.iter().map(python).collect::<Vec<_>>().join(", "))
        }
        Value::Object(members) => {
            let members =
                members.iter().map(|(name, value)| format!("{}: {}", python(&json!(name)), python(value)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
        }
    }
}

/// The text of a model with a dialect.
fn in_dialect(model: &str, speech: &Speech) -> Option<String> {
    let (name, dialect) = DIALECTS.iter().find(|(name, _)| model.contains(name))?;
    let calls = if speech.calls.is_empty() { String::new() } else { dialect(&speech.calls) };
    let Speech { reasoning, text, .. } = speech;
    Some(match *name {
        "gpt-oss" => {
            let last = if calls.is_empty() { format!("<|channel|>final<|message|>{text}") } else { calls };
            format!("<|channel|>analysis<|message|>{reasoning}<|end|><|start|>assistant{last}")
        }
        "hermes" | "glm-4.5" => format!("<think>\n{reasoning}\n</think>\n\n{text}{calls}"),
        _ => format!("{text}{calls}"),
    })
}

/// Pieces as a server sends them: some of a letter, some of a line, larger ones of long texts.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let scale = if text.len() > 20_000 { 20 } else { 1 };
    let (mut rest, mut sizes) = (text, [1, 3, 7, 12, 40, 2, 90].into_iter().cycle());
    std::iter::from_fn(move || {
        let count = sizes.next()? * scale;
        let end = rest.char_indices().nth(count).map_or(rest.len(), |(end, _)| end);
        let (piece, left) = rest.split_at(end);
        rest = left;
        (!piece.is_empty()).then_some(piece)
    })
}

#[derive(Default)]
struct Events(String);

impl Events {
    fn put(&mut self, name: Option<&str>, data: &Value) {
        if let Some(name) = name {
            self.0 += &format!("event: {name}\n");
        }
        self.0 += &format!("data: {data}\n\n");
    }

    fn end(self) -> Body {
        Body { text: self.0, is_stream: true }
    }
}

fn whole(value: &Value) -> Body {
    Body { text: value.to_string(), is_stream: false }
}

/// A value with members of another.
fn with(mut value: Value, more: Value) -> Value {
    if let (Value::Object(value), Value::Object(more)) = (&mut value, more) {
        value.extend(more);
    }
    value
}

pub(crate) fn chat(conversation: &Conversation, speech: &Speech) -> Body {
    let model = &conversation.model;
    let text = in_dialect(model, speech);
    let is_text = text.is_some();
    let text = text.unwrap_or_else(|| speech.text.clone());
    let calls = if is_text { &[][..] } else { &speech.calls };
    // Its ids begin anew in every turn.
    let id = |at: usize| format!("call_{at}");
    let finish = if calls.is_empty() { "stop" } else { "tool_calls" };
    let usage = json!({"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110});
    let base = json!({"id": format!("chatcmpl-{}", speech.number), "created": 1_700_000_000, "model": model});
    if !conversation.is_streamed {
        let calls: Vec<_> = calls
            .iter()
            .enumerate()
            .map(|(at, call)| {
                let function = json!({"name": call.name, "arguments": json!(call.arguments).to_string()});
                json!({"id": id(at), "type": "function", "function": function})
            })
            .collect();
        let mut message = json!({"role": "assistant", "content": text});
        if !calls.is_empty() {
            message["tool_calls"] = json!(calls);
        }
        let choice = json!({"index": 0, "message": message, "finish_reason": finish});
        return whole(&with(base, json!({"object": "chat.completion", "choices": [choice], "usage": usage})));
    }
    let mut events = Events::default();
    let mut put = |delta: Value, finish: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        let chunk = json!({"object": "chat.completion.chunk", "choices": [choice]});
        events.put(None, &with(base.clone(), chunk));
    };
    put(json!({"role": "assistant", "content": ""}), Value::Null);
    pieces(&text).for_each(|piece| put(json!({"content": piece}), Value::Null));
    for (at, call) in calls.iter().enumerate() {
        let begin = json!({"index": at, "id": id(at), "type": "function", "function": {"name": call.name, "arguments": ""}});
        put(json!({"tool_calls": [begin]}), Value::Null);
        for piece in pieces(&json!(call.arguments).to_string()) {
            put(json!({"tool_calls": [{"index": at, "function": {"arguments": piece}}]}), Value::Null);
        }
    }
    put(json!({}), json!(finish));
    let last = json!({"object": "chat.completion.chunk", "choices": [], "usage": usage});
    events.put(None, &with(base, last));
    events.0 += "data: [DONE]\n\n";
    events.end()
}

pub(crate) fn anthropic(conversation: &Conversation, speech: &Speech) -> Body {
    let mut blocks = Vec::new();
    if conversation.reasons {
        let signature = seal(&speech.reasoning);
        blocks.push(json!({"type": "thinking", "thinking": speech.reasoning, "signature": signature}));
    }
    if !speech.text.is_empty() {
        blocks.push(json!({"type": "text", "text": speech.text}));
    }
    for (at, call) in speech.calls.iter().enumerate() {
        let id = format!("toolu_{:03}{at}", speech.number);
        blocks.push(json!({"type": "tool_use", "id": id, "name": call.name, "input": call.arguments}));
    }
    let stop = if speech.calls.is_empty() { "end_turn" } else { "tool_use" };
    let message = json!({
        "id": format!("msg_{}", speech.number), "type": "message", "role": "assistant", "model": conversation.model,
        "content": blocks, "stop_reason": stop, "stop_sequence": null,
        "usage": {"input_tokens": 100, "output_tokens": 10},
    });
    if !conversation.is_streamed {
        return whole(&message);
    }
    let mut events = Events::default();
    let mut put = |kind: &str, members: Value| events.put(Some(kind), &with(json!({"type": kind}), members));
    let begun = with(message, json!({"content": [], "stop_reason": null}));
    put("message_start", json!({"message": begun}));
    for (index, block) in blocks.iter().enumerate() {
        let empty = json!({"text": "", "thinking": "", "signature": "", "input": {}});
        let begin = block
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, value)| (key.clone(), empty.get(key).cloned().unwrap_or_else(|| value.clone())));
        put("content_block_start", json!({"index": index, "content_block": begin.collect::<Map<_, _>>()}));
        let mut grow = |kind: &str, key: &str, text: &str| {
            for piece in pieces(text) {
                put("content_block_delta", json!({"index": index, "delta": {"type": kind, key: piece}}));
            }
        };
        let text = |key: &str| block[key].as_str().unwrap_or_default();
        match text("type") {
            "thinking" => {
                grow("thinking_delta", "thinking", text("thinking"));
                let delta = json!({"type": "signature_delta", "signature": text("signature")});
                put("content_block_delta", json!({"index": index, "delta": delta}));
            }
            "text" => grow("text_delta", "text", text("text")),
            _ => grow("input_json_delta", "partial_json", &block["input"].to_string()),
        }
        put("content_block_stop", json!({"index": index}));
    }
    let delta = json!({"stop_reason": stop, "stop_sequence": null});
    put("message_delta", json!({"delta": delta, "usage": {"output_tokens": 10}}));
    put("message_stop", json!({}));
    events.end()
}

pub(crate) fn gemini(conversation: &Conversation, speech: &Speech) -> Body {
    let mut parts = vec![json!({"text": speech.reasoning, "thought": true})];
    if !speech.text.is_empty() {
        parts.push(json!({"text": speech.text}));
    }
    for (at, call) in speech.calls.iter().enumerate() {
        let mut part = json!({"functionCall": {"name": call.name, "args": call.arguments}});
        if at == 0 {
            part["thoughtSignature"] = json!(seal(&call.name));
        }
        parts.push(part);
    }
    let usage = json!({"promptTokenCount": 100, "candidatesTokenCount": 10, "totalTokenCount": 110});
    let base = json!({"usageMetadata": usage, "modelVersion": conversation.model, "responseId": format!("r{}", speech.number)});
    let answer = |parts: &[Value], is_last: bool| {
        let mut candidate = json!({"content": {"parts": parts, "role": "model"}, "index": 0});
        if is_last {
            candidate["finishReason"] = json!("STOP");
        }
        with(base.clone(), json!({"candidates": [candidate]}))
    };
    if !conversation.is_streamed {
        return whole(&answer(&parts, true));
    }
    let mut events = Events::default();
    for (at, part) in parts.iter().enumerate() {
        events.put(None, &answer(std::slice::from_ref(part), at + 1 == parts.len()));
    }
    events.end()
}

pub(crate) fn responses(conversation: &Conversation, speech: &Speech) -> Body {
    let number = speech.number;
    let mut items = Vec::new();
    let id = format!("rs_own_{number}");
    let summary = json!([{"type": "summary_text", "text": speech.reasoning}]);
    items.push(json!({"id": id, "type": "reasoning", "summary": summary, "encrypted_content": seal(&id)}));
    if !speech.text.is_empty() {
        let part = json!({"type": "output_text", "text": speech.text, "annotations": []});
        items.push(json!({
            "id": format!("msg_own_{number}"), "type": "message", "role": "assistant", "status": "completed",
            "content": [part],
        }));
    }
    for (at, call) in speech.calls.iter().enumerate() {
        items.push(json!({
            "id": format!("fc_own_{number}_{at}"), "type": "function_call", "call_id": format!("call_{number}_{at}"),
            "name": call.name, "arguments": json!(call.arguments).to_string(), "status": "completed",
        }));
    }
    let response = json!({
        "id": format!("resp_{number}"), "object": "response", "created_at": 1_700_000_000, "model": conversation.model,
        "status": "completed", "error": null, "incomplete_details": null, "instructions": null, "metadata": {},
        "output": items, "parallel_tool_calls": true, "tool_choice": "auto", "tools": [], "temperature": 1, "top_p": 1,
        "usage": {
            "input_tokens": 100, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 10,
            "output_tokens_details": {"reasoning_tokens": 5}, "total_tokens": 110,
        },
    });
    if !conversation.is_streamed {
        return whole(&response);
    }
    let (mut events, mut sequence) = (Events::default(), 0);
    let mut put = |kind: &str, members: Value| {
        let event = with(json!({"type": kind, "sequence_number": sequence}), members);
        events.put(Some(kind), &event);
        sequence += 1;
    };
    let begun = with(response.clone(), json!({"status": "in_progress", "output": [], "usage": null}));
    put("response.created", json!({"response": begun}));
    for (index, item) in items.iter().enumerate() {
        let at = json!({"item_id": item["id"], "output_index": index});
        match item["type"].as_str().unwrap_or_default() {
            "reasoning" => {
                let begun = with(item.clone(), json!({"summary": []}));
                put("response.output_item.added", json!({"output_index": index, "item": begun}));
                let part =
                    |text: &str| json!({"summary_index": 0, "part": {"type": "summary_text", "text": text}});
                put("response.reasoning_summary_part.added", with(at.clone(), part("")));
                for piece in pieces(&speech.reasoning) {
                    let delta = json!({"summary_index": 0, "delta": piece});
                    put("response.reasoning_summary_text.delta", with(at.clone(), delta));
                }
                let done = json!({"summary_index": 0, "text": speech.reasoning});
                put("response.reasoning_summary_text.done", with(at.clone(), done));
                put("response.reasoning_summary_part.done", with(at.clone(), part(&speech.reasoning)));
            }
            "message" => {
                let begun = with(item.clone(), json!({"content": [], "status": "in_progress"}));
                put("response.output_item.added", json!({"output_index": index, "item": begun}));
                let part = |text: &str| json!({"content_index": 0, "part": {"type": "output_text", "text": text, "annotations": []}});
                put("response.content_part.added", with(at.clone(), part("")));
                for piece in pieces(&speech.text) {
                    let delta = json!({"content_index": 0, "delta": piece});
                    put("response.output_text.delta", with(at.clone(), delta));
                }
                let done = json!({"content_index": 0, "text": speech.text});
                put("response.output_text.done", with(at.clone(), done));
                put("response.content_part.done", with(at.clone(), part(&speech.text)));
            }
            _ => {
                let begun = with(item.clone(), json!({"arguments": "", "status": "in_progress"}));
                put("response.output_item.added", json!({"output_index": index, "item": begun}));
                let arguments = item["arguments"].as_str().unwrap_or_default();
                for piece in pieces(arguments) {
                    put("response.function_call_arguments.delta", with(at.clone(), json!({"delta": piece})));
                }
                let done = json!({"arguments": arguments});
                put("response.function_call_arguments.done", with(at.clone(), done));
            }
        }
        put("response.output_item.done", json!({"output_index": index, "item": item}));
    }
    put("response.completed", json!({"response": response}));
    events.end()
}
