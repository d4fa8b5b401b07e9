use super::super::spec::{Body, Dialect, Form, Tagged};

pub(super) fn dialect() -> Dialect {
    Dialect::new("seed_oss")
        .models(["seed-oss"])
        .thoughts("<seed:think>", "</seed:think>")
        .form(Form::new(Body::Tagged(Tagged::function())).between("<seed:tool_call>", "</seed:tool_call>"))
        .example(
            "<seed:tool_call>\n<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n</function>\n</seed:tool_call>",
        )
}
