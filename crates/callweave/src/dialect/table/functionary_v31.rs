use super::super::spec::{CallBody, Dialect, CallForm, HeaderBody};

pub(super) fn dialect() -> Dialect {
    Dialect::new("functionary_v31")
        .models(["functionary-small-v3.1", "functionary-v3.1"])
        .form(CallForm::new(CallBody::Header(HeaderBody::until([">"]))).between("<function=", "</function>"))
        .markup(["<|eom_id|>", "<|eot_id|>"])
        .example("<function=get_weather>{\"city\": \"Oslo\"}</function>")
}
