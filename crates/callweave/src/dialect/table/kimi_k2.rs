use super::super::spec::{Body, Dialect, Form, Header, HeaderName};
use super::super::tools::Tools;

pub(super) fn dialect() -> Dialect {
    let header = Header {
        name: HeaderName::Numbered,
        brace_ends_name: true,
        ..Header::until(["<|tool_call_argument_begin|>"])
    };
    Dialect::new("kimi_k2")
        .aliases(["kimi"])
        .models(["kimi-k2", "kimi_k2"])
        .thoughts("<think>", "</think>")
        .form(Form::new(Body::Header(header)).between("<|tool_call_begin|>", "<|tool_call_end|>"))
        .markup([
            "<|tool_calls_section_begin|>",
            "<|tool_calls_section_end|>",
            "<|tool_call_section_begin|>",
            "<|tool_call_section_end|>",
            "<|tool_call_argument_begin|>",
            "<|tool_call_end|>",
        ])
        .example(
            "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0\
             <|tool_call_argument_begin|>{\"city\": \"Oslo\"}<|tool_call_end|><|tool_calls_section_end|>",
        )
}

/// The name in `functions.NAME:COUNTER`.
pub(in crate::dialect) fn numbered<'t>(written: &'t str, tools: &Tools) -> &'t str {
    let is_counter = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let name = match written.rsplit_once(':') {
        Some((name, counter)) if is_counter(counter) => name,
        _ => written,
    };
    if tools.contains(name) { name } else { name.strip_prefix("functions.").unwrap_or(name) }
}
