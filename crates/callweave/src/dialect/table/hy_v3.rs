use super::super::spec::{Body, Dialect, Form, Tag, Tagged};

pub(super) fn dialect() -> Dialect {
    let body = Tagged {
        call: Tag::direct("<tool_call{suffix}>", "<tool_sep{suffix}>"),
        call_close: ["</tool_call{suffix}>", "<end_of_tool_call{suffix}>"].map(str::to_owned).to_vec(),
        parameter: Tag::direct("<arg_key{suffix}>", "</arg_key{suffix}>"),
        value_open: "<arg_value{suffix}>".to_owned(),
        value_close: "</arg_value{suffix}>".to_owned(),
        ..Tagged::default()
    };
    Dialect::new("hy_v3")
        .models(["hy3", "hunyuan-3"])
        .thoughts("<think{suffix}>", "</think{suffix}>")
        .form(Form::new(Body::Tagged(body)).shared().between("<tool_calls{suffix}>", "</tool_calls{suffix}>"))
        .example(
            "<tool_calls>\n<tool_call>get_weather<tool_sep>\n<arg_key>city</arg_key>\n\
             <arg_value>Oslo</arg_value>\n</tool_call>\n</tool_calls>",
        )
}
