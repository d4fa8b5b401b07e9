use super::super::spec::{Body, Dialect, Form, Tag, Tagged};

pub(super) fn dialect() -> Dialect {
    Dialect::new("qwen3_coder")
        .aliases(["qwen3_xml", "mimo", "holo2"])
        .models(["qwen3-coder", "qwen3.6", "qwen3.8", "mimo-v2", "holo2"])
        .thoughts("<think>", "</think>")
        .form(Form::new(Body::Tagged(Tagged::function())).between("<tool_call>", "</tool_call>"))
        // What models make of its tags.
        .form(spelled(Tag::direct("<function=", ">"), Tag::with_attribute("<parameter", "name", ">")))
        .form(spelled(
            Tag::with_attribute("<function", "name", ">"),
            Tag::with_attribute("<parameter", "name", ">"),
        ))
        .form(spelled(Tag::direct("<function =", ">"), Tag::direct("<parameter =", ">")))
        .form(Form::json().between("<tool_call>", "</tool_call>"))
        .example(
            "<tool_call>\n<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n</function>\n</tool_call>",
        )
        .result("<tool_response>\n{content}\n</tool_response>")
        .declaration("<tools>\n{tools}\n</tools>")
}

fn spelled(call: Tag, parameter: Tag) -> Form {
    let body = Tagged { call, parameter, ..Tagged::function() };
    Form::new(Body::Tagged(body)).between("<tool_call>", "</tool_call>")
}
