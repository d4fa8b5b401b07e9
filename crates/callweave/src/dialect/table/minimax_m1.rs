use super::super::spec::{Dialect, CallForm};

pub(super) fn dialect() -> Dialect {
    Dialect::new("minimax_m1")
        .aliases(["minimax"])
        .models(["minimax-m1"])
        .reasoning("<think>", "</think>")
        .quotes_calls_in_reasoning()
        .form(CallForm::json().between("<tool_calls>", "</tool_calls>"))
        .example("<tool_calls>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_calls>")
        .declaration("<tools>\n{tools}\n</tools>")
}
