use super::super::spec::{CallBody, Dialect, CallForm, TaggedBody};

pub(super) fn dialect() -> Dialect {
    let form = |prefix: &str| {
        let (open, close) = (format!("<{prefix}function_calls>"), format!("</{prefix}function_calls>"));
        CallForm::new(CallBody::Tagged(TaggedBody::invoke(prefix))).shared().between(&open, &close)
    };
    Dialect::new("anthropic")
        .models(["claude"])
        .reasoning("<think>", "</think>")
        .form(form(""))
        .form(form("antml:"))
        .example(
            "<function_calls>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">Oslo</parameter>\n\
             </invoke>\n</function_calls>",
        )
        .result("<function_results>\n<result>\n<tool_name>{name}</tool_name>\n<output>{content}</output>\n</result>\n</function_results>")
}
