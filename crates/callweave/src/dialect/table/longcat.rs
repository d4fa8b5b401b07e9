use super::super::spec::{Body, Dialect, Form, Tag, Tagged};

pub(super) fn dialect() -> Dialect {
    let body = Tagged {
        call: Tag::direct("<longcat_tool_call>", ""),
        call_close: vec!["</longcat_tool_call>".to_owned()],
        parameter: Tag::direct("<longcat_arg_key>", "</longcat_arg_key>"),
        value_open: "<longcat_arg_value>".to_owned(),
        value_close: "</longcat_arg_value>".to_owned(),
        ..Tagged::default()
    };
    Dialect::new("longcat")
        .models(["longcat"])
        .thoughts("<longcat_think>", "</longcat_think>")
        .form(Form::json().between("<longcat_tool_call>", "</longcat_tool_call>"))
        .form(Form::new(Body::Tagged(body)))
        .example("<longcat_tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}</longcat_tool_call>")
}
