use super::super::spec::{Body, Dialect, Form, Header, Json};

pub(super) fn dialect() -> Dialect {
    // In these tags tools are declared, too, with their parameters.
    let called = Json { arguments: vec!["arguments".to_owned()], ..Json::default() };
    Dialect::new("hermes")
        .aliases(["qwen25", "qwen2_5", "granite4"])
        .models(["hermes-2", "hermes-3", "hermes-4", "qwen2.5", "qwen2-", "qwen3", "qwq", "mimo-vl", "trinity", "granite-4"])
        .thoughts("<think>", "</think>")
        .form(Form::json().between("<tool_call>", "</tool_call>"))
        // What small models make of it: another tag, or another notation.
        .form(Form::new(Body::Json(called)).between("<tools>", "</tools>"))
        .form(Form::json().between("<tool_use>", "</tool_use>"))
        // Other spellings of its tag.
        .form(
            Form::json()
                .between("<TOOL_CALL>", "</TOOL_CALL>")
                .between("<tool-call>", "</tool-call>")
                .between("<tool_call >", "</tool_call >")
                .between("< tool_call>", "</ tool_call>")
                .between("<function_call>", "</function_call>"),
        )
        .form(Form::new(Body::Header(Header::default())).between("<tool_call>", "</tool_call>"))
        .form(Form::new(Body::Python {}).between("<tool_call>", "</tool_call>"))
        .example("<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>")
        .result("<tool_response>\n{content}\n</tool_response>")
        .declaration("<tools>\n{tools}\n</tools>")
}
