use super::super::spec::{Dialect, CallForm};

pub(super) fn dialect() -> Dialect {
    Dialect::new("tool_call_brackets")
        .aliases(["[TOOL_CALL]"])
        .form(CallForm::json().between("[TOOL_CALL]", "[/TOOL_CALL]"))
        .form(CallForm::json().between("[TOOL_REQUEST]", "[END_TOOL_REQUEST]"))
        .example("[TOOL_CALL]{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}[/TOOL_CALL]")
}
