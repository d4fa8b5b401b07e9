use super::super::spec::{CallBody, Dialect, CallForm, NamedTag, TaggedBody};

pub(super) fn dialect() -> Dialect {
    let body = TaggedBody {
        call: NamedTag::direct("<longcat_tool_call>", ""),
        call_close: vec!["</longcat_tool_call>".to_owned()],
        parameter: NamedTag::direct("<longcat_arg_key>", "</longcat_arg_key>"),
        value_open: "<longcat_arg_value>".to_owned(),
        value_close: "</longcat_arg_value>".to_owned(),
        ..TaggedBody::default()
    };
    Dialect::new("longcat")
        .models(["longcat"])
        .reasoning("<longcat_think>", "</longcat_think>")
        .form(CallForm::json().between("<longcat_tool_call>", "</longcat_tool_call>"))
        .form(CallForm::new(CallBody::Tagged(body)))
        .example("<longcat_tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}</longcat_tool_call>")
}
