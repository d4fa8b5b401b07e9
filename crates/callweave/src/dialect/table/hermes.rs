use super::super::spec::{CallBody, Dialect, CallForm, HeaderBody, JsonBody};

pub(super) fn dialect() -> Dialect {
    // In these tags tools are declared, too, with their parameters.
    let called = JsonBody { arguments: vec!["arguments".to_owned()], ..JsonBody::default() };
    Dialect::new("hermes")
        .aliases(["qwen25", "qwen2_5", "granite4"])
        .models(["hermes-2", "hermes-3", "hermes-4", "qwen2.5", "qwen2-", "qwen3", "qwq", "mimo-vl", "trinity", "granite-4"])
        .reasoning("<think>", "</think>")
        .form(CallForm::json().between("<tool_call>", "</tool_call>"))
        // Variants that small models write: another tag, or another notation.
        .form(CallForm::new(CallBody::Json(called)).between("<tools>", "</tools>"))
        .form(CallForm::json().between("<tool_use>", "</tool_use>"))
        // Other spellings of its tag.
        .form(
            CallForm::json()
                .between("<TOOL_CALL>", "</TOOL_CALL>")
                .between("<tool-call>", "</tool-call>")
                .between("<tool_call >", "</tool_call >")
                .between("< tool_call>", "</ tool_call>")
                .between("<function_call>", "</function_call>"),
        )
        .form(CallForm::new(CallBody::Header(HeaderBody::default())).between("<tool_call>", "</tool_call>"))
        .form(CallForm::new(CallBody::Python {}).between("<tool_call>", "</tool_call>"))
        .example("<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>")
        .result("<tool_response>\n{content}\n</tool_response>")
        .declaration("<tools>\n{tools}\n</tools>")
}
