use super::super::channel::Channels;
use super::super::spec::{Body, Dialect, Form, Header};

pub(super) fn dialect() -> Dialect {
    let arguments = Form::new(Body::Header(Header::default()))
        .close("<|call|>")
        .close("<|end|>")
        .close("<|return|>");
    Dialect::new("harmony")
        .aliases(["gpt_oss"])
        .models(["gpt-oss"])
        .channels(Channels::Harmony)
        .form(arguments)
        .example(
            "<|channel|>analysis<|message|>A city.<|end|><|start|>assistant<|channel|>commentary \
             to=functions.get_weather <|constrain|>json<|message|>{\"city\": \"Oslo\"}<|call|>",
        )
}
