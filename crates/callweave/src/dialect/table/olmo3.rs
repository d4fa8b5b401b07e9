use super::super::spec::{CallBody, Dialect, CallForm};

pub(super) fn dialect() -> Dialect {
    Dialect::new("olmo3")
        .models(["olmo-3"])
        .reasoning("<think>", "</think>")
        .form(CallForm::new(CallBody::Python {}).shared().between("<function_calls>", "</function_calls>"))
        .example("<function_calls>get_weather(city='Oslo')</function_calls>")
        .declaration("<functions>{list}</functions>")
}
