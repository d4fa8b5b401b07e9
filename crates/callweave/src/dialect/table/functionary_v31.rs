use super::super::spec::{Body, Dialect, Form, Header};

pub(super) fn dialect() -> Dialect {
    Dialect::new("functionary_v31")
        .models(["functionary-small-v3.1", "functionary-v3.1"])
        .form(Form::new(Body::Header(Header::until([">"]))).between("<function=", "</function>"))
        .markup(["<|eom_id|>", "<|eot_id|>"])
        .example("<function=get_weather>{\"city\": \"Oslo\"}</function>")
}
