use super::super::spec::{Dialect, CallForm};

pub(super) fn dialect() -> Dialect {
    Dialect::new("reka_edge")
        .models(["reka-edge", "reka-flash"])
        .reasoning("<think>", "</think>")
        .quotes_calls_in_reasoning()
        .form(CallForm::json().between("<tool_call>", "</tool_call>"))
        .example("<think>\nA city.\n</think>\n\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}</tool_call>")
}
