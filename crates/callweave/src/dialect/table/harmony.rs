use super::super::channel::{Channels, Grammar, Notation, Route};
use super::super::spec::{Body, Dialect, Form, Header};
use super::super::tools::Tools;
use crate::event::CallKind;

pub(super) fn dialect() -> Dialect {
    let arguments = Form::new(Body::Header(Header::default()))
        .close("<|call|>")
        .close("<|end|>")
        .close("<|return|>");
    Dialect::new("harmony")
        .aliases(["gpt_oss"])
        .models(["gpt-oss"])
        .channels(Channels::Harmony)
        .form(arguments)
        .example(
            "<|channel|>analysis<|message|>A city.<|end|><|start|>assistant<|channel|>commentary \
             to=functions.get_weather <|constrain|>json<|message|>{\"city\": \"Oslo\"}<|call|>",
        )
        .result("<|start|>functions.{name} to=assistant<|channel|>commentary<|message|>{content}<|end|>")
        .declaration("{namespace}")
}

pub(in crate::dialect) static GRAMMAR: Grammar = Grammar {
                starts: &["<|start|>", "<|channel|>"],
                header_end: "<|message|>",
                ends: &["<|end|>", "<|return|>", "<|call|>", "<|eom|>", "<|eot|>"],
                begins_with: Some("to="),
                is_quoting: false,
                is_distinct: true,
                route,
                notation: Notation {
                    begin: "<|start|>assistant",
                    text: ("<|channel|>commentary<|message|>", "<|end|>"),
                    call: ("<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>", "<|call|>"),
                },
            };

fn route(header: &str, tools: &Tools) -> Route {
    let channel = header.rsplit("<|channel|>").next().unwrap_or_default().trim_start();
    let is_analysis = channel.starts_with("analysis");
    if let Some((start, end)) = recipient(header) {
        let name = &header[start..end];
        if let Some(function) = name.strip_prefix("functions.") {
            return Route::Call { start: end - function.len(), end, kind: CallKind::Function };
        }
        if name == "self" {
            return Route::Thought;
        }
        if !matches!(name, "assistant" | "all" | "user") {
            let kind = if tools.contains(name) { CallKind::Function } else { CallKind::Builtin };
            return Route::Call { start, end, kind };
        }
    }
    match is_analysis {
        true => Route::Thought,
        false if channel.starts_with("commentary") && header.contains("<|constrain|>") => Route::Nothing,
        false => Route::Text,
    }
}

/// Where the recipient of a header stands.
pub(super) fn recipient(header: &str) -> Option<(usize, usize)> {
    let start = header.find("to=")? + "to=".len();
    let len =
        header[start..].find(|end: char| end.is_whitespace() || end == '<').unwrap_or(header.len() - start);
    (len > 0).then_some((start, start + len))
}
