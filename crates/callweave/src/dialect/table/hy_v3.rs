use super::super::spec::{CallBody, Dialect, CallForm, NamedTag, TaggedBody};

pub(super) fn dialect() -> Dialect {
    let body = TaggedBody {
        call: NamedTag::direct("<tool_call{suffix}>", "<tool_sep{suffix}>"),
        call_close: ["</tool_call{suffix}>", "<end_of_tool_call{suffix}>"].map(str::to_owned).to_vec(),
        parameter: NamedTag::direct("<arg_key{suffix}>", "</arg_key{suffix}>"),
        value_open: "<arg_value{suffix}>".to_owned(),
        value_close: "</arg_value{suffix}>".to_owned(),
        ..TaggedBody::default()
    };
    Dialect::new("hy_v3")
        .models(["hy3", "hunyuan-3"])
        .reasoning("<think{suffix}>", "</think{suffix}>")
        .form(CallForm::new(CallBody::Tagged(body)).shared().between("<tool_calls{suffix}>", "</tool_calls{suffix}>"))
        .example(
            "<tool_calls>\n<tool_call>get_weather<tool_sep>\n<arg_key>city</arg_key>\n\
             <arg_value>Oslo</arg_value>\n</tool_call>\n</tool_calls>",
        )
}
