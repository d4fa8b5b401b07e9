use super::super::spec::{CallBody, Dialect, CallForm, HeaderBody, JsonBody};

pub(super) fn dialect() -> Dialect {
    let bare = JsonBody { arguments_optional: false, ..JsonBody::default() };
    Dialect::new("llama3_json")
        .aliases(["llama4_json"])
        .models(["llama-3.1", "llama-3.2", "llama-3.3", "llama3"])
        .form(CallForm::json().open("<|python_tag|>"))
        .form(CallForm::new(CallBody::Python {}).open("<|python_tag|>"))
        .form(CallForm::new(CallBody::Header(HeaderBody::until([">"]))).between("<function=", "</function>"))
        .form(CallForm::new(CallBody::Json(bare)))
        .markup(["<|eom_id|>", "<|eot_id|>", "<|eom|>", "<|eot|>"])
        .example("{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Oslo\"}}")
}
