use super::super::spec::{CallBody, Dialect, CallForm, TaggedBody};

pub(super) fn dialect() -> Dialect {
    Dialect::new("seed_oss")
        .models(["seed-oss"])
        .reasoning("<seed:think>", "</seed:think>")
        .form(CallForm::new(CallBody::Tagged(TaggedBody::function())).between("<seed:tool_call>", "</seed:tool_call>"))
        .example(
            "<seed:tool_call>\n<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n</function>\n</seed:tool_call>",
        )
}
