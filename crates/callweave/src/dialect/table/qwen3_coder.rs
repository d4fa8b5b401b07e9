use super::super::spec::{Body, Children, Dialect, Form, Tag, Tagged};

pub(super) fn dialect() -> Dialect {
    let strict = Tagged { spellings: parameters()[1..].to_vec(), ..Tagged::function() };
    let mut dialect = Dialect::new("qwen3_coder")
        .aliases(["qwen3_xml", "mimo", "holo2"])
        .models(["qwen3-coder", "qwen3.6", "qwen3.8", "mimo-v2", "holo2"])
        .thoughts("<think>", "</think>")
        .form(wrapped(Body::Tagged(strict)));
    // What models make of its tags: other words and places for the names, and parameters as elements.
    for (call, close) in calls() {
        let call_close = vec![close.to_owned()];
        let tagged = Tagged { call: call.clone(), call_close, spellings: parameters().to_vec(), ..Tagged::function() };
        let children = Children { call, call_close: close.to_owned() };
        dialect = dialect.form(wrapped(Body::Tagged(tagged))).form(wrapped(Body::Children(children)));
    }
    dialect
        .form(Form::json().between("<tool_call>", "</tool_call>"))
        .example(
            "<tool_call>\n<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n</function>\n</tool_call>",
        )
        .result("<tool_response>\n{content}\n</tool_response>")
        .declaration("<tools>\n{tools}\n</tools>")
}

/// The ways to spell the tag of a call, and what ends it.
fn calls() -> [(Tag, &'static str); 7] {
    [
        (Tag::direct("<function=", ">"), "</function>"),
        (Tag::with_attribute("<function", "name", ">"), "</function>"),
        (Tag::direct("<function =", ">"), "</function>"),
        (Tag::direct("<function>", "</function>"), "</function>"),
        (Tag::direct("<call=", ">"), "</call>"),
        (Tag::direct("<tool=", ">"), "</tool>"),
        (Tag::direct("<invoke=", ">"), "</invoke>"),
    ]
}

/// The ways to spell the tag of a parameter.
fn parameters() -> [Tag; 4] {
    [
        Tag::direct("<parameter=", ">"),
        Tag::with_attribute("<parameter", "name", ">"),
        Tag::direct("<parameter =", ">"),
        Tag::direct("<parameter>", "</parameter>"),
    ]
}

fn wrapped(body: Body) -> Form {
    Form::new(body).between("<tool_call>", "</tool_call>")
}
