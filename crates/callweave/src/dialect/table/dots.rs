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
    Dialect::new("dots")
        .models(["dots.llm", "dots-llm"])
        .form(Form::new(Body::Tagged(body)).shared().between("<dots_function_call>", "</dots_function_call>"))
        .form(Form::json().between("<dots_function_call>", "</dots_function_call>"))
        .example(
            "<dots_function_call><invoke name=\"get_weather\"><parameter name=\"city\">Oslo</parameter></invoke>\
             </dots_function_call>",
        )
}
