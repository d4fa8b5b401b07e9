//! Spans of the processing door, through the facade `tracing`.
//!
//! Attributes follow OpenTelemetry's conventions for generative AI. `tracing` has no lists, so what the
//! conventions call a list (finish reasons, and the ids and names of calls) is the JSON text of one. Counts are
//! signed, because the bridge to OpenTelemetry writes unsigned numbers as text.
//!
//! A subscriber is somebody else's code: where it panics, the panic ends here and the span is given up. (A
//! program built to abort on panic aborts.)

use std::panic::{AssertUnwindSafe, catch_unwind};

use tracing::Span;
use tracing::field::Empty;

use super::provider::AgentProvider;
use super::redact::redact;
use super::{ApiType, Processed, PromptAgent, ResponseFacts, StreamFailure};
use crate::event::FinishReason;
use crate::json::{Tape, TapeNode, Value};
use crate::message::{BlockContent, Choice};
use crate::{Error, Result};

/// A span with every attribute declared, for `tracing` records only what was declared.
macro_rules! span {
    ($name:literal) => {
        tracing::info_span!(
            target: "callweave",
            $name,
            gen_ai.provider.name = Empty,
            gen_ai.operation.name = Empty,
            gen_ai.request.model = Empty,
            gen_ai.request.stream = Empty,
            gen_ai.agent.name = Empty,
            gen_ai.output.type = Empty,
            gen_ai.response.id = Empty,
            gen_ai.response.model = Empty,
            gen_ai.response.finish_reasons = Empty,
            gen_ai.usage.input_tokens = Empty,
            gen_ai.usage.output_tokens = Empty,
            gen_ai.usage.cache_read.input_tokens = Empty,
            gen_ai.usage.cache_creation.input_tokens = Empty,
            gen_ai.usage.reasoning.output_tokens = Empty,
            gen_ai.tool.call.id = Empty,
            gen_ai.tool.name = Empty,
            gen_ai.output.messages = Empty,
            error.type = Empty,
            otel.status_code = Empty,
            otel.status_description = Empty,
            signature = Empty,
            result_count = Empty,
            inputs = Empty,
            result = Empty,
        )
    };
}

/// A span whose subscriber may panic: the caller goes on in any case.
struct PanicSafeSpan(Option<Span>);

fn contained<T>(traced: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(traced)).ok()
}

impl PanicSafeSpan {
    fn open(open: impl FnOnce() -> Span) -> Self {
        Self(contained(open))
    }

    /// Records what `record` records, if anybody listens.
    fn record(&self, record: impl FnOnce(&Span)) {
        if let Some(span) = self.0.as_ref().filter(|span| !span.is_disabled()) {
            contained(|| record(span));
        }
    }
}

impl Drop for PanicSafeSpan {
    /// The span ends here, and not while a panic in [`PanicSafeSpan::record`] unwinds: a second one would abort.
    fn drop(&mut self) {
        let span = self.0.take();
        contained(move || drop(span));
    }
}

/// The span of one `process` call.
pub(super) struct ProcessSpan(PanicSafeSpan);

impl ProcessSpan {
    pub(super) fn begin(agent: &PromptAgent) -> Self {
        let span = PanicSafeSpan::open(|| span!("process"));
        span.record(|span| describe(span, agent, "process"));
        Self(span)
    }

    pub(super) fn end(
        self,
        agent: &PromptAgent,
        response: &Value,
        result: &Result<Processed>,
        learned: &ResponseFacts<'_>,
    ) {
        self.0.record(|span| {
            tell(span, agent, learned);
            if let Err(error) = result {
                fail(span, agent, error);
            }
            if agent.captures_content {
                span.record(
                    "inputs",
                    shown(Tape::new().lay_out(response).map(TapeNode::to_value).unwrap_or_default()),
                );
                record(
                    span,
                    "result",
                    result.as_ref().ok().and_then(|result| Value::of(result).ok()).map(shown).as_deref(),
                );
            }
        });
    }
}

/// The span of one stream. It is written when the source has ended: a reader that stops before leaves none.
pub(super) struct StreamSpan {
    agent: PromptAgent,
    /// The source's items, where they will be recorded.
    kept: Vec<Value>,
}

impl StreamSpan {
    pub(super) fn new(agent: &PromptAgent) -> Self {
        Self { agent: agent.clone(), kept: Vec::new() }
    }

    pub(super) fn keep(&mut self, item: impl FnOnce() -> Value) {
        if self.agent.captures_content {
            self.kept.push(item());
        }
    }

    pub(super) fn end(&mut self, taken: u64, learned: &ResponseFacts<'_>, failure: Option<&StreamFailure>) {
        let kept = std::mem::take(&mut self.kept);
        let agent = &self.agent;
        PanicSafeSpan::open(|| span!("PromptyStream")).record(|span| {
            describe(span, agent, "PromptyStream");
            span.record("gen_ai.request.stream", true);
            span.record("result_count", signed(taken));
            tell(span, agent, learned);
            if let Some(failure) = failure {
                fail(span, agent, &failure.error);
            }
            if agent.captures_content {
                span.record("inputs", "None");
                span.record("result", shown(kept.into()));
            }
        });
    }
}

