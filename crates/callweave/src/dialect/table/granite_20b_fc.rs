use super::super::spec::{Dialect, CallForm};

pub(super) fn dialect() -> Dialect {
    Dialect::new("granite_20b_fc")
        .models(["granite-20b-functioncalling"])
        .form(CallForm::json().between("<function_call>", "</function_call>"))
        .example("<function_call> {\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}")
}
