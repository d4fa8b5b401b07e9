use super::super::spec::{Body, Closer, Dialect, Form, Tag, Tagged, Trim};

pub(super) fn dialect() -> Dialect {
    let body = Tagged {
        call: Tag::direct("<function=", ">"),
        call_close: vec!["</function>".to_owned()],
        parameter: Tag::direct("<parameter=", ">"),
        value_close: "</parameter>".to_owned(),
        trim: Trim::LineBreak,
        closer: Closer::Confirmed,
        ..Tagged::default()
    };
    Dialect::new("seed_oss")
        .models(["seed-oss"])
        .thoughts("<seed:think>", "</seed:think>")
        .form(Form::new(Body::Tagged(body)).between("<seed:tool_call>", "</seed:tool_call>"))
        .example(
            "<seed:tool_call>\n<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n</function>\n</seed:tool_call>",
        )
}
