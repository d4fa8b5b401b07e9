use super::super::spec::{Dialect, Form};

pub(super) fn dialect() -> Dialect {
    Dialect::new("xlam")
        .models(["xlam"])
        .thoughts("<think>", "</think>")
        .form(Form::json().between("[TOOL_CALLS]", "[/TOOL_CALLS]"))
        .form(Form::json().between("<tool_call>", "</tool_call>"))
        .form(Form::json())
        .example("[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}]")
}
