pub(in crate::dialect) mod entities;

use crate::dialect::spec::{Body, Dialect, Form, Tag, Tagged};

pub(super) fn dialect() -> Dialect {
    // The longer word is what other models have taught it.
    let form = |word: &str| {
        Form::new(Body::Tagged(Tagged {
            call: Tag::with_attribute("<function", "name", ">"),
            call_close: vec!["</function>".to_owned()],
            parameter: Tag::with_attribute(&format!("<{word}"), "name", ">"),
            value_close: format!("</{word}>"),
            entities: true,
            ..Tagged::default()
        }))
    };
    Dialect::new("minicpm5")
        .models(["minicpm5", "minicpm-5"])
        .thoughts("<think>", "</think>")
        .form(form("param"))
        .form(form("parameter"))
        .example("<function name=\"get_weather\"><param name=\"city\">Oslo</param></function>")
}
