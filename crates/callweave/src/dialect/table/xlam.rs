use super::super::spec::{Dialect, CallForm};

pub(super) fn dialect() -> Dialect {
    Dialect::new("xlam")
        .models(["xlam"])
        .reasoning("<think>", "</think>")
        .form(CallForm::json().between("[TOOL_CALLS]", "[/TOOL_CALLS]"))
        .form(CallForm::json().between("<tool_call>", "</tool_call>"))
        .form(CallForm::json())
        .example("[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}]")
}