/// Records the facts known from the start.
fn describe(span: &Span, agent: &PromptAgent, what: &str) {
    let provider =
        AgentProvider::named(&agent.provider).map_or(agent.provider.as_str(), |known| known.conventional());
    span.record("gen_ai.provider.name", provider);
    record(span, "gen_ai.request.model", agent.model.as_deref());
    record(span, "gen_ai.agent.name", agent.name.as_deref());
    let signature = agent.name.as_ref().map(|name| format!("{name}.{what}"));
    span.record("signature", signature.as_deref().unwrap_or(what));
}

/// Records the facts that the response states about itself.
fn tell(span: &Span, agent: &PromptAgent, learned: &ResponseFacts<'_>) {
    let ResponseFacts { message, protocol, value } = learned;
    let is_gemini = protocol.is_some_and(|protocol| protocol.name.starts_with("gemini"));
    let (operation, output) = match value.or(agent.api) {
        Some(ApiType::Embeddings) => ("embeddings", None),
        Some(ApiType::Images) => ("generate_content", Some("image")),
        Some(ApiType::Chat | ApiType::Responses) | None => {
            let operation = if is_gemini { "generate_content" } else { "chat" };
            (operation, agent.has_outputs.then_some("json"))
        }
    };
    span.record("gen_ai.operation.name", operation);
    record(span, "gen_ai.output.type", output);
    record(span, "gen_ai.response.id", message.id.as_deref());
    record(span, "gen_ai.response.model", message.model.as_deref());
    let reasons: Vec<_> = message.choices.iter().filter_map(finish_reason).collect();
    record(span, "gen_ai.response.finish_reasons", list(&reasons).as_deref());
    if let Some(usage) = &message.usage {
        let counters = usage.counters();
        for (key, count) in [
            ("gen_ai.usage.input_tokens", counters.input_tokens),
            ("gen_ai.usage.output_tokens", counters.output_tokens),
            ("gen_ai.usage.cache_read.input_tokens", counters.cached_tokens),
            ("gen_ai.usage.cache_creation.input_tokens", counters.cache_write_tokens),
            ("gen_ai.usage.reasoning.output_tokens", counters.reasoning_tokens),
        ] {
            if let Some(count) = count {
                span.record(key, signed(count));
            }
        }
    }
    let calls = || message.choices.iter().flat_map(Choice::tool_calls);
    record(
        span,
        "gen_ai.tool.call.id",
        list(&calls().map(|call| call.id.as_str()).collect::<Vec<_>>()).as_deref(),
    );
    record(
        span,
        "gen_ai.tool.name",
        list(&calls().map(|call| call.name.as_str()).collect::<Vec<_>>()).as_deref(),
    );
    if agent.captures_content && !message.choices.is_empty() {
        let messages: Vec<_> = message.choices.iter().map(output_message).collect();
        span.record("gen_ai.output.messages", shown(messages.into()));
    }
}

/// The message of an error may quote the request or the response, so only its kind is always recorded.
fn fail(span: &Span, agent: &PromptAgent, error: &Error) {
    span.record("error.type", error.kind().to_string());
    span.record("otel.status_code", "ERROR");
    if agent.captures_content {
        span.record("otel.status_description", error.detail());
    }
}

/// The provider's own finish reason; ours where it gave none.
fn finish_reason(choice: &Choice) -> Option<&str> {
    let finish = choice.finish.as_ref()?;
    Some(finish.raw.as_deref().unwrap_or(match finish.reason {
        FinishReason::Stop => "stop",
        FinishReason::Length => "length",
        FinishReason::ToolCalls => "tool_calls",
        FinishReason::ContentFilter => "content_filter",
        FinishReason::Error => "error",
        // Nothing was said.
        FinishReason::Other => return None,
    }))
}

/// A choice in the form that the conventions give to messages.
fn output_message(choice: &Choice) -> Value {
    let part = |kind: &str, text: &str| Value::object([("type", kind.into()), ("content", text.into())]);
    let parts = choice.blocks.iter().map(|block| match &block.content {
        BlockContent::Text(text) | BlockContent::Refusal(text) => part("text", text),
        BlockContent::Reasoning { text, .. } => part("reasoning", text),
        BlockContent::ToolCall(call) => {
            let arguments = call.arguments();
            Value::object([
                ("type", "tool_call".into()),
                ("id", call.id.as_str().into()),
                ("name", call.name.as_str().into()),
                ("arguments", arguments.parse().unwrap_or_else(|_| arguments.into())),
            ])
        }
        BlockContent::ToolResult(result) => {
            let id = result.call.as_deref().map_or(Value::Null, Value::from);
            Value::object([
                ("type", "tool_call_response".into()),
                ("id", id),
                ("response", result.value.to_value()),
            ])
        }
        BlockContent::Opaque(value) => {
            Value::object([("type", block.wire_type.as_str().into()), ("content", value.to_value())])
        }
    });
    Value::object([
        ("role", "assistant".into()),
        ("parts", parts.collect()),
        ("finish_reason", finish_reason(choice).into()),
    ])
}

fn shown(mut value: Value) -> String {
    redact(&mut value);
    value.to_string()
}

fn list(texts: &[&str]) -> Option<String> {
    (!texts.is_empty()).then(|| texts.iter().copied().collect::<Value>().to_string())
}

fn record(span: &Span, key: &'static str, text: Option<&str>) {
    if let Some(text) = text {
        span.record(key, text);
    }
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
