use super::super::spec::{CallBody, Dialect, CallForm};

pub(super) fn dialect() -> Dialect {
    Dialect::new("lfm2")
        .models(["lfm2"])
        .reasoning("<think>", "</think>")
        .quotes_calls_in_reasoning()
        .form(CallForm::new(CallBody::Python {}).between("<|tool_call_start|>", "<|tool_call_end|>"))
        .form(CallForm::json().between("<|tool_call_start|>", "<|tool_call_end|>"))
        .form(CallForm::new(CallBody::Python {}))
        .markup(["<|im_end|>"])
        .example("<|tool_call_start|>[get_weather(city=\"Oslo\")]<|tool_call_end|>")
        .declaration("List of tools: <|tool_list_start|>{list}<|tool_list_end|>")
}
