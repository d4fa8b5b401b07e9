//! The same truth as other protocols stream it.

use serde_json::{Value, json};

use super::{Call, Dice, Truth};

/// A protocol and a way in which its servers write a response: the frames, without their framing.
pub(crate) struct Way {
    pub(crate) protocol: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) frames: fn(&Truth, &str, &mut Dice) -> Vec<Value>,
}

pub(crate) const WAYS: &[Way] = &[
    anthropic("plain"),
    anthropic("interleaved"),
    anthropic("beginning in the start"),
    anthropic("empty deltas and pings"),
    anthropic("numbers with gaps"),
    responses("plain"),
    responses("interleaved"),
    responses("only done"),
    responses("not added"),
    responses("nothing in the end"),
    gemini("plain"),
    gemini("in one chunk"),
    gemini("empty text in the end"),
    gemini("snake case"),
    ollama("plain"),
    ollama("calls one by one"),
    cohere("plain"),
];

const fn anthropic(kind: &'static str) -> Way {
    Way { protocol: "anthropic-messages", kind, frames: messages }
}

const fn responses(kind: &'static str) -> Way {
    Way { protocol: "openai-responses", kind, frames: items }
}

const fn gemini(kind: &'static str) -> Way {
    Way { protocol: "gemini-generatecontent", kind, frames: candidates }
}

const fn ollama(kind: &'static str) -> Way {
    Way { protocol: "ollama", kind, frames: lines }
}

const fn cohere(kind: &'static str) -> Way {
    Way { protocol: "cohere-v2", kind, frames: contents }
}

/// The frames of several blocks, each in its order: one block after the other, or a die decides.
fn merged(mut blocks: Vec<Vec<Value>>, kind: &str, dice: &mut Dice) -> Vec<Value> {
    if kind != "interleaved" {
        return blocks.into_iter().flatten().collect();
    }
    // The blocks begin in their order.
    let mut all: Vec<Value> = blocks.iter_mut().map(|block| block.remove(0)).collect();
    blocks.retain(|block| !block.is_empty());
    while !blocks.is_empty() {
        let at = dice.below(blocks.len());
        all.push(blocks[at].remove(0));
        blocks.retain(|block| !block.is_empty());
    }
    all
}

fn messages(truth: &Truth, kind: &str, dice: &mut Dice) -> Vec<Value> {
    let mut blocks: Vec<Vec<Value>> = Vec::new();
    let number = |at: usize| if kind == "numbers with gaps" { 3 * at + 2 } else { at };
    for (text, word, delta) in
        [(&truth.reasoning, "thinking", "thinking_delta"), (&truth.text, "text", "text_delta")]
    {
        let index = number(blocks.len());
        let mut pieces = dice.pieces(text);
        let first = if kind == "beginning in the start" { pieces.remove(0) } else { String::new() };
        let start = json!({"type": "content_block_start", "index": index, "content_block": {"type": word, word: first}});
        let told = pieces.into_iter().map(
            |piece| json!({"type": "content_block_delta", "index": index, "delta": {"type": delta, word: piece}}),
        );
        let stop = json!({"type": "content_block_stop", "index": index});
        if !text.is_empty() {
            blocks.push([vec![start], told.collect(), vec![stop]].concat());
        }
    }
    for Call { id, name, arguments } in &truth.calls {
        let index = number(blocks.len());
        let start = json!({"type": "content_block_start", "index": index,
            "content_block": {"type": "tool_use", "id": id, "name": name, "input": {}}});
        let grown = |piece: &str| json!({"type": "content_block_delta", "index": index, "delta": {"type": "input_json_delta", "partial_json": piece}});
        let mut told = vec![start];
        if kind == "empty deltas and pings" {
            told.extend([grown(""), json!({"type": "ping"})]);
        }
        // Without arguments there may be no delta at all.
        if arguments != "{}" || dice.chance(2) {
            told.extend(dice.pieces(arguments).iter().map(|piece| grown(piece)));
        }
        told.push(json!({"type": "content_block_stop", "index": index}));
        blocks.push(told);
    }
    let reason = if truth.calls.is_empty() { "end_turn" } else { "tool_use" };
    let mut all =
        vec![json!({"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant",
        "model": "c", "content": [], "usage": {"input_tokens": 1, "output_tokens": 1}}})];
    all.extend(merged(blocks, kind, dice));
    all.push(
        json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 2}}),
    );
    all.push(json!({"type": "message_stop"}));
    all
}

