use super::super::spec::{Body, Dialect, Form, Header, HeaderName};

pub(super) fn dialect() -> Dialect {
    let header = Header { name: HeaderName::Numbered, ..Header::until(["<|tool_call_argument_begin|>"]) };
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
