use super::super::spec::{CallBody, Dialect, CallForm, TaggedBody};

pub(super) fn dialect() -> Dialect {
    Dialect::new("dots")
        .models(["dots.llm", "dots-llm"])
        .form(CallForm::new(CallBody::Tagged(TaggedBody::invoke(""))).shared().between("<dots_function_call>", "</dots_function_call>"))
        .form(CallForm::json().between("<dots_function_call>", "</dots_function_call>"))
        .example(
            "<dots_function_call><invoke name=\"get_weather\"><parameter name=\"city\">Oslo</parameter></invoke>\
             </dots_function_call>",
        )
}
