use super::super::spec::{Dialect, Form};

pub(super) fn dialect() -> Dialect {
    Dialect::new("longcat")
        .models(["longcat"])
        .thoughts("<longcat_think>", "</longcat_think>")
        .form(Form::json().between("<longcat_tool_call>", "</longcat_tool_call>"))
        .example("<longcat_tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}</longcat_tool_call>")
}
