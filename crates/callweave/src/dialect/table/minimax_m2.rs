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
    Dialect::new("minimax_m2")
        .models(["minimax-m2"])
        .thoughts("<think>", "</think>")
        .form(Form::new(Body::Tagged(body)).shared().between("<minimax:tool_call>", "</minimax:tool_call>"))
        .example(
            "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">Oslo</parameter>\n\
             </invoke>\n</minimax:tool_call>",
        )
        .result("<response>{content}</response>")
}
