use super::super::spec::{CallBody, Dialect, CallForm, TaggedBody};

pub(super) fn dialect() -> Dialect {
    Dialect::new("minimax_m2")
        .models(["minimax-m2"])
        .reasoning("<think>", "</think>")
        .form(CallForm::new(CallBody::Tagged(TaggedBody::invoke(""))).shared().between("<minimax:tool_call>", "</minimax:tool_call>"))
        .example(
            "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">Oslo</parameter>\n\
             </invoke>\n</minimax:tool_call>",
        )
        .result("<response>{content}</response>")
        .declaration("<tools>\n{tools}\n</tools>")
}
