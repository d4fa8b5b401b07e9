use super::super::spec::{Body, Dialect, Form, Tagged};

pub(super) fn dialect() -> Dialect {
    Dialect::new("anthropic")
        .models(["claude"])
        .thoughts("<think>", "</think>")
        .form(Form::new(Body::Tagged(Tagged::invoke(""))).shared().between("<function_calls>", "</function_calls>"))
        .example(
            "<function_calls>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">Oslo</parameter>\n\
             </invoke>\n</function_calls>",
        )
        .result("<function_results>\n<result>\n<tool_name>{name}</tool_name>\n<output>{content}</output>\n</result>\n</function_results>")
}
