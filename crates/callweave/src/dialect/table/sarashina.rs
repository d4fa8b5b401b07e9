use super::super::spec::{CallBody, Dialect, CallForm, JsonBody};

pub(super) fn dialect() -> Dialect {
    let body = JsonBody { single_quotes: true, ..JsonBody::default() };
    let bare = JsonBody { arguments_optional: false, ..body.clone() };
    Dialect::new("sarashina")
        .models(["sarashina"])
        .form(CallForm::new(CallBody::Json(body)).open("<|tool_calls|>"))
        .form(CallForm::new(CallBody::Json(bare)))
        .example("<|tool_calls|>[{'name': 'get_weather', 'arguments': {'city': 'Oslo'}}]")
}
