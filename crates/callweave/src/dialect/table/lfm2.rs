use super::super::spec::{Body, Dialect, Form};

pub(super) fn dialect() -> Dialect {
    Dialect::new("lfm2")
        .models(["lfm2"])
        .thoughts("<think>", "</think>")
        .quotes_calls_in_thoughts()
        .form(Form::new(Body::Python {}).between("<|tool_call_start|>", "<|tool_call_end|>"))
        .form(Form::json().between("<|tool_call_start|>", "<|tool_call_end|>"))
        .form(Form::new(Body::Python {}))
        .markup(["<|im_end|>"])
        .example("<|tool_call_start|>[get_weather(city=\"Oslo\")]<|tool_call_end|>")
        .declaration("List of tools: <|tool_list_start|>{list}<|tool_list_end|>")
}
