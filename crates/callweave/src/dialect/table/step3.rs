use super::super::spec::{CallBody, Dialect, CallForm, TaggedBody};

pub(super) fn dialect() -> Dialect {
    Dialect::new("step3")
        .models(["step-3", "step3"])
        .reasoning("<think>", "</think>")
        .form(
            CallForm::new(CallBody::Tagged(TaggedBody::invoke("steptml:")))
                .between("<｜tool_call_begin｜>function<｜tool_sep｜>", "<｜tool_call_end｜>")
                .open("<｜tool_call_begin｜>"),
        )
        .markup(["<｜tool_calls_begin｜>", "<｜tool_calls_end｜>", "<｜tool_call_end｜>"])
        .example(
            "<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name=\"get_weather\">\
             <steptml:parameter name=\"city\">Oslo</steptml:parameter></steptml:invoke><｜tool_call_end｜>\
             <｜tool_calls_end｜>",
        )
}
