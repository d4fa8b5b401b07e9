use super::super::spec::{Body, Closer, Dialect, Form, Tag, Tagged, Trim};

pub(super) fn dialect() -> Dialect {
    let body = Tagged {
        call: Tag::direct("<function=", ">"),
        call_close: vec!["</function>".to_owned()],
        parameter: Tag::direct("<parameter=", ">"),
        value_close: "</parameter>".to_owned(),
        trim: Trim::LineBreak,
        closer: Closer::Confirmed,
        ..Tagged::default()
    };
    Dialect::new("qwen3_coder")
        .aliases(["qwen3_xml", "mimo", "holo2"])
        .models(["qwen3-coder", "qwen3.5", "qwen3.6", "qwen3.8", "qwen3-next", "mimo-v2", "holo2"])
        .thoughts("<think>", "</think>")
        .form(Form::new(Body::Tagged(body)).between("<tool_call>", "</tool_call>"))
        .form(Form::json().between("<tool_call>", "</tool_call>"))
        .example(
            "<tool_call>\n<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n</function>\n</tool_call>",
        )
        .result("<tool_response>\n{content}\n</tool_response>")
}
