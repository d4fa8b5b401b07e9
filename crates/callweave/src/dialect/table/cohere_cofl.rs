use super::super::spec::{CallBody, Dialect, CallForm, NamedTag, TaggedBody};

pub(super) fn dialect() -> Dialect {
    let form = |parameter: &str, type_attribute: &str| {
        let body = TaggedBody {
            call: NamedTag::with_attribute("<cofl:tool_call", "name", ">"),
            call_close: vec!["</cofl:tool_call>".to_owned()],
            parameter: NamedTag::with_attribute(&format!("<cofl:{parameter}"), "name", ">"),
            value_close: format!("</cofl:{parameter}>"),
            type_attribute: Some(type_attribute.to_owned()),
            entities: true,
            ..TaggedBody::default()
        };
        CallForm::new(CallBody::Tagged(body)).shared().between("<cofl:tool_calls>", "</cofl:tool_calls>")
    };
    Dialect::new("cohere_cofl")
        .aliases(["cohere_command5", "cofl"])
        .reasoning("<|START_THINKING|>", "<|END_THINKING|>")
        .form(form("tool_param", "string"))
        // Values that may hold values.
        .form(form("value", "type"))
        .markup([
            "<|START_RESPONSE|>",
            "<|END_RESPONSE|>",
            "<|START_TEXT|>",
            "<|END_TEXT|>",
            "<|CHATBOT_TOKEN|>",
            "<|START_OF_TURN_TOKEN|>",
            "<|END_OF_TURN_TOKEN|>",
        ])
        .example(
            "<|START_THINKING|>A city.<|END_THINKING|><cofl:tool_calls><cofl:tool_call id=\"0\" name=\"get_weather\">\
             <cofl:tool_param name=\"city\" string=\"true\">Oslo</cofl:tool_param></cofl:tool_call></cofl:tool_calls>",
        )
}
