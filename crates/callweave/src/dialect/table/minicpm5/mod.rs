pub(in crate::dialect) mod entities;

use crate::dialect::spec::{CallBody, Dialect, CallForm, NamedTag, TaggedBody};

pub(super) fn dialect() -> Dialect {
    // The model learned the longer word from other models.
    let form = |word: &str| {
        CallForm::new(CallBody::Tagged(TaggedBody {
            call: NamedTag::with_attribute("<function", "name", ">"),
            call_close: vec!["</function>".to_owned()],
            parameter: NamedTag::with_attribute(&format!("<{word}"), "name", ">"),
            value_close: format!("</{word}>"),
            entities: true,
            ..TaggedBody::default()
        }))
    };
    Dialect::new("minicpm5")
        .models(["minicpm5", "minicpm-5"])
        .reasoning("<think>", "</think>")
        .form(form("param"))
        .form(form("parameter"))
        .example("<function name=\"get_weather\"><param name=\"city\">Oslo</param></function>")
}
