//! The content of a response, feature by feature, in words that no protocol owns.

use std::collections::BTreeMap;

use callweave::event::{AttachmentKind, BlockCompletion, CallKind, NoticeCode};
use callweave::json::repair::repair;
use callweave::message::{Attachment, Block, BlockContent, Choice, Message, ToolCall};
use serde_json::{Value, json};

/// The values of a response's features, by name. A feature without content is absent.
pub(crate) type Features = BTreeMap<&'static str, Value>;

/// Features that clients of the response's own protocol must have. Its other extra fields are passed on as far as these
/// clients know them.
const OF_ITS_OWN: &[&str] =
    &["text", "reasoning", "refusal", "calls", "signature of reasoning", "input tokens", "output tokens"];

/// The features of a response, or of one that stays in its protocol. Their names are those of the losses.
pub(crate) fn features(message: &Message, is_own: bool) -> Features {
    let mut all = Features::new();
    let mut set = |name, value: Value| {
        let is_nothing = match &value {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Array(list) => list.is_empty(),
            Value::Number(number) => number.as_u64() == Some(0),
            _ => false,
        };
        if !is_nothing && (!is_own || OF_ITS_OWN.contains(&name)) {
            all.insert(name, value);
        }
    };
    set("id", json!(message.id));
    set("model", json!(message.model));
    let is_cut_off = message.notices.iter().any(|notice| notice.code == NoticeCode::Truncated);
    set("cut of the answer", json!(is_cut_off.then_some(true)));
    let counters = message.usage.as_ref().map(|usage| usage.counters()).unwrap_or_default();
    for (name, count) in [
        ("input tokens", counters.input_tokens),
        ("output tokens", counters.output_tokens),
        ("total tokens", counters.total_tokens),
        ("cached tokens", counters.cached_tokens),
        ("cache write tokens", counters.cache_write_tokens),
        ("reasoning tokens", counters.reasoning_tokens),
    ] {
        set(name, json!(count));
    }
    // Some protocols keep the first of several, some the last.
    if let [error] = &message.errors[..] {
        set("error", json!(error.message));
        set("class of an error", json!(format!("{:?}", error.class)));
    }
    let Some(first) = message.first() else { return all };
    let others = message.choices.iter().filter(|choice| choice.number != first.number);
    set("other choices", others.map(|choice| json!([text(choice), calls(choice)])).collect());
    set("text", text(first).into());
    set("refusal", first.refusal().into());
    set("reasoning", first.reasoning().into());
    let thoughts = || first.blocks.iter().filter(|block| is_reasoning(block));
    let shown = thoughts().filter(|block| !block.content.to_string().is_empty());
    let mut forms: Vec<String> = shown
        .filter_map(|block| match &block.content {
            BlockContent::Reasoning { form, .. } => Some(format!("{form:?}")),
            _ => None,
        })
        .collect();
    forms.dedup();
    set("form of reasoning", json!(forms));
    let of = |kind| move |own: &&Attachment| own.kind == kind;
    let values = |own: &Attachment| own.value.to_value().to_string();
    let on_thoughts = thoughts().flat_map(|block| &block.attachments);
    set(
        "signature of reasoning",
        on_thoughts.filter(of(AttachmentKind::Signature)).map(values).collect::<Vec<_>>().into(),
    );
    let elsewhere = first.blocks.iter().filter(|block| !is_reasoning(block));
    let elsewhere = elsewhere.flat_map(|block| &block.attachments).chain(&first.attachments);
    set(
        "signature of other content",
        elsewhere.filter(of(AttachmentKind::Signature)).map(values).collect::<Vec<_>>().into(),
    );
    for (name, kind) in [
        ("encrypted reasoning", AttachmentKind::Encrypted),
        ("annotation", AttachmentKind::Annotation),
        ("log probabilities", AttachmentKind::Logprobs),
    ] {
        set(name, first.attachments(kind).map(values).collect::<Vec<_>>().into());
    }
    set("calls", calls(first));
    let own = || first.tool_calls().filter(|call| call.kind != CallKind::Builtin);
    let is_custom = |call: &ToolCall| call.kind == CallKind::Custom;
    set(
        "kind of a custom call",
        own().filter(|call| is_custom(call)).map(|call| call.name.clone()).collect(),
    );
    let is_truncated = |call: &&ToolCall| call.completion == BlockCompletion::Truncated;
    set("cut of a call", own().filter(is_truncated).map(|call| call.name.clone()).collect());
    let builtin = first.tool_calls().filter(|call| call.kind == CallKind::Builtin);
    set("call that the provider ran", builtin.map(|call| call.name.clone()).collect());
    set(
        "result that the provider has",
        first.tool_results().map(|own| own.value.to_value().to_string()).collect(),
    );
    let opaque = first.blocks.iter().filter_map(|block| match &block.content {
        BlockContent::Opaque(value) => Some(value.to_value().to_string()),
        _ => None,
    });
    set("other content", opaque.collect());
    set("finish reason", json!(first.finish.as_ref().map(|finish| format!("{:?}", finish.reason))));
    all
}

fn is_reasoning(block: &Block) -> bool {
    matches!(block.content, BlockContent::Reasoning { .. })
}

/// Returns the text, of which refusals are a part.
fn text(choice: &Choice) -> String {
    let texts = choice.blocks.iter().filter_map(|block| match &block.content {
        BlockContent::Text(text) | BlockContent::Refusal(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

/// The calls that the client is to run. An id that several share is left to the first of them.
fn calls(choice: &Choice) -> Value {
    let mut ids: Vec<&str> = Vec::new();
    let calls = choice.tool_calls().filter(|call| call.kind != CallKind::Builtin);
    let calls = calls.map(|call| {
        let is_first = !ids.contains(&call.id.as_str());
        ids.push(&call.id);
        json!([if is_first { call.id.as_str() } else { "" }, call.name, arguments(call)])
    });
    calls.collect()
}

/// The arguments by value, however the wire writes them: free text and values other than objects in an object of one
/// member, repairable ones repaired.
fn arguments(call: &ToolCall) -> Value {
    let text = match call.kind {
        // The form of truncated free text depends on the wire.
        CallKind::Custom if call.completion == BlockCompletion::Truncated => return Value::Null,
        CallKind::Custom => return json!({ "input": call.raw_arguments }),
        _ => call.raw_arguments.trim_ascii(),
    };
    // On the way back it may be told in itself.
    let mut told = text.to_owned();
    while let Some(inside) = serde_json::from_str::<Value>(&repair(&told).text)
        .ok()
        .and_then(|value| Some(value.get("INVALID_JSON")?.as_str()?.trim_ascii().to_owned()))
    {
        told = inside;
    }
    match serde_json::from_str(&repair(&told).text) {
        _ if matches!(told.as_str(), "" | "null") => json!({}),
        Ok(object @ Value::Object(_)) => object,
        _ => json!({ "INVALID_JSON": told }),
    }
}
