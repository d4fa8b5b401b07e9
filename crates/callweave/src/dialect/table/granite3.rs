use super::super::spec::{Dialect, CallForm};

pub(super) fn dialect() -> Dialect {
    Dialect::new("granite3")
        .aliases(["granite"])
        .models(["granite-3"])
        .reasoning("<think>", "</think>")
        .reasoning("Here is my thought process:", "Here is my response:")
        .reasoning("Here's my thought process:", "Here's my response:")
        .form(CallForm::json().open("<|tool_call|>"))
        .form(CallForm::json().between("<tool_call>", "</tool_call>"))
        .example("<|tool_call|> [{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}]")
}
