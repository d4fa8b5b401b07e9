use super::super::spec::{CallBody, Dialect, CallForm, JsonBody};

pub(super) fn dialect() -> Dialect {
    let bare = JsonBody { arguments_optional: false, ..JsonBody::default() };
    Dialect::new("sarashina")
        .models(["sarashina"])
        .form(CallForm::json().open("<|tool_calls|>"))
        .form(CallForm::new(CallBody::Json(bare)))
        .example("<|tool_calls|>[{'name': 'get_weather', 'arguments': {'city': 'Oslo'}}]")
}
