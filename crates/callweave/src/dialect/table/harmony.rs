use super::super::channel::{ChannelGrammar, ChannelRules, MessageNotation, MessageRoute};
use super::super::spec::{CallBody, Dialect, CallForm, HeaderBody};
use super::super::tools::Tools;
use crate::event::CallKind;

pub(super) fn dialect() -> Dialect {
    let arguments = CallForm::new(CallBody::Header(HeaderBody::default()))
        .close("<|call|>")
        .close("<|end|>")
        .close("<|return|>");
    Dialect::new("harmony")
        .aliases(["gpt_oss"])
        .models(["gpt-oss"])
        .channels(ChannelGrammar::Harmony)
        .form(arguments)
        .example(
            "<|channel|>analysis<|message|>A city.<|end|><|start|>assistant<|channel|>commentary \
             to=functions.get_weather <|constrain|>json<|message|>{\"city\": \"Oslo\"}<|call|>",
        )
        .result("<|start|>functions.{name} to=assistant<|channel|>commentary<|message|>{content}<|end|>")
        .declaration("{namespace}")
}

pub(in crate::dialect) static GRAMMAR: ChannelRules = ChannelRules {
                starts: &["<|start|>", "<|channel|>"],
                header_end: "<|message|>",
                ends: &["<|end|>", "<|return|>", "<|call|>", "<|eom|>", "<|eot|>"],
                begins_with: Some("to="),
                is_quoting: false,
                is_distinct: true,
                route,
                notation: MessageNotation {
                    begin: "<|start|>assistant",
                    text: ("<|channel|>commentary<|message|>", "<|end|>"),
                    call: ("<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>", "<|call|>"),
                },
            };

fn route(header: &str, tools: &Tools) -> MessageRoute {
    let channel = header.rsplit("<|channel|>").next().unwrap_or_default().trim_start();
    let is_analysis = channel.starts_with("analysis");
    if let Some((start, end)) = recipient(header) {
        let name = &header[start..end];
        if let Some(function) = name.strip_prefix("functions.") {
            return MessageRoute::Call { start: end - function.len(), end, kind: CallKind::Function };
        }
        if name == "self" {
            return MessageRoute::Thought;
        }
        if !matches!(name, "assistant" | "all" | "user") {
            let kind = if tools.contains(name) { CallKind::Function } else { CallKind::Builtin };
            return MessageRoute::Call { start, end, kind };
        }
    }
    match is_analysis {
        true => MessageRoute::Thought,
        false if channel.starts_with("commentary") && header.contains("<|constrain|>") => MessageRoute::Nothing,
        false => MessageRoute::Text,
    }
}

/// Where the recipient of a header stands.
pub(super) fn recipient(header: &str) -> Option<(usize, usize)> {
    let start = header.find("to=")? + "to=".len();
    let len =
        header[start..].find(|end: char| end.is_whitespace() || end == '<').unwrap_or(header.len() - start);
    (len > 0).then_some((start, start + len))
}
