use super::super::spec::{CallBody, Dialect, CallForm, NamedTag, TaggedBody};

pub(super) fn dialect() -> Dialect {
    let body = |open: &str| TaggedBody {
        call: NamedTag::with_attribute(open, "tool", "<|sep|>"),
        call_close: vec!["<|close|>call<|sep|>".to_owned()],
        parameter: NamedTag::with_attribute("<|open|>argument", "key", "<|sep|>"),
        value_close: "<|close|>argument<|sep|>".to_owned(),
        type_attribute: Some("type".to_owned()),
        ..TaggedBody::default()
    };
    Dialect::new("kimi_k3")
        .models(["kimi-k3", "kimi_k3"])
        .reasoning("<|open|>think<|sep|>", "<|close|>think<|sep|>")
        .form(CallForm::new(CallBody::Tagged(body("<|open|>call"))))
        // Where a proxy takes tokens out.
        .form(CallForm::new(CallBody::Tagged(body("<|open|>toolscall"))))
        .markup([
            "<|open|>response<|sep|>",
            "<|close|>response<|sep|>",
            "<|open|>tools<|sep|>",
            "<|close|>tools<|sep|>",
            "<|close|>message<|sep|>",
            "<|close|>toolsmessage<|sep|>",
        ])
        .example(
            "<|open|>tools<|sep|><|open|>call tool=\"get_weather\" index=\"1\"<|sep|>\
             <|open|>argument key=\"city\" type=\"string\"<|sep|>Oslo<|close|>argument<|sep|>\
             <|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|>",
        )
}
