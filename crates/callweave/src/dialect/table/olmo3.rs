use super::super::spec::{Body, Dialect, Form, Python};

pub(super) fn dialect() -> Dialect {
    let body = Python { bare: true };
    Dialect::new("olmo3")
        .models(["olmo-3"])
        .thoughts("<think>", "</think>")
        .form(Form::new(Body::Python(body)).shared().between("<function_calls>", "</function_calls>"))
        .example("<function_calls>get_weather(city='Oslo')</function_calls>")
}
