use super::super::spec::{Body, Dialect, Form, Json};

pub(super) fn dialect() -> Dialect {
    let bare = Json { arguments_optional: false, ..Json::default() };
    Dialect::new("sarashina")
        .models(["sarashina"])
        .form(Form::json().open("<|tool_calls|>"))
        .form(Form::new(Body::Json(bare)))
        .example("<|tool_calls|>[{'name': 'get_weather', 'arguments': {'city': 'Oslo'}}]")
}
