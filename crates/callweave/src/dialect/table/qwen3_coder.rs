use super::super::spec::{CallBody, ChildrenBody, Dialect, CallForm, NamedTag, TaggedBody};

pub(super) fn dialect() -> Dialect {
    let strict = TaggedBody { spellings: parameters()[1..].to_vec(), ..TaggedBody::function() };
    let mut dialect = Dialect::new("qwen3_coder")
        .aliases(["qwen3_xml", "mimo", "holo2"])
        .models(["qwen3-coder", "qwen3.6", "qwen3.8", "mimo-v2", "holo2"])
        .reasoning("<think>", "</think>")
        .form(wrapped(CallBody::Tagged(strict)));
    // Variants that models write of its tags: other words and positions for the names, and parameters as elements.
    for (call, close) in calls() {
        let call_close = vec![close.to_owned()];
        let tagged = TaggedBody { call: call.clone(), call_close, spellings: parameters().to_vec(), ..TaggedBody::function() };
        let children = ChildrenBody { call, call_close: close.to_owned() };
        dialect = dialect.form(wrapped(CallBody::Tagged(tagged))).form(wrapped(CallBody::Children(children)));
    }
    dialect
        .form(CallForm::json().between("<tool_call>", "</tool_call>"))
        .example(
            "<tool_call>\n<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n</function>\n</tool_call>",
        )
        .result("<tool_response>\n{content}\n</tool_response>")
        .declaration("<tools>\n{tools}\n</tools>")
}

/// The ways to spell the tag of a call, and its closer.
fn calls() -> [(NamedTag, &'static str); 7] {
    [
        (NamedTag::direct("<function=", ">"), "</function>"),
        (NamedTag::with_attribute("<function", "name", ">"), "</function>"),
        (NamedTag::direct("<function =", ">"), "</function>"),
        (NamedTag::direct("<function>", "</function>"), "</function>"),
        (NamedTag::direct("<call=", ">"), "</call>"),
        (NamedTag::direct("<tool=", ">"), "</tool>"),
        (NamedTag::direct("<invoke=", ">"), "</invoke>"),
    ]
}

/// The ways to spell the tag of a parameter.
fn parameters() -> [NamedTag; 4] {
    [
        NamedTag::direct("<parameter=", ">"),
        NamedTag::with_attribute("<parameter", "name", ">"),
        NamedTag::direct("<parameter =", ">"),
        NamedTag::direct("<parameter>", "</parameter>"),
    ]
}

fn wrapped(body: CallBody) -> CallForm {
    CallForm::new(body).between("<tool_call>", "</tool_call>")
}
