use super::super::spec::{Body, Dialect, Form, Tagged};

pub(super) fn dialect() -> Dialect {
    Dialect::new("dots")
        .models(["dots.llm", "dots-llm"])
        .form(Form::new(Body::Tagged(Tagged::invoke(""))).shared().between("<dots_function_call>", "</dots_function_call>"))
        .form(Form::json().between("<dots_function_call>", "</dots_function_call>"))
        .example(
            "<dots_function_call><invoke name=\"get_weather\"><parameter name=\"city\">Oslo</parameter></invoke>\
             </dots_function_call>",
        )
}
