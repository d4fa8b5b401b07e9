use super::super::spec::{CallBody, Dialect, CallForm, NamedTag, TaggedBody};

pub(super) fn dialect() -> Dialect {
    let body = TaggedBody {
        call: NamedTag::direct("<tool_call>", ""),
        call_close: vec!["</tool_call>".to_owned()],
        parameter: NamedTag::direct("<arg_key>", "</arg_key>"),
        value_open: "<arg_value>".to_owned(),
        value_close: "</arg_value>".to_owned(),
        ..TaggedBody::default()
    };
    Dialect::new("glm47")
        .aliases(["glm45", "glm46", "glm5", "ling3"])
        .models(["glm-4.5", "glm-4.6", "glm-4.7", "glm-5", "ling-3"])
        .reasoning("<think>", "</think>")
        .form(CallForm::new(CallBody::Tagged(body)))
        .markup(["<|observation|>", "<|user|>"])
        .example("<tool_call>get_weather<arg_key>city</arg_key><arg_value>Oslo</arg_value></tool_call>")
        .result("<tool_response>\n{content}\n</tool_response>")
        .declaration("<tools>\n{tools}\n</tools>")
}
