use super::super::spec::{Dialect, CallForm};

pub(super) fn dialect() -> Dialect {
    Dialect::new("hunyuan_a13b")
        .aliases(["hunyuan"])
        .models(["hunyuan-a13b", "hunyuan"])
        .reasoning("<think>", "</think>")
        .quotes_calls_in_reasoning()
        .form(CallForm::json().between("<tool_calls>", "</tool_calls>"))
        .markup(["<answer>", "</answer>"])
        .example("<answer><tool_calls>[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}]</tool_calls></answer>")
}
