use super::super::spec::{Dialect, CallForm};

pub(super) fn dialect() -> Dialect {
    Dialect::new("apriel_16")
        .models(["apriel-1.6"])
        .reasoning("Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]")
        .starts_in_reasoning()
        .form(CallForm::json().between("<tool_calls>", "</tool_calls>"))
        .markup(["<|end|>"])
        .example("A city.\n[BEGIN FINAL RESPONSE]\n<tool_calls>[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}]</tool_calls>")
}
