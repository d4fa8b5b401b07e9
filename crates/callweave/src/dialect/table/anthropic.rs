use super::super::spec::{Body, Closer, Dialect, Form, Tag, Tagged};

pub(super) fn dialect() -> Dialect {
    let body = Tagged {
        call: Tag::with_attribute("<invoke", "name", ">"),
        call_close: vec!["</invoke>".to_owned()],
        parameter: Tag::with_attribute("<parameter", "name", ">"),
        value_close: "</parameter>".to_owned(),
        closer: Closer::Confirmed,
        ..Tagged::default()
    };
    Dialect::new("anthropic")
        .models(["claude"])
        .thoughts("<think>", "</think>")
        .form(Form::new(Body::Tagged(body)).shared().between("<function_calls>", "</function_calls>"))
        .example(
            "<function_calls>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">Oslo</parameter>\n\
             </invoke>\n</function_calls>",
        )
        .result("<function_results>\n<result>\n<tool_name>{name}</tool_name>\n<output>{content}</output>\n</result>\n</function_results>")
}