fn items(truth: &Truth, kind: &str, dice: &mut Dice) -> Vec<Value> {
    let (mut blocks, mut output): (Vec<Vec<Value>>, Vec<Value>) = (Vec::new(), Vec::new());
    let with_deltas = kind != "only done";
    let mut put = |item: Value, opened: Value, grown: Vec<Value>, over: Value| {
        let at = output.len();
        let mut told = Vec::new();
        if kind != "not added" {
            told.push(json!({"type": "response.output_item.added", "output_index": at, "item": opened}));
        }
        for mut event in grown.into_iter().filter(|_| with_deltas).chain([over]) {
            (event["output_index"], event["item_id"]) = (json!(at), item["id"].clone());
            told.push(event);
        }
        told.push(json!({"type": "response.output_item.done", "output_index": at, "item": item}));
        output.push(item);
        blocks.push(told);
    };
    if !truth.reasoning.is_empty() {
        let part = json!([{"type": "summary_text", "text": truth.reasoning}]);
        let item = |summary: Value| json!({"type": "reasoning", "id": "rs_1", "summary": summary});
        let event = |verb: &str, key: &str, text: &str| json!({"type": format!("response.reasoning_summary_text.{verb}"), "summary_index": 0, key: text});
        let grown =
            dice.pieces(&truth.reasoning).iter().map(|piece| event("delta", "delta", piece)).collect();
        put(item(part), item(json!([])), grown, event("done", "text", &truth.reasoning));
    }
    if !truth.text.is_empty() {
        let part = json!([{"type": "output_text", "text": truth.text, "annotations": []}]);
        let item = |content: Value| json!({"type": "message", "id": "msg_1", "role": "assistant", "content": content});
        let event = |verb: &str, key: &str, text: &str| json!({"type": format!("response.output_text.{verb}"), "content_index": 0, key: text});
        let grown = dice.pieces(&truth.text).iter().map(|piece| event("delta", "delta", piece)).collect();
        put(item(part), item(json!([])), grown, event("done", "text", &truth.text));
    }
    for (number, Call { id, name, arguments }) in truth.calls.iter().enumerate() {
        let item = |arguments: &str| json!({"type": "function_call", "id": format!("fc_{number}"), "call_id": id, "name": name, "arguments": arguments});
        let event = |verb: &str, key: &str, text: &str| json!({"type": format!("response.function_call_arguments.{verb}"), key: text});
        let grown = dice.pieces(arguments).iter().map(|piece| event("delta", "delta", piece)).collect();
        put(item(arguments), item(""), grown, event("done", "arguments", arguments));
    }
    let response = |status: &str, output: &[Value]| json!({"id": "r", "object": "response", "model": "m", "status": status, "output": output});
    let output = if kind == "nothing in the end" { Vec::new() } else { output };
    let mut all = vec![json!({"type": "response.created", "response": response("in_progress", &[])})];
    all.extend(merged(blocks, kind, dice));
    all.push(json!({"type": "response.completed", "response": response("completed", &output)}));
    for (number, event) in all.iter_mut().enumerate() {
        event["sequence_number"] = json!(number);
    }
    all
}

