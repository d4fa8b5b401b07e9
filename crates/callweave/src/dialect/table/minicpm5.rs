use super::super::spec::{Body, Dialect, Form, Tag, Tagged};

pub(super) fn dialect() -> Dialect {
    let body = Tagged {
        call: Tag::with_attribute("<function", "name", ">"),
        call_close: vec!["</function>".to_owned()],
        parameter: Tag::with_attribute("<param", "name", ">"),
        value_close: "</param>".to_owned(),
        entities: true,
        ..Tagged::default()
    };
    Dialect::new("minicpm5")
        .models(["minicpm5", "minicpm-5"])
        .thoughts("<think>", "</think>")
        .form(Form::new(Body::Tagged(body)))
        .example("<function name=\"get_weather\"><param name=\"city\">Oslo</param></function>")
}