fn candidates(truth: &Truth, kind: &str, dice: &mut Dice) -> Vec<Value> {
    let mut parts = Vec::new();
    for (text, is_reasoning) in [(&truth.reasoning, true), (&truth.text, false)] {
        for piece in dice.pieces(text).into_iter().filter(|piece| !piece.is_empty()) {
            parts.push(match is_reasoning {
                true => json!({"text": piece, "thought": true}),
                false => json!({"text": piece}),
            });
        }
    }
    let call_word = if kind == "snake case" { "function_call" } else { "functionCall" };
    for Call { id, name, arguments } in &truth.calls {
        let arguments: Value = arguments.parse().expect("JSON");
        parts.push(json!({call_word: {"id": id, "name": name, "args": arguments}}));
    }
    if kind == "empty text in the end" {
        parts.push(json!({"text": ""}));
    }
    let groups: Vec<Vec<Value>> = match kind {
        "in one chunk" => vec![parts],
        _ => parts.into_iter().map(|part| vec![part]).collect(),
    };
    let finish = if kind == "snake case" { "finish_reason" } else { "finishReason" };
    let last = groups.len() - 1;
    groups
        .into_iter()
        .enumerate()
        .map(|(at, parts)| {
            let mut candidate = json!({"content": {"parts": parts, "role": "model"}, "index": 0});
            if at == last {
                candidate[finish] = json!("STOP");
            }
            json!({"candidates": [candidate], "modelVersion": "g", "responseId": "r"})
        })
        .collect()
}

fn lines(truth: &Truth, kind: &str, dice: &mut Dice) -> Vec<Value> {
    let line = |message: Value| json!({"model": "m", "created_at": "2026-05-01T00:00:00Z", "message": message, "done": false});
    let thoughts = dice
        .pieces(&truth.reasoning)
        .into_iter()
        .map(|piece| line(json!({"role": "assistant", "content": "", "thinking": piece})));
    let mut all: Vec<Value> = thoughts.collect();
    all.extend(
        dice.pieces(&truth.text)
            .into_iter()
            .map(|piece| line(json!({"role": "assistant", "content": piece}))),
    );
    let calls = truth.calls.iter().map(|call| {
        let arguments: Value = call.arguments.parse().expect("JSON");
        json!({"function": {"name": call.name, "arguments": arguments}})
    });
    let calls: Vec<Value> = calls.collect();
    let size = if kind == "calls one by one" { 1 } else { calls.len().max(1) };
    for calls in calls.chunks(size) {
        all.push(line(json!({"role": "assistant", "content": "", "tool_calls": calls})));
    }
    let mut last = line(json!({"role": "assistant", "content": ""}));
    (last["done"], last["done_reason"]) = (json!(true), json!("stop"));
    all.push(last);
    all
}

fn contents(truth: &Truth, _kind: &str, dice: &mut Dice) -> Vec<Value> {
    let mut all =
        vec![json!({"type": "message-start", "id": "x", "delta": {"message": {"role": "assistant"}}})];
    for (index, (text, word)) in
        [(&truth.reasoning, "thinking"), (&truth.text, "text")].into_iter().enumerate()
    {
        if text.is_empty() {
            continue;
        }
        let event = |kind: &str, content: Value| json!({"type": kind, "index": index, "delta": {"message": {"content": content}}});
        all.push(event("content-start", json!({"type": word, word: ""})));
        all.extend(dice.pieces(text).into_iter().map(|piece| event("content-delta", json!({word: piece}))));
        all.push(json!({"type": "content-end", "index": index}));
    }
    for (index, Call { id, name, arguments }) in truth.calls.iter().enumerate() {
        let event = |kind: &str, call: Value| json!({"type": kind, "index": index, "delta": {"message": {"tool_calls": call}}});
        let opened = json!({"id": id, "type": "function", "function": {"name": name, "arguments": ""}});
        all.push(event("tool-call-start", opened));
        let grown = dice.pieces(arguments).into_iter();
        all.extend(grown.map(|piece| event("tool-call-delta", json!({"function": {"arguments": piece}}))));
        all.push(json!({"type": "tool-call-end", "index": index}));
    }
    let reason = if truth.calls.is_empty() { "COMPLETE" } else { "TOOL_CALL" };
    all.push(json!({"type": "message-end", "delta": {"finish_reason": reason}}));
    all
}
